# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11", "onnxruntime>=1.32", "onnxscript>=0.7"]
#
# [tool.kitchen]
# limit_s = 480
# value = 30
# ///
"""ONNX Runtime behind torch.compile: a back end of our own, what it takes, and the road without torch.compile.

The name ``onnxrt`` has left torch. ``through_onnxruntime`` below does its work: it exports each captured graph to ONNX,
runs it in an ONNX Runtime session on the CPU, and leaves a graph to PyTorch, with the reason on record, where that
can't be done. Use it as ``torch.compile(model, backend=through_onnxruntime)``, in inference and in training.

Each case is run in a child process; a case whose process dies is tried once more in a new one. Results are compared
with the same model in float64 (bfloat16: in float32); "right" is a difference below 1e-4 (bfloat16: 2e-2) of the
largest value, for every gradient too.

Columns
    kind               "case": through torch.compile; "ahead": exported once, no torch.compile; "name": the old name
    case               what is run
    mode               "inference" (eval mode, no gradients) or "training" (forward and backward)
    outcome            "runs"; "wrong"; "error"
    sessions           ONNX Runtime sessions made
    executed           calls of a session in one step (forward, or forward and backward)
    left               graphs left to PyTorch
    rebuilt            sessions made anew because a weight had changed
    onnx_operators     operators of the exported graphs, the most frequent first, loops' bodies included
    relative_error     largest difference from float64, over the largest value there
    eager_error        the same for the model without compiling
    gradients          "equal", "wrong", "lost", "not wanted"
    raised_at, error, message   where an error came ("torch.compile()", "first call", "backward", "export", "session";
                       "never"), its name, and its first line; for graphs left to PyTorch ``message`` is the reason
    died               child processes that died on this case
    package, package_version    onnxruntime
    exporter_version   onnxscript
    status, note       "ok" (also for an error that was caught: that is the finding), "failed" where the process died
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import copy
import importlib.metadata
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from functorch.compile import make_boxed_func
from torch import fx, nn
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch.nn.attention import SDPBackend, sdpa_kernel

try:
    import onnxruntime
    import onnxscript  # noqa: F401  the exporter needs it
except ImportError:
    raise SystemExit(
        "this snippet needs ONNX Runtime and onnxscript: pip install 'onnxruntime>=1.32' 'onnxscript>=0.7'"
    ) from None

Row = dict[str, Any]
Call = Callable[..., tuple[Any, ...]]

# ---------------------------------------------------------------- the back end


class NotForOnnx(Exception):
    """Why a graph stays with PyTorch."""


class Tally:
    """What really happened since it was made."""

    def __init__(self) -> None:
        self.sessions = self.executed = self.rebuilt = 0
        self.left: list[str] = []  # the reason for each graph that stayed with PyTorch
        self.operators: collections.Counter[str] = collections.Counter()


TALLY = Tally()
aten = torch.ops.aten
#: In training ONNX has one output too few for batch norm: take it apart.
BATCH_NORM = get_decompositions(
    [aten.native_batch_norm, aten._native_batch_norm_legit_functional, aten.native_batch_norm_backward]
)


class Plan(NamedTuple):
    """A graph of tensors only: where its inputs come from, and where its results go."""

    module: fx.GraphModule
    taken: list[int]  # arguments that are inputs of the session
    baked: list[int]  # arguments whose values are written into the session
    results: list[tuple[str, Any]]  # ("tensor", k), ("argument", position) or ("constant", value)


def through_onnxruntime(graph: fx.GraphModule, inputs: Sequence[Any], *, options: Row | None = None) -> Call:
    """Compile one captured graph. Options: "threads" (None: PyTorch's number), "bake" (weights inside the session)."""
    chosen = {"threads": torch.get_num_threads(), "bake": True} | (options or {})
    if unknown := set(chosen) - {"threads", "bake"}:
        raise ValueError(f"through_onnxruntime has no option {', '.join(sorted(unknown))}: it knows threads and bake")
    if not (torch.is_grad_enabled() and any(isinstance(i, torch.Tensor) and i.requires_grad for i in inputs)):
        return compile_graph(graph, inputs, bake=chosen["bake"], threads=chosen["threads"])

    def half(part: fx.GraphModule, blanks: Sequence[Any]) -> Any:
        # Weights are inputs here: the optimizer changes them after each step.
        return make_boxed_func(compile_graph(part, blanks, bake=False, threads=chosen["threads"]))

    both = aot_autograd(fw_compiler=half, bw_compiler=half, decompositions=core_aten_decompositions() | BATCH_NORM)
    with sdpa_kernel(SDPBackend.MATH):  # attention as matrix products: the fused operator has no ONNX backward
        compiled: Call = both(graph, inputs)
    return compiled


def compile_graph(graph: fx.GraphModule, inputs: Sequence[Any], *, bake: bool, threads: int) -> Call:
    """Return a callable that runs the graph in ONNX Runtime, or the graph itself where that can't be done."""
    try:
        plan = make_plan(graph, inputs, bake)
        session = make_session(graph, inputs, plan, threads)
    except Exception as error:
        TALLY.left.append(reason(error))
        logging.getLogger(__name__).warning("a graph stays with PyTorch: %s", reason(error))
        return graph.forward
    stamps = [stamp(inputs[position]) for position in plan.baked]

    def call(*arguments: Any) -> tuple[Any, ...]:
        nonlocal plan, session
        if plan.baked and [stamp(arguments[position]) for position in plan.baked] != stamps:
            # A weight was changed in place, or is another tensor: from now on weights are inputs.
            plan = make_plan(graph, inputs, False)
            session = make_session(graph, inputs, plan, threads)
            TALLY.rebuilt += 1
        given = [arguments[position].detach().contiguous().numpy() for position in plan.taken]
        names = [place.name for place in session.get_inputs()]
        arrays = session.run(None, dict(zip(names, given, strict=True)))
        TALLY.executed += 1
        whence = {"tensor": lambda k: torch.from_numpy(arrays[k]), "argument": lambda k: arguments[k]}
        return tuple(whence[kind](k) if kind in whence else k for kind, k in plan.results)

    return call


def stamp(tensor: torch.Tensor) -> tuple[int, int]:
    """Return what changes when a tensor is written in place or is another one. (``.data`` goes unseen.)"""
    return tensor._version, tensor.data_ptr()


def is_weight(value: Any) -> bool:
    """Return whether an input is a parameter, or a buffer as Dynamo marks them."""
    return isinstance(value, nn.Parameter) or getattr(value, "_dynamo_static_input_type", None) is not None


def example_of(node: fx.Node) -> Any:
    """Return the example that Dynamo or AOTAutograd left at a node."""
    return node.meta.get("example_value", node.meta.get("val"))


def make_plan(graph: fx.GraphModule, inputs: Sequence[Any], bake: bool) -> Plan:
    """Return a copy of the graph with weights inside, sizes read off the tensors, and only tensors as results."""
    copied = fx.Graph()
    twin: dict[fx.Node, fx.Node] = {}
    copied.graph_copy(graph.graph, twin)
    old_places = [node for node in graph.graph.nodes if node.op == "placeholder"]
    places = [twin[node] for node in old_places]
    root = copy.copy(graph)
    taken: list[int] = []
    baked: list[int] = []
    sizes: dict[str, tuple[int, int]] = {}  # a symbol, and which dimension of which argument has that size
    for position, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            check_tensor(value, f"argument {position}")
            (baked if bake and is_weight(value) else taken).append(position)
            for dim, size in enumerate(example_of(old_places[position]).shape):
                if isinstance(size, torch.SymInt):
                    sizes.setdefault(str(size), (position, dim))
    first = next(iter(node for node in copied.nodes if node.op != "placeholder"), None)
    with copied.inserting_before(first):
        for position, place in enumerate(places):
            if position in baked:
                setattr(root, f"weight_{position}", nn.Buffer(inputs[position].detach(), persistent=False))
                place.replace_all_uses_with(copied.get_attr(f"weight_{position}"))
            elif position not in taken and place.users:
                if str(inputs[position]) not in sizes:
                    raise NotForOnnx(f"argument {position} is a number, and no tensor has that size")
                holder, dim = sizes[str(inputs[position])]
                if holder in baked:
                    raise NotForOnnx(f"the size of argument {holder}, a weight, varies")
                place.replace_all_uses_with(copied.call_function(aten.sym_size.int, (places[holder], dim)))
    results: list[tuple[str, Any]] = []
    kept: list[fx.Node] = []
    (old_output,) = (node for node in graph.graph.nodes if node.op == "output")
    for old in old_output.args[0]:
        if not isinstance(old, fx.Node):
            results.append(("constant", old))
        elif old in old_places:
            results.append(("argument", old_places.index(old)))
        elif isinstance(example_of(old), torch.Tensor):
            check_tensor(example_of(old), f"result {len(results)}")
            results.append(("tensor", len(kept)))
            kept.append(twin[old])
        else:
            raise NotForOnnx(f"result {len(results)} is no tensor")
    if not kept:
        raise NotForOnnx("the graph computes no tensor")
    copied.output(tuple(kept))
    for position, place in enumerate(places):
        if position not in taken:
            copied.erase_node(place)
    return Plan(fx.GraphModule(root, copied).eval(), taken, baked, results)


def check_tensor(tensor: torch.Tensor, what: str) -> None:
    """Raise NotForOnnx for a tensor that does not go through a NumPy array on the CPU."""
    if tensor.device.type != "cpu":
        raise NotForOnnx(f"{what} lies on {tensor.device.type}, the sessions here run on the CPU")
    if tensor.dtype in (torch.bfloat16, torch.complex32):
        raise NotForOnnx(f"{what} is {tensor.dtype}, which NumPy does not have")


def make_session(graph: fx.GraphModule, inputs: Sequence[Any], plan: Plan, threads: int) -> Any:
    """Export the plan's graph, and return an ONNX Runtime session of it that was seen to give the same results."""
    places = [node for node in graph.graph.nodes if node.op == "placeholder"]
    shapes, free = [], []
    for position in plan.taken:
        shape = example_of(places[position]).shape
        shapes.append([size.node.hint if isinstance(size, torch.SymInt) else int(size) for size in shape])
        free.append({dim: torch.export.Dim.AUTO for dim, size in enumerate(shape) if isinstance(size, torch.SymInt)})
    types = [inputs[position].dtype for position in plan.taken]
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        # In a thread of its own: the compile that is under way here has fake tensors and guards, and the export would
        # take them for its own.
        session, operators = other.submit(export_graph, plan.module, shapes, types, free, threads).result()
    TALLY.operators.update(operators)
    TALLY.sessions += 1
    return session


def export_graph(
    module: fx.GraphModule,
    shapes: list[list[int]],
    types: list[torch.dtype],
    free: list[dict[int, Any]],
    threads: int,
) -> tuple[Any, collections.Counter[str]]:
    """Return a session of the graph that was seen to give PyTorch's results on a trial input, and its operators."""
    examples = [
        # Far from 0, so that nothing is divided by next to nothing. A whole number may be an index: 0 always is one.
        torch.rand(shape, dtype=dtype) + 0.5 if dtype.is_floating_point else torch.zeros(shape, dtype=dtype)
        for shape, dtype in zip(shapes, types, strict=True)
    ]
    with torch.no_grad(), quiet():
        program = torch.export.export(module, tuple(examples), dynamic_shapes=tuple(free))
        signature = program.run_decompositions({}).graph_signature
        # The ONNX graph would leave these writes out, without a word.
        if written := len(signature.buffers_to_mutate) + len(signature.user_inputs_to_mutate):
            raise NotForOnnx(f"the graph writes into {written} of its inputs")
        model = torch.onnx.export(program, dynamo=True, verbose=False).model_proto
        expected = module(*examples)
    session = open_session(model.SerializeToString(), threads)
    names = [place.name for place in session.get_inputs()]
    arrays = session.run(None, {name: x.numpy() for name, x in zip(names, examples, strict=True)})
    for number, (array, right) in enumerate(zip(arrays, expected, strict=True)):
        if not torch.allclose(torch.from_numpy(array), right, rtol=1e-3, atol=1e-3, equal_nan=True):
            raise NotForOnnx(f"result {number} differs from PyTorch's on a trial input")
    return session, operators_of(model.graph)


def open_session(model: bytes | str, threads: int) -> Any:
    """Return a session on the CPU with so many threads, for a model or the path of one."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
    settings.log_severity_level = 3
    return onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


def operators_of(graph: Any) -> collections.Counter[str]:
    """Return how often each operator stands in an ONNX graph and in the bodies of its loops and branches."""
    found: collections.Counter[str] = collections.Counter()
    for node in graph.node:
        found[node.op_type] += 1
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found.update(operators_of(attribute.g))
    return found


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the exporter's progress and hints off the terminal; errors still raise."""
    names = ("torch.onnx._internal.exporter._registration", "torch.onnx", "onnxscript", "onnx_ir")
    levels = {name: logging.getLogger(name).level for name in names}
    try:
        for name in names:
            logging.getLogger(name).setLevel(logging.ERROR)
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def reason(error: BaseException) -> str:
    """Return what first went wrong, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = first_line(error)
    return text if isinstance(error, NotForOnnx) else f"{type(error).__name__}: {text}"


# ---------------------------------------------------------------- what it is tried on


class Cache(nn.Module):
    """Writes its input into a buffer, as a key-value cache does, and gives the sum back."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("held", torch.zeros(8, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (2, 16) to (16,)."""
        self.held[2:4] = x
        return self.held.sum(0)


class Halves(nn.Module):
    """Two linear layers with a graph break between them."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, 16) to (batch, 4)."""
        x = torch.relu(self.one(x))
        torch._dynamo.graph_break()
        return self.two(x)


def mlp() -> nn.Module:
    """Return linear layers with ReLU between."""
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


def convolution() -> nn.Module:
    """Return a convolution with batch norm, and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )


def encoder() -> nn.Module:
    """Return one Transformer layer."""
    return nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)


def norm() -> nn.Module:
    """Return a layer norm, a linear layer and GELU."""
    return nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU())


#: Name: how the model is made, and the inputs of its calls, one after another.
Inputs = Callable[[], list[tuple[torch.Tensor, ...]]]
CASES: dict[str, tuple[Callable[[], nn.Module], Inputs]] = {
    "mlp": (mlp, lambda: [(torch.randn(8, 16),)] * 2),
    "conv + bn": (convolution, lambda: [(torch.randn(4, 3, 16, 16),)] * 2),
    "norm + gelu": (norm, lambda: [(torch.randn(8, 16),)] * 2),
    "encoder, fast path": (encoder, lambda: [(torch.randn(2, 6, 32),)] * 2),
    "encoder": (encoder, lambda: [(torch.randn(2, 6, 32),)] * 2),
    "embedding bag": (
        lambda: nn.Sequential(nn.EmbeddingBag(50, 8, mode="sum"), nn.Linear(8, 4)),
        lambda: [(torch.randint(50, (6, 5)),)] * 2,
    ),
    "dynamic batch": (mlp, lambda: [(torch.randn(n, 16),) for n in (8, 6, 12, 5)]),
    "graph break": (Halves, lambda: [(torch.randn(8, 16),)] * 2),
    "changed weights": (mlp, lambda: [(torch.randn(8, 16),)] * 3),
    "written buffer": (Cache, lambda: [(torch.randn(2, 16),)] * 2),
    "bfloat16": (lambda: mlp().bfloat16(), lambda: [(torch.randn(8, 16).bfloat16(),)] * 2),
}
#: (case, mode)
JOBS = [(case, "inference") for case in CASES] + [
    (case, "training") for case in ("mlp", "conv + bn", "norm + gelu", "encoder", "dynamic batch")
]
#: The road without torch.compile: name, and how torch.onnx.export is called.
AHEAD = {"export": {"dynamo": True}, "export, old": {"dynamo": False}}


def as_reference(model: nn.Module) -> tuple[nn.Module, torch.dtype, float]:
    """Return a copy of the model to compare with, its data type, and the difference that is still right."""
    if next(iter(model.parameters()), torch.zeros(1)).dtype == torch.bfloat16:
        return copy.deepcopy(model).float(), torch.float32, 2e-2
    return copy.deepcopy(model).double(), torch.float64, 1e-4


def cast(inputs: Sequence[torch.Tensor], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return the inputs with floating-point ones in another type."""
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)


