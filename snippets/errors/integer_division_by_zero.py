# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""An integer divided by zero takes the whole process down: no exception, no traceback.

Eager checks the divisor and raises RuntimeError: ZeroDivisionError. Inductor's generated C++ divides, and the processor
stops the process with SIGFPE. Newer versions of torch check more of the ways to divide; two are tried here, each in a
process of its own. The fix never divides by zero: it puts a one there and masks the result.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "error": it raised, or the process died; "wrong": not what eager gives; "fine": is
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    exit=: the process's return code, minus the signal's number if one ended it; zeros=: in the divisor
    status      "ok"
    note        ""
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]

A = torch.arange(1, 65)
B = A % 4


def problem(way: str) -> torch.Tensor:
    """Divide by a tensor that has zeros in it."""
    divide = {
        "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        "floor": lambda a, b: a // b,
    }[way]
    return torch.compile(divide)(A, B)


def fix(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Divide by one where the divisor is zero, and put a zero of your own there."""
    zero = b == 0
    return torch.where(zero, 0, torch.div(a, torch.where(zero, 1, b), rounding_mode="trunc"))


def in_a_process(way: str) -> subprocess.Popen[str]:
    """Start one way to divide; faulthandler has Python say what stopped it."""
    here = Path(__file__)
    code = f"import sys; sys.path.insert(0, {str(here.parent)!r}); import {here.stem} as m; m.problem({way!r})"
    command = [sys.executable, "-X", "faulthandler", "-c", code]
    return subprocess.Popen(command, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def outcome(call: str, process: subprocess.Popen[str]) -> Row:
    """What became of a process."""
    said = process.communicate(timeout=100)[1]
    row: Row = {"step": "problem", "call": call, "happened": "error", "raised_at": "first call"}
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        found = re.search(r"Fatal Python error: .*", said)
        row |= {"error": name, "message": found.group() if found else name}
    elif process.returncode:
        last = said.strip().splitlines()[-1]
        row |= {"error": last.partition(":")[0], "message": re.sub(r"[\w./+-]+/(?=\w+\.h\b)", "", last)[:500]}
    else:
        row |= {"happened": "wrong", "error": "", "message": ""}
    return row | {"evidence": f"exit={process.returncode}", "status": "ok", "note": ""}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    torch._dynamo.reset()
    calls = {
        "trunc": 'torch.compile(lambda a, b: torch.div(a, b, rounding_mode="trunc"))(a, b)',
        "floor": "torch.compile(lambda a, b: a // b)(a, b)",
    }
    # First, so that the processes find the precompiled header.
    right = torch.equal(torch.compile(fix)(A, B), fix(A, B))
    processes = {way: in_a_process(way) for way in calls}
    rows = [outcome(call, processes[way]) for way, call in calls.items()]
    call = 'torch.where(b == 0, 0, torch.div(a, torch.where(b == 0, 1, b), rounding_mode="trunc"))'
    row: Row = {"step": "fix", "call": call, "happened": "fine" if right else "wrong", "raised_at": "", "error": ""}
    return [*rows, row | {"message": "", "evidence": f"zeros={int((B == 0).sum())}", "status": "ok", "note": ""}]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
