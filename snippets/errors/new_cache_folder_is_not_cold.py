# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 240
# value = 25
# ///
"""A measured "cold" compile is not cold: the precompiled C++ header is not in the cache folder, but below TMPDIR.

Inductor compiles the headers that all kernels include once, and keeps the result in the default cache folder, whatever
TORCHINDUCTOR_CACHE_DIR says. A new cache folder leaves it in place, and the compile comes out too short. Counted are
headers that were compiled. Fix: a new TMPDIR as well.


Columns
    step          "problem" or "fix"
    call          what was run
    happened      computed: "not compiled": something was left over; "fine"; "wrong"
    raised_at     when it showed
    error         the exception's class; "" if none came
    message       what it says, without the folders of this machine
    evidence      headers=, libraries=: headers and kernel libraries that this process compiled
    status, note  "ok", ""
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]
X = torch.linspace(-3, 3, 1000)


def f(x: torch.Tensor) -> torch.Tensor:
    """Some work that becomes one kernel."""
    return torch.relu(torch.sin(x)) + 1


def fix(folder: Path) -> Row:
    """A new cache folder and a new TMPDIR: everything is compiled."""
    call = "TORCHINDUCTOR_CACHE_DIR=/new TMPDIR=/new/tmp python bench.py"
    return row("fix", call, cold(folder / "one", folder))


def problem(folder: Path) -> Row:
    """Another new cache folder, with the TMPDIR of before."""
    return row("problem", "TORCHINDUCTOR_CACHE_DIR=/new python bench.py", cold(folder / "two", folder))


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    with tempfile.TemporaryDirectory() as folder:
        fixed = fix(Path(folder))  # comes first: it fills TMPDIR
        return [problem(Path(folder)), fixed]


# ---- from here on: fresh processes, one row for each ----------------------------------------------------------------


def headers(folder: Path) -> int:
    """Count the compiled headers of g++ and clang."""
    return sum(path.suffix in (".gch", ".pch") for path in folder.rglob("*"))


def cold(cache: Path, temporary: Path) -> Row:
    """Compile in a fresh process with these folders, and count what it had to compile."""
    before = headers(temporary)
    done = subprocess.run(
        [sys.executable, __file__, "compile_once"],
        env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(cache), "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    if done.returncode:
        raise RuntimeError(f"the compile ended with {done.returncode}: {done.stderr[-2000:]}")
    built = headers(temporary) - before
    libraries = len(list(cache.rglob("*.main.so")))
    same = json.loads(done.stdout.splitlines()[-1])
    happened = "wrong" if not same else "fine" if built and libraries else "not compiled"
    return {"happened": happened, "evidence": f"headers={built}, libraries={libraries}"}


def compile_once() -> bool:
    """Compile, call, compare with eager mode."""
    return torch.allclose(torch.compile(f)(X), f(X))


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
