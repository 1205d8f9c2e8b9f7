# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 240
# value = 25
# ///
"""A library in the cache folder is damaged, and every process that finds it there fails.

A crash, a full disk or an unfinished copy leaves a file cut short. Inductor looks files up by the hash of their
source, so it takes this one for its own. Here it is cut on purpose. Fix: delete the cache folder; it is made again.


Columns
    step          "problem" or "fix"
    call          what was run
    happened      computed: "error" or "fine"
    raised_at     when it showed
    error         the exception's class; "" if none came
    message       what it says, without the folders of this machine
    evidence      libraries=: kernel libraries in the cache folder
    status, note  "ok", ""
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]
X = torch.linspace(-3, 3, 1000)
NO_HEADER: dict[str, str] = {}


def f(x: torch.Tensor) -> torch.Tensor:
    """Some work that becomes one kernel."""
    return torch.relu(torch.sin(x)) + 1


def problem(cache: Path) -> Row:
    """Fill the cache, cut the library in it, start again."""
    child("attempt", TORCHINDUCTOR_CACHE_DIR=str(cache))
    for library in cache.rglob("*.main.so"):
        library.write_bytes(library.read_bytes()[:50])
    return row("problem", "python serve.py  # library cut short", child("attempt", TORCHINDUCTOR_CACHE_DIR=str(cache)))


def fix(cache: Path) -> Row:
    """Delete the folder and start again."""
    shutil.rmtree(cache)
    return row("fix", "rm -r $TORCHINDUCTOR_CACHE_DIR", child("attempt", TORCHINDUCTOR_CACHE_DIR=str(cache)))


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    with tempfile.TemporaryDirectory() as folder:
        return [problem(Path(folder) / "cache"), fix(Path(folder) / "cache")]


# ---- from here on: fresh processes, one row for each ----------------------------------------------------------------


def child(function: str, **environment: str) -> Row:
    """Run a function of this file in a fresh process, with a fresh cache folder; return what it saw."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, __file__, function],
            env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache} | NO_HEADER | environment,
            capture_output=True,
            text=True,
            timeout=200,
        )
    if done.returncode:
        raise RuntimeError(f"{function} ended with {done.returncode}: {done.stderr[-2000:]}")
    seen: Row = json.loads(done.stdout.splitlines()[-1])
    return seen


def attempt(backend: str = "inductor") -> Row:
    """Compile, call, compare with eager mode; say what happened and when."""
    moment = "torch.compile()"
    try:
        compiled = torch.compile(f, backend=backend)
        moment = "first call"
        same = torch.allclose(compiled(X), f(X))
    except Exception as error:
        return {
            "happened": "error",
            "raised_at": moment,
            "error": type(error).__name__,
            "message": shown(str(error)),
            "evidence": f"libraries={libraries()}",
        }
    return {"happened": "fine" if same else "wrong", "evidence": f"libraries={libraries()}"}


def libraries() -> int:
    """Count the libraries with kernels in the cache folder."""
    return len(list(Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).rglob("*.main.so")))


def shown(text: str) -> str:
    """Return the first lines of a message, without the compiler's command, without folders, with short file names."""
    text = re.sub(r"Command:.*?Output:\n", "", text.split("Set TORCHDYNAMO_VERBOSE")[0], flags=re.DOTALL)
    text = re.sub(r"(?<![\w.])/(?:[\w.+@-]+/)+", "…/", text)
    return re.sub(r"\bc[a-z2-7]{51}\b", "<hash>", text).strip()[:400]


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