def difference(value: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest difference over the largest value."""
    return float((value.double() - expected.double()).abs().max() / expected.double().abs().max())


def attempt(case: str, mode: str) -> Row:
    """Run one case through torch.compile and return its row's findings."""
    global TALLY
    TALLY = Tally()
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch.backends.mha.set_fastpath_enabled(case == "encoder, fast path")
    make, given = CASES[case]
    calls = given()
    model = make().train(mode == "training")
    eager = copy.deepcopy(model)
    reference, dtype, bound = as_reference(model)
    compiled = torch.compile(model, backend=through_onnxruntime)
    at = "first call"
    try:
        with torch.set_grad_enabled(mode == "training"):
            for number, inputs in enumerate(calls):
                if case == "changed weights" and number == 1:
                    for each in (model, eager, reference):
                        for weight in each.parameters():
                            weight.mul_(0.5)
                for each in (model, eager, reference):
                    each.zero_grad()
                before = TALLY.executed
                result, plain = compiled(*inputs), eager(*inputs)
                expected = reference(*cast(inputs, dtype))
                if mode == "training":
                    at = "backward"
                    for value in (result, plain, expected):
                        value.square().sum().backward()
                executed = TALLY.executed - before
    except Exception as error:
        inner = getattr(error, "inner_exception", None) or error
        found = {"outcome": "error", "raised_at": at, "error": type(inner).__name__, "message": first_line(inner)}
        return found | tallied()
    errors = [difference(result.detach(), expected.detach())]
    gradients = "not wanted"
    if mode == "training":
        pairs = list(zip(model.parameters(), reference.parameters(), strict=True))
        lost = any(a.grad is None for a, _ in pairs)
        # Beside the largest of all: some are 0 but for rounding, as that of a bias in front of batch norm.
        largest = max(float(b.grad.abs().max()) for _, b in pairs)
        worst = 0.0 if lost else max(float((a.grad.double() - b.grad).abs().max()) for a, b in pairs) / largest
        gradients = "lost" if lost else "equal" if worst < bound else "wrong"
    buffers = zip(model.buffers(), reference.buffers(), strict=True)
    errors += [difference(a, b) for a, b in buffers if a.is_floating_point()]
    right = max(errors) < bound and gradients in ("equal", "not wanted")
    return {
        "outcome": "runs" if right else "wrong",
        "raised_at": "never",
        "message": "; ".join(sorted(set(TALLY.left))) or None,
        "executed": executed,
        "relative_error": errors[0],
        "eager_error": difference(plain.detach(), expected.detach()),
        "gradients": gradients,
    } | tallied()


def tallied() -> Row:
    """Return the columns that come from the tally."""
    names = [f"{name} {count}" if count > 1 else name for name, count in TALLY.operators.most_common(8)]
    more = ["…"] if len(TALLY.operators) > 8 else []
    return {
        "sessions": TALLY.sessions,
        "rebuilt": TALLY.rebuilt,
        "left": len(TALLY.left),
        "onnx_operators": ", ".join(names + more) or None,
    }


def ahead(case: str) -> Row:
    """Export a model to a file, open it, run it with another batch size: ONNX Runtime without torch.compile."""
    torch.manual_seed(0)
    model = mlp().eval()
    reference, dtype, bound = as_reference(model)
    at = "export"
    try:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            path = str(Path(folder, "model.onnx"))
            with quiet():
                export(model, path, **AHEAD[case])
            at = "session"
            session = open_session(path, torch.get_num_threads())
            x = torch.randn(5, 16)
            (array,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
            expected, plain = reference(x.to(dtype)), model(x)
    except Exception as error:
        return {"outcome": "error", "raised_at": at, "error": type(error).__name__, "message": first_line(error)}
    worst = difference(torch.from_numpy(array), expected)
    return {
        "outcome": "runs" if worst < bound else "wrong",
        "raised_at": "never",
        "sessions": 1,
        "executed": 1,
        "relative_error": worst,
        "eager_error": difference(plain, expected),
        "gradients": "not wanted",
    }


def export(model: nn.Module, path: str, *, dynamo: bool) -> None:
    """Write a model of (batch, 16) as ONNX, the batch free."""
    example = (torch.randn(8, 16),)
    if dynamo:
        free = ({0: torch.export.Dim.DYNAMIC},)
        torch.onnx.export(model, example, path, dynamo=True, dynamic_shapes=free, external_data=False)
    else:
        torch.onnx.export(model, example, path, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "batch"}})


