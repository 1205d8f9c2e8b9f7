# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""Compiled training keeps more memory than eager: a recomputation written by hand is merged away.

An autograd.Function that saves only its inputs and computes the rest again in its backward is there to save memory.
Traced into one graph, forward and recomputation are equal expressions, so they become one, and its result is kept. The
fix writes the plain function and lets torch.utils.checkpoint, which the partitioner honours, or the memory budget
decide what is computed again.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "costly": more is kept than uncompiled; "wrong": another gradient; "fine": neither
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    saved_kib=: tensors kept from forward to backward, without inputs and weights;
                saved_kib_eager=: the same uncompiled
    status      "ok"
    note        ""
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

Row = dict[str, Any]

X = torch.linspace(-1, 1, 32 * 64).reshape(32, 64)
W1 = torch.linspace(-1, 1, 64 * 256).reshape(64, 256) / 8
W2 = torch.linspace(1, -1, 64 * 256).reshape(256, 64) / 8


class Lean(torch.autograd.Function):
    """sigmoid(x @ w1) @ w2, keeping nothing but its inputs."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
        """Shapes (n, 64), (64, 256), (256, 64)."""
        ctx.save_for_backward(x, w1, w2)
        return torch.sigmoid(x @ w1) @ w2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Compute the sigmoid a second time."""
        x, w1, w2 = ctx.saved_tensors
        a = torch.sigmoid(x @ w1)
        inner = (gradient @ w2.t()) * a * (1 - a)
        return inner @ w1.t(), x.t() @ inner, a.t() @ gradient


def problem(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """Memory saved by hand."""
    return Lean.apply(x, w1, w2)


def plain(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """The same function, said plainly."""
    return torch.sigmoid(x @ w1) @ w2


def fix(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """Say what is to be computed again, and leave the how to the partitioner."""
    return checkpoint(plain, x, w1, w2, use_reentrant=False)


def saved(function: Callable[..., torch.Tensor]) -> tuple[float, torch.Tensor]:
    """Run a step; KiB kept from forward to backward beside the inputs, and the gradient of w1."""
    torch._dynamo.reset()
    x, w1, w2 = X.clone(), W1.clone().requires_grad_(), W2.clone().requires_grad_()
    known = {t.untyped_storage().data_ptr() for t in (x, w1, w2)}
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        y = function(x, w1, w2)
    y.sum().backward()
    return sum(kept.values()) / 1024, w1.grad


def attempt(step: str, call: str, function: Callable[..., torch.Tensor], budget: float = 1.0) -> Row:
    """Compile, run a step, and compare what is kept with the lean function in eager mode."""
    row: Row = {"step": step, "call": call, "happened": "fine", "raised_at": "", "error": "", "message": ""}
    in_eager, wanted = saved(problem)
    with torch._functorch.config.patch(activation_memory_budget=budget):
        compiled, gradient = saved(torch.compile(function))
    if not torch.allclose(gradient, wanted, rtol=1e-4, atol=1e-5):
        row |= {"happened": "wrong", "raised_at": "backward"}
    elif compiled > in_eager:
        row |= {"happened": "costly", "raised_at": "first call"}
    return row | {"evidence": f"saved_kib={compiled:g}, saved_kib_eager={in_eager:g}", "status": "ok", "note": ""}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    budget = "torch._functorch.config.activation_memory_budget = 0; torch.compile(plain)(x, w1, w2)"
    return [
        attempt("problem", "torch.compile(Lean.apply)(x, w1, w2)", problem),
        attempt("fix", "torch.compile(lambda *t: checkpoint(plain, *t, use_reentrant=False))(x, w1, w2)", fix),
        attempt("fix", budget, plain, budget=0.0),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
