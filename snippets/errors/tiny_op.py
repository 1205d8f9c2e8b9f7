# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""A tiny operator is slower compiled: guards and wrapper are paid at every call, and 64 numbers don't pay that back.

The same addition, STEPS times: compiled by itself and called in a loop, and the whole loop compiled. Both sides are
timed in turns by ``torch.utils.benchmark.Timer``; a ratio is compiled over plain, the median of ROUNDS with quartiles.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "costly" where compiled is slower
    raised_at          ""
    error, message     ""; the problem is silent
    evidence           compiled over plain: median (lower quartile–upper quartile); compiled calls in one loop
    status, note       "ok", ""
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.benchmark import Timer

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")

STEPS, ROUNDS, CALLS = 100, 9, 20


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


def add_one(x: torch.Tensor) -> torch.Tensor:
    """One addition."""
    return x + 1


def problem(backend: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Compile the tiny operator by itself and call it in a loop."""
    compiled = torch.compile(add_one, backend=backend)

    def loop(x: torch.Tensor) -> torch.Tensor:
        for _ in range(STEPS):
            x = compiled(x)
        return x

    return loop


def plain_loop(x: torch.Tensor) -> torch.Tensor:
    """The loop, not compiled."""
    for _ in range(STEPS):
        x = add_one(x)
    return x


def fix() -> Callable[[torch.Tensor], torch.Tensor]:
    """Compile the loop as one region: its operators become one kernel, called once."""
    return torch.compile(plain_loop)


def ratios(compiled: Callable[..., Any], x: torch.Tensor) -> tuple[float, float, float]:
    """Compiled over plain: the lower quartile, the median and the upper quartile of ROUNDS in turns."""
    compiled(x)
    timers = [Timer("f(x)", globals={"f": f, "x": x}) for f in (compiled, plain_loop)]
    found = []
    for _ in range(ROUNDS):
        ours, theirs = (timer.timeit(CALLS).median for timer in timers)
        found.append(ours / theirs)
    low, middle, high = statistics.quantiles(found, n=4)
    return low, middle, high


def judge(step: str, call: str, loop: Callable[..., Any], x: torch.Tensor) -> Row:
    """Time one way against the plain loop and compare its result."""
    low, middle, high = ratios(loop, x)
    right = torch.equal(loop(x), plain_loop(x))
    happened = "wrong" if not right else "costly" if middle > 1 else "fine"
    return row(step, call, happened, evidence=f"compiled/plain={middle:.2g} ({low:.2g}–{high:.2g}), calls={STEPS}")


@torch.no_grad()
def run() -> list[Row]:
    """Loop over the compiled operator with two back ends, then compile the loop."""
    torch.set_num_threads(1)
    x, rows = torch.zeros(8, 8), []
    for backend in ("inductor", "eager"):
        torch._dynamo.reset()
        call = f'g = torch.compile(lambda x: x + 1, backend="{backend}"); for _ in range({STEPS}): x = g(x)'
        rows.append(judge("problem", call, problem(backend), x))
    torch._dynamo.reset()
    return [*rows, judge("fix", "torch.compile(loop)(x)", fix(), x)]


def main() -> None:
    """Print the rows."""
    for made in run():
        print(f"{made['step']:9}{made['happened']:14}{made['call']}")
        for name in ("error", "message", "evidence", "note"):
            if made[name]:
                print(f"{'':9}{name}: {made[name]}")


if __name__ == "__main__":
    main()
