"""The snippets of the chapter aot_eager: setup_cost, graphs, ladder, step_time, and what pages make of them."""

from __future__ import annotations

import functools
import itertools
import math
import sys
from typing import Any

import pytest

from kitchen import verdicts
from kitchen.context import LANGUAGES
from tests.test_snippets import load, of_kind, run_alone
from tests.test_snippets_eager import check_rows, check_source, words

torch = pytest.importorskip("torch")

Row = dict[str, Any]

BUDGETS: dict[str, Row] = {
    "aot_eager/setup_cost": {"processes": 2, "rounds": 2, "block_ms": 2.0, "lengths": (1, 8), "inputs": (1, 8)},
    "aot_eager/graphs": {},
    "aot_eager/ladder": {"faults": ("double_backward", "decomposition"), "bisected": ("decomposition",)},
    "aot_eager/step_time": {
        "cases": ("repeats",),
        "backends": ("aot_eager", "no_such_backend"),
        "processes": 2,
        "rounds": 2,
        "block_ms": 2.0,
    },
}


@functools.cache
def rows_of(name: str) -> list[Row]:
    """The rows of a snippet of this chapter, run once for all tests."""
    return run_alone(name, BUDGETS[name])


@pytest.mark.parametrize("name", sorted(BUDGETS))
def test_source_keeps_the_contract(name: str) -> None:
    check_source(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BUDGETS))
def test_rows_keep_the_contract(name: str) -> None:
    check_rows(name, rows_of(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BUDGETS))
def test_main_prints_every_kind(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = load(name)
    module.run = lambda: rows_of(name)  # type: ignore[attr-defined]
    module.main([])
    printed = capsys.readouterr().out
    for key in ("backend", "fault", "case", "graph_stage", "partitioner"):
        for word in {str(row[key]) for row in rows_of(name) if row.get(key)}:
            assert word in printed


@pytest.mark.parametrize("name", ["aot_eager/setup_cost", "aot_eager/step_time"])
def test_one_process_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="processes = 1"):
        load(name).run(processes=1)


@pytest.mark.parametrize("name", ["aot_eager/setup_cost", "aot_eager/ladder", "aot_eager/step_time"])
def test_a_process_that_dies_is_a_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(name)
    monkeypatch.setattr(module, "run_child", lambda *_: {"failed": "the process died of signal SIGSEGV"})
    rows = module.run()
    assert {row["status"] for row in rows} == {"failed"}
    check_rows(name, rows)


# ---------------------------------------------------------------- aot_eager/setup_cost


@pytest.mark.slow
def test_setup_cost_has_a_line_for_each_back_end_and_case() -> None:
    rows = rows_of("aot_eager/setup_cost")
    fits = of_kind(rows, "fit")
    wanted = itertools.product(("none", "eager", "aot_eager"), ("inference", "training", "large"))
    assert [(row["backend"], row["case"]) for row in fits] == list(wanted)
    for row in fits:
        assert row["slope_low_us"] <= row["slope_us"] <= row["slope_high_us"]
        assert (row["setup_us"] is None) == (row["backend"] == "none")
        assert (row["compute_us"] is None) == (row["case"] != "large")
        assert row["max_rel_error"] <= 1e-6
    inputs = {(row["backend"], row["inputs"]): row for row in of_kind(rows, "inputs")}
    assert set(inputs) == set(itertools.product(("none", "eager", "aot_eager"), (1, 8)))
    # Guards, bytecode, wrappers against one cat of four numbers: more than double, however noisy the machine.
    assert inputs["aot_eager", 1]["call_us"] > 2 * inputs["none", 1]["call_us"]


def test_setup_cost_of_planted_lines_is_their_distance() -> None:
    module = load("aot_eager/setup_cost")

    def answer(shift: float) -> Row:
        lines = {"none": (1.0, 2.0), "aot_eager": (31.0 + shift, 2.0)}
        blocks: Row = {}
        for (backend, (start, slope)), case in itertools.product(lines.items(), module.CASES):
            slope_us = slope + (100.0 if case == "large" else 0.0)
            blocks |= {f"{backend}/{case}/{m}": [(start + slope_us * m) * 1e-6] * 3 for m in (1, 4, 16)}
        return {"blocks": blocks, "errors": {"none": 0.0, "aot_eager": 0.0}}

    answers = [answer(-1.0), answer(1.0)]
    *_, fit = module.line_rows("aot_eager", "inference", (1, 4, 16), answers)
    assert fit["setup_us"] == pytest.approx(30.0)
    assert fit["setup_high_us"] - fit["setup_us"] == pytest.approx(12.706 * math.sqrt(2) / math.sqrt(2), rel=1e-3)
    assert fit["slope_ratio"] == pytest.approx(1.0)
    *_, fit = module.line_rows("aot_eager", "large", (1, 4, 16), answers)
    assert fit["compute_us"] == pytest.approx(100.0)
    *_, fit = module.line_rows("none", "inference", (1, 4, 16), answers)
    assert fit["setup_us"] is None
    assert fit["slope_ratio"] == 1


