# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
""" "backend ignoring extra kwargs": mode= and options= for the debugging back ends do nothing.

eager and aot_eager take any argument, so that a script can switch to them, and say in the log that they ignore it.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    what came of it, computed: "fine" is only a result that equals eager mode's
    raised_at   when it showed
    error       the exception's class
    message     what a user sees
    evidence    what was counted or computed
    status      "ok"
    note        ""
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

Row = dict[str, Any]


def row(
    step: str, call: str, happened: str, raised_at: str = "", error: str = "", message: str = "", evidence: str = ""
) -> Row:
    """One row of the table."""
    return {
        "step": step,
        "call": call,
        "happened": happened,
        "raised_at": raised_at,
        "error": error,
        "message": message,
        "evidence": evidence,
        "status": "ok",
        "note": "",
    }


def tidy(error: object) -> str:
    """The first lines of a message, without addresses and folders of this machine."""
    text = re.sub(r" at 0x[0-9a-f]+", "", str(error).partition("\n\n")[0])
    text = re.sub(r"(?:/[\w.+-]+)+/(?=[\w.+-])", "", text)
    return text if len(text) <= 500 else text[:500] + " …"


def f(x: torch.Tensor) -> torch.Tensor:
    """What gets compiled."""
    return torch.relu(x) * 2


def problem(backend: str, **arguments: Any) -> Callable[..., Any]:
    """A setting of Inductor for a back end that generates no code."""
    return torch.compile(f, backend=backend, **arguments)


def compiled(backend: str, **for_inductor: Any) -> Callable[..., Any]:
    """Inductor's settings go to Inductor only."""
    return torch.compile(f, backend=backend, **(for_inductor if backend == "inductor" else {}))


def fix(backend: str) -> Callable[..., Any]:
    """One place that knows which back end takes what."""
    return compiled(backend, mode="max-autotune")


class Lines(logging.Handler):
    """Keeps the warnings that Dynamo logs."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self.lines.append(record.getMessage())


def logged(step: str, call: str, build: Callable[[], Callable[..., Any]]) -> Row:
    """Compile and call once: the line that says that something was ignored, if one came."""
    torch._dynamo.reset()
    x = torch.randn(8)
    lines = Lines()
    logger = logging.getLogger("torch._dynamo")
    logger.addHandler(lines)
    try:
        result = build()(x)
    finally:
        logger.removeHandler(lines)
    ignored = [line for line in lines.lines if "ignoring" in line]
    equal = torch.allclose(result, f(x))
    evidence = f"lines={len(ignored)}, equal_to_eager={equal}"
    if ignored:
        return row(step, call, "warning", "first call", "", tidy(ignored[0]), evidence)
    return row(step, call, "fine" if equal else "wrong", evidence=evidence)


def run() -> list[Row]:
    """Rows: two back ends with an argument of Inductor's, then the same call without it."""
    given: dict[str, dict[str, Any]] = {
        "eager": {"mode": "max-autotune"},
        "aot_eager": {"options": {"epilogue_fusion": False}},
    }
    rows = []
    for backend, arguments in given.items():
        ((name, value),) = arguments.items()
        shown = f'"{value}"' if isinstance(value, str) else value
        call = f'torch.compile(f, backend="{backend}", {name}={shown})(x)'
        rows.append(logged("problem", call, partial(problem, backend, **arguments)))
    for backend in ("eager", "aot_eager"):
        rows.append(logged("fix", f'torch.compile(f, backend="{backend}")(x)', partial(fix, backend)))
    return rows


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
