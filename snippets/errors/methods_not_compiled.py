# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""Only forward is compiled: model.generate() and model.encode() run in eager mode, in silence.

The wrapper hands every other method to the model inside, and there self(x) is the model that was not compiled.

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
    """forward, a method that calls it in a loop, and one that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One step."""
        return torch.relu(self.layer(x))

    def generate(self, x: torch.Tensor) -> torch.Tensor:
        """Three steps."""
        for _ in range(3):
            x = self(x)
        return x

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        """Another use of the same weights."""
        return torch.tanh(self.layer(x))


def problem_generate(model: Model, backend: Counting, x: torch.Tensor) -> torch.Tensor:
    """A method of the wrapper."""
    compiled = torch.compile(model, backend=backend)
    return compiled.generate(x)


def problem_encode(model: Model, backend: Counting, x: torch.Tensor) -> torch.Tensor:
    """A method that never calls forward."""
    compiled = torch.compile(model, backend=backend)
    return compiled.encode(x)


def fix_generate(model: Model, backend: Counting, x: torch.Tensor) -> torch.Tensor:
    """Compile in place: self(x) inside the loop is then compiled."""
    model.compile(backend=backend)
    return model.generate(x)


def fix_encode(model: Model, backend: Counting, x: torch.Tensor) -> torch.Tensor:
    """Compile the method itself."""
    model.encode = torch.compile(model.encode, backend=backend)
    return model.encode(x)


def called(step: str, call: str, use: Callable[[Model, Counting, torch.Tensor], torch.Tensor]) -> Row:
    """Use a fresh model: how many graphs were compiled, and whether the result equals eager mode's."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, backend, x = Model(), Counting(), torch.randn(2, 8)
    expected = model.generate(x) if "generate" in call else model.encode(x)
    equal = torch.equal(use(model, backend, x), expected)
    happened = "wrong" if not equal else "fine" if backend.graphs else "not compiled"
    return row(step, call, happened, evidence=f"graphs={backend.graphs}, equal_to_eager={equal}")


def run() -> list[Row]:
    """Rows: two methods through the wrapper, then each compiled."""
    return [
        called("problem", "torch.compile(model).generate(x)", problem_generate),
        called("problem", "torch.compile(model).encode(x)", problem_encode),
        called("fix", "model.compile(); model.generate(x)", fix_generate),
        called("fix", "model.encode = torch.compile(model.encode); model.encode(x)", fix_encode),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