def old_name(case: str) -> Row:
    """Ask for the back end that torch once had."""
    at = "torch.compile()"
    try:
        compiled = torch.compile(mlp(), backend=case)
        at = "first call"
        compiled(torch.randn(8, 16))
    except Exception as error:
        inner = getattr(error, "inner_exception", None) or error
        return {"outcome": "error", "raised_at": at, "error": type(inner).__name__, "message": first_line(inner)}
    return {"outcome": "runs", "raised_at": "never"}


def first_line(error: BaseException) -> str:
    """Return the first line of a message that says something, without colours and without folders of this machine."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return re.sub(r"(?:/[\w.+-]+)+/(?=[\w.+-]+)", "", lines[0])[:240] if lines else ""


# ---------------------------------------------------------------- in the child process


def child_main(job: Row) -> None:
    """Run cases and write a line of JSON for each into the answer file, as soon as it is known."""
    torch.set_num_threads(1)
    logging.getLogger(__name__).setLevel(logging.ERROR)
    with Path(job["answer"]).open("a") as answer:
        for kind, case, mode in job["jobs"]:
            found = attempt(case, mode) if kind == "case" else ahead(case) if kind == "ahead" else old_name(case)
            answer.write(json.dumps({"job": [kind, case, mode], "found": found}) + "\n")
            answer.flush()
    os._exit(0)


# ---------------------------------------------------------------- in the parent process


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and whatever it started."""
    with contextlib.suppress(ProcessLookupError):  # nobody is left
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # Windows has no process groups of this kind
            process.kill()
    process.wait()


