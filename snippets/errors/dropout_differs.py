# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""Same seed, other dropout: a compiled model draws other random numbers than eager.

Inductor has a generator of its own, which can be fused into kernels; torch.manual_seed seeds it, but it draws other
numbers than eager's. Nothing is wrong: the distribution is the same. For a comparison let it use eager's generator,
or compare where nothing is random.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "wrong": other values than eager from the same seed; "fine": the same
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    differing=: values that differ; kept_compiled=, kept_eager=: share of values that are not zero;
                first_rung=: the first back end whose numbers differ from eager's
    status      "ok"
    note        ""
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Row = dict[str, Any]
Function = Callable[[torch.Tensor], torch.Tensor]

RUNGS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")

X = torch.ones(64, 64)


def problem(x: torch.Tensor) -> torch.Tensor:
    """Half of the values become zero, the others double."""
    return nn.functional.dropout(x, 0.5)


def fix(function: Function) -> Function:
    """For a comparison: eager's generator, one call for each random operator. Slower."""
    return torch.compile(function, options={"fallback_random": True})


def fix_in_eval_mode() -> nn.Module:
    """Or compare where there is no dropout."""
    return nn.Sequential(nn.Dropout(0.5), nn.GELU()).eval()


def first_rung(function: Function, x: torch.Tensor) -> str:
    """Name the first back end of the ladder whose numbers are not eager's, bit for bit."""
    torch.manual_seed(0)
    wanted = function(x)
    for backend in RUNGS:
        torch._dynamo.reset()
        torch.manual_seed(0)
        if not torch.equal(torch.compile(function, backend=backend)(x), wanted):
            return backend
    return "none"


def attempt(step: str, call: str, function: Function, compiled: Function) -> Row:
    """Run both from the same seed."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    wanted = function(X)
    torch.manual_seed(0)
    got = compiled(X)
    right = torch.allclose(got, wanted)
    evidence = f"differing={int((got != wanted).sum())}/{X.numel()}, "
    evidence += (
        f"kept_compiled={float((got != 0).float().mean()):.2f}, kept_eager={float((wanted != 0).float().mean()):.2f}"
    )
    if step == "problem":
        evidence += f", first_rung={first_rung(function, X)}"
    row: Row = {"step": step, "call": call, "happened": "fine" if right else "wrong"}
    row |= {"raised_at": "" if right else "first call", "error": "", "message": ""}
    return row | {"evidence": evidence, "status": "ok", "note": ""}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    model = fix_in_eval_mode()
    return [
        attempt("problem", "torch.manual_seed(0); torch.compile(F.dropout)(x, 0.5)", problem, torch.compile(problem)),
        attempt("fix", 'torch.compile(f, options={"fallback_random": True})', problem, fix(problem)),
        attempt("fix", "torch.compile(model.eval())(x)", model, torch.compile(model)),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
