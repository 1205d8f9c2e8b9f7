# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""torch.compile with DistributedDataParallel makes several graphs out of one, on purpose.

Dynamo's DDPOptimizer cuts the graph where DDP's gradient buckets end, so that one bucket can be sent while the next is
computed. Counted with a group of one process, over gloo.

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

import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

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


class Counting:
    """A back end that counts the graphs it is given and runs them as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        """Count one graph."""
        self.graphs += 1
        return graph.forward


class Model(nn.Module):
    """Four layers of 1 MiB each."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(512, 512) for _ in range(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer after the other."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def problem(model: nn.Module, backend: Counting) -> nn.Module:
    """Nothing in the model breaks the graph."""
    return torch.compile(DistributedDataParallel(model), backend=backend)


def problem_small_buckets(model: nn.Module, backend: Counting) -> nn.Module:
    """The smaller the buckets, the more graphs."""
    return torch.compile(DistributedDataParallel(model, bucket_cap_mb=1), backend=backend)


def fix(model: nn.Module, backend: Counting) -> nn.Module:
    """One graph; gradients are then sent after the whole backward."""
    torch._dynamo.config.optimize_ddp = False
    return torch.compile(DistributedDataParallel(model), backend=backend)


def reason_of_break() -> str:
    """What explain() says of the cuts."""
    torch._dynamo.reset()
    explained = torch._dynamo.explain(DistributedDataParallel(Model(), bucket_cap_mb=1))(torch.randn(2, 512))
    return str(explained.break_reasons[0].reason) if explained.break_reasons else ""


def counted(step: str, call: str, wrap: Callable[[nn.Module, Counting], nn.Module]) -> Row:
    """One training step: how many graphs, and whether the gradients equal those without any wrapper."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, backend, x = Model(), Counting(), torch.randn(2, 512)
    model(x).sum().backward()
    expected = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    with torch._dynamo.config.patch(optimize_ddp=True):
        wrap(model, backend)(x).sum().backward()
    equal = all(torch.allclose(p.grad, e) for p, e in zip(model.parameters(), expected, strict=True))
    evidence = f"graphs={backend.graphs}, same_gradients={equal}"
    if not equal:
        return row(step, call, "wrong", "backward", evidence=evidence)
    if not backend.graphs:
        return row(step, call, "not compiled", "first call", evidence=evidence)
    return row(step, call, "fine" if backend.graphs == 1 else "costly", "", evidence=evidence)


def explained() -> Row:
    """The same, asked of explain()."""
    reason = reason_of_break()
    call = "torch._dynamo.explain(DistributedDataParallel(model, bucket_cap_mb=1))(x)"
    return row("problem", call, "costly" if reason else "fine", message=reason)


def run() -> list[Row]:
    """Rows: DDP as it is, DDP with small buckets, and without the optimiser that cuts the graph."""
    if not (distributed.is_available() and distributed.is_gloo_available()):
        missing = row("problem", "torch.compile(DistributedDataParallel(model))(x)", "fine")
        return [{**missing, "step": step, **NOT_HERE} for step in ("problem", "fix")]
    with tempfile.TemporaryDirectory() as folder:
        store = distributed.FileStore(f"{folder}/store", 1)
        distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        try:
            return [
                counted("problem", "torch.compile(DistributedDataParallel(model))(x)", problem),
                counted(
                    "problem",
                    "torch.compile(DistributedDataParallel(model, bucket_cap_mb=1))(x)",
                    problem_small_buckets,
                ),
                explained(),
                counted("fix", "torch._dynamo.config.optimize_ddp = False", fix),
            ]
        finally:
            distributed.destroy_process_group()


NOT_HERE = {"happened": "", "status": "not measured", "note": "torch.distributed with gloo is not in this build"}


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
