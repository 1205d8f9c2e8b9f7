# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11", "openvino>=2026.4"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 500
# value = 60
# ///
"""What does OpenVINO run, what stays with torch, and what comes out: each small case by three roads.

The roads: ``torch.compile(backend="openvino")`` as it is ("default"); the same with
``options={"aot_autograd": True}`` ("aot_autograd"); and without torch.compile, ``openvino.convert_model`` of an
exported program ("convert_model"). Arithmetic in float32 on one thread each time, save in the rows of the kind
"precision", which look at just that.

That a call succeeds does not say who did the work. So two things are counted in a step that follows the first:
the calls that reached OpenVINO's own runtime, and the operators that torch ran itself (by torch's profiler, without
those that only make a view or a copy). Exceptions that the back end swallows before it falls back are caught.

Results are compared with the same module in float64, run without compiling; gradients with those of the same module.
Roads and experiments that would disturb each other run in processes of their own; one that takes its process down is
a failed row.

Columns
    kind               "inference", "training", "precision" or "behaviour"
    case               the module, or what was tried
    way                the road: "default", "aot_autograd", "convert_model", "aot_autograd, outputs copied"
    outcome            "runs"; "wrong" where result or gradient is off; "error"
    executed           calls that reached OpenVINO's runtime in one step
    handed_over        tensors that these calls were given: weights that are not constants of the model count
    torch_operators    operators that torch ran itself in the same step
    eager_operators    operators that the step takes without compiling
    ran_in             "OpenVINO", "OpenVINO and torch", "torch", "Inductor"; None where nothing ran
    relative_error     norm of the difference over the norm, output against float64; at most 1
    gradients          "equal", "wrong", "lost" (no graph leads back), "error", "not wanted"
    raised_at          where an error came: "torch.compile()", "first call", "backward", "export", "convert_model()";
                       "swallowed" where the back end hid it and fell back; "never"
    error, message     name of the exception and its first line
    asked, used        a setting: what was asked for, and what the compiled model says that it uses (or what was seen)
    status, note       "ok" (also for an error that was caught: that is the finding), "failed" where the process died
    package, package_version   whose runtime it is
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
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

try:
    import openvino
    from openvino.frontend.pytorch.torchdynamo import backend as front
    from openvino.frontend.pytorch.torchdynamo import execute
except ImportError:
    raise SystemExit("this snippet needs OpenVINO: pip install 'openvino>=2026.4'") from None

Row = dict[str, Any]
Made = tuple[nn.Module, tuple[torch.Tensor, ...]]

WAYS = ("default", "aot_autograd", "convert_model")
#: For training: the last is the second with every output of OpenVINO copied.
TRAINING_WAYS = ("default", "aot_autograd", "aot_autograd, outputs copied")
#: OpenVINO picks precision and threads for the machine; a fair comparison sets both.
PRECISE: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
#: float32 rounding in a few layers; bfloat16 is two orders of magnitude above it.
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


class Block(nn.Module):
    """A layer, a norm and a GELU, with a graph break behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(64, 64), nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x after the block."""
        y = nn.functional.gelu(self.norm(self.layer(x)))
        torch._dynamo.graph_break()
        return y * 2


class Stack(nn.Module):
    """Three equal blocks. A graph break in a loop: Dynamo compiles the block, and calls one graph several times."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x after all blocks."""
        for block in self.blocks:
            x = block(x)
        return x


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
TRAINED: dict[str, Callable[[], Made]] = {
    "mlp": CASES["mlp"],
    "layer norm, GELU": CASES["layer norm, GELU"],
    "convolution, ReLU": CASES["convolution, ReLU"],
    "graph break": CASES["graph break"],
    "one graph, several calls": lambda: (Stack(), (torch.randn(32, 64),)),
}
PRECISIONS: dict[str, Row] = {
    "nothing": {},
    "INFERENCE_PRECISION_HINT=f32": {"INFERENCE_PRECISION_HINT": "f32"},
    "INFERENCE_PRECISION_HINT=bf16": {"INFERENCE_PRECISION_HINT": "bf16"},
    "EXECUTION_MODE_HINT=ACCURACY": {"EXECUTION_MODE_HINT": "ACCURACY"},
}
BEHAVIOURS = (
    "mode",
    "unknown option",
    "unknown device",
    "unknown property",
    "other batch sizes",
    "threads",
    "model cache",
    "output kept",
    "options of an earlier call",
)