def run_child(job: Row, folder: Path, limit_s: float) -> str | None:
    """Run a job in a fresh process with its caches below ``folder``; return what went wrong, or None."""
    log = folder / "log.txt"
    environment = os.environ | {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    command = [sys.executable, __file__, "--child", json.dumps(job)]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"no answer within {limit_s:g} s"
        finally:
            end_group(process)
    if code == 0:
        return None
    if code < 0:
        return f"the process died of signal {signal.Signals(-code).name}"
    last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
    return f"the process ended with code {code}: {first_line(RuntimeError(last))}"


def answers_in(path: Path) -> dict[tuple[str, str, str | None], Row]:
    """Return the findings in the answer file by job; a line that was cut off is left out."""
    found: dict[tuple[str, str, str | None], Row] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            answer = json.loads(line)
            kind, case, mode = answer["job"]
            found[kind, case, mode] = answer["found"]
    return found


def run(*, cases: Sequence[str] | None = None, child_limit_s: float = 200.0, tries: int = 2) -> list[Row]:
    """Run the cases (None: all) and return one row each (columns: module docstring)."""
    wanted: list[tuple[str, str, str | None]] = [("case", case, mode) for case, mode in JOBS]
    wanted += [("ahead", case, "inference") for case in AHEAD] + [("name", "onnxrt", None)]
    wanted = [job for job in wanted if cases is None or job[1] in cases]
    answers: dict[tuple[str, str, str | None], Row] = {}
    trouble: dict[tuple[str, str, str | None], list[str]] = {job: [] for job in wanted}
    with tempfile.TemporaryDirectory(prefix="onnxruntime-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "answers.jsonl")
        while left := [job for job in wanted if job not in answers and len(trouble[job]) < tries]:
            said = run_child({"jobs": left, "answer": str(path)}, Path(folder), child_limit_s)
            answers |= answers_in(path)
            first = next((job for job in left if job not in answers), None)
            if first is not None:
                # The first without an answer took the process down.
                trouble[first].append(said or "the process ended without an answer")
    packages = {
        "package": "onnxruntime",
        "package_version": importlib.metadata.version("onnxruntime"),
        "exporter_version": importlib.metadata.version("onnxscript"),
    }
    blank = dict.fromkeys(("outcome", "sessions", "executed", "left", "rebuilt", "onnx_operators", "relative_error"))
    blank |= dict.fromkeys(("eager_error", "gradients", "raised_at", "error", "message"))
    rows = []
    for kind, case, mode in wanted:
        found, died = answers.get((kind, case, mode)), trouble[kind, case, mode]
        status = {"status": "ok", "note": None} if found is not None else {"status": "failed", "note": died[-1]}
        row = {"kind": kind, "case": case, "mode": mode} | blank | (found or {}) | {"died": len(died)}
        rows.append(row | packages | status)
    return rows


def main(arguments: Sequence[str]) -> None:
    """Run and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        error = "" if row["relative_error"] is None else f"{row['relative_error']:.0e}"
        counts = f"{row['executed'] or 0} run, {row['left'] or 0} left"
        says = row["note"] or " ".join(filter(None, (row["error"], row["message"])))
        print(
            f"{row['case']:18} {row['mode'] or '-':9} {row['outcome'] or row['status']:6} {counts:14} {error:6}"
            f" {row['gradients'] or '-':10} {says}"[:180]
        )


if __name__ == "__main__":
    main(sys.argv[1:])
