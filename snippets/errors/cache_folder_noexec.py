# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 240
# value = 25
# ///
"""The cache folder is on a file system that may hold files, but not run them (mounted noexec): the library won't load.

The compiler has done its work, the file is there, and loading it fails. Needs such a file system: the first that can be
written is taken (in a container often /dev/shm, on Ubuntu /run/lock); if there is none, one is mounted where that is
allowed (unshare). Fix: a folder on another file system.


Columns
    step          "problem" or "fix"
    call          what was run
    happened      computed: "error" or "fine"
    raised_at     when it showed
    error         the exception's class; "" if none came
    message       what it says, without the folders of this machine
    evidence      libraries=: kernel libraries that were built
    status, note  "ok", or "not measured" where no file system is mounted noexec
"""

from __future__ import annotations

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
MOUNT = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o noexec none "$0" && exec "$@"']


def f(x: torch.Tensor) -> torch.Tensor:
    """Some work that becomes one kernel."""
    return torch.relu(torch.sin(x)) + 1


def problem(folder: Path) -> Row:
    """Keep the cache where nothing may be run."""
    call = "TORCHINDUCTOR_CACHE_DIR=/dev/shm/inductor python serve.py  # mounted noexec"
    if place := mounted_noexec():
        with tempfile.TemporaryDirectory(dir=place) as cache:
            return row("problem", call, child("attempt", cache))
    if can_mount(folder):
        return row("problem", call, child("attempt", str(folder), [*MOUNT, str(folder)]))
    return row("problem", call, {}, "not measured", "no file system here is mounted noexec, and none may be mounted")


def fix(folder: Path) -> Row:
    """Keep it where libraries may be loaded from."""
    return row("fix", "TORCHINDUCTOR_CACHE_DIR=$HOME/.cache/inductor python serve.py", child("attempt", str(folder)))


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        return [problem(Path(one)), fix(Path(other))]


# ---- from here on: fresh processes, one row for each ----------------------------------------------------------------


def mounted_noexec() -> str:
    """Return a folder that can be written on a file system mounted noexec; "" if there is none."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return ""
    for _, place, kind, flags, *_ in mounts:
        if "noexec" in flags.split(",") and kind in ("tmpfs", "ext4", "xfs") and os.access(place, os.W_OK | os.X_OK):
            return place
    return ""


def can_mount(folder: Path) -> bool:
    """Try the mount with a command that does nothing."""
    try:
        return not subprocess.run([*MOUNT, str(folder), "true"], capture_output=True).returncode
    except OSError:
        return False


def child(function: str, cache: str, before: list[str] | None = None) -> Row:
    """Run a function of this file in a fresh process with this cache folder; return what it saw."""
    done = subprocess.run(
        [*(before or []), sys.executable, __file__, function],
        env=os.environ | NO_HEADER | {"TORCHINDUCTOR_CACHE_DIR": cache},
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
