# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 240
# value = 25
# ///
"""A compiler is there, but not the headers of Python: the library can't be built, for it includes Python.h.

The headers are taken away by a wrapper in the compiler's place, which leaves out the one -I that points to them.
Fix: install them (python3-dev, python3-devel), here: let the compiler find them.


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

import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]
X = torch.linspace(-3, 3, 1000)
#: A header made ready for many kernels does not pay for one.
NO_HEADER = {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"}

WITHOUT_HEADERS = """#!/bin/sh
for flag in "$@"; do
  shift
  [ "$flag" = "-I{headers}" ] || set -- "$@" "$flag"
done
exec {compiler} "$@"
"""


def f(x: torch.Tensor) -> torch.Tensor:
    """Some work that becomes one kernel."""
    return torch.relu(torch.sin(x)) + 1


def problem(compiler: str, folder: Path) -> Row:
    """Compile with a g++ that does not see Python's headers."""
    wrapper = folder / "g++"
    wrapper.write_text(WITHOUT_HEADERS.format(headers=sysconfig.get_paths()["include"], compiler=compiler))
    wrapper.chmod(0o755)
    return row("problem", "python serve.py  # without python3-dev", child("attempt", CXX=str(wrapper)))


def fix(compiler: str) -> Row:
    """Compile with the headers in their place."""
    return row("fix", "python serve.py  # with python3-dev", child("attempt", CXX=compiler))


def run(*, compiler: str = os.environ.get("CXX", "g++")) -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    with tempfile.TemporaryDirectory() as folder:
        return [problem(compiler, Path(folder)), fix(compiler)]


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
