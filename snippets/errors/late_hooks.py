# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""Hooks on a compiled model: one that is added after the first call does not run.

Hooks on submodules are captured with the graph. By default a guard watches those that were there, and not the places
that were empty. A full backward hook on the wrapper itself never runs.

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


class Model(nn.Module):
    """One layer that hooks are put on."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        return torch.relu(self.layer(x))


def ten_times(module: nn.Module, inputs: Any, output: torch.Tensor) -> torch.Tensor:
    """A forward hook that changes the result, so that one sees whether it ran."""
    return output * 10


def problem_added(model: Model, x: torch.Tensor) -> torch.Tensor:
    """The hook comes after the first call."""
    compiled = torch.compile(model, backend="eager")
    compiled(x)
    model.layer.register_forward_hook(ten_times)
    return compiled(x)


def fix_removed(model: Model, x: torch.Tensor) -> torch.Tensor:
    """A hook that was there at the first call is watched: that it is gone is noticed."""
    compiled = torch.compile(model, backend="eager")
    handle = model.layer.register_forward_hook(ten_times)
    compiled(x)
    handle.remove()
    return compiled(x)


def problem_backward_hook(model: Model, x: torch.Tensor) -> list[str]:
    """A full backward hook on what torch.compile returned."""
    ran: list[str] = []
    compiled = torch.compile(model, backend="eager")
    compiled.register_full_backward_hook(lambda module, grad_input, grad_output: ran.append("hook"))
    compiled(x).sum().backward()
    return ran


def fix_by_order(model: Model, x: torch.Tensor) -> torch.Tensor:
    """Hooks first, then the first call."""
    compiled = torch.compile(model, backend="eager")
    model.layer.register_forward_hook(ten_times)
    return compiled(x)


def fix_by_reset(model: Model, x: torch.Tensor) -> torch.Tensor:
    """A hook that comes later: forget what is compiled."""
    compiled = torch.compile(model, backend="eager")
    compiled(x)
    model.layer.register_forward_hook(ten_times)
    torch._dynamo.reset()
    return compiled(x)


def fix_by_guards(model: Model, x: torch.Tensor) -> torch.Tensor:
    """Have Dynamo look at the hooks at every call."""
    with torch._dynamo.config.patch(skip_nnmodule_hook_guards=False):
        return problem_added(model, x)


def fix_backward_hook(model: Model, x: torch.Tensor) -> list[str]:
    """The hook on the model itself."""
    ran: list[str] = []
    compiled = torch.compile(model, backend="eager")
    model.register_full_backward_hook(lambda module, grad_input, grad_output: ran.append("hook"))
    compiled(x).sum().backward()
    return ran


def compared(step: str, call: str, raised_at: str, use: Callable[[Model, torch.Tensor], Any], hooked: bool) -> Row:
    """Use a fresh model: whether the result is what eager mode gives with (or without) the hook."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = Model(), torch.randn(2, 8)
    layer = model.layer(x)
    expected = torch.relu(layer * 10 if hooked else layer)
    seen = use(model, x)
    if isinstance(seen, list):
        right, evidence = len(seen) == 1, f"hook_calls={len(seen)}, expected=1"
    else:
        right = torch.equal(seen, expected)
        evidence = f"equal_to_eager={right}"
    return row(step, call, "fine" if right else "wrong", "" if right else raised_at, evidence=evidence)


def run() -> list[Row]:
    """Rows: a hook too late, a backward hook on the wrapper; then what works."""
    late = "compiled(x); model.layer.register_forward_hook(hook)"
    return [
        compared("problem", f"{late}; compiled(x)", "later call", problem_added, True),
        compared("problem", "compiled.register_full_backward_hook(hook)", "backward", problem_backward_hook, True),
        compared("fix", "model.layer.register_forward_hook(hook); compiled(x)", "", fix_by_order, True),
        compared("fix", "compiled(x); handle.remove(); compiled(x)", "later call", fix_removed, False),
        compared("fix", f"{late}; torch._dynamo.reset(); compiled(x)", "", fix_by_reset, True),
        compared("fix", "torch._dynamo.config.skip_nnmodule_hook_guards = False", "", fix_by_guards, True),
        compared("fix", "model.register_full_backward_hook(hook)", "", fix_backward_hook, True),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
