# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""A tensor made under inference_mode can be used in training until the function around it is compiled.

Uncompiled, x.sin() * w saves x.sin(), a new and ordinary tensor. The compiled graph rather saves x itself and computes
the sine again in the backward; but x was made in inference mode, and such tensors can't be saved. The fix makes the
tensor under no_grad; a clone where it can't be changed.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "error": it raised; "wrong": the gradient is not eager's; "fine": it is
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    max_difference=: largest difference of the gradient from eager's
    status      "ok"
    note        ""
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]
Gradients = Callable[[], torch.Tensor]

W = torch.linspace(-1, 1, 8)


def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A scalar; w, shape (8,), is what is learned."""
    return (x.sin() * w).sum()


def problem(function: Callable[..., torch.Tensor]) -> torch.Tensor:
    """Features computed in advance, under inference_mode."""
    with torch.inference_mode():
        x = torch.arange(8.0)
    w = W.clone().requires_grad_()
    function(x, w).backward()
    return w.grad


def fix(function: Callable[..., torch.Tensor]) -> torch.Tensor:
    """no_grad saves no graph either, and its tensors are ordinary ones."""
    with torch.no_grad():
        x = torch.arange(8.0)
    w = W.clone().requires_grad_()
    function(x, w).backward()
    return w.grad


def fix_by_copy(function: Callable[..., torch.Tensor]) -> torch.Tensor:
    """A copy made outside of inference_mode is ordinary."""
    with torch.inference_mode():
        x = torch.arange(8.0)
    w = W.clone().requires_grad_()
    function(x.clone(), w).backward()
    return w.grad


def when(error: Exception) -> str:
    """Tell which of your calls raised: a backward, or the call of the compiled function."""
    inside = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    theirs = (path for path in inside if "torch" in path.parts and path.name != Path(__file__).name)
    entered = next(theirs, inside[-1])
    return "backward" if entered.name == "_tensor.py" or "autograd" in entered.parts else "first call"


def attempt(step: str, call: str, gradient: Gradients, wanted: torch.Tensor) -> Row:
    """Compute a gradient in one way, and compare it with eager's."""
    torch._dynamo.reset()
    row: Row = {"step": step, "call": call, "happened": "fine", "raised_at": "", "error": "", "message": ""}
    row |= {"evidence": "", "status": "ok", "note": ""}
    try:
        difference = float((gradient() - wanted).abs().max())
    except Exception as error:
        text = re.sub(r"[\w./+-]+/(?=\w+\.py\b)", "", str(error))
        return row | {
            "happened": "error",
            "raised_at": when(error),
            "error": type(error).__name__,
            "message": text[:500],
        }
    row["happened"] = "fine" if difference <= 1e-5 else "wrong"
    return row | {"evidence": f"max_difference={difference:.1e}"}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    wanted = problem(f)
    return [
        attempt(
            "problem",
            "with torch.inference_mode(): x = features(); torch.compile(f)(x, w)",
            lambda: problem(torch.compile(f)),
            wanted,
        ),
        attempt(
            "fix", "with torch.no_grad(): x = features(); torch.compile(f)(x, w)", lambda: fix(torch.compile(f)), wanted
        ),
        attempt("fix", "torch.compile(f)(x.clone(), w)", lambda: fix_by_copy(torch.compile(f)), wanted),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
