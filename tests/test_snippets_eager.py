"""The snippets of the chapter eager: launch_and_compute, profiler_timeline, debugging, and what pages make of them."""

from __future__ import annotations

import ast
import functools
import json
import math
import re
import statistics
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from kitchen import labels, verdicts
from kitchen.context import LANGUAGES
from tests.test_snippets import SNIPPETS, STATUSES, TIME_SUFFIXES, header, load, of_kind, on_cuda, run_alone

pytest.importorskip("torch")

Row = dict[str, Any]

BUDGETS: dict[str, Row] = {
    "eager/launch_and_compute": {"processes": 2, "rounds": 2, "block_ms": 2.0, "largest": 2**14},
    "eager/profiler_timeline": {"steps": 5},
    "eager/debugging": {
        "variants": ("none", "eager", "aot_eager"),
        "tools": (
            "print",
            "breakpoint",
            "hook_before",
            "hook_list",
            "hook_after",
            "stepping",
            "stepping_stance",
            "index_error",
        ),
    },
}


@functools.cache
def rows_of(name: str) -> list[Row]:
    """The rows of a snippet of this chapter, run once for all tests."""
    return run_alone(name, BUDGETS[name])


# ---------------------------------------------------------------- contract, also for other chapters


def check_source(name: str) -> None:
    """A snippet declares its needs, imports nothing of ours, is documented, and takes its budget by keyword."""
    table = header(name)
    assert (table["requires-python"], table["dependencies"]) == (">=3.11", ["torch>=2.11"])
    assert set(table["tool"]["kitchen"]) == {"needs", "limit_s", "value"}
    tree = ast.parse((SNIPPETS / f"{name}.py").read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    (run,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run")
    assert not run.args.args
    assert all(default is not None for default in run.args.kw_defaults)
    assert all(ast.get_docstring(node) for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))
    assert functions
    for node in ast.walk(tree):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        assert not [module for module in modules if module.partition(".")[0] in ("kitchen", "tests", "snippets")]


def check_rows(name: str, rows: list[Row]) -> None:
    """Rows are flat, survive JSON, have a status; none that is not ok has a time; pages have words for all of it."""
    documented = ast.get_docstring(ast.parse((SNIPPETS / f"{name}.py").read_text())) or ""
    columns: dict[str, set[str]] = {}
    assert rows
    for row in rows:
        assert row["status"] in STATUSES, row
        for column, value in row.items():
            assert column == "kind" or column in documented, column
            if column.startswith("samples_"):
                assert all(isinstance(v, int | float) and math.isfinite(v) for v in value), column
                continue
            assert value is None or isinstance(value, str | int | float), column
            assert not isinstance(value, float) or math.isfinite(value), column
            assert labels.column(column, "en", name).labelled, column
        for column in ("kind", "case", "fault", "tool", "step_phase", "graph_stage", "partitioner", "form", "lane"):
            if row.get(column):
                assert row[column] in labels.data()["values"][column], (column, row[column])
        if row["status"] == "ok":
            kind = row.get("kind", "")
            assert columns.setdefault(kind, set(row)) == set(row), kind
        else:
            assert row["note"], row
            assert not any(value for column, value in row.items() if column.endswith(TIME_SUFFIXES)), row
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows


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
    if name == "eager/debugging":
        module.VARIANTS = BUDGETS[name]["variants"]  # type: ignore[attr-defined]
    module.main([])
    printed = capsys.readouterr().out
    for word in {
        str(row[key]) for row in rows_of(name) for key in ("op", "form", "tool", "step_phase") if row.get(key)
    }:
        assert word in printed


# ---------------------------------------------------------------- eager/launch_and_compute


@pytest.mark.slow
def test_launch_and_compute_numbers_of_a_row_agree() -> None:
    rows = rows_of("eager/launch_and_compute")
    for row in of_kind(rows, "point"):
        assert row["op_q1_us"] <= row["op_us"] <= row["op_q3_us"]
        assert row["op_us"] == statistics.median(row["samples_us"])
        assert len(row["samples_us"]) == row["processes"] * row["rounds"] == 4
        assert row["tensor_kib"] * 1024 == 4 * row["elements"]
        assert 0 <= row["launch_share_low_ratio"] <= row["launch_share_ratio"] <= row["launch_share_high_ratio"] <= 1
    assert {row["op"] for row in of_kind(rows, "crossing")} == {"relu", "mul_", "mm"}
    summands, wholes = of_kind(rows, "summand"), of_kind(rows, "whole")
    assert [row["i"] for row in summands] == [1, 2, 3, 4, 5]
    for row in wholes:
        assert row["m"] == 5
        assert row["sum_us"] == pytest.approx(row["launch_sum_us"] + row["compute_sum_us"])
        assert row["sum_low_ratio"] <= row["sum_ratio"] <= row["sum_high_ratio"]
    if not on_cuda():
        # The first product is by far the largest: an order of magnitude more than a ReLU.
        assert summands[0]["op_us"] > 5 * summands[1]["op_us"]


def test_launch_and_compute_finds_a_planted_border() -> None:
    module = load("eager/launch_and_compute")
    # A launch of 2 us and a nanosecond an element: equal at 2000 elements, a tenth at 18000.
    shares = {n: 2 / (2 + n / 1000) for n in (64, 256, 1024, 4096, 16384, 65536)}
    assert module.reach(shares, 0.5) == pytest.approx(2000)
    assert module.reach(shares, 0.1) == pytest.approx(18000)
    assert module.reach({64: 1.0, 256: 0.9}, 0.5) is None
    # Where the smallest is the yardstick, its share is 1 by definition.
    assert 64 < module.reach({64: 1.0, 256: 0.3}, 0.5) < 256


def test_launch_and_compute_takes_the_parts_of_a_cuda_device_from_its_own_clocks() -> None:
    module = load("eager/launch_and_compute")
    cpu = {"blocks": {"op/relu/64": [2e-6], "op/relu/256": [5e-6]}}
    assert module.parts(cpu, "op/relu/256", "op/relu/64") == pytest.approx((2.0, 3.0))
    cuda = cpu | {"host": {"op/relu/256": 4e-6}, "kernel": {"op/relu/256": 9e-6}}
    assert module.parts(cuda, "op/relu/256", "op/relu/64") == pytest.approx((4.0, 9.0))
    assert module.split([(2.0, -0.1), (2.0, -0.2)])["compute_us"] is None, "noise is no compute"


def test_launch_and_compute_refuses_one_process_and_reports_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("eager/launch_and_compute")
    with pytest.raises(ValueError, match="processes = 1"):
        module.run(processes=1)
    monkeypatch.setattr(module, "run_child", lambda *_: {"failed": "no answer within 1 s"})
    rows = module.run(processes=2)
    assert {row["status"] for row in rows} == {"failed"}
    check_rows("eager/launch_and_compute", rows)


# ---------------------------------------------------------------- eager/profiler_timeline


@pytest.mark.slow
def test_timeline_holds_every_phase_and_what_lies_inside() -> None:
    rows = rows_of("eager/profiler_timeline")
    events = of_kind(rows, "profile_event")
    phases = [row["step_phase"] for row in events if row["depth"] == 0]
    assert phases == ["zero_grad", "forward", "loss", "backward", "optimizer"]
    inside = {row["step_phase"]: row for row in events if row["depth"] == 0}
    for row in events:
        assert row["start_us"] >= 0
        if row["lane"] == "host" and row["depth"] > 0:
            outer = inside[row["step_phase"]]
            assert outer["start_us"] - 0.01 <= row["start_us"]
            assert row["start_us"] + row["duration_us"] <= outer["start_us"] + outer["duration_us"] + 0.01
    names = [row["name"] for row in events if row["step_phase"] == "forward" and row["depth"] == 1]
    assert names == ["aten::linear", "aten::relu"] * 2 + ["aten::linear"]
    (whole,) = (row for row in of_kind(rows, "phase_sum") if row["step_phase"] == "whole step")
    parts = [row for row in of_kind(rows, "phase_sum") if row["step_phase"] != "whole step"]
    assert sum(row["operators"] for row in parts) == whole["operators"]
    assert whole["plain_us"] > 0
    assert whole["steps"] == len(whole["samples_us"]) == 5
    (drawn,) = of_kind(rows, "timeline")
    lines = drawn["drawing"].splitlines()
    assert len(lines) == 1 + sum(row["depth"] <= 1 for row in events)
    assert all("█" in line or "▒" in line for line in lines[1:])
    assert len({len(line) for line in lines[1:]}) == 1, "the bars stand one under the other"


def fake_event(name: str, start: float, end: float, *children: Any) -> Any:
    """An event as the profiler gives it."""
    import torch

    span = SimpleNamespace(start=start, end=end, elapsed_us=lambda: end - start)
    kind = torch.autograd.DeviceType.CPU
    return SimpleNamespace(name=name, time_range=span, cpu_children=list(children), device_type=kind)


def test_timeline_counts_an_operator_once_and_misses_no_phase() -> None:
    module = load("eager/profiler_timeline")
    inner = fake_event("aten::addmm", 2, 5)
    node = fake_event("autograd::node", 1, 9, fake_event("aten::linear", 1, 6, inner), fake_event("aten::relu", 7, 8))
    assert [event.name for event in module.outermost(node)] == ["aten::linear", "aten::relu"]
    marks = [fake_event(phase, i, i + 1) for i, phase in enumerate(module.PHASES)]
    assert len(module.split_into_steps([*marks, node])) == 1
    with pytest.raises(RuntimeError, match="every phase"):
        module.split_into_steps(marks[1:])
    with pytest.raises(ValueError, match="steps = 2"):
        module.run(steps=2)


def test_timeline_reports_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("eager/profiler_timeline")
    monkeypatch.setattr(module, "run_child", lambda *_: {"failed": "the process died of signal SIGSEGV"})
    check_rows("eager/profiler_timeline", module.run())


# ---------------------------------------------------------------- eager/debugging


@pytest.mark.slow
def test_debugging_finds_what_is_kept_and_what_is_lost() -> None:
    found = {(row["tool"], row["backend"]): row for row in of_kind(rows_of("eager/debugging"), "debug_detail")}
    for (tool, backend), row in found.items():
        if backend == "none":
            assert (row["outcome"], row["seen"], row["graphs"]) == ("works", row["expected"], 0), tool
    for backend in ("eager", "aot_eager"):
        # A print still prints at every call: the graph ends before it.
        assert found["print", backend]["outcome"] == "splits"
        assert found["print", backend]["breaks"] >= 1
        assert found["hook_before", backend]["outcome"] == "works"
        assert found["hook_list", backend]["graphs"] == 3, "the length of the list is guarded"
        assert found["hook_after", backend]["seen"] == 0
        assert found["stepping", backend]["seen"] < found["stepping", backend]["expected"]
        assert found["stepping_stance", backend]["outcome"] == "works"
    frames = {row["backend"]: row for row in of_kind(rows_of("eager/debugging"), "debug_frame")}
    assert set(frames) == {backend for _, backend in found}
    plain = frames["none"]
    assert (plain["frame"], plain["own_code"], plain["holds_h"]) == ("forward: breakpoint()", True, "h")
    assert plain["frame_locals"] == "self: Stopping, x: Tensor, h: Tensor"
    for backend in ("eager", "aot_eager"):
        assert frames[backend]["own_code"] is False, "Dynamo wrote it"
        assert "h: Tensor" not in frames[backend]["frame_locals"]
    for row in of_kind(rows_of("eager/debugging"), "debug_tool"):
        for backend in ("none", "eager", "aot_eager"):
            assert row[f"outcome_{backend}"] == found[row["tool"], backend]["outcome"]
    assert not [row for row in found.values() if re.search(r"/\w+/", row["detail"] or "")], "no folders in a record"


def test_debugging_has_a_word_for_every_outcome_and_tool() -> None:
    module = load("eager/debugging")
    outcome = module.outcome
    assert [outcome(3, 3, 0, 0), outcome(3, 3, 1, 0), outcome(3, 3, 2, 1)] == ["works", "works", "splits"]
    assert [outcome(3, 3, 3, 0), outcome(1, 3, 1, 0), outcome(0, 3, 2, 1)] == ["recompiles", "partly", "lost"]
    documented = module.__doc__ or ""
    for name in module.TOOLS:
        tool = name.rstrip("_")
        assert re.search(rf"^    {tool} ", documented, re.MULTILINE), tool
        assert tool in labels.data()["values"]["tool"]
    with pytest.raises(ValueError, match="unknown tools"):
        module.run(tools=("telepathy",))


def test_debugging_error_line_has_no_folders() -> None:
    module = load("eager/debugging")
    error = RuntimeError("kernel, /tmp/some-where/in.d/x1.main.cpp:22, index out of bounds\nmore")
    assert module.first_line(error) == "RuntimeError: kernel, x1.main.cpp:22, index out of bounds"


def test_debugging_finds_the_tensor_under_another_name_and_in_a_list() -> None:
    torch = pytest.importorskip("torch")
    module = load("eager/debugging")
    wanted, kept, other = torch.arange(4.0), [torch.zeros(3), torch.arange(4.0)], torch.zeros(4)
    stop = module.Stop(sys._getframe())
    assert stop.own_code is False
    assert stop.frame.startswith("test_debugging_finds_the_tensor_under_another_name_and_in_a_list: ")
    assert stop.holder(wanted) == "wanted"
    stop.locals.pop("wanted")
    assert stop.holder(wanted) == "kept"
    del kept
    assert "kept" in stop.locals, "noted while it stood there"
    stop.locals.pop("kept")
    assert stop.holder(wanted) is None
    assert stop.holder(other) == "other"


def test_debugging_process_that_dies_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("eager/debugging")
    monkeypatch.setattr(module, "run_child", lambda *_: {"failed": "the process died of signal SIGABRT"})
    rows = module.run(variants=("none", "inductor"), tools=("index_error",))
    check_rows("eager/debugging", rows)
    assert of_kind(rows, "debug_tool")[0]["outcome_inductor"] == "failed"


# ---------------------------------------------------------------- what the pages say


def words(rule: str, rows: list[Row], language: str = "en", **params: Any) -> str:
    """The sentences of a rule, without markup and with plain blanks."""
    text = " ".join(verdicts.RULES[rule](rows, language, **params))
    return re.sub(r"<[^>]+>", "", text).replace("\u202f", " ")


def test_verdict_on_where_launch_stops_to_matter() -> None:
    row: Row = {"kind": "crossing", "status": "ok", "op": "relu", "half_elements": 20000.0}
    row |= {"half_low_elements": 15000.0, "half_high_elements": 26000.0, "tenth_elements": 180000.0}
    assert words("launch_matters", [row]) == (
        "relu: launch and compute are equal at about 20,000 elements (95% interval 15,000–26,000); "
        "from about 180,000 on, the launch is a tenth or less."
    )
    assert "was not reached" in words("launch_matters", [row | {"tenth_elements": None}])
    none = dict.fromkeys(("half_elements", "half_low_elements", "half_high_elements", "tenth_elements"))
    assert "more than half" in words("launch_matters", [row | none])
    assert words("launch_matters", [row | {"status": "failed"}]) == ""


def test_verdict_on_the_sum_the_profile_and_the_tools() -> None:
    whole: Row = {"kind": "whole", "status": "ok", "form": "functions", "m": 5, "step_us": 100.0, "sum_us": 98.0}
    whole |= {"sum_ratio": 0.98, "sum_low_ratio": 0.96, "sum_high_ratio": 1.0}
    assert "its 5 operators, timed alone, add up to 98.0 µs: 0.980×" in words("sum_of_terms", [whole])
    phase: Row = {"kind": "phase_sum", "status": "ok", "step_phase": "whole step", "phase_us": 900.0}
    phase |= {"inside_us": 700.0, "between_us": 200.0, "plain_us": 650.0, "operators": 45}
    assert "200 µs between them" in words("profiled_step", [phase | {"plain_us": None}, phase])
    outcomes = ["works", "splits", "recompiles", "lost", "partly", "failed"]
    tools = [
        {"kind": "debug_tool", "status": "ok"} | {f"outcome_{b}": o for b in ("eager", "aot_eager", "inductor")}
        for o in outcomes
    ]
    assert "of 6 tools 1 work as without compiling, 2 work at the price" in words("tools_left", tools)
    assert "3 are lost" in words("tools_left", tools)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("rule", ["launch_matters", "sum_of_terms", "profiled_step", "tools_left"])
def test_rules_have_nothing_to_say_without_rows(rule: str, language: str) -> None:
    assert verdicts.RULES[rule]([], language) == verdicts.RULES[rule]([{}], language) == []
