"""The snippet on Torch-TensorRT, which needs a GPU, against a pretended torch_tensorrt on the CPU.

The pretence does what the source of torch-tensorrt 2.13 does as far as the snippet can see it: fewer operators than
``min_block_size`` leave the graph to PyTorch, the others go into modules that know no gradients, and what went where is
handed to ``dryrun_stats_display``. What it can't show is whether the real one behaves so on a GPU.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.snippet_rows import check_rows
from tests.test_snippets import load

torch = pytest.importorskip("torch")

Row = dict[str, Any]

NAME = "third_party/tensorrt_gpu"
SMALL: Row = {"width": 16, "batch": 2, "length": 32, "processes": 2, "rounds": 2, "block_ms": 0.5}


class PretendedEngine(torch.nn.Module):  # type: ignore[name-defined, unused-ignore]
    """A TensorRT engine: runs a graph without gradients. ``scale`` makes it wrong."""

    def __init__(self, run: Any, scale: float) -> None:
        super().__init__()
        self.name, self.run, self.scale = "_run_on_acc_0", run, scale

    def forward(self, *inputs: Any) -> Any:
        with torch.no_grad():
            return tuple(part * self.scale for part in self.run(*inputs))


def pretend(fault: str) -> dict[str, ModuleType]:
    """Return modules for sys.modules; ``torch_tensorrt.backend`` takes a graph as torch.compile's back ends do."""
    compiler = types.ModuleType("torch_tensorrt.dynamo._compiler")
    runtime = types.ModuleType("torch_tensorrt.dynamo.runtime")
    dynamo, package = types.ModuleType("torch_tensorrt.dynamo"), types.ModuleType("torch_tensorrt")
    compiler.dryrun_stats_display = lambda tracker, enabled: None  # type: ignore[attr-defined]
    runtime.TorchTensorRTModule = PretendedEngine  # type: ignore[attr-defined]

    def backend(graph: Any, inputs: Any, options: Row) -> Any:
        if fault == "build fails":
            return graph.forward  # with a line in the log, as pass_through_build_failures is off
        operators = [node for node in graph.graph.nodes if node.op.startswith("call_")]
        kept = options.get("torch_executed_ops", set())
        left = [f"Node: {op}, with layer location: somewhere" for op in kept]
        if len(operators) < options.get("min_block_size", 5):
            return graph.forward
        parts = [len(operators)] if not left else [len(operators) - 2, 1]
        tracker = SimpleNamespace(
            total_ops_in_graph=len(operators),
            tensorrt_graph_count=len(parts),
            per_subgraph_data=[SimpleNamespace(subgraph_op_count=count) for count in parts],
            to_run_in_torch=left,
        )
        compiler.dryrun_stats_display(tracker, False)
        engines = [PretendedEngine(graph.forward, 1.1 if fault == "wrong" else 1.0) for _ in parts]
        return lambda *values: [engine(*values) for engine in engines][-1]

    package.backend = backend  # type: ignore[attr-defined]
    return {module.__name__: module for module in (package, dynamo, compiler, runtime)}


