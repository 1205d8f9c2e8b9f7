# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 240
# value = 76
# ///
"""How near a fused kernel comes to the memory floor: the time of one read and one write, taken from a plain copy.

A chain of n pointwise operators, fused, has to read its input once and write its output once, whatever n is. A copy
has to do just that and nothing else, so its time is the floor. Above the floor lie the launch (small tensors) and the
arithmetic (long chains). Apart, the operators read and write n times: n floors.

The tensors are float32 and go in powers of four from a few KiB to four times the last-level cache, so that each
level of the cache shows.

How it is measured
    "copy" is ``y.copy_(x)``; on a CPU "memmove" is the C library's, which may store past the caches. The floor of a
    size is the faster of the two. All calls are interleaved in one process, in a new order each round, in several fresh
    processes. A block is ``torch.utils.benchmark.Timer(...).timeit(number)``, at least ``block_ms`` long. A ratio to
    the floor is paired within a round; each process gives the median of its logarithms, the interval is Student's t
    over processes. The compiled and the eager chains allocate their output at every call; on a CPU the processes
    are told to keep freed memory (KEEP_MEMORY), or page faults would be counted. Correctness first: a fused result
    further than TOLERANCE from float64 gives a row "wrong".

Rows, one for each series and size; told apart by ``series`` and ``tensor_kib``:
    series               "copy", "memmove", "fused_N" (compiled chain of N operators), "apart_N" (not compiled)
    n                    operators in the chain; None for a copy
    tensor_kib, place    size of one tensor; the smallest cache level that holds input and output, or "memory"
    call_us              one call, median of block means; call_q1_us and call_q3_us the quartiles
    bandwidth_gbs        2 x tensor / call_us, or 2 x n x tensor / call_us for "apart": decimal gigabytes
    floor_us             the faster copy of this size; floor_gbs its bandwidth: 2 x tensor / floor_us
    floor_ratio          call_us over the floor, paired; floor_low, floor_high bound its 95 % interval; None for copies
    max_rel_error, processes, rounds, device, threads
    status ("ok"; "failed", "wrong", "not measured" with the reason in note), note
    samples_us           every block
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import random
import re
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
Chain = Callable[[torch.Tensor], torch.Tensor]

OPERATORS = ("torch.mul({}, 1.5)", "torch.add({}, 0.25)", "torch.relu({})")
TOLERANCE = 1e-5
SMALLEST_KIB = 4
LARGEST_BYTES = 256 * 2**20  # of one tensor, so that a huge cache does not fill the memory
# glibc: no block of its own mapping, and never shrink the heap.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


# ---------------------------------------------------------------- what is timed


def build_chain(n: int) -> Chain:
    """Return a new function that chains n operators, written out: a code object, hence a compile cache, of its own."""
    lines = [f"    y = {OPERATORS[i % len(OPERATORS)].format('x' if i == 0 else 'y')}" for i in range(n)]
    scope: Row = {"torch": torch}
    exec("\n".join(["def chain(x):", *lines, "    return y"]), scope)
    function: Chain = scope["chain"]
    return function


def move(target: torch.Tensor, origin: torch.Tensor) -> Callable[[], Any]:
    """Return a call of the C library's memmove from one CPU tensor to another."""
    memmove = ctypes.memmove
    addresses, size = (target.data_ptr(), origin.data_ptr()), origin.nbytes
    return lambda: memmove(*addresses, size)


def cache_bytes(device: str) -> dict[str, int]:
    """Return the sizes of the data caches by level: L1 to L3 of a CPU, L2 of a GPU."""
    if device == "cuda":
        return {"L2": torch.cuda.get_device_properties(0).L2_cache_size}
    sizes = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        size = re.fullmatch(r"(\d+)([KMG])", (index / "size").read_text().strip())
        if size and (index / "type").read_text().strip() != "Instruction":
            level = "L" + (index / "level").read_text().strip()
            sizes[level] = int(size[1]) * 2 ** {"K": 10, "M": 20, "G": 30}[size[2]]
    return sizes


def sizes_for(device: str) -> list[int]:
    """Return the bytes of one tensor, ascending, in powers of four, the last at least twice the largest cache."""
    last = max(cache_bytes(device).values(), default=32 * 2**20)
    sizes = [SMALLEST_KIB * 1024]
    while sizes[-1] < 2 * last and sizes[-1] * 4 <= LARGEST_BYTES:
        sizes.append(sizes[-1] * 4)
    return sizes


