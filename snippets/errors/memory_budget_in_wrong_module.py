# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""activation_memory_budget belongs to torch._functorch.config, not to Dynamo's or Inductor's configuration.

An official blog post had it in torch._dynamo.config, and many copied the line. The attribute does not exist there, and
the configuration modules refuse names that they don't know. The fix sets it in the right one, and counts what is saved.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "error": it raised; "costly": not less is kept; "wrong": another gradient; "fine": neither
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    saved_kib=: tensors kept from forward to backward, without inputs and weights;
                saved_kib_without=: the same with the default
    status      "ok"
    note        ""
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

Row = dict[str, Any]

X = torch.linspace(-1, 1, 4096).reshape(64, 64)
W = torch.linspace(-1, 1, 4096).reshape(64, 64) / 8


def block(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Two products with something in between that the backward needs."""
    return torch.sigmoid(x @ w) @ w


def problem() -> None:
    """The line from the blog post."""
    torch._dynamo.config.activation_memory_budget = 0.5


def problem_as_option() -> None:
    """Nor is it an option of Inductor."""
    torch.compile(block, options={"activation_memory_budget": 0.5})


def fix(budget: float) -> Any:
    """The right module. patch() undoes it; an assignment stays for the whole process."""
    return torch._functorch.config.patch(activation_memory_budget=budget)


def saved_kib(setting: Any = None) -> tuple[float, torch.Tensor]:
    """Compile and run a step; KiB kept from forward to backward beside x and w, and the gradient of w."""
    torch._dynamo.reset()
    x, w = X.clone(), W.clone().requires_grad_()
    known = {t.untyped_storage().data_ptr() for t in (x, w)}
    kept: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with setting or nullcontext(), torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        y = torch.compile(block)(x, w)
        y.sum().backward()
    return sum(kept.values()) / 1024, w.grad


def attempt(step: str, call: str, setting: Callable[[], Any], raised_at: str = "") -> Row:
    """Set it in one way, and count what is saved with it and without."""
    row: Row = {"step": step, "call": call, "happened": "fine", "raised_at": "", "error": "", "message": ""}
    row |= {"evidence": "", "status": "ok", "note": ""}
    try:
        context = setting()
    except Exception as error:
        row |= {"happened": "error", "raised_at": raised_at, "error": type(error).__name__}
        return row | {"message": str(error).split(", known options")[0][:500]}
    before, wanted = saved_kib()
    after, gradient = saved_kib(context)
    if not torch.allclose(gradient, wanted, rtol=1e-4, atol=1e-5):
        row["happened"] = "wrong"
    elif after >= before:
        row["happened"] = "costly"
    return row | {"evidence": f"saved_kib={after:g}, saved_kib_without={before:g}"}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    right = "torch._functorch.config.activation_memory_budget = {}"
    return [
        attempt("problem", "torch._dynamo.config.activation_memory_budget = 0.5", problem),
        attempt(
            "problem",
            'torch.compile(f, options={"activation_memory_budget": 0.5})',
            problem_as_option,
            raised_at="torch.compile()",
        ),
        attempt("fix", right.format(0.5), lambda: fix(0.5)),
        attempt("fix", right.format(0.0), lambda: fix(0.0)),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
