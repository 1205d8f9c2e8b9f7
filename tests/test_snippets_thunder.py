"""The snippets on nvFuser: the one for a CPU with and without thunder, the one for a GPU against a pretended thunder.

Thunder does not import on the torch of this repository, so it is not among what ``make test`` installs. The tests that
need it are skipped; in its own environment (environments/thunder.txt, and pytest) they run:

    .venv-thunder/bin/python -m pytest tests/test_snippets_thunder.py

The pretended thunder captures with Dynamo, runs the graph as it is, and calls one "fusion" for each graph, so that
every line of the children is executed. What it can't show is whether real thunder and nvFuser behave so on a GPU.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.snippet_rows import check_rows
from tests.test_snippets import SNIPPETS, load, run_alone

torch = pytest.importorskip("torch")

Row = dict[str, Any]

CPU, GPU = "third_party/thunder_cpu", "third_party/nvfuser_gpu"
NO_THUNDER = importlib.util.find_spec("thunder") is None
needs_thunder = pytest.mark.skipif(NO_THUNDER, reason="thunder has an environment of its own: environments/thunder.txt")


# ---------------------------------------------------------------- thunder on a CPU


@pytest.mark.parametrize("name", [CPU, GPU])
def test_what_it_says_to_install_is_what_the_environment_pins(name: str) -> None:
    pinned = (SNIPPETS.parent / "environments" / "thunder.txt").read_text("utf-8").splitlines()
    assert set(load(name).TO_INSTALL.split()) <= set(pinned)


@pytest.mark.skipif(not NO_THUNDER, reason="thunder is installed")
def test_without_thunder_it_says_what_to_install() -> None:
    with pytest.raises(SystemExit, match=r"needs Lightning Thunder: pip install torch=="):
        load(CPU).run()


def plant(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a package thunder in front of all others, here and in child processes."""
    (folder / "thunder").mkdir()
    (folder / "thunder" / "__init__.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(str(folder))


def test_a_torch_that_thunder_does_not_import_on_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As thunder 0.2.6 ends on torch 2.13, by way of a file of this machine.
    message = f"type object 'Tensor' has no attribute 'align_as' in {tmp_path}/thunder/torch/default_torch_ops.py"
    plant(tmp_path, f"raise AttributeError({message!r})", monkeypatch)
    rows = load(CPU).run(cases=("mlp",), workloads=("inference",), plans=("mlp",))
    check_rows(CPU, rows)
    found, *others = rows
    assert (found["kind"], found["status"], found["outcome"], found["raised_at"]) == ("import", "ok", "error", "import")
    assert found["error"] == "AttributeError"
    assert found["message"].startswith("type object 'Tensor' has no attribute 'align_as'")
    assert str(tmp_path) not in found["message"]
    assert {row["kind"] for row in others} == {"case", "plan"}
    assert {row["status"] for row in others} == {"not measured"}


def test_a_crash_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", monkeypatch)
    rows = load(CPU).run(cases=("mlp",), ways=("thunder.jit",), workloads=("inference",), plans=())
    check_rows(CPU, rows)
    assert (rows[0]["status"], rows[0]["note"]) == ("failed", "the process died of signal SIGSEGV")
    assert rows[1]["status"] == "not measured"


def test_one_that_takes_the_process_down_costs_only_its_own_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = load(CPU)
    rows = [module.blank_row("case", case=name) for name in "abcd"]

    def run_child(tries: list[Row], folder: Path, limit_s: float) -> tuple[list[Row], str]:
        before = [one["case"] for one in tries]
        answers = [{"outcome": "runs"} for _ in before[: before.index("b")]] if "b" in before else None
        return (answers, "it died") if answers is not None else ([{"outcome": "runs"} for _ in before], "")

    monkeypatch.setattr(module, "run_child", run_child)
    module.fill(rows, tmp_path, 1.0)
    assert [row["status"] for row in rows] == ["ok", "failed", "ok", "ok"]
    assert [row["outcome"] for row in rows] == ["runs", None, "runs", "runs"]


def symbol(name: str, executor: str | None, *inside: str) -> SimpleNamespace:
    """Return what thunder calls a bound symbol, as far as the snippets look at it."""
    owner = None if executor is None else SimpleNamespace(name=executor)
    sym = SimpleNamespace(name=name, executor=owner, is_fusion=bool(inside))
    return SimpleNamespace(sym=sym, subsymbols=[symbol(one, None) for one in inside])


TRACE = SimpleNamespace(
    bound_symbols=[
        symbol("unpack_trivial", None),
        symbol("linear", "torch"),
        symbol("nvFusion0", "nvfuser", "add", "mul"),
        symbol("linear", "torch"),
        symbol("clear_mutable_collection", "python"),
        symbol("python_return", None),
    ]
)


def test_operations_are_counted_without_the_bookkeeping() -> None:
    module = load(CPU)
    found = module.operations_of([TRACE])
    assert found == [("linear", "torch", []), ("nvFusion0", "nvfuser", ["add", "mul"]), ("linear", "torch", [])]
    assert module.tally(executor for _, executor, _ in found) == "torch 2, nvfuser 1"


def test_a_trace_is_shown_without_the_source_of_each_line() -> None:
    text = """# Constructed by Delete Last Used (took 0 milliseconds)
import torch
@torch.no_grad()
def computation(x):
  # x: "cuda:0 f32[2, 64]"

  # /somewhere/torch/nn/modules/linear.py:134: \t        return F.linear(input)
  t1 = torch.nn.functional.linear(x)  # t1: "cuda:0 f32[2, 64]"
    # t1 = ltorch.linear(x)
  del x
  [t2] = nvFusion0(t1)
    # t0 = prims.mul(t1, 2.0)  # t0: "cuda:0 f32[2, 64]"
  return (t2,)"""
    module = load(CPU)
    outside, inside = (module.readable(text, inside=inside).splitlines() for inside in (False, True))
    assert [line.split("=")[0].strip() for line in outside] == ["def computation(x):", "t1", "[t2]", "return (t2,)"]
    assert [line for line in inside if line not in outside] == [
        '    # t0 = prims.mul(t1, 2.0)  # t0: "cuda:0 f32[2, 64]"'
    ]
    assert not any("somewhere" in line for line in inside)


@needs_thunder
@pytest.mark.slow
def test_thunder_equals_eager_and_plans_for_nvfuser() -> None:
    rows = run_alone(CPU, {"cases": ["norm_chain", "unknown_operator", "branch_on_value"], "plans": ["norm_chain"]})
    check_rows(CPU, rows)
    if rows[0]["outcome"] == "error":
        assert {row["status"] for row in rows[1:]} == {"not measured"}
        return
    found = {(row["kind"], row["case"], row["way"], row["workload"]): row for row in rows}
    compiled = [row for row in rows if row["kind"] == "case" and row["outcome"] == "runs"]
    assert {(row["gradients"] == "equal") == (row["workload"] == "training") for row in compiled} == {True}
    assert all(row["executed"] >= 1 and "nvfuser" not in row["executors"] for row in compiled)
    # What thunder has no word for goes to Inductor, and only by way of Dynamo.
    assert found["case", "unknown_operator", "ThunderCompiler", "training"]["inductor_parts"] == 1
    assert found["case", "norm_chain", "ThunderCompiler", "training"]["inductor_parts"] == 0
    # A branch on a value breaks Dynamo's graph in two; thunder.jit, which has nobody to break it, refuses.
    assert found["case", "branch_on_value", "ThunderCompiler", "training"]["captured_graphs"] == 2
    assert found["case", "branch_on_value", "thunder.jit", "training"]["raised_at"] == "first call"
    plan = found["plan", "norm_chain", "thunder.jit", "inference"]
    if plan["status"] == "ok":
        assert (plan["fusions"], plan["executed"], plan["left_operations"]) == (1, 0, "linear 1")
        assert "nvFusion0(" in plan["trace"]
        assert "prims.var_mean" in plan["trace"]
        assert found["plan", "norm_chain", "thunder.jit", "training"]["fusions"] > 1


# ---------------------------------------------------------------- nvFuser on a GPU, pretended


class PretendedFusion:
    """Stands for the object that thunder calls where a fusion of nvFuser is to run."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, run: Any, *inputs: Any) -> Any:
        return run(*inputs)


class PretendedThunder:
    """What the snippet uses of thunder. ``fault``: what is wrong with it."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.backward_traces: list[Any] = [TRACE]

    def compiled(self, run: Any) -> Any:
        """Return a callable that runs ``run`` as if it were one fusion."""
        fusion = PretendedFusion("nvFusion0")

        def call(*inputs: Any) -> Any:
            if self.fault == "no fusion":
                return run(*inputs)
            if self.fault == "lost":
                with torch.no_grad():
                    return fusion(run, *inputs)
            result = fusion(run, *inputs)
            if self.fault == "wrong":
                return tuple(part * 1.1 for part in result) if isinstance(result, tuple) else result * 1.1
            return result

        return call

    def modules(self) -> dict[str, ModuleType]:
        """Return modules for sys.modules."""
        pretended = self

        class ThunderCompiler:
            def __init__(self) -> None:
                self.subgraph_infos: list[Any] = []

            def __call__(self, graph: Any, inputs: Any) -> Any:
                function = pretended.compiled(graph.forward)
                self.subgraph_infos.append(SimpleNamespace(thunder_compiled_fns=[function]))
                return function

        class Jitted(torch.nn.Module):  # type: ignore[name-defined, unused-ignore]
            def __init__(self, model: Any) -> None:
                super().__init__()
                self.model = model
                self.run = pretended.compiled(model)

            def forward(self, x: Any) -> Any:
                return self.run(x)

        thunder = types.ModuleType("thunder")
        thunder.jit = Jitted  # type: ignore[attr-defined]
        thunder.last_traces = lambda function: ["an earlier one", TRACE]  # type: ignore[attr-defined]
        thunder.last_backward_traces = lambda function: pretended.backward_traces  # type: ignore[attr-defined]
        dynamo, executors = types.ModuleType("thunder.dynamo"), types.ModuleType("thunder.executors")
        impl = types.ModuleType("thunder.executors.nvfuserex_impl")
        dynamo.ThunderCompiler = ThunderCompiler  # type: ignore[attr-defined]
        executors.get_nvfuser_executor = (  # type: ignore[attr-defined]
            lambda: None if pretended.fault == "no executor" else object()
        )
        impl.FusionDefinitionWrapper = PretendedFusion  # type: ignore[attr-defined]
        return {module.__name__: module for module in (thunder, dynamo, executors, impl)}


SMALL: Row = {"width": 16, "batch": 2, "length": 4, "processes": 2, "rounds": 2, "block_ms": 0.5}


@pytest.fixture(params=["no fault"])
def snippet(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The snippet with a pretended thunder, a pretended CUDA, a compiler that makes no code, children in here."""
    module = load(GPU)
    for name, pretended in PretendedThunder(request.param).modules().items():
        monkeypatch.setitem(sys.modules, name, pretended)
    real = torch.cuda.is_available
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(module, "synchronize", lambda device: None)
    monkeypatch.setattr(module, "HEADS", 4)
    monkeypatch.setattr(module, "installed", lambda name: True)
    original = torch.compile
    monkeypatch.setattr(torch, "compile", lambda model, backend=None: original(model, backend=backend or "eager"))

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
    torch._dynamo.utils.counters.clear()
    yield module
    torch.set_num_threads(threads)
    torch._dynamo.reset()


def test_without_cuda_every_row_is_unavailable(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    module = load(GPU)
    rows = module.run()
    check_rows(GPU, rows)
    assert {(row["status"], row["note"]) for row in rows} == {("unavailable", "nvFuser needs a CUDA device.")}
    assert len(rows) == len(module.CASES) * len(module.WORKLOADS) * (len(module.PLAIN) + len(module.WAYS))
    module.main([])
    assert "nvFuser needs a CUDA device." in capsys.readouterr().out


def test_with_cuda_and_without_the_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(GPU)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(module, "installed", lambda name: name != "nvfuser_direct")
    with pytest.raises(SystemExit, match=r"needs nvFuser: pip install torch=="):
        module.run()


def test_gpu_rows_hold_what_nvfuser_took_and_how_it_did(snippet: ModuleType) -> None:
    rows = snippet.run(**SMALL)
    check_rows(GPU, rows)
    assert {row["status"] for row in rows} == {"ok"}
    assert len(rows) == 3 * 2 * 5
    for row in rows:
        thunder = row["backend"] in snippet.OF_THUNDER
        assert len(row["samples_us"]) == 4
        assert (row["beside_inductor"] is not None) == thunder
        if thunder:
            # A forward and a backward trace of one fusion with two operations each, one fusion called in a step.
            assert (row["fusions"], row["fused_operations"], row["left_operations"]) == (2, 4, "linear 4")
            assert row["executed"] == 1
            assert row["beside_low"] <= row["beside_inductor"] <= row["beside_high"]
        if row["backend"] not in snippet.PLAIN:
            assert row["gradients"] == ("equal" if row["workload"] == "training" else "not wanted")
            assert row["max_rel_error"] < 1e-5
            assert row["compile_cold_s"] >= 0


@pytest.mark.parametrize(
    ("snippet", "status", "note"),
    [
        ("no fusion", "not measured", "No fusion of nvFuser ran"),
        ("no executor", "not measured", "No fusion of nvFuser ran"),
        ("wrong", "wrong", "against float64 is above"),
        ("lost", "wrong", "The gradients are lost."),
    ],
    indirect=["snippet"],
)
def test_a_thunder_at_fault_gets_no_time(snippet: ModuleType, status: str, note: str) -> None:
    rows = snippet.run(cases=("norm_chain",), workloads=("training",), **SMALL)
    check_rows(GPU, rows)
    for row in rows:
        if row["backend"] in snippet.OF_THUNDER:
            assert row["status"] == status
            assert note in row["note"]
            assert row["beside_inductor"] is None
        else:
            assert row["status"] == "ok"
            assert row["samples_us"]


def test_a_failing_child_is_a_row(snippet: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    children = snippet.run_child

    def run_child(job: Row, *rest: Any) -> Row:
        if job.get("way") == "thunder.jit":
            return {"failed": "the process died of signal SIGSEGV"}
        answer: Row = children(job, *rest)
        return answer

    monkeypatch.setattr(snippet, "run_child", run_child)
    rows = {row["backend"]: row for row in snippet.run(cases=("mlp",), workloads=("inference",), **SMALL)}
    assert (rows["thunder.jit"]["status"], rows["ThunderCompiler"]["status"]) == ("failed", "ok")
    assert "SIGSEGV" in rows["thunder.jit"]["note"]


def test_a_ratio_beside_inductor_is_paired_within_a_round() -> None:
    module = load(GPU)
    rows = {way: module.blank_row("mlp", "inference", way, "cuda", 1) for way in (*module.PLAIN, *module.WAYS)}
    # The machine is twice as slow in every second round: paired, that cancels.
    times = {"none": 8e-3, "none_again": 8e-3, "inductor": 2e-3, "ThunderCompiler": 4e-3, "thunder.jit": 1e-3}
    runs = [{way: [t * part, 2 * t * part] for way, t in times.items()} for part in (1.0, 1.1, 0.9)]
    module.add_steps(rows, runs)
    assert rows["ThunderCompiler"]["beside_inductor"] == pytest.approx(0.5)
    assert rows["thunder.jit"]["beside_inductor"] == pytest.approx(2.0)
    assert rows["inductor"]["beside_inductor"] is None
    assert rows["inductor"]["speedup_ratio"] == pytest.approx(4.0)
    assert rows["none_again"]["verdict"] == "no difference"


def test_counting_puts_thunder_back_as_it_was(snippet: ModuleType) -> None:
    before = PretendedFusion.__call__
    with contextlib.suppress(ZeroDivisionError), snippet.counting_fusions() as called:
        PretendedFusion("nvFusion7")(int)
        raise ZeroDivisionError
    assert called == ["nvFusion7"]
    assert PretendedFusion.__call__ is before


@needs_thunder
@pytest.mark.slow
def test_real_thunder_answers_what_the_children_ask() -> None:
    """On a CPU nvFuser takes nothing, and the children say so; the rest of thunder is the real one."""
    pytest.importorskip("nvfuser_direct")
    module = load(GPU)
    module.HEADS = 4  # type: ignore[attr-defined]
    for way in module.OF_THUNDER:
        torch._dynamo.reset()
        job = {"device": "cpu", "threads": torch.get_num_threads(), "block_ms": 0.5, "way": way}
        job |= {"case": "transformer_block", "workload": "training", "width": 16, "batch": 2, "length": 4}
        answer = module.child_compile(job)
        assert answer["gradients"] == "equal"
        assert answer["error"] < 1e-5
        assert (answer["fusions"], answer["executed"]) == (0, 0)
        assert "linear 4" in answer["left_operations"]
        assert module.trouble(way, answer)[0] == "not measured"