def place_of(size: int, caches: dict[str, int]) -> str:
    """Return the smallest level that holds input and output, or "memory"."""
    return next((level for level, there in sorted(caches.items()) if 2 * size <= there), "memory")


# ---------------------------------------------------------------- in the child process


def captured_graphs() -> int:
    """Return how many graphs this process has captured and had compiled: 0 where torch.compile was turned off."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


@torch.no_grad()
def child_blocks(job: Row) -> Row:
    """Time everything interleaved in a new order each round; return block means in seconds.

    The blocks are keyed "SERIES/BYTES".
    """
    device, threads = job["device"], job["threads"]
    generator = torch.Generator().manual_seed(0)
    timers: dict[str, Timer] = {}
    errors: dict[str, float] = {}

    def add(key: str, statement: str, **scope: Any) -> None:
        timers[key] = Timer(statement, globals=scope, num_threads=threads)

    for size in job["sizes"]:
        x = torch.randn(size // 4, generator=generator).to(device)
        y = torch.empty_like(x)
        add(f"copy/{size}", "y.copy_(x)", x=x, y=y)
        if device == "cpu":
            # The tensors stay alive with the timer: the call itself knows only their addresses.
            add(f"memmove/{size}", "move()", move=move(y, x), x=x, y=y)
        for n in job["lengths"]:
            reference = build_chain(n)(x.double())
            fused = torch.compile(build_chain(n), dynamic=False, fullgraph=True)
            result = fused(x)
            error = (result.double() - reference).abs().max() / reference.abs().max()
            errors[f"fused_{n}/{size}"] = float(error)
            add(f"fused_{n}/{size}", "chain(x)", chain=fused, x=x)
            add(f"apart_{n}/{size}", "chain(x)", chain=build_chain(n), x=x)

    graphs = captured_graphs()
    order = random.Random(job["seed"])
    block_s = job["block_ms"] / 1e3
    numbers: dict[str, int] = {}
    for key, timer in timers.items():
        once = timer.timeit(1).mean
        # A short call is timed again over many: one alone says little.
        numbers[key] = max(1, math.ceil(block_s / (once if once > block_s else timer.timeit(10).mean)))
    blocks: dict[str, list[float]] = {key: [] for key in timers}
    for _ in range(job["rounds"]):
        for key in order.sample(list(timers), k=len(timers)):
            blocks[key].append(timers[key].timeit(numbers[key]).mean)
    return {"blocks": blocks, "errors": errors, "graphs": graphs}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = child_blocks(job)
    except Exception as error:
        answer = {"failed": f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]}
    Path(job["answer"]).write_text(json.dumps(answer))
    sys.stdout.flush()
    # The answer is written; taking a compiler's worth of modules down in good order would cost another second.
    os._exit(0)


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
    """Run one job in a fresh process whose caches and temporary files live in ``folder``.

    Returns the child's answer, or {"failed": reason} if it crashed or took longer than ``limit_s`` seconds.
    Its whole process group is killed at the end. Output goes to files, so nothing can hold a pipe open.
    """
    folder.mkdir(parents=True, exist_ok=True)
    answer, log = folder / "answer.json", folder / "log.txt"
    answer.unlink(missing_ok=True)
    caches = {
        "TMPDIR": folder,
        "TORCHINDUCTOR_CACHE_DIR": folder / "inductor",
        "TRITON_CACHE_DIR": folder / "triton",
    }
    environment = os.environ | KEEP_MEMORY | {name: str(path) for name, path in caches.items()}
    command = [sys.executable, __file__, "--child", json.dumps(job | {"answer": str(answer)})]
    with log.open("w") as output:
        # A session of its own makes it the leader of a process group.
        process = subprocess.Popen(
            command,
            env=environment,
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


def ratio_interval(groups: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return a ratio and its 95 % interval from the paired ratios of each process (how: module docstring)."""
    mean, low, high = t_interval([statistics.median(map(math.log, group)) for group in groups])
    return math.exp(mean), math.exp(low), math.exp(high)


