# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""One thing in a loop that Dynamo can't trace, and the whole function runs uncompiled: no graph at all.

A cut inside a ``for`` or ``while`` can't be resumed, so the frame is skipped. Silent without
TORCH_LOGS="graph_breaks". Fixes: take the call out of the loop; or put the loop's body into a function, which is then
captured as a frame of its own and compiled once for all turns.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "error"; "not compiled": no graph; "costly": more graphs than the function needs; "wrong": not
                what plain Python gives; "fine"
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     the exception's text, or the reason that Dynamo notes (TORCH_LOGS="graph_breaks" prints it)
    evidence    graphs=: graphs that Dynamo captured in all calls; calls=: calls made
    status      "ok"
    note        ""
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.utils import counters

Row = dict[str, Any]

INPUTS = (torch.ones(4), -torch.ones(4))
TIMES: list[float] = []


def problem(x: torch.Tensor) -> torch.Tensor:
    """Read the clock in every turn."""
    for _ in range(5):
        x = torch.sin(x) + 1
        TIMES.append(time.perf_counter())
    return x * 3


def fix_outside(x: torch.Tensor) -> torch.Tensor:
    """Read no clock inside; time the call from outside."""
    for _ in range(5):
        x = torch.sin(x) + 1
    return x * 3


def body(x: torch.Tensor) -> torch.Tensor:
    """One turn."""
    return torch.sin(x) + 1


def fix_body(x: torch.Tensor) -> torch.Tensor:
    """Keep the clock, and call the body as a function: it becomes a graph."""
    for _ in range(5):
        x = body(x)
        TIMES.append(time.perf_counter())
    return x * 3


def shown(text: str, limit: int = 500) -> str:
    """Return the first lines of a message, without the folders and addresses of this machine."""
    text = text.split("Developer debug context")[0]
    text = re.sub(r"[\w./+-]+/(?=\w+\.py\b)", "", re.sub(r" at 0x[0-9a-f]+", "", text))
    lines = ""
    for line in text.strip().splitlines():
        if lines and len(lines) + len(line) > limit:
            break
        lines += line + "\n"
    return lines.strip()[:limit]


def attempt(step: str, function: Callable[..., Any], *, wanted: int = 1, **how: Any) -> Row:
    """Compile a function, call it with the inputs, and say what happened; ``problem`` run plain is the reference."""
    torch._dynamo.reset()
    counters.clear()
    keywords = "".join(
        f', {name}="{value}"' if isinstance(value, str) else f", {name}={value}" for name, value in how.items()
    )
    call = f"torch.compile({function.__name__}{keywords})(x)"
    row = {"step": step, "call": call, "happened": "", "raised_at": "", "error": "", "message": "", "evidence": ""}
    row |= {"status": "ok", "note": ""}
    moment, same = "torch.compile()", True
    try:
        compiled = torch.compile(function, **how)
        for x in INPUTS:
            moment = "later call" if moment == "first call" else "first call"
            same &= torch.allclose(compiled(x), problem(x))
    except Exception as error:
        return row | {
            "happened": "error",
            "raised_at": moment,
            "error": type(error).__name__,
            "message": shown(str(error)),
            "evidence": f"graphs={counters['stats']['unique_graphs']}",
        }
    graphs = counters["stats"]["unique_graphs"]
    row["evidence"] = f"graphs={graphs}, calls={len(INPUTS)}"
    row["happened"] = "wrong" if not same else "not compiled" if not graphs else "costly" if graphs > wanted else "fine"
    if row["happened"] != "fine":
        reasons = [*counters["graph_break"], *counters["unimplemented"], ""]
        row |= {"raised_at": "first call", "message": shown(" ".join(reasons).split("occurred: ***")[-1])}
    return row


def run(*, backend: str = "eager") -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [
        attempt("problem", problem, backend=backend),
        attempt("fix", fix_outside, backend=backend, fullgraph=True),
        attempt("fix", fix_body, backend=backend),
    ]


def main() -> None:
    """Run it and print what happened."""
    for row in run():
        print(f"{row['step']:8}{row['happened']:13}{row['call']}")
        print("".join(f"{'':21}{row[name]}\n" for name in ("message", "evidence") if row[name]))


if __name__ == "__main__":
    main()