# ---------------------------------------------------------------- looking inside


class Seen:
    """What happened inside the back end."""

    def __init__(self) -> None:
        self.executed = 0
        self.handed_over = 0
        self.inductor = 0
        self.swallowed: BaseException | None = None

    def forget(self) -> None:
        """Forget everything: the next experiment begins."""
        self.executed, self.handed_over, self.inductor, self.swallowed = 0, 0, 0, None

    def ran_in(self, torch_operators: int | None = None) -> str:
        """Return whose code has run since ``executed`` was set to nought."""
        if not self.executed:
            return "Inductor" if self.inductor else "torch"
        return "OpenVINO and torch" if torch_operators else "OpenVINO"


SEEN = Seen()


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Count calls to OpenVINO's runtime, and keep the exceptions that the back end hides."""
    runtime, inductor = execute.openvino_execute, front.compile_fx

    def counted(*arguments: Any, **keywords: Any) -> Any:
        try:
            result = runtime(*arguments, **keywords)
        except Exception as error:
            SEEN.swallowed = error
            raise
        SEEN.executed += 1
        SEEN.handed_over += sum(isinstance(argument, torch.Tensor) for argument in arguments)
        return result

    def instead(*arguments: Any, **keywords: Any) -> Any:
        SEEN.swallowed = sys.exception()  # the back end calls Inductor from its except clause
        SEEN.inductor += 1
        return inductor(*arguments, **keywords)

    execute.openvino_execute, front.compile_fx = counted, instead
    try:
        yield
    finally:
        execute.openvino_execute, front.compile_fx = runtime, inductor


@contextlib.contextmanager
def outputs_copied() -> Iterator[None]:
    """Copy what OpenVINO returns: its tensors share memory that the next call of the same graph writes again."""
    runtime = execute.openvino_execute

    def copied(*arguments: Any, **keywords: Any) -> Any:
        result = runtime(*arguments, **keywords)
        return result.clone() if isinstance(result, torch.Tensor) else [tensor.clone() for tensor in result]

    execute.openvino_execute = copied
    try:
        yield
    finally:
        execute.openvino_execute = runtime


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


def first_line(error: BaseException) -> str:
    """Return the line of a message that says most, without paths of this machine."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # OpenVINO begins with the place in its own source, and names the cause further down.
    telling = [line for line in lines if not line.startswith(("Check ", "Exception from", "FrontEnd API"))] or lines
    return re.sub(r"(?<![\w.])(/[\w.+-]+){2,}/", "", telling[0])[:200] if telling else ""


def failure(error: BaseException, at: str) -> Row:
    """Return the columns of an error."""
    inner = getattr(error, "inner_exception", None) or error
    return {"outcome": "error", "raised_at": at, "error": type(inner).__name__, "message": first_line(inner)}


def off(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the norm of the difference over the norm of what is expected; 1 at most."""
    ratio = ((got.double() - expected.double()).norm() / expected.double().norm().clamp_min(1e-30)).item()
    return ratio if ratio < 1 else 1.0  # also for what is not a number


