# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 600
# value = 100
# ///
"""Four back ends of torch.compile on one small model: what each costs once, and what each saves a step.

The model is an MLP 512-256-128-10 with ReLU, batch 64, float32, inference under ``torch.no_grad()``. Each row
is one way to call it: ``none`` (not compiled), ``none_again`` (the same once more: an A/A pair, which shows the
noise), then ``torch.compile(model, backend=...)`` with ``eager``, ``aot_eager``, ``inductor``, ``cudagraphs``.

How it is measured
    Correctness first: further than TOLERANCE from a float64 reference gives a row "wrong" without times.

    Compile, cold: a fresh process with TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR *and* TMPDIR (the precompiled
    C++ header lives in the last) in a folder that is new in each repeat. The clock starts before
    ``torch.compile()``, so importing TorchDynamo counts, and stops after SETTLING_CALLS calls; as many steady
    steps are taken off. More than one call, because CUDA graphs are recorded in the second. The plain model runs
    once before the clock, so that no back end pays for the start-up of the maths libraries. Warm: a second process
    on the folder of that repeat. Each child's process group is killed when the child is done, so that no compile
    worker runs on beside the next one.

    A back end that did nothing gets no time: one is "not measured" if no graph was captured, or (cudagraphs) no
    CUDA graph was recorded.

    Steps: all variants that lived through that, each with its own copy of the module, are interleaved in one
    process, in a new random order each round. A block is ``torch.utils.benchmark.Timer(...).timeit(number)``,
    at least ``block_ms`` long. Several fresh processes do the same. The ratio to ``none`` is paired within a
    round. Each process gives one number, the median of the logarithms of its ratios; the speed-up is their mean
    (turned back into a ratio), and its 95 % interval the t interval of that mean, k - 1 degrees of freedom for k
    processes: a t interval over process medians. The process is the unit of replication, for its rounds share what
    differs between processes, such as memory layout (after Kalibera and Jones, "Rigorous Benchmarking in
    Reasonable Time", ISMM 2013).

Columns
    backend, call      the variant, and how it is written
    status, note       "ok", or "failed", "wrong", "not measured" with the reason in note; then times are None
    device, threads    "cpu" or "cuda"; CPU threads of torch
    max_rel_error      largest absolute error over the largest absolute reference value
    first_call_s       ``torch.compile()`` and the first call, cold (median over repeats)
    compile_cold_s     one-off cost, cold: median over repeats; compile_cold_low_s and compile_cold_high_s are the
                       least and the greatest; 0 where nothing is compiled
    compile_warm_s     the same on a filled cache, with compile_warm_low_s and compile_warm_high_s
    step_us            median of a step; step_q1_us and step_q3_us are the quartiles over all blocks
    speedup_ratio      time of none / time of this, from the paired ratios as said above: above 1 is faster;
                       speedup_low and speedup_high bound its 95 % interval
    verdict            "faster", "slower", or "no difference": 1 lies in the interval, or the effect is no larger
                       than what the A/A pair shows
    saved_us           step_us of none less step_us of this
    steps              N, the number of steps of the job
    total_s            compile_cold_s + N x step_us
    payoff_r           R = saved_us x N / compile_cold_s: above 1 the time saved exceeds the time invested; None where
                       the verdict is "no difference": times N, noise would look like a saving
    break_even         N* = compile_cold_s / saved_us, rounded up; None where the verdict is not "faster", and
                       then break_even_text is "never". break_even_low and break_even_high: N* at the ends of the
                       interval of the speed-up (the spread of compile_cold_s is not in it); None where N* is None,
                       and break_even_high where that end saves nothing: no bound
    graph_launches     CUDA graph launches that the profiler saw, a step (CUDA only; None where it saw no launch)
    processes, rounds  how many processes timed the steps, and how many rounds each
    samples_us         every block of every process: mean of a step
    samples_compile_cold_s, samples_compile_warm_s    every repeat
"""

from __future__ import annotations

import contextlib
import copy
import itertools
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import Timer

Row = dict[str, Any]

BATCH = 64
WIDTHS = (512, 256, 128, 10)
TOLERANCE = 1e-4
SETTLING_CALLS = 3
PROFILED_STEPS = 5
BACKENDS = ("eager", "aot_eager", "inductor", "cudagraphs")
NO_GRAPHS = (
    "No CUDA graph was recorded, so there is nothing to time: the back end fell back to running the captured "
    "operators one by one"
)
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


# ---------------------------------------------------------------- the model


