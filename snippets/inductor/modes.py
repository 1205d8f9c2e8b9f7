# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 300
# value = 66
# ///
"""The modes of Inductor on one function: what each sets, what it costs to compile, and what a call then takes.

A mode is a named set of options: ``torch._inductor.list_mode_options()`` of this torch says which there are, and
that list is what is measured. The function is a matrix product, bias, GELU and softmax: a product that can be tuned
and a kernel that can be fused.

How it is measured
    Compile time: a fresh process a mode and repeat, with an empty cache folder; the precompiled C++ header is there
    already (made by a process that is not counted), so that the modes differ in their own work only. It is the first
    SETTLING_CALLS calls, from before ``torch.compile``, less as many steady ones.
    Calls: all modes and the function without compiling interleaved in one process, in a new order each round, in
    several fresh processes. A block is ``torch.utils.benchmark.Timer(...).timeit(number)``. Ratios are paired within a
    round; each process gives the median of its logarithms, the interval is Student's t over processes. "none" runs
    twice: "none_again" shows the noise.
    Correctness first: a mode further than TOLERANCE from float64 gives a row "wrong".

Rows, one a mode, with "none" (not compiled) first and "none_again" second:
    mode                    its name
    options                 what it sets, as JSON; "{}" for the default mode
    compile_s               one-off cost; compile_low_s, compile_high_s the least and the greatest of the repeats
    call_us                 one call, median of block means; call_q1_us, call_q3_us the quartiles
    speedup_ratio           none / this mode, paired; speedup_low, speedup_high bound its 95 % interval
    against_default_ratio   default / this mode, in the same way; against_default_low, against_default_high
    verdict                 on speedup_ratio: "faster", "slower", "no difference"
    verdict_default         on against_default_ratio
    kernels, library_calls  kernels in the generated code; calls of the library for the product, or of ATen itself
    same_code               is the generated code that of the default mode, but for names and asserts?
    graph_skips             times CUDA graphs were asked for and left out (torch's counter ``cudagraph_skips``)
    graph_replays           CUDA graphs launched in one call, seen by the profiler; None on a CPU
    max_rel_error, processes, rounds, repeats, device, threads
    status ("ok"; "failed", "wrong", "not measured" with the reason in note), note
    samples_us, samples_compile_s
"""

from __future__ import annotations

import contextlib
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
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.utils.benchmark import Timer

Row = dict[str, Any]
Call = Callable[..., torch.Tensor]

ROWS, INNER, COLUMNS = 256, 512, 512
TOLERANCE = 1e-3  # a product in TF32, where the mode or the user allows it, is no error
SETTLING_CALLS = 4  # CUDA graphs warm up, record, and replay from the third call on
PROFILED_CALLS = 5
PLAIN = ("none", "none_again")
# glibc: no block of its own mapping, and never shrink the heap.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)
NO_SUCH_MODE = "This version of torch has no such mode."
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


# ---------------------------------------------------------------- the function


