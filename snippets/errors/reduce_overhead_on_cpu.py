# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""`mode="reduce-overhead"` with tensors on the CPU: CUDA graphs are left out, and nothing is said.

So the example of an overwritten output in the documentation raises nothing on a CPU: both outputs are kept. The
tensors are on the CPU here, also where the machine has a GPU.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "not compiled" where CUDA graphs were left out
    raised_at          ""
    error, message     what was logged about CUDA graphs; "" is the trap
    evidence           times that CUDA graphs were left out; whether the first output outlived the second call
    status, note       "ok", ""
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dynamo.utils import counters

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


def f(x: torch.Tensor) -> torch.Tensor:
    """A matrix product and ReLU."""
    return torch.relu(x @ x)


def problem() -> Callable[[torch.Tensor], torch.Tensor]:
    """Ask for CUDA graphs without asking where the tensors are."""
    return torch.compile(f, mode="reduce-overhead")


def fix(x: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Ask for CUDA graphs on a GPU only; on a CPU the default mode is the same."""
    return torch.compile(f, mode="reduce-overhead" if x.is_cuda else "default")


class Listener(logging.Handler):
    """Keeps what torch logs about CUDA graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message, without the place it came from, which is a path of this machine."""
        self.heard.append(record.getMessage().partition(". Found from")[0])


@contextlib.contextmanager
def listening() -> Iterator[Listener]:
    """Listen while this lasts."""
    listener, logger = Listener(), logging.getLogger("torch._inductor.cudagraph_utils.__cudagraphs")
    logger.addHandler(listener)
    try:
        yield listener
    finally:
        logger.removeHandler(listener)


def judge(step: str, call: str, compiled: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Row:
    """Keep the first output over a second call; tell what was logged and whether CUDA graphs were left out."""
    counters.clear()
    with listening() as listener:
        first = compiled(x)
        second = compiled(2 * x)
    kept = torch.allclose(first, f(x), atol=1e-5)
    right = kept and torch.allclose(second, f(2 * x), atol=1e-4)
    skips, said = counters["inductor"]["cudagraph_skips"], "\n".join(listener.heard)
    happened = "wrong" if not right else "warning" if said else "not compiled" if skips else "fine"
    evidence = f"cudagraph_skips={skips}, first_output_kept={kept}"
    return row(step, call, happened, message=said, evidence=evidence)


@torch.no_grad()
def run() -> list[Row]:
    """Compile for CPU tensors in both ways."""
    x = torch.randn(16, 16)
    torch._dynamo.reset()
    rows = [judge("problem", 'f = torch.compile(f, mode="reduce-overhead"); y1 = f(x1); y2 = f(x2)', problem(), x)]
    torch._dynamo.reset()
    call = 'f = torch.compile(f, mode="reduce-overhead" if x.is_cuda else "default"); y1 = f(x1); y2 = f(x2)'
    return [*rows, judge("fix", call, fix(x), x)]


def main() -> None:
    """Print the rows."""
    for made in run():
        print(f"{made['step']:9}{made['happened']:14}{made['call']}")
        for name in ("error", "message", "evidence", "note"):
            if made[name]:
                print(f"{'':9}{name}: {made[name]}")


if __name__ == "__main__":
    main()