def test_setup_cost_functions_do_what_they_say() -> None:
    module = load("aot_eager/setup_cost")
    x = torch.tensor([0.5])
    assert torch.equal(module.build_chain(3)(x), x.cos().cos().cos())
    assert torch.equal(module.build_join(3)(x, x, x), x.repeat(3))


# ---------------------------------------------------------------- aot_eager/graphs


def test_graphs_are_those_of_a_training_step() -> None:
    rows = {(row["graph_stage"], row["decomposed"]): row for row in of_kind(rows_of("aot_eager/graphs"), "aot_graph")}
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert "gelu_backward" not in rows["dynamo", False]["code"]
    joint, forward, backward = (rows[stage, False]["code"] for stage in ("joint", "forward", "backward"))
    assert "aten.gelu.default" in joint
    assert "aten.gelu_backward.default" in joint
    assert "aten.gelu.default" in forward
    assert "gelu_backward" not in forward
    assert "tangents_1" in backward
    assert backward.rstrip().endswith("return (None, mm_4, mm_2, None)")
    assert "gelu" not in rows["forward", True]["code"], "decomposed"
    assert rows["forward", True]["operators"] > rows["forward", False]["operators"]
    for row in rows.values():
        assert not [line for line in row["code"].splitlines() if "/" in line], "no folders in a record"


def test_graphs_show_memory_bought_with_compute() -> None:
    cuts = {row["partitioner"]: row for row in of_kind(rows_of("aot_eager/graphs"), "cut")}
    assert {row["status"] for row in cuts.values()} == {"ok"}
    assert cuts["budget"]["saved_kib"] < cuts["min_cut"]["saved_kib"] <= cuts["default"]["saved_kib"]
    assert cuts["budget"]["backward_operators"] > cuts["min_cut"]["backward_operators"]
    with pytest.raises(ValueError, match="unknown partitioners"):
        load("aot_eager/graphs").run(partitioners=("scissors",))


def test_graphs_report_a_hook_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("aot_eager/graphs")

    def gone(*_: Any) -> list[Row]:
        raise ImportError("cannot import name 'aot_autograd'")

    monkeypatch.setattr(module, "graph_rows", gone)
    monkeypatch.setattr(module, "cut_rows", gone)
    rows = module.run()
    assert [row["status"] for row in rows] == ["failed", "failed"]
    check_rows("aot_eager/graphs", rows)


# ---------------------------------------------------------------- aot_eager/ladder


@pytest.mark.slow
def test_ladder_finds_the_layer_with_the_fault() -> None:
    rows = rows_of("aot_eager/ladder")
    found = {row["fault"]: row for row in of_kind(rows, "found")}
    assert found["double_backward"]["first_bad"] == "aot_eager"
    assert found["decomposition"]["first_bad"] == "aot_eager_decomp_partition"
    assert all(row["agrees"] for row in found.values())
    rungs = {(row["fault"], row["backend"]): row for row in of_kind(rows, "rung")}
    assert "double backward" in rungs["double_backward", "aot_eager"]["detail"]
    assert rungs["double_backward", "eager"]["outcome"] == rungs["decomposition", "aot_eager"]["outcome"] == "same"
    assert rungs["decomposition", "aot_eager_decomp_partition"]["max_rel_error"] > 1e-3
    (bisection,) = of_kind(rows, "bisection")
    assert (bisection["backend"], bisection["subsystem"]) == ("aot_eager_decomp_partition", "decomposition")
    assert "gelu_backward" in bisection["detail"]


def test_ladder_climbs_to_the_first_rung_that_is_not_the_same() -> None:
    module = load("aot_eager/ladder")
    good = [torch.ones(3), torch.full((3,), 2.0)]

    def step(bad: str, answer: Any) -> Any:
        def run(backend: str | None) -> Any:
            if backend is None or module.RUNGS.index(backend) < module.RUNGS.index(bad):
                return good
            if isinstance(answer, Exception):
                raise answer
            return answer

        return run

    wrong_gradient = [good[0], good[1] * 1.01]
    rows = module.climb(step("aot_eager", wrong_gradient))
    assert [row["outcome"] for row in rows] == ["same", "differs", "differs", "differs"]
    assert module.first_bad(rows) == "aot_eager"
    rows = module.climb(step("inductor", ValueError("no\nsecond line")))
    assert [row["outcome"] for row in rows] == ["same", "same", "same", "raises"]
    assert rows[-1]["detail"] == "ValueError: no"
    # NaN is neither larger nor smaller than a tolerance: it must not pass for the same.
    rows = module.climb(step("eager", [good[0], good[1] * float("nan")]))
    assert [row["outcome"] for row in rows] == ["differs"] * 4
    assert rows[0]["max_rel_error"] is None
    assert module.first_bad(module.climb(lambda _: good)) is None


def test_ladder_refuses_an_unknown_fault() -> None:
    with pytest.raises(ValueError, match="unknown faults"):
        load("aot_eager/ladder").run(faults=("gremlin",))


