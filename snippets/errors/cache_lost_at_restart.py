# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 240
# value = 25
# ///
"""A container that starts again compiles everything again: the cache was in its /tmp and went with it.

Each start is a fresh process. By default the cache is in the temporary folder, and a new container has a new one. Fix:
TORCHINDUCTOR_CACHE_DIR on a volume that stays. Counted are graphs that Inductor found in its cache, and not found.


Columns
    step          "problem" or "fix"
    call          what was run
    happened      computed: "costly": compiled again; "fine": all found; "wrong"
    raised_at     when it showed
    error         the exception's class; "" if none came
    message       what it says, without the folders of this machine
    evidence      hits=, misses=: graphs found in Inductor's cache, and not found
    status, note  "ok", ""
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import torch
from torch._dynamo.utils import counters

Row = dict[str, Any]
X = torch.linspace(-3, 3, 1024).reshape(32, 32)


def f(x: torch.Tensor) -> torch.Tensor:
    """Some work that needs no kernel of its own, so that it compiles quickly."""
    return x @ x @ x


def problem() -> Row:
    """Start twice, each time with a new temporary folder."""
    container()
    return row("problem", "python serve.py  # second start, new /tmp", container())


def fix(volume: str) -> Row:
    """Start twice with new temporary folders, but with the cache on a volume."""
    container(TORCHINDUCTOR_CACHE_DIR=volume)
    call = "TORCHINDUCTOR_CACHE_DIR=/volume python serve.py  # second start, new /tmp"
    return row("fix", call, container(TORCHINDUCTOR_CACHE_DIR=volume))


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    with tempfile.TemporaryDirectory() as volume:
        return [problem(), fix(volume)]


# ---- from here on: fresh processes, one row for each ----------------------------------------------------------------


def container(**environment: str) -> Row:
    """A fresh process with a temporary folder that is gone afterwards."""
    old = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, __file__, "start"],
            env=old | {"TMPDIR": folder} | environment,
            capture_output=True,
            text=True,
            timeout=200,
        )
    if done.returncode:
        raise RuntimeError(f"the start ended with {done.returncode}: {done.stderr[-2000:]}")
    seen: Row = json.loads(done.stdout.splitlines()[-1])
    return seen


def start() -> Row:
    """What a process does when it starts: compile, call, compare; and what it found in the cache."""
    same = torch.allclose(torch.compile(f)(X), f(X))
    hits, misses = (counters["inductor"][f"fxgraph_cache_{name}"] for name in ("hit", "miss"))
    happened = "wrong" if not same else "fine" if hits and not misses else "costly"
    return {"happened": happened, "evidence": f"hits={hits}, misses={misses}"}


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