def head(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return softmax(GELU(x w + b)), (ROWS, COLUMNS)."""
    return torch.softmax(torch.nn.functional.gelu(x @ w + b), dim=-1)


def inputs(device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return x (ROWS, INNER), w (INNER, COLUMNS) and b (COLUMNS), float32, the same in every process."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((ROWS, INNER), (INNER, COLUMNS), (COLUMNS,))
    x, w, b = (torch.randn(*shape, generator=generator).to(device) for shape in shapes)
    return x, w / INNER**0.5, b


def fresh() -> Call:
    """Return the function with a code object of its own: compiled graphs are kept by code object."""
    return types.FunctionType(head.__code__.replace(co_name="head_copy"), head.__globals__, "head")


def prepare(mode: str) -> Call:
    """Return the callable of one mode."""
    return fresh() if mode in PLAIN else torch.compile(fresh(), mode=mode, fullgraph=True)


def modes_here() -> dict[str, dict[str, Any]]:
    """Return the modes of this torch and the options that each sets."""
    from torch._inductor import list_mode_options

    return {mode: dict(options) for mode, options in list_mode_options().items()}


# ---------------------------------------------------------------- in the child process


def synchronize(device: str) -> None:
    """Wait for the device; on a CPU calls are complete when they return."""
    if device == "cuda":
        torch.cuda.synchronize()


def timer_of(call: Call, values: Sequence[torch.Tensor], threads: int) -> Timer:
    """Return a timer of one call (it warms up and synchronises)."""
    return Timer("call(*values)", globals={"call": call, "values": values}, num_threads=threads)


def plain_code(code: str) -> str:
    """Return generated code without what differs between two compilations of the same thing."""
    lines = [line for line in code.splitlines() if not re.match(r"\s*(#|assert_size_stride|assert_alignment)", line)]
    return re.sub(r"\b(cpp|triton)_(fused|poi|per|red)\w*", r"\1", "\n".join(lines))


def count_replays(call: Call, values: Sequence[torch.Tensor]) -> float | None:
    """Return how many CUDA graphs one call launches; None where the profiler saw nothing at all."""
    from torch.profiler import ProfilerActivity, profile

    try:
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            for _ in range(PROFILED_CALLS):
                call(*values)
            torch.cuda.synchronize()
        names = [event.name for event in profiler.events()]
    except RuntimeError:  # no permission for the profiler, say
        return None
    graphs = sum(name.startswith(("cudaGraphLaunch", "cuGraphLaunch")) for name in names)
    others = sum(name.startswith(("cudaLaunch", "cuLaunch")) for name in names)
    return graphs / PROFILED_CALLS if graphs or others else None


@torch.no_grad()
def child_compile(job: Row) -> Row:
    """Compile one mode in this process: one-off cost in seconds, error, and what the code holds."""
    device, mode = job["device"], job["mode"]
    values = inputs(device)
    reference = head(*(value.double() for value in values))
    head(*values)
    synchronize(device)

    start = time.perf_counter()
    from torch._dynamo.utils import counters  # importing the compiler is part of the cost
    from torch._inductor.graph import GraphLowering

    codes: list[str] = []
    with patch.object(GraphLowering, "save_output_code", codes.append):
        call = prepare(mode)
        for _ in range(SETTLING_CALLS):
            result = call(*values)
        synchronize(device)
    settled_s = time.perf_counter() - start

    # A CUDA graph overwrites its output at the next replay: compare before the next call.
    error = float((result.double() - reference).abs().max() / reference.abs().max())
    step_s = timer_of(call, values, job["threads"]).timeit(20).mean
    code = "\n".join(codes)
    _, _, wrapper = code.partition("def call(")
    return {
        "compile_s": max(0.0, settled_s - SETTLING_CALLS * step_s),
        "error": error,
        "graphs": counters["stats"]["unique_graphs"],
        "code": plain_code(code),
        "kernels": len(re.findall(r"\basync_compile\.(?:cpp_pybinding|cpp|triton)\(", code)),
        "library_calls": len(re.findall(r"\bextern_kernels\.\w+\(|\btorch\.ops\.[\w.]+\(", wrapper)),
        "graph_skips": counters["inductor"]["cudagraph_skips"],
        "graph_replays": count_replays(call, values) if device == "cuda" else None,
    }


@torch.no_grad()
def child_calls(job: Row) -> Row:
    """Time all modes interleaved in a new order each round; return their block means in seconds."""
    values = inputs(job["device"])
    timers = {}
    for mode in job["modes"]:
        call = prepare(mode)
        for _ in range(SETTLING_CALLS):
            call(*values)
        timers[mode] = timer_of(call, values, job["threads"])
    order = random.Random(job["seed"])
    block_s = job["block_ms"] / 1e3
    numbers = {mode: max(1, math.ceil(block_s / timer.timeit(10).mean)) for mode, timer in timers.items()}
    blocks: dict[str, list[float]] = {mode: [] for mode in timers}
    for _ in range(job["rounds"]):
        for mode in order.sample(list(timers), k=len(timers)):
            blocks[mode].append(timers[mode].timeit(numbers[mode]).mean)
    return {"blocks": blocks}


CHILDREN: dict[str, Callable[[Row], Row]] = {"compile": child_compile, "calls": child_calls}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = CHILDREN[job["task"]](job)
    except Exception as error:
        # The reason belongs in the row of this mode; the parent goes on with the others.
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


def run_child(job: Row, folder: Path, cache: Path, limit_s: float) -> Row:
    """Run one job in a fresh process with ``folder`` for temporary files and ``cache`` for Inductor.

    Returns the child's answer, or {"failed": reason} if it crashed or took longer than ``limit_s`` seconds.
    Its whole process group is killed at the end. Output goes to files, so nothing can hold a pipe open.
    """
    folder.mkdir(parents=True, exist_ok=True)
    answer, log = folder / "answer.json", folder / "log.txt"
    answer.unlink(missing_ok=True)
    caches = {
        "TMPDIR": folder,
        "TORCHINDUCTOR_CACHE_DIR": cache,
        "TRITON_CACHE_DIR": cache / "triton",
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


def judge(ratio: float, low: float, high: float, noise: float) -> str:
    """Return the verdict on a ratio, above 1 is faster; ``noise`` is the largest log ratio of the A/A pair."""
    if low <= 1 <= high or abs(math.log(ratio)) <= noise:
        return "no difference"
    return "faster" if ratio > 1 else "slower"


def divide(above: Sequence[Sequence[float]], below: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the ratios paired within each round of each process."""
    pairs = zip(above, below, strict=True)
    return [[a / b for a, b in zip(one, other, strict=True)] for one, other in pairs]


def flat(groups: Sequence[Sequence[float]]) -> list[float]:
    """Return the values of all processes in one list."""
    return [value for group in groups for value in group]


def blank(mode: str, options: dict[str, Any] | None) -> Row:
    """Return a row with every column, nothing measured yet."""
    row: Row = {"mode": mode, "options": None if options is None else json.dumps(options)}
    row |= dict.fromkeys(("compile_s", "compile_low_s", "compile_high_s", "call_us", "call_q1_us", "call_q3_us"))
    row |= dict.fromkeys(("speedup_ratio", "speedup_low", "speedup_high"))
    row |= dict.fromkeys(("against_default_ratio", "against_default_low", "against_default_high"))
    row |= dict.fromkeys(("verdict", "verdict_default", "kernels", "library_calls", "same_code"))
    row |= dict.fromkeys(("graph_skips", "graph_replays", "max_rel_error"))
    return row | {"processes": 0, "rounds": 0, "repeats": 0, "samples_us": [], "samples_compile_s": []}


def compiled_part(answers: Sequence[Row], default_code: str | None) -> Row:
    """Return the columns of a row that compiling gave, with status and note."""
    failed = next((answer["failed"] for answer in answers if "failed" in answer), None)
    if failed is not None:
        return {"status": "failed", "note": failed}
    first = answers[0]
    if first["graphs"] == 0:
        return {"status": "not measured", "note": NOT_COMPILED}
    error = max((answer["error"] for answer in answers), key=lambda e: math.inf if math.isnan(e) else e)
    if not error <= TOLERANCE:
        return {"status": "wrong", "note": f"relative error {error:.2g} against float64 is above {TOLERANCE:g}"}
    costs = [answer["compile_s"] for answer in answers]
    part = {name: first[name] for name in ("kernels", "library_calls", "graph_skips", "graph_replays")}
    part |= {"compile_s": statistics.median(costs), "compile_low_s": min(costs), "compile_high_s": max(costs)}
    part |= {"same_code": None if default_code is None else first["code"] == default_code}
    part |= {"max_rel_error": error, "repeats": len(costs), "samples_compile_s": costs}
    return part | {"status": "ok", "note": None}


def timed_part(mode: str, answers: Sequence[Row], noise: float) -> Row:
    """Return the columns of a row that timing the calls gave."""

    def blocks(which: str) -> list[list[float]]:
        return [answer["blocks"][which] for answer in answers]

    here = blocks(mode)
    samples = [block * 1e6 for block in flat(here)]
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    part: Row = {"call_us": middle, "call_q1_us": low, "call_q3_us": high}
    part |= {"processes": len(here), "rounds": len(here[0]), "samples_us": samples}
    if mode != "none":
        ratio = ratio_interval(divide(blocks("none"), here))
        part |= dict(zip(("speedup_ratio", "speedup_low", "speedup_high"), ratio, strict=True))
        if mode not in PLAIN:
            part["verdict"] = judge(*ratio, noise)
    if mode not in (*PLAIN, "default") and "default" in answers[0]["blocks"]:
        ratio = ratio_interval(divide(blocks("default"), here))
        names = ("against_default_ratio", "against_default_low", "against_default_high")
        part |= dict(zip(names, ratio, strict=True)) | {"verdict_default": judge(*ratio, noise)}
    return part


def run(
    *,
    modes: Sequence[str] | None = None,
    repeats: int = 1,
    processes: int = 4,
    rounds: int = 5,
    block_ms: float = 20.0,
    threads: int = 1,
    child_limit_s: float = 120.0,
) -> list[Row]:
    """Compile each mode, then time all, and return the rows (columns: module docstring).

    ``modes``: which (default: all that this torch lists); ``repeats`` compiles of each; ``processes`` (two at least)
    x ``rounds`` blocks of ``block_ms`` milliseconds. Raises ValueError for fewer than two processes.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    known = modes_here()
    wanted = list(known if modes is None else modes)
    job: Row = {"device": device, "threads": threads, "block_ms": block_ms, "rounds": rounds}
    compiled: dict[str, list[Row]] = {mode: [] for mode in wanted}
    answers: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="modes-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if any(mode in known for mode in wanted):
            run_child(job | {"task": "compile", "mode": "default"}, folder, folder / "uncounted", child_limit_s)
        for repeat in range(repeats):
            for mode in wanted:
                cache = folder / f"cache-{mode}-{repeat}"
                if mode in known:
                    answer = run_child(job | {"task": "compile", "mode": mode}, folder, cache, child_limit_s)
                    compiled[mode].append(answer)
        codes = [answer.get("code") for answer in compiled.get("default", [])]
        parts = {mode: compiled_part(found, codes[0] if codes else None) for mode, found in compiled.items() if found}
        good = [mode for mode, part in parts.items() if part["status"] == "ok"]
        for seed in range(processes):
            calls = job | {"task": "calls", "modes": [*PLAIN, *good], "seed": seed}
            answers.append(run_child(calls, folder, folder / "calls", child_limit_s))
            if "failed" in answers[-1]:
                break
    lost = answers[-1].get("failed")
    noise = 0.0
    if lost is None:
        one, other = ([answer["blocks"][who] for answer in answers] for who in PLAIN)
        noise = max(abs(math.log(bound)) for bound in ratio_interval(divide(one, other))[1:])
    rows = []
    for mode in (*PLAIN, *wanted):
        row = blank(mode, known.get(mode)) | {"device": device, "threads": threads, "status": "ok", "note": None}
        if mode not in PLAIN:
            row |= parts.get(mode, {"status": "unavailable", "note": NO_SUCH_MODE})
        if row["status"] == "ok" and lost is not None:
            row |= {"status": "failed", "note": f"The steps could not be timed: {lost}"}
            row |= dict.fromkeys(("compile_s", "compile_low_s", "compile_high_s"))
        elif row["status"] == "ok":
            row |= timed_part(mode, answers, noise)
        rows.append(row)
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
    columns = ["mode", "status", "compile_s", "call_us", "speedup_ratio", "speedup_low", "speedup_high", "verdict"]
    columns += ["against_default_ratio", "verdict_default", "kernels", "library_calls", "same_code", "graph_skips"]
    print_table(run(), columns)


if __name__ == "__main__":
    main(sys.argv[1:])