# ---------------------------------------------------------------- aot_eager/step_time


@pytest.mark.slow
def test_step_time_of_repeated_work_drops_operators() -> None:
    rows = {row["backend"]: row for row in rows_of("aot_eager/step_time")}
    assert list(rows) == ["none", "none_again", "aot_eager", "no_such_backend"]
    assert rows["no_such_backend"]["status"] == "failed"
    assert "InvalidBackend" in rows["no_such_backend"]["note"]
    row = rows["aot_eager"]
    assert row["status"] == "ok"
    assert row["verdict"] in ("faster", "slower", "no difference")
    assert row["speedup_low"] <= row["speedup_ratio"] <= row["speedup_high"]
    # Written out: three products, three sines, three factors, two sums, the mean. Two of each three are repeats.
    assert row["forward_operators"] < 12 + 2
    assert row["max_rel_error"] < 1e-4


def test_step_time_says_what_is_wrong_with_a_variant() -> None:
    module = load("aot_eager/step_time")
    good: Row = {"failed_of": {}, "errors": {"mlp/none": 0.0, "mlp/eager": 1e-7}, "graphs": {"mlp/eager": 1}}
    assert module.trouble("mlp/none", [good]) is module.trouble("mlp/eager", [good]) is None
    assert module.trouble("mlp/eager", [good | {"failed_of": {"mlp/eager": "E: x"}}]) == ("failed", "E: x")
    assert module.trouble("mlp/eager", [good | {"graphs": {"mlp/eager": 0}}])[0] == "not measured"
    assert module.trouble("mlp/eager", [good | {"errors": {"mlp/eager": math.nan}}])[0] == "wrong"
    assert module.judge(1.3, 1.2, 1.4, 0.02) == "faster"
    assert module.judge(1.01, 0.99, 1.03, 0.0) == "no difference"


def test_step_time_variants_have_code_objects_of_their_own() -> None:
    module = load("aot_eager/step_time")
    one, other = module.build("mlp", "none"), module.build("mlp", "none_again")
    assert one.__code__ is not other.__code__
    inputs = module.tensors("mlp", "cpu")
    assert torch.equal(one(*inputs), module.mlp(*inputs))


# ---------------------------------------------------------------- what the pages say


def test_verdict_on_setup_says_when_it_is_noise() -> None:
    row: Row = {"kind": "fit", "status": "ok", "backend": "aot_eager", "case": "inference"}
    row |= {"setup_us": 30.0, "setup_low_us": 28.0, "setup_high_us": 32.0}
    assert words("setup_cost", [row]) == (
        "aot_eager, inference, tiny tensors: T_setup is 30.0 µs (95% interval 28.0–32.0 µs)."
    )
    assert "can be told from noise" in words("setup_cost", [row | {"setup_low_us": -2.0}])
    assert words("setup_cost", [row], case="training") == ""


def test_verdict_on_the_ladder_names_what_it_missed() -> None:
    row: Row = {"kind": "found", "status": "ok", "fault": "branch", "agrees": True}
    assert words("ladder", [row, row | {"fault": "codegen"}]) == (
        "In 2 of 2 trials the ladder names the layer with the fault."
    )
    assert words("ladder", [row, row | {"fault": "codegen", "agrees": False}]).endswith("Wrong: wrong generated code.")


def test_verdict_on_a_case_leaves_the_others_out() -> None:
    row: Row = {"status": "ok", "backend": "aot_eager", "case": "mlp", "speedup_ratio": 0.9, "verdict": "slower"}
    row |= {"speedup_low": 0.88, "speedup_high": 0.92}
    other = row | {"case": "repeats", "speedup_ratio": 1.5, "verdict": "faster", "backend": "inductor"}
    said = words("case_steps", [row, other], case="mlp")
    assert "Slower: aot_eager" in said
    assert "inductor" not in said


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("rule", ["setup_cost", "ladder", "case_steps"])
def test_rules_have_nothing_to_say_without_rows(rule: str, language: str) -> None:
    assert verdicts.RULES[rule]([], language) == verdicts.RULES[rule]([{}], language) == []


@pytest.mark.parametrize(
    ("backend", "partitioner"),
    [
        ("aot_eager", "min_cut_rematerialization_partition"),
        ("aot_eager_decomp_partition", "min_cut_rematerialization_partition"),
        ("aot_eager_default_partitioner", "default_partition"),
    ],
)
def test_the_partitioner_of_a_back_end_is_the_one_that_docstrings_name(backend: str, partitioner: str) -> None:
    """What graphs, ladder and step_time say of torch's back ends, asked of torch."""
    called: set[str] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            called.add(frame.f_code.co_name)

    torch._dynamo.reset()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        compiled = torch.compile(lambda x: torch.sin(x).mean(), backend=backend)
        compiled(torch.ones(4, requires_grad=True)).backward()
    finally:
        sys.setprofile(before)
        torch._dynamo.reset()
    assert called & {"min_cut_rematerialization_partition", "default_partition"} == {partitioner}
