# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 3600
# value = 9
# on_request = true
# ///
"""compare_backends.py on trial: does it claim what is not there, does it miss what is, does it agree with Timer?

A/A        the same model three times, the third as a variant like any other. Every "faster" or "slower" is false.
planted    a variant that takes a tenth longer than eager: it spins for a tenth of the step time that it measured
           itself. "slower" is right, all else a miss.
timer      the tool's blocks and ``torch.utils.benchmark.Timer(...).blocked_autorange()`` in turn on one callable.

Wants ``compare_backends.py`` beside it, and ``../models/``. Takes half an hour.

Columns
    kind               "trial": one run; "summary": all runs of one trial on one model
    trial              "aa", "planted", "timer"
    model              "demo MLP", "ResNet-18", "pointwise chain"
    run                number of the run, from 1
    backend            timer: "none" (not compiled) or "inductor"
    status, note       "ok", or "failed" with the reason in note
    device, threads    "cpu" or "cuda"; CPU threads of torch
    verdict            what the tool says: "faster", "slower", "no difference"
    speedup_ratio      time of eager / time of the variant, as the tool says; in a summary the median over runs
    speedup_low, speedup_high   its 95 % interval
    pair_verdict       the verdict on the tool's own A/A pair
    tool_us, timer_us, agreement_ratio    medians of 40 blocks each, in microseconds a step, and tool / Timer
    In a summary: runs (that came out), right (runs whose verdict is right), speedup_least_ratio,
    speedup_greatest_ratio, method_version of the tool
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils.benchmark import Timer

Row = dict[str, Any]

HERE = Path(__file__).resolve().parent
TOOL = HERE / "compare_backends.py"
MODELS = {
    "demo MLP": f"{TOOL}:demo_mlp",
    "ResNet-18": f"{HERE.parent / 'models' / 'resnet18.py'}:build",
    "pointwise chain": f"{HERE.parent / 'models' / 'pointwise_chain.py'}:build",
}
#: Short runs of the tool.
SHORT = ("--seconds", "1.5", "--processes", "3")
RIGHT = {"aa": "no difference", "planted": "slower"}
TIMER_BLOCKS = 40
TIMER_BLOCK_S = 0.1
#: glibc keeps freed memory, as with the tool's --keep-memory: else the chain's steps vary by half with the page faults
#: that they take, whoever times them.
KEEP_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "134217728",
}
EMPTY: Row = dict.fromkeys(
    (
        "run", "backend", "note", "verdict", "speedup_ratio", "speedup_low", "speedup_high", "pair_verdict", "tool_us",
        "timer_us", "agreement_ratio", "runs", "right", "speedup_least_ratio", "speedup_greatest_ratio",
        "method_version",
    )
)  # fmt: skip


def tenth_slower(model: torch.nn.Module) -> Callable[..., Any]:
    """Return the model followed by idle spinning for a tenth of its own step time, measured at the first call."""
    spin_s = 0.0

    def call(*args: Any) -> Any:
        nonlocal spin_s
        if not spin_s:
            timer = Timer("model(*args)", globals={"model": model, "args": args})
            spin_s = 0.1 * timer.blocked_autorange(min_run_time=0.2).median
        answer = model(*args)
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()  # else the spinning would run beside the device's work and cost nothing
        end = time.perf_counter() + spin_s
        while time.perf_counter() < end:
            pass
        return answer

    return call


def answer_of(command: list[str], environment: dict[str, str], limit_s: float) -> tuple[str | None, Any]:
    """Run a command that prints JSON; returns why it failed (None where it did not) and the data."""
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer within {limit_s:g} s", None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return f"the process ended with code {done.returncode}: {last[:300]}", None
    return None, json.loads(done.stdout)


def tool_run(trial: str, model: str, limit_s: float) -> list[Row]:
    """Run the tool once with the variant of a trial; returns one row."""
    variants = {"aa": "eager,eager", "planted": f"wrap:{Path(__file__).resolve()}:tenth_slower"}[trial]
    command = [sys.executable, str(TOOL), MODELS[model], "--quiet", "--json", "-", *SHORT, "--variants", variants]
    failure, report = answer_of(command, dict(os.environ), limit_s)
    if failure:
        return [{"status": "failed", "note": failure}]
    plain, pair, tried = report["rows"]
    if tried["status"] != "ok" or plain["status"] != "ok":
        return [{"status": "failed", "note": tried["note"] or plain["note"]}]
    kept = ("verdict", "speedup_ratio", "speedup_low", "speedup_high")
    return [
        {key: tried[key] for key in kept} | {"pair_verdict": pair["verdict"], "method_version": report["method"]},
    ]


def load_tool() -> ModuleType:
    """Return the tool as a module."""
    spec = importlib.util.spec_from_file_location(TOOL.stem, TOOL)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[TOOL.stem] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@torch.no_grad()
def against_timer(model: str) -> list[Row]:
    """Time one callable with the tool's blocks and with Timer in turn, plain and compiled; one row each."""
    tool = load_tool()
    torch.set_num_threads(1)
    workload = tool.Workload(tool.Settings(model=MODELS[model]))
    parts = 1 if workload.device.startswith("cuda") else tool.PARTS
    rows: list[Row] = []
    for backend in ("none", "inductor"):
        module, batches = workload.build()
        call = module if backend == "none" else torch.compile(module)
        cycle = workload.cycle(call, module, batches)
        for _ in range(5):
            cycle()
        step_s = tool.time_block(cycle, 20)
        timer = Timer("call(*args)", globals={"call": call, "args": batches[0].args}, num_threads=1)
        ours, theirs = [], []
        for _ in range(TIMER_BLOCKS):
            ours.append(tool.time_steps(cycle, step_s, TIMER_BLOCK_S, parts))
            theirs.append(timer.blocked_autorange(min_run_time=TIMER_BLOCK_S).median)
        tool_s, timer_s = statistics.median(ours), statistics.median(theirs)
        row = {"backend": backend, "tool_us": tool_s * 1e6, "timer_us": timer_s * 1e6}
        rows.append(row | {"agreement_ratio": tool_s / timer_s, "method_version": tool.METHOD})
    return rows


