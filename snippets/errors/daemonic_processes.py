# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 240
# value = 25
# ///
"""In a worker of multiprocessing.Pool, Inductor's own workers could not start: a daemon may have no children.

Inductor compiles Triton kernels in processes of its own. By default it starts them as a separate program, which a
daemonic process may do. With TORCHINDUCTOR_WORKER_START=fork it forks them, and up to torch 2.12 that raised; from 2.13
on it compiles in the process itself. Without a GPU no Triton kernel is compiled, so the workers are started by hand.


Columns
    step          "problem" or "fix"
    call          what was run
    happened      computed: "error" or "fine"
    raised_at     when it showed
    error         the exception's class; "" if none came
    message       what it says, without the folders of this machine
    evidence      ""
    status, note  "ok", ""
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from typing import Any

import torch
from torch._inductor.async_compile import AsyncCompile

Row = dict[str, Any]
X = torch.linspace(-3, 3, 1024).reshape(32, 32)


def f(x: torch.Tensor) -> torch.Tensor:
    """Some work that needs no kernel of its own, so that it compiles quickly."""
    return x @ x @ x


def compile_in_worker(_: int) -> Row:
    """Start Inductor's workers, as it does before the first Triton kernel; compile, call, compare."""
    try:
        AsyncCompile.warm_pool()
        AsyncCompile.wait_pool_ready(60)
        same = torch.allclose(torch.compile(f)(X), f(X))
    except Exception as error:
        names = {"error": type(error).__name__, "message": str(error)[:400]}
        return {"happened": "error", "raised_at": "first call"} | names
    return {"happened": "fine" if same else "wrong"}


def in_pool() -> Row:
    """Compile in a daemonic process: a worker of a pool."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        seen: Row = pool.map(compile_in_worker, [0])[0]
    return seen


def problem() -> Row:
    """Inductor forks its workers."""
    return row("problem", "TORCHINDUCTOR_WORKER_START=fork python serve.py", child("in_pool", "fork"))


def fix() -> Row:
    """Inductor starts them as a program of their own, the default."""
    return row("fix", "TORCHINDUCTOR_WORKER_START=subprocess python serve.py", child("in_pool", "subprocess"))


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [problem(), fix()]


# ---- from here on: fresh processes, one row for each ----------------------------------------------------------------


def child(function: str, method: str) -> Row:
    """Run a function of this file in a fresh process; return what it saw."""
    workers = {"TORCHINDUCTOR_WORKER_START": method, "TORCHINDUCTOR_COMPILE_THREADS": "2"}
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, __file__, function],
            env=os.environ | workers | {"TORCHINDUCTOR_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            timeout=200,
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
