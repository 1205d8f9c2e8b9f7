"""The trials of the tool (measuring/repeated_runs, measuring/tool_trials): their sums, failures, and once for real."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kitchen import child, results, snippet
from snippets.measuring import compare_backends, repeated_runs, tool_trials

REPO = Path(__file__).resolve().parent.parent
REFERENCE = "amd-epyc-turin-2vcpu"
Row = dict[str, Any]


# ---- repeated_runs


def made_up(model: str, method: str, number: int, steps: dict[str, float], **more: Any) -> list[Row]:
    """The rows of one run, as run() makes them."""
    winner = min(steps, key=lambda name: steps[name])
    common = {"kind": "run", "model": model, "method": method, "device": "cpu", "threads": 1, "status": "ok"}
    return [
        repeated_runs.EMPTY
        | common
        | {"run": number, "wall_s": 10.0 + number, "backend": name, "step_us": step, "chosen": name == winner}
        | {"speedup_ratio": steps["none"] / step}
        | more
        for name, step in steps.items()
    ]


def test_a_summary_counts_who_was_named_and_how_far_the_ratios_are_apart() -> None:
    rows = made_up("demo MLP", "usual recipe", 1, {"none": 100.0, "inductor": 80.0})
    rows += made_up("demo MLP", "usual recipe", 2, {"none": 100.0, "inductor": 125.0})
    rows += made_up("demo MLP", "usual recipe", 3, {"none": 100.0, "inductor": 200.0})
    lines = {line["backend"]: line for line in repeated_runs.summary(rows)}
    assert child.row_fault(list(lines.values())) is None
    assert [lines[name]["times_chosen"] for name in ("none", "inductor")] == [2, 1]
    assert lines["none"]["choices"] == 2
    inductor = lines["inductor"]
    assert (inductor["kind"], inductor["runs"]) == ("summary", 3)
    assert inductor["speedup_least_ratio"] == 0.5
    assert inductor["speedup_ratio"] == 0.8
    assert inductor["speedup_greatest_ratio"] == 1.25
    assert inductor["wall_s"] == 12.0
    assert inductor["verdict"] is None
    assert inductor["same_verdict"] is None


def test_a_summary_of_the_tool_counts_its_verdicts() -> None:
    steps = {"none": 100.0, "inductor": 80.0}
    rows: list[Row] = []
    for number, verdict in enumerate(("faster", "faster", "no difference"), 1):
        more = {"verdict": verdict, "chosen_cold": False, "outside_ratio": number / 10}
        rows += made_up("demo MLP", "compare_backends", number, steps, **more)
    line = repeated_runs.summary(rows)[1]
    assert [line[f"times_{name}"] for name in ("faster", "slower", "no_difference")] == [2, 0, 1]
    assert line["same_verdict"] == 2
    assert line["times_chosen_cold"] == 0
    assert line["outside_ratio"] == 0.2


def test_failed_runs_are_not_counted_and_all_failed_is_a_failed_summary() -> None:
    good = made_up("demo MLP", "usual recipe", 1, {"none": 100.0, "inductor": 80.0})
    bad = [row | {"status": "failed", "note": "it fell", "chosen": None, "speedup_ratio": None} for row in good]
    lines = repeated_runs.summary(good + bad)
    assert [line["runs"] for line in lines] == [1, 1]
    lines = repeated_runs.summary(bad)
    assert {line["status"] for line in lines} == {"failed"}
    assert lines[0]["note"] == "it fell"


def test_no_answer_in_time_is_a_failure(tmp_path: Path) -> None:
    failure, _ = repeated_runs.ended([sys.executable, "-c", "import time; time.sleep(60)"], {}, 0.2)
    assert failure == "no answer within 0.2 s"
    failure, _ = repeated_runs.ended([sys.executable, "-c", "raise SystemExit('broken')"], {}, 60)
    assert failure is not None
    assert "broken" in failure


@pytest.mark.slow
def test_both_methods_for_real() -> None:
    rows = repeated_runs.run(models=["demo MLP"], repeats=1, options=["--seconds", "0.3", "--processes", "2"])
    assert child.row_fault(rows) is None
    assert {row["status"] for row in rows} == {"ok"}, [row["note"] for row in rows]
    for method in repeated_runs.METHODS:
        mine = [row for row in rows if row["method"] == method]
        assert [row["backend"] for row in mine if row["kind"] == "run"] == list(repeated_runs.backends())
        assert sum(row["times_chosen"] for row in mine if row["kind"] == "summary") == 1


# ---- tool_trials


def trial(name: str, number: int, **more: Any) -> Row:
    common = {"kind": "trial", "trial": name, "model": "demo MLP", "run": number, "status": "ok", "device": "cpu"}
    return tool_trials.EMPTY | common | {"threads": 1, "method_version": 1} | more


def test_what_is_right_depends_on_the_trial() -> None:
    verdicts = ("no difference", "slower", "faster")
    for name, right in (("aa", 1), ("planted", 1)):
        rows = [trial(name, n, verdict=verdict, speedup_ratio=0.9 + n / 10) for n, verdict in enumerate(verdicts)]
        line = tool_trials.summary(rows)
        assert child.row_fault([line]) is None
        assert (line["runs"], line["right"]) == (3, right)
        assert (line["speedup_least_ratio"], line["speedup_greatest_ratio"]) == (0.9, 1.1)


def test_the_farthest_from_timer_is_what_counts() -> None:
    rows = [trial("timer", 1, agreement_ratio=ratio) for ratio in (1.01, 0.97, 1.0)]
    assert tool_trials.summary(rows)["agreement_ratio"] == 0.97


def test_a_trial_that_failed() -> None:
    line = tool_trials.summary([trial("aa", 1, status="failed", note="it fell")])
    assert (line["status"], line["note"], line["right"]) == ("failed", "it fell", None)


@pytest.mark.slow
def test_a_planted_slowdown_for_real() -> None:
    rows = tool_trials.run(aa_runs=0, planted_runs=1, timer_runs=0, models=["demo MLP"])
    assert child.row_fault(rows) is None
    assert [row["status"] for row in rows] == ["ok", "ok"], rows[0]["note"]
    assert 0.8 < rows[1]["speedup_ratio"] < 1.0


@pytest.mark.slow
def test_against_timer_for_real(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(tool_trials, "TIMER_BLOCKS", 3)
    tool_trials.main(["--timer", "demo MLP"])
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [row["backend"] for row in rows] == ["none", "inductor"]
    assert all(0.5 < row["agreement_ratio"] < 2 for row in rows)


# ---- what the records of the reference machine must show; elsewhere a miss is a result like any other


def reference(name: str) -> list[Row]:
    """The summaries of the reference machine's newest record."""
    record = results.newest(REPO / "results", name)[REFERENCE]
    return [row for row in record.rows if row["kind"] == "summary"]


