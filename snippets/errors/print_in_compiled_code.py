# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""print() in the compiled function: an error with fullgraph=True, a cut without.

The fix depends on what the line is for. Keep it: torch._dynamo.config.reorderable_logging_functions lets it run
behind the graph, with the values. Drop it in compiled code: ask torch.compiler.is_compiling(), or name it in
ignore_logging_functions. A logger's methods (logger.info) need the same, as "logging.Logger method not supported".

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "error"; "not compiled": no graph; "costly": more graphs than the function needs; "wrong": not
                what plain Python gives; "fine"
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     the exception's text, or the reason that Dynamo notes (TORCH_LOGS="graph_breaks" prints it)
    evidence    graphs=: graphs that Dynamo captured in all calls; calls=: calls made; printed=: lines printed
    status      "ok"
    note        ""
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.utils import counters

Row = dict[str, Any]

INPUTS = (torch.ones(4), -torch.ones(4))


def problem(x: torch.Tensor) -> torch.Tensor:
    """Show a value on the way."""
    x = torch.relu(x)
    print("largest:", x.max())
    return x + 1


def fix_reorder(compiled: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
    """Let print run behind the graph."""
    with torch._dynamo.config.patch(reorderable_logging_functions={print}):
        return compiled(x)


def fix_ignore(compiled: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
    """Leave print out of compiled code."""
    with torch._dynamo.config.patch(ignore_logging_functions={print}):
        return compiled(x)


def fix_is_compiling(x: torch.Tensor) -> torch.Tensor:
    """Print only where nothing is compiled."""
    x = torch.relu(x)
    if not torch.compiler.is_compiling():
        print("largest:", x.max())
    return x + 1


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


SETTINGS = {
    "fix_reorder": "torch._dynamo.config.reorderable_logging_functions",
    "fix_ignore": "torch._dynamo.config.ignore_logging_functions",
}


def attempt(step: str, function: Callable[..., Any], *, within: Callable[..., Any] | None = None, **how: Any) -> Row:
    """Compile a function, call it with the inputs, and say what happened; ``problem`` run plain is the reference."""
    torch._dynamo.reset()
    counters.clear()
    keywords = "".join(
        f', {name}="{value}"' if isinstance(value, str) else f", {name}={value}" for name, value in how.items()
    )
    call = f"torch.compile({function.__name__}{keywords})(x)"
    if within:
        call = f"{SETTINGS[within.__name__]} = {{print}}; {call}"
    row = {"step": step, "call": call, "happened": "", "raised_at": "", "error": "", "message": "", "evidence": ""}
    row |= {"status": "ok", "note": ""}
    moment, same, lines = "torch.compile()", True, 0
    try:
        compiled = torch.compile(function, **how)
        for x in INPUTS:
            moment = "later call" if moment == "first call" else "first call"
            with contextlib.redirect_stdout(io.StringIO()):
                wanted = problem(x)
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                same &= torch.allclose(within(compiled, x) if within else compiled(x), wanted)
            lines += len(printed.getvalue().splitlines())
    except Exception as error:
        return row | {
            "happened": "error",
            "raised_at": moment,
            "error": type(error).__name__,
            "message": shown(str(error)),
            "evidence": f"graphs={counters['stats']['unique_graphs']}",
        }
    graphs = counters["stats"]["unique_graphs"]
    row["evidence"] = f"graphs={graphs}, calls={len(INPUTS)}, printed={lines}"
    row["happened"] = "wrong" if not same else "not compiled" if not graphs else "costly" if graphs > 1 else "fine"
    if row["happened"] != "fine":
        reasons = [*counters["graph_break"], *counters["unimplemented"], ""]
        row |= {"raised_at": "first call", "message": shown(reasons[0])}
    return row


def run(*, backend: str = "eager") -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [
        attempt("problem", problem, backend=backend, fullgraph=True),
        attempt("problem", problem, backend=backend),
        attempt("fix", problem, within=fix_reorder, backend=backend, fullgraph=True),
        attempt("fix", problem, within=fix_ignore, backend=backend, fullgraph=True),
        attempt("fix", fix_is_compiling, backend=backend, fullgraph=True),
    ]


def main() -> None:
    """Run it and print what happened."""
    for row in run():
        print(f"{row['step']:8}{row['happened']:13}{row['call']}")
        print("".join(f"{'':21}{row[name]}\n" for name in ("message", "evidence") if row[name]))


if __name__ == "__main__":
    main()
