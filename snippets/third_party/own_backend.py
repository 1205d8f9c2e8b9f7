# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11", "numpy>=2"]
#
# [tool.kitchen]
# needs = []
# limit_s = 300
# value = 60
# ///
"""A back end of your own: one that counts, one that runs in NumPy, one that also trains, and the checks they must pass.

``count_operators`` is the smallest useful one. ``numpy_forward`` interprets the graph that Dynamo captured and runs in
NumPy what its table knows; the rest runs in torch, counted. ``kitchen_numpy`` does the same behind AOTAutograd, so that
forward and backward come as graphs of core ATen operators; it takes ``options=``. Everything runs on the CPU. Results
are compared with the same model, not compiled, in float64.

Columns
    kind             "level", "graph", "partition", "shapes", "options", "entry", "check", "minified" or
                     "surface": what the row is about
    backend          level, check: which back end; its name in this file
    case             what was tried
    workload         level: "inference" or "training" (forward and backward)
    graphs           level: graphs that Dynamo gave the back end
    operators        level, graph, partition, minified: operators in the graph; of a partition, in the forward
    aten_graphs, aten_operators   level: graphs that AOTAutograd made of them, forward and backward, and their operators
    executed         level: operators that NumPy ran in one step, after the step that compiled
    fell_back        level: operators that torch ran in that step
    left_to_torch    level: which, with how many of each
    relative_error   level: greatest difference from float64 over the greatest value there
    eager_error      level: the same for the model not compiled, in float32
    gradients        level, partition: "equal" to those in float64 within the tolerance; "wrong"; "lost": the output
                     asks for none; "not wanted"
    stage, code, language   graph, minified: where the graph comes from, and its text
    inputs           graph: types of the example inputs
    saved, saved_kib partition: tensors that the forward computes and keeps for the backward, inputs not counted
    backward_operators  partition: operators of the backward graph
    call             shapes: the call
    seen             shapes: sizes of the data in the graph, a letter where any size fits; None: nothing was compiled
    symbols          shapes: sizes among the graph's inputs (SymInts)
    compiles         shapes: how often the back end was called so far
    written          options: how it is written
    listed           entry: "yes" or "no": whether torch.compiler.list_backends() shows the name
    outcome          options, entry, check: "right", "wrong", "error"
    numpy_outcome    check: the same for kitchen_numpy
    raised_at        where an error came: "torch.compile()", "first call", "backward", "never"
    error, message   name of the exception and its first line; for "wrong" what was found
    name             surface: a name that a back end needs
    found            surface: "yes" or "no": whether this torch has it
    standing         surface: "public" (documented, no underscore), "documented" (with an underscore), "private"
    package, package_version   NumPy, the runtime behind the rows
    status, note     "ok": also for an error that was caught, which is the finding
"""

from __future__ import annotations

import ast
import contextlib
import copy
import difflib
import functools
import importlib
import json
import math
import operator
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from functorch.compile import default_partition, make_boxed_func, min_cut_rematerialization_partition
from torch import nn
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch.utils._pytree import tree_leaves, tree_map_only

try:
    import numpy as np
except ImportError:
    raise SystemExit("this snippet needs NumPy: pip install 'numpy>=2'") from None

Row = dict[str, Any]
Backend = Callable[..., Any]

# ---------------------------------------------------------------- first: count


