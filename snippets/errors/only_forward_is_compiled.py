# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""torch.compile(model) compiles forward; any other method runs as before.

model.generate(), model.encode(), model.loss(): the wrapper hands them to the original object, and nothing is said. The
fix compiles the method that is called, in place or through a function around it.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "not compiled": no graph was captured; "wrong": not what the plain model gives; "fine"
    raised_at   when it showed
    error       ""
    message     "": nothing is said
    evidence    graphs=: graphs that Dynamo captured
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

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Model(nn.Module):
    """A model whose users call encode()."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (n, 4) in, (n,) out."""
        return self.encode(x).sum(-1)

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (n, 4) in and out."""
        return torch.tanh(self.linear(x))


def problem(model: Model) -> Any:
    """Compile the model, and hope that encode() is in it."""
    return torch.compile(model, backend="eager")


def fix_method(model: Model) -> Any:
    """Compile the method that is called."""
    model.encode = torch.compile(model.encode, backend="eager")  # type: ignore[method-assign]
    return model


def fix_outside(model: Model) -> Callable[..., Any]:
    """Compile a function that calls it: for a model that you don't want to change."""
    return torch.compile(lambda x: model.encode(x), backend="eager")


def attempt(step: str, call: str, use: Callable[[Model], torch.Tensor]) -> Row:
    """Use a model, and count the graphs."""
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    model = Model()
    wanted = model.encode(X)
    same = torch.allclose(use(model), wanted)
    graphs = counters["stats"]["unique_graphs"]
    happened = "wrong" if not same else "fine" if graphs else "not compiled"
    row: Row = {
        "step": step,
        "call": call,
        "happened": happened,
        "raised_at": "" if happened == "fine" else "first call",
    }
    return row | {"error": "", "message": "", "evidence": f"graphs={graphs}", "status": "ok", "note": ""}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [
        attempt("problem", 'torch.compile(model, backend="eager").encode(x)', lambda model: problem(model).encode(X)),
        attempt(
            "fix",
            'model.encode = torch.compile(model.encode, backend="eager"); model.encode(x)',
            lambda model: fix_method(model).encode(X),
        ),
        attempt(
            "fix",
            'torch.compile(lambda x: model.encode(x), backend="eager")(x)',
            lambda model: fix_outside(model)(X),
        ),
    ]


def main() -> None:
    """Run it and print what happened."""
    for row in run():
        print(f"{row['step']:8}{row['happened']:13}{row['call']}")
        print("".join(f"{'':21}{row[name]}\n" for name in ("message", "evidence") if row[name]))


if __name__ == "__main__":
    main()
