# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
""".item() cuts the function: "Graph break from `Tensor.item()`".

Without fullgraph=True the number is taken in Python between two graphs. It then enters the second graph as a
constant, so another number compiles once more. Fixes: leave it a tensor; or have it captured, with fullgraph=True or
with the setting capture_scalar_outputs (TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1). float(x) and int(x) are the same.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "error"; "warning": in the log, once a process; "not compiled": no graph; "costly": more
                graphs than the function needs; "wrong": not what plain Python gives; "fine"
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     the log's lines, or the reason that Dynamo notes (TORCH_LOGS="graph_breaks" prints it)
    evidence    graphs=: graphs that Dynamo captured in all calls; calls=: calls made
    status      "ok"
    note        ""
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.utils import counters

Row = dict[str, Any]

INPUTS = (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]), torch.tensor([1.0, 5.0]))


def problem(x: torch.Tensor) -> torch.Tensor:
    """Take a number out, and go on with it."""
    largest = x.abs().max().item()
    return x / largest


def fix(x: torch.Tensor) -> torch.Tensor:
    """Leave it a tensor."""
    largest = x.abs().max()
    return x / largest


class Lines(logging.Handler):
    """Keeps the log lines that a user would see."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self.lines.append(record.getMessage())


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
    log, heard = logging.getLogger("torch._dynamo"), Lines()
    log.addHandler(heard)
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
    finally:
        log.removeHandler(heard)
    graphs = counters["stats"]["unique_graphs"]
    row["evidence"] = f"graphs={graphs}, calls={len(INPUTS)}"
    row["happened"] = "wrong" if not same else "not compiled" if not graphs else "costly" if graphs > wanted else "fine"
    if row["happened"] != "fine":
        if heard.lines and row["happened"] == "costly":
            row["happened"] = "warning"
        reasons = [*heard.lines, *counters["graph_break"], *counters["unimplemented"], ""]
        row |= {"raised_at": "first call", "message": shown(reasons[0])}
    return row


def captured_by_setting(backend: str) -> Row:
    """Capture the number as a symbol, without fullgraph."""
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        row = attempt("fix", problem, backend=backend)
    row["call"] = f"torch._dynamo.config.capture_scalar_outputs = True; {row['call']}"
    return row


def run(*, backend: str = "eager") -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [
        attempt("problem", problem, backend=backend),
        attempt("fix", fix, backend=backend, fullgraph=True),
        attempt("fix", problem, backend=backend, fullgraph=True),
        captured_by_setting(backend),
    ]


def main() -> None:
    """Run it and print what happened."""
    for row in run():
        print(f"{row['step']:8}{row['happened']:13}{row['call']}")
        print("".join(f"{'':21}{row[name]}\n" for name in ("message", "evidence") if row[name]))


if __name__ == "__main__":
    main()
