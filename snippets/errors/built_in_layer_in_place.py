# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""layer.compile() on a layer of torch.nn itself compiles nothing (until torch 2.14).

Dynamo leaves frames of PyTorch's own files alone, and there is no other frame: nn.Linear, nn.Sequential and
nn.TransformerEncoderLayer run as before, and nothing is said. fullgraph=True says it, from torch 2.13. The fix is
torch.compile(layer), which puts a frame of its own around, or a class of your own with the layers inside.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "not compiled": no graph was captured; "error"; "wrong": not what the plain layer gives; "fine"
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    graphs=: graphs that Dynamo captured
    status      "ok"
    note        ""
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._dynamo.utils import counters

Row = dict[str, Any]

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Mine(nn.Module):
    """Layers of torch.nn in a class of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (n, 4) in and out."""
        return self.layers(x)


def problem(layer: nn.Module, **how: Any) -> Callable[..., Any]:
    """Compile in place: keys of the state dict keep their names."""
    layer.compile(backend="eager", **how)
    return layer


def fix(layer: nn.Module) -> Callable[..., Any]:
    """Wrap."""
    return torch.compile(layer, backend="eager")


def attempt(step: str, call: str, layer: nn.Module, make: Callable[[nn.Module], Callable[..., Any]]) -> Row:
    """Compile a layer, call it, and count."""
    torch._dynamo.reset()
    counters.clear()
    wanted = copy.deepcopy(layer)(X)
    row: Row = {"step": step, "call": call, "happened": "fine", "raised_at": "", "error": "", "message": ""}
    row |= {"evidence": "", "status": "ok", "note": ""}
    try:
        same = torch.allclose(make(layer)(X), wanted)
    except Exception as error:
        text = re.sub(r"[\w./+-]+/(?=\w+\.py\b)", "", str(error))
        row |= {"happened": "error", "raised_at": "first call", "error": type(error).__name__, "message": text[:500]}
        return row | {"evidence": f"graphs={counters['stats']['unique_graphs']}"}
    graphs = counters["stats"]["unique_graphs"]
    row["happened"] = "wrong" if not same else "fine" if graphs else "not compiled"
    row["raised_at"] = "" if row["happened"] == "fine" else "first call"
    return row | {"evidence": f"graphs={graphs}"}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    linear, sequential = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    line = 'layer.compile(backend="eager"{}); layer(x)'
    return [
        attempt("problem", f"layer = nn.Linear(4, 4); {line.format('')}", copy.deepcopy(linear), problem),
        attempt("problem", f"layer = nn.Sequential(...); {line.format('')}", copy.deepcopy(sequential), problem),
        attempt(
            "problem",
            f"layer = nn.Linear(4, 4); {line.format(', fullgraph=True')}",
            copy.deepcopy(linear),
            lambda layer: problem(layer, fullgraph=True),
        ),
        attempt("fix", 'torch.compile(nn.Linear(4, 4), backend="eager")(x)', copy.deepcopy(linear), fix),
        attempt("fix", f"layer = Mine(); {line.format('')}", Mine(), problem),
    ]


def main() -> None:
    """Run it and print what happened."""
    for row in run():
        print(f"{row['step']:8}{row['happened']:13}{row['call']}")
        print("".join(f"{'':21}{row[name]}\n" for name in ("message", "evidence") if row[name]))


if __name__ == "__main__":
    main()
