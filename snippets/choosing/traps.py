# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 40
# ///
"""Choices that have no effect: parts under an outer torch.compile, built-in layers in place, the fast path.

Nothing is timed, and no code is generated: the back ends here count the graphs that they get and run them as they are.

Nested: a model of two parts, each compiled with a back end of its own, alone and under an outer ``torch.compile``. The
outer one takes in the whole and the inner ones never see a graph.

In place: ``layer.compile()`` on a layer of ``torch.nn`` itself. Dynamo leaves PyTorch's own frames alone, so nothing is
captured; ``torch.compile(layer)`` puts a frame of its own around it.

Fast path: in inference, nn.TransformerEncoderLayer is one operator (``aten._transformer_encoder_layer_fwd``); what is
one operator, no back end can fuse. ``torch.backends.mha.set_fastpath_enabled(False)`` takes it apart.

Columns
    case               "parts alone", "parts under an outer compile", "built-in in place", "built-in wrapped",
                       "fast path", "no fast path"
    written            the line that makes the difference
    status, note       "ok"
    device, threads    always "cpu"; CPU threads of torch
    inner_graphs       graphs that the back ends of the parts got; None for the fast path
    outer_graphs       graphs that the outer back end got; None for the fast path
    operators          operators that one call dispatches; None for the nested cases
    max_rel_error      largest absolute difference from the model not compiled (or from the fast path), over the largest
                       absolute value
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

Row = dict[str, Any]

WIDTH = 32


class Counter(TorchDispatchMode):
    """Counts the operators that PyTorch dispatches."""

    def __init__(self) -> None:
        super().__init__()
        self.operators = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count an operator and run it."""
        self.operators += 1
        return func(*args, **(kwargs or {}))


def counting(seen: list[int]) -> Callable[..., Any]:
    """Return a back end that notes each graph it gets, and runs it as it is."""

    def back_end(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        seen.append(len(graph.graph.nodes))
        return graph.forward

    return back_end


def difference(result: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return the largest absolute difference over the largest absolute value."""
    return float((result - wanted).abs().max() / wanted.abs().max())


class Part(nn.Module):
    """A linear layer and ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (n, WIDTH) in and out."""
        return self.linear(x).relu()


def built_in(*, in_place: bool) -> Row:
    """Compile a layer of torch.nn in place, or wrapped."""
    torch._dynamo.reset()
    layer, x, seen = nn.Linear(WIDTH, WIDTH).eval(), torch.randn(4, WIDTH), list[int]()
    wanted = copy.deepcopy(layer)(x)
    call: Callable[..., Any] = layer
    if in_place:
        layer.compile(backend=counting(seen))
    else:
        call = torch.compile(layer, backend=counting(seen))
    error = difference(call(x), wanted)
    return {"inner_graphs": len(seen), "outer_graphs": 0, "max_rel_error": error}


def nested(*, outer: bool) -> Row:
    """Compile the two parts with back ends of their own, and the whole where ``outer``."""
    torch._dynamo.reset()
    model = nn.Sequential(Part(), Part()).eval()
    x = torch.randn(4, WIDTH)
    wanted = copy.deepcopy(model)(x)
    inner_seen: list[int] = []
    outer_seen: list[int] = []
    for part in model:
        part.compile(backend=counting(inner_seen))
    call: Callable[..., Any] = torch.compile(model, backend=counting(outer_seen)) if outer else model
    error = difference(call(x), wanted)
    return {"inner_graphs": len(inner_seen), "outer_graphs": len(outer_seen), "max_rel_error": error}


def encoder(*, fast_path: bool) -> Row:
    """Count the operators of a call of an encoder layer."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True).eval()
    x = torch.randn(2, 8, WIDTH)
    wanted = layer(x)
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast_path)
    try:
        with Counter() as counter:
            result = layer(x)
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    return {"operators": counter.operators, "max_rel_error": difference(result, wanted)}


CASES: dict[str, tuple[Callable[[], Row], str]] = {
    "parts alone": (lambda: nested(outer=False), "part.compile(backend=mine); model(x)"),
    "parts under an outer compile": (
        lambda: nested(outer=True),
        "part.compile(backend=mine); torch.compile(model, backend=other)(x)",
    ),
    "built-in in place": (lambda: built_in(in_place=True), "nn.Linear(...).compile(backend=mine)"),
    "built-in wrapped": (lambda: built_in(in_place=False), "torch.compile(nn.Linear(...), backend=mine)"),
    "fast path": (lambda: encoder(fast_path=True), "layer.eval()(x)"),
    "no fast path": (
        lambda: encoder(fast_path=False),
        "torch.backends.mha.set_fastpath_enabled(False); layer.eval()(x)",
    ),
}


@torch.no_grad()
def run(*, cases: Sequence[str] = tuple(CASES), threads: int = 1) -> list[Row]:
    """Try the cases and return one row each (columns: module docstring); ``cases``: names in CASES."""
    torch.set_num_threads(threads)
    rows: list[Row] = []
    for case in cases:
        attempt, written = CASES[case]
        row: Row = {"case": case, "written": written, "status": "ok", "note": None, "device": "cpu", "threads": threads}
        row |= dict.fromkeys(("inner_graphs", "outer_graphs", "operators"))
        rows.append(row | attempt())
    return rows


def main(arguments: Sequence[str] = ()) -> None:
    """Try the cases and print what came of them."""
    for row in run():
        counts = {name: row[name] for name in ("inner_graphs", "outer_graphs", "operators") if row[name] is not None}
        print(f"{row['case']:30} {counts}")


if __name__ == "__main__":
    main()
