# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""Twelve equal layers, each compiled for itself: one graph serves all of them.

Up to torch 2.4 every module compiled its own, and after 8 (64 in all) the rest ran uncompiled (pytorch#125652).

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

import functools
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


class Block(nn.Module):
    """One layer of many."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        return torch.relu(self.linear(x))


def problem(blocks: list[Block], backend: Counting) -> Callable[[torch.Tensor], torch.Tensor]:
    """Compile the block, not the model: the usual way to a short first call."""
    compiled = [torch.compile(block, backend=backend) for block in blocks]
    return lambda x: functools.reduce(lambda value, block: block(value), compiled, x)


def fix(blocks: list[Block], backend: Counting) -> Callable[[torch.Tensor], torch.Tensor]:
    """What helped: the whole model as one graph."""
    return torch.compile(nn.Sequential(*blocks), backend=backend)


def counted(step: str, call: str, build: Callable[..., Any]) -> Row:
    """One call through twelve blocks: how many graphs, and whether the result equals eager mode's."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    blocks, backend = [Block() for _ in range(12)], Counting()
    x = torch.randn(2, 8, requires_grad=True)
    expected = nn.Sequential(*blocks)(x)
    equal = torch.equal(build(blocks, backend)(x), expected)
    graphs = backend.graphs
    happened = "wrong" if not equal else "fine" if graphs == 1 else "recompiled" if graphs else "not compiled"
    return row(step, call, happened, evidence=f"graphs={graphs}, modules=12, equal_to_eager={equal}")


def run() -> list[Row]:
    """Rows: each block compiled, and the whole model."""
    return [
        counted("problem", "[torch.compile(block) for block in blocks]", problem),
        counted("fix", "torch.compile(nn.Sequential(*blocks))", fix),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