def on_float64(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the inputs, floating point ones in float64."""
    return [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]


def twin(model: nn.Module, factory: Callable[[], Made]) -> nn.Module:
    """Return a second module with the same weights."""
    other, _ = factory()
    other.load_state_dict(model.state_dict())
    return other


# ---------------------------------------------------------------- the three roads


def compiled(model: nn.Module, *, aot_autograd: bool, config: Row = PRECISE) -> Callable[..., torch.Tensor]:
    """Return the module compiled by the back end ``openvino``."""
    options: Row = {"config": dict(config)} | ({"aot_autograd": True} if aot_autograd else {})
    result: Callable[..., torch.Tensor] = torch.compile(model, backend="openvino", options=options)
    return result


def converted(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Callable[..., torch.Tensor]:
    """Return the module exported by torch, converted and compiled by OpenVINO."""
    program = torch.export.export(model, inputs)
    network = openvino.compile_model(openvino.convert_model(program), "CPU", PRECISE)

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        (result,) = network([tensor.numpy() for tensor in tensors]).values()
        return torch.from_numpy(result)

    return call


def prepared(case: str, cases: dict[str, Callable[[], Made]]) -> Made:
    """Return module and inputs of a case, from a clean Dynamo and with the fast path set for it."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(case != "encoder, no fast path")
    return cases[case]()


def inference(case: str, way: str) -> Row:
    """Run one case by one road, without gradients."""
    model, inputs = prepared(case, CASES)
    model.eval()
    row: Row = {"executed": None, "torch_operators": None, "ran_in": None, "relative_error": None}
    at = "export" if way == "convert_model" else "torch.compile()"
    with torch.no_grad():
        row["eager_operators"] = operators_in(lambda: model(*inputs))
        expected = twin(model, CASES[case]).double().eval()(*on_float64(inputs))
        try:
            if way == "convert_model":
                torch.export.export(model, inputs)
                at = "convert_model()"
                run_it = converted(model, inputs)
            else:
                run_it = compiled(model, aot_autograd=way == "aot_autograd")
            at = "first call"
            run_it(*inputs)
            SEEN.executed = SEEN.handed_over = 0
            results: list[torch.Tensor] = []
            row["torch_operators"] = operators_in(lambda: results.append(run_it(*inputs)))
        except Exception as error:
            return row | failure(error, at)
    # What convert_model returns is OpenVINO's runtime itself: every call is one.
    if way == "convert_model":
        SEEN.executed, SEEN.handed_over = 1, len(inputs)
    row |= {"executed": SEEN.executed, "handed_over": SEEN.handed_over, "ran_in": SEEN.ran_in(row["torch_operators"])}
    row["relative_error"] = off(results[0], expected)
    row |= {"outcome": "runs" if row["relative_error"] <= TOLERANCE else "wrong", "raised_at": "never"}
    row |= {"error": None, "message": None}
    if SEEN.swallowed is not None:
        row |= failure(SEEN.swallowed, "swallowed") | {"outcome": row["outcome"]}
    return row


def training(case: str, way: str) -> Row:
    """Run forward and backward of one case by one road; the input wants no gradient, as in most training."""
    model, inputs = prepared(case, TRAINED)
    plain = twin(model, TRAINED[case])
    row: Row = {"executed": None, "torch_operators": None, "ran_in": None, "relative_error": None, "gradients": None}

    def step(module: Callable[..., torch.Tensor], parameters: nn.Module) -> torch.Tensor:
        parameters.zero_grad(set_to_none=True)
        result = module(*inputs)
        if result.requires_grad:
            result.backward(seed)
        return result

    seed = torch.randn_like(plain(*inputs))
    row["eager_operators"] = operators_in(lambda: step(plain, plain))
    at = "torch.compile()"
    try:
        module = compiled(model, aot_autograd=way != "default")
        at = "first call"
        result = module(*inputs)
        if result.requires_grad:
            at = "backward"
            result.backward(seed)
        SEEN.executed = SEEN.handed_over = 0
        results: list[torch.Tensor] = []
        row["torch_operators"] = operators_in(lambda: results.append(step(module, model)))
    except Exception as error:
        return row | {"gradients": "error"} | failure(error, at)
    row |= {"executed": SEEN.executed, "handed_over": SEEN.handed_over, "ran_in": SEEN.ran_in(row["torch_operators"])}
    row["relative_error"] = off(results[0], step(plain, plain))
    if not results[0].requires_grad:
        row["gradients"] = "lost"
    else:
        pairs = zip(model.parameters(), plain.parameters(), strict=True)
        equal = all(a.grad is not None and b.grad is not None and off(a.grad, b.grad) <= TOLERANCE for a, b in pairs)
        row["gradients"] = "equal" if equal else "wrong"
    right = row["relative_error"] <= TOLERANCE and row["gradients"] != "wrong"
    row |= {"outcome": "runs" if right else "wrong", "raised_at": "never", "error": None, "message": None}
    if SEEN.swallowed is not None:
        row |= failure(SEEN.swallowed, "swallowed") | {"outcome": row["outcome"]}
    return row


def trained(case: str, way: str) -> Row:
    """Train one case, with OpenVINO's outputs copied where the road says so."""
    with outputs_copied() if way == TRAINING_WAYS[2] else contextlib.nullcontext():
        return training(case, way)


# ---------------------------------------------------------------- settings and surprises


def used(name: str) -> str:
    """Return a property of the model that the back end compiled last."""
    models = list(execute.compiled_cache.values())
    text = str(models[-1].get_property(name)) if models else "no model"
    return re.sub(r"<Type: '(\w+)'>", r"\1", text).replace("bfloat16", "bf16").replace("float32", "f32")


def precision(name: str) -> Row:
    """Compile an MLP with a setting of precision; tell which one was used, and how large the error is."""
    model, inputs = prepared("mlp", CASES)
    with torch.no_grad():
        expected = twin(model, CASES["mlp"]).double()(*on_float64(inputs))
        row: Row = {"asked": name, "used": None, "relative_error": None, "executed": None}
        try:
            module = compiled(model, aot_autograd=False, config=PRECISIONS[name])
            module(*inputs)
            SEEN.executed = 0
            result = module(*inputs)
        except Exception as error:
            return row | failure(error, "first call")
    row |= {"used": used("INFERENCE_PRECISION_HINT"), "relative_error": off(result, expected)}
    # Less than float32 was asked for or chosen: then a larger error isn't a fault of the result.
    row |= {"executed": SEEN.executed, "outcome": "runs", "raised_at": "never", "error": None, "message": None}
    return row


def behaviour(name: str) -> Row:
    """Try one setting, or one thing that a user might run into."""
    model, inputs = prepared("mlp", CASES)
    model.eval()
    row: Row = {"asked": None, "used": None, "executed": None, "relative_error": None}
    fine: Row = {"outcome": "runs", "raised_at": "never", "error": None, "message": None}
    keywords: dict[str, Row] = {
        "mode": {"mode": "max-autotune"},
        "unknown option": {"options": {"no_such_option": 1, "config": dict(PRECISE)}},
        "unknown device": {"options": {"device": "NO_SUCH_DEVICE"}},
        "unknown property": {"options": {"config": {"NO_SUCH_PROPERTY": "1"}}},
        "model cache": {"options": {"model_caching": True, "cache_dir": "./kept", "config": dict(PRECISE)}},
        "threads": {"options": {"config": dict(PRECISE)}},
    }
    if name in keywords:
        row["asked"] = ", ".join(f"{key}={value}" for key, value in keywords[name].items())
    at = "torch.compile()"
    with torch.no_grad():
        expected = twin(model, CASES["mlp"]).double()(*on_float64(inputs))
        try:
            if name == "other batch sizes":
                torch._dynamo.utils.counters.clear()
                module = compiled(model, aot_autograd=False)
                at = "first call"
                batches = (32, 16, 8, 4)
                errors = [off(module(x), model(x)) for x in (torch.randn(batch, 64) for batch in batches)]
                graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
                row |= {"asked": f"{len(batches)} sizes", "used": f"{graphs} graphs", "executed": SEEN.executed}
                return row | fine | {"relative_error": max(errors)}
            if name == "output kept":
                module = compiled(model, aot_autograd=False)
                at = "first call"
                first = module(*inputs)
                copy = first.clone()
                module(torch.randn_like(inputs[0]))
                row |= {"asked": "kept", "used": "kept" if torch.equal(first, copy) else "overwritten"}
                row |= fine | {"executed": SEEN.executed, "relative_error": off(first, expected)}
                return row | {"outcome": "runs" if row["used"] == "kept" else "wrong"}
            if name == "options of an earlier call":
                compiled(model, aot_autograd=True)(*inputs)
                torch._dynamo.reset()
                SEEN.forget()
                module = compiled(model, aot_autograd=False)
                row["asked"] = "OpenVINO"
            else:
                module = torch.compile(model, backend="openvino", **keywords[name])
            at = "first call"
            module(*inputs)
            SEEN.executed = 0
            result = module(*inputs)
        except Exception as error:
            return row | failure(error, at)
    row |= {"executed": SEEN.executed, "relative_error": off(result, expected)}
    if name == "threads":
        row["used"] = used("INFERENCE_NUM_THREADS")
    elif name == "model cache":
        row["used"] = f"{len([path for path in Path('kept').rglob('*') if path.is_file()])} files"
    else:
        row["used"] = SEEN.ran_in()
    row |= fine
    if SEEN.swallowed is not None:
        row |= failure(SEEN.swallowed, "swallowed") | {"outcome": "runs"}
    return row


# ---------------------------------------------------------------- in the child process


def child_main(job: Row) -> None:
    """Do a list of experiments and write a line of JSON for each into the answer file, as soon as it is known."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    with Path(job["answer"]).open("a") as answer, watched():
        for number, (kind, case, way) in job["left"]:
            SEEN.forget()
            if kind in ("inference", "training"):
                row = (inference if kind == "inference" else trained)(case, way)
            else:
                row = (precision if kind == "precision" else behaviour)(case)
            answer.write(json.dumps([number, row]) + "\n")
            answer.flush()
    os._exit(0)


# ---------------------------------------------------------------- in the parent process


def run_child(job: Row, folder: Path, limit_s: float) -> str | None:
    """Run one list of experiments in a fresh process in an empty folder; return what went wrong, or None."""
    log = folder / "log.txt"
    environment = os.environ | {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    command = [sys.executable, str(Path(__file__).resolve()), "--child", json.dumps(job)]
    try:
        with log.open("w") as output:
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


def experiments(
    cases: Sequence[str], training_cases: Sequence[str], precisions: Sequence[str], behaviours: Sequence[str]
) -> list[tuple[str, str, str]]:
    """Return (kind, case, way) of everything that is tried, in the order of the rows."""
    found = [("inference", case, way) for case in cases for way in WAYS]
    found += [("training", case, way) for case in training_cases for way in TRAINING_WAYS]
    found += [("precision", name, "default") for name in precisions]
    return found + [("behaviour", name, "default") for name in behaviours]


def group(experiment: tuple[str, str, str]) -> tuple[str, ...]:
    """Return what must not share a process with others: options of one road reach into the next."""
    kind, case, way = experiment
    return (kind, case) if case == "options of an earlier call" else (kind, way)


def run(
    *,
    cases: Sequence[str] = tuple(CASES),
    training_cases: Sequence[str] = tuple(TRAINED),
    precisions: Sequence[str] = tuple(PRECISIONS),
    behaviours: Sequence[str] = BEHAVIOURS,
    child_limit_s: float = 150.0,
) -> list[Row]:
    """Try everything and return one row each (columns: module docstring)."""
    wanted = list(enumerate(experiments(cases, training_cases, precisions, behaviours)))
    answers: dict[int, Row] = {}
    lost: dict[int, str] = {}
    for which in dict.fromkeys(group(experiment) for _, experiment in wanted):
        mine = [entry for entry in wanted if group(entry[1]) == which]
        while left := [entry for entry in mine if entry[0] not in answers and entry[0] not in lost]:
            with tempfile.TemporaryDirectory(prefix="openvino-coverage-", ignore_cleanup_errors=True) as folder:
                path = Path(folder, "answers.jsonl")
                trouble = run_child({"left": left, "answer": str(path)}, Path(folder), child_limit_s)
                for line in path.read_text().splitlines() if path.exists() else ():
                    with contextlib.suppress(json.JSONDecodeError):
                        number, answer = json.loads(line)
                        answers[number] = answer
            first = next((number for number, _ in left if number not in answers), None)
            if first is not None:
                # The first without an answer took the process down; the others get a new one.
                lost[first] = trouble or "the process ended without an answer"
    package = {"package": "openvino", "package_version": version("openvino")}
    empty = dict.fromkeys(("outcome", "executed", "handed_over", "torch_operators", "eager_operators", "ran_in"))
    empty |= {"relative_error": None}
    empty |= {"gradients": "not wanted"}
    empty |= dict.fromkeys(("raised_at", "error", "message", "asked", "used"))
    rows: list[Row] = []
    for number, (kind, case, way) in wanted:
        row: Row = {"kind": kind, "case": case, "way": way} | empty | answers.get(number, {})
        row |= {"status": "failed" if number in lost else "ok", "note": lost.get(number)}
        rows.append(row | package)
    return rows


def print_table(rows: Sequence[Row]) -> None:
    """Print a line a row."""
    for row in rows:
        error = "-" if row["relative_error"] is None else f"{row['relative_error']:.0e}"
        ran = row["used"] if row["kind"] in ("precision", "behaviour") else row["ran_in"]
        raised = "" if row["raised_at"] in (None, "never") else f"{row['raised_at']}: {row['error']}: {row['message']}"
        counts = f"{row['executed']}/{row['torch_operators']}/{row['eager_operators']}"
        print(
            f"{row['kind']:10} {row['case']:30} {row['way']:28} {row['outcome'] or row['status']:6} {counts:12} "
            f"{ran or '-':19} {error:6} {row['gradients']:10} {raised or row['note'] or ''}"[:220]
        )


def main(arguments: Sequence[str]) -> None:
    """Try and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    print("counts: calls to OpenVINO / operators run by torch / operators without compiling")
    print_table(run())


if __name__ == "__main__":
    main(sys.argv[1:])
