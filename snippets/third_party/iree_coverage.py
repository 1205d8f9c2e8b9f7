# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11", "iree-turbine>=3.9", "iree-base-compiler>=3.9", "iree-base-runtime>=3.9"]
#
# [tool.kitchen]
# needs = []
# limit_s = 600
# value = 58
# ///
"""What does IREE run, what stays with torch, and what comes out: small cases through ``turbine_cpu`` and its kin.

Besides ``torch.compile(backend="turbine_cpu")`` ("torch.compile") the same cases are exported ahead of time with
``iree.turbine.aot`` and called through IREE's runtime ("export"). The other names that the package registers are tried
on three modules. Training is tried as it is ("torch.compile"), with an input that wants a gradient ("input with
gradient"), and through a compiler function that takes out of a graph the outputs that are None ("mended").

Counted in a step that follows the first: calls that reached IREE's runtime, and the operators that torch ran itself (by
torch's profiler, without those that only make a view or a copy). Outputs are compared with the same module in float64,
run without compiling; gradients with those of the same module.

A float64 tensor can leave IREE's device unusable, so what might do so runs in a process of its own. One that takes its
process down is a failed row. In the table of coverage IREE works with one worker thread.

Columns
    kind               "inference", "name", "training", "threads" or "behaviour"
    case               the module, or what was tried
    backend            the name, as torch.compile takes it; None where torch.compile isn't asked
    way                the road: "torch.compile", "export", "input with gradient", "mended"
    outcome            "runs"; "wrong" where result or gradient is off; "error"
    executed           calls that reached IREE's runtime in one step
    torch_operators    operators that torch ran itself in the same step
    eager_operators    operators that the step takes without compiling
    ran_in             "IREE", "IREE and torch", "torch"; None where nothing ran
    relative_error     norm of the difference over the norm, output against float64; at most 1
    gradients          "equal", "wrong", "lost" (no graph leads back), "error", "not wanted"
    raised_at          where an error came: "torch.compile()", "first call", "backward", "export"; "never"
    error, message     name of the exception and its first line; where IREE's compiler writes the cause to stderr, that
    asked, used        what was asked for, and what was seen
    threads            worker threads that IREE started (counted in /proc; None elsewhere than on Linux)
    status, note       "ok" (also for an error that was caught: that is the finding), "failed" where the process died
    package, package_version   whose back end it is
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd

try:
    import iree.runtime
    from iree.runtime.flags import parse_flags
    from iree.turbine import aot
    from iree.turbine.dynamo.backends import base
    from iree.turbine.runtime import device
    from iree.turbine.runtime.launch import Launchable
except ImportError:
    raise SystemExit(
        "this snippet needs IREE: pip install 'iree-turbine>=3.9' 'iree-base-compiler>=3.9' 'iree-base-runtime>=3.9'"
    ) from None

Row = dict[str, Any]
Made = tuple[nn.Module, tuple[torch.Tensor, ...]]

NAMES = ("turbine_cpu", "iree_turbine", "iree_boo", "iree_boo_inductor", "iree_boo_experimental")
WAYS = ("torch.compile", "export")
TRAINING_WAYS = ("torch.compile", "input with gradient", "mended")
#: One worker instead of one a core; read when the device is made, so it has to be set before the first use.
ONE_WORKER = "--task_topology_group_count=1"
#: IREE's compiler narrows float64 to float32 unless told not to; the tensors stay float64, and nothing fits any more.
KEEP_FLOAT64 = "--iree-input-demote-f64-to-f32=false"
TOLERANCE = 1e-4
#: Operators that compute nothing: a wrapper calls them to hand a tensor over.
BOOKKEEPING = {
    f"aten::{name}"
    for name in (
        *("detach", "alias", "view", "t", "transpose", "expand", "to", "clone", "contiguous"),
        *("empty", "empty_strided", "set_", "lift_fresh", "resolve_conj", "resolve_neg"),
    )
}


class Split(nn.Module):
    """Two layers with a graph break between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (batch, 16)."""
        hidden = torch.relu(self.first(x) * 2)
        torch._dynamo.graph_break()
        return torch.tanh(self.second(hidden) * 2)


class Pick(nn.Module):
    """A table that is looked up, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer = nn.Embedding(100, 32), nn.Linear(32, 8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return (batch, length, 8)."""
        return torch.relu(self.layer(self.table(tokens)))


class Last(nn.Module):
    """An LSTM of which the last output is used."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 32, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (batch, 32)."""
        result: torch.Tensor = self.lstm(x)[0][:, -1]
        return result


class Scaled(nn.Module):
    """A layer whose output is divided by its largest value, which is taken out as a Python number."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (batch, 16). A number that changes enters the next graph as a float64 tensor."""
        y = self.layer(x)
        largest = y.abs().max().item()
        return y / largest


def mlp() -> nn.Module:
    """Return 64-128-16 with a ReLU between."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16))


def encoder() -> Made:
    """Return one encoder layer without dropout, and its input."""
    layer = nn.TransformerEncoderLayer(32, 4, dim_feedforward=64, dropout=0.0, batch_first=True)
    return layer, (torch.randn(2, 16, 32),)


CASES: dict[str, Callable[[], Made]] = {
    "mlp": lambda: (mlp(), (torch.randn(32, 64),)),
    "layer norm, GELU": lambda: (nn.Sequential(nn.LayerNorm(64), nn.GELU()), (torch.randn(32, 64),)),
    "batch norm, ReLU": lambda: (nn.Sequential(nn.BatchNorm2d(8), nn.ReLU()), (torch.randn(2, 8, 16, 16),)),
    "convolution, ReLU": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), (torch.randn(2, 3, 16, 16),)),
    "max pooling": lambda: (nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)), (torch.randn(2, 8, 16, 16),)),
    "embedding": lambda: (Pick(), (torch.randint(100, (4, 8)),)),
    "encoder, fast path": encoder,
    "encoder, no fast path": encoder,
    "LSTM": lambda: (Last(), (torch.randn(4, 12, 16),)),
    "one operator": lambda: (nn.ReLU(), (torch.randn(32, 64),)),
    "graph break": lambda: (Split(), (torch.randn(32, 64),)),
    "float64": lambda: (mlp().double(), (torch.randn(32, 64, dtype=torch.float64),)),
}
NAMED = ("mlp", "convolution, ReLU", "layer norm, GELU")
TRAINED = ("mlp", "layer norm, GELU", "convolution, ReLU", "batch norm, ReLU")
BEHAVIOURS = (
    "mode",
    "options",
    "other batch sizes",
    "other batch sizes, dynamic=False",
    "output kept",
    "number that changes",
    "number that changes, float64 kept",
    "float64, kept",
    "after a float64 model",
)
THREADS = ("nothing", ONE_WORKER)
#: What may leave the device unusable for whatever comes next in the process.
ALONE = (
    *("float64", "number that changes", "after a float64 model"),
    *("number that changes, float64 kept", "float64, kept"),
)

CALLS = {"executed": 0}


# ---------------------------------------------------------------- looking inside


def count_calls() -> None:
    """Count every call that reaches IREE's runtime through torch.compile."""
    runtime = Launchable.__call__

    def counted(self: Any, *arguments: Any, **keywords: Any) -> Any:
        CALLS["executed"] += 1
        return runtime(self, *arguments, **keywords)

    Launchable.__call__ = counted


def operators_in(function: Callable[[], Any]) -> int:
    """Return how many operators of torch run in a call, those inside another one not counted."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        function()
    events = profile.events() or []
    return sum(
        event.name.startswith("aten::")
        and event.name not in BOOKKEEPING
        and not (event.cpu_parent is not None and event.cpu_parent.name.startswith("aten::"))
        for event in events
    )


def first_line(text: str) -> str:
    """Return the first line of a message that says something, without paths of this machine."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return re.sub(r"(?<![\w.])(/[\w.+-]+){2,}/", "", lines[0])[:200] if lines else ""


def failure(error: BaseException, at: str, log: Path) -> Row:
    """Return the columns of an error; IREE's compiler says the cause on stderr, which goes to ``log``."""
    inner = getattr(error, "inner_exception", None) or error
    message = first_line(str(inner))
    said = re.findall(r"error: (.*)", log.read_text(errors="replace")) if log.exists() else []
    if "iagnostics" in message and said:
        # The operator that it stumbled over stands far to the right.
        operator = re.search(r'"(torch\.aten\.[\w.]+)"', said[0])
        message = first_line(said[0].partition(" %")[0]) + (f" {operator[1]}" if operator else "")
    message = re.sub(r"_[0-9a-f]{40}\w*", "…", message)  # the name of a kernel: what is in it, a hash, all shapes
    return {"outcome": "error", "raised_at": at, "error": type(inner).__name__, "message": message}


def off(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the norm of the difference over the norm of what is expected; 1 at most."""
    ratio = ((got.double() - expected.double()).norm() / expected.double().norm().clamp_min(1e-30)).item()
    return ratio if ratio < 1 else 1.0  # also for what is not a number


def ran_in(executed: int, torch_operators: int) -> str:
    """Return whose code ran."""
    return ("IREE and torch" if torch_operators else "IREE") if executed else "torch"


def twin(model: nn.Module, factory: Callable[[], Made]) -> nn.Module:
    """Return a second module with the same weights."""
    other, _ = factory()
    other.load_state_dict(model.state_dict())
    return other


def reference(model: nn.Module, case: str, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the output of the module in float64, not compiled."""
    exact = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
    result: torch.Tensor = twin(model, CASES[case]).double().eval()(*exact)
    return result


def workers() -> int | None:
    """Return how many worker threads IREE has in this process; None where the system does not tell."""
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        return None
    return sum(path.joinpath("comm").read_text().startswith("iree-worker") for path in tasks.iterdir())


# ---------------------------------------------------------------- the roads


def exported(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Callable[..., torch.Tensor]:
    """Return the module compiled ahead of time, called through IREE's runtime."""
    program = aot.export(model, *inputs)
    program.session.set_flags("--iree-llvmcpu-target-cpu=host")
    binary = program.compile(save_to=None)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, binary.map_memory())
    loaded = iree.runtime.load_vm_module(module, config)

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        CALLS["executed"] += 1
        return torch.from_numpy(loaded.main(*(tensor.numpy() for tensor in tensors)).to_host().copy())

    return call


def without_none(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """Compile a graph with IREE; outputs that are None (inputs that want no gradient) never reach its compiler."""
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    results = list(output.args[0])
    kept = [place for place, result in enumerate(results) if result is not None]
    output.args = (tuple(results[place] for place in kept),)
    graph.recompile()
    call = base._backend(graph, inputs)

    def run_it(*arguments: torch.Tensor) -> list[torch.Tensor | None]:
        got = call(list(arguments))
        tensors = iter(got if isinstance(got, (list, tuple)) else [got])
        return [next(tensors) if place in kept else None for place in range(len(results))]

    boxed: Callable[..., Any] = make_boxed_func(run_it)
    return boxed


#: A back end that trains what IREE's compiler knows the backward of: ``torch.compile(model, backend=mended)``.
mended = aot_autograd(fw_compiler=without_none, bw_compiler=without_none)


def prepared(case: str) -> Made:
    """Return module and inputs of a case, from a clean Dynamo and with the fast path set for it."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(case != "encoder, no fast path")
    return CASES[case]()


def inference(case: str, way: str, name: str, log: Path) -> Row:
    """Run one case by one road, without gradients."""
    model, inputs = prepared(case)
    model.eval()
    row: Row = {"executed": None, "torch_operators": None, "ran_in": None, "relative_error": None}
    at = "export" if way == "export" else "torch.compile()"
    with torch.no_grad():
        row["eager_operators"] = operators_in(lambda: model(*inputs))
        expected = reference(model, case, inputs)
        try:
            run_it = exported(model, inputs) if way == "export" else torch.compile(model, backend=name)
            at = "first call"
            run_it(*inputs)
            CALLS["executed"] = 0
            results: list[torch.Tensor] = []
            row["torch_operators"] = operators_in(lambda: results.append(run_it(*inputs)))
        except Exception as error:
            return row | failure(error, at, log)
    row |= {"executed": CALLS["executed"], "ran_in": ran_in(CALLS["executed"], row["torch_operators"])}
    row["relative_error"] = off(results[0], expected)
    right = row["relative_error"] <= TOLERANCE
    return row | {"outcome": "runs" if right else "wrong", "raised_at": "never", "error": None, "message": None}


def training(case: str, way: str, log: Path) -> Row:
    """Run forward and backward of one case by one road."""
    model, inputs = prepared(case)
    plain = twin(model, CASES[case])
    if way == "input with gradient":
        inputs = tuple(tensor.requires_grad_() for tensor in inputs)
    row: Row = {"executed": None, "torch_operators": None, "ran_in": None, "relative_error": None, "gradients": None}
    seed = torch.randn_like(plain(*inputs))

    def step(module: Callable[..., torch.Tensor], parameters: nn.Module) -> torch.Tensor:
        parameters.zero_grad(set_to_none=True)
        result = module(*inputs)
        if result.requires_grad:
            result.backward(seed)
        return result

    row["eager_operators"] = operators_in(lambda: step(plain, plain))
    at = "torch.compile()"
    try:
        module = torch.compile(model, backend=mended if way == "mended" else "turbine_cpu")
        at = "first call"
        result = module(*inputs)
        at = "backward"
        if result.requires_grad:
            result.backward(seed)
        CALLS["executed"] = 0
        results: list[torch.Tensor] = []
        row["torch_operators"] = operators_in(lambda: results.append(step(module, model)))
    except Exception as error:
        return row | {"gradients": "error"} | failure(error, at, log)
    row |= {"executed": CALLS["executed"], "ran_in": ran_in(CALLS["executed"], row["torch_operators"])}
    row["relative_error"] = off(results[0], step(plain, plain))
    if not results[0].requires_grad:
        row["gradients"] = "lost"
    else:
        pairs = zip(model.parameters(), plain.parameters(), strict=True)
        equal = all(a.grad is not None and b.grad is not None and off(a.grad, b.grad) <= TOLERANCE for a, b in pairs)
        row["gradients"] = "equal" if equal else "wrong"
    right = row["relative_error"] <= TOLERANCE and row["gradients"] != "wrong"
    return row | {"outcome": "runs" if right else "wrong", "raised_at": "never", "error": None, "message": None}


def behaviour(name: str, log: Path) -> Row:
    """Try one thing that a user might run into."""
    model, inputs = prepared("mlp")
    model.eval()
    row: Row = {"asked": None, "used": None, "executed": None, "relative_error": None}
    fine: Row = {"outcome": "runs", "raised_at": "never", "error": None, "message": None}
    keywords: dict[str, Row] = {"mode": {"mode": "max-autotune"}, "options": {"options": {"no_such_option": 1}}}
    at = "torch.compile()"
    with torch.no_grad():
        expected = reference(model, "mlp", inputs)
        try:
            if name.startswith("other batch sizes"):
                torch._dynamo.utils.counters.clear()
                row["asked"] = "4 sizes"
                module = torch.compile(model, backend="turbine_cpu", dynamic=False if "dynamic" in name else None)
                at = "first call"
                errors = [off(module(x), model(x)) for x in (torch.randn(batch, 64) for batch in (32, 16, 8, 4))]
                graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
                right = max(errors) <= TOLERANCE
                row |= {"used": f"{graphs} graphs", "executed": CALLS["executed"], "relative_error": max(errors)}
                return row | fine | {"outcome": "runs" if right else "wrong"}
            if name == "output kept":
                row["asked"] = "kept"
                module = torch.compile(model, backend="turbine_cpu")
                at = "first call"
                first = module(*inputs)
                copy = first.clone()
                module(torch.randn_like(inputs[0]))
                kept = torch.equal(first, copy)
                row |= {"used": "kept" if kept else "overwritten", "executed": CALLS["executed"]}
                return row | fine | {"relative_error": off(first, expected), "outcome": "runs" if kept else "wrong"}
            if "kept" in name and "float64" in name:
                keep_float64()
            if name.startswith("number that changes"):
                return row | number_that_changes()
            if name == "float64, kept":
                return inference("float64", "torch.compile", "turbine_cpu", log) | {
                    "asked": KEEP_FLOAT64,
                    "used": "IREE",
                }
            module = torch.compile(model, backend="turbine_cpu", **keywords.get(name, {}))
            if name == "after a float64 model":
                row["asked"] = "float32, after a float64 model"
                broken = torch.compile(mlp().double(), backend="turbine_cpu")
                for _ in range(8):
                    try:
                        broken(inputs[0].double())
                    except IndexError:
                        break  # of its two failures the one that does harm; which one comes is a race
                    except Exception:
                        continue
                torch._dynamo.reset()
                at = "first call"
            else:
                row["asked"] = ", ".join(f"{key}={value}" for key, value in keywords[name].items())
                at = "first call"
            module(*inputs)
            CALLS["executed"] = 0
            result = module(*inputs)
        except Exception as error:
            return row | failure(error, at, log)
    row |= {"executed": CALLS["executed"], "used": "IREE", "relative_error": off(result, expected)}
    return row | fine | {"outcome": "runs" if row["relative_error"] <= TOLERANCE else "wrong"}


def keep_float64() -> None:
    """Tell IREE's compiler to leave float64 alone; it reads its flags when it is first used."""
    device.DEVICE_TARGET_COMPILE_FLAGS["local-task"] += (KEEP_FLOAT64,)


def number_that_changes() -> Row:
    """Compile a module that takes a number out of a tensor; its value is another one in each call."""
    torch.manual_seed(0)
    model, x = Scaled(), torch.randn(32, 64)
    exact = Scaled().double()
    exact.load_state_dict(model.state_dict())
    module = torch.compile(model, backend="turbine_cpu")
    for factor in (1, 2, 3):
        CALLS["executed"] = 0
        result = module(x * factor)
    error = off(result, exact(x.double() * 3))
    row: Row = {"asked": "y / y.abs().max().item()", "used": "IREE", "executed": CALLS["executed"]}
    row |= {"relative_error": error, "outcome": "runs" if error <= TOLERANCE else "wrong"}
    return row | {"raised_at": "never", "error": None, "message": None}


def threads(setting: str) -> Row:
    """Count the worker threads that IREE starts for one setting (made in the child, before the first use)."""
    row = inference("mlp", "torch.compile", "turbine_cpu", Path("none"))
    return row | {"asked": setting, "threads": workers()}


# ---------------------------------------------------------------- in the child process


def child_main(job: Row) -> None:
    """Do a list of experiments and write a line of JSON for each into the answer file, as soon as it is known."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    log = Path(job["log"])
    count_calls()
    kinds = {kind for _, (kind, *_) in job["left"]}
    if "threads" not in kinds:
        parse_flags(ONE_WORKER)
    with Path(job["answer"]).open("a") as answer:
        for number, (kind, case, way, name) in job["left"]:
            CALLS["executed"] = 0
            os.truncate(log, 0)
            if kind == "threads":
                if case != "nothing":
                    parse_flags(case)
                row = threads(case)
            elif kind == "training":
                row = training(case, way, log)
            elif kind == "behaviour":
                row = behaviour(case, log)
            else:
                row = inference(case, way, name, log)
            answer.write(json.dumps([number, row]) + "\n")
            answer.flush()
    os._exit(0)


# ---------------------------------------------------------------- in the parent process


def run_child(job: Row, folder: Path, limit_s: float) -> str | None:
    """Run one list of experiments in a fresh process in an empty folder; return what went wrong, or None."""
    environment = os.environ | {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    command = [sys.executable, str(Path(__file__).resolve()), "--child", json.dumps(job)]
    log = Path(job["log"])
    try:
        with log.open("a") as output:  # appended to, so that the child can empty it
            code = subprocess.run(
                command, cwd=folder, env=environment, stdout=output, stderr=output, timeout=limit_s, check=False
            ).returncode
    except subprocess.TimeoutExpired:
        return f"no answer within {limit_s:g} s"
    if code == 0:
        return None
    if code < 0:
        return f"the process died of signal {-code}"
    last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
    return f"the process ended with code {code}: {last[:200]}"


Experiment = tuple[str, str, str, str | None]


def experiments(
    cases: Sequence[str],
    names: Sequence[str],
    named: Sequence[str],
    trained: Sequence[str],
    settings: Sequence[str],
    behaviours: Sequence[str],
) -> list[Experiment]:
    """Return (kind, case, way, name) of everything that is tried, in the order of the rows."""
    found: list[Experiment] = []
    for case in cases:
        found += [("inference", case, way, None if way == "export" else "turbine_cpu") for way in WAYS]
    found += [("name", case, "torch.compile", name) for name in names for case in named]
    for case in trained:
        found += [("training", case, way, None if way == "mended" else "turbine_cpu") for way in TRAINING_WAYS]
    found += [("threads", setting, "torch.compile", "turbine_cpu") for setting in settings]
    return found + [("behaviour", name, "torch.compile", "turbine_cpu") for name in behaviours]


def group(experiment: Experiment) -> tuple[str | None, ...]:
    """Return what may share a process."""
    kind, case, _, _ = experiment
    if kind == "threads" or case in ALONE:
        return experiment
    return (kind,)


def run(
    *,
    cases: Sequence[str] = tuple(CASES),
    names: Sequence[str] = NAMES,
    named: Sequence[str] = NAMED,
    trained: Sequence[str] = TRAINED,
    settings: Sequence[str] = THREADS,
    behaviours: Sequence[str] = BEHAVIOURS,
    child_limit_s: float = 200.0,
) -> list[Row]:
    """Try everything and return one row each (columns: module docstring)."""
    wanted = list(enumerate(experiments(cases, names, named, trained, settings, behaviours)))
    answers: dict[int, Row] = {}
    lost: dict[int, str] = {}
    for which in dict.fromkeys(group(experiment) for _, experiment in wanted):
        mine = [entry for entry in wanted if group(entry[1]) == which]
        while left := [entry for entry in mine if entry[0] not in answers and entry[0] not in lost]:
            with tempfile.TemporaryDirectory(prefix="iree-coverage-", ignore_cleanup_errors=True) as folder:
                path = Path(folder, "answers.jsonl")
                job = {"left": left, "answer": str(path), "log": str(Path(folder, "log.txt"))}
                trouble = run_child(job, Path(folder), child_limit_s)
                for line in path.read_text().splitlines() if path.exists() else ():
                    with contextlib.suppress(json.JSONDecodeError):
                        number, answer = json.loads(line)
                        answers[number] = answer
            first = next((number for number, _ in left if number not in answers), None)
            if first is not None:
                # The first without an answer took the process down; the others get a new one.
                lost[first] = trouble or "the process ended without an answer"
    package = {"package": "iree-turbine", "package_version": version("iree-turbine")}
    empty = dict.fromkeys(("outcome", "executed", "torch_operators", "eager_operators", "ran_in", "relative_error"))
    empty |= {"gradients": "not wanted"}
    empty |= dict.fromkeys(("raised_at", "error", "message", "asked", "used", "threads"))
    rows: list[Row] = []
    for number, (kind, case, way, name) in wanted:
        row: Row = {"kind": kind, "case": case, "backend": name, "way": way} | empty | answers.get(number, {})
        row |= {"status": "failed" if number in lost else "ok", "note": lost.get(number)}
        rows.append(row | package)
    return rows


def print_table(rows: Sequence[Row]) -> None:
    """Print a line a row."""
    for row in rows:
        error = "-" if row["relative_error"] is None else f"{row['relative_error']:.0e}"
        ran = row["used"] if row["kind"] == "behaviour" else row["ran_in"]
        ran = f"{row['threads']} workers" if row["kind"] == "threads" else ran
        raised = "" if row["raised_at"] in (None, "never") else f"{row['raised_at']}: {row['error']}: {row['message']}"
        counts = f"{row['executed']}/{row['torch_operators']}/{row['eager_operators']}"
        print(
            f"{row['kind']:10} {row['case']:30} {row['backend'] or '-':22} {row['way']:20} "
            f"{row['outcome'] or row['status']:6} {counts:12} {ran or '-':14} {error:6} {row['gradients']:10} "
            f"{raised or row['note'] or ''}"[:230]
        )


def main(arguments: Sequence[str]) -> None:
    """Try and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    print("counts: calls to IREE / operators run by torch / operators without compiling")
    print_table(run())


if __name__ == "__main__":
    main(sys.argv[1:])
