"""The kitchen timeline: its data against the records, its blocks against the chapters' formulas, written here anew."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import pytest

from kitchen import data, results, tools
from kitchen.data import View
from kitchen.tools import timeline
from tests import node

CHEFS = ("none", "aot_eager", "inductor", "cudagraphs")
SEVERAL = 3


@pytest.fixture(scope="module")
def payload() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tools.files("timeline", "en")["timeline"])
    return found


def _ran(script: str, given: object) -> Any:
    """What the script gives; `logic` is the tool's module and `given` what goes in."""
    return node.answer(script, given, logic="timeline/logic.js")


# ---------------------------------------------------------------- the formulas of the chapters


def eager_step(launches: list[float], computes: list[float]) -> float:
    """kitchen/formulas.toml, eager_step."""
    return sum(launch + compute for launch, compute in zip(launches, computes, strict=True))


def aot_call(setup: float, launches: list[float], computes: list[float]) -> float:
    """aot_call."""
    return setup + eager_step(launches, computes)


def fusion(times: list[float], fused: float, launch: float) -> float:
    """fusion: S."""
    return sum(times) / (fused + launch)


def graph_parts(capture: float, launch_graph: float, compute: float) -> float:
    """graph_parts."""
    return capture + launch_graph + compute


def graph_saving(m: int, launch: float, launch_graph: float, compute: float) -> float:
    """graph_saving: replayed again and again without waiting."""
    return max(m * launch, compute) - max(launch_graph, compute)


def queued(setup: float, launch: float, compute: float, count: int, steps: int) -> float:
    """The end of ``steps`` steps on a device with a queue, kernel by kernel."""
    host = device = 0.0
    for _ in range(steps):
        host += setup
        for _ in range(count):
            host += launch
            device = max(host, device) + compute
    return device


