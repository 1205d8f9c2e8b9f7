# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""Inductor's freezing turns weights into constants: weights that are loaded later have no effect, in silence.

torch._inductor.config.freezing (TORCHINDUCTOR_FREEZING=1) is for inference with weights that stay.

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
import torch._inductor.config
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


def make_model(seed: int) -> nn.Sequential:
    """A small model; the seed tells one set of weights from another."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()


def problem(model: nn.Module, weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Load new weights into a model that was compiled with freezing."""
    torch._inductor.config.freezing = True
    compiled = torch.compile(model)
    compiled(x)
    model.load_state_dict(weights)
    return compiled(x)


def fix_by_compiling_again(model: nn.Module, weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Forget what was compiled: the next call freezes the new weights."""
    torch._inductor.config.freezing = True
    compiled = torch.compile(model)
    compiled(x)
    model.load_state_dict(weights)
    torch._dynamo.reset()
    return compiled(x)


def fix_without_freezing(model: nn.Module, weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Without freezing the weights are inputs of the graph."""
    compiled = torch.compile(model)
    compiled(x)
    model.load_state_dict(weights)
    return compiled(x)


def updated(step: str, call: str, use: Callable[..., torch.Tensor]) -> Row:
    """Load new weights after the first call: whether the next call gives what eager mode gives with them."""
    torch._dynamo.reset()
    model, weights, x = make_model(0), make_model(1).state_dict(), torch.randn(2, 8)
    with torch.no_grad(), torch._inductor.config.patch(freezing=False):
        before = model(x)
        seen = use(model, weights, x)
        equal = torch.allclose(seen, model(x), atol=1e-6)
    evidence = f"equal_to_eager={equal}, equal_to_old_weights={torch.allclose(seen, before, atol=1e-6)}"
    return row(step, call, "fine" if equal else "wrong", "" if equal else "later call", evidence=evidence)


def run() -> list[Row]:
    """Rows: new weights with freezing, compiled again, and without freezing."""
    load = "compiled(x); model.load_state_dict(new)"
    return [
        updated("problem", f"torch._inductor.config.freezing = True; {load}; compiled(x)", problem),
        updated("fix", f"{load}; torch._dynamo.reset(); compiled(x)", fix_by_compiling_again),
        updated("fix", f"torch._inductor.config.freezing = False; {load}; compiled(x)", fix_without_freezing),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
