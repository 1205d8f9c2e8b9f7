# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""backward(retain_graph=True) fails once Inductor's backward was compiled to reuse what the forward saved.

The backward may write into saved tensors ("donated buffers"), because after it nobody needs them. With
retain_graph=True somebody does, so a backward that was compiled to reuse them is refused. The fixes run one backward
for all losses, or switch donation off and compile afresh.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "error": it raised; "wrong": the gradient is not eager's; "fine": it is
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    max_difference=: largest difference of the gradient from eager's
    status      "ok"
    note        ""
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

Row = dict[str, Any]
Gradients = Callable[[], torch.Tensor]

X = torch.linspace(-1, 1, 32).reshape(4, 8)


def make_model() -> nn.Module:
    """Shape (n, 8) in and out; the same weights each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))


def problem(model: nn.Module, compiled: Callable[..., Any]) -> torch.Tensor:
    """An ordinary step first, then one with two backward passes over the same outputs."""
    compiled(X).sum().backward()
    model.zero_grad()
    y = compiled(X)
    y.sum().backward(retain_graph=True)
    y.pow(2).sum().backward()
    return model[0].weight.grad


def fix(model: nn.Module, compiled: Callable[..., Any]) -> torch.Tensor:
    """Add the losses: one backward, and nothing to retain."""
    compiled(X).sum().backward()
    model.zero_grad()
    y = compiled(X)
    (y.sum() + y.pow(2).sum()).backward()
    return model[0].weight.grad


def fix_without_donation(model: nn.Module, compiled: Callable[..., Any]) -> torch.Tensor:
    """Switch donation off before anything is compiled, and compile afresh: the cache may hold the donating code."""
    with torch._functorch.config.patch(donated_buffer=False), torch._inductor.config.patch(force_disable_caches=True):
        return problem(model, compiled)


def when(error: Exception) -> str:
    """Tell which of your calls raised: a backward, or the call of the compiled function."""
    inside = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    theirs = (path for path in inside if "torch" in path.parts and path.name != Path(__file__).name)
    entered = next(theirs, inside[-1])
    return "backward" if entered.name == "_tensor.py" or "autograd" in entered.parts else "first call"


def attempt(step: str, call: str, gradient: Gradients, wanted: torch.Tensor) -> Row:
    """Compute a gradient in one way, and compare it with eager's."""
    torch._dynamo.reset()
    row: Row = {"step": step, "call": call, "happened": "fine", "raised_at": "", "error": "", "message": ""}
    row |= {"evidence": "", "status": "ok", "note": ""}
    try:
        difference = float((gradient() - wanted).abs().max())
    except Exception as error:
        text = re.sub(r"[\w./+-]+/(?=\w+\.py\b)", "", str(error))
        return row | {
            "happened": "error",
            "raised_at": when(error),
            "error": type(error).__name__,
            "message": text[:500],
        }
    row["happened"] = "fine" if difference <= 1e-5 else "wrong"
    return row | {"evidence": f"max_difference={difference:.1e}"}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    plain = make_model()
    wanted = problem(plain, plain)

    def with_inductor(way: Callable[..., torch.Tensor]) -> torch.Tensor:
        model = make_model()
        return way(model, torch.compile(model))

    retained = "y = compiled(x); y.sum().backward(retain_graph=True)"
    off = f"torch._functorch.config.donated_buffer = False  # and no cache; {retained}"
    return [
        attempt("problem", f"compiled(x).sum().backward(); {retained}", lambda: with_inductor(problem), wanted),
        attempt("fix", "y = compiled(x); (y.sum() + y.pow(2).sum()).backward()", lambda: with_inductor(fix), wanted),
        attempt("fix", off, lambda: with_inductor(fix_without_donation), wanted),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
