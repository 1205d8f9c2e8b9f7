# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""A back end that runs the graph outside of autograd gives right outputs and no gradient.

Dynamo's graph runs under autograd like any other code. A back end that computes elsewhere (another runtime, NumPy, a
session under no_grad) returns tensors without a history, and torch doesn't check. The fix, for an author: put the back
end behind aot_autograd, which traces the backward and hands it over too. For a user: a back end that has done so.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "error": it raised; "wrong": the gradient is not eager's; "fine": it is
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    max_difference=: largest difference of the gradient from eager's (no gradient counts as zero)
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
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

Row = dict[str, Any]
Gradients = Callable[[], torch.Tensor]

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def problem(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """A back end for inference only, as if the graph ran in another runtime."""

    def run_elsewhere(*tensors: torch.Tensor) -> Any:
        with torch.no_grad():
            return graph(*tensors)

    return run_elsewhere


def fix(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """The same runtime, behind AOTAutograd: it gets the forward and the backward as graphs of their own."""

    def compiler(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        return make_boxed_func(problem(graph, inputs))

    return aot_autograd(fw_compiler=compiler, bw_compiler=compiler)(graph, inputs)


def make_model() -> nn.Module:
    """Shape (n, 4) in, (n, 1) out; the same weights each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 1))


def train_step(backend: Any) -> torch.Tensor:
    """One step; the gradient of the first weight."""
    model = make_model()
    y = torch.compile(model, backend=backend)(X) if backend else model(X)
    y.sum().backward()
    return model[0].weight.grad


def frozen_part(backend: Any) -> torch.Tensor:
    """The compiled part feeds a layer that is not compiled: no error, and nothing reaches the part's weights."""
    model = make_model()
    body, head = model[:2], model[2]
    body_out = torch.compile(body, backend=backend)(X) if backend else body(X)
    head(body_out).sum().backward()
    gradient = body[0].weight.grad
    return torch.zeros_like(body[0].weight) if gradient is None else gradient


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
    whole, part = train_step(None), frozen_part(None)
    step, in_part = (
        "torch.compile(model, backend={})(x).sum().backward()",
        "head(torch.compile(body, backend={})(x)).sum().backward()",
    )
    return [
        attempt("problem", step.format("inference_only"), lambda: train_step(problem), whole),
        attempt("problem", in_part.format("inference_only"), lambda: frozen_part(problem), part),
        attempt("fix", step.format("behind_aot_autograd"), lambda: train_step(fix), whole),
        attempt("fix", in_part.format("behind_aot_autograd"), lambda: frozen_part(fix), part),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
