# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
""" "Either mode or options can be specified": both were given.

A mode is a name for a set of options, so the two merge: take the mode's options and add your own.

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


def problem() -> Callable[..., Any]:
    """A mode, and one option besides."""
    return torch.compile(f, mode="max-autotune-no-cudagraphs", options={"epilogue_fusion": False})


def merged(mode: str, **options: object) -> dict[str, object]:
    """What a mode stands for, with options of your own on top."""
    return {**torch._inductor.list_mode_options(mode), **options}


def fix() -> Callable[..., Any]:
    """The mode's options and yours, as options."""
    return torch.compile(f, options=merged("max-autotune-no-cudagraphs", epilogue_fusion=False))


def run() -> list[Row]:
    """Rows: both arguments, then the merged options."""
    options = merged("max-autotune-no-cudagraphs", epilogue_fusion=False)
    wrong = 'torch.compile(f, mode="max-autotune-no-cudagraphs", options={"epilogue_fusion": False})'
    right = compile_and_call("fix", f"torch.compile(f, options={options})(x)", fix)
    right["evidence"] += f", options={len(options)}"
    return [compile_and_call("problem", wrong, problem), right]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
