# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""torch.compile() returns the compiled model and leaves the one you have as it is.

Where its result is dropped, or bound to a name that is gone a line later, everything runs as before, in silence.

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
    """A model that offers to compile itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        return torch.relu(self.layer(x))

    def optimise(self, backend: Counting) -> None:
        """Binds a name of this method, and nothing else."""
        self = torch.compile(self, backend=backend)


def problem_dropped(model: Model, backend: Counting) -> nn.Module:
    """The result is not kept."""
    torch.compile(model, backend=backend)
    return model


def problem_self(model: Model, backend: Counting) -> nn.Module:
    """self is only a name."""
    model.optimise(backend)
    return model


def problem_loop(model: Model, backend: Counting) -> nn.Module:
    """The loop variable is only a name, too."""
    for child in model.children():
        child = torch.compile(child, backend=backend)
    return model


def fix_by_keeping(model: Model, backend: Counting) -> nn.Module:
    """Use what torch.compile returns."""
    return torch.compile(model, backend=backend)


def fix_in_place(model: Model, backend: Counting) -> nn.Module:
    """Or compile in place."""
    model.compile(backend=backend)
    return model


def called(step: str, call: str, prepare: Callable[[Model, Counting], nn.Module]) -> Row:
    """Call the model twice: how many graphs were compiled, and whether the result equals eager mode's."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, backend, x = Model(), Counting(), torch.randn(2, 8)
    expected = model(x)
    used = prepare(model, backend)
    equal = all(torch.equal(used(x), expected) for _ in range(2))
    happened = "wrong" if not equal else "fine" if backend.graphs else "not compiled"
    return row(step, call, happened, evidence=f"graphs={backend.graphs}, equal_to_eager={equal}")


def run() -> list[Row]:
    """Rows: three ways to lose the result, two that keep it."""
    return [
        called("problem", "torch.compile(model); model(x)", problem_dropped),
        called("problem", "self = torch.compile(self)", problem_self),
        called("problem", "for child in model.children(): child = torch.compile(child)", problem_loop),
        called("fix", "model = torch.compile(model); model(x)", fix_by_keeping),
        called("fix", "model.compile(); model(x)", fix_in_place),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
