# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""The clock was read too early: after one warm-up call the function was still to be compiled for the next size.

The sizes come in turns, as the batches of a data set do. How many graphs were compiled while the clock ran is counted;
the step is timed by ``torch.utils.benchmark.Timer`` once a whole pass over the sizes compiles nothing.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "recompiled" where something was compiled while the clock ran
    raised_at          "later call" where something was compiled while the clock ran
    error, message     ""; the problem is silent
    evidence           calls of the warm-up; graphs compiled while the clock ran; the timed pass over a pass of steps
    status, note       "ok", ""
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch.utils.benchmark import Timer

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")

SIZES = (8, 16, 24)


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


def f(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension, and an addition."""
    return torch.softmax(x, -1) + 1


def graphs() -> int:
    """Graphs compiled so far."""
    return int(counters["stats"]["unique_graphs"])


def problem(compiled: Callable[[torch.Tensor], torch.Tensor], inputs: Sequence[torch.Tensor]) -> int:
    """Warm up with one call; return how many calls that were."""
    compiled(inputs[0])
    return 1


def fix(compiled: Callable[[torch.Tensor], torch.Tensor], inputs: Sequence[torch.Tensor], passes: int = 10) -> int:
    """Call with all inputs until a whole pass compiles nothing; return how many calls that were."""
    for done in range(1, passes + 1):
        before = graphs()
        for x in inputs:
            compiled(x)
        if graphs() == before:
            return done * len(inputs)
    raise RuntimeError(f"still compiling after {passes} passes")


def judge(step: str, call: str, warm_up: Callable[..., int]) -> Row:
    """Warm up in one way, time a pass, and count what was compiled in it."""
    torch._dynamo.reset()
    counters.clear()
    compiled, inputs = torch.compile(f), [torch.randn(n, 64) for n in SIZES]
    calls = warm_up(compiled, inputs)
    before, start = graphs(), time.perf_counter()
    results = [compiled(x) for x in inputs]
    seconds = time.perf_counter() - start
    compiles = graphs() - before
    fix(compiled, inputs)
    timer = Timer("for x in inputs: f(x)", globals={"f": compiled, "inputs": inputs})
    ratio = seconds / timer.blocked_autorange(min_run_time=0.2).median
    right = all(torch.allclose(y, f(x), atol=1e-6) for x, y in zip(inputs, results, strict=True))
    happened = "wrong" if not right else "recompiled" if compiles else "fine"
    return row(
        step,
        call,
        happened,
        raised_at="later call" if compiles else "",
        evidence=f"warmup_calls={calls}, graphs={compiles}, timed/step={ratio:.2g}",
    )


@torch.no_grad()
def run() -> list[Row]:
    """Time a pass over the sizes after one call, and after waiting until nothing compiles."""
    torch.set_num_threads(1)  # as Timer does: another number of threads would be compiled for anew
    timed = "t = perf_counter(); for x in inputs: compiled(x); perf_counter() - t"
    return [
        judge("problem", f"compiled(inputs[0]); {timed}", problem),
        judge("fix", f"until a pass compiles nothing: for x in inputs: compiled(x); {timed}", fix),
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