def build_model(device: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """Return the MLP in eval mode and its input, shape (BATCH, 512), float32, the same in every process."""
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = []
    for inputs, outputs in itertools.pairwise(WIDTHS):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1]).eval().to(device)
    return model, torch.randn(BATCH, WIDTHS[0], device=device)


def prepare(model: torch.nn.Module, variant: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the callable of one variant on its own copy of the module."""
    own = copy.deepcopy(model)
    return own if variant.startswith("none") else torch.compile(own, backend=variant)


def written(variant: str) -> str:
    """Return how one writes a variant."""
    return "model(x)" if variant.startswith("none") else f'torch.compile(model, backend="{variant}")(x)'


def relative_error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the largest absolute error over the largest absolute value of the float64 reference."""
    return float((result.double() - reference).abs().max() / reference.abs().max())


# ---------------------------------------------------------------- in the child process


def synchronize(device: str) -> None:
    """Wait for the device; on a CPU calls are complete when they return."""
    if device == "cuda":
        torch.cuda.synchronize()


def time_block(call: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, number: int, threads: int) -> float:
    """Return the mean time of a step over ``number`` steps in seconds (Timer warms up and synchronises)."""
    return Timer("call(x)", globals={"call": call, "x": x}, num_threads=threads).timeit(number).mean


def block_size(step_s: float, block_ms: float) -> int:
    """Return how many steps fill a block."""
    return max(1, math.ceil(block_ms / 1e3 / max(step_s, 1e-9)))


def captured_graphs() -> int:
    """Return how many graphs this process has captured and had compiled: 0 where torch.compile was turned off."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def count_graph_launches(call: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> float | None:
    """Return the CUDA graph launches of one step, over PROFILED_STEPS steps.

    None where that stays unknown: the profiler failed, or saw no launch of any kind.
    """
    from torch.profiler import ProfilerActivity, profile

    try:
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            for _ in range(PROFILED_STEPS):
                call(x)
            torch.cuda.synchronize()
        names = [event.name for event in profiler.events()]
    except Exception:
        # Without a profiler (no permission for it, say) there is no evidence against the back end either.
        return None
    graphs = sum(name.startswith(("cudaGraphLaunch", "cuGraphLaunch")) for name in names)
    others = sum(name.startswith(("cudaLaunch", "cuLaunch")) for name in names)
    return graphs / PROFILED_STEPS if graphs or others else None


@torch.no_grad()
def child_compile(job: Row) -> Row:
    """Compile one variant in this process and time it: first call, one-off cost, steady step (seconds)."""
    device, variant = job["device"], job["variant"]
    model, x = build_model(device)
    reference = copy.deepcopy(model).double()(x.double())
    model(x)
    synchronize(device)

    start = time.perf_counter()
    call = prepare(model, variant)
    call(x)
    synchronize(device)
    first_s = time.perf_counter() - start
    for _ in range(SETTLING_CALLS - 1):
        call(x)
    synchronize(device)
    settled_s = time.perf_counter() - start

    error = relative_error(call(x), reference)
    step_s = time_block(call, x, block_size(time_block(call, x, 10, job["threads"]), job["block_ms"]), job["threads"])
    answer: Row = {
        "first_s": first_s,
        "compile_s": max(0.0, settled_s - SETTLING_CALLS * step_s),
        "error": error,
        "graphs": None if variant == "none" else captured_graphs(),
    }
    if variant == "cudagraphs":
        from torch._dynamo.utils import counters

        answer["graph_skips"] = counters["inductor"]["cudagraph_skips"]
        answer["graph_launches"] = count_graph_launches(call, x) if device == "cuda" else None
    return answer


@torch.no_grad()
def child_steps(job: Row) -> Row:
    """Time all variants interleaved in a new order each round; return their block means in seconds."""
    threads, order = job["threads"], random.Random(job["seed"])
    model, x = build_model(job["device"])
    calls: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {}
    for variant in job["variants"]:
        calls[variant] = prepare(model, variant)
        for _ in range(SETTLING_CALLS):
            calls[variant](x)
    numbers = {v: block_size(time_block(call, x, 20, threads), job["block_ms"]) for v, call in calls.items()}
    blocks: dict[str, list[float]] = {variant: [] for variant in calls}
    for _ in range(job["rounds"]):
        for variant in order.sample(list(calls), k=len(calls)):
            blocks[variant].append(time_block(calls[variant], x, numbers[variant], threads))
    return {"blocks": blocks}


CHILDREN: dict[str, Callable[[Row], Row]] = {"compile": child_compile, "steps": child_steps}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = CHILDREN[job["task"]](job)
    except Exception as error:
        # The reason belongs in the row of this back end; the parent goes on with the others.
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
    environment = os.environ | {name: str(path) for name, path in caches.items()}
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


def quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    """Return lower quartile, median, upper quartile."""
    if len(samples) < 2:
        return samples[0], samples[0], samples[0]
    q1, median, q3 = statistics.quantiles(samples, n=4, method="inclusive")
    return q1, median, q3


def blank_row(variant: str, device: str, threads: int, steps: int) -> Row:
    """Return a row with every column, nothing measured yet."""
    row: Row = {"backend": variant, "call": written(variant), "status": "ok", "note": None}
    row |= {"device": device, "threads": threads, "max_rel_error": None, "first_call_s": None}
    for name in ("compile_cold", "compile_warm"):
        row |= {f"{name}_s": None, f"{name}_low_s": None, f"{name}_high_s": None}
    row |= dict.fromkeys(("step_us", "step_q1_us", "step_q3_us", "speedup_ratio", "speedup_low", "speedup_high"))
    row |= {"verdict": None, "saved_us": None, "steps": steps, "total_s": None, "payoff_r": None}
    row |= dict.fromkeys(("break_even", "break_even_low", "break_even_high", "break_even_text", "graph_launches"))
    row |= {"processes": 0, "rounds": 0}
    return row | {"samples_us": [], "samples_compile_cold_s": [], "samples_compile_warm_s": []}


def add_compile(row: Row, answers: Sequence[Row], column: str) -> None:
    """Put the compile times of several repeats into a row: median, least, greatest, samples (seconds)."""
    samples = [answer["compile_s"] for answer in answers]
    row[f"samples_{column}_s"] = samples
    row[f"{column}_s"] = statistics.median(samples)
    row[f"{column}_low_s"], row[f"{column}_high_s"] = min(samples), max(samples)


def trouble(variant: str, device: str, answer: Row) -> tuple[str, str] | None:
    """Return (status, note) where a compile in a child did not give what it should, else None."""
    if "failed" in answer:
        return "failed", answer["failed"]
    if not answer["error"] <= TOLERANCE:  # also true for NaN
        return "wrong", f"relative error {answer['error']:.2g} against float64 is above {TOLERANCE:g}"
    if answer["graphs"] == 0:
        return "not measured", NOT_COMPILED
    if variant == "cudagraphs":
        if device != "cuda":
            return "not measured", f"{NO_GRAPHS} (it needs a CUDA device; this machine has none)."
        if answer["graph_skips"] or answer["graph_launches"] == 0:
            seen = f"skips counted: {answer['graph_skips']}, graph launches seen: {answer['graph_launches']}"
            return "not measured", f"{NO_GRAPHS} ({seen})."
    return None


def add_steps(rows: dict[str, Row], runs: Sequence[dict[str, list[float]]]) -> None:
    """Put step times, paired ratios and verdicts into the rows; ``runs`` holds each process's blocks (s)."""
    ratios: dict[str, list[list[float]]] = {
        variant: [[n / t for n, t in zip(run["none"], run[variant], strict=True)] for run in runs] for variant in rows
    }
    noise = max(abs(math.log(bound)) for bound in ratio_interval(ratios["none_again"])[1:])
    for variant, row in rows.items():
        samples = [block * 1e6 for run in runs for block in run[variant]]
        row["samples_us"] = samples
        row["step_q1_us"], row["step_us"], row["step_q3_us"] = quartiles(samples)
        row["processes"], row["rounds"] = len(runs), len(runs[0][variant])
        if variant == "none":
            continue
        ratio, low, high = ratio_interval(ratios[variant])
        row["speedup_ratio"], row["speedup_low"], row["speedup_high"] = ratio, low, high
        row["verdict"] = judge(ratio, low, high, noise)
        row["saved_us"] = rows["none"]["step_us"] - row["step_us"]


def add_payoff(row: Row) -> None:
    """Put the total, the payoff R and the break-even count N* into a row that has compile and step times."""
    if row["compile_cold_s"] is None:
        return
    row["total_s"] = row["compile_cold_s"] + row["steps"] * row["step_us"] * 1e-6
    if row["backend"].startswith("none"):
        return
    saved_s = row["saved_us"] * 1e-6
    if row["verdict"] != "no difference":
        row["payoff_r"] = saved_s * row["steps"] / row["compile_cold_s"]
    if row["verdict"] != "faster" or saved_s <= 0:
        row["break_even_text"] = "never"
        return
    row["break_even"] = math.ceil(row["compile_cold_s"] / saved_s)
    for name, bound in (("break_even_low", row["speedup_high"]), ("break_even_high", row["speedup_low"])):
        # A step saves 1 - 1/ratio of the time of "none"; in proportion, so that N* lies between the two.
        saved_at_bound_s = saved_s * (1 - 1 / bound) / (1 - 1 / row["speedup_ratio"])
        if saved_at_bound_s > 0:
            row[name] = math.ceil(row["compile_cold_s"] / saved_at_bound_s)


def run(
    *,
    backends: Sequence[str] = BACKENDS,
    steps: int = 10_000,
    repeats: int = 3,
    processes: int = 5,
    rounds: int = 20,
    block_ms: float = 20.0,
    threads: int = 1,
    child_limit_s: float = 120.0,
) -> list[Row]:
    """Measure the variants and return one row each (columns: module docstring).

    ``backends``: names for torch.compile; ``steps``: N of the job; ``repeats``: cold and warm compiles of each;
    ``processes`` (two at least) x ``rounds`` blocks of ``block_ms`` milliseconds time the steps of each;
    ``child_limit_s``: a process that takes longer is killed, and its back end is a failed row. Raises ValueError
    for fewer than two processes.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = {v: blank_row(v, device, threads, steps) for v in ("none", "none_again", *backends)}
    common: Row = {"device": device, "threads": threads, "block_ms": block_ms}
    order = random.Random(0)
    cold: dict[str, list[Row]] = {variant: [] for variant in rows}
    warm: dict[str, list[Row]] = {variant: [] for variant in rows}

    # The A/A twin needs no compile of its own.
    alive = ["none", *backends]
    with tempfile.TemporaryDirectory(prefix="four-backends-", ignore_cleanup_errors=True) as name:
        for repeat in range(repeats):
            for variant in order.sample(alive, k=len(alive)):
                folder = Path(name, f"{variant}-{repeat}")
                job = common | {"task": "compile", "variant": variant}
                for answers in (cold, warm) if variant != "none" else (cold,):
                    answer = run_child(job, folder, child_limit_s)
                    if reason := trouble(variant, device, answer):
                        rows[variant]["status"], rows[variant]["note"] = reason
                        error = answer.get("error", math.nan)
                        rows[variant]["max_rel_error"] = error if math.isfinite(error) else None
                        alive.remove(variant)
                        break
                    answers[variant].append(answer)
        for variant in alive:
            row = rows[variant]
            row["max_rel_error"] = max(answer["error"] for answer in cold[variant])
            row["first_call_s"] = statistics.median(answer["first_s"] for answer in cold[variant])
            row["graph_launches"] = cold[variant][0].get("graph_launches")
            if variant == "none":
                # Nothing is compiled: the cost is 0 by definition, not the noise of a difference.
                row["compile_cold_s"] = row["compile_cold_low_s"] = row["compile_cold_high_s"] = 0.0
            else:
                add_compile(row, cold[variant], "compile_cold")
                add_compile(row, warm[variant], "compile_warm")

        timed = [variant for variant in rows if variant in alive or variant == "none_again"]
        runs: list[dict[str, list[float]]] = []
        reason_lost = "the plain model did not run" if "none" not in alive else None
        # One cache for the processes that time the steps: the last of the back end that costs most to compile.
        costliest = max(alive, key=lambda v: rows[v]["compile_cold_s"], default="none")
        for seed in range(processes if reason_lost is None else 0):
            job = common | {"task": "steps", "variants": timed, "rounds": rounds, "seed": seed}
            answer = run_child(job, Path(name, f"{costliest}-{repeats - 1}"), child_limit_s)
            if "failed" in answer:
                reason_lost = answer["failed"]
                break
            runs.append(answer["blocks"])

    if reason_lost is not None:
        lost = f"The steps could not be timed: {reason_lost}"
        rows |= {v: blank_row(v, device, threads, steps) | {"status": "failed", "note": lost} for v in timed}
    else:
        rows["none_again"]["max_rel_error"] = rows["none"]["max_rel_error"]
        add_steps({variant: rows[variant] for variant in timed}, runs)
        for variant in timed:
            add_payoff(rows[variant])
    return list(rows.values())


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
    rows = run()
    columns = [
        "backend",
        "status",
        "first_call_s",
        "compile_cold_s",
        "compile_warm_s",
        "step_us",
        "speedup_ratio",
    ]
    columns += ["speedup_low", "speedup_high", "verdict", "saved_us", "payoff_r", "break_even", "total_s"]
    print_table(rows, columns)


if __name__ == "__main__":
    main(sys.argv[1:])