@pytest.fixture(params=["no fault"])
def snippet(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The snippet with a pretended torch_tensorrt and CUDA, a compiler that makes no code, children in here."""
    module = load(NAME)
    modules = pretend(request.param)
    for name, pretended in modules.items():
        monkeypatch.setitem(sys.modules, name, pretended)
        parent, _, child = name.rpartition(".")
        if parent:
            monkeypatch.setattr(modules[parent], child, pretended, raising=False)
    real = torch.cuda.is_available
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(module, "synchronize", lambda device: None)
    monkeypatch.setattr(module, "HEADS", 4)
    monkeypatch.setattr(module, "installed", lambda name: True)
    original = torch.compile

    def compile_pretended(model: Any, backend: Any = None, options: Any = None) -> Any:
        if backend != "torch_tensorrt":
            return original(model, backend=backend or "eager")
        target: Any = modules["torch_tensorrt"]
        return original(model, backend=lambda graph, inputs: target.backend(graph, inputs, options))

    monkeypatch.setattr(torch, "compile", compile_pretended)

    def run_child(job: Row, *_: Any) -> Row:
        torch._dynamo.reset()
        # As child_main does: another number of threads is another graph for Dynamo.
        torch.set_num_threads(job["threads"])
        with monkeypatch.context() as child:
            # Only run() is to believe in CUDA: Dynamo would go and ask it about its properties.
            child.setattr(torch.cuda, "is_available", real)
            answer: Row = json.loads(json.dumps(module.CHILDREN[job["task"]](job | {"device": "cpu"}), allow_nan=False))
        return answer

    monkeypatch.setattr(module, "run_child", run_child)
    threads = torch.get_num_threads()
    yield module
    torch.set_num_threads(threads)
    torch._dynamo.reset()


def test_without_cuda_every_row_is_unavailable(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    module = load(NAME)
    rows = module.run()
    check_rows(NAME, rows)
    assert {(row["status"], row["note"]) for row in rows} == {("unavailable", "TensorRT needs a CUDA device.")}
    module.main([])
    assert "TensorRT needs a CUDA device." in capsys.readouterr().out


def test_the_release_to_install_is_that_of_this_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(NAME)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(module, "installed", lambda name: False)
    release = ".".join(torch.__version__.split(".")[:2])
    with pytest.raises(SystemExit, match=rf"pip install 'torch-tensorrt=={release}\.\*'"):
        module.run()


def test_rows_hold_what_went_into_engines_and_what_stayed(snippet: ModuleType) -> None:
    rows = snippet.run(**SMALL)
    check_rows(NAME, rows)
    found = {row["case"]: row for row in rows if row["backend"] == "torch_tensorrt"}
    assert set(found) == set(snippet.CASES)
    for case in ("mlp", "cnn", "transformer_block"):
        row = found[case]
        assert (row["status"], row["engines"], row["executed"]) == ("ok", 1, 1)
        assert row["engine_operations"] == row["graph_operations"] > 0
        assert row["left_operations"] == ""
        assert row["max_rel_error"] < 1e-5
        assert row["beside_low"] <= row["beside_inductor"] <= row["beside_high"]
    split = found["split"]
    assert (split["engines"], split["executed"]) == (2, 2)
    assert split["left_operations"] == "aten.tanh.default 1"
    assert 0 < split["engine_operations"] < split["graph_operations"]
    # The model came out right, because eager mode ran it: no engine, no time.
    small = found["too_small"]
    assert (small["status"], small["engines"], small["executed"]) == ("not measured", 0, 0)
    assert small["left_operations"] == "all"
    assert small["max_rel_error"] < 1e-5
    assert small["step_us"] is None
    # Engines know no gradients: a loss that nobody is told of. What stayed in PyTorch has them.
    assert {case: row["gradients"] for case, row in found.items()} == {
        "mlp": "lost",
        "cnn": "lost",
        "transformer_block": "lost",
        "split": "lost",
        "too_small": "equal",
    }
    for row in rows:
        if row["backend"] in (*snippet.PLAIN, "inductor"):
            assert row["status"] == "ok"
            assert row["executed"] is None


@pytest.mark.parametrize(
    ("snippet", "status", "note"),
    [("build fails", "not measured", "No TensorRT engine ran"), ("wrong", "wrong", "relative error 0.1")],
    indirect=["snippet"],
)
def test_a_torch_tensorrt_at_fault_gets_no_time(snippet: ModuleType, status: str, note: str) -> None:
    rows = {row["backend"]: row for row in snippet.run(cases=("mlp",), **SMALL)}
    check_rows(NAME, list(rows.values()))
    assert rows["torch_tensorrt"]["status"] == status
    assert note in rows["torch_tensorrt"]["note"]
    assert rows["inductor"]["status"] == "ok"
    assert rows["inductor"]["samples_us"]


def test_both_sides_compute_in_full_float32() -> None:
    module = load(NAME)
    assert all(module.options_of(case)["disable_tf32"] is True for case in module.CASES)
    assert [case for case in module.CASES if module.options_of(case).get("torch_executed_ops")] == ["split"]


def test_fewer_than_two_processes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least two"):
        load(NAME).run(processes=1)
