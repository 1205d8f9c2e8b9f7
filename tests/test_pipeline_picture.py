"""The picture of the pipeline explorer shows as many launches as were recorded, for every example and back end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kitchen import tools
from tests import node

COUNT = """
given.map((part) => Object.entries(part.targets).map(([target, { graphs, backends }]) => (
  Object.keys(backends).map((backend) => graphs.map((_, index) => {
    const one = scene.sceneOf(part, { target, backend, graph: index + 1 });
    const phases = scene.phasesOf(one).map(({ phase, count }) => [phase, count]);
    return { count: one.count, phases: Object.fromEntries(phases) };
  }))
)))
"""


@pytest.fixture(scope="module")
def parts() -> list[dict[str, Any]]:
    """The examples as the page gets them."""
    files = {key: json.loads(text) for key, text in tools.files("pipeline", "en").items()}
    examples = files["pipeline"].get("examples", [])
    if not examples:
        pytest.skip("no record of pipeline/capture")
    return [files[f"pipeline-{example['part']}"] for example in examples]


@pytest.fixture(scope="module")
def counted(parts: list[dict[str, Any]]) -> list[Any]:
    """The same, as the picture counts: by part, target, back end and graph."""
    found: list[Any] = node.answer(COUNT, parts, scene="pipeline/scene.js")
    return found


def test_the_picture_has_as_many_launches_as_were_recorded(parts: list[dict[str, Any]], counted: list[Any]) -> None:
    differing = []
    for part, by_target in zip(parts, counted, strict=True):
        for (target, told), by_backend in zip(part["targets"].items(), by_target, strict=True):
            # Graphs of one function are compiled for different sizes, and a call goes through one of them.
            one_function = len({graph["function"] for graph in told["graphs"]}) < len(told["graphs"])
            for (backend, route), by_graph in zip(told["backends"].items(), by_backend, strict=True):
                counts = [graph["count"] for graph in by_graph]
                shown = counts[-1] if one_function else sum(counts)
                if shown != route["launches"]:
                    differing.append((part["id"], target, backend, counts, route["launches"]))
    assert differing == []


def test_the_phases_count_what_was_recorded(parts: list[dict[str, Any]], counted: list[Any]) -> None:
    differing = []
    for part, by_target in zip(parts, counted, strict=True):
        for (target, told), by_backend in zip(part["targets"].items(), by_target, strict=True):
            inductor = by_backend[list(told["backends"]).index("inductor")]
            for graph, shown in zip(told["graphs"], inductor, strict=True):
                recorded = graph["counts"]
                wanted = {"calls": recorded["dynamo"], "operators": recorded["aot"], "launches": recorded["kernels"]}
                wanted["loops"] = recorded["ir_nodes_before"]
                got = {phase: shown["phases"][phase] for phase in wanted}
                if got != wanted:
                    differing.append((part["id"], target, graph["title"], got, wanted))
    assert differing == []