def count_operators(graph: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
    """Print what a graph is made of, and run it as it is."""
    calls = [node.target for node in graph.graph.nodes if node.op.startswith("call_")]
    counts = Counter(getattr(target, "__name__", str(target)) for target in calls)
    print(f"a graph of {len(calls)} operators:", dict(counts))
    return graph.forward


# ---------------------------------------------------------------- second: NumPy

#: Operators executed so far, by where ("numpy" or "torch") and name. Clear it to count one step.
EXECUTED: Counter[tuple[str, str]] = Counter()
#: Graphs of ATen operators compiled so far ("graphs"), and operators in them ("operators").
COMPILED: Counter[str] = Counter()
#: What torch and NumPy both have, so that one can look into the memory of the other.
SHARED = {torch.float32, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}


def fits(value: Any) -> bool:
    """Tell whether NumPy can take a value: no tensor, or a plain one in this machine's memory."""
    if not isinstance(value, torch.Tensor):
        return True
    return value.device.type == "cpu" and value.layout == torch.strided and value.dtype in SHARED


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor as an array on the same memory: nothing is copied, and nothing is recorded for a gradient."""
    return tensor.detach().numpy()


def as_tensor(value: Any, promised: torch.Tensor) -> torch.Tensor:
    """Return an array as a tensor of the promised dtype: NumPy's rules of promotion are not torch's."""
    array = np.asarray(value)
    return torch.from_numpy(array if array.flags.writeable else array.copy()).to(promised.dtype)


def name_of(target: Any) -> str:
    """Return a name for what a node calls: aten.mm, or that of a function or method."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target).removesuffix(".default")
    return str(getattr(target, "__name__", target))


class NumpyInterpreter(torch.fx.Interpreter):
    """Runs a graph node by node: in NumPy what the table knows, the rest in torch."""

    def __init__(self, graph: torch.fx.GraphModule, table: dict[Any, Callable[..., Any]]) -> None:
        super().__init__(graph)
        self.table = table

    def run_node(self, n: torch.fx.Node) -> Any:
        """Return the value of a node."""
        if not n.op.startswith("call_") or n.target is operator.getitem:
            return super().run_node(n)  # an input, the output, or one of several results
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        promised = n.meta.get("val", n.meta.get("example_value"))  # a tensor without data: AOTAutograd's, Dynamo's
        if isinstance(promised, int | float | torch.SymInt | torch.SymFloat):
            return super().run_node(n)  # arithmetic with sizes
        function = self.table.get(n.target)
        if function is None or not all(fits(value) for value in tree_leaves((args, kwargs, promised))):
            EXECUTED["torch", name_of(n.target)] += 1
            return super().run_node(n)
        EXECUTED["numpy", name_of(n.target)] += 1
        args, kwargs = tree_map_only(torch.Tensor, as_array, (args, kwargs))
        return as_tensor(function(*args, **kwargs), promised)


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> Any:
    """Return x @ weight.T + bias."""
    product = x @ weight.T
    return product if bias is None else product + bias


#: One line for each *spelling*: x + y and torch.add(x, y) are different nodes of Dynamo's graph.
TORCH_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    nn.functional.linear: linear,
    nn.functional.relu: lambda x, inplace=False: np.maximum(x, 0, out=x if inplace else None),
    torch.relu: lambda x: np.maximum(x, 0),
    torch.tanh: np.tanh,
    operator.add: np.add,
    torch.add: lambda x, y, *, alpha=1: x + alpha * y,
    operator.mul: np.multiply,
    torch.mul: np.multiply,
    operator.matmul: np.matmul,
    torch.matmul: np.matmul,
}


