# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
""" "cannot unpack non-iterable ExplainOutput object": torch._dynamo.explain() as in torch 2.0.

It gave a tuple of six; since 2.1 it gives an object, and takes the function first and its arguments in a second call.

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
import warnings
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
    """A function with one graph break."""
    y = torch.relu(x)
    torch._dynamo.graph_break()
    return y * 2


def problem(x: torch.Tensor) -> tuple[int, int]:
    """As the tutorials of torch 2.0 have it."""
    _explanation, _guards, graphs, _ops, break_reasons, _verbose = torch._dynamo.explain(f, x)
    return len(graphs), len(break_reasons)


def fix(x: torch.Tensor) -> tuple[int, int]:
    """Two calls, and attributes by name."""
    explained = torch._dynamo.explain(f)(x)
    return explained.graph_count, len(explained.break_reasons)


def asked(step: str, call: str, ask: Callable[[torch.Tensor], tuple[int, int]]) -> Row:
    """Explain f: the error, or what was counted. f has two graphs and one break between them."""
    torch._dynamo.reset()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # the old form of the call is deprecated as well
            graphs, breaks = ask(torch.randn(8))
    except Exception as error:
        return row(step, call, "error", "first call", type(error).__name__, tidy(error))
    happened = "fine" if (graphs, breaks) == (2, 1) else "wrong"
    return row(step, call, happened, evidence=f"graph_count={graphs}, break_reasons={breaks}")


def run() -> list[Row]:
    """Rows: the old form, then today's."""
    return [
        asked("problem", "a, b, c, d, e, g = torch._dynamo.explain(f, x)", problem),
        asked("fix", "torch._dynamo.explain(f)(x).graph_count", fix),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