def divide(above: Sequence[Sequence[float]], below: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the ratios paired within each round of each process."""
    pairs = zip(above, below, strict=True)
    return [[a / b for a, b in zip(one, other, strict=True)] for one, other in pairs]


def flat(groups: Sequence[Sequence[float]]) -> list[float]:
    """Return the values of all processes in one list."""
    return [value for group in groups for value in group]


def fastest(groups: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """Return the smallest value of every round of every process, over several series."""
    return [[min(values) for values in zip(*process, strict=True)] for process in zip(*groups, strict=True)]


def measured(series: str, size: int, n: int | None, copies: Sequence[str], answers: Sequence[Row]) -> Row:
    """Return the measured columns of a row from the blocks of all processes."""

    def blocks(which: str) -> list[list[float]]:
        return [[block * 1e6 for block in answer["blocks"][f"{which}/{size}"]] for answer in answers]

    here, floor = blocks(series), fastest([blocks(copy) for copy in copies])
    samples = flat(here)
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    traffic = 2 * size * (n if series.startswith("apart") and n else 1)
    part: Row = {"call_us": middle, "call_q1_us": low, "call_q3_us": high, "bandwidth_gbs": traffic / middle / 1e3}
    floor_us = statistics.median(flat(floor))
    part |= {"floor_us": floor_us, "floor_gbs": 2 * size / floor_us / 1e3}
    part |= {"processes": len(here), "rounds": len(here[0])}
    if n is not None:
        ratio = ratio_interval(divide(here, floor))
        part |= dict(zip(("floor_ratio", "floor_low", "floor_high"), ratio, strict=True))
    return part | {"samples_us": samples}


def blank(series: str, size: int, n: int | None, place: str) -> Row:
    """Return a row with every column, nothing measured yet."""
    row: Row = {"series": series, "n": n, "tensor_kib": size / 1024, "place": place}
    row |= dict.fromkeys(("call_us", "call_q1_us", "call_q3_us", "bandwidth_gbs", "floor_us", "floor_gbs"))
    row |= dict.fromkeys(("floor_ratio", "floor_low", "floor_high", "max_rel_error"))
    return row | {"processes": 0, "rounds": 0, "samples_us": []}


def run(
    *,
    lengths: Sequence[int] = (8,),
    sizes_kib: Sequence[int] | None = None,
    processes: int = 4,
    rounds: int = 3,
    block_ms: float = 20.0,
    threads: int = 1,
    child_limit_s: float = 120.0,
) -> list[Row]:
    """Time copies and chains and return their rows (columns: module docstring).

    ``lengths``: the values of n; ``sizes_kib``: sizes of one tensor (default: after the caches of this machine);
    ``processes`` (two at least) x ``rounds`` blocks of ``block_ms`` milliseconds a call; ``child_limit_s``: a process
    that takes longer is killed. Raises ValueError for fewer than two processes.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = sizes_for(device) if sizes_kib is None else [size * 1024 for size in sizes_kib]
    copies = ("copy", "memmove") if device == "cpu" else ("copy",)
    job: Row = {"device": device, "threads": threads, "lengths": list(lengths), "sizes": sizes}
    job |= {"rounds": rounds, "block_ms": block_ms}
    answers: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="floor-", ignore_cleanup_errors=True) as name:
        for seed in range(processes):
            # The first process fills the caches for the others; compile time is not what is measured here.
            answers.append(run_child(job | {"seed": seed}, Path(name), child_limit_s))
            if "failed" in answers[-1]:
                break
    failed, caches = answers[-1].get("failed"), cache_bytes(device)
    series = [(copy, None) for copy in copies] + [(f"{kind}_{n}", n) for kind in ("fused", "apart") for n in lengths]
    rows = []
    for which, n in series:
        for size in sizes:
            row = blank(which, size, n, place_of(size, caches))
            row |= {"device": device, "threads": threads, "status": "ok", "note": None}
            if failed is not None:
                rows.append(row | {"status": "failed", "note": failed})
                continue
            if which.startswith("fused"):
                errors = [answer["errors"][f"{which}/{size}"] for answer in answers]
                error = math.nan if any(map(math.isnan, errors)) else max(errors)
                row["max_rel_error"] = error if math.isfinite(error) else None
                if not error <= TOLERANCE:  # also true for NaN
                    note = f"relative error {error:.2g} against float64 is above {TOLERANCE:g}"
                    rows.append(row | {"status": "wrong", "note": note})
                    continue
                if any(answer["graphs"] == 0 for answer in answers):
                    rows.append(row | {"status": "not measured", "note": NOT_COMPILED})
                    continue
            rows.append(row | measured(which, size, n, copies, answers))
    return rows


def print_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print some columns of the rows, aligned; notes follow below."""

    def cell(value: Any) -> str:
        return "-" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)

    lines = [list(columns), *([cell(row[column]) for column in columns] for row in rows)]
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
    columns = ["series", "place", "tensor_kib", "status", "call_us", "bandwidth_gbs", "floor_us"]
    columns += ["floor_ratio", "floor_low", "floor_high"]
    print_table(run(), columns)


if __name__ == "__main__":
    main(sys.argv[1:])
