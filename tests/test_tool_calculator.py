"""The break-even calculator: its data against the records, its sums against those of the comparison tool."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kitchen import data, results
from kitchen.context import LANGUAGES, Language
from kitchen.tools import calculator
from snippets.measuring import compare_backends as tool
from tests import node
from tests.page_tree import Tree, backend_row, four_backends, use

Case = dict[str, Any]
Row = dict[str, Any]

#: Evaluates cases in the way of the page: [[case, options], ...] in, the entries and the pick out.
SCRIPT = """
given.map(({ one, report, index, options }) => {
  const asked = report === undefined ? one : reports.readReport(report).cases[index];
  const { entries, chosen, best } = logic.evaluate(asked, options);
  return {
    chosen: chosen?.key ?? null, best: best?.key ?? null,
    entries: Object.fromEntries(entries.map(({ row, ...entry }) => [entry.key, entry])),
  };
})
"""


def evaluated(asked: list[Case]) -> list[dict[str, Any]]:
    modules = {"logic": "calculator/logic.js", "reports": "calculator/report.js"}
    found: list[dict[str, Any]] = node.answer(SCRIPT, asked, **modules)
    assert len(found) == len(asked)
    return found


def recorded() -> Iterator[tuple[str, Case, list[Row]]]:
    """Each case of the calculator from a record of the comparison tool, with the rows that it was made from."""
    cases = [case for case in calculator.payload("en").data["cases"] if case["rows"]]
    for name in calculator.sources():
        if name == calculator.OVERVIEW:
            continue
        for view in data.views(name):
            path = view.record.path.relative_to(results.RESULTS).as_posix()
            for case in (case for case in cases if case["record"] == path):
                rows = [
                    row
                    for row in view.record.rows
                    if (calculator.slug(row["model"]), calculator.slug(row["workload"]))
                    == (case["model"], case["work"])
                ]
                yield f"{view.machine.name} {case['model']} {case['work']}", case, rows


def same(shown: float | None, expected: float | None) -> bool:
    """Equal but for the last bits."""
    if shown is None or expected is None:
        return shown is expected
    return math.isclose(shown, expected, rel_tol=1e-12, abs_tol=1e-12)


def same_count(shown: int | None, expected: int | None) -> bool:
    """Equal, or one step apart where rounding up meets the last bit."""
    if shown is None or expected is None:
        return shown is expected
    return abs(shown - expected) <= 1


def differences(name: str, start: str, shown: dict[str, Any], rows: list[Row]) -> list[str]:
    """What the calculator says otherwise than the columns of rows of the comparison tool."""
    wrong = []
    for row in rows:
        if row["variant"] == tool.AGAIN:
            continue
        entry = shown["entries"][row["variant"]]
        plain = row["variant"] == "eager"
        pairs = {
            "total": (entry["total"], row[f"total_{start}_s"], same),
            "R": (entry["r"], row[f"payoff_{start}_r"], same),
            "saved": (None if plain else entry["saved"], None if plain else row["saved_us"], same),
            "N*": (entry["nStar"], row[f"break_even_{start}"], same_count),
            "N* low": (entry["nLow"], row[f"break_even_{start}_low"], same_count),
            "N* high": (entry["nHigh"], row[f"break_even_{start}_high"], same_count),
            "pick": (shown["chosen"] == row["variant"], row[f"pick_{start}"], lambda one, other: one == other),
        }
        wrong += [
            f"{name} {start} {row['variant']} {what}: {got}, the tool has {wanted}"
            for what, (got, wanted, equal) in pairs.items()
            if not equal(got, wanted)
        ]
        if row["break_even_text"] == "never" and entry["nStar"] is not None:
            wrong.append(f"{name} {start} {row['variant']}: claims an N* where the tool says never")
    return wrong


def test_every_record_is_computed_as_the_comparison_tool_did() -> None:
    found = list(recorded())
    asked = [
        {"one": case, "options": {"steps": rows[0]["steps"], "start": start}}
        for _, case, rows in found
        for start in ("cold", "warm")
    ]
    shown = iter(evaluated(asked))
    wrong = [
        line
        for name, _, rows in found
        for start in ("cold", "warm")
        for line in differences(name, start, next(shown), rows)
    ]
    judged = [row for _, _, rows in found for row in rows if row["variant"] not in ("eager", tool.AGAIN)]
    print(f"{len(found)} cases, {len(judged)} rows, {sum(row['verdict'] == 'faster' for row in judged)} of them faster")
    assert wrong == []
    assert len(judged) >= 20
    assert any(row["break_even_cold"] for row in judged)
    # ResNet-18 is what the tool opens with.
    assert any(case["model"] == "resnet18" for _, case, _ in found)


def as_rows(rows: list[Row], compiles: int, steps: int) -> list[tool.Row]:
    """The rows as the comparison tool would fill them for ``steps`` steps and ``compiles`` equal compiles."""
    names = {item.name for item in dataclasses.fields(tool.Row)}
    made = []
    for row in rows:
        again = tool.Row(**{key: value for key, value in row.items() if key in names})
        for start in ("cold", "warm"):
            for end in ("", "_low", "_high"):
                column = f"compile_{start}{end}_s"
                if (value := getattr(again, column)) is not None:
                    setattr(again, column, compiles * value)
            for column in ("total_{}_s", "payoff_{}_r", "break_even_{}", "break_even_{}_low", "break_even_{}_high"):
                setattr(again, column.format(start), None)
            setattr(again, f"pick_{start}", False)
        again.break_even_text = None
        made.append(again)
    tool.add_sums(made, steps)
    for start in ("cold", "warm"):
        chosen, _ = tool.pick(made, start)
        assert chosen is not None
        setattr(chosen, f"pick_{start}", True)
    return made


@pytest.mark.parametrize(("compiles", "steps"), [(1, 1), (1, 7_777_777), (3, 10_000), (8, 250_000), (5, 123_456_789)])
def test_other_counts_of_steps_and_compiles_as_computed_in_python(compiles: int, steps: int) -> None:
    found = list(recorded())
    asked = [
        {"one": case, "options": {"steps": steps, "start": start, "compiles": compiles}}
        for _, case, _ in found
        for start in ("cold", "warm")
    ]
    shown = iter(evaluated(asked))
    wrong: list[str] = []
    for name, _, rows in found:
        expected = [dataclasses.asdict(row) for row in as_rows(rows, compiles, steps)]
        for start in ("cold", "warm"):
            wrong += differences(f"K={compiles} N={steps} {name}", start, next(shown), expected)
    assert wrong == []


def test_close_to_each_break_even_the_pick_is_that_of_the_tool() -> None:
    """Within the interval of N* the simpler variant is taken although the other total is less."""
    asked, expected = [], []
    for name, case, rows in recorded():
        for start in ("cold", "warm"):
            for row in rows:
                count, high = (row[f"break_even_{start}{end}"] for end in ("", "_high"))
                for steps in {count, (count + (high or 2 * count)) // 2, (high or 0) + 2} if count else ():
                    asked.append({"one": case, "options": {"steps": steps, "start": start}})
                    made = [dataclasses.asdict(again) for again in as_rows(rows, 1, steps)]
                    expected.append((f"N={steps} {name}", start, made))
    wrong = [
        line
        for (name, start, made), shown in zip(expected, evaluated(asked), strict=True)
        for line in differences(name, start, shown, made)
    ]
    assert wrong == []
    assert len(asked) >= 6


def made_up(**changes: Any) -> tool.Row:
    row = tool.Row(variant="inductor", call="", model="m:build", workload="inference", step_us=1000.0)
    row.speedup_ratio, row.speedup_low, row.speedup_high, row.verdict = 2.0, 1.9, 2.1, "faster"
    for start in ("cold", "warm"):
        tool.set_compile(row, start, [10.0] if start == "cold" else [2.0, 3.0])
    return dataclasses.replace(row, **changes)


def made_up_rows() -> list[tool.Row]:
    """What this machine's records may lack: no upper end, failures, a back end that did not run, a verdict missing."""
    eager = tool.Row(variant="eager", call="", model="m:build", workload="inference", step_us=2000.0, speedup_ratio=1.0)
    for start in ("cold", "warm"):
        tool.set_compile(eager, start, [0.0])
    longer = {f"compile_cold{end}_s": 40.0 for end in ("", "_low", "_high")}
    failed = made_up(variant="tvm")
    failed.fail("failed", 'no such\npackage, "tvm"', "missing package", "torch.compile")
    return [
        eager,
        dataclasses.replace(eager, variant=tool.AGAIN, speedup_low=0.99, speedup_high=1.01, verdict="no difference"),
        made_up(),
        made_up(variant="inductor:max-autotune", speedup_ratio=2.05, speedup_low=1.95, speedup_high=2.2, **longer),
        made_up(variant="cudagraphs", ran="no: the device is cpu"),
        made_up(variant="unclear", verdict=None, speedup_low=None, speedup_high=None),
        made_up(variant="openvino", verdict="slower", speedup_ratio=0.5, speedup_low=0.4, speedup_high=0.6),
        failed,
    ]