@pytest.mark.parametrize("name", ["measuring/repeated_runs", "measuring/tool_trials"])
def test_the_trials_were_of_the_method_that_the_tool_has_now(name: str) -> None:
    assert snippet.load(name).on_request
    for record in results.newest(REPO / "results", name).values():
        versions = {row["method_version"] for row in record.rows if row.get("method_version")}
        assert versions == {compare_backends.METHOD}, "the tool measures otherwise now: put it on trial again"


def test_the_tool_agrees_with_itself() -> None:
    lines = [row for row in reference("measuring/repeated_runs") if row["method"] == "compare_backends"]
    assert {row["model"] for row in lines} == set(repeated_runs.MODELS)
    for row in lines:
        assert row["runs"] == 20
        assert (row["same_verdict"] or 20) >= 19, row
        assert row["times_chosen"] in (0, 1, 19, 20), row
        assert row["times_chosen_cold"] in (0, 1, 19, 20), row
        assert row["outside_ratio"] <= 0.2, row


def test_the_tool_claims_what_is_there_and_nothing_else() -> None:
    lines = reference("measuring/tool_trials")
    assert {row["trial"] for row in lines} == {"aa", "planted", "timer"}
    for row in lines:
        if row["trial"] == "aa":
            assert row["runs"] == 40
            assert row["right"] >= 38, row
        elif row["trial"] == "planted":
            assert row["runs"] == 10
            assert row["right"] >= 9, row
        else:
            assert abs(row["agreement_ratio"] - 1) <= 0.03, row
