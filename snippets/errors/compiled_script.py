# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""torch.compile of a scripted model: an error in torch 2.13, and in torch 2.11 no effect.

TorchScript runs its own graph: there is no Python bytecode that Dynamo could read. A scripted part of a model is still
skipped in silence.

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


class Counting:
    """A back end that counts the graphs it is given and runs them as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        """Count one graph."""
        self.graphs += 1
        return graph.forward


class Layer(nn.Module):
    """Something to script."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        return torch.relu(self.linear(x))


class Around(nn.Module):
    """A model with a scripted part."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The part, and an operator besides."""
        return self.part(x) * 2


def problem(layer: Layer, backend: Counting) -> nn.Module:
    """A scripted model."""
    return torch.compile(torch.jit.script(layer), backend=backend)


def problem_part(layer: Layer, backend: Counting) -> nn.Module:
    """A scripted part."""
    return torch.compile(Around(torch.jit.script(layer)), backend=backend)


def fix(layer: Layer, backend: Counting) -> nn.Module:
    """The model as it was written."""
    return torch.compile(Around(layer), backend=backend)


def tried(step: str, call: str, build: Callable[[Layer, Counting], nn.Module], twice: bool) -> Row:
    """Compile and call: the error, or how many graphs were compiled and whether the result equals eager mode's."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer, backend, x = Layer(), Counting(), torch.randn(2, 8)
    expected = layer(x) * 2 if twice else layer(x)
    raised_at = "torch.compile()"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript is deprecated
            compiled = build(layer, backend)
        raised_at = "first call"
        equal = torch.allclose(compiled(x), expected)
    except Exception as error:
        return row(step, call, "error", raised_at, type(error).__name__, tidy(error))
    happened = "wrong" if not equal else "fine" if backend.graphs else "not compiled"
    return row(step, call, happened, evidence=f"graphs={backend.graphs}, equal_to_eager={equal}")


def run() -> list[Row]:
    """Rows: a scripted model, a scripted part, and the model as it was written."""
    return [
        tried("problem", "torch.compile(torch.jit.script(model))", problem, False),
        tried("problem", "torch.compile(Model(part=torch.jit.script(layer)))(x)", problem_part, True),
        tried("fix", "torch.compile(Model(part=layer))(x)", fix, True),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
