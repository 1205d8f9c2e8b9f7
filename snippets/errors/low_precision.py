# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""In bfloat16 a compiled function gives other numbers than eager, and usually better ones.

Uncompiled, every operator rounds its result to bfloat16. Inductor fuses the operators and keeps what is between them in
float32, so it rounds once. The fix compares both with float64. To find a fault elsewhere, make Inductor round as eager
does: TORCHINDUCTOR_EMULATE_PRECISION_CASTS=1 (on torch 2.11 it doesn't make a CPU's results equal).

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "wrong": the check fails; "fine": it passes
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    differing=: values that are not eager's bit for bit;
                error_compiled=, error_eager=: largest error against float64, relative to the largest value;
                first_rung=: the first back end whose numbers differ from eager's
    status      "ok", or "not measured" where this torch heeds a setting only in part
    note        "", or why
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Row = dict[str, Any]
Function = Callable[[torch.Tensor], torch.Tensor]

RUNGS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")

X = torch.linspace(-1, 1, 4096).bfloat16()


def f(x: torch.Tensor) -> torch.Tensor:
    """Products and sums, which every processor rounds alike."""
    for _ in range(4):
        x = x * x * 0.5 + x
    return x


def problem(got: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Compare with eager as if it were the truth."""
    return torch.allclose(got, wanted)


def fix(got: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Compare with float64: compiled may err as much as eager, and not more."""
    return error_of(got) <= error_of(wanted)


def error_of(result: torch.Tensor) -> float:
    """Largest error against float64, relative to the largest value."""
    truth = f(X.double())
    return float((result.double() - truth).abs().max() / truth.abs().max())


def fix_for_debugging() -> torch.Tensor:
    """Have Inductor round after every operator, as eager does: slower, for comparing only."""
    with torch._inductor.config.patch(emulate_precision_casts=True):
        return torch.compile(f)(X)


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


def attempt(step: str, call: str, got: torch.Tensor, check: Callable[..., bool]) -> Row:
    """Apply a check to a compiled result and eager's."""
    wanted = f(X)
    right = check(got, wanted)
    evidence = f"differing={int((got != wanted).sum())}/{X.numel()}, "
    evidence += f"error_compiled={error_of(got):.1e}, error_eager={error_of(wanted):.1e}"
    if step == "problem":
        evidence += f", first_rung={first_rung(f, X)}"
    row: Row = {"step": step, "call": call, "happened": "fine" if right else "wrong"}
    row |= {"raised_at": "" if right else "first call", "error": "", "message": ""}
    return row | {"evidence": evidence, "status": "ok", "note": ""}


def in_part(row: Row) -> Row:
    """Mark the row of a setting that older versions have, and heed only in part."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if row["happened"] == "fine" or version >= (2, 13):
        return row
    return row | {"status": "not measured", "note": "On this torch the setting does not reach every operator on a CPU."}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    torch._dynamo.reset()
    compiled = torch.compile(f)(X)
    torch._dynamo.reset()
    emulated = fix_for_debugging()
    return [
        attempt("problem", "torch.allclose(torch.compile(f)(x), f(x))  # bfloat16", compiled, problem),
        attempt("fix", "error(torch.compile(f)(x), f(x.double())) <= error(f(x), f(x.double()))", compiled, fix),
        in_part(attempt("fix", "torch._inductor.config.emulate_precision_casts = True", emulated, torch.equal)),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