def numpy_forward(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Run a captured graph in NumPy. For inference: what NumPy computes has no gradient."""

    def call(*values: Any) -> Any:
        return NumpyInterpreter(graph, TORCH_FUNCTIONS).run(*values)

    return call


# ---------------------------------------------------------------- third: with AOTAutograd


def softmax(x: np.ndarray, dim: int, half_to_float: bool) -> Any:
    """Return the softmax over a dimension."""
    powers = np.exp(x - x.max(axis=dim, keepdims=True))
    return powers / powers.sum(axis=dim, keepdims=True)


def squeeze(x: np.ndarray, dims: Sequence[int]) -> np.ndarray:
    """Drop those of the dimensions that have size 1: torch leaves the others, NumPy would raise."""
    return np.squeeze(x, tuple(dim for dim in dims if x.shape[dim] == 1))


def expand(x: np.ndarray, size: Sequence[int], *, implicit: bool = False) -> np.ndarray:
    """Repeat dimensions of size 1; a size of -1 leaves one as it is."""
    fill = (1,) * (len(size) - x.ndim) + x.shape
    return np.broadcast_to(x, [old if new == -1 else new for old, new in zip(fill, size, strict=True)])


def take(x: np.ndarray, dim: int, part: Any) -> np.ndarray:
    """Index one dimension."""
    return x[(slice(None),) * (dim % x.ndim) + (part,)]


def total(x: np.ndarray, dim: Sequence[int] | None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Return the sum over dimensions (None or an empty list: over all)."""
    return np.sum(x, axis=tuple(dim) if dim else None, keepdims=keepdim)


aten = torch.ops.aten
#: One line for each operator of the core ATen set that NumPy takes over.
ATEN: dict[Any, Callable[..., Any]] = {
    aten.add.Tensor: lambda x, y, *, alpha=1: x + y if alpha == 1 else x + alpha * y,
    aten.sub.Tensor: lambda x, y, *, alpha=1: x - y if alpha == 1 else x - alpha * y,
    aten.mul.Tensor: np.multiply,
    aten.mul.Scalar: np.multiply,
    aten.div.Tensor: np.true_divide,
    aten.div.Scalar: np.true_divide,
    aten.neg.default: np.negative,
    aten.exp.default: np.exp,
    aten.sin.default: np.sin,
    aten.cos.default: np.cos,
    aten.tanh.default: np.tanh,
    aten.sigmoid.default: lambda x: 0.5 * (np.tanh(0.5 * x) + 1),
    aten.relu.default: lambda x: np.maximum(x, 0),
    aten.le.Scalar: np.less_equal,
    aten.eq.Scalar: np.equal,
    aten.logical_not.default: np.logical_not,
    aten.where.self: np.where,
    aten.mm.default: np.matmul,
    aten.bmm.default: np.matmul,
    aten.addmm.default: lambda bias, x, y, *, beta=1, alpha=1: beta * bias + alpha * (x @ y),
    aten._softmax.default: softmax,
    aten.sum.dim_IntList: total,
    aten.mean.dim: lambda x, dim, keepdim=False, *, dtype=None: np.mean(x, axis=tuple(dim), keepdims=keepdim),
    aten.permute.default: np.transpose,
    aten.view.default: np.reshape,
    aten.unsqueeze.default: np.expand_dims,
    aten.squeeze.dims: squeeze,
    aten.expand.default: expand,
    aten.select.int: take,
    aten.alias.default: lambda x: x,
    aten.clone.default: lambda x, *, memory_format=None: x.copy(),
    aten.full.default: lambda size, value, **like: np.full(size, value),
    aten.scalar_tensor.default: lambda value, **like: np.asarray(value),
}
PARTITIONERS = {"min_cut": min_cut_rematerialization_partition, "default": default_partition}
DEFAULTS = {"fallback": True, "partitioner": "min_cut"}


def checked(mode: str | None, options: dict[str, Any] | None) -> dict[str, Any]:
    """Return all options with their values; what this back end does not know is refused, not ignored."""
    if mode is not None:
        raise ValueError(f"kitchen_numpy has no modes: leave mode={mode!r} out; it has options: {', '.join(DEFAULTS)}")
    settings = DEFAULTS | (options or {})
    for name in settings:
        if name not in DEFAULTS:
            near = difflib.get_close_matches(name, DEFAULTS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(DEFAULTS)}"
            raise ValueError(f"kitchen_numpy has no option {name!r}; {hint}")
    if not isinstance(settings["fallback"], bool):
        raise TypeError(f"option 'fallback' of kitchen_numpy is True or False, not {settings['fallback']!r}")
    if settings["partitioner"] not in PARTITIONERS:
        known = " or ".join(map(repr, PARTITIONERS))
        raise ValueError(f"option 'partitioner' of kitchen_numpy is {known}, not {settings['partitioner']!r}")
    return settings


def compile_aten(
    graph: torch.fx.GraphModule, example_inputs: Sequence[Any], *, fallback: bool = True
) -> Callable[..., Any]:
    """Compile one graph of ATen operators: the forward, or the backward."""
    calls = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    unknown = Counter(name_of(target) for target in calls if target not in ATEN and target is not operator.getitem)
    COMPILED.update(graphs=1, operators=sum(target is not operator.getitem for target in calls))
    if unknown and not fallback:
        names = ", ".join(f"{name} ({count})" for name, count in unknown.most_common())
        raise NotImplementedError(f"kitchen_numpy has no NumPy version of: {names}")

    def call(*values: Any) -> Any:
        return NumpyInterpreter(graph, ATEN).run(*values)

    return make_boxed_func(call)


def kitchen_numpy(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Run a model in NumPy, training included; give it to torch.compile as ``backend=``."""
    settings = checked(mode, options)
    through = aot_autograd(
        fw_compiler=functools.partial(compile_aten, fallback=settings["fallback"]),
        decompositions=core_aten_decompositions(),
        partition_fn=PARTITIONERS[settings["partitioner"]],
    )
    return through(graph, example_inputs)


# ---------------------------------------------------------------- what each sees


class Attention(nn.Module):
    """One attention layer with a norm and a residual, written out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the input's shape, (batch, tokens, width)."""
        query, key, value = self.mix(self.norm(x)).chunk(3, dim=-1)
        weights = torch.softmax(query @ key.transpose(1, 2) / math.sqrt(x.shape[-1]), dim=-1)
        return x + weights @ value


def operators(graph: torch.fx.GraphModule) -> int:
    """Count the operators of a graph; picking one of several results is none."""
    return sum(n.op.startswith("call_") and n.target is not operator.getitem for n in graph.graph.nodes)


def mlp() -> nn.Module:
    """Return three linear layers with ReLU."""
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))


def cnn() -> nn.Module:
    """Return a convolution, a batch norm and a pooling before a linear layer."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 7 * 7, 8),
    )


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (16, 32)),
    "attention": (lambda: Attention(32), (4, 16, 32)),
    "cnn": (cnn, (4, 3, 16, 16)),
}
TOLERANCE = 1e-4


def first_line(error: BaseException) -> str:
    """Return the first line of a message that says something."""
    return next((line.strip()[:240] for line in str(error).splitlines() if line.strip()), "")


def told(error: BaseException) -> Row:
    """Return name and first line of what a back end raised, or else of what torch says."""
    inner = getattr(error, "inner_exception", None) or error
    return {"error": type(inner).__name__, "message": first_line(inner)}


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the greatest difference over the greatest expected value."""
    return ((found.double() - expected.double()).abs().max() / expected.double().abs().max()).item()


