# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 240
# value = 62
# ///
"""CUDA graphs asked for on a CPU: what is raised, what is warned, and what proves that nothing was recorded.

The tensors are on the CPU, also where the machine has a GPU: moving the model and forgetting the inputs (or the
other way round) is how this happens to people. The function is the one of the documentation of CUDAGraph Trees, a
matrix product, with a bias and ReLU: y = relu(x @ w + 1), x and w of shape (SIZE, SIZE), float32.

No times: a time of something that did nothing would be read as a time of CUDA graphs.

Columns
    way                the way to ask: "cudagraphs", "reduce-overhead", "max-autotune", "torch.cuda.graph"
    call               how it is written
    status, note       "ok", or "failed" or "wrong" with the reason in note
    device, threads    always "cpu"; CPU threads of torch
    captured_graphs    graphs that Dynamo captured and had compiled
    cudagraph_skips    the counter of torch that tells: how often CUDA graphs were asked for and left out
    warning            what was logged, or "nothing logged": silence is the trap
    error              what was raised, or "nothing raised"
    right              whether results of two calls agree with the function not compiled
    first_kept         whether the first result still is what it was after the second call: there are no reused
                       buffers, so the overwritten-output error can't be seen here
    same_code          whether Inductor made the same code as in its default mode, checks of sizes left aside; None
                       where Inductor has no part in it
    max_rel_error      largest absolute error over the largest absolute value, against float64
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

Row = dict[str, Any]
Call = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

SIZE = 32
TOLERANCE = 1e-5
WAYS: dict[str, str] = {
    "cudagraphs": 'torch.compile(f, backend="cudagraphs")',
    "reduce-overhead": 'torch.compile(f, mode="reduce-overhead")',
    "max-autotune": 'torch.compile(f, mode="max-autotune")',
    "torch.cuda.graph": "with torch.cuda.graph(torch.cuda.CUDAGraph()): y = f(x)",
}
#: Where torch writes that it skips CUDA graphs.
LOGGER = "torch._inductor.cudagraph_utils.__cudagraphs"


def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return relu(x @ w + 1): (SIZE, SIZE) and (SIZE, SIZE) to (SIZE, SIZE)."""
    return torch.relu(x @ w + 1)


class Listener(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message."""
        self.heard.append(record.getMessage())


def prepare(way: str) -> Call:
    """Return the function under one way to ask for CUDA graphs; RuntimeError and others where it can't be had."""
    if way == "torch.cuda.graph":
        graph = torch.cuda.CUDAGraph()
        places = torch.zeros(SIZE, SIZE), torch.zeros(SIZE, SIZE)
        with torch.cuda.graph(graph):
            y = f(*places)

        def replay(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            places[0].copy_(x)
            places[1].copy_(w)
            graph.replay()
            return y

        return replay
    compiled: Call = torch.compile(f, backend="cudagraphs") if way == "cudagraphs" else torch.compile(f, mode=way)
    return compiled


def essence(codes: Sequence[str]) -> str:
    """Return generated code without comments (they hold an id), checks of sizes and blank lines."""
    lines = [re.sub(r"\s*#.*$", "", line) for line in "\n".join(codes).splitlines()]
    return "\n".join(line for line in lines if line.strip() and "assert_size_stride" not in line)


def generated_code(mode: str | None, x: torch.Tensor, w: torch.Tensor) -> str:
    """Return what Inductor writes for f in a mode, compiled anew."""
    from torch._inductor import config
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    with config.patch(force_disable_caches=True):
        return essence(run_and_get_code(torch.compile(f, mode=mode), x, w)[1])


def observe(way: str, default_code: str) -> Row:
    """Return what one way does on CPU tensors."""
    from torch._dynamo.utils import counters

    generator = torch.Generator().manual_seed(0)
    first_x, second_x, w = (torch.randn(SIZE, SIZE, generator=generator) for _ in range(3))
    torch._dynamo.reset()
    counters.clear()
    listener, logger = Listener(), logging.getLogger(LOGGER)
    logger.addHandler(listener)
    row: Row = dict.fromkeys(("captured_graphs", "cudagraph_skips", "warning", "error", "right", "first_kept"))
    row |= {"error": "nothing raised", "same_code": None, "max_rel_error": None}
    try:
        call = prepare(way)
        first = call(first_x, w)
        before = first.clone()
        second = call(second_x, w)
    except Exception as error:
        # What is raised is the answer here, and the other ways are still to be asked.
        row["error"] = f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
    else:
        wanted = f(second_x.double(), w.double())
        row["max_rel_error"] = float((second.double() - wanted).abs().max() / wanted.abs().max())
        row["right"] = bool(torch.allclose(before, f(first_x, w))) and row["max_rel_error"] <= TOLERANCE
        row["first_kept"] = bool(torch.equal(first, before))
    finally:
        logger.removeHandler(listener)
    # Where the tensor came from follows, with a path of this machine.
    row["warning"] = listener.heard[0].partition(". Found from")[0] if listener.heard else "nothing logged"
    if way != "torch.cuda.graph":
        row["captured_graphs"] = counters["stats"]["unique_graphs"]
        row["cudagraph_skips"] = counters["inductor"]["cudagraph_skips"]
    if way in ("reduce-overhead", "max-autotune") and row["right"]:
        row["same_code"] = generated_code(way, first_x, w) == default_code
    return row


@torch.no_grad()
def run(*, ways: Sequence[str] = tuple(WAYS), threads: int = 1) -> list[Row]:
    """Ask for CUDA graphs on CPU tensors and return one row a way (columns: module docstring).

    ``ways``: names in WAYS; ``threads``: CPU threads of torch.
    """
    torch.set_num_threads(threads)
    x, w = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
    modes = {"reduce-overhead", "max-autotune"} & set(ways)
    default_code = generated_code(None, x, w) if modes else ""
    rows: list[Row] = []
    for way in ways:
        row: Row = {"way": way, "call": WAYS[way], "status": "ok", "note": None, "device": "cpu", "threads": threads}
        rows.append(row | observe(way, default_code))
        if rows[-1]["right"] is False:
            rows[-1] |= {"status": "wrong", "note": "a result differs from that of the function not compiled"}
    return rows


def main(arguments: Sequence[str] = ()) -> None:
    """Ask and print what came of it."""
    for row in run():
        print(f"{row['way']}: {row['call']}")
        for column in ("captured_graphs", "cudagraph_skips", "right", "first_kept", "same_code", "warning", "error"):
            print(f"    {column:16} {row[column]}")


if __name__ == "__main__":
    main()
