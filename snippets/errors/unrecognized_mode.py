# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
""" "Unrecognized mode": a name that is no mode of Inductor.

The names have hyphens. torch._inductor.list_mode_options() lists them with what they stand for.

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
import torch._inductor

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


def problem(mode: str) -> Callable[..., Any]:
    """An underscore where the mode has a hyphen, or a name that never was one."""
    return torch.compile(f, mode=mode)


def closest(mode: str) -> str:
    """The mode that is most like this name; "default" where none is."""
    known = list(torch._inductor.list_mode_options())
    return next(iter(difflib.get_close_matches(mode, known, n=1)), "default")


def fix(mode: str) -> Callable[..., Any]:
    """The mode as Inductor names it."""
    return torch.compile(f, mode=closest(mode))


def run() -> list[Row]:
    """Rows: two wrong names, then the modes that were found for them."""
    wrong = ("reduce_overhead", "fastest")
    rows = [compile_and_call("problem", f'torch.compile(f, mode="{m}")', partial(problem, m)) for m in wrong]
    for mode in wrong:
        rows.append(compile_and_call("fix", f'torch.compile(f, mode="{closest(mode)}")(x)', partial(fix, mode)))
    return rows


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
