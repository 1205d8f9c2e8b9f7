# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
""" "Unexpected type of attr": an option of Inductor with a value of the wrong type.

torch.compile(options=...) checks the type. An assignment to torch._inductor.config does not: there the text "no"
counts as yes, in silence.

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

import re
from collections.abc import Callable
from typing import Any

import torch
import torch._inductor.config as inductor

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


def problem() -> Callable[..., Any]:
    """A number, as a YAML file or a command line gives it, where Inductor has a bool."""
    return torch.compile(f, options={"epilogue_fusion": 1})


def problem_silent() -> object:
    """The same mistake in an assignment: nothing complains."""
    with inductor.patch({"epilogue_fusion": True}):
        inductor.epilogue_fusion = "no"  # meant to switch it off
        return inductor.epilogue_fusion


def fix(value: object) -> Callable[..., Any]:
    """Turn what was read into the type that the setting has."""
    wanted = type(inductor.epilogue_fusion)
    return torch.compile(f, options={"epilogue_fusion": wanted(value)})


def run() -> list[Row]:
    """Rows: a wrong type as an option, the same as an assignment, and the option with the right type."""
    stored = problem_silent()
    switched_off = not stored
    return [
        compile_and_call("problem", 'torch.compile(f, options={"epilogue_fusion": 1})', problem),
        row(
            "problem",
            'torch._inductor.config.epilogue_fusion = "no"',
            "fine" if switched_off else "wrong",
            evidence=f"stored={stored!r}, counts_as={bool(stored)}",
        ),
        compile_and_call("fix", 'torch.compile(f, options={"epilogue_fusion": bool(1)})(x)', lambda: fix(1)),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
