# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""donated_buffer=False, set as the error message advises, and the gradient is wrong without a word.

The message is "This backward function was compiled with non-empty donated buffers". Inductor's cache on disk finds a
backward graph by its text and the settings of Inductor; donated_buffer belongs to another module and is not among them.
Where the same graph was compiled with donation before, that code is taken: it writes into saved tensors, and the check
that would have refused is off. The fixes: one backward for all losses, or an empty cache once.

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

import os
import re
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

Row = dict[str, Any]
Gradients = Callable[[], torch.Tensor]

X = torch.linspace(-1, 1, 32).reshape(4, 8)


def make_model() -> nn.Module:
    """Shape (n, 8) in and out; the same weights each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))


def two_backwards(model: nn.Module, compiled: Callable[..., Any]) -> torch.Tensor:
    """Two backward passes over the same outputs."""
    y = compiled(X)
    y.sum().backward(retain_graph=True)
    y.pow(2).sum().backward()
    return model[0].weight.grad


def an_ordinary_run() -> None:
    """What an earlier run leaves in the cache: a backward compiled with donation."""
    torch.compile(make_model())(X).sum().backward()
    torch._dynamo.reset()


def problem() -> torch.Tensor:
    """Do as the message says."""
    with torch._functorch.config.patch(donated_buffer=False):
        model = make_model()
        return two_backwards(model, torch.compile(model))


def fix() -> torch.Tensor:
    """Do as the message says, with a cache that has not seen this model. (A folder of its own stays useful.)"""
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": folder}):
        return problem()


def fix_with_one_backward() -> torch.Tensor:
    """Add the losses, and leave the setting alone."""
    model = make_model()
    y = torch.compile(model)(X)
    (y.sum() + y.pow(2).sum()).backward()
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
    plain = make_model()
    wanted = two_backwards(plain, plain)
    an_ordinary_run()
    setting = "torch._functorch.config.donated_buffer = False"
    return [
        attempt(
            "problem", f"{setting}; y.sum().backward(retain_graph=True); y.pow(2).sum().backward()", problem, wanted
        ),
        attempt("fix", f'os.environ["TORCHINDUCTOR_CACHE_DIR"] = new_folder; {setting}', fix, wanted),
        attempt("fix", "(y.sum() + y.pow(2).sum()).backward()", fix_with_one_backward, wanted),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
