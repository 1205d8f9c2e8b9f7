# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
""" "compile() got an unexpected keyword argument": an argument of an older interface, or a misspelt one.

nopython= belongs to torch._dynamo.optimize(), the interface before torch 2.0. torch.compile() names it fullgraph=.

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

import inspect
import re
from collections.abc import Callable
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


def problem(**arguments: Any) -> Callable[..., Any]:
    """An argument that torch.compile() does not have."""
    return torch.compile(f, backend="eager", **arguments)


def fix() -> Callable[..., Any]:
    """nopython=True under today's name."""
    return torch.compile(f, backend="eager", fullgraph=True)


def run() -> list[Row]:
    """Rows: the argument of old guides, a misspelt one, and the one that exists."""
    accepted = [name for name in inspect.signature(torch.compile).parameters if name != "model"]
    right = compile_and_call("fix", 'torch.compile(f, backend="eager", fullgraph=True)(x)', fix)
    right["evidence"] += f", accepted={accepted}"
    return [
        compile_and_call("problem", 'torch.compile(f, backend="eager", nopython=True)', lambda: problem(nopython=True)),
        compile_and_call(
            "problem", 'torch.compile(f, backend="eager", full_graph=True)', lambda: problem(full_graph=True)
        ),
        right,
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
