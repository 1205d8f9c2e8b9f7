# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""A CUDA graph is recorded for every size: batches of many sizes are recorded again and again.

**An emulation**, for it needs no GPU: a back end keeps a recording for each set of sizes that it is called with, as
CUDA graphs do for a graph with dynamic sizes, and counts them. The warning is torch's own function for it, called with
these recordings. What a recording costs on a GPU is in snippets/cudagraphs/new_shape.py.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "warning" or "costly" where there are more recordings than a few
    raised_at          "later call" where something was logged
    error, message     what torch logs about it
    evidence           different sizes; recordings; calls
    status, note       "ok", ""
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._inductor.cudagraph_utils import maybe_warning_due_to_dynamic_shape

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")
SIZES = tuple(range(3, 33, 2))
LARGEST, BUCKETS = 32, (8, 16, 32)


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


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


class Recordings:
    """A back end that stands in for CUDA graphs: one recording for each set of sizes, replayed when they come again."""

    def __init__(self) -> None:
        self.recorded = 0
        self.warned = False

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Take one graph; dynamic sizes come as whole numbers among its arguments."""
        films: dict[tuple[int, ...], Callable[..., Any]] = {}

        def replay(*arguments: Any) -> Any:
            sizes = tuple(argument for argument in arguments if isinstance(argument, int))
            if sizes not in films:
                self.warned = self.warned or maybe_warning_due_to_dynamic_shape(films, sizes)
                films[sizes] = graph.forward
                self.recorded += 1
            return films[sizes](*arguments)

        return replay


def f(x: torch.Tensor) -> torch.Tensor:
    """What is compiled."""
    return torch.softmax(x, -1) + 1


def problem(f: Any, x: torch.Tensor) -> torch.Tensor:
    """Call with whatever size comes."""
    return f(x)


def fix_pad(f: Any, x: torch.Tensor) -> torch.Tensor:
    """Pad every batch to the largest size, and cut the result."""
    return f(torch.nn.functional.pad(x, (0, 0, 0, LARGEST - len(x))))[: len(x)]


def fix_buckets(f: Any, x: torch.Tensor) -> torch.Tensor:
    """Pad to the next of a few sizes."""
    size = next(size for size in BUCKETS if size >= len(x))
    return f(torch.nn.functional.pad(x, (0, 0, 0, size - len(x))))[: len(x)]


def judge(step: str, call: str, attempt: Callable[..., torch.Tensor]) -> Row:
    """Call with all sizes, twice; count the recordings."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    films = Recordings()
    compiled, inputs = torch.compile(f, backend=films), [torch.randn(n, 8) for n in SIZES]
    with listening() as listener:
        right = all(torch.allclose(attempt(compiled, x), f(x)) for _ in range(2) for x in inputs)
    said = "\n".join(listener.heard)
    few = films.recorded <= len(BUCKETS) + 1
    happened = "wrong" if not right else "warning" if said else "fine" if few else "costly"
    evidence = f"sizes={len(SIZES)}, recordings={films.recorded}, calls={2 * len(SIZES)}"
    return row(step, call, happened, raised_at="later call" if said else "", message=said, evidence=evidence)


@torch.no_grad()
def run() -> list[Row]:
    """Call with every size as it comes, then padded to one size and to a few."""
    return [
        judge("problem", "for x in inputs: f(x)", problem),
        judge("fix", "for x in inputs: f(pad(x, to=LARGEST))[: len(x)]", fix_pad),
        judge("fix", "for x in inputs: f(pad(x, to=next_bucket(len(x))))[: len(x)]", fix_buckets),
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
