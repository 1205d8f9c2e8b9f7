# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""In float16 something overflows uncompiled and doesn't compiled: the model works only as long as it is compiled.

Inductor keeps what lies between fused operators in float32, where x * x of a few hundreds is no trouble. Eager rounds
it to float16, whose largest number is 65504, and gets inf. Neither raises. It shows when somebody runs the model
uncompiled, breaks the graph, or compiles it elsewhere. The fix is in the program: scale before you square.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "wrong": eager, compiled and float64 don't agree; "fine": they do
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    eager=, compiled=, float64=: the first value, computed in each way
    status      "ok"
    note        ""
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Row = dict[str, Any]
Function = Callable[[torch.Tensor], torch.Tensor]

X = torch.full((64,), 400.0).half()


def problem(x: torch.Tensor) -> torch.Tensor:
    """Square, then scale: 160000 does not fit into float16."""
    return x * x / 1000


def fix(x: torch.Tensor) -> torch.Tensor:
    """Scale, then square."""
    return x * (x / 1000)


def fix_in_float32(x: torch.Tensor) -> torch.Tensor:
    """Or say which steps need more than float16."""
    return (x.float() * x.float() / 1000).half()


def attempt(step: str, call: str, function: Function) -> Row:
    """Run it uncompiled, compiled and in float64; all three should agree."""
    torch._dynamo.reset()
    eager, compiled, truth = function(X), torch.compile(function)(X), problem(X.double())
    right = torch.allclose(eager.double(), truth, rtol=1e-2) and torch.allclose(compiled.double(), truth, rtol=1e-2)
    evidence = f"eager={eager[0]:g}, compiled={compiled[0]:g}, float64={truth[0]:g}"
    row: Row = {"step": step, "call": call, "happened": "fine" if right else "wrong"}
    row |= {"raised_at": "" if right else "first call", "error": "", "message": ""}
    return row | {"evidence": evidence, "status": "ok", "note": ""}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [
        attempt("problem", "torch.compile(lambda x: x * x / 1000)(x)  # float16, x = 400", problem),
        attempt("fix", "torch.compile(lambda x: x * (x / 1000))(x)", fix),
        attempt("fix", "torch.compile(lambda x: (x.float() * x.float() / 1000).half())(x)", fix_in_float32),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
