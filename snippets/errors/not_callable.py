# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
""" "A callable function is expected": torch.compile() was given a result, or a container of modules.

It takes the function or the module, not what calling it gives. A ModuleList is a module that cannot be called, so it
passes torch.compile() and fails at the first call.

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


class Model(nn.Module):
    """Two layers in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer after the other."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def problem(model: Model, x: torch.Tensor) -> torch.Tensor:
    """The model's result instead of the model."""
    return torch.compile(model(x), backend="eager")


def problem_container(model: Model, x: torch.Tensor) -> torch.Tensor:
    """The list of layers instead of the layers."""
    layers = torch.compile(model.layers, backend="eager")
    return layers(x)


def fix(model: Model, x: torch.Tensor) -> torch.Tensor:
    """The model, and then the call."""
    return torch.compile(model, backend="eager")(x)


def fix_container(model: Model, x: torch.Tensor) -> torch.Tensor:
    """Each layer for itself, in place."""
    for layer in model.layers:
        layer.compile(backend="eager")
    return model(x)


def tried(step: str, call: str, raised_at: str, attempt: Callable[[Model, torch.Tensor], torch.Tensor]) -> Row:
    """Try it on a fresh model: the error, or whether the result equals eager mode's."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = Model(), torch.randn(4, 8)
    expected = model(x)
    try:
        equal = torch.equal(attempt(model, x), expected)
    except Exception as error:
        return row(step, call, "error", raised_at, type(error).__name__, tidy(error))
    return row(step, call, "fine" if equal else "wrong", evidence=f"equal_to_eager={equal}")


def run() -> list[Row]:
    """Rows: a tensor and a container where a model belongs, then the model and its layers."""
    return [
        tried("problem", "torch.compile(model(x))", "torch.compile()", problem),
        tried("problem", "torch.compile(model.layers)(x)", "first call", problem_container),
        tried("fix", "torch.compile(model)(x)", "", fix),
        tried("fix", "for layer in model.layers: layer.compile()", "", fix_container),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
