# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""TORCH_COMPILE_DISABLE or TORCHDYNAMO_DISABLE left set: torch.compile returns what behaves like the plain function.

Silent: the variable was exported once, in a shell, a Dockerfile or a launcher, and no graph is ever captured. With
fullgraph=True TORCH_COMPILE_DISABLE became an error in torch 2.13: "torch.compile with fullgraph=True found no compiled
frames". TORCHDYNAMO_DISABLE stays silent there too. The fix unsets both, and asserts that a graph was captured.

Columns
    step        "problem" or "fix"
    call        the code that was run; each in a process of its own
    happened    "not compiled": no graph was captured; "error"; "wrong": not what plain Python gives; "fine"
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    graphs=: graphs that Dynamo captured
    status      "ok"
    note        ""
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

Row = dict[str, Any]

VARIABLES = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")

SCRIPT = """
import json, torch
from torch._dynamo.utils import counters

def f(x):
    return torch.sin(x) * 2

for fullgraph in (False, True):
    torch._dynamo.reset()
    counters.clear()
    error, x = "", torch.linspace(-1, 1, 5)
    try:
        same = torch.allclose(torch.compile(f, backend="eager", fullgraph=fullgraph)(x), f(x))
    except Exception as caught:
        error, same = f"{type(caught).__name__}: {caught}", True
    print(json.dumps([fullgraph, counters["stats"]["unique_graphs"], same, error]))
"""


def problem(variable: str) -> dict[str, str]:
    """Return an environment in which somebody exported the variable."""
    return fix() | {variable: "1"}


def fix() -> dict[str, str]:
    """Return the environment without either."""
    return {name: value for name, value in os.environ.items() if name not in VARIABLES}


def start(environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start the script in that environment."""
    return subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment, stdout=subprocess.PIPE, text=True)


def rows_of(step: str, setting: str, process: subprocess.Popen[str]) -> list[Row]:
    """Wait for the script; one row for each value of fullgraph."""
    answer, _ = process.communicate(timeout=100)
    if process.returncode:
        raise RuntimeError(f"{setting}: the script ended with {process.returncode}")
    rows = []
    for fullgraph, graphs, same, error in map(json.loads, answer.splitlines()):
        kind, _, text = error.partition(": ")
        happened = "error" if error else "wrong" if not same else "fine" if graphs else "not compiled"
        call = f'{setting}; torch.compile(f, backend="eager", fullgraph={fullgraph})(x)'
        row: Row = {"step": step, "call": call, "happened": happened}
        row |= {"raised_at": "" if happened == "fine" else "first call", "error": kind, "message": text[:500]}
        rows.append(row | {"evidence": f"graphs={graphs}", "status": "ok", "note": ""})
    return rows


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    processes = {f"export {name}=1": start(problem(name)) for name in VARIABLES}
    processes[f"unset {' '.join(VARIABLES)}"] = start(fix())
    try:
        return [
            row
            for setting, process in processes.items()
            for row in rows_of("fix" if setting.startswith("unset") else "problem", setting, process)
        ]
    finally:
        for process in processes.values():
            process.kill()


def main() -> None:
    """Run it and print what happened."""
    for row in run():
        print(f"{row['step']:8}{row['happened']:13}{row['call']}")
        print("".join(f"{'':21}{row[name]}\n" for name in ("message", "evidence") if row[name]))


if __name__ == "__main__":
    main()