GRID: list[dict[str, Any]] = [
    {
        "m": m, "launch": launch, "compute": compute, "aotsetup": setup, "aotlaunch": 1.6 * launch, "call": 0.9 * setup,
        "group": group, "fused": 1.2 * compute, "graphcall": graphcall, "replay": replay, "capture": 321.0,
    }
    for m, launch, compute, setup, group, graphcall, replay in itertools.product(
        (1, 5, 16, 64), (0.0, 0.79, 6.0), (0.0, 0.087, 6.0, 240.0), (0.0, 13.7), (1, 5, 64), (0.0, 40.0), (0.5, 10.0)
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def ends() -> list[dict[str, dict[str, list[float]]]]:
    """By case, device, chef: the end of one step, of one with the capture, of several; and each as the formula says."""
    found: list[dict[str, dict[str, list[float]]]] = _ran(
        "given.cases.map((values) => Object.fromEntries(['cpu', 'gpu'].map((device) => [device,"
        " Object.fromEntries(logic.CHEFS.map((chef) => { const one = logic.plan(chef, values, device);"
        " const ways = [[1, false], [1, true], [given.several, false]];"
        " return [chef, [...ways.map((way) => logic.endOf(logic.blocks(one, ...way))),"
        " ...ways.map((way) => logic.total(one, ...way))]]; }))])))",
        {"cases": GRID, "several": SEVERAL},
    )
    return found


def test_on_a_cpu_the_blocks_end_where_the_chapters_say(ends: list[dict[str, dict[str, list[float]]]]) -> None:
    for values, found in zip(GRID, ends, strict=True):
        m = values["m"]
        plain = eager_step([values["launch"]] * m, [values["compute"]] * m)
        prepared = aot_call(values["aotsetup"], [values["aotlaunch"]] * m, [values["compute"]] * m)
        kernels = math.ceil(m / values["group"])
        compiled = aot_call(values["call"], [values["launch"]] * kernels, [values["fused"]] * kernels)
        expected = {"none": plain, "aot_eager": prepared, "inductor": compiled, "cudagraphs": prepared}
        for chef, one in expected.items():
            wanted = [one, one, SEVERAL * one] * 2
            assert found["cpu"][chef] == pytest.approx(wanted, rel=1e-12, abs=1e-12), (chef, values)
        if kernels == 1 and compiled:
            # The chapter's fraction: n operators above, one kernel and the one launch that is left below.
            above = [values["launch"] + values["compute"]] * m
            ratio = found["cpu"]["none"][0] / found["cpu"]["inductor"][0]
            assert ratio == pytest.approx(fusion(above, values["fused"], values["call"] + values["launch"]))


def test_on_a_gpu_the_blocks_end_where_the_queue_empties(ends: list[dict[str, dict[str, list[float]]]]) -> None:
    for values, found in zip(GRID, ends, strict=True):
        m, kernels = values["m"], math.ceil(values["m"] / values["group"])
        terms = {
            "none": (0.0, values["launch"], values["compute"], m),
            "aot_eager": (values["aotsetup"], values["aotlaunch"], values["compute"], m),
            "inductor": (values["call"], values["launch"], values["fused"], kernels),
        }
        for chef, (setup, launch, compute, count) in terms.items():
            one, several = (queued(setup, launch, compute, count, steps) for steps in (1, SEVERAL))
            wanted = [one, one, several] * 2
            assert found["gpu"][chef] == pytest.approx(wanted, rel=1e-12, abs=1e-9), (chef, values)
        # A graph recorded by hand pays no guards.
        compute = m * values["compute"]
        host = values["graphcall"] + values["replay"]
        captured = graph_parts(values["capture"], host, compute)
        one, recorded, several, *_ = found["gpu"]["cudagraphs"]
        assert recorded == pytest.approx(captured)
        assert one == pytest.approx(captured - values["capture"])
        if values["graphcall"] == 0:
            saved = (found["gpu"]["none"][2] - found["gpu"]["none"][0] - (several - one)) / (SEVERAL - 1)
            saving = graph_saving(m, values["launch"], values["replay"], compute)
            assert saved == pytest.approx(saving, rel=1e-9, abs=1e-9), values


def test_the_formula_beside_a_chef_adds_up_to_its_drawing(payload: dict[str, Any]) -> None:
    """What is printed, with three digits, is what the presets hold: the sum can be done by hand."""
    shown = _ran(
        "given.map((preset) => logic.CHEFS.map((chef) => { const one = logic.plan(chef, preset.values, preset.device);"
        " const formula = logic.formulas(one).first;"
        " const text = formula.map((part) => part.term ? Number(part.value.toPrecision(3)) : part).join('');"
        " const sum = Function('max', 'min', `return ${text.replaceAll('×', '*')}`)(Math.max, Math.min);"
        " return [text, sum, logic.endOf(logic.blocks(one))]; }))",
        payload["presets"],
    )
    assert len(shown) >= 6
    for text, by_hand, end in itertools.chain.from_iterable(shown):
        assert by_hand == pytest.approx(end, rel=1e-12), text


# ---------------------------------------------------------------- the data


def _rows(payload: dict[str, Any], record: int) -> list[dict[str, Any]]:
    found = json.loads((results.RESULTS.parent / payload["records"][record]["url"]).read_text("utf-8"))
    rows: list[dict[str, Any]] = found["rows"]
    return rows


def test_presets_come_from_measured_rows_and_say_which(payload: dict[str, Any]) -> None:
    by_kind = {preset["kind"]: preset for preset in payload["presets"]}
    assert {"relu_small", "relu_large", "chain", "mlp", "example_launch"} <= set(by_kind)
    for preset in payload["presets"]:
        if preset["machine"] is None:
            assert preset["sources"] == {}
            assert preset["kind"].startswith("example_")
            continue
        assert set(preset["sources"]) == set(preset["values"])
        assert set(timeline.EXAMPLES["example_launch"]) == set(preset["values"])
    for kind in ("relu_small", "relu_large"):
        preset = by_kind[kind]
        record, _ = preset["sources"]["compute"]
        row = next(
            row
            for row in _rows(payload, record)
            if row["kind"] == "point" and row["op"] == "relu" and row["elements"] == preset["facts"]["elements"]
        )
        assert preset["values"]["launch"] == pytest.approx(row["launch_us"], rel=0.006)
        assert preset["values"]["compute"] == pytest.approx(row["compute_us"], rel=0.006)
        assert (row["launch_share_ratio"] > 0.5) == (kind == "relu_small")


def test_a_fused_chain_is_as_long_as_its_row_says(payload: dict[str, Any]) -> None:
    chains = [preset for preset in payload["presets"] if preset["kind"] == "chain"]
    assert chains
    for preset in chains:
        values, (record, compiled) = preset["values"], preset["measured"]["inductor"]
        row = next(row for row in _rows(payload, record) if row.get("compiled_call_us") == compiled)
        assert values["m"] * (values["launch"] + values["compute"]) == pytest.approx(row["sum_apart_us"], rel=0.01)
        assert values["call"] + values["launch"] + values["fused"] == pytest.approx(compiled, rel=0.01)
        assert preset["measured"]["none"][1] == row["eager_chain_us"]


def test_comparisons_repeat_the_sums_of_the_record(payload: dict[str, Any]) -> None:
    modelled = _ran(
        "given.map(({chef, values}) => logic.total(logic.plan(chef, values, 'cpu')))", payload["comparisons"]
    )
    seen = {entry["what"] for entry in payload["comparisons"]}
    assert seen == {"mlp_functions", "mlp_modules", "cos_inference", "cos_large", "chain"}
    for entry, model in zip(payload["comparisons"], modelled, strict=True):
        rows = _rows(payload, entry["record"])
        if entry["what"].startswith("mlp"):
            row = next(row for row in rows if f"mlp_{row.get('form')}" == entry["what"])
            assert model == pytest.approx(row["sum_us"])
            assert entry["measured"] == row["step_us"]
        else:
            assert any(entry["measured"] in (row.get("chain_us"), row.get("eager_chain_us")) for row in rows)


def test_the_profiled_step_is_the_record(payload: dict[str, Any]) -> None:
    for profile in payload["profiles"]:
        rows = [row for row in _rows(payload, profile["record"]) if row["kind"] == "profile_event"]
        assert len(rows) == len(profile["events"])
        for row, cells in zip(rows, profile["events"], strict=True):
            for column, cell in zip(profile["columns"], cells, strict=True):
                wanted = row[column]
                assert cell == (pytest.approx(wanted, abs=0.001) if isinstance(wanted, float) else wanted)


def test_without_records_there_are_the_examples_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "views", lambda name: [])
    monkeypatch.setattr(data, "machines", dict)
    found = json.loads(tools.files("timeline", "zh")["timeline"])
    assert [preset["id"] for preset in found["presets"]] == list(timeline.EXAMPLES)
    assert found["profiles"] == found["comparisons"] == found["records"] == []


def test_a_failed_record_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    views = data.views

    def failing(name: str) -> list[View]:
        return [replace(view, record=replace(view.record, status="failed", rows=[])) for view in views(name)]

    monkeypatch.setattr(data, "views", failing)
    found = json.loads(tools.files("timeline", "en")["timeline"])
    assert [preset["id"] for preset in found["presets"]] == list(timeline.EXAMPLES)


def test_a_recorded_graph_becomes_a_preset_of_its_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    views = data.views
    shared = {"status": "ok", "device": "cuda", "work": "tiny"}
    rows = [
        {**shared, "kind": "parts", "m": 16, "capture_us": 900.0, "launch_us": 8.0, "compute_us": 32.0},
        {**shared, "kind": "parts", "m": 256, "capture_us": 2000.0, "launch_us": 9.0, "compute_us": 512.0},
        {**shared, "kind": "fit", "way": "one graph", "clock": "enqueue", "slope_us": 0.01},
        {**shared, "kind": "fit", "way": "one by one", "clock": "enqueue", "slope_us": 5.0},
    ]

    def recorded(name: str) -> list[View]:
        found = views(name)
        if name != timeline.GRAPH:
            return []
        return [replace(view, record=replace(view.record, status="ok", rows=rows)) for view in found]

    monkeypatch.setattr(data, "views", recorded)
    found = json.loads(tools.files("timeline", "en")["timeline"])
    preset = next(preset for preset in found["presets"] if preset["kind"] == "graph_tiny")
    assert preset["device"] == "gpu"
    wanted = {"m": 16, "launch": 5, "compute": 2, "replay": 8, "capture": 900, "graphcall": 0}
    assert {term: preset["values"][term] for term in wanted} == wanted
    assert "aotsetup" not in preset["values"]  # not recorded there, so that chef is not drawn
