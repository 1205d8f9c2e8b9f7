"""Mixing back ends by submodule: which back end sees what, and whether a mix beats the best single one."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import pytest

from kitchen import verdicts, verdicts_mixing
from kitchen.context import LANGUAGES, Language
from tests.page_tree import parse
from tests.snippet_rows import check_rows
from tests.test_snippets import load, run_alone

torch = pytest.importorskip("torch")

Row = dict[str, Any]

TRAPS, SPEED = "third_party/mixing_traps", "third_party/mixing_speed"
SNIPPETS = Path(__file__).parents[1] / "snippets"
KINDS = ("way", "lost", "state", "hook", "boundary")
OPENVINO = importlib.util.find_spec("openvino") is not None
COUNTS = ("encoder_graphs", "decoder_graphs", "outer_graphs")


@functools.cache
def traps() -> list[Row]:
    """The rows of the traps, run once for all tests."""
    return run_alone(TRAPS, {})


def trap(kind: str, case: str) -> Row:
    """One row."""
    (row,) = (row for row in traps() if (row["kind"], row["case"]) == (kind, case))
    return row


def graphs(kind: str, case: str) -> tuple[Any, ...]:
    """What the back ends of encoder, decoder and outer compile got."""
    row = trap(kind, case)
    return tuple(row[name] for name in COUNTS)


@functools.cache
def speed() -> list[Row]:
    """The rows of a short measurement of one model, with Inductor only."""
    budget = {"models": ["segmenter"], "backends": ["none", "inductor"], "choosing": 1, "judging": 2}
    return run_alone(SPEED, budget | {"rounds": 2, "block_ms": 1.0})


# ---------------------------------------------------------------- traps


@pytest.mark.slow
def test_traps_keep_the_contract() -> None:
    check_rows(TRAPS, traps())
    assert {row["kind"] for row in traps()} == set(KINDS)
    for row in traps():
        assert row["status"] == "ok" or (not OPENVINO and row["package"] == "openvino"), row
        assert row["outcome"] is not None or row["status"] != "ok"
        assert (row["outcome"] == "raises") == (row["error"] is not None) == (row["raised_at"] is not None)


@pytest.mark.slow
def test_ways_to_mix_give_each_part_its_own_back_end() -> None:
    for case in ("in place", "wrapped", "a method"):
        assert graphs("way", case) == (1, 1, 0), case
    assert trap("way", "in place")["detail"] == "encoder.linear.weight"
    assert "_orig_mod" in trap("way", "wrapped")["detail"] or torch.__version__ >= "2.14"
    for case in ("part kept out of an outer compile", "call kept out of an outer compile"):
        assert graphs("way", case) == (0, 1, 1), case
    assert trap("way", "region of one graph")["outcome"] == "decoder only"


@pytest.mark.slow
def test_an_outer_compile_takes_everything_and_the_result_stays_right() -> None:
    taken = ("outer compile", "outer compile, wrapped parts", "outer compile in place", "nested region")
    for case in taken:
        assert graphs("lost", case) == (0, 0, 1), case
    assert graphs("lost", "graph break between the parts") == (0, 0, 2)
    assert graphs("lost", "disabled inside the part") == (0, 0, 1)
    assert graphs("lost", "stance force_eager") == (0, 0, 0)
    assert graphs("lost", "stance with a back end") == (0, 0, 2)
    assert graphs("lost", "another method") == (1, 0, 0)
    assert all(row["right"] for row in traps() if row["kind"] == "lost" and row["outcome"] != "raises")


@pytest.mark.slow
def test_copies_files_and_the_limit_lose_a_back_end() -> None:
    assert graphs("lost", "copy, in place") == (0, 0, 0)
    assert graphs("lost", "copy, wrapped") == (1, 1, 0)
    assert trap("lost", "saved whole, in place")["encoder_graphs"] == 0
    assert trap("lost", "saved whole, wrapped")["encoder_graphs"] == 1
    assert trap("lost", "ten back ends for one class")["encoder_graphs"] == torch._dynamo.config.recompile_limit
    assert trap("lost", "Sequential in place")["encoder_graphs"] == 2
    assert trap("lost", "Sequential wrapped")["encoder_graphs"] == 1
    assert trap("lost", "disabled and fullgraph")["error"] == "Unsupported"
    assert trap("lost", "compiled twice, wrapped")["raised_at"] == "assignment"


@pytest.mark.slow
@pytest.mark.skipif(torch.__version__ >= "2.14", reason="the keys may have changed: pytorch#185752")
def test_checkpoints_of_a_wrapped_part_have_other_keys() -> None:
    found = {row["case"]: row for row in traps() if row["kind"] == "state"}
    for case in ("plain checkpoint into wrapped", "wrapped checkpoint into plain"):
        assert (found[case]["outcome"], found[case]["raised_at"]) == ("raises", "load_state_dict()")
        assert "Missing key(s)" in found[case]["message"]
    assert found["the same, strict=False"]["outcome"] == "silently not loaded"
    assert found["the same, strict=False"]["right"] is False
    for case in ("the same, prefix taken out", "in place, both ways"):
        assert (found[case]["outcome"], found[case]["right"]) == ("loads", True)
    assert found["index, wrapped"]["error"] == found["truth value, wrapped"]["error"] == "TypeError"
    assert found["index, in place or _orig_mod"]["outcome"] == "works"


@pytest.mark.slow
def test_hooks_inside_a_part_must_be_there_before_the_first_call() -> None:
    found = {row["case"]: row["outcome"] for row in traps() if row["kind"] == "hook"}
    assert found == {
        "inside, before the first call": "hook runs",
        "inside, later": "hook ignored",
        "on the part, later": "hook runs",
        "on the part, under an outer compile": "hook ignored",
    }


@pytest.mark.slow
def test_a_boundary_stops_fusion_and_lets_gradients_through() -> None:
    one, two = trap("boundary", "one compile"), trap("boundary", "a compile for each part")
    assert (one["kernels"], two["kernels"]) == (1, 2)
    assert one["guards"] > 0
    assert two["guards"] > 0
    assert trap("boundary", "gradients")["gradients"] == "equal"
    assert trap("boundary", "a mode for one part")["outcome"] == "each its own"
    assert graphs("boundary", "dynamic decoder") == (4, 1, 0)


@pytest.mark.slow
@pytest.mark.skipif(not OPENVINO, reason="needs OpenVINO")
def test_traps_of_openvino_reached_its_runtime() -> None:
    for case in ("a setting for all parts", "earlier output", "encoder without gradient"):
        row = trap("boundary", case)
        assert row["executed"] == 1, row
        assert row["package_version"]
    assert trap("boundary", "earlier output")["outcome"] == "silently overwritten"
    assert trap("boundary", "earlier output")["right"] is False
    assert trap("boundary", "encoder without gradient")["gradients"] == "lost"


def test_without_openvino_its_rows_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (TRAPS, SPEED):
        module = load(name)
        monkeypatch.setattr(module.importlib.metadata, "version", missing)
        assert module.package_version() is None
        assert "pip install 'openvino>=" in module.NEEDS_OPENVINO
        monkeypatch.undo()
    module = load(TRAPS)
    monkeypatch.setattr(module, "package_version", lambda: None)
    monkeypatch.setattr(module, "CASES", {})
    monkeypatch.setattr(module, "EVERY", module.WITH_OPENVINO)
    rows = module.run()
    assert rows
    assert {(row["status"], row["note"]) for row in rows} == {("unavailable", module.NEEDS_OPENVINO)}


def missing(name: str) -> str:
    """What importlib.metadata does where a package is not installed."""
    raise importlib.metadata.PackageNotFoundError(name)


def test_a_case_that_raises_says_where() -> None:
    module = load(TRAPS)

    def raises(bench: Any) -> None:
        bench.at = "access"
        raise LookupError("\n  gone from /home/someone/place.py \nmore")

    row = module.attempt(raises)
    assert (row["outcome"], row["raised_at"], row["error"]) == ("raises", "access", "LookupError")
    assert "/home" not in row["message"]
    assert row["right"] is None


def test_a_wrong_output_is_seen() -> None:
    module = load(TRAPS)
    row = module.attempt(lambda bench: bench.model(bench.x) + 0.01)
    assert row["right"] is False
    assert row["outcome"] == "nothing compiled"


def test_a_case_that_takes_the_process_down_is_a_failed_row(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(TRAPS)
    found = module.in_child("boundary", "no such case", 1, 60.0)
    assert found["status"] == "failed"
    assert "KeyError" in found["note"]


# ---------------------------------------------------------------- speed


@pytest.mark.slow
def test_speed_keeps_the_contract() -> None:
    rows = speed()
    check_rows(SPEED, rows)
    assert {row["status"] for row in rows} == {"ok"}
    keys = [(row["scope"], row["encoder"], row["decoder"]) for row in rows if row["kind"] == "whole"]
    assert keys == [
        ("one back end", "none", "none"),
        ("one back end", "none_again", "none_again"),
        ("one back end", "inductor", "inductor"),
        ("one back end, part by part", "inductor", "inductor"),
        ("mix", "inductor", "none"),
        ("mix", "none", "inductor"),
    ]
    for row in rows:
        if row["kind"] != "gain":
            assert row["max_rel_error"] < 1e-4
            assert len(row["samples_us"]) == 6
            assert row["step_q1_us"] <= row["step_us"] <= row["step_q3_us"]


@pytest.mark.slow
def test_speed_counts_graphs_and_adds_up_the_parts() -> None:
    whole = {(row["scope"], row["encoder"], row["decoder"]): row for row in speed() if row["kind"] == "whole"}
    assert whole["one back end", "none", "none"]["graphs"] == 0
    assert whole["one back end", "inductor", "inductor"]["graphs"] == 1
    assert whole["one back end, part by part", "inductor", "inductor"]["graphs"] == 2
    assert whole["mix", "inductor", "none"]["graphs"] == 1
    alone = {(row["part"], row["backend"]): row["step_us"] for row in speed() if row["kind"] == "part"}
    mix = whole["mix", "inductor", "none"]
    assert mix["parts_us"] == pytest.approx(alone["encoder", "inductor"] + alone["decoder", "none"])
    assert whole["one back end", "inductor", "inductor"]["parts_us"] is None


@pytest.mark.slow
def test_speed_judges_by_the_processes_that_did_not_choose() -> None:
    (row,) = (row for row in speed() if row["kind"] == "gain")
    assert (row["processes"], row["rounds"]) == (2, 2)
    assert row["single"] in ("none", "inductor")
    assert row["mix"] in ("inductor | none", "none | inductor")
    assert (row["singles"], row["mixes"]) == (2, 2)
    assert row["gain_low"] <= row["gain_ratio"] <= row["gain_high"]


def fabricated(**times: list[float]) -> list[Row]:
    """Processes of one model with a constant step for each variant; a list holds one number a process."""
    names = {"none": "whole: none", "inductor": "whole: inductor", "a": "mix: a | b", "b": "mix: b | a"}
    length = len(next(iter(times.values())))
    return [{names[key]: [values[i]] * 3 for key, values in times.items()} for i in range(length)]


def test_a_mix_that_was_lucky_while_choosing_wins_nothing() -> None:
    module = load(SPEED)
    # The mix "a" is fast in the two processes that choose, and slow in those that judge.
    runs = fabricated(
        none=[2.0] * 6,
        inductor=[1.0] * 6,
        a=[0.5, 0.5, 1.30, 1.31, 1.29, 1.30],
        b=[0.9, 0.9, 0.90, 0.91, 0.89, 0.90],
    )
    row = module.gain_row("translator", list(runs[0]), runs, 2, 0.01, 1)
    assert (row["single"], row["mix"], row["verdict"]) == ("inductor", "a | b", "slower")
    assert row["gain_ratio"] == pytest.approx(1 / 1.30, rel=0.01)
    assert (row["singles"], row["mixes"], row["processes"]) == (2, 2, 4)
    # Of the same numbers the steady one is chosen if the luck is gone.
    steady = fabricated(none=[2.0] * 6, inductor=[1.0] * 6, a=[1.3] * 6, b=[0.90, 0.91, 0.90, 0.91, 0.89, 0.90])
    row = module.gain_row("translator", list(steady[0]), steady, 2, 0.01, 1)
    assert (row["mix"], row["verdict"]) == ("b | a", "faster")
    # A gain no larger than the A/A pair shows is none.
    assert module.gain_row("translator", list(steady[0]), steady, 2, 0.2, 1)["verdict"] == "no difference"


def test_no_mix_and_a_single_process_are_said() -> None:
    module = load(SPEED)
    runs = fabricated(none=[2.0] * 3, inductor=[1.0] * 3)
    row = module.gain_row("greedy", list(runs[0]), runs, 1, 0.01, 1)
    assert (row["status"], row["note"], row["gain_ratio"]) == ("not measured", "No mix was measured.", None)
    with pytest.raises(ValueError, match="judging = 1"):
        module.run(judging=1)


def test_the_same_back_end_twice_is_no_mix() -> None:
    module = load(SPEED)
    assert not module.is_mix(module.mixed("inductor", "inductor"))
    assert module.is_mix(module.mixed("inductor", "none"))
    assert not module.is_mix(module.whole("inductor"))


def test_openvino_is_loaded_after_the_others_were_captured() -> None:
    module = load(SPEED)
    keys = module.variants_of(backends=module.SINGLES)
    late = ["openvino" in key for key in keys]
    assert late == sorted(late)
    assert module.whole("none_again") in keys
    arguments = module.compile_arguments("openvino", 1)["options"]["config"]
    assert arguments == {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "1"}


@pytest.mark.parametrize(
    ("key", "answer", "status"),
    [
        ("whole: inductor", {"error": 1e-6, "graphs": 1, "executed": None}, None),
        ("whole: none", {"error": 1e-6, "graphs": 0, "executed": None}, None),
        ("whole: inductor", {"error": 1e-6, "graphs": 0, "executed": None}, "not measured"),
        ("decoder: inductor", {"error": 1e-6, "graphs": 0, "executed": None}, "not measured"),
        ("whole: openvino", {"error": 1e-6, "graphs": 1, "executed": 0}, "not measured"),
        ("mix: openvino | none", {"error": 0.03, "graphs": 0, "executed": 9}, "wrong"),
        ("whole: inductor", {"error": math.nan, "graphs": 1, "executed": None}, "wrong"),
        ("encoder: openvino", {"failed": "AssertionError: x"}, "failed"),
    ],
)
def test_what_did_not_do_its_work_gets_no_time(key: str, answer: Row, status: str | None) -> None:
    trouble = load(SPEED).trouble_of(key, answer)
    assert (trouble and trouble[0]) == status


def test_a_variant_that_takes_the_process_down_does_not_take_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load(SPEED)
    asked: list[list[str]] = []

    def child(job: Row, folder: Path, limit_s: float) -> str | None:
        asked.append(job["variants"])
        with Path(job["answer"]).open("a") as answer:
            for variant in job["variants"]:
                if variant == "whole: crashes":
                    return "the process died of signal SIGSEGV"
                answer.write(json.dumps({"variant": variant, "error": 0.0, "graphs": 1, "executed": None}) + "\n")
        return None

    monkeypatch.setattr(module, "run_child", child)
    found = module.check_model("greedy", ["whole: a", "whole: crashes", "whole: b"], 1, tmp_path, 1.0)
    assert found["whole: crashes"] == {"failed": "the process died of signal SIGSEGV"}
    assert found["whole: a"]["graphs"] == found["whole: b"]["graphs"] == 1
    assert asked == [["whole: a", "whole: crashes", "whole: b"], ["whole: b"]]


def test_the_greedy_decoder_stops_at_the_end_token() -> None:
    module = load(SPEED)
    decoder, memory = module.Greedy().eval(), torch.randn(2, 4, 256)
    with torch.no_grad():
        decoder.scores.bias[0] = -1e6
        assert decoder(memory).shape == (2, decoder.steps, 256)
        decoder.scores.bias[0] = 1e6
        assert decoder(memory).shape == (2, 1, 256)


# ---------------------------------------------------------------- verdicts


def gain(**changes: Any) -> Row:
    """A row of the question itself."""
    row: Row = {
        "kind": "gain",
        "status": "ok",
        "model": "translator",
        "single": "inductor",
        "mix": "openvino | inductor",
    }
    return row | {"gain_ratio": 1.40, "gain_low": 1.35, "gain_high": 1.45, "verdict": "faster"} | changes


def words(rule: str, rows: list[Row], language: Language = "en", **params: Any) -> str:
    """The sentences of a rule, without markup."""
    return parse(" ".join(verdicts.RULES[rule](rows, language, **params))).text.replace("\u202f", " ")


def test_the_claim_is_judged_by_the_whole_interval() -> None:
    text = words("mix_gain", [gain()])
    assert "openvino | inductor the fastest mix" in text
    assert "1.40×, 1.35–1.45×" in text
    assert f"{verdicts_mixing.CLAIMED - 1:.0%}" == "22%"
    assert "on 1 of 1 models, and by 22% or more, with the whole interval, on 1" in text
    assert "holds on every model" in text
    # Faster, but the interval reaches below what is claimed.
    text = words("mix_gain", [gain(gain_low=1.10)])
    assert "on 1 of 1 models, and by 22% or more, with the whole interval, on 0" in text
    assert "does not hold" in text
    text = words("mix_gain", [gain(), gain(model="segmenter", verdict="no difference", gain_low=0.9)])
    assert "no difference" in text
    assert "on 1 of 2 models" in text
    assert "does not hold" in text


def test_how_far_the_parts_are_off() -> None:
    row: Row = {"kind": "whole", "status": "ok", "step_us": 100.0, "parts_us": 97.0}
    assert "within 3.0% of the mix (2 mixes" in words("mix_parts", [row, row | {"parts_us": 101.0}])
    assert words("mix_parts", [row | {"parts_us": None}]) == ""


def test_results_that_are_right_are_counted() -> None:
    rows: list[Row] = [{"kind": "lost", "status": "ok", "right": right} for right in (True, True, False, None)]
    assert words("mix_right", rows).startswith("In 2 of 3 such cases")
    assert words("mix_right", rows, kind="state") == ""


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("rule", ["mix_gain", "mix_parts", "mix_right"])
def test_without_numbers_nothing_is_said(rule: str, language: Language) -> None:
    lost = gain(status="failed", note="x", gain_ratio=None)
    assert verdicts.RULES[rule]([], language) == verdicts.RULES[rule]([{}, lost], language) == []
