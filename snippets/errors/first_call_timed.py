# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""The first call was timed: it captures and compiles, and only then runs.

The first call is timed by the clock, once, for there is only one; the step by ``torch.utils.benchmark.Timer``, once
nothing compiles any more. Whether something was compiled while the clock ran is counted.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "costly" where a compile was inside what was timed
    raised_at          "first call" where something was compiled while the clock ran
    error, message     ""; the problem is silent
    evidence           graphs compiled while the clock ran; what was timed over a step
    status, note       "ok", ""
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch.utils.benchmark import Timer

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


def f(x: torch.Tensor) -> torch.Tensor:
    """Some pointwise operators."""
    return (x.sin() * x.cos()).relu() + 1


def graphs_so_far() -> int:
    """Graphs compiled since the counters were cleared."""
    return int(counters["stats"]["unique_graphs"])


def problem(compiled: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> tuple[float, int]:
    """Time one call, the first: seconds, and graphs compiled meanwhile."""
    before = graphs_so_far()
    start = time.perf_counter()
    compiled(x)
    return time.perf_counter() - start, graphs_so_far() - before


def fix(compiled: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> tuple[float, int]:
    """Call once, then time many calls: seconds a call, and graphs compiled meanwhile."""
    compiled(x)
    before = graphs_so_far()
    timer = Timer("f(x)", globals={"f": compiled, "x": x})
    return timer.blocked_autorange(min_run_time=0.2).median, graphs_so_far() - before


def judge(step: str, call: str, timed: Callable[..., tuple[float, int]]) -> Row:
    """Time freshly compiled f in one way; count what was compiled meanwhile; compare with a step."""
    torch._dynamo.reset()
    counters.clear()
    compiled, x = torch.compile(f), torch.randn(64, 64)
    seconds, graphs = timed(compiled, x)
    ratio = seconds / fix(compiled, x)[0]
    right = torch.allclose(compiled(x), f(x), atol=1e-6)
    happened = "wrong" if not right else "costly" if graphs and ratio > 10 else "fine"
    at = "first call" if graphs else ""
    return row(step, call, happened, raised_at=at, evidence=f"graphs={graphs}, timed/step={ratio:.2g}")


@torch.no_grad()
def run() -> list[Row]:
    """Time the first call, then a step after it."""
    torch.set_num_threads(1)  # as Timer does: another number of threads would be compiled for anew
    return [
        judge("problem", "t = perf_counter(); compiled(x); perf_counter() - t", problem),
        judge("fix", 'compiled(x); Timer("f(x)", globals={"f": compiled, "x": x}).blocked_autorange().median', fix),
    ]


def main() -> None:
    """Print the rows."""
    for made in run():
        print(f"{made['step']:9}{made['happened']:14}{made['call']}")
        for name in ("error", "message", "evidence", "note"):
            if made[name]:
                print(f"{'':9}{name}: {made[name]}")


if __name__ == "__main__":
    main()
