# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""`eager` and `aot_eager` chosen for speed: they run the same operators as without compiling, one after another.

Operators are counted by the profiler of autograd in one call, after the call that compiles. Wrapping operators, views
and the making of empty tensors are not among those of this function.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "not compiled" where no operator is saved
    raised_at          ""
    error, message     ""; the problem is silent
    evidence           operators of PyTorch that one call runs, compiled and plain
    status, note       "ok", ""
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


def f(x: torch.Tensor) -> torch.Tensor:
    """Five pointwise operators, which can be one kernel."""
    return x.sin().cos().tanh().exp().neg()


def problem(backend: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Compile with a back end that is made for finding errors."""
    return torch.compile(f, backend=backend)


def fix() -> Callable[[torch.Tensor], torch.Tensor]:
    """Compile with the default back end, which makes kernels."""
    return torch.compile(f)


def operators(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> int:
    """Operators of PyTorch that one call runs."""
    function(x)
    with torch.autograd.profiler.profile(use_kineto=False) as profile:
        function(x)
    return sum(event.name.startswith("aten::") for event in profile.function_events)


def judge(step: str, call: str, compiled: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Row:
    """Count operators of the compiled and the plain function, and compare the results."""
    ours, plain = operators(compiled, x), operators(f, x)
    right = torch.allclose(compiled(x), f(x), atol=1e-6)
    happened = "wrong" if not right else "not compiled" if ours >= plain else "fine"
    return row(step, call, happened, evidence=f"operators={ours}, plain={plain}")


@torch.no_grad()
def run() -> list[Row]:
    """Count what runs under the two back ends for finding errors, and under the default."""
    x, rows = torch.randn(64, 64), []
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        rows.append(judge("problem", f'torch.compile(f, backend="{backend}")(x)', problem(backend), x))
    torch._dynamo.reset()
    return [*rows, judge("fix", "torch.compile(f)(x)", fix(), x)]


def main() -> None:
    """Print the rows."""
    for made in run():
        print(f"{made['step']:9}{made['happened']:14}{made['call']}")
        for name in ("error", "message", "evidence", "note"):
            if made[name]:
                print(f"{'':9}{name}: {made[name]}")


if __name__ == "__main__":
    main()
