# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11", "apache-tvm>=0.27"]
#
# [tool.kitchen]
# needs = []
# limit_s = 600
# value = 30
# ///
"""TVM through torch.compile: its routes, what each takes, and whether TVM really ran.

The routes
    tvm            torch's own ``backend="tvm"``; up to torch 2.13 it wants ``tvm.relay``, which TVM no longer has
    relax_dynamo   the back end that TVM itself brings: Dynamo's graph, operator by operator, into Relax
    export         ``through_tvm_inference`` below: torch.export of the captured graph, then TVM's other importer
    aot_autograd   ``through_tvm_training`` below: the same for the forward and the backward graph of AOTAutograd;
                   "usual" is ``usual_training``, which takes no more operators apart than torch's core table

Each route compiles small models with fixed seeds. Outputs, and in training gradients, are compared with the same model
in float64. Every call of TVM's virtual machine is counted, so a model that was silently left to PyTorch shows 0. All
cases run one after another in a child process; one that takes the process down is a failed row, and the others go on.
Nothing is timed, and nothing is tuned.

Columns
    route              the route
    written            what torch.compile is given
    case               the model, or the argument that is tried
    workload           "inference" (no gradients) or "training" (forward and backward, all parameters want gradients)
    outcome            "runs"; "wrong" where outputs differ, or gradients do; "error"
    raised_at          "torch.compile()", "first call", "later call", "backward"; "never" where nothing was raised
    error, message     name of the exception and its first line
    cause              what that exception was raised from, if from anything
    graphs             graphs that Dynamo captured
    executed           calls that reached TVM's virtual machine in one step, after the first
    relative_error     greatest difference of an output from float64, over the greatest value there; in training also
                       of the running statistics of batch norm; None where a result has another type or shape
    gradients          of the parameters: "equal", "wrong", "lost" (there are none), "error", "not wanted"
    status, note       "ok" (also for an error that was caught: that is the finding), "failed" where the process died
    package, package_version   TVM, and its version
    ffi_version        version of apache-tvm-ffi, the layer under it
"""

from __future__ import annotations

import contextlib
import copy
import importlib.metadata
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch.nn.attention import SDPBackend, sdpa_kernel

try:
    import tvm
    from tvm import relax
    from tvm.relax.frontend.torch import from_exported_program, relax_dynamo
    from tvm.relax.frontend.torch.dynamo import llvm_target
except ImportError:
    raise SystemExit("this snippet needs TVM: pip install 'apache-tvm>=0.27' 'apache-tvm-ffi<0.1.15'") from None

Row = dict[str, Any]
Compiled = Callable[..., Any]
aten = torch.ops.aten

TOLERANCE = 1e-4
PACKAGE, FFI = "apache-tvm", "apache-tvm-ffi"


# ---------------------------------------------------------------- the routes


