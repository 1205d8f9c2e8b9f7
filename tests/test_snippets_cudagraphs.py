"""The snippets of the chapter CUDA Graphs: what a CPU can run is run, the rest is run against a pretended CUDA.

The pretence records operators on the CPU (with the Recorder of cudagraphs/recorder) where CUDA would record kernels,
so that every line of the children is executed. What it can't show is whether real CUDA behaves so.
"""

from __future__ import annotations

import ast
import contextlib
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.snippet_rows import check_rows
from tests.test_snippets import header, load, run_alone

torch = pytest.importorskip("torch")

Row = dict[str, Any]

ON_ANY_MACHINE = ("cudagraphs/recorder", "cudagraphs/on_a_cpu")
ON_CUDA = (
    "cudagraphs/parts",
    "cudagraphs/new_shape",
    "cudagraphs/overwritten_output",
    "cudagraphs/three_ways",
)
SNIPPETS = Path(__file__).parents[1] / "snippets"
CUDA = torch.cuda.is_available()


# ---------------------------------------------------------------- contract


@pytest.mark.parametrize("name", [*ON_ANY_MACHINE, *ON_CUDA])
def test_header_declares_what_the_snippet_needs(name: str) -> None:
    table = header(name)
    assert table["dependencies"] == ["torch>=2.11"]
    kitchen = table["tool"]["kitchen"]
    assert ("cuda" in kitchen["needs"]) == (name in ON_CUDA)
    assert 0 < kitchen["limit_s"] <= 600


