# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""compiled.training follows train() and eval(), on the wrapper and on the model inside.

Until torch 2.4 the wrapper had a flag of its own that nothing changed (pytorch#122414, #132986).

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


class Model(nn.Module):
    """A layer and dropout, which training and inference treat differently."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        return self.dropout(torch.relu(self.layer(x)))


def problem(model: Model) -> list[bool]:
    """Change the state of the wrapper, ask both."""
    compiled = torch.compile(model, backend="eager")
    compiled.eval()
    flags = [compiled.training, model.training]
    compiled.train()
    return [*flags, compiled.training, model.training]


def problem_inside(model: Model) -> list[bool]:
    """Compile a model in evaluation, then change the model itself."""
    model.eval()
    compiled = torch.compile(model, backend="eager")
    flags = [compiled.training, model.training]
    model.train()
    return [*flags, compiled.training, model.training]


def fix(model: Model) -> list[bool]:
    """What helped: in place there is only one flag."""
    model.compile(backend="eager")
    model.eval()
    flags = [model.training, model.training]
    model.train()
    return [*flags, model.training, model.training]


def asked(step: str, call: str, ask: Callable[[Model], list[bool]]) -> Row:
    """Both flags after eval() and after train()."""
    torch._dynamo.reset()
    flags = ask(Model())
    happened = "fine" if flags == [False, False, True, True] else "wrong"
    return row(step, call, happened, evidence=f"after_eval={flags[:2]}, after_train={flags[2:]}")


def run() -> list[Row]:
    """Rows: the flag through the wrapper, through the model, and in place."""
    return [
        asked("problem", "compiled.eval(); compiled.training", problem),
        asked("problem", "torch.compile(model.eval()).training", problem_inside),
        asked("fix", "model.compile(); model.eval(); model.training", fix),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
