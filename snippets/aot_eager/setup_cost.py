# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 240
# value = 62
# ///
"""T_setup: what a call through aot_eager (and eager) costs before its first operator.

T_step = T_setup + sum over m operators of (t_launch + t_compute). A chain of m tiny operators is called as plain
Python, through ``backend="eager"`` and through ``backend="aot_eager"``. Time against m is a straight line for each: its
slope is one more operator, its value at m = 0 what a call costs without any. T_setup is the difference of these values
to the plain function's: checking the guards and, for ``aot_eager``, the wrappers of AOTAutograd around the graph.

Three cases. ``inference``: tiny tensors, gradients off. ``training``: the input wants a gradient, and a backward
follows each call; there AOTAutograd's graph is wrapped in a ``torch.autograd.Function``, one for all m operators.
``large``: like ``inference`` on LARGE elements; its slope less that of ``inference`` is the compute of one operator.

The last rows ask what T_setup grows with: the same single operator on 1, 8 and 64 input tensors.

How it is measured
    A chain is unrolled Python source in a function of its own, so no loop is timed. All callables are interleaved in
    one process, in a new random order each round; several fresh processes do the same. A block is
    ``torch.utils.benchmark.Timer(...).timeit(number)``, at least ``block_ms`` long. Each process gives one line, a
    least-squares fit through its medians in which every point has the same relative weight. Slope, intercept and
    T_setup are the means over the processes, and their 95 % intervals the t intervals of these means, k - 1 degrees of
    freedom for k processes (after Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013). glibc is
    told to keep freed memory (KEEP_MEMORY): else page faults of large outputs would be counted as compute.

Rows, told apart by ``kind``; each has backend ("none" is the plain function), case, status ("ok", or "failed",
"wrong", "not measured" with the reason in note), device, threads.
    kind = "point": a chain of m operators
        m, chain_us                           operators, and the time of a call: median over all blocks;
                                              chain_q1_us and chain_q3_us are the quartiles
        processes, rounds, samples_us         how many processes, blocks in each, and every block
    kind = "fit": the line of one back end and case
        slope_us, slope_low_us, slope_high_us              cost of one more operator, with its 95 % interval
        intercept_us, intercept_low_us, intercept_high_us  a call before its first operator, with its interval
        setup_us, setup_low_us, setup_high_us              T_setup: intercept less that of "none" in the same process;
                                                           None for "none" itself
        compute_us, compute_low_us, compute_high_us        "large" only: slope less that of "inference"
        slope_ratio                           slope over that of "none"; 1 for "none" itself
        max_rel_error                         of the longest chain, against the plain function
    kind = "inputs": one operator on several input tensors (inference)
        inputs                                how many
        call_us, call_q1_us, call_q3_us       time of a call: median and quartiles over all blocks
        setup_us, setup_low_us, setup_high_us call_us less that of "none" in the same process
        processes, rounds, samples_us         as above
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import Timer

Row = dict[str, Any]

ELEMENTS = {"inference": 64, "training": 64, "large": 2**16}
LENGTHS = (1, 4, 16, 64)
INPUTS = (1, 8, 64)
BACKENDS = ("none", "eager", "aot_eager")
CASES = tuple(ELEMENTS)
SETTLING_CALLS = 3
TOLERANCE = 1e-6
# glibc: no block of its own mapping, and never shrink the heap.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)
FITTED: tuple[str, ...] = (
    *(f"{name}{end}_us" for name in ("slope", "intercept", "setup", "compute") for end in ("", "_low", "_high")),
    "slope_ratio",
    "max_rel_error",
)
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


# ---------------------------------------------------------------- the functions


def source(m: int) -> str:
    """Return the Python source of a function of m operators: y = cos(...cos(x))."""
    lines = ["y = torch.cos(x)"] + ["y = torch.cos(y)"] * (m - 1)
    return "\n    ".join(["def chain(x):", *lines, "return y"])


def build_chain(m: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a new function of m operators, with a code object of its own."""
    scope: Row = {"torch": torch}
    exec(source(m), scope)
    chain: Callable[[torch.Tensor], torch.Tensor] = scope["chain"]
    return chain


def build_join(count: int) -> Callable[..., torch.Tensor]:
    """Return a new function of one operator on ``count`` tensors."""
    names = ", ".join(f"x{i}" for i in range(count))
    scope: Row = {"torch": torch}
    exec(f"def join({names}):\n    return torch.cat([{names}])", scope)
    join: Callable[..., torch.Tensor] = scope["join"]
    return join


