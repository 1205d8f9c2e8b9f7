# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""torch.allclose(compiled, eager) fails for a float32 sum, and both are right.

A sum of many terms depends on their order, and eager and Inductor add in different orders. The rounding error is in
proportion to the terms, while allclose allows for one in proportion to the result: where terms cancel, the result is
small and the tolerance too. The fix takes the tolerance from the terms and the truth from float64.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "wrong": the check refuses what is right, or accepts what is wrong; "fine": neither
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    error_compiled=, error_eager=: largest error against float64; failing=: sums that torch.isclose refuses;
                first_rung=: the first back end whose numbers differ from eager's
    status      "ok"
    note        ""
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Row = dict[str, Any]
Function = Callable[[torch.Tensor], torch.Tensor]

RUNGS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")

X = torch.randn(256, 20_000, generator=torch.Generator().manual_seed(0))


def f(x: torch.Tensor) -> torch.Tensor:
    """256 sums of terms that cancel."""
    return x.sum(dim=-1)


def problem(got: torch.Tensor) -> bool:
    """The usual check."""
    return torch.allclose(got, f(X))


def fix(got: torch.Tensor) -> bool:
    """Truth from float64, tolerance from the size of the terms."""
    tolerance = 1e-6 * X.abs().sum(dim=-1)
    return bool(((got.double() - f(X.double())).abs() <= tolerance).all())


def fix_sum_in_float64(x: torch.Tensor) -> torch.Tensor:
    """Where the sum itself has to be better, in both: add in float64."""
    return x.sum(dim=-1, dtype=torch.float64).float()


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


def attempt(step: str, call: str, function: Function, check: Callable[[torch.Tensor], bool]) -> Row:
    """Compile, and apply a check; it has to refuse a result that is wrong by a thousandth, too."""
    torch._dynamo.reset()
    got, truth = torch.compile(function)(X), f(X.double())
    right = check(got) and not check(got * 1.001)
    evidence = f"error_compiled={float((got.double() - truth).abs().max()):.1e}, "
    evidence += f"error_eager={float((function(X).double() - truth).abs().max()):.1e}"
    if step == "problem":
        evidence += f", failing={int((~torch.isclose(got, f(X))).sum())}/{len(got)}, first_rung={first_rung(f, X)}"
    row: Row = {"step": step, "call": call, "happened": "fine" if right else "wrong"}
    row |= {"raised_at": "" if right else "first call", "error": "", "message": ""}
    return row | {"evidence": evidence, "status": "ok", "note": ""}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    bound = "(torch.compile(f)(x) - f(x.double())).abs() <= 1e-6 * x.abs().sum(-1)"
    return [
        attempt("problem", "torch.allclose(torch.compile(f)(x), f(x))", f, problem),
        attempt("fix", bound, f, fix),
        attempt(
            "fix",
            "torch.compile(lambda x: x.sum(-1, dtype=torch.float64).float())(x)",
            fix_sum_in_float64,
            lambda got: torch.allclose(got, fix_sum_in_float64(X)),
        ),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
