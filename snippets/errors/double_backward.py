# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""The gradient of a gradient fails where a compiled function is differentiated twice.

AOTAutograd traces one backward graph, and that graph has no derivative of its own. Whoever differentiates the result of
autograd.grad(create_graph=True) again meets it: gradient penalties, Hessians, forces learned from energies. The fix
takes the inner gradient inside the compiled function, with torch.func.grad, so that one graph holds both.

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


def energy(x: torch.Tensor) -> torch.Tensor:
    """A scalar function of x, shape (16,)."""
    return (x.sin() ** 2).sum()


def problem(backend: str) -> torch.Tensor:
    """Differentiate a compiled function, and then its gradient: gradient of a penalty on the slope."""
    x = X.clone().requires_grad_()
    compiled = torch.compile(energy, backend=backend)
    (slope,) = torch.autograd.grad(compiled(x), x, create_graph=True)
    slope.pow(2).sum().backward()
    return x.grad


def fix() -> torch.Tensor:
    """Take the inner gradient inside: one graph, one backward."""

    def penalty(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(energy)(x).pow(2).sum()

    x = X.clone().requires_grad_()
    torch.compile(penalty, fullgraph=True)(x).backward()
    return x.grad


def in_eager() -> torch.Tensor:
    """The same without compiling."""
    x = X.clone().requires_grad_()
    (slope,) = torch.autograd.grad(energy(x), x, create_graph=True)
    slope.pow(2).sum().backward()
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
    wanted = in_eager()
    line = "autograd.grad(torch.compile(f{})(x), x, create_graph=True)[0].pow(2).sum().backward()"
    return [
        attempt("problem", line.format(""), lambda: problem("inductor"), wanted),
        attempt("problem", line.format(', backend="aot_eager"'), lambda: problem("aot_eager"), wanted),
        attempt("fix", "torch.compile(lambda x: torch.func.grad(f)(x).pow(2).sum())(x).backward()", fix, wanted),
        attempt("fix", line.format(', backend="eager"'), lambda: problem("eager"), wanted),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
