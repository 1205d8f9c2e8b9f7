# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""Floats divided by // are one off when compiled: 1.0 // 0.1 is 9 uncompiled and 10 compiled.

0.1 is a little more than a tenth, so nine whole ones fit into 1.0: Python and eager say so. Inductor divides first, the
quotient rounds up to 10, and the floor comes too late. Bins and indices made this way shift by one. The fixes say what
is meant: divide and take the floor (the same in both), or compare with the edges of the bins.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "wrong": not what eager gives; "fine": as in eager
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    differing=: values that differ; x=, eager=, compiled=: one of them, 1.0
    status      "ok"
    note        ""
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Row = dict[str, Any]
Function = Callable[[torch.Tensor], torch.Tensor]

X = torch.arange(0, 200) / 10
EDGES = torch.arange(0, 201) / 10


def problem(x: torch.Tensor) -> torch.Tensor:
    """The number of the bin, bins 0.1 wide."""
    return x // 0.1


def fix(x: torch.Tensor) -> torch.Tensor:
    """Divide, round, floor: in this order, compiled or not."""
    return torch.floor(x / 0.1)


def fix_by_edges(x: torch.Tensor) -> torch.Tensor:
    """Compare with the edges: no division, so no rounding."""
    return torch.bucketize(x, EDGES, right=True) - 1


def attempt(step: str, call: str, function: Function) -> Row:
    """Compare compiled with eager."""
    torch._dynamo.reset()
    wanted, got = function(X), torch.compile(function)(X)
    right = torch.equal(got, wanted)
    evidence = (
        f"differing={int((got != wanted).sum())}/{X.numel()}, x={X[10]:g}, eager={wanted[10]:g}, compiled={got[10]:g}"
    )
    row: Row = {"step": step, "call": call, "happened": "fine" if right else "wrong"}
    row |= {"raised_at": "" if right else "first call", "error": "", "message": ""}
    return row | {"evidence": evidence, "status": "ok", "note": ""}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [
        attempt("problem", "torch.compile(lambda x: x // 0.1)(x)", problem),
        attempt("fix", "torch.compile(lambda x: torch.floor(x / 0.1))(x)", fix),
        attempt("fix", "torch.compile(lambda x: torch.bucketize(x, edges, right=True) - 1)(x)", fix_by_edges),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