def shortest(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Run a model for inference through TVM's own back end."""
    from tvm.relax.frontend.torch import relax_dynamo

    fast = torch.compile(model.eval(), backend=relax_dynamo())
    with torch.no_grad():
        return fast(x)


def through_tvm_inference(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
    """A back end on TVM's importer of exported programs: untuned, shapes fixed, no gradient passes through it."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(graph, tuple(blank(value) for value in inputs)).run_decompositions()
        module = relax.get_pipeline("zero")(from_exported_program(program))
        built = relax.build(module, target=tvm.target.Target(llvm_target()))
    main = relax.VirtualMachine(built, tvm.cpu())["main"]
    return lambda *values: tuple(for_torch(value) for value in main(*(for_tvm(value) for value in values)))


def blank(value: Any) -> Any:
    """Return an empty tensor of the same form: export takes neither the fake tensors of AOTAutograd nor a parameter."""
    if not isinstance(value, torch.Tensor) or not all(isinstance(size, int) for size in value.shape):
        raise NotImplementedError("a size that varies: give torch.compile dynamic=False, then each size is compiled")
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)


def for_tvm(value: torch.Tensor) -> torch.Tensor:
    """Return the tensor without gradient, contiguous, at an address that TVM takes (a multiple of 64 bytes)."""
    value = value.detach().contiguous()
    return value if value.data_ptr() % 64 == 0 else value.clone()


def for_torch(value: Any) -> Any:
    """Return a result as a torch tensor; None, where AOTAutograd wants no gradient, stays None."""
    return value if value is None or isinstance(value, torch.Tensor) else torch.from_numpy(value.numpy())


def through_tvm_training(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
    """A back end for training: AOTAutograd makes the backward graph, TVM compiles both."""
    with sdpa_kernel(SDPBackend.MATH):  # attention as matrix products: TVM has no backward of the fused operator
        return both_through_tvm(graph, inputs, decompositions())


def both_through_tvm(graph: torch.fx.GraphModule, inputs: Sequence[Any], table: dict[Any, Compiled]) -> Compiled:
    """Compile the forward and the backward graph with TVM, operators taken apart by ``table`` first."""

    def compile_one(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
        return make_boxed_func(through_tvm_inference(graph, inputs))

    return aot_autograd(fw_compiler=compile_one, bw_compiler=compile_one, decompositions=table)(graph, inputs)


def usual_training(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
    """The same with nothing but torch's core decompositions: the usual recipe, here to show what it gets wrong."""
    return both_through_tvm(graph, inputs, core_aten_decompositions())


def decompositions() -> dict[Any, Compiled]:
    """Return how AOTAutograd takes operators apart that TVM's importer lacks, or gives wrong results for."""
    return {
        **core_aten_decompositions(),
        # Of a normalisation the importer gives only the first result right: not the statistics that backward needs.
        **get_decompositions([aten._native_batch_norm_legit_functional, aten.native_layer_norm]),
        **get_decompositions([aten.native_layer_norm_backward, aten.silu_backward]),
        aten.var_mean.correction: var_mean,
        aten.convolution_backward.default: convolution_backward,
        aten.embedding_dense_backward.default: embedding_backward,
    }


def var_mean(
    x: torch.Tensor, dim: list[int] | None = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Write variance and mean as two operators."""
    return aten.var.correction(x, dim, correction=correction, keepdim=keepdim), aten.mean.dim(x, dim, keepdim)


def convolution_backward(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: list[int] | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    output_mask: list[bool],
) -> Any:
    """Write the gradients of a 2-D convolution as convolutions; NotImplemented for groups and odd output padding."""
    if groups != 1 or x.dim() != 4 or (transposed and any(output_padding)):
        return NotImplemented
    none = [0, 0]
    height, width = weight.shape[2:]
    grad_x = grad_weight = None
    if output_mask[0] and transposed:
        grad_x = aten.convolution(grad, weight, None, stride, padding, dilation, False, none, 1)
    elif output_mask[0]:
        reached = [
            (grad.shape[i + 2] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (weight.shape[i + 2] - 1) + 1
            for i in range(2)
        ]
        left = [x.shape[i + 2] - reached[i] for i in range(2)]
        grad_x = aten.convolution(grad, weight, None, stride, padding, dilation, True, left, 1)
    if output_mask[1]:
        large, small = (grad, x) if transposed else (x, grad)
        sums = aten.convolution(
            large.transpose(0, 1), small.transpose(0, 1), None, dilation, padding, stride, False, none, 1
        )
        grad_weight = sums[:, :, :height, :width].transpose(0, 1).contiguous()
    return grad_x, grad_weight, grad.sum([0, 2, 3]) if output_mask[2] else None


def embedding_backward(
    grad: torch.Tensor, indices: torch.Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    """Write the gradient of a table as a sum at places given in both dimensions, the only form that TVM takes."""
    if padding_idx >= 0 or scale_grad_by_freq:
        return NotImplemented
    width = grad.shape[-1]
    rows = indices.reshape(-1, 1)
    columns = torch.arange(width, device=grad.device).reshape(1, -1)
    places = [rows.expand(-1, width), columns.expand(rows.shape[0], -1)]
    return aten.index_put(grad.new_zeros(num_weights, width), places, grad.reshape(-1, width), True)


#: What torch.compile is given as ``backend`` (called in the child), and how that is written.
ROUTES: dict[str, tuple[Callable[[], Any], str]] = {
    "tvm": (lambda: "tvm", 'backend="tvm"'),
    "relax_dynamo": (lambda: relax_dynamo(), "backend=relax_dynamo()"),
    "export": (lambda: through_tvm_inference, "backend=through_tvm_inference"),
    "aot_autograd, usual": (lambda: usual_training, "backend=usual_training"),
    "aot_autograd": (lambda: through_tvm_training, "backend=through_tvm_training"),
}


# ---------------------------------------------------------------- the cases


class LastState(nn.Module):
    """(batch, time, width) to (batch, 4): the last state of an LSTM, through a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the class scores."""
        return self.head(self.lstm(x)[0][:, -1])


class Broken(nn.Module):
    """An MLP with a print between its layers: two graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the class scores."""
        y = self.first(x).relu()
        print(end="")
        return self.second(y)


class Indexed(nn.Module):
    """(batch, channels, h, w) to the pooled tensor and the places of the greatest values."""

    def forward(self, x: torch.Tensor) -> Any:
        """Return both."""
        return nn.functional.max_pool2d(x, 2, return_indices=True)


class Headed(nn.Module):
    """An MLP under a linear layer that is left uncompiled."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = mlp(), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the class scores."""
        return self.head(self.body(x))


def mlp() -> nn.Module:
    """Return the MLP, (batch, 64) to (batch, 8)."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))


def cnn(*between: nn.Module) -> nn.Module:
    """Return a small CNN with batch norm, (batch, 3, 16, 16) to (batch, 4)."""
    layers = [nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), *between]
    return nn.Sequential(*layers, nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def made(case: str) -> tuple[nn.Module, list[torch.Tensor]]:
    """Return the model of a case and the inputs of its calls, one after another."""
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(case == "encoder, fast path")
    if case.startswith("encoder"):
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), [torch.randn(2, 16, 32)]
    if case in ("cnn", "cnn, max pool"):
        return cnn(*([nn.MaxPool2d(2)] if "pool" in case else [])), [torch.randn(2, 3, 16, 16)]
    if case in ("batch norm", "layer norm"):
        norm = nn.BatchNorm1d(32) if case == "batch norm" else nn.LayerNorm(32)
        return nn.Sequential(nn.Linear(64, 32), norm, nn.ReLU(), nn.Linear(32, 8)), [torch.randn(16, 64)]
    if case == "pool indices":
        return Indexed(), [torch.randn(2, 3, 16, 16)]
    if case == "LSTM":
        return LastState(), [torch.randn(2, 5, 8)]
    if case == "graph break":
        return Broken(), [torch.randn(16, 64)]
    if case == "plain head":
        return Headed(), [torch.randn(16, 64)]
    batches = (64, 32, 16, 8) if case.startswith("batch sizes") else (16,)
    return mlp(), [torch.randn(batch, 64) for batch in batches]


#: More arguments of torch.compile, by case.
ARGUMENTS: dict[str, Row] = {
    "mode argument": {"mode": "reduce-overhead"},
    "options argument": {"options": {"trials": 8}},
    "batch sizes, static": {"dynamic": False},
}
INFERENCE = (
    "mlp",
    "cnn",
    "encoder",
    "encoder, fast path",
    "LSTM",
    "graph break",
    "pool indices",
    "batch sizes",
)
TRAINED = ("mlp", "plain head", "batch norm", "layer norm", "cnn", "encoder", "cnn, max pool")
#: What is tried: (route, case, workload).
JOBS: tuple[tuple[str, str, str], ...] = (
    ("tvm", "mlp", "inference"),
    *(("relax_dynamo", case, "inference") for case in (*INFERENCE, "mode argument", "options argument")),
    *(("export", case, "inference") for case in (*INFERENCE, "batch sizes, static")),
    *(("relax_dynamo", case, "training") for case in ("mlp", "plain head")),
    *(("export", case, "training") for case in ("mlp", "plain head")),
    *(("aot_autograd, usual", case, "training") for case in ("mlp", "batch norm", "layer norm", "cnn")),
    *(("aot_autograd", case, "training") for case in TRAINED),
)


# ---------------------------------------------------------------- in the child process

#: Calls that reached TVM's virtual machine in this process.
RUNS = [0]


def count_runs() -> None:
    """Make every function that TVM's virtual machine gives out count its calls."""
    original = relax.VirtualMachine.__getitem__

    def counting(machine: Any, name: str) -> Compiled:
        function = original(machine, name)

        def call(*values: Any) -> Any:
            RUNS[0] += 1
            return function(*values)

        return call

    relax.VirtualMachine.__getitem__ = counting


def first_line(error: BaseException | None) -> str | None:
    """Return the first line of a message that says something, without the folders of this machine."""
    lines = [line.strip() for line in str(error or "").splitlines() if line.strip()]
    return re.sub(r"(?<![\w:/.])(?:/[\w.+-]+)+/(?=[\w.+-])", "", lines[0])[:200] if lines else None


def tensors(result: Any) -> list[torch.Tensor]:
    """Return the tensors of a result as a list."""
    return list(result) if isinstance(result, tuple | list) else [result]


def distance(got: Any, expected: Any) -> float:
    """Return the greatest difference over the greatest expected value; infinite where forms differ."""
    pairs = list(zip(tensors(got), tensors(expected), strict=True))
    if any(a.shape != b.shape or a.is_floating_point() != b.is_floating_point() for a, b in pairs):
        return math.inf
    differences = [float((a.double() - b.double()).abs().max() / b.double().abs().max()) for a, b in pairs]
    return max((d if math.isfinite(d) else math.inf for d in differences), default=0.0)


def backward(result: Any) -> None:
    """Go backward from a loss: the mean of the squares."""
    result.square().mean().backward()


def statistics_of(model: nn.Module) -> list[torch.Tensor]:
    """Return the running statistics of the batch norms, which a training step updates."""
    return [buffer for name, buffer in model.named_buffers() if name.endswith(("running_mean", "running_var"))]


def gradients(model: nn.Module, exact: nn.Module) -> str:
    """Compare the gradients of two models of the same form: "equal", "wrong" or "lost"."""
    pairs = [(a.grad, b.grad) for a, b in zip(model.parameters(), exact.parameters(), strict=True)]
    if any(a is None and b is not None for a, b in pairs):
        return "lost"
    greatest = max(float(b.abs().max()) for _, b in pairs)
    return "equal" if all(float((a.double() - b).abs().max()) <= TOLERANCE * greatest for a, b in pairs) else "wrong"


def attempt(route: str, case: str, workload: str) -> Row:
    """Try one case on one route; returns the columns from outcome to gradients."""
    torch.compiler.reset()
    counters.clear()
    model, inputs = made(case)
    trains = workload == "training"
    model.train(trains)
    exact = copy.deepcopy(model).double()
    row: Row = dict.fromkeys(("error", "message", "cause", "relative_error"))
    row |= {"outcome": "error", "raised_at": "torch.compile()", "gradients": "error" if trains else "not wanted"}
    start = RUNS[0]
    try:
        backend, more = ROUTES[route][0](), ARGUMENTS.get(case, {})
        if case == "plain head":
            model.body = torch.compile(model.body, backend=backend, **more)
            compiled: Any = model
        else:
            compiled = torch.compile(model, backend=backend, **more)
        worst = 0.0
        with torch.set_grad_enabled(trains):
            for number, x in enumerate((inputs[0], *inputs)):  # the first one twice: the second is the step counted
                row["raised_at"] = "first call" if number == 0 else "later call"
                start = RUNS[0]
                model.zero_grad()
                exact.zero_grad()
                result, expected = compiled(x), exact(x.double())
                worst = max(worst, distance(result, expected))
                if trains:
                    backward(expected)
                    row["raised_at"] = "backward"
                    if not result.requires_grad:
                        row["gradients"] = "lost"
                    backward(result)
                    row["gradients"] = gradients(model, exact)
                    worst = max(worst, distance(statistics_of(model), statistics_of(exact)))
        row["relative_error"] = worst if worst < math.inf else None
        right = worst <= TOLERANCE and row["gradients"] in ("equal", "not wanted")
        row |= {"outcome": "runs" if right else "wrong", "raised_at": "never"}
    except Exception as error:
        inner = getattr(error, "inner_exception", None) or error
        cause = inner.__cause__
        row |= {"error": type(inner).__name__, "message": first_line(inner)}
        row["cause"] = f"{type(cause).__name__}: {first_line(cause)}" if cause else None
    return row | {"graphs": counters["stats"]["unique_graphs"], "executed": RUNS[0] - start}


def child_main(job: Row) -> None:
    """Try cases and write a line of JSON for each into the answer file, as soon as it is known."""
    count_runs()
    with Path(job["answer"]).open("a") as answer:
        for number in job["jobs"]:
            answer.write(json.dumps([number, attempt(*JOBS[number])], allow_nan=False) + "\n")
            answer.flush()
    os._exit(0)


# ---------------------------------------------------------------- in the parent process


def run_child(job: Row, folder: Path, limit_s: float) -> str | None:
    """Run one job in a fresh process; return what went wrong, or None."""
    log = folder / "log.txt"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, __file__, "--child", json.dumps(job)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"no answer within {limit_s:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                if hasattr(os, "killpg"):
                    os.killpg(process.pid, signal.SIGKILL)
                else:  # Windows has no process groups of this kind
                    process.kill()
            process.wait()
    if code == 0:
        return None
    if code < 0:
        return f"the process died of signal {signal.Signals(-code).name}"
    last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
    return f"the process ended with code {code}: {last[:300]}"


def answers_in(path: Path) -> dict[int, Row]:
    """Return the lines of the answer file by job; a line that was cut off is left out."""
    found: dict[int, Row] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            number, row = json.loads(line)
            found[number] = row
    return found


def run(*, routes: Sequence[str] | None = None, child_limit_s: float = 300.0) -> list[Row]:
    """Try the cases of the routes (None: all) and return one row each (columns: module docstring)."""
    wanted = [number for number, job in enumerate(JOBS) if routes is None or job[0] in routes]
    answers: dict[int, Row] = {}
    lost: dict[int, str] = {}
    with tempfile.TemporaryDirectory(prefix="tvm-routes-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "answers.jsonl")
        while left := [number for number in wanted if number not in answers and number not in lost]:
            trouble = run_child({"jobs": left, "answer": str(path)}, Path(folder), child_limit_s)
            answers |= answers_in(path)
            first = next((number for number in left if number not in answers), None)
            if first is not None:
                lost[first] = trouble or "the process ended without an answer"
    names = ("outcome", "raised_at", "error", "message", "cause", "graphs", "executed", "relative_error", "gradients")
    rows: list[Row] = []
    for number in wanted:
        route, case, workload = JOBS[number]
        more = "".join(f", {key}={value!r}" for key, value in ARGUMENTS.get(case, {}).items())
        row: Row = {"route": route, "written": ROUTES[route][1] + more, "case": case, "workload": workload}
        row |= dict.fromkeys(names) | answers.get(number, {})
        row |= {"status": "failed" if number in lost else "ok", "note": lost.get(number)}
        row |= {"package": PACKAGE, "package_version": importlib.metadata.version(PACKAGE)}
        rows.append(row | {"ffi_version": importlib.metadata.version(FFI)})
    return rows


def main(arguments: Sequence[str]) -> None:
    """Try and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        found = row["outcome"] or row["status"]
        told = row["note"] or "" if row["error"] is None else f"{row['raised_at']}: {row['error']}: {row['message']}"
        print(
            f"{row['route']:13} {row['case']:20} {row['workload']:10} {found:6} graphs {row['graphs']}, "
            f"TVM ran {row['executed']}, gradients {row['gradients']:11} {told}"[:180]
        )


if __name__ == "__main__":
    main(sys.argv[1:])
