"""The picture of the pipeline explorer shows as many launches as were recorded, for every example and back end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kitchen import tools

ROOT = Path(__file__).resolve().parent.parent
COUNT = """
const { sceneOf, phasesOf } = await import("./docs/assets/js/tools/pipeline/scene.js");
const parts = JSON.parse((await import("node:fs")).readFileSync(0, "utf8"));
console.log(JSON.stringify(parts.map((part) => Object.entries(part.targets).map(([target, { graphs, backends }]) => (
  Object.keys(backends).map((backend) => graphs.map((_, index) => {
    const scene = sceneOf(part, { target, backend, graph: index + 1 });
    return { count: scene.count, phases: Object.fromEntries(phasesOf(scene).map((one) => [one.phase, one.count])) };
  }))
)))));
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
    node = shutil.which("node")
    if node is None:
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail("REQUIRE_BROWSER=1, but Node.js is not installed (Debian: apt install nodejs)")
        pytest.skip("Node.js is not installed (Debian: apt install nodejs)")
    done = subprocess.run(
        [node, "--input-type=module", "-e", COUNT],
        cwd=ROOT,
        input=json.dumps(parts),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[Any] = json.loads(done.stdout)
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