def prepare(function: Callable[..., torch.Tensor], backend: str) -> Callable[..., torch.Tensor]:
    """Return the function as it is, or compiled for the shapes it will get."""
    return function if backend == "none" else torch.compile(function, backend=backend, dynamic=False)


# ---------------------------------------------------------------- in the child process


def time_block(timer: Timer, key: str, block_ms: float) -> float:
    """Return the mean time of a call in seconds over one block; the key says whether gradients are on."""
    # A decorator or a ``with`` in the statement would be timed too.
    with torch.set_grad_enabled("training" in key):
        estimate = timer.timeit(20).mean
        return timer.timeit(max(1, math.ceil(block_ms / 1e3 / estimate))).mean


def child_calls(job: Row) -> Row:
    """Time all callables interleaved in a new order each round; return block means in seconds by key.

    The keys are "BACKEND/WORKLOAD/m" and "BACKEND/inputs/k".
    """
    from torch._dynamo.utils import counters

    device, backends, order = job["device"], job["backends"], random.Random(job["seed"])
    generator = torch.Generator().manual_seed(0)
    timers: dict[str, Timer] = {}
    errors: dict[str, float] = {}

    def add(key: str, statement: str, **scope: Any) -> None:
        timers[key] = Timer(statement, globals=scope, num_threads=job["threads"])
        with torch.set_grad_enabled("training" in key):
            for _ in range(SETTLING_CALLS):
                timers[key].timeit(1)

    for backend in backends:
        for m in job["lengths"]:
            for case, elements in ELEMENTS.items():
                # Each a function of its own: a shared one would collect a graph a shape and grad mode.
                call, ones = prepare(build_chain(m), backend), torch.ones(elements, device=device)
                x = torch.randn(elements, generator=torch.Generator().manual_seed(1)).to(device)
                x.requires_grad_(case == "training")
                statement = "call(x).backward(ones)" if case == "training" else "call(x)"
                add(f"{backend}/{case}/{m}", statement, call=call, x=x, ones=ones)
                with torch.set_grad_enabled(case == "training"):
                    result, wanted = call(x).detach(), build_chain(m)(x.detach())
                error = float((result - wanted).abs().max() / wanted.abs().max())
                errors[backend] = max(error, errors.get(backend, 0.0))
        for count in job["inputs"]:
            tensors = [torch.randn(4, generator=generator).to(device) for _ in range(count)]
            joined = prepare(build_join(count), backend)
            add(f"{backend}/inputs/{count}", "joined(*tensors)", joined=joined, tensors=tensors)
    blocks: dict[str, list[float]] = {key: [] for key in timers}
    for _ in range(job["rounds"]):
        for key in order.sample(list(timers), k=len(timers)):
            blocks[key].append(time_block(timers[key], key, job["block_ms"]))
    return {"blocks": blocks, "errors": errors, "graphs": counters["stats"]["unique_graphs"]}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = child_calls(job)
    except Exception as error:
        answer = {"failed": f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]}
    Path(job["answer"]).write_text(json.dumps(answer))
    sys.stdout.flush()
    # The answer is written; taking a compiler's worth of modules down in good order would cost another second.
    os._exit(0)


