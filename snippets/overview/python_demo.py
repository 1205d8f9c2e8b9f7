# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 60
# ///
"""A first look at torch.compile: one model, four back ends, thirty timed steps each.

This is a demo to read and to change: everything runs one after another in one process, so it neither separates
cold from warm caches nor shows whether a small difference is noise. The honest measurement is four_backends.py.

Columns
    backend          "none" (not compiled), or the name given to ``torch.compile(model, backend=...)``
    status, note     "ok", or "failed", "not measured" with the reason in note; then the times are None
    first_call_s     ``torch.compile()`` and the first call: compiling happens there, not before. Importing TorchDynamo
                     is not in it: that is done above, once. A cache that an earlier run left on disk makes it shorter
    mean_ms, median_ms    a step after the warm-up
    iterations       how many steps were timed
    device, threads  "cpu" or "cuda"; CPU threads of torch
    samples_ms       every timed step
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch.utils.benchmark import Timer

BACKENDS = ("none", "eager", "aot_eager", "inductor", "cudagraphs")
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)


def build_model(device: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """Return an MLP 512 -> 256 -> 128 -> 10 and a batch of 64 inputs, shape (64, 512)."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 10),
    )
    return model.eval().to(device), torch.randn(64, 512, device=device)


def first_call(
    model: torch.nn.Module, x: torch.Tensor, backend: str
) -> tuple[Callable[[torch.Tensor], torch.Tensor], float]:
    """Return the callable for a back end and how many seconds it took to make it and to call it once."""
    start = time.perf_counter()
    step = model if backend == "none" else torch.compile(model, backend=backend)
    step(x)
    if x.is_cuda:
        torch.cuda.synchronize()
    return step, time.perf_counter() - start


def time_steps(step: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, iterations: int) -> list[float]:
    """Return the milliseconds of each of ``iterations`` steps."""
    if not x.is_cuda:
        timer = Timer("step(x)", globals={"step": step, "x": x}, num_threads=torch.get_num_threads())
        return [timer.timeit(1).mean * 1e3 for _ in range(iterations)]
    # The device stamps events itself, so nothing has to wait between two steps.
    events = [torch.cuda.Event(enable_timing=True) for _ in range(iterations + 1)]
    events[0].record()
    for event in events[1:]:
        step(x)
        event.record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in itertools.pairwise(events)]


def try_backend(model: torch.nn.Module, x: torch.Tensor, backend: str, iterations: int) -> dict[str, Any]:
    """Return the row of one back end; one that does not work gives a reason instead of stopping the others."""
    row: dict[str, Any] = {"backend": backend, "status": "ok", "note": None, "first_call_s": None, "mean_ms": None}
    row |= {"median_ms": None, "iterations": iterations, "samples_ms": []}
    if backend == "cudagraphs" and not x.is_cuda:
        # It would run: without a GPU this back end records nothing and calls the operators one by one.
        return row | {"status": "not measured", "note": "CUDA graphs need a CUDA device."}
    try:
        torch.compiler.reset()
        counters.clear()
        step, first_call_s = first_call(model, x, backend)
        for _ in range(10):
            step(x)
        if backend != "none" and counters["stats"]["unique_graphs"] == 0:
            # TORCHDYNAMO_DISABLE=1, say: the step would be the plain model, and its time another one of "none".
            return row | {"status": "not measured", "note": NOT_COMPILED}
        samples = time_steps(step, x, iterations)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        return row | {"status": "failed", "note": reason}
    row |= {"first_call_s": first_call_s, "samples_ms": samples}
    return row | {"mean_ms": statistics.mean(samples), "median_ms": statistics.median(samples)}


@torch.no_grad()
def run(*, backends: Sequence[str] = BACKENDS, iterations: int = 30, threads: int = 1) -> list[dict[str, Any]]:
    """Try every back end on the same model and return one row each."""
    torch.set_num_threads(threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, x = build_model(device)
    return [try_backend(model, x, backend, iterations) | {"device": device, "threads": threads} for backend in backends]


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print one line a back end."""
    print(f"{'back end':>12} {'first call s':>13} {'mean ms':>9} {'median ms':>10}")
    for row in rows:
        if row["status"] == "ok":
            times = f"{row['first_call_s']:>13.3f} {row['mean_ms']:>9.4f} {row['median_ms']:>10.4f}"
        else:
            times = f"  {row['status']}: {row['note']}"
        print(f"{row['backend']:>12} {times}")


if __name__ == "__main__":
    print_table(run())
