# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 240
# value = 25
# ///
"""Compile workers that start by spawn run the script again, and a script without a main guard starts workers again.

Inductor compiles Triton kernels in processes of its own. With TORCHINDUCTOR_WORKER_START=spawn each imports the main
script first. Without a GPU no Triton kernel is compiled, so the scripts here ask for the workers by hand. Fixes: the
guard that every script with processes needs, or the default way to start them.


Columns
    step          "problem" or "fix"
    call          what was run
    happened      computed: "error" or "fine"
    raised_at     when it showed
    error         the exception's class; "" if none came
    message       what it says, without the folders of this machine
    evidence      exit=: the script's exit status
    status, note  "ok", ""
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

Row = dict[str, Any]

SCRIPT = """
import torch
from torch._inductor.async_compile import AsyncCompile

def f(x):
    return x @ x @ x

def main():
    AsyncCompile.wait_pool_ready()  # before the first Triton kernel
    x = torch.ones(8, 8)
    print("same:", torch.equal(torch.compile(f)(x), f(x)))

"""
BARE = SCRIPT + "main()"
GUARDED = SCRIPT + 'if __name__ == "__main__":\n    main()'


def problem() -> Row:
    """Spawn from a script without the guard."""
    return row("problem", "TORCHINDUCTOR_WORKER_START=spawn python serve.py", child(BARE, "spawn"))


def fix() -> list[Row]:
    """The guard; and no guard, but the default."""
    guarded = 'TORCHINDUCTOR_WORKER_START=spawn python serve.py  # if __name__ == "__main__": main()'
    return [
        row("fix", guarded, child(GUARDED, "spawn")),
        row("fix", "TORCHINDUCTOR_WORKER_START=subprocess python serve.py", child(BARE, "subprocess")),
    ]


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [problem(), *fix()]


# ---- from here on: fresh processes, one row for each ----------------------------------------------------------------


def child(script: str, method: str) -> Row:
    """Run a script in a fresh process; say how it ended, with what its workers said."""
    workers = {"TORCHINDUCTOR_WORKER_START": method, "TORCHINDUCTOR_COMPILE_THREADS": "2"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "serve.py"
        file.write_text(script)
        done = subprocess.run(
            [sys.executable, str(file)],
            env=os.environ | workers | {"TORCHINDUCTOR_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            timeout=200,
        )
    if not done.returncode:
        return {"happened": "fine" if "same: True" in done.stdout else "wrong", "evidence": f"exit={done.returncode}"}
    kind, _, text = done.stderr.strip().splitlines()[-1].partition(": ")
    told = re.search(r"An attempt has been made.*?phase\.", done.stderr, re.DOTALL)
    message = " ".join([*([*told[0].split(), "…"] if told else []), text])
    names = {"error": kind.rpartition(".")[2], "message": message, "evidence": f"exit={done.returncode}"}
    return {"happened": "error", "raised_at": "first call"} | names


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
    main()
