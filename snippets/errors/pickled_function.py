# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
""" "it's not the same object as": a compiled function cannot be sent to another process under a second name.

pickle sends a function by name. The compiled one carries the name of the original, and under that name stands the
original. A worker that is started by spawn, as on Windows and macOS, gets its function by pickle.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    what came of it, computed: "fine" is only a result that equals eager mode's
    raised_at   when it showed
    error       the exception's class
    message     what a user sees
    evidence    what was counted or computed
    status      "ok"
    note        ""
"""

from __future__ import annotations

import json
import multiprocessing
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
import torch._dynamo.utils

Row = dict[str, Any]


def row(
    step: str, call: str, happened: str, raised_at: str = "", error: str = "", message: str = "", evidence: str = ""
) -> Row:
    """One row of the table."""
    return {
        "step": step,
        "call": call,
        "happened": happened,
        "raised_at": raised_at,
        "error": error,
        "message": message,
        "evidence": evidence,
        "status": "ok",
        "note": "",
    }


def tidy(error: object) -> str:
    """The first lines of a message, without addresses and folders of this machine."""
    text = re.sub(r" at 0x[0-9a-f]+", "", str(error).partition("\n\n")[0])
    text = re.sub(r"(?:/[\w.+-]+)+/(?=[\w.+-])", "", text)
    return text if len(text) <= 500 else text[:500] + " …"


def double(x: torch.Tensor) -> torch.Tensor:
    """What the worker has to compute."""
    return torch.relu(x) * 2


@torch.compile(backend="eager")
def decorated(x: torch.Tensor) -> torch.Tensor:
    """Compiled under its own name: pickle finds it."""
    return torch.relu(x) * 2


def work(function: Callable[[torch.Tensor], torch.Tensor]) -> tuple[list[float], int]:
    """In the worker: compute, and say how many graphs this process has compiled."""
    torch._dynamo.utils.counters.clear()
    result = function(torch.ones(4))
    return result.tolist(), torch._dynamo.utils.counters["stats"]["unique_graphs"]


def compile_and_work(function: Callable[[torch.Tensor], torch.Tensor]) -> tuple[list[float], int]:
    """In the worker: compile first."""
    return work(torch.compile(function, backend="eager"))


def problem(workers: ProcessPoolExecutor) -> tuple[list[float], int]:
    """A second name for the compiled function."""
    fast = torch.compile(double, backend="eager")
    return workers.submit(work, fast).result()


def fix_in_the_worker(workers: ProcessPoolExecutor) -> tuple[list[float], int]:
    """Send the original, compile where it runs."""
    return workers.submit(compile_and_work, double).result()


def fix_with_the_decorator(workers: ProcessPoolExecutor) -> tuple[list[float], int]:
    """Or let the compiled function have the name."""
    return workers.submit(work, decorated).result()


def sent(
    step: str, call: str, send: Callable[[ProcessPoolExecutor], tuple[list[float], int]], workers: ProcessPoolExecutor
) -> Row:
    """Send a function to a worker: the error, or whether the result equals eager mode's and was compiled there."""
    try:
        result, graphs = send(workers)
    except Exception as error:
        return row(step, call, "error", "save", type(error).__name__, tidy(error))
    equal = result == double(torch.ones(4)).tolist()
    happened = "wrong" if not equal else "fine" if graphs else "not compiled"
    return row(step, call, happened, evidence=f"graphs={graphs}, equal_to_eager={equal}")


def rows() -> list[Row]:
    """In a process of its own, whose file the worker can import."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as workers:
        return [
            sent("problem", "fast = torch.compile(double); workers.submit(work, fast).result()", problem, workers),
            sent("fix", "workers.submit(compile_and_work, double).result()", fix_in_the_worker, workers),
            sent("fix", "workers.submit(work, decorated).result()", fix_with_the_decorator, workers),
        ]


def run() -> list[Row]:
    """Rows: a compiled function as the worker's argument, then two ways that work."""
    child = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--rows"], capture_output=True, text=True, timeout=100, check=False
    )
    if child.returncode:
        raise RuntimeError(f"The child process failed: {child.stderr[-300:]}")
    answer: list[Row] = json.loads(child.stdout.splitlines()[-1])
    return answer


if __name__ == "__main__":
    if sys.argv[1:] == ["--rows"]:
        print(json.dumps(rows()))
        sys.exit()
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