class Watch:
    """A back end that counts its graphs and hands them on to another."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.__name__ = getattr(backend, "__name__", "backend")
        self.graphs = self.operators = self.symbols = 0
        self.seen: str | None = None

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any], **more: Any) -> Any:
        """Count, and compile with the other."""
        self.graphs += 1
        self.operators += operators(graph)
        self.symbols = sum(isinstance(value, torch.SymInt) for value in example_inputs)
        nodes = [node.meta.get("example_value") for node in graph.graph.nodes if node.op == "placeholder"]
        data = [value for value in nodes if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter)]
        self.seen = f"({', '.join(str(size) for size in data[-1].shape)})" if data else None
        return self.backend(graph, example_inputs, **more)


def train(model: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
    """Run forward and backward and return the output."""
    y = model(x)
    y.square().mean().backward()
    return y.detach()


def gradients_of(model: nn.Module, reference: nn.Module) -> str:
    """Compare the gradients of the parameters with those of the same model in float64."""
    pairs = zip(model.parameters(), reference.parameters(), strict=True)
    same = all(mine.grad is not None and difference(mine.grad, right.grad) <= TOLERANCE for mine, right in pairs)
    return "equal" if same else "wrong"


def level_row(backend: Backend, case: str, workload: str) -> Row:
    """Run one model with one back end: what ran where, and whether it is right."""
    build, shape = MODELS[case]
    torch.manual_seed(0)
    model, x = build(), torch.randn(shape)
    reference, eager = copy.deepcopy(model).double(), copy.deepcopy(model)
    with torch.set_grad_enabled(workload == "training"):
        run_step = train if workload == "training" else (lambda model, x: model(x))
        expected = run_step(reference, x.double())
        eager_error = difference(run_step(eager, x), expected)
        torch.compiler.reset()
        COMPILED.clear()
        watch = Watch(backend)
        compiled = torch.compile(model, backend=watch)
        raised: Row = {"raised_at": "never", "error": None, "message": None}
        gradients = "not wanted"
        with contextlib.redirect_stdout(None):  # the one that counts prints
            for _ in range(2):  # the first compiles, the second is counted
                model.zero_grad()
                EXECUTED.clear()
                found = compiled(x)
                if workload == "training" and not found.requires_grad:
                    gradients = "lost"
                try:
                    if workload == "training":
                        found.square().mean().backward()
                        gradients = gradients_of(model, reference)
                except RuntimeError as error:
                    raised = {"raised_at": "backward", **told(error)}
    left = {name: n for (where, name), n in EXECUTED.items() if where == "torch"}
    return {
        "kind": "level",
        "backend": watch.__name__,
        "case": case,
        "workload": workload,
        "graphs": watch.graphs,
        "operators": watch.operators,
        "aten_graphs": COMPILED["graphs"] or None,
        "aten_operators": COMPILED["operators"] or None,
        "executed": sum(n for (where, _), n in EXECUTED.items() if where == "numpy"),
        "fell_back": sum(left.values()),
        "left_to_torch": ", ".join(f"{name} {n}" for name, n in sorted(left.items())) or None,
        "relative_error": difference(found.detach(), expected),
        "eager_error": eager_error,
        "gradients": gradients,
        **raised,
    }


def gate(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return a small function whose three graphs are short enough to read."""
    return torch.relu(x @ weight) * 2


