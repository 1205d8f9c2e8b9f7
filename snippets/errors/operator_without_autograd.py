# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""A custom operator without a derivative: eager warns at the backward, compiled raises, or the gradient is gone.

An operator registered by torch.library.custom_op without register_autograd fails in both, compiled already at the first
call. One made with Library.define and a kernel for the CPU alone is worse: eager differentiates what the kernel did
inside, with a warning; in a compiled graph it is one box, and no gradient goes through. The fix registers a derivative.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "error": it raised; "wrong": another gradient than the true one; "fine": the true one
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    max_difference=: largest difference of the gradient from the true one
    status      "ok"
    note        ""
"""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]

X = torch.linspace(-1, 1, 8)
OLD = torch.library.Library("kitchen_old", "DEF")
OLD.define("double(Tensor x) -> Tensor")
OLD.impl("double", lambda x: x * 2, "CPU")
torch.library.register_fake("kitchen_old::double", torch.empty_like, lib=OLD)


def problem() -> Callable[..., torch.Tensor]:
    """An operator with a kernel and a fake kernel."""

    @torch.library.custom_op("kitchen_no_autograd::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    double.register_fake(torch.empty_like)
    return double


def fix() -> Callable[..., torch.Tensor]:
    """The same, and its derivative."""

    @torch.library.custom_op("kitchen_with_autograd::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    double.register_fake(torch.empty_like)
    double.register_autograd(lambda ctx, gradient: gradient * 2)
    return double


def gradient_through(double: Callable[..., torch.Tensor]) -> torch.Tensor:
    """The gradient of a compiled function that calls the operator; zero where none arrives."""
    x = X.clone().requires_grad_()
    compiled = torch.compile(lambda x: (double(x) * x.detach()).sum() + x.sum(), backend="aot_eager")
    compiled(x).backward()
    return x.grad


def when(error: Exception) -> str:
    """Tell which of your calls raised: a backward, or the call of the compiled function."""
    inside = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    theirs = (path for path in inside if "torch" in path.parts and path.name != Path(__file__).name)
    entered = next(theirs, inside[-1])
    return "backward" if entered.name == "_tensor.py" or "autograd" in entered.parts else "first call"


def attempt(step: str, call: str, double: Callable[..., torch.Tensor]) -> Row:
    """Compile a function that calls the operator, and compare its gradient with the true one."""
    torch._dynamo.reset()
    row: Row = {"step": step, "call": call, "happened": "fine", "raised_at": "", "error": "", "message": ""}
    row |= {"evidence": "", "status": "ok", "note": ""}
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            gradient = gradient_through(double)
    except Exception as error:
        found = re.search(r"Trying to backward through .*?\. Please use \w+ to add one\.", str(error))
        text = found.group() if found else str(error)[:500]
        return row | {"happened": "error", "raised_at": when(error), "error": type(error).__name__, "message": text}
    difference = float((gradient - (2 * X + 1)).abs().max())
    said = [str(warning.message) for warning in caught if "autograd kernel" in str(warning.message)]
    row |= {"message": said[0][:500] if said else "", "evidence": f"max_difference={difference:.1e}"}
    return row | ({} if difference == 0 else {"happened": "wrong", "raised_at": "backward"})


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    old = 'torch.library.Library("kitchen_old", "DEF").impl("double", kernel, "CPU")'
    return [
        attempt("problem", "torch.library.custom_op(...)  # no register_autograd", problem()),
        attempt("problem", old, torch.ops.kitchen_old.double),
        attempt("fix", "double.register_autograd(lambda ctx, gradient: gradient * 2)", fix()),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