def timer_run(trial: str, model: str, limit_s: float) -> list[Row]:
    """Compare with Timer once, in a fresh process; returns a row for each back end."""
    del trial
    command = [sys.executable, "-W", "ignore", __file__, "--timer", model]
    failure, rows = answer_of(command, os.environ | KEEP_MEMORY, limit_s)
    return [{"status": "failed", "note": failure}] if failure else list(rows)


def summary(rows: Sequence[Row]) -> Row:
    """Return the summary of one trial on one model (columns: module docstring)."""
    good = [row for row in rows if row["status"] == "ok"]
    line: Row = rows[0] | EMPTY | {"kind": "summary", "runs": len(good)}
    if not good:
        return line | {"status": "failed", "note": rows[0]["note"]}
    line |= {"status": "ok", "method_version": good[0]["method_version"]}
    if rows[0]["trial"] == "timer":
        return line | {"agreement_ratio": max((r["agreement_ratio"] for r in good), key=lambda ratio: abs(ratio - 1))}
    ratios = [row["speedup_ratio"] for row in good]
    return line | {
        "right": sum(row["verdict"] == RIGHT[row["trial"]] for row in good),
        "speedup_least_ratio": min(ratios),
        "speedup_ratio": statistics.median(ratios),
        "speedup_greatest_ratio": max(ratios),
    }


def run(
    *,
    aa_runs: int = 40,
    planted_runs: int = 10,
    timer_runs: int = 1,
    models: Sequence[str] = tuple(MODELS),
    budget_s: float = 3300.0,
    limit_s: float = 300.0,
) -> list[Row]:
    """Put the tool on trial; A/A on the first of ``models``, a planted slowdown on the first two, Timer on all.

    ``budget_s``: no run is started after so many seconds, so that a slow machine ends with fewer; ``limit_s`` is for
    one run.
    """
    began = time.monotonic()
    plan = [("timer", model, timer_runs, timer_run) for model in models]
    plan += [("planted", model, planted_runs, tool_run) for model in models[:2]]
    plan += [("aa", model, aa_runs, tool_run) for model in models[:1]]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    summaries: list[Row] = []
    trials: list[Row] = []
    for trial, model, runs, once in plan:
        rows: list[Row] = []
        for number in range(1, runs + 1):
            if time.monotonic() - began > budget_s:
                break
            common = {"kind": "trial", "trial": trial, "model": model, "run": number, "status": "ok"}
            common |= {"device": device, "threads": 1}
            rows += [EMPTY | common | row for row in once(trial, model, limit_s)]
            print(trial, model, number, rows[-1]["verdict"], rows[-1]["speedup_ratio"], flush=True)
        if rows:
            summaries.append(summary(rows))
            trials += rows
    return summaries + trials


def main(arguments: Sequence[str]) -> None:
    """Put the tool on trial and print; with ``--timer MODEL`` compare with Timer for the parent process."""
    if arguments[:1] == ["--timer"]:
        print(json.dumps(against_timer(arguments[1])))
        return
    for row in run():
        if row["kind"] == "summary":
            told = f"{row['right']} right of {row['runs']}"
            if row["trial"] == "timer":
                told = "-" if row["agreement_ratio"] is None else f"tool / Timer {row['agreement_ratio']:.3f}"
            print(f"{row['trial']:8} {row['model']:16} {told}")


if __name__ == "__main__":
    main(sys.argv[1:])
