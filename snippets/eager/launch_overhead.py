# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 90
# value = 70
# ///
"""What launching one operator costs in eager mode: a chain of m tiny operators, timed against m.

T_step = sum over m operators of (t_launch + t_compute). On a tensor of ELEMENTS floats the compute is next to
nothing, so the time of a chain grows by about one launch an operator: the slope of the line through the points.
Two operators: ``relu`` allocates its output; ``mul_`` works in place and allocates nothing.

How it is measured
    A chain is unrolled Python source, so no loop is timed. All chains are interleaved in one process, in a new
    random order each round; several fresh processes do the same. A block is
    ``torch.utils.benchmark.Timer(...).timeit(number)``, at least ``block_ms`` long. Each process gives one line,
    a least-squares fit through its medians in which every point has the same relative weight. Slope and intercept
    are the means over the processes, and their 95 % intervals the t intervals of these means, k - 1 degrees of
    freedom for k processes: the process is the unit of replication (after Kalibera and Jones, "Rigorous Benchmarking
    in Reasonable Time", ISMM 2013).

    On a CUDA device there are two clocks. ``complete`` waits for the device at the end of a block, ``enqueue`` does
    not: it is the time of the host alone. There a block is only as long as the launch queue of the device allows.
    On a CPU the call returns when the work is done, so only ``complete`` exists.

Rows, told apart by ``kind``; each has op, clock, status, note, device, threads.
    kind = "point": a chain of m operators
        m                                    operators in the chain
        chain_us, chain_q1_us, chain_q3_us   time of the chain: median and quartiles over all blocks
        per_operator_us                      chain_us / m
        processes, rounds                    how many processes, and how many blocks each
        samples_us                           every block: mean of a chain
    kind = "fit": the line of one op and clock
        slope_us, slope_low_us, slope_high_us              cost of one more operator, with its 95 % interval
        intercept_us, intercept_low_us, intercept_high_us  what a chain costs before its first operator
        fit_error_ratio                      largest relative distance of a point from the line
        max_rel_error                        of the longest chain, against float64
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import Timer

Row = dict[str, Any]
Chain = tuple[str, str, int]  # op, clock, m

ELEMENTS = 64
LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TOLERANCE = 1e-6
FITTED: tuple[str, ...] = (
    "slope_us",
    "slope_low_us",
    "slope_high_us",
    "intercept_us",
    "intercept_low_us",
    "intercept_high_us",
    "fit_error_ratio",
    "max_rel_error",
)
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
# A CUDA device queues about a thousand launches; past that the host waits and would be timed waiting.
QUEUE = 500


# ---------------------------------------------------------------- the chains


def source(op: str, m: int) -> str:
    """Return the Python source of a chain of m operators: y = op(...op(x))."""
    if op == "relu":
        return "\n".join(["y = relu(x)"] + ["y = relu(y)"] * (m - 1))
    if op == "mul_":
        return "\n".join(["y = x"] + ["y.mul_(ones)"] * m)
    raise ValueError(f"unknown operator {op!r}: choose relu or mul_")


def names(device: str, dtype: torch.dtype = torch.float32) -> Row:
    """Return the names a chain uses: x of shape (ELEMENTS,), ones of the same shape, relu."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ELEMENTS, generator=generator, dtype=torch.float64).to(device, dtype)
    return {"x": x, "ones": torch.ones_like(x), "relu": torch.relu}


def chain_error(op: str, m: int, device: str) -> float:
    """Return the relative error of a chain against the same chain in float64."""
    results = []
    for dtype in (torch.float32, torch.float64):
        scope = names(device, dtype)
        exec(source(op, m), scope)
        results.append(scope["y"].double())
    return float((results[0] - results[1]).abs().max() / results[1].abs().max())


# ---------------------------------------------------------------- in the child process


