# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""Weights that are replaced, not copied into: the compiled model uses the new ones.

Up to torch 2.4 it went on with the tensors it had been compiled with (pytorch#129362).

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
from torch._dynamo.utils import counters

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
    """A small model; the seed tells one set of weights from another."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        return torch.relu(self.layer(x))


def problem(model: Model, weights: dict[str, torch.Tensor]) -> None:
    """assign=True puts other tensors in the place of the old ones."""
    model.load_state_dict(weights, assign=True)


def problem_parameter(model: Model, weights: dict[str, torch.Tensor]) -> None:
    """So does an assignment."""
    for name, value in weights.items():
        module, _, parameter = name.rpartition(".")
        setattr(model.get_submodule(module), parameter, nn.Parameter(value))


def fix(model: Model, weights: dict[str, torch.Tensor]) -> None:
    """What helped: copy into the tensors that are there."""
    model.load_state_dict(weights)


def updated(step: str, call: str, update: Callable[[Model, dict[str, torch.Tensor]], None]) -> Row:
    """New weights between two calls: whether the second gives what eager mode gives, and how many graphs it took."""
    torch._dynamo.reset()
    counters.clear()
    model, x = Model(0), torch.randn(3, 4)
    model.compile(backend="aot_eager")
    with torch.no_grad():
        model(x)
        update(model, Model(1).state_dict())
        equal = torch.equal(model(x), Model(1)(x))
    graphs = counters["stats"]["unique_graphs"]
    happened = "wrong" if not equal else "recompiled" if graphs > 1 else "fine" if graphs else "not compiled"
    return row(step, call, happened, evidence=f"equal_to_eager={equal}, graphs={graphs}")


def run() -> list[Row]:
    """Rows: other tensors in two ways, and copied values."""
    return [
        updated("problem", "model.load_state_dict(weights, assign=True)", problem),
        updated("problem", "layer.weight = nn.Parameter(weight)", problem_parameter),
        updated("fix", "model.load_state_dict(weights)", fix),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