def graph_rows() -> list[Row]:
    """Show the same function as Dynamo gives it, and as AOTAutograd gives it: forward and backward."""
    found: dict[str, Row] = {}

    def note(stage: str, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
        inputs = ", ".join(sorted({type(value).__name__ for value in example_inputs}))
        found[stage] = {"operators": operators(graph), "inputs": inputs, "code": graph.code.strip()}

    def keep(stage: str) -> Backend:
        def compiler(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
            note(stage, graph, example_inputs)
            return make_boxed_func(graph.forward)

        return compiler

    def dynamo(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        note("Dynamo", graph, example_inputs)
        through = aot_autograd(
            fw_compiler=keep("AOTAutograd, forward"),
            bw_compiler=keep("AOTAutograd, backward"),
            decompositions=core_aten_decompositions(),
        )
        return through(graph, example_inputs)

    torch.compiler.reset()
    x, weight = torch.randn(4, 3), torch.randn(3, 2, requires_grad=True)
    torch.compile(gate, backend=dynamo)(x, weight).sum().backward()
    return [{"kind": "graph", "stage": stage, "language": "python", **row} for stage, row in found.items()]


def waves(x: torch.Tensor) -> torch.Tensor:
    """Return a chain of cheap operators: for its backward each needs the value before it."""
    for _ in range(4):
        x = torch.sin(x) * torch.cos(x)
    return x


def partition_row(partitioner: str) -> Row:
    """Compile forward and backward of the chain with one partitioner: what is kept between them."""
    sizes: dict[str, list[Any]] = {"forward": [], "backward": []}

    def keep(which: str) -> Backend:
        def compiler(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
            *_, output = graph.graph.nodes
            made = [n.meta["val"] for n in output.args[0][1:] if n.op != "placeholder" and "val" in n.meta]
            sizes[which] = [operators(graph), len(made), sum(v.numel() * v.element_size() for v in made)]
            return compile_aten(graph, example_inputs)

        return compiler

    backend = aot_autograd(
        fw_compiler=keep("forward"),
        bw_compiler=keep("backward"),
        decompositions=core_aten_decompositions(),
        partition_fn=PARTITIONERS[partitioner],
    )
    torch.compiler.reset()
    torch.manual_seed(0)
    x = torch.randn(256, 256, requires_grad=True)
    right = x.detach().double().requires_grad_()
    waves(right).sum().backward()
    torch.compile(waves, backend=backend)(x).sum().backward()
    return {
        "kind": "partition",
        "case": partitioner,
        "operators": sizes["forward"][0],
        "backward_operators": sizes["backward"][0],
        "saved": sizes["forward"][1],
        "saved_kib": sizes["forward"][2] / 1024,
        "gradients": "equal" if difference(x.grad, right.grad) <= TOLERANCE else "wrong",
    }


def shape_rows() -> list[Row]:
    """Call one compiled model with several sizes, and say each time what the back end was given."""
    torch.compiler.reset()
    torch.manual_seed(0)
    model, watch = mlp(), Watch(kitchen_numpy)
    compiled = torch.compile(model, backend=watch)

    def no_gradient(batch: int) -> None:
        with torch.no_grad():
            compiled(torch.randn(batch, 32))

    def again(backend: Backend) -> None:
        with torch.no_grad():
            torch.compile(model, backend=backend)(torch.randn(24, 32))

    def from_scratch() -> None:
        torch.compiler.reset()
        no_gradient(24)

    calls: dict[str, Callable[[], Any]] = {
        "8 rows": lambda: no_gradient(8),
        "8 rows again": lambda: no_gradient(8),
        "16 rows": lambda: no_gradient(16),
        "24 rows": lambda: no_gradient(24),
        "1 row": lambda: no_gradient(1),
        "24 rows, with gradients": lambda: compiled(torch.randn(24, 32)),
        "compile(), same back end": lambda: again(watch),
        "compile(), new back end object": lambda: again(lambda *given: watch(*given)),
        "after torch.compiler.reset()": from_scratch,
    }
    rows: list[Row] = []
    for call, make in calls.items():
        before, watch.seen = watch.graphs, None
        make()
        symbols = watch.symbols if watch.graphs > before else None
        rows.append({"kind": "shapes", "call": call, "seen": watch.seen, "symbols": symbols, "compiles": watch.graphs})
    return rows


OPTIONS: dict[str, Row] = {
    "none": {},
    "one option": {"options": {"partitioner": "default"}},
    "misspelt": {"options": {"partitoner": "default"}},
    "wrong value": {"options": {"fallback": "no"}},
    "no fallback": {"options": {"fallback": False}},
    "mode default": {"mode": "default"},
    "a mode": {"mode": "reduce-overhead"},
    "mode and options": {"mode": "reduce-overhead", "options": {"fallback": True}},
}


def attempt(model: Callable[..., Any], x: torch.Tensor, expected: torch.Tensor, **how: Any) -> Row:
    """Compile and call; return outcome, raised_at, error and message."""
    torch.compiler.reset()
    at = "torch.compile()"
    try:
        compiled = torch.compile(model, **how)
        at = "first call"
        found = compiled(x)
    except Exception as error:
        return {"outcome": "error", "raised_at": at, **told(error)}
    right = difference(found, expected) <= TOLERANCE
    return {"outcome": "right" if right else "wrong", "raised_at": "never", "error": None, "message": None}


def option_rows() -> list[Row]:
    """Give options and modes to the back end that knows its own, and to one that takes none."""
    torch.manual_seed(0)
    model, x = Attention(32), torch.randn(4, 16, 32)
    rows: list[Row] = []
    with torch.no_grad():
        expected = model(x)
        for backend, cases in ((kitchen_numpy, tuple(OPTIONS)), (numpy_forward, ("one option", "a mode"))):
            for case in cases:
                written = ", ".join(f"{name}={value!r}" for name, value in OPTIONS[case].items()) or None
                row = attempt(model, x, expected, backend=backend, **OPTIONS[case])
                rows.append({"kind": "options", "backend": backend.__name__, "case": case, "written": written, **row})
    return rows


# ---------------------------------------------------------------- found by entry point

#: The entry points of a package. Only the first is as it should be; the last is for the minifier.
ENTRIES = {
    "works": "kitchen_entry_demo:works",
    "not_there": "kitchen_entry_demo:not_there",
    "import_fails": "kitchen_entry_broken:works",
    "no_such_module": "kitchen_entry_missing:works",
    "refuses_tanh": "kitchen_entry_demo:refuses_tanh",
}
PACKAGE = {
    "kitchen_entry_demo.py": """
def works(graph, example_inputs):
    return graph.forward

def refuses_tanh(graph, example_inputs):
    if "tanh" in graph.code:
        raise NotImplementedError("no tanh here")
    return graph.forward
""",
    "kitchen_entry_broken.py": "import a_package_that_nobody_has\n",
    "kitchen_entry_demo-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: kitchen-entry-demo\nVersion: 1\n",
    "kitchen_entry_demo-1.dist-info/entry_points.txt": "[torch_dynamo_backends]\n"
    + "".join(f"{name} = {target}\n" for name, target in ENTRIES.items()),
    "model.py": """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Sigmoid())
torch.compile(model, backend="refuses_tanh")(torch.randn(4, 8))
""",
}


def lay_out(folder: str) -> None:
    """Write the package as pip would leave it in a folder of installed packages."""
    for name, text in PACKAGE.items():
        path = Path(folder, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def run_python(arguments: Sequence[str], folder: str, limit_s: float, **environment: str) -> str:
    """Run Python in a folder whose packages it sees; return what it printed, errors included."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": folder, "TORCHINDUCTOR_CACHE_DIR": str(Path(folder, "cache"))} | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit_s,
        check=False,
    )
    return done.stdout


def entry_child() -> None:
    """In a process that sees the package: list and use each name, and print the rows as JSON."""
    rows: list[Row] = []
    listed = torch.compiler.list_backends()
    for name in ("works", "not_there", "import_fails", "no_such_module", "work"):
        how = attempt(affine, torch.arange(4.0), affine(torch.arange(4.0)), backend=name)
        rows.append({"case": name, "listed": "yes" if name in listed else "no", **how})
    try:
        torch._dynamo.register_backend(count_operators, name="works")
    except AssertionError as error:
        how = {"outcome": "error", "raised_at": "register_backend()", **told(error)}
        rows.append({"case": "works, registered again", "listed": "yes", **how})
    print(json.dumps(rows))


def entry_rows(limit_s: float) -> list[Row]:
    """Lay out an installed package in a new folder, and let a new process find its back ends."""
    with tempfile.TemporaryDirectory(prefix="own-backend-") as folder:
        lay_out(folder)
        printed = run_python([str(Path(__file__).resolve()), "--entry"], folder, limit_s)
    try:
        return [{"kind": "entry", "status": "ok", **row} for row in json.loads(printed.strip().splitlines()[-1])]
    except (json.JSONDecodeError, IndexError):
        return [{"kind": "entry", "case": "works", "status": "failed", "note": printed.strip()[-200:] or "no output"}]


# ---------------------------------------------------------------- the minifier


def forward_in(code: str) -> ast.FunctionDef:
    """Return the method forward of the class Repro in a script of the minifier."""
    classes = [node for node in ast.parse(code).body if isinstance(node, ast.ClassDef) and node.name == "Repro"]
    return next(node for node in classes[0].body if isinstance(node, ast.FunctionDef) and node.name == "forward")


def minified_rows(limit_s: float) -> list[Row]:
    """Let the minifier cut a model that a back end refuses down to what it refuses."""
    with tempfile.TemporaryDirectory(prefix="own-backend-", ignore_cleanup_errors=True) as folder:
        lay_out(folder)
        printed = run_python(["model.py"], folder, limit_s, TORCHDYNAMO_REPRO_AFTER="dynamo")
        scripts = list(Path(folder).rglob("minifier_launcher.py"))
        if scripts:
            printed = run_python([str(scripts[0])], folder, limit_s)
            scripts.append(Path(folder, "repro.py"))
        texts = [path.read_text() for path in scripts if path.exists()]
    if len(texts) < 2:
        last = printed.strip().splitlines()[-1:] or ["no output"]
        return [{"kind": "minified", "case": "minified", "status": "failed", "note": last[0][:200]}]
    rows: list[Row] = []
    for case, text in zip(("as captured", "minified"), texts, strict=True):
        forward = forward_in(text)
        count = sum(isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) for node in forward.body)
        row = {"kind": "minified", "case": case, "operators": count, "language": "python", "code": ast.unparse(forward)}
        rows.append(row | {"status": "ok"})
    return rows


# ---------------------------------------------------------------- checks that a back end must pass


class Unlike(Exception):
    """What a back end returned or did is not what torch does."""


def same(found: Any, expected: torch.Tensor, what: str) -> None:
    """Raise Unlike where two tensors differ in type, dtype, shape or value."""
    for name in ("dtype", "shape"):
        if getattr(found, name) != getattr(expected, name):
            raise Unlike(f"{what}: {name} {getattr(found, name)}, not {getattr(expected, name)}")
    if not torch.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE):
        raise Unlike(f"{what}: {found.flatten()[:3].tolist()}, not {expected.flatten()[:3].tolist()}")


def affine(x: torch.Tensor) -> torch.Tensor:
    """Return 2 x + 1."""
    return x * 2 + 1


def check_output(backend: Backend) -> None:
    """One call: value, dtype and shape."""
    x = torch.arange(4.0)
    same(torch.compile(affine, backend=backend)(x), affine(x), "output")


def check_second_call(backend: Backend) -> None:
    """Other values in the same shape: the callable is called again and again, the back end is not."""
    compiled = torch.compile(affine, backend=backend)
    for x in (torch.arange(4.0), torch.ones(4)):
        same(compiled(x), affine(x), "output")


def check_kept_output(backend: Backend) -> None:
    """An output that the caller keeps must survive the next call."""
    compiled = torch.compile(affine, backend=backend)
    kept = compiled(torch.arange(4.0))
    compiled(torch.ones(4))
    same(kept, affine(torch.arange(4.0)), "the output of the call before")


def check_written_input(backend: Backend) -> None:
    """What the function writes into its input, the caller must see."""

    def add_one(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    x = torch.arange(4.0)
    same(torch.compile(add_one, backend=backend)(x), torch.arange(4.0) * 2 + 2, "output")
    same(x, torch.arange(4.0) + 1, "input after the call")


def check_view(backend: Backend) -> None:
    """Where the function returns a view of its input, the caller may write through it."""
    x = torch.arange(4.0)
    torch.compile(lambda x: x.view(2, 2), backend=backend)(x).add_(1)
    same(x, torch.arange(4.0) + 1, "input after writing to the output")


def check_dtype(backend: Backend) -> None:
    """Whole numbers divided are float32 in torch, float64 in NumPy."""
    x = torch.arange(4)
    same(torch.compile(lambda x: x / 2, backend=backend)(x), x / 2, "output")


def check_new_sizes(backend: Backend) -> None:
    """Several sizes: right, and with no more compiles than sizes make necessary."""

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * x.shape[0] + 2 * x.shape[0]

    watch = Watch(backend)
    compiled = torch.compile(scaled, backend=watch)
    for size in (4, 6, 9, 12):
        x = torch.arange(float(size))
        same(compiled(x), scaled(x), f"output of size {size}")
    if watch.graphs > 2:
        raise Unlike(f"compiled {watch.graphs} times for 4 sizes, where 2 are enough")


def check_two_graphs(backend: Backend) -> None:
    """A graph break: the back end is called for each part."""

    def halves(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        torch._dynamo.graph_break()
        return x + 1

    same(torch.compile(halves, backend=backend)(torch.arange(4.0)), affine(torch.arange(4.0)), "output")


def check_gradients(backend: Backend) -> None:
    """Each parameter gets the gradient that it gets in float64."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8)), torch.randn(4, 8)
    reference = copy.deepcopy(model).double()
    train(reference, x.double())
    train(torch.compile(model, backend=backend), x)
    for (name, mine), right in zip(model.named_parameters(), reference.parameters(), strict=True):
        if mine.grad is None:
            raise Unlike(f"{name} has no gradient, and nothing was raised")
        same(mine.grad, right.grad.float(), f"gradient of {name}")


def check_executed(backend: Backend) -> None:
    """The back end's own runtime does the work: right results prove nothing."""
    EXECUTED.clear()
    check_output(backend)
    where = Counter(where for where, _ in EXECUTED.elements())
    if not where["numpy"]:
        raise Unlike(f"NumPy ran none of {where.total()} operators")


# ---------------------------------------------------------------- back ends that fail one of them


def bare_tensor(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
    """Return a tensor, not a tuple of one."""
    return lambda *values: graph(*values)[0]


def forgets_to_return(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
    """Compile, and return nothing."""
    graph.graph.lint()


def baked_in(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
    """Compute once, with the example inputs."""
    result = graph(*example_inputs)
    return lambda *values: result


def one_buffer(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
    """Return the same memory at each call."""
    buffers = [torch.empty_like(value) for value in graph(*example_inputs)]
    return lambda *values: [buffer.copy_(value) for buffer, value in zip(buffers, graph(*values), strict=True)]


def own_memory(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
    """Copy all inputs into memory of its own, as a runtime on another device does."""
    return lambda *values: graph(*(v.clone() if isinstance(v, torch.Tensor) else v for v in values))


def numpy_rules(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
    """Divide as NumPy does, and hand out what comes."""

    def call(x: torch.Tensor) -> tuple[torch.Tensor]:
        return (torch.from_numpy(x.numpy() / 2),)

    return call


def fixed_size(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
    """Take the sizes of the example for those of every call."""
    sizes = [value.shape for value in graph(*example_inputs)]
    return lambda *values: [value.reshape(size) for value, size in zip(graph(*values), sizes, strict=True)]


def first_graph_only() -> Backend:
    """Keep what was compiled first, and return it for every graph."""
    kept: list[Any] = []

    def backend(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        kept.append(graph.forward)
        return kept[0]

    backend.__name__ = "first_graph_only"
    return backend


def tensors_only(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
    """Behind AOTAutograd, treat every output as a tensor: a backward returns None for inputs without a gradient."""

    def compiler(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        return make_boxed_func(lambda *values: [value.contiguous() for value in graph(*values)])

    return aot_autograd(fw_compiler=compiler)(graph, example_inputs)


def empty_table(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
    """Run all of it in torch, under the name of another runtime."""
    return lambda *values: NumpyInterpreter(graph, {}).run(*values)


CARELESS: tuple[tuple[Backend, Callable[[Backend], None]], ...] = (
    (bare_tensor, check_output),
    (forgets_to_return, check_output),
    (baked_in, check_second_call),
    (one_buffer, check_kept_output),
    (own_memory, check_written_input),
    (own_memory, check_view),
    (numpy_rules, check_dtype),
    (fixed_size, check_new_sizes),
    (first_graph_only(), check_two_graphs),
    (numpy_forward, check_gradients),
    (tensors_only, check_gradients),
    (empty_table, check_executed),
)


def result_of(check: Callable[[Backend], None], backend: Backend) -> Row:
    """Run one check: outcome, error and message."""
    torch.compiler.reset()
    try:
        check(backend)
    except Unlike as error:
        return {"outcome": "wrong", "error": None, "message": first_line(error)}
    except Exception as error:
        return {"outcome": "error", **told(error)}
    return {"outcome": "right", "error": None, "message": None}


def check_rows() -> list[Row]:
    """Run each check with a back end that fails it, and with ``kitchen_numpy``."""
    rows: list[Row] = []
    for careless, check in CARELESS:
        row: Row = {"kind": "check", "case": check.__name__, "backend": careless.__name__}
        rows.append(row | result_of(check, careless) | {"numpy_outcome": result_of(check, kitchen_numpy)["outcome"]})
    return rows


#: What the page uses, with its standing: whether the documentation names it, and whether its path has an underscore.
SURFACE: dict[str, str] = {
    "torch.compile": "public",
    "torch.compiler.list_backends": "public",
    "torch.compiler.reset": "public",
    "torch.fx.Interpreter": "public",
    "functorch.compile.make_boxed_func": "documented",
    "torch._dynamo.register_backend": "documented",
    "torch._dynamo.lookup_backend": "documented",
    "torch._dynamo.backends.common.aot_autograd": "documented",
    "functorch.compile.min_cut_rematerialization_partition": "private",
    "functorch.compile.default_partition": "private",
    "torch._decomp.core_aten_decompositions": "private",
    "torch.utils._pytree.tree_map_only": "private",
}


def surface_row(name: str) -> Row:
    """Look a dotted name up."""
    module, _, attribute = name.rpartition(".")
    try:
        found = hasattr(importlib.import_module(module), attribute)
    except ImportError:
        found = False
    return {"kind": "surface", "name": name, "standing": SURFACE[name], "found": "yes" if found else "no"}


def run(*, cases: Sequence[str] = tuple(MODELS), child_limit_s: float = 120.0) -> list[Row]:
    """Try everything and return the rows (columns: module docstring)."""
    rows = [
        level_row(backend, case, workload)
        for backend in (count_operators, numpy_forward, kitchen_numpy)
        for case in cases
        for workload in ("inference", "training")
    ]
    rows += graph_rows()
    rows += [partition_row(partitioner) for partitioner in PARTITIONERS]
    rows += shape_rows() + option_rows() + entry_rows(child_limit_s) + check_rows() + minified_rows(child_limit_s)
    rows += [surface_row(name) for name in SURFACE]
    package = {"package": "numpy", "package_version": version("numpy")}
    return [{"status": "ok", "note": None} | row | package for row in rows]


def main(arguments: Sequence[str]) -> None:
    """Print the rows, a table for each kind; with ``--entry`` do the part of the child process."""
    if arguments[:1] == ["--entry"]:
        entry_child()
        return
    kind = None
    for row in run():
        if row["kind"] != kind:
            kind = row["kind"]
            print(f"\n{kind}")
        left_out = ("kind", "package", "package_version", "status", "note", "language")
        print("  ".join(f"{name}={value}" for name, value in row.items() if name not in left_out and value is not None))


if __name__ == "__main__":
    main(sys.argv[1:])
