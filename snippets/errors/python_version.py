# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""torch.compile on this Python: "Dynamo is not supported on Python 3.12+" and 3.13+ belong to older pairs.

Dynamo reads bytecode, which changes with every Python, so each Python needs a torch that is new enough.

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
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo

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


def problem(x: torch.Tensor) -> torch.Tensor:
    """Any use at all: the version is checked first."""
    return torch.compile(f, backend="eager", fullgraph=True)(x)


def fix(x: torch.Tensor) -> torch.Tensor:
    """Ask before, and do without where this pair does not go together."""
    function = torch.compile(f, backend="eager") if torch._dynamo.is_dynamo_supported() else f
    return function(x)


def tried(step: str, call: str, use: Callable[[torch.Tensor], torch.Tensor]) -> Row:
    """Compile and call: the error, or whether the result equals eager mode's."""
    torch._dynamo.reset()
    x = torch.randn(8)
    pair = f"python={sys.version_info.major}.{sys.version_info.minor}, torch={torch.__version__.partition('+')[0]}"
    try:
        equal = torch.equal(use(x), f(x))
    except Exception as error:
        return row(step, call, "error", "torch.compile()", type(error).__name__, tidy(error), pair)
    return row(step, call, "fine" if equal else "wrong", evidence=f"{pair}, equal_to_eager={equal}")


def run() -> list[Row]:
    """Rows: compile on this Python, and ask first."""
    return [
        tried("problem", "torch.compile(f, fullgraph=True)(x)", problem),
        tried("fix", "torch._dynamo.is_dynamo_supported()", fix),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
