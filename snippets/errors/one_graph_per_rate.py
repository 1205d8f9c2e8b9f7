# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""A learning rate that changes at every step: the compiled optimiser is compiled twice, then no more.

Up to torch 2.5 a Python number was a constant of the graph, so each new value compiled anew until the limit of graphs.

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


def make_optimizer(lr: Any) -> tuple[nn.Linear, torch.optim.SGD]:
    """A model with gradients, and its optimiser."""
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return model, torch.optim.SGD(model.parameters(), lr=lr)


def problem(optimizer: torch.optim.Optimizer, step: Callable[[], Any], rates: list[float]) -> None:
    """The schedule sets a Python number."""
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        step()


def fix(optimizer: torch.optim.Optimizer, step: Callable[[], Any], rates: list[float]) -> None:
    """What helped, and still saves the second graph: the rate in a tensor."""
    for rate in rates:
        optimizer.param_groups[0]["lr"] = torch.tensor(rate)
        step()


def counted(step_name: str, call: str, schedule: Callable[..., None], first: Any, most: int) -> Row:
    """Twelve rates: how many graphs, and whether the weights are those of the plain optimiser."""
    torch._dynamo.reset()
    rates = [0.1 / (number + 1) for number in range(12)]
    expected, plain = make_optimizer(0.1)
    problem(plain, plain.step, rates)
    model, optimizer = make_optimizer(first)
    backend = Counting()
    schedule(optimizer, torch.compile(optimizer.step, backend=backend), rates)
    equal = torch.allclose(model.weight, expected.weight, atol=1e-6)
    happened = "wrong" if not equal else "recompiled" if backend.graphs > most else "fine"
    return row(step_name, call, happened, evidence=f"graphs={backend.graphs}, rates=12, equal_to_eager={equal}")


def run() -> list[Row]:
    """Rows: the rate as a number, and as a tensor."""
    return [
        counted("problem", 'param_groups[0]["lr"] = 0.1 / n; torch.compile(optimizer.step)()', problem, 0.1, 2),
        counted("fix", 'param_groups[0]["lr"] = torch.tensor(0.1 / n)', fix, torch.tensor(0.1), 1),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
