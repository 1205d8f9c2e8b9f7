"""The back end: graphs of core ATen operators, forward and backward, run by NumPy as far as its table goes."""

from __future__ import annotations

import difflib
import functools
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from functorch.compile import default_partition, make_boxed_func, min_cut_rematerialization_partition
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch.utils._pytree import tree_leaves, tree_map_only

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
