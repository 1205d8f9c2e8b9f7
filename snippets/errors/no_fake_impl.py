# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""A custom operator without a fake kernel can't be traced.

While it traces, Dynamo runs the code with fake tensors, which have a shape and no values. Of an operator of your own it
must be told what comes out: shape, dtype, device, strides. The fix registers that; the kernel itself stays as it is.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "error": it raised; "wrong": not what eager gives; "fine": as in eager
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    max_difference=: largest difference from eager
    status      "ok"
    note        ""
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

Row = dict[str, Any]

X = torch.linspace(-1, 1, 8)


def problem(name: str) -> Any:
    """An operator with a kernel, and nothing that tells its shape."""

    @torch.library.custom_op(name, mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    return double


def fix(name: str) -> Any:
    """The same operator, and what its output looks like."""
    double = problem(name)

    @double.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    return double


def attempt(step: str, call: str, double: Callable[..., torch.Tensor]) -> Row:
    """Compile a function that calls the operator."""
    torch._dynamo.reset()
    row: Row = {"step": step, "call": call, "happened": "fine", "raised_at": "", "error": "", "message": ""}
    row |= {"evidence": "", "status": "ok", "note": ""}
    try:
        result = torch.compile(lambda x: double(x) + 1)(X)
    except Exception as error:
        found = re.search(r"There was no fake impl.*?impl\.", str(error), re.DOTALL)
        text = found.group() if found else str(error)[:500]
        return row | {"happened": "error", "raised_at": "first call", "error": type(error).__name__, "message": text}
    difference = float((result - (X * 2 + 1)).abs().max())
    row |= {"evidence": f"max_difference={difference:.1e}"}
    return row | ({} if difference == 0 else {"happened": "wrong", "raised_at": "first call"})


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [
        attempt("problem", "torch.compile(lambda x: double(x) + 1)(x)", problem("kitchen_no_fake::double")),
        attempt("fix", "double.register_fake(torch.empty_like)", fix("kitchen_with_fake::double")),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