def as_report(rows: list[tool.Row]) -> tool.Report:
    report = tool.Report(tool.Settings(), rows)
    report.environment = {"device_name": "CPU", "torch": "2.13.0"}
    return report


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_report_that_the_tool_writes_is_read_and_computed_as_the_tool_did(form: str) -> None:
    groups = [("made up", as_rows([dataclasses.asdict(row) for row in made_up_rows()], 1, 10_000))]
    groups += [(name, as_rows(rows, 1, rows[0]["steps"])) for name, _, rows in recorded()]
    asked = []
    for _, rows in groups:
        report = as_report(rows)
        text = json.dumps(report.as_json()) if form == "json" else tool.as_csv(report)
        for start in ("cold", "warm"):
            asked.append({"report": text, "index": 0, "options": {"steps": rows[0].steps, "start": start}})
    shown = iter(evaluated(asked))
    wrong: list[str] = []
    for name, rows in groups:
        for start in ("cold", "warm"):
            wrong += differences(name, start, next(shown), [dataclasses.asdict(row) for row in rows])
    assert wrong == []


def test_the_overview_is_computed_as_its_record_says() -> None:
    views = [view for view in data.views(calculator.OVERVIEW) if view.ok]
    cases = [case for case in calculator.payload("en").data["cases"] if case["method"] == "medians"]
    assert len(cases) == len(views) > 0
    asked = [{"one": case, "options": {"steps": case_steps(view)}} for case, view in zip(cases, views, strict=True)]
    for view, shown in zip(views, evaluated(asked), strict=True):
        for row in view.record.rows:
            check_overview(row, shown)


