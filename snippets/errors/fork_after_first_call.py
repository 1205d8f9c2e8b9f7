# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 240
# value = 25
# ///
"""A forked process hangs in compiled code: its threads stayed in the parent.

The first parallel call starts the threads of OpenMP. fork copies the process without them, and GNU OpenMP in the copy
waits for threads that don't exist. Eager mode hangs in the same way. DataLoader workers and multiprocessing fork by
default on Linux up to Python 3.13. Fix: start the workers by spawn.


Columns
    step          "problem" or "fix"
    call          what was run
    happened      computed: "error": no answer in time; "fine"; "wrong"
    raised_at     when it showed
    error         the exception's class; "" if none came
    message       what it says, without the folders of this machine
    evidence      threads=, answers=: OpenMP threads of a process, answers that came
    status, note  "ok", ""
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from multiprocessing.context import BaseContext
from typing import Any

import torch

Row = dict[str, Any]
#: Large for the loop, but made of few numbers, so that making it starts no threads.
X = torch.linspace(-3, 3, 1 << 11).reshape(-1, 1).expand(-1, 1 << 10)
#: How long a worker has for what takes milliseconds (fork), and for starting anew and compiling (spawn).
PATIENCE_S = {"fork": 10, "spawn": 150}


def f(x: torch.Tensor) -> torch.Tensor:
    """Some work that becomes one parallel loop."""
    return torch.relu(torch.sin(x)) + 1


compiled = torch.compile(f)


def work(_: int) -> bool:
    """What a worker does: call the compiled function, compare."""
    return torch.allclose(compiled(X), f(X))


def problem() -> Row:
    """Call it here, then in a forked worker."""
    compiled(X)
    return in_worker("fork")


def fix() -> Row:
    """Call it here, then in a worker that starts anew."""
    compiled(X)
    return in_worker("spawn")


def in_worker(method: str) -> Row:
    """Call it in a pool of one worker; lose patience with a worker that hangs."""
    context: BaseContext = multiprocessing.get_context(method)
    with context.Pool(1) as pool:
        try:
            same = pool.map_async(work, [0]).get(PATIENCE_S[method])
        except multiprocessing.TimeoutError:
            answer = {"error": "TimeoutError", "evidence": f"threads={torch.get_num_threads()}, answers=0"}
            return {"happened": "error", "raised_at": "later call"} | answer
    happened = "fine" if same == [True] else "wrong"
    return {"happened": happened, "evidence": f"threads={torch.get_num_threads()}, answers={len(same)}"}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    call = 'compiled(x); multiprocessing.get_context("{}").Pool(1).map(work, [0])'
    with tempfile.TemporaryDirectory() as cache:
        return [
            row("problem", call.format("fork"), child("problem", cache)),
            row("fix", call.format("spawn"), child("fix", cache)),
        ]


# ---- from here on: fresh processes, one row for each ----------------------------------------------------------------


def child(function: str, cache: str) -> Row:
    """Run a function of this file in a fresh process with two threads at least; return what it saw."""
    done = subprocess.run(
        [sys.executable, __file__, function],
        env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache, "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=220,
    )
    if done.returncode:
        raise RuntimeError(f"{function} ended with {done.returncode}: {done.stderr[-2000:]}")
    seen: Row = json.loads(done.stdout.splitlines()[-1])
    return seen


def row(step: str, call: str, seen: Row, status: str = "ok", note: str = "") -> Row:
    """Put what a process saw into the columns."""
    whole = {"step": step, "call": call} | dict.fromkeys(("happened", "raised_at", "error", "message", "evidence"), "")
    return whole | seen | {"status": status, "note": note}


def main() -> None:
    """Run it and print what happened."""
    for one in run():
        print(f"{one['step']:8}{one['happened']:13}{one['call']}")
        print("".join(f"{'':21}{one[name]}\n" for name in ("message", "evidence", "note") if one[name]))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
    else:
        main()
