# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""``metrics.generated_kernel_count`` is not the number of kernels on a CPU: it counts loop nests that were tried, too.

The truth is in the code that Inductor writes: how many C++ kernels it defines.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "wrong" where what is told is not what is left after fusion
    raised_at          ""
    error, message     ""; the problem is silent
    evidence           what is told; what the scheduler had left after fusion
    status, note       "ok", ""
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import config, metrics
from torch._inductor.utils import run_and_get_code

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


def f(x: torch.Tensor) -> torch.Tensor:
    """Softmax and layer norm, which fuse into one kernel."""
    return torch.nn.functional.layer_norm(torch.softmax(x, -1), (x.shape[-1],)).sin()


def problem() -> int:
    """Read the counter."""
    return int(metrics.generated_kernel_count)


def fix(code: str) -> int:
    """Count the kernels that the code defines: Triton's on a GPU, C++ on a CPU."""
    return code.count("async_compile.cpp_pybinding(") + code.count("async_compile.triton(")


@torch.no_grad()
def run() -> list[Row]:
    """Compile once and count in both ways; a hook after fusion tells the number of nodes that are left."""
    torch._dynamo.reset()
    metrics.reset()
    nodes: list[int] = []

    def after_fusion(left: list[Any]) -> list[Any]:
        nodes.append(len(left))
        return left

    x = torch.randn(64, 256)
    with config.patch(_post_fusion_custom_pass=after_fusion, fx_graph_cache=False):
        y, codes = run_and_get_code(torch.compile(f), x)
    right = torch.allclose(y, f(x), atol=1e-5)
    rows = []
    for step, call, told in (
        ("problem", "torch.compile(f)(x); torch._inductor.metrics.generated_kernel_count", problem()),
        (
            "fix",
            'run_and_get_code(torch.compile(f), x)[1][0].count("async_compile.cpp_pybinding(")',
            fix("\n".join(codes)),
        ),
    ):
        happened = "fine" if right and told == sum(nodes) else "wrong"
        rows.append(row(step, call, happened, evidence=f"told={told}, nodes_after_fusion={sum(nodes)}"))
    return rows


def main() -> None:
    """Print the rows."""
    for made in run():
        print(f"{made['step']:9}{made['happened']:14}{made['call']}")
        for name in ("error", "message", "evidence", "note"):
            if made[name]:
                print(f"{'':9}{name}: {made[name]}")


if __name__ == "__main__":
    main()
