# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""The fast path of nn.TransformerEncoderLayer hides the layer from every back end: in inference it is one operator.

The operators of the graph that AOTAutograd hands on are counted; what is one operator, no back end can fuse.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "not compiled" where the back end got a single operator
    raised_at          ""
    error, message     ""; the problem is silent
    evidence           operators and graphs that the back end got
    status, note       "ok", ""
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


def problem(layer: nn.Module, backend: Any) -> Any:
    """Compile the layer for inference as it is."""
    return torch.compile(layer.eval(), backend=backend)


def fix(layer: nn.Module, backend: Any) -> Any:
    """Switch the fast path off, so that the layer is traced as the operators it is made of."""
    torch.backends.mha.set_fastpath_enabled(False)
    return torch.compile(layer.eval(), backend=backend)


def judge(step: str, call: str, prepare: Callable[..., Any]) -> Row:
    """Compile a layer, count the operators that the back end got, and compare with the layer not compiled."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    found: list[int] = []

    def count(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        found.append(sum(node.op == "call_function" for node in graph.graph.nodes))
        return make_boxed_func(graph.forward)

    layer, x = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True).eval(), torch.randn(2, 8, 32)
    wanted = layer(x)
    before = torch.backends.mha.get_fastpath_enabled()
    try:
        y = prepare(layer, aot_autograd(fw_compiler=count))(x)
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    operators = sum(found)
    right = torch.allclose(y, wanted, atol=1e-5)
    happened = "wrong" if not right else "fine" if operators > 1 else "not compiled"
    return row(step, call, happened, evidence=f"operators={operators}, graphs={len(found)}")


@torch.no_grad()
def run() -> list[Row]:
    """Compile the layer with and without the fast path."""
    call = "torch.compile(layer.eval(), backend=backend)(x)"
    return [
        judge("problem", call, problem),
        judge("fix", f"torch.backends.mha.set_fastpath_enabled(False); {call}", fix),
    ]


def main() -> None:
    """Print the rows."""
    for made in run():
        print(f"{made['step']:9}{made['happened']:14}{made['call']}")
        for name in ("error", "message", "evidence", "note"):
            if made[name]:
                print(f"{'':9}{name}: {made[name]}")


if __name__ == "__main__":
    main()