def case_steps(view: data.View) -> int:
    steps: int = view.record.rows[0]["steps"]
    return steps


def check_overview(row: Row, shown: dict[str, Any]) -> None:
    name = {"none": "eager", "eager": "compile:eager"}.get(row["backend"], row["backend"])
    if row["backend"] == "none_again":
        return
    entry = shown["entries"][name]
    assert same(entry["total"], row["total_s"]), name
    assert same(entry["r"], row["payoff_r"]), name
    for key, column in (("nStar", "break_even"), ("nLow", "break_even_low"), ("nHigh", "break_even_high")):
        assert same_count(entry[key], row[column]), name


def overview_rows() -> list[Row]:
    """The overview's rows with an Inductor that is faster: this machine's record has none."""
    fast = backend_row("inductor") | {
        "step_us": 60.0, "speedup_ratio": 1.6, "speedup_low": 1.5, "speedup_high": 1.75, "verdict": "faster",
        "saved_us": 40.0, "total_s": 2.0 + 10_000 * 60e-6, "payoff_r": 0.2, "steps": 10_000,
        "break_even": 50_000,
        # Saved in proportion to 1 - 1/ratio: 40 x (1 - 1/1.75) / (1 - 1/1.6), and the same at 1.5.
        "break_even_low": math.ceil(2.0 / (40e-6 * (1 - 1 / 1.75) / (1 - 1 / 1.6))),
        "break_even_high": math.ceil(2.0 / (40e-6 * (1 - 1 / 1.5) / (1 - 1 / 1.6))),
    }  # fmt: skip
    return [backend_row("none"), fast]


def test_the_interval_of_the_overview_leaves_the_compile_time_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = Tree(tmp_path)
    use(tree, monkeypatch)
    rows = overview_rows()
    tree.record(calculator.OVERVIEW, rows)
    (case,) = calculator.payload("en").data["cases"]
    (shown,) = evaluated([{"one": case, "options": {"steps": 10_000}}])
    check_overview(rows[1], shown)


# ---- the data --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_data_has_the_rows_of_the_records(language: Language) -> None:
    told = calculator.payload(language).data
    keys = {name: {key for key, _ in told[name]} for name in ("machines", "models", "works")}
    seen = set()
    for case in told["cases"]:
        assert {case["machine"]} <= keys["machines"]
        assert {case["model"]} <= keys["models"]
        assert {case["work"]} <= keys["works"]
        assert (results.RESULTS / case["record"]).is_file()
        identity = (case["machine"], case["model"], case["work"])
        assert identity not in seen, "two cases under one address"
        seen.add(identity)
        if case["rows"]:
            assert [row["variant"] for row in case["rows"] if row.get("plain")] == ["eager"]
    assert ("resnet18", "inference") in {(case["model"], case["work"]) for case in told["cases"]}


def test_no_row_is_dropped() -> None:
    for name, case, rows in recorded():
        kept = [row["variant"] for row in case["rows"]]
        assert kept == [row["variant"] for row in rows if row["variant"] != tool.AGAIN], name
        for row, shown in zip((row for row in rows if row["variant"] != tool.AGAIN), case["rows"], strict=True):
            assert shown["status"] == row["status"]
            assert {column: row[column] for column in calculator.NUMBERS} == {c: shown[c] for c in calculator.NUMBERS}


def test_without_records_there_is_nothing_to_choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(Tree(tmp_path), monkeypatch)
    told = calculator.payload("zh").data
    assert (told["machines"], told["models"], told["cases"]) == ([], [], [])


def test_a_record_without_rows_says_why_and_a_failed_row_keeps_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path)
    use(tree, monkeypatch)
    tree.record("models/mlp", [], status="failed", reason="no compiler")
    tree.record(calculator.OVERVIEW, four_backends())
    told = {case["model"]: case for case in calculator.payload("en").data["cases"]}
    assert told["mlp"]["failed"] == "failed: no compiler"
    assert told["mlp"]["rows"] == []
    lost = [row for row in told["four_backends"]["rows"] if row["status"] != "ok"]
    assert lost
    assert all(row["note"] and row["note_words"] for row in lost)
    assert all(row["step_us"] is None for row in lost)


def test_names_for_the_address() -> None:
    names = ["resnet18:build", "gpt_decoder:build_decode", "demo_mlp", "inference (inference_mode)", "training + SGD"]
    slugs = ["resnet18", "gpt_decoder-decode", "demo_mlp", "inference-inference_mode", "training-SGD"]
    assert [calculator.slug(name) for name in names] == slugs
