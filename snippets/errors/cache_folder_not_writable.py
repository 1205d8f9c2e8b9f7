# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 240
# value = 25
# ///
"""Inductor can't write its cache folder: it belongs to somebody else, or there is a file in its place.

The folder is made read-only, and the process gives up the right of root to write all the same (Linux: the capability
CAP_DAC_OVERRIDE), so that root meets the error too. Fix: a folder of one's own.


Columns
    step          "problem" or "fix"
    call          what was run
    happened      computed: "error" or "fine"
    raised_at     when it showed
    error         the exception's class; "" if none came
    message       what it says, without the folders of this machine
    evidence      libraries=: kernel libraries that were built
    status, note  "ok", ""
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]
X = torch.linspace(-3, 3, 1000)
#: A header made ready for many kernels does not pay for one.
NO_HEADER = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"}
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


def f(x: torch.Tensor) -> torch.Tensor:
    """Some work that becomes one kernel."""
    return torch.relu(torch.sin(x)) + 1


def problem(folder: Path) -> list[Row]:
    """A folder that only another user may write; a file where the folder should be."""
    shared, file = folder / "shared", folder / "file"
    shared.mkdir(mode=0o555)
    file.touch()
    return [
        row("problem", "TORCHINDUCTOR_CACHE_DIR=/shared/cache python serve.py", child("attempt", shared / "cache")),
        row("problem", "TORCHINDUCTOR_CACHE_DIR=/a/file python serve.py", child("attempt", file)),
    ]


def fix(folder: Path) -> Row:
    """A folder that this user can write."""
    return row("fix", "TORCHINDUCTOR_CACHE_DIR=$HOME/.cache/inductor python serve.py", child("attempt", folder / "own"))


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    with tempfile.TemporaryDirectory() as folder:
        return [*problem(Path(folder)), fix(Path(folder))]


# ---- from here on: fresh processes, one row for each ----------------------------------------------------------------


def as_an_ordinary_user() -> None:
    """Give up root's right to write where the permissions forbid it; does nothing for other users."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def child(function: str, cache: Path) -> Row:
    """Run a function of this file in a fresh process with this cache folder; return what it saw."""
    done = subprocess.run(
        [sys.executable, __file__, function],
        env=os.environ | NO_HEADER | {"TORCHINDUCTOR_CACHE_DIR": str(cache)},
        preexec_fn=as_an_ordinary_user,
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
    """Return the first lines of a message, without the compiler's command and without folders."""
    text = re.sub(r"Command:.*?Output:\n", "", text.split("Set TORCHDYNAMO_VERBOSE")[0], flags=re.DOTALL)
    return re.sub(r"(?<![\w.])/(?:[\w.+@-]+/)+", "…/", text).strip()[:400]


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
