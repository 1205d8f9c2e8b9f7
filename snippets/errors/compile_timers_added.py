# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""The compile timers of torch were added up: they are nested, and an inner one is inside its outer ones.

``torch._dynamo.utils.compile_times`` lists how long each part of compiling took. The first call is timed by the clock
beside it.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "wrong" where the timers tell more than the first call took
    raised_at          ""
    error, message     ""; the problem is silent
    evidence           timers there are; what they tell over the time of the first call
    status, note       "ok", ""
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch._dynamo.utils import compilation_time_metrics, compile_times

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


def f(x: torch.Tensor) -> torch.Tensor:
    """Some pointwise operators."""
    return (x.sin() * x.cos()).relu() + 1


def timers() -> dict[str, float]:
    """The compile timers by name (seconds)."""
    names, values = compile_times(repr="csv", aggregate=True)
    return dict(zip(names, map(float, values), strict=True))


def problem() -> float:
    """Add all timers up (seconds)."""
    return sum(timers().values())


def fix() -> float:
    """Read the outermost timer, which holds all others (seconds)."""
    return timers()["_compile.compile_inner"]


@torch.no_grad()
def run() -> list[Row]:
    """Compile once, and read the timers in both ways."""
    x = torch.randn(64, 64)
    torch.compile(torch.sin)(x)  # what a process pays once stays out of it
    torch._dynamo.reset()
    compilation_time_metrics.clear()
    compiled = torch.compile(f)
    start = time.perf_counter()
    y = compiled(x)
    wall = time.perf_counter() - start
    right = torch.allclose(y, f(x), atol=1e-6)
    rows = []
    for step, call, seconds in (
        ("problem", 'sum(map(float, compile_times(repr="csv", aggregate=True)[1]))', problem()),
        ("fix", 'dict(zip(*compile_times(repr="csv", aggregate=True)))["_compile.compile_inner"]', fix()),
    ):
        ratio = seconds / wall
        happened = "fine" if right and 0.2 < ratio <= 1.05 else "wrong"
        rows.append(row(step, call, happened, evidence=f"timers={len(timers())}, told/first_call={ratio:.2g}"))
    return rows


def main() -> None:
    """Print the rows."""
    for made in run():
        print(f"{made['step']:9}{made['happened']:14}{made['call']}")
        for name in ("error", "message", "evidence", "note"):
            if made[name]:
                print(f"{'':9}{name}: {made[name]}")


if __name__ == "__main__":
    main()