# ---------------------------------------------------------------- in the parent process


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and whatever it started: none may run on into the next timing."""
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
            command,
            env=os.environ | KEEP_MEMORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
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


def interval(name: str, values: Sequence[float]) -> Row:
    """Return the mean of the processes and its interval as columns ``name``_us, _low_us, _high_us."""
    return dict(zip((f"{name}_us", f"{name}_low_us", f"{name}_high_us"), t_interval(values), strict=True))


def timed(key: str, answers: Sequence[Row], name: str) -> Row:
    """Return median, quartiles and samples in us of one callable over all processes, as columns ``name``_us."""
    samples = [block * 1e6 for answer in answers for block in answer["blocks"][key]]
    q1, median, q3 = statistics.quantiles(samples, n=4, method="inclusive")
    row: Row = {f"{name}_us": median, f"{name}_q1_us": q1, f"{name}_q3_us": q3}
    return row | {"processes": len(answers), "rounds": len(samples) // len(answers), "samples_us": samples}


def line_rows(backend: str, case: str, lengths: Sequence[int], answers: Sequence[Row]) -> list[Row]:
    """Return the points of one back end and case and their line."""

    def lines(which: str, on: str) -> list[tuple[float, float]]:
        return [
            fit_line({m: statistics.median(answer["blocks"][f"{which}/{on}/{m}"]) * 1e6 for m in lengths})
            for answer in answers
        ]

    own, plain = lines(backend, case), lines("none", case)
    rows: list[Row] = [{"kind": "point", "m": m} | timed(f"{backend}/{case}/{m}", answers, "chain") for m in lengths]
    fit: Row = {"kind": "fit"} | interval("slope", [slope for slope, _ in own])
    fit |= interval("intercept", [start for _, start in own])
    fit |= dict.fromkeys(f"{name}{end}_us" for name in ("setup", "compute") for end in ("", "_low", "_high"))
    if backend != "none":
        fit |= interval("setup", [start - base for (_, start), (_, base) in zip(own, plain, strict=True)])
    if case == "large":
        tiny = lines(backend, "inference")
        fit |= interval("compute", [slope - launch for (slope, _), (launch, _) in zip(own, tiny, strict=True)])
    fit["slope_ratio"] = statistics.median(slope / base for (slope, _), (base, _) in zip(own, plain, strict=True))
    fit["max_rel_error"] = max(answer["errors"][backend] for answer in answers)
    return [*rows, fit]


def input_row(backend: str, count: int, answers: Sequence[Row]) -> Row:
    """Return the row of one operator on ``count`` tensors."""
    row: Row = {"kind": "inputs", "inputs": count} | timed(f"{backend}/inputs/{count}", answers, "call")
    row |= dict.fromkeys(("setup_us", "setup_low_us", "setup_high_us"))
    if backend != "none":
        own, plain = (
            [statistics.median(answer["blocks"][f"{which}/inputs/{count}"]) * 1e6 for answer in answers]
            for which in (backend, "none")
        )
        row |= interval("setup", [call - base for call, base in zip(own, plain, strict=True)])
    return row


def run(
    *,
    backends: Sequence[str] = BACKENDS,
    lengths: Sequence[int] = LENGTHS,
    inputs: Sequence[int] = INPUTS,
    processes: int = 6,
    rounds: int = 4,
    block_ms: float = 10.0,
    threads: int = 1,
    child_limit_s: float = 90.0,
) -> list[Row]:
    """Time the calls and return points, fits and inputs (columns: module docstring).

    ``backends``: names for torch.compile; "none" is always timed; ``lengths``: the values of m, at least two;
    ``inputs``: numbers of input tensors; ``processes`` (two at least) x ``rounds`` blocks of ``block_ms`` milliseconds
    a callable; ``child_limit_s``: a process that takes longer is killed. Raises ValueError for fewer than two.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    backends = ["none", *(backend for backend in backends if backend != "none")]
    job: Row = {"device": device, "threads": threads, "backends": backends, "lengths": list(lengths)}
    job |= {"inputs": list(inputs), "rounds": rounds, "block_ms": block_ms}
    answers: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="setup-cost-") as name:
        for seed in range(processes):
            answers.append(run_child(job | {"seed": seed}, Path(name), child_limit_s))
            if "failed" in answers[-1]:
                break

    shared: Row = {"status": "ok", "note": None, "device": device, "threads": threads}
    rows: list[Row] = []
    for backend in backends:
        reason = None
        if "failed" in answers[-1]:
            reason = ("failed", answers[-1]["failed"])
        elif backend != "none" and any(answer["graphs"] == 0 for answer in answers):
            reason = ("not measured", NOT_COMPILED)
        elif not (error := max(answer["errors"][backend] for answer in answers)) <= TOLERANCE:
            reason = ("wrong", f"relative error {error:.2g} against the plain function is above {TOLERANCE:g}")
        for case in CASES:
            own = shared | {"backend": backend, "case": case}
            if reason:
                lost = {"kind": "fit", "status": reason[0], "note": reason[1]}
                rows.append(own | lost | dict.fromkeys(FITTED))
            else:
                rows += [own | row for row in line_rows(backend, case, lengths, answers)]
        if not reason:
            own = shared | {"backend": backend, "case": "inference"}
            rows += [own | input_row(backend, count, answers) for count in inputs]
    return rows


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
    print()


def main(arguments: Sequence[str]) -> None:
    """Measure and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    rows = run()
    columns = {
        "point": ["backend", "case", "m", "chain_us", "chain_q1_us", "chain_q3_us"],
        "fit": ["backend", "case", "status", "slope_us", "intercept_us", "setup_us", "setup_low_us"],
        "inputs": ["backend", "inputs", "call_us", "setup_us", "setup_low_us", "setup_high_us"],
    }
    columns["fit"] += ["setup_high_us", "compute_us", "slope_ratio"]
    for kind, names in columns.items():
        if chosen := [row for row in rows if row["kind"] == kind]:
            print_table(chosen, names)


if __name__ == "__main__":
    main(sys.argv[1:])