def time_chain(timer: Timer, chain: Chain, block_ms: float) -> float:
    """Return the mean time of a chain in seconds over one block."""
    _, clock, m = chain
    if clock == "enqueue":
        repeats = []
        for _ in range(10):
            torch.cuda.synchronize()
            repeats.append(timer.timeit(max(1, QUEUE // m)).mean)
        return statistics.median(repeats)
    # The Timer runs a hundredth of a block first, to warm up.
    estimate = timer.timeit(max(1, 1000 // m)).mean
    return timer.timeit(max(1, math.ceil(block_ms / 1e3 / estimate))).mean


@torch.no_grad()
def child_chains(job: Row) -> Row:
    """Time all chains interleaved in a new order each round; return their block means in seconds."""
    device, order = job["device"], random.Random(job["seed"])
    timers: dict[Chain, Timer] = {}
    for op in job["ops"]:
        for clock in ("complete", "enqueue") if device == "cuda" else ("complete",):
            # By default a Timer waits for the device before it reads its clock.
            how: Row = {"timer": time.perf_counter} if clock == "enqueue" else {}
            for m in job["lengths"]:
                timers[op, clock, m] = Timer(source(op, m), globals=names(device), num_threads=job["threads"], **how)
    blocks: dict[Chain, list[float]] = {chain: [] for chain in timers}
    for _ in range(job["rounds"]):
        for chain in order.sample(list(timers), k=len(timers)):
            blocks[chain].append(time_chain(timers[chain], chain, job["block_ms"]))
    errors = {op: chain_error(op, max(job["lengths"]), device) for op in job["ops"]}
    return {"errors": errors, "blocks": [[*chain, means] for chain, means in blocks.items()]}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = child_chains(job)
    except Exception as error:
        answer = {"failed": f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]}
    Path(job["answer"]).write_text(json.dumps(answer))


# ---------------------------------------------------------------- in the parent process


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and whatever it started (a C++ compiler, a compile worker): none may run on into the next timing."""
    with contextlib.suppress(ProcessLookupError):  # nobody is left
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # Windows has no process groups of this kind
            process.kill()
    process.wait()


def run_child(job: Row, folder: Path, limit_s: float) -> Row:
    """Run one job in a fresh process.

    Returns the child's answer, or {"failed": reason} if it crashed or took longer than ``limit_s`` seconds.
    """
    answer, log = folder / "answer.json", folder / "log.txt"
    answer.unlink(missing_ok=True)
    command = [sys.executable, __file__, "--child", json.dumps(job | {"answer": str(answer)})]
    with log.open("w") as output:
        # A session of its own makes it the leader of a process group.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return {"failed": f"no answer within {limit_s:g} s"}
        finally:
            end_group(process)
    if code == 0 and answer.exists():
        result: Row = json.loads(answer.read_text())
        return result
    if code < 0:
        return {"failed": f"the process died of signal {signal.Signals(-code).name}"}
    last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
    return {"failed": f"the process ended with code {code}: {last[:300]}"}


def fit_line(points: dict[int, float]) -> tuple[float, float]:
    """Return slope and intercept of the line through (m, time); each point counts by its relative distance."""
    weights = {m: 1 / (time_us * time_us) for m, time_us in points.items()}
    total = sum(weights.values())
    mean_m = sum(weights[m] * m for m in points) / total
    mean_t = sum(weights[m] * t for m, t in points.items()) / total
    slope = sum(weights[m] * (m - mean_m) * (t - mean_t) for m, t in points.items())
    slope /= sum(weights[m] * (m - mean_m) ** 2 for m in points)
    return slope, mean_t - slope * mean_m


def t_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return mean, lower and upper end of the 95 % t interval of the mean; ``values``: one of each process.

    Raises ValueError for fewer than two: one process says nothing about how much processes differ.
    """
    if len(values) < 2:
        raise ValueError("an interval needs at least two processes")
    # Beyond the table the last quantile is kept: a little too wide rather than too narrow.
    quantile = T_975[min(len(values) - 1, len(T_975)) - 1]
    mean = statistics.fmean(values)
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def chain_rows(op: str, clock: str, runs: Sequence[dict[int, list[float]]], error: float) -> list[Row]:
    """Return the points and the fit of one op and clock; ``runs`` holds the blocks of each process by m (us)."""
    rows: list[Row] = []
    medians: dict[int, float] = {}
    for m in runs[0]:
        samples = [block for run in runs for block in run[m]]
        q1, medians[m], q3 = statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else samples * 3
        rows.append({"kind": "point", "op": op, "clock": clock, "m": m, "chain_us": medians[m]})
        rows[-1] |= {"chain_q1_us": q1, "chain_q3_us": q3, "per_operator_us": medians[m] / m}
        rows[-1] |= {"processes": len(runs), "rounds": len(runs[0][m]), "samples_us": samples}
    lines = [fit_line({m: statistics.median(run[m]) for m in run}) for run in runs]
    slope, slope_low, slope_high = t_interval([line[0] for line in lines])
    intercept, intercept_low, intercept_high = t_interval([line[1] for line in lines])
    fit: Row = {"kind": "fit", "op": op, "clock": clock}
    fit |= {"slope_us": slope, "slope_low_us": slope_low, "slope_high_us": slope_high}
    fit |= {"intercept_us": intercept, "intercept_low_us": intercept_low, "intercept_high_us": intercept_high}
    fit["fit_error_ratio"] = max(abs(intercept + slope * m - t) / t for m, t in medians.items())
    fit["max_rel_error"] = error
    return [*rows, fit]


def run(
    *,
    ops: Sequence[str] = ("relu", "mul_"),
    lengths: Sequence[int] = LENGTHS,
    processes: int = 6,
    rounds: int = 4,
    block_ms: float = 20.0,
    threads: int = 1,
    child_limit_s: float = 60.0,
) -> list[Row]:
    """Time the chains and return points and fits (columns: module docstring).

    ``ops``: relu, mul_; ``lengths``: the values of m, at least two; ``processes`` (two at least) x ``rounds`` blocks
    of ``block_ms`` milliseconds a chain; ``child_limit_s``: a process that takes longer is killed. Raises ValueError
    for fewer than two processes.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    job: Row = {"device": device, "threads": threads, "ops": list(ops), "lengths": list(lengths)}
    job |= {"rounds": rounds, "block_ms": block_ms}
    answers: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="launch-overhead-") as name:
        for seed in range(processes):
            answers.append(run_child(job | {"seed": seed}, Path(name), child_limit_s))
            if "failed" in answers[-1]:
                break

    shared: Row = {"status": "ok", "note": None, "device": device, "threads": threads}
    if "failed" in answers[-1]:
        lost = shared | {"status": "failed", "note": answers[-1]["failed"], "kind": "fit", "clock": "complete"}
        return [lost | {"op": op} | dict.fromkeys(FITTED) for op in ops]

    runs: dict[tuple[str, str], list[dict[int, list[float]]]] = {}
    for answer in answers:
        tables: dict[tuple[str, str], dict[int, list[float]]] = {}
        for op, clock, m, means in answer["blocks"]:
            tables.setdefault((op, clock), {})[m] = [mean * 1e6 for mean in means]
        for key, table in tables.items():
            runs.setdefault(key, []).append(table)
    rows: list[Row] = []
    for (op, clock), tables_of_processes in runs.items():
        error = max(answer["errors"][op] for answer in answers)
        if error <= TOLERANCE:
            rows += chain_rows(op, clock, tables_of_processes, error)
        else:
            note = f"relative error {error:.2g} against float64 is above {TOLERANCE:g}"
            wrong = {"kind": "fit", "op": op, "clock": clock, "status": "wrong", "note": note}
            rows.append(wrong | dict.fromkeys(FITTED))
    return [shared | row for row in rows]


def print_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print some columns of the rows, aligned; notes follow below."""

    def cell(value: Any) -> str:
        return "-" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)

    lines = [list(columns), *([cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))
    for row in rows:
        if row["note"]:
            print(f"{row[columns[0]]}: {row['note']}")


def main(arguments: Sequence[str]) -> None:
    """Measure and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    rows = run()
    points = ["op", "clock", "m", "chain_us", "chain_q1_us", "chain_q3_us", "per_operator_us"]
    fits = ["op", "clock", "status", "slope_us", "slope_low_us", "slope_high_us", "intercept_us", "fit_error_ratio"]
    print_table([row for row in rows if row["kind"] == "point"], points)
    print()
    print_table([row for row in rows if row["kind"] == "fit"], fits)


if __name__ == "__main__":
    main(sys.argv[1:])
