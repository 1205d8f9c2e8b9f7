# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
""" "Invalid backend": a name that torch does not know, and how to find the one that was meant.

The name is looked up when torch.compile() is called, before anything is captured.

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

import difflib
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


def compile_and_call(step: str, call: str, build: Callable[[], Callable[[torch.Tensor], torch.Tensor]]) -> Row:
    """Compile, then call once: what came, and when. Fine is a result that equals eager mode's."""
    torch._dynamo.reset()
    x = torch.randn(8)
    raised_at = "torch.compile()"
    try:
        compiled = build()
        raised_at = "first call"
        result = compiled(x)
    except Exception as error:
        return row(step, call, "error", raised_at, type(error).__name__, tidy(error))
    equal = torch.allclose(result, f(x))
    return row(step, call, "fine" if equal else "wrong", evidence=f"equal_to_eager={equal}")


def problem(name: str) -> Callable[..., Any]:
    """A name that no package has registered; names are case-sensitive."""
    return torch.compile(f, backend=name)


def closest(name: str) -> str:
    """The registered name that is most like this one; Inductor, the default, where none is."""
    known = torch.compiler.list_backends(exclude_tags=())
    return next(iter(difflib.get_close_matches(name.lower(), known, n=1)), "inductor")


def fix(name: str) -> Callable[..., Any]:
    """Look the name up in what this torch has."""
    return torch.compile(f, backend=closest(name))


def run() -> list[Row]:
    """Rows: two wrong names, then the names that were found for them."""
    rows = []
    for name in ("nosuch", "Inductor"):
        rows.append(compile_and_call("problem", f'torch.compile(f, backend="{name}")', partial(problem, name)))
    for name in ("nosuch", "Inductor"):
        call = f'torch.compile(f, backend="{closest(name)}")(x)'
        rows.append(compile_and_call("fix", call, partial(fix, name)))
    return rows


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
