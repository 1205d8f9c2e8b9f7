# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""Two losses from one compiled function: the second backward finds nothing left.

Uncompiled, each output has its own chain of autograd nodes. Compiled, the whole region is one node, so the first
backward frees what the second one needs, though the two losses share no operator. The fix sums the losses, or hands
both to torch.autograd.backward. (retain_graph=True would run the whole backward twice.)

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

X = torch.linspace(-1, 1, 16)


def two_losses(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two scalars of x, shape (16,), with nothing in common but x."""
    return x.sin().pow(2).sum(), x.cos().pow(3).sum()


def problem(compiled: Callable[..., Any]) -> torch.Tensor:
    """One backward a loss."""
    x = X.clone().requires_grad_()
    first, second = compiled(x)
    first.backward()
    second.backward()
    return x.grad


def fix(compiled: Callable[..., Any]) -> torch.Tensor:
    """One backward for both."""
    x = X.clone().requires_grad_()
    first, second = compiled(x)
    (first + second).backward()
    return x.grad


def fix_at_the_engine(compiled: Callable[..., Any]) -> torch.Tensor:
    """The same where the losses can't be added, such as with different weights for each."""
    x = X.clone().requires_grad_()
    torch.autograd.backward(compiled(x))
    return x.grad


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
    wanted = problem(two_losses)

    def compiled() -> Callable[..., Any]:
        return torch.compile(two_losses)

    return [
        attempt("problem", "a, b = compiled(x); a.backward(); b.backward()", lambda: problem(compiled()), wanted),
        attempt("fix", "a, b = compiled(x); (a + b).backward()", lambda: fix(compiled()), wanted),
        attempt("fix", "torch.autograd.backward(compiled(x))", lambda: fix_at_the_engine(compiled()), wanted),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
