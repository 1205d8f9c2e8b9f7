# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""Going back and forth between train() and eval(): one graph for each, and both are kept.

Once every change compiled anew (pytorch#110803).

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


class Counting:
    """A back end that counts the graphs it is given and runs them as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        """Count one graph."""
        self.graphs += 1
        return graph.forward


class Model(nn.Module):
    """A layer and dropout, which training and inference treat differently."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        return self.dropout(torch.relu(self.layer(x)))


def problem(model: Model, compiled: nn.Module, x: torch.Tensor) -> None:
    """What a training loop with validation does."""
    for _ in range(6):
        compiled.train()
        compiled(x)
        compiled.eval()
        compiled(x)


def fix(model: Model, compiled: nn.Module, x: torch.Tensor) -> None:
    """What helped: compile for training only, and validate with the model itself."""
    for _ in range(6):
        compiled.train()
        compiled(x)
        model.eval()
        model(x)


def counted(step: str, call: str, use: Callable[[Model, nn.Module, torch.Tensor], None]) -> Row:
    """Twelve calls in two states: more than two graphs are too many."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, backend, x = Model(), Counting(), torch.randn(2, 8)
    expected = torch.relu(model.layer(x))
    compiled = torch.compile(model, backend=backend)
    use(model, compiled, x)
    graphs = backend.graphs
    equal = torch.equal(compiled.eval()(x), expected)
    happened = "wrong" if not equal else "not compiled" if not graphs else "recompiled" if graphs > 2 else "fine"
    return row(step, call, happened, evidence=f"graphs={graphs}, calls=12, equal_to_eager={equal}")


def run() -> list[Row]:
    """Rows: six epochs with validation, and the workaround of that time."""
    loop = "for epoch in range(6): compiled.train(); compiled(x);"
    return [
        counted("problem", f"{loop} compiled.eval(); compiled(x)", problem),
        counted("fix", f"{loop} model.eval(); model(x)", fix),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
