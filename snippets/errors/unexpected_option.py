# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
""" "Unexpected optimization option": a name in options= that Inductor's settings do not have.

The names are those of torch._inductor.config, with a dot before the parts of a group (triton.cudagraphs).

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
    return text if len(text) <= 180 else text[:180] + " …"


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


def problem() -> Callable[..., Any]:
    """An underscore where the setting has a dot."""
    return torch.compile(f, options={"triton_cudagraphs": False})


def closest(option: str) -> str:
    """The setting of Inductor whose name is most like this one."""
    known = torch._inductor.list_options()
    return next(iter(difflib.get_close_matches(option, known, n=1)), "")


def fix() -> Callable[..., Any]:
    """The name as Inductor has it."""
    return torch.compile(f, options={closest("triton_cudagraphs"): False})


def run() -> list[Row]:
    """Rows: the wrong name, then the right one."""
    named = closest("triton_cudagraphs")
    right = compile_and_call("fix", f'torch.compile(f, options={{"{named}": False}})(x)', fix)
    right["evidence"] += f", closest={named}, options={len(torch._inductor.list_options())}"
    return [compile_and_call("problem", 'torch.compile(f, options={"triton_cudagraphs": False})', problem), right]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
