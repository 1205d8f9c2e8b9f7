# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""The forward compiles, the call returns, and the error comes at the first backward.

AOTAutograd hands the backward graph to the back end only when the first backward runs. What the back end can't do there
is found then, outside a try that guards the first call alone. Here a back end of a few lines has no kernel for one
operator of the backward. The fixes rehearse one whole step inside the try, or have the backward compiled at once.

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
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

Row = dict[str, Any]
Gradients = Callable[[], torch.Tensor]

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def compile_graph(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """A compiler with one gap: it knows no gradient of relu."""
    for node in graph.graph.nodes:
        if "threshold_backward" in str(node.target):
            raise NotImplementedError(f"no kernel for {node.target}")
    return make_boxed_func(graph.forward)


with_a_gap = aot_autograd(fw_compiler=compile_graph, bw_compiler=compile_graph)


def make_model() -> nn.Module:
    """Shape (n, 4) in and out; the same weights each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU())


def problem(model: nn.Module) -> Any:
    """Fall back if the first call fails: it does not."""
    try:
        compiled = torch.compile(model, backend=with_a_gap)
        compiled(X)
    except Exception:
        return model
    return compiled


def fix(model: nn.Module) -> Any:
    """Rehearse a whole step, backward included, and fall back if any of it fails."""
    try:
        compiled = torch.compile(model, backend=with_a_gap)
        compiled(X).sum().backward()
    except Exception:
        return model
    finally:
        model.zero_grad()
    return compiled


def fix_at_once(model: nn.Module) -> Any:
    """Have the backward compiled together with the forward, so that the first call tells."""
    with torch._functorch.config.patch(force_non_lazy_backward_lowering=True):
        return problem(model)


def train_step(choose: Callable[[nn.Module], Any]) -> torch.Tensor:
    """Choose compiled or plain, run a step, and return the gradient of the first weight."""
    model = make_model()
    choose(model)(X).sum().backward()
    return model[0].weight.grad


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
    wanted = train_step(lambda model: model)
    at_once = "torch._functorch.config.force_non_lazy_backward_lowering = True; try: compiled(x)"
    return [
        attempt(
            "problem", "try: compiled(x)  # then: compiled(x).sum().backward()", lambda: train_step(problem), wanted
        ),
        attempt("fix", "try: compiled(x).sum().backward()", lambda: train_step(fix), wanted),
        attempt("fix", at_once, lambda: train_step(fix_at_once), wanted),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
