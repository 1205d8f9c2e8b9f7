# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""An outer torch.compile swallows the back ends of the parts: it takes in the whole, and the parts never see a graph.

The back ends here count the graphs that they get and run them as they are.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "not compiled" where the inner back end got no graph
    raised_at          ""
    error, message     ""; the problem is silent
    evidence           graphs that the inner and the outer back end got
    status, note       "ok", ""
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


class Counting:
    """A back end that counts its graphs and runs them as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Take one graph."""
        self.graphs += 1
        return graph.forward


class Part(nn.Module):
    """A linear layer and ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (n, 8) in and out."""
        return self.linear(x).relu()


def problem(model: nn.Sequential, inner: Counting, outer: Counting) -> Any:
    """Give the parts a back end of their own, and compile the whole with another."""
    for part in model:
        part.compile(backend=inner)
    return torch.compile(model, backend=outer)


def fix(model: nn.Sequential, inner: Counting, outer: Counting) -> Any:
    """Compile the parts only, each with the back end that it is to have."""
    first, second = model
    first.compile(backend=inner)
    second.compile(backend=outer)
    return model


def judge(step: str, call: str, prepare: Callable[..., Any]) -> Row:
    """Run a model of two parts; count the graphs of both back ends and compare with the model not compiled."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x, inner, outer = nn.Sequential(Part(), Part()).eval(), torch.randn(4, 8), Counting(), Counting()
    wanted = model(x)
    right = torch.allclose(prepare(model, inner, outer)(x), wanted)
    happened = "wrong" if not right else "fine" if inner.graphs else "not compiled"
    return row(step, call, happened, evidence=f"inner_graphs={inner.graphs}, outer_graphs={outer.graphs}")


@torch.no_grad()
def run() -> list[Row]:
    """Compile the whole around compiled parts, then the parts alone."""
    return [
        judge(
            "problem", "for part in model: part.compile(backend=inner); torch.compile(model, backend=outer)(x)", problem
        ),
        judge("fix", "model[0].compile(backend=inner); model[1].compile(backend=outer); model(x)", fix),
    ]


def main() -> None:
    """Print the rows."""
    for made in run():
        print(f"{made['step']:9}{made['happened']:14}{made['call']}")
        for name in ("error", "message", "evidence", "note"):
            if made[name]:
                print(f"{'':9}{name}: {made[name]}")


if __name__ == "__main__":
    main()
