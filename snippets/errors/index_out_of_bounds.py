# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""An index that is too large: compiled, the message names a variable of the generated code.

The index is wrong in eager too, and there the message says which and where. In Inductor's kernel the check compares a
temporary with the size, and raises another class of exception, so that `except IndexError` misses it. Run the failing
call uncompiled to read the good message; the fix is in the data, or in the size of the table.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "error": it raised; "wrong": not what eager gives; "fine": as in eager
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    rows=: size of the table; largest_id=: in the input
    status      "ok"
    note        ""
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Row = dict[str, Any]

IDS = torch.tensor([1, 5, 100])


def problem(size: int = 100) -> nn.Embedding:
    """A table with rows 0 to 99, and an id of 100."""
    return nn.Embedding(size, 4)


def fix() -> nn.Embedding:
    """A table that holds the largest id."""
    return problem(int(IDS.max()) + 1)


def attempt(step: str, call: str, table: nn.Embedding, wrap: Callable[..., Any]) -> Row:
    """Look the ids up."""
    torch._dynamo.reset()
    row: Row = {"step": step, "call": call, "happened": "fine", "raised_at": "", "error": "", "message": ""}
    row |= {"evidence": "", "status": "ok", "note": ""}
    try:
        got = wrap(lambda ids: table(ids) * 2)(IDS)
    except Exception as error:
        text = re.sub(r"\S+\.cpp", "kernel.cpp", str(error))
        return row | {
            "happened": "error",
            "raised_at": "first call",
            "error": type(error).__name__,
            "message": text[:500],
        }
    right = torch.equal(got, table.weight[IDS] * 2)
    return row | {
        "happened": "fine" if right else "wrong",
        "evidence": f"rows={table.num_embeddings}, largest_id={int(IDS.max())}",
    }


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [
        attempt("problem", "torch.compile(nn.Embedding(100, 4))(ids)  # largest id: 100", problem(), torch.compile),
        attempt("problem", "nn.Embedding(100, 4)(ids)  # uncompiled", problem(), lambda function: function),
        attempt("fix", "torch.compile(nn.Embedding(101, 4))(ids)", fix(), torch.compile),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
