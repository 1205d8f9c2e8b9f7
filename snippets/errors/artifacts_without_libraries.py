# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 240
# value = 25
# ///
"""Loaded cache artifacts, and the C++ compiler runs all the same: the artifacts hold graphs and sources, no libraries.

torch.compiler.save_cache_artifacts() packs what Inductor found out into one file for other machines. On a CPU the
kernel libraries are not in it, so each machine builds them, and needs a compiler. Counted are libraries that a start
builds. Fix, between machines of one kind: carry the cache folder.


Columns
    step          "problem" or "fix"
    call          what was run
    happened      computed: "costly": something was built again; "fine"; "wrong"
    raised_at     when it showed
    error         the exception's class; "" if none came
    message       what it says, without the folders of this machine
    evidence      hits=, libraries=: graphs found in the cache, kernel libraries that this process built
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
from torch._dynamo.utils import counters

Row = dict[str, Any]
X = torch.linspace(-3, 3, 1000)


def f(x: torch.Tensor) -> torch.Tensor:
    """Some work that becomes one kernel."""
    return torch.relu(torch.sin(x)) + 1


def save(artifacts: str) -> Row:
    """The first machine: compile, and save the artifacts."""
    seen = compile_once()
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None, "nothing was compiled, so there is nothing to save"
    Path(artifacts).write_bytes(saved[0])
    return seen


def load(artifacts: str) -> Row:
    """The second machine: load them first, then compile."""
    torch.compiler.load_cache_artifacts(Path(artifacts).read_bytes())
    return compile_once()


def problem(folder: Path) -> Row:
    """Carry the artifacts to a machine with an empty cache folder."""
    artifacts = str(folder / "artifacts")
    machine(folder / "first", "save", artifacts)
    return row("problem", "torch.compiler.load_cache_artifacts(data)", machine(folder / "second", "load", artifacts))


def fix(folder: Path) -> Row:
    """Carry the whole folder."""
    call = "TORCHINDUCTOR_CACHE_DIR=/copied python serve.py"
    return row("fix", call, machine(folder / "first", "compile_once"))


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    with tempfile.TemporaryDirectory() as folder:
        return [problem(Path(folder)), fix(Path(folder))]


# ---- from here on: fresh processes, one row for each ----------------------------------------------------------------


def compile_once() -> Row:
    """Compile, call, compare with eager mode."""
    same = torch.allclose(torch.compile(f)(X), f(X))
    return {"same": same, "hits": counters["inductor"]["fxgraph_cache_hit"]}


def machine(cache: Path, *function: str) -> Row:
    """Run a function in a fresh process with this cache folder; say what it found and what it built."""
    before = set(cache.rglob("*.main.so"))
    done = subprocess.run(
        [sys.executable, __file__, *function],
        env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    if done.returncode:
        raise RuntimeError(f"{function} ended with {done.returncode}: {done.stderr[-2000:]}")
    seen = json.loads(done.stdout.splitlines()[-1])
    built = len(set(cache.rglob("*.main.so")) - before)
    happened = "wrong" if not seen["same"] else "fine" if seen["hits"] and not built else "costly"
    return {"happened": happened, "evidence": f"hits={seen['hits']}, libraries={built}"}


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
