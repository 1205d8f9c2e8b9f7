# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""``torch.utils.benchmark.Timer`` runs with one thread unless told otherwise, and compiles anew for it.

The program has two threads here. The number of threads is one of Dynamo's guards, so what Timer times is not even the
graph that the program runs. No time is taken: threads and graphs are counted.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "wrong" where Timer has not the threads and the graph of the program
    raised_at          ""
    error, message     ""; the problem is silent
    evidence           threads inside Timer and in the program; graphs compiled for both
    status, note       "ok", ""
"""

from __future__ import annotations

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
    """What is to be timed."""
    return x.sin() + 1


def problem(statement: str, names: dict[str, Any]) -> None:
    """Time with Timer as it comes."""
    Timer(statement, globals=names).timeit(3)


def fix(statement: str, names: dict[str, Any]) -> None:
    """Time with as many threads as the program has."""
    Timer(statement, globals=names, num_threads=torch.get_num_threads()).timeit(3)


def judge(step: str, call: str, timed: Any) -> Row:
    """Call the compiled function in the program and then in Timer; compare threads and count graphs."""
    torch._dynamo.reset()
    counters.clear()
    compiled, x = torch.compile(f, backend="eager"), torch.randn(8)
    seen: list[int] = []
    right = torch.equal(compiled(x), f(x))
    timed(
        "compiled(x); seen.append(threads())",
        {"compiled": compiled, "x": x, "seen": seen, "threads": torch.get_num_threads},
    )
    inside, outside, graphs = seen[-1], torch.get_num_threads(), counters["stats"]["unique_graphs"]
    happened = "fine" if right and inside == outside and graphs == 1 else "wrong"
    return row(step, call, happened, evidence=f"timer_threads={inside}, program_threads={outside}, graphs={graphs}")


@torch.no_grad()
def run() -> list[Row]:
    """Use Timer without and with a number of threads, in a program that has two."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        return [
            judge("problem", 'Timer("compiled(x)", globals=globals()).timeit(3)', problem),
            judge("fix", 'Timer("compiled(x)", globals=globals(), num_threads=torch.get_num_threads()).timeit(3)', fix),
        ]
    finally:
        torch.set_num_threads(before)


def main() -> None:
    """Print the rows."""
    for made in run():
        print(f"{made['step']:9}{made['happened']:14}{made['call']}")
        for name in ("error", "message", "evidence", "note"):
            if made[name]:
                print(f"{'':9}{name}: {made[name]}")


if __name__ == "__main__":
    main()
