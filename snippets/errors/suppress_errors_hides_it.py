# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""torch._dynamo.config.suppress_errors = True: the error is gone, and so is the compiling.

Whatever fails falls back to plain Python, with a line "WON'T CONVERT" in the log and nothing else. The fix leaves it
off, makes the first call at the start, and falls back in sight of everybody. (With fullgraph=True the error comes all
the same.)

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "not compiled": it ran, and no graph was captured; "wrong": not what plain Python gives; "fine": one
                graph, or the failure was reported and plain Python used on purpose
    raised_at   when it showed
    error       the exception's class that was hidden, or "" if there was none
    message     the log line
    evidence    graphs=: graphs compiled; reported=: whether the caller learnt of the failure
    status      "ok"
    note        ""
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.utils import counters

Row = dict[str, Any]

X = torch.linspace(-1, 1, 5)


def model(x: torch.Tensor) -> torch.Tensor:
    """Something to compile."""
    return torch.sin(x) * 2


def no_compiler(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """A back end that fails, as Inductor does without a C++ compiler."""
    raise RuntimeError("no compiler here")


def problem(backend: Any) -> Callable[..., Any]:
    """Follow the advice of many a post."""
    torch._dynamo.config.suppress_errors = True
    return torch.compile(model, backend=backend)


def fix(backend: Any) -> Callable[..., Any]:
    """Compile or not, and know which."""
    torch._dynamo.config.suppress_errors = False
    compiled = torch.compile(model, backend=backend)
    try:
        compiled(X)
    except Exception as error:
        logging.warning("Not compiled, runs in plain Python: %s", str(error).splitlines()[0])
        return model
    return compiled


class Lines(logging.Handler):
    """Keeps the log lines that a user would see."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self.lines.append(record.getMessage())


def attempt(step: str, backend: Any, make: Callable[[Any], Callable[..., Any]]) -> Row:
    """Call what was made, and look whether anything was compiled and whether that could be known."""
    torch._dynamo.reset()
    counters.clear()
    name = backend if isinstance(backend, str) else backend.__name__
    row: Row = {"step": step, "call": f"{step}({name})(x)", "happened": "fine", "raised_at": "", "error": ""}
    row |= {"message": "", "evidence": "", "status": "ok", "note": ""}
    log, heard = logging.getLogger("torch._dynamo"), Lines()
    log.addHandler(heard)
    before = torch._dynamo.config.suppress_errors
    try:
        function = make(backend)
        same = torch.allclose(function(X), model(X))
    finally:
        torch._dynamo.config.suppress_errors = before
        log.removeHandler(heard)
    graphs = counters["stats"]["unique_graphs"]
    row["evidence"] = f"graphs={graphs}, reported={function is model}"
    if not same:
        row["happened"] = "wrong"
    elif not graphs and function is not model:
        row |= {"happened": "not compiled", "raised_at": "first call"}
        text = re.sub(r"[\w./+-]+/(?=\w+\.py\b)", "", "\n".join(heard.lines))
        hidden = re.search(r"^[\w.]+\.(\w+): backend=.*(\n.+)*", text, re.M)
        if hidden:
            row["error"] = hidden[1]
            row["message"] = f"{text.split('Traceback')[0].strip()}\n{hidden[0]}"[:500]
    return row


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [attempt("problem", no_compiler, problem), attempt("fix", no_compiler, fix), attempt("fix", "eager", fix)]


def main() -> None:
    """Run it and print what happened."""
    for row in run():
        print(f"{row['step']:8}{row['happened']:13}{row['call']}")
        print("".join(f"{'':21}{row[name]}\n" for name in ("message", "evidence") if row[name]))


if __name__ == "__main__":
    main()
