# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 240
# value = 25
# ///
"""No folder for temporary files: Inductor and the C++ compiler write there, wherever the cache folder is.

A container with a read-only root, or a full /tmp. Here the process may make no file outside one folder (Linux:
Landlock, which binds root too). To name a cache folder is not enough. Fix: TMPDIR on a volume that can be written.


Columns
    step          "problem" or "fix"
    call          what was run
    happened      computed: "error" or "fine"
    raised_at     when it showed
    error         the exception's class; "" if none came
    message       what it says, without the folders of this machine
    evidence      libraries=: kernel libraries that were built
    status, note  "ok", or "not measured" where the kernel has no Landlock
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]
X = torch.linspace(-3, 3, 1000)
#: A header made ready for many kernels does not pay for one.
NO_HEADER = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"}


def f(x: torch.Tensor) -> torch.Tensor:
    """Some work that becomes one kernel."""
    return torch.relu(torch.sin(x)) + 1


def problem(volume: Path) -> list[Row]:
    """A process that may write to its volume only, and does not know it; then with its cache folder there."""
    return [
        row("problem", "python serve.py  # docker run --read-only", child("attempt", volume)),
        row(
            "problem",
            "TORCHINDUCTOR_CACHE_DIR=/volume/cache python serve.py",
            child("attempt", volume, TORCHINDUCTOR_CACHE_DIR=str(volume / "cache")),
        ),
    ]


def fix(volume: Path) -> Row:
    """All temporary files go to the volume; the cache folder follows."""
    return row("fix", "TMPDIR=/volume python serve.py", child("attempt", volume, TMPDIR=str(volume)))


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    with tempfile.TemporaryDirectory() as volume:
        if not landlock_version():
            note = "this kernel has no Landlock to take the right to write away with"
            return [row("problem", "python serve.py  # docker run --read-only", {}, "not measured", note), fix_only()]
        return [*problem(Path(volume)), fix(Path(volume))]


def fix_only() -> Row:
    """Show that it works where the problem can't be provoked."""
    with tempfile.TemporaryDirectory() as volume:
        return row("fix", "TMPDIR=/volume python serve.py", child("attempt", None, TMPDIR=volume))


# ---- from here on: fresh processes that may write in one place only, one row for each -------------------------------

CREATE, ADD, RESTRICT = 444, 445, 446  # the system calls of Landlock
MAKE_FOLDER, MAKE_FILE = 1 << 7, 1 << 8
NO_NEW_PRIVILEGES = 38


def landlock_version() -> int:
    """Ask the kernel; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, ctypes.CDLL(None).syscall(CREATE, None, 0, 1))


def write_only_below(*places: Path) -> Callable[[], None]:
    """Return what a new process calls to lose the right to make files and folders anywhere else."""
    rights = MAKE_FOLDER | MAKE_FILE

    def restrict() -> None:
        libc = ctypes.CDLL(None)
        rules = libc.syscall(CREATE, struct.pack("Q", rights), 8, 0)
        for place in places:
            libc.syscall(ADD, rules, 1, struct.pack("=Qi", rights, os.open(place, os.O_PATH)), 0)
        libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        libc.syscall(RESTRICT, rules, 0)

    return restrict


def child(function: str, volume: Path | None, **environment: str) -> Row:
    """Run a function of this file in a fresh process that may write to the volume only; return what it saw."""
    names = ("TMPDIR", "TEMP", "TMP", "TORCHINDUCTOR_CACHE_DIR")
    done = subprocess.run(
        [sys.executable, __file__, function],
        env={name: value for name, value in os.environ.items() if name not in names} | NO_HEADER | environment,
        preexec_fn=write_only_below(volume) if volume else None,
        capture_output=True,
        text=True,
        timeout=200,
    )
    if done.returncode:
        raise RuntimeError(f"{function} ended with {done.returncode}: {done.stderr[-2000:]}")
    seen: Row = json.loads(done.stdout.splitlines()[-1])
    return seen


def attempt() -> Row:
    """Compile, call, compare with eager mode; say what happened and when."""
    moment = "torch.compile()"
    try:
        compiled = torch.compile(f)
        moment = "first call"
        same = torch.allclose(compiled(X), f(X))
    except Exception as error:
        names = {"error": type(error).__name__, "message": shown(str(error))}
        return {"happened": "error", "raised_at": moment} | names
    folder = Path(tempfile.gettempdir())
    libraries = len(list(folder.rglob("torchinductor_*/**/*.main.so")))
    return {"happened": "fine" if same else "wrong", "evidence": f"libraries={libraries}"}


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
