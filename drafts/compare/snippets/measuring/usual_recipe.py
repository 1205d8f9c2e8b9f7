# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 300
# value = 60
# ///
"""The usual benchmark recipe, repeated: how often does it name another winner?

The recipe that one finds everywhere: one process; for each back end in turn compile the model, call it once, take
``torch.utils.benchmark.Timer(...).blocked_autorange().median``, and call the smallest the winner. Nothing in it
is wrong, but back ends are timed one after another (whatever the machine does meanwhile hits one of them), each in
one place in memory, and once. Here it runs ``repeats`` times, each in a fresh process, on the same model on the same
machine: all that changes from one run to the next is chance.

Columns
    model              "mlp" (512-256-128-10, batch 64) or "cnn" (three convolutions with batch norm, batch 4)
    repeat             number of the run, from 1
    backend            "none" (not compiled), "eager", "aot_eager", "inductor"
    status, note       "ok", or "failed" with the reason in note
    device, threads    "cpu" or "cuda"; CPU threads of torch
    step_us            what the recipe reports: the median that blocked_autorange gives
    speedup_ratio      step_us of none / step_us of this, in the same run: above 1 is faster
    winner             whether this run would name it the fastest
    winners            how many different winners the runs of this model name
    speedup_least_ratio, speedup_greatest_ratio    over the runs of this model
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.benchmark import Timer

Row = dict[str, Any]

BACKENDS = ("none", "eager", "aot_eager", "inductor")


# ---------------------------------------------------------------- the models


def mlp() -> tuple[nn.Module, torch.Tensor]:
    """Return an MLP with ReLU and its input, shape (64, 512)."""
    layers = [nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)]
    return nn.Sequential(*layers), torch.randn(64, 512)


def cnn() -> tuple[nn.Module, torch.Tensor]:
    """Return three convolutions with batch norm and ReLU, and their input, shape (4, 3, 64, 64)."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)), torch.randn(4, 3, 64, 64)


MODELS = {"mlp": mlp, "cnn": cnn}


# ---------------------------------------------------------------- the recipe


@torch.no_grad()
def recipe(name: str, threads: int, min_run_time_s: float) -> dict[str, float]:
    """Time each back end in turn, as it is usually done; returns seconds a step."""
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, x = MODELS[name]()
    model, x = model.eval().to(device), x.to(device)
    medians: dict[str, float] = {}
    for backend in BACKENDS:
        torch._dynamo.reset()
        call = model if backend == "none" else torch.compile(model, backend=backend)
        call(x)
        timer = Timer("call(x)", globals={"call": call, "x": x}, num_threads=threads)
        medians[backend] = timer.blocked_autorange(min_run_time=min_run_time_s).median
    return medians


# ---------------------------------------------------------------- its repetition


def in_fresh_process(job: Row, cache: str, limit_s: float) -> Row:
    """Run the recipe once in a process of its own; returns its medians, or {"failed": reason}."""
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": cache, "TMPDIR": cache}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        answer = Path(folder, "answer.json")
        command = [sys.executable, __file__, "--child", json.dumps(job | {"answer": str(answer)})]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"no answer within {limit_s:g} s"}
        if done.returncode == 0 and answer.exists():
            medians: Row = json.loads(answer.read_text())
            return medians
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return {"failed": f"the process ended with code {done.returncode}: {last[:300]}"}


def rows_of(name: str, runs: Sequence[Row], threads: int) -> list[Row]:
    """Return a row per run and back end (columns: module docstring)."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    good = [run for run in runs if "failed" not in run]
    winners = [min(run, key=lambda backend: run[backend]) for run in good]
    rows: list[Row] = []
    for number, run in enumerate(runs, 1):
        for backend in BACKENDS:
            row: Row = {"model": name, "repeat": number, "backend": backend, "status": "ok", "note": None}
            row |= {"device": device, "threads": threads, "step_us": None, "speedup_ratio": None, "winner": None}
            row |= {"winners": len(set(winners)) or None, "speedup_least_ratio": None, "speedup_greatest_ratio": None}
            if "failed" in run:
                rows.append(row | {"status": "failed", "note": run["failed"]})
                continue
            ratios = [other["none"] / other[backend] for other in good]
            row |= {"step_us": run[backend] * 1e6, "speedup_ratio": run["none"] / run[backend]}
            row |= {"winner": backend == min(run, key=lambda b: run[b])}
            rows.append(row | {"speedup_least_ratio": min(ratios), "speedup_greatest_ratio": max(ratios)})
    return rows


def run(
    *,
    models: Sequence[str] = ("mlp", "cnn"),
    repeats: int = 6,
    min_run_time_s: float = 0.2,
    threads: int = 1,
    child_limit_s: float = 120.0,
) -> list[Row]:
    """Repeat the recipe and return a row per model, run and back end.

    ``min_run_time_s``: how long blocked_autorange measures each back end (0.2 s is its default).
    """
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="usual-recipe-", ignore_cleanup_errors=True) as cache:
        for name in models:
            job = {"model": name, "threads": threads, "min_run_time_s": min_run_time_s}
            runs = [in_fresh_process(job, cache, child_limit_s) for _ in range(repeats)]
            rows += rows_of(name, runs, threads)
    return rows


def main(arguments: Sequence[str]) -> None:
    """Repeat and print; with ``--child JOB`` do it once for the parent process."""
    if arguments[:1] == ["--child"]:
        job = json.loads(arguments[1])
        torch.set_num_threads(job["threads"])
        medians = recipe(job["model"], job["threads"], job["min_run_time_s"])
        Path(job["answer"]).write_text(json.dumps(medians))
        return
    for row in run():
        if row["status"] == "ok":
            mark = "  <- winner" if row["winner"] else ""
            line = f"{row['step_us']:10.1f} us  {row['speedup_ratio']:.3f}x{mark}"
        else:
            line = f"{row['status']}: {row['note']}"
        print(f"{row['model']:4} run {row['repeat']}  {row['backend']:10} {line}")


if __name__ == "__main__":
    main(sys.argv[1:])
