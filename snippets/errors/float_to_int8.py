# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""A float that doesn't fit becomes another int8 compiled than uncompiled.

Converting a float out of range has no defined result in C++, and none in PyTorch. Eager and Inductor do it by different
instructions: one wraps around, the other stops at the end of the range. Home-made quantisation meets this. The fix
clamps first, and then both agree.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "wrong": not what eager gives; "fine": as in eager
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    differing=: values that differ; x=, eager=, compiled=: the last of them
    status      "ok"
    note        ""
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Row = dict[str, Any]
Function = Callable[[torch.Tensor], torch.Tensor]

X = torch.linspace(-3, 3, 64)
SCALE = 0.01


def problem(x: torch.Tensor) -> torch.Tensor:
    """Quantise with a scale that is too small for some values."""
    return (x / SCALE).round().to(torch.int8)


def fix(x: torch.Tensor) -> torch.Tensor:
    """Clamp to what int8 can hold, and convert then."""
    return (x / SCALE).round().clamp(-128, 127).to(torch.int8)


def attempt(step: str, call: str, function: Function) -> Row:
    """Compare compiled with eager."""
    torch._dynamo.reset()
    wanted, got = function(X), torch.compile(function)(X)
    right = torch.equal(got, wanted)
    evidence = (
        f"differing={int((got != wanted).sum())}/{X.numel()}, x={X[-1]:g}, eager={wanted[-1]}, compiled={got[-1]}"
    )
    row: Row = {"step": step, "call": call, "happened": "fine" if right else "wrong"}
    row |= {"raised_at": "" if right else "first call", "error": "", "message": ""}
    return row | {"evidence": evidence, "status": "ok", "note": ""}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [
        attempt("problem", "torch.compile(lambda x: (x / 0.01).round().to(torch.int8))(x)", problem),
        attempt("fix", "torch.compile(lambda x: (x / 0.01).round().clamp(-128, 127).to(torch.int8))(x)", fix),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