@pytest.mark.parametrize("name", [*ON_ANY_MACHINE, *ON_CUDA])
def test_functions_are_documented_and_budgets_are_keywords(name: str) -> None:
    tree = ast.parse((SNIPPETS / f"{name}.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert all(ast.get_docstring(function) for function in functions)
    (run,) = (function for function in functions if function.name == "run")
    assert not run.args.args
    assert all(default is not None for default in run.args.kw_defaults)


@pytest.mark.skipif(CUDA, reason="this machine has a CUDA device")
@pytest.mark.parametrize("name", ON_CUDA)
def test_without_cuda_every_row_is_unavailable(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = load(name)
    rows = module.run()
    check_rows(name, rows, failed_too=False)
    assert {row["status"] for row in rows} == {"unavailable"}
    assert {row["note"] for row in rows} == {"CUDA graphs need a CUDA device."}
    module.main([])
    assert "CUDA graphs need a CUDA device." in capsys.readouterr().out


# ---------------------------------------------------------------- on any machine


def test_recorder_shows_what_fixed_addresses_mean() -> None:
    module = load("cudagraphs/recorder")
    rows = module.run()
    check_rows("cudagraphs/recorder", rows, failed_too=False)
    found = {row["case"]: row for row in rows}
    assert [case for case, row in found.items() if row["right"]] == ["copy in", "clone the output"]
    assert found["keep the output"]["got"] == "21, 41"
    assert found["new tensor"]["got"] == found["Python between"]["got"] == "3, 5"
    assert found["copy in"]["operators"] == 3
    assert "Python asks for a value" in found["branch on a value"]["error"]
    assert "must match" in found["another shape"]["error"]


def test_recorder_replays_views_and_operators_in_place() -> None:
    module = load("cudagraphs/recorder")
    weight = torch.arange(6.0).reshape(2, 3)

    def layer(x: Any) -> Any:
        return (x @ weight.t()).add_(1).relu_().view(-1)

    x = torch.tensor([[1.0, 2.0, 3.0]])
    film, y = module.record(layer, x)
    x.copy_(torch.tensor([[-1.0, 0.0, 5.0]]))
    film.replay()
    assert torch.equal(y, layer(x))


@pytest.mark.slow
def test_on_a_cpu_nothing_is_recorded_and_the_counter_tells() -> None:
    rows = run_alone("cudagraphs/on_a_cpu", {})
    check_rows("cudagraphs/on_a_cpu", rows, failed_too=False)
    found = {row["way"]: row for row in rows}
    for way in ("cudagraphs", "reduce-overhead", "max-autotune"):
        row = found[way]
        assert (row["captured_graphs"], row["right"], row["first_kept"]) == (1, True, True)
        assert row["cudagraph_skips"] >= 1
        assert row["error"] == "nothing raised"
    assert "cpu device" in found["cudagraphs"]["warning"]
    assert found["reduce-overhead"]["warning"] == "nothing logged"
    assert found["reduce-overhead"]["same_code"] is True
    if not CUDA:
        assert found["torch.cuda.graph"]["error"] != "nothing raised"
        assert found["torch.cuda.graph"]["right"] is None


# ---------------------------------------------------------------- a pretended CUDA


class FakeStream:
    """A stream that has nothing to wait for."""

    def wait_stream(self, other: FakeStream) -> None:
        """Do nothing."""


class FakeEvent:
    """An event on the CPU's clock."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.at = 0.0

    def record(self) -> None:
        """Keep the time."""
        self.at = time.perf_counter()

    def elapsed_time(self, other: FakeEvent) -> float:
        """Return milliseconds."""
        return (other.at - self.at) * 1e3


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the pretence in the place of torch.cuda, and a compiler that makes no code in the place of torch.compile."""
    recorder = load("cudagraphs/recorder")

    class FakeGraph:
        def __init__(self, keep_graph: bool = False) -> None:
            self.film = recorder.Recorder()

        def capture_begin(self, pool: Any = None) -> None:
            """Start."""

        def instantiate(self) -> None:
            """Do nothing."""

        def replay(self) -> None:
            self.film.replay()

        def pool(self) -> tuple[int, int]:
            return 0, 1

    @contextlib.contextmanager
    def graph(target: FakeGraph, pool: Any = None) -> Iterator[None]:
        target.capture_begin(pool)
        with target.film:
            yield

    original: Callable[..., Any] = torch.compile

    def compile_nothing(
        model: Any, *, mode: Any = None, options: Any = None, backend: Any = None, **keywords: Any
    ) -> Any:
        return original(model, backend="eager", **keywords)

    segments = [{"total_size": 2**21, "segment_pool_id": (0, 1)}, {"total_size": 2**20, "segment_pool_id": (0, 0)}]
    pretended: dict[str, Any] = {
        "synchronize": lambda: None,
        "Stream": FakeStream,
        "current_stream": FakeStream,
        "stream": lambda stream: contextlib.nullcontext(),
        "CUDAGraph": FakeGraph,
        "graph": graph,
        "graph_pool_handle": lambda: (0, 1),
        "Event": FakeEvent,
        "_sleep": lambda cycles: None,
        "memory_snapshot": lambda: segments,
        "memory_reserved": lambda: 3 * 2**20,
        "max_memory_allocated": lambda: 2**20,
        "is_available": lambda: True,
        "get_rng_state": lambda: None,
        "set_rng_state": lambda state: None,
    }
    for name, value in pretended.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch, "compile", compile_nothing)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def children_in_here(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let run() call its children in this process, on the CPU."""
    children: Callable[[Row], Row]
    if hasattr(module, "CHILDREN"):
        children = lambda job: module.CHILDREN[job["task"]](job)  # noqa: E731
    else:
        (name,) = (name for name in vars(module) if name.startswith("child_") and name != "child_main")
        children = getattr(module, name)

    def run_child(job: Row, *places: Any) -> Row:
        torch._dynamo.reset()
        answer: Row = json.loads(json.dumps(children(job | {"device": "cpu"}), allow_nan=False))
        return answer

    monkeypatch.setattr(module, "run_child", run_child)


@pytest.mark.usefixtures("cuda")
def test_parts_measures_each_term(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("cudagraphs/parts")
    children_in_here(module, monkeypatch)
    rows = module.run(works=("tiny",), lengths=(1, 4), captures=2, processes=2, rounds=2, block_ms=0.5)
    check_rows("cudagraphs/parts", rows, failed_too=False)
    assert {row["status"] for row in rows} == {"ok"}
    points = [row for row in rows if row["kind"] == "point"]
    assert len(points) == 2 * len(module.WAYS) * len(module.CLOCKS)
    assert len([row for row in rows if row["kind"] == "fit"]) == len(module.WAYS) * len(module.CLOCKS)
    for row in rows:
        if row["kind"] == "point":
            assert row["chain_us"] == statistics.median(row["samples_us"])
            assert len(row["samples_us"]) == 4
        if row["kind"] == "parts":
            assert row["graph_total_us"] == pytest.approx(row["capture_us"] + row["launch_us"] + row["compute_us"])
            assert row["prediction_ratio"] == pytest.approx(row["graph_total_us"] / row["measured_us"])
            assert row["pool_mib"] == 2
            assert row["max_rel_error"] == 0
            assert (row["break_even"] is None) == (row["break_even_text"] == "never")


def fabricated(one: float, graph: float, again: float | None = None) -> dict[str, dict[str, list[list[float]]]]:
    """Return samples of three processes (us): one by one, its twin and one graph, a little apart."""
    spread = (0.99, 1.0, 1.01)
    means = {"one by one": one, "one by one, again": again or one, "one graph": graph}
    clocks = ("complete", "enqueue", "device")
    return {way: {clock: [[mean * s] * 3 for s in spread] for clock in clocks} for way, mean in means.items()}


def test_parts_break_even_is_what_capturing_costs_over_what_a_replay_saves() -> None:
    module = load("cudagraphs/parts")
    parts = [{"capture": [[300e-6, 100e-6, 50e-6]] * 3, "error": 0.0, "pool_mib": 2.0}] * 3
    row = module.parts_row("tiny", 64, parts, fabricated(200.0, 10.0))
    assert row["capture_us"] == pytest.approx(400.0)
    assert row["saved_us"] == pytest.approx(190.0)
    assert (row["verdict"], row["break_even"]) == ("faster", 3)
    assert row["speedup_ratio"] == pytest.approx(20.0)
    slower = module.parts_row("large", 64, parts, fabricated(200.0, 220.0))
    assert (slower["verdict"], slower["break_even"], slower["break_even_text"]) == ("slower", None, "never")
    noisy = module.parts_row("large", 64, parts, fabricated(200.0, 195.0, again=180.0))
    assert noisy["verdict"] == "no difference"
    assert noisy["break_even_text"] == "never"


def test_parts_a_wrong_chain_gets_no_times() -> None:
    module = load("cudagraphs/parts")
    samples = [["tiny", m, way, clock, [1e-6]] for m in (1, 4) for way in module.WAYS for clock in module.CLOCKS]
    part = {"capture": [[1e-4, 1e-4, 1e-4]], "pool_mib": 2.0}
    answer = {"parts": {"tiny/1": part | {"error": 0.0}, "tiny/4": part | {"error": 0.5}}, "samples": samples}
    rows = module.rows_of([answer, answer], ["tiny"], [1, 4])
    (wrong,) = (row for row in rows if row.get("status") == "wrong")
    assert (wrong["m"], wrong["capture_us"]) == (4, None)
    assert {row["m"] for row in rows if row["kind"] == "point"} == {1}
    assert not [row for row in rows if row["kind"] == "fit"], "one point makes no line"


@pytest.mark.usefixtures("cuda")
def test_new_shape_counts_recordings_and_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("cudagraphs/new_shape")
    children_in_here(module, monkeypatch)
    strategies = tuple(module.STRATEGIES)
    rows = module.run(strategies=strategies, sizes=(8, 6, 4), visits=3, processes=2)
    check_rows("cudagraphs/new_shape", rows, failed_too=False)
    wholes = {row["strategy"]: row for row in rows if row["kind"] == "strategy"}
    assert set(wholes) == set(strategies)
    assert {row["status"] for row in rows} == {"ok"}
    assert wholes["torch.cuda.graph"]["recordings"] == 3, "a graph for every size"
    assert wholes["none"]["recordings"] == wholes["none"]["compiles"] == 0
    assert wholes["reduce-overhead, static"]["compiles"] == 3
    assert wholes["reduce-overhead"]["compiles"] == 2, "the second size becomes a symbol"
    assert wholes["reduce-overhead, padded"]["compiles"] == 1
    calls = [row for row in rows if row["kind"] == "call" and row["strategy"] == "none"]
    assert [(row["visit"], row["batch"]) for row in calls] == [(v, n) for v in (1, 2, 3) for n in (8, 6, 4)]
    for row in wholes.values():
        assert (row["pool_mib"], row["reserved_mib"]) == (2, 3)


def test_new_shape_leaves_out_the_first_two_sizes() -> None:
    module = load("cudagraphs/new_shape")
    calls = [
        {"visit": visit, "batch": n, "seconds": 1.0 if visit < 3 else 0.1} for visit in (1, 2, 3, 4) for n in (9, 8, 7)
    ]
    assert module.new_shape_s(calls) == pytest.approx(1.0 + 1.0 + 0.1 - 3 * 0.1)
    assert module.new_shape_s([call for call in calls if call["batch"] != 7]) is None


@pytest.mark.usefixtures("cuda")
def test_a_failing_strategy_is_a_row_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("cudagraphs/new_shape")
    children_in_here(module, monkeypatch)
    inner = module.run_child
    monkeypatch.setattr(
        module,
        "run_child",
        lambda job, *rest: {"failed": "boom"} if job["strategy"] == "inductor" else inner(job, *rest),
    )
    rows = module.run(strategies=("none", "inductor"), sizes=(4, 2), visits=2, processes=2)
    check_rows("cudagraphs/new_shape", rows, failed_too=False)
    assert {row["strategy"]: row["status"] for row in rows} == {"none": "ok", "inductor": "failed"}


@pytest.mark.usefixtures("cuda")
def test_overwritten_output_tells_error_silence_and_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("cudagraphs/overwritten_output")
    children_in_here(module, monkeypatch)
    rows = {row["case"]: row for row in module.run()}
    check_rows("cudagraphs/overwritten_output", list(rows.values()), failed_too=False)
    assert rows["by hand"]["outcome"] == "silently overwritten", "the pretended graph reuses its output"
    assert rows["fed back"]["outcome"] == "right"
    # The pretended compiler gives fresh outputs.
    assert rows["kept"]["outcome"] == rows["cloned"]["outcome"] == rows["own buffer"]["outcome"] == "kept"

    def overwritten(*arguments: Any) -> Any:
        raise RuntimeError(
            "Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run."
        )

    monkeypatch.setattr(module, "attempt", overwritten)
    (row,) = module.run(cases=("kept",))
    assert (row["outcome"], row["first_kept"]) == ("error", False)
    assert "overwritten" in row["error"]


@pytest.mark.usefixtures("cuda")
def test_overwritten_output_of_a_replay_is_mended_by_a_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("cudagraphs/overwritten_output")
    children_in_here(module, monkeypatch)
    # A compiler whose outputs lie in one place, as those of a recorded CUDA graph do.
    example = torch.zeros(module.SIZE, module.SIZE)
    monkeypatch.setattr(torch, "compile", lambda function, mode: module.by_hand(example))
    rows = {row["case"]: row["outcome"] for row in module.run()}
    assert rows["kept, warm"] == rows["kept"] == rows["marked"] == "silently overwritten"
    assert rows["cloned, warm"] == rows["cloned"] == rows["own buffer"] == "kept"


@pytest.mark.usefixtures("cuda")
def test_three_ways_compares_them_like_four_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("cudagraphs/three_ways")
    children_in_here(module, monkeypatch)
    ways = ("aot_eager", "reduce-overhead", "torch.cuda.graph")
    rows = {r["backend"]: r for r in module.run(ways=ways, repeats=1, processes=2, rounds=2, block_ms=0.5, steps=1000)}
    check_rows("cudagraphs/three_ways", list(rows.values()), failed_too=False)
    assert set(rows) == {"none", "none_again", *ways}
    assert {row["status"] for row in rows.values()} == {"ok"}
    for way in ways:
        row = rows[way]
        assert row["total_s"] == pytest.approx(row["compile_cold_s"] + 1000 * row["step_us"] * 1e-6)
        assert row["pool_mib"] == 2
        assert row["speedup_low"] <= row["speedup_ratio"] <= row["speedup_high"]


def test_three_ways_gives_no_time_where_no_graph_was_replayed() -> None:
    module = load("cudagraphs/three_ways")
    answer = {"error": 0.0, "graphs": 1, "graph_launches": 0.0}
    assert module.trouble("cudagraphs", answer) == (
        "not measured",
        "No CUDA graph was replayed, so there is nothing to time.",
    )
    assert module.trouble("inductor", answer) is None
    assert module.trouble("cudagraphs", answer | {"graph_launches": 1.0}) is None
    assert module.trouble("inductor", answer | {"error": math.nan})[0] == "wrong"
    assert module.trouble("inductor", answer | {"graphs": 0})[0] == "not measured"
