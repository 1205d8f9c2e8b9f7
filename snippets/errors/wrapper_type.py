# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""torch.compile(model) is an OptimizedModule: isinstance and model[0] see the wrapper, not the model.

Attributes are handed through, types and indexing are not.

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
from torch import nn

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


def make_model() -> nn.Sequential:
    """A model that is asked for its type and its parts."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def problem_isinstance(model: nn.Sequential) -> object:
    """What libraries ask to choose a path."""
    return isinstance(torch.compile(model, backend="eager"), nn.Sequential)


def problem_index(model: nn.Sequential) -> object:
    """A layer of the compiled model."""
    return torch.compile(model, backend="eager")[0]


def fix_in_place(model: nn.Sequential) -> object:
    """Compiled in place, the model keeps its type."""
    model.compile(backend="eager")
    model(torch.randn(3, 4))
    return isinstance(model, nn.Sequential) and model[0]


def fix_by_unwrapping(model: nn.Sequential) -> object:
    """Ask the model inside."""
    inner = getattr(torch.compile(model, backend="eager"), "_orig_mod", model)
    return isinstance(inner, nn.Sequential) and inner[0]


def asked(step: str, call: str, ask: Callable[[nn.Sequential], object]) -> Row:
    """Ask: the error, or whether the answer is the one that the model itself gives."""
    torch._dynamo.reset()
    model = make_model()
    try:
        answer = ask(model)
    except Exception as error:
        return row(step, call, "error", "", type(error).__name__, tidy(error))
    right = answer is True or answer is model[0]
    return row(step, call, "fine" if right else "wrong", evidence=f"answer={type(answer).__name__}:{right}")


def run() -> list[Row]:
    """Rows: the type and a layer of the wrapper, then of the model."""
    return [
        asked("problem", "isinstance(torch.compile(model), nn.Sequential)", problem_isinstance),
        asked("problem", "torch.compile(model)[0]", problem_index),
        asked("fix", "model.compile(); isinstance(model, nn.Sequential); model[0]", fix_in_place),
        asked("fix", "compiled._orig_mod[0]", fix_by_unwrapping),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
