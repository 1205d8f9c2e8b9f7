# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["cuda", "triton"]
# limit_s = 600
# value = 66
# ///
"""Three ways to a CUDA graph on one model: the back end, the mode, and by hand; with and without Inductor's kernels.

The model is bound by launches: BLOCKS blocks of LayerNorm, Linear and GELU of width WIDTH, batch BATCH, float32,
inference. Each row is one way to call it; the name is in ``backend``:

    none, none_again        not compiled, and the same once more (an A/A pair, which shows the noise)
    aot_eager               torch.compile(model, backend="aot_eager"): the operators of "cudagraphs", one by one
    inductor                torch.compile(model): fused kernels, one by one
    cudagraphs              torch.compile(model, backend="cudagraphs"): operators not fused, one graph
    reduce-overhead         torch.compile(model, mode="reduce-overhead"): fused kernels, one graph
    torch.cuda.graph        by hand over the model: operators not fused, one graph, no guards, nobody checks
    torch.cuda.graph, fused by hand over torch.compile(model): fused kernels, one graph

The ways by hand copy the input in; none copies its output out, as the next replay would overwrite it.

How it is measured
    As in four_backends.py: correctness against float64 first; compile (and capture) cold, in a fresh process with
    fresh caches, from before the compile until after SETTLING_CALLS calls, less as many steady steps; then all ways
    interleaved in one process in a new order each round, in several fresh processes. Ratios are paired within a
    round; one number a process; 95 % t interval over processes.

    Memory is what the process that compiled holds afterwards; each way has its own. A way whose graph was not
    replayed, as the profiler sees it, gets no time.

Columns
    backend, call      the way, and how it is written
    status, note       "ok", or "failed", "wrong", "not measured", "unavailable" with the reason in note
    device, threads    "cuda"; CPU threads of torch
    max_rel_error      largest absolute error over the largest absolute reference value
    compile_cold_s     one-off cost, capture included: median over repeats; compile_cold_low_s and
                       compile_cold_high_s are the least and the greatest; 0 where nothing is compiled
    step_us            median of a step; step_q1_us and step_q3_us are the quartiles over all blocks
    speedup_ratio      time of none / time of this; speedup_low and speedup_high bound its 95 % interval
    verdict            "faster", "slower", or "no difference"
    saved_us           step_us of none less step_us of this
    steps              N, the number of steps of the job
    total_s            compile_cold_s + N x step_us
    payoff_r           saved_us x N / compile_cold_s; None where the verdict is "no difference"
    break_even         compile_cold_s / saved_us, rounded up; None where not faster, and then break_even_text is
                       "never"; break_even_low and break_even_high: at the ends of the interval of the speed-up
    graph_launches     CUDA graph launches a step, as the profiler saw them
    kernel_launches    kernels launched one by one in a step
    kernels_run        kernels that the device ran in a step, launched in whatever way
    pool_mib           memory in pools of CUDA graphs
    reserved_mib       all memory that torch holds on the device
    peak_mib           most memory that torch had given out at one time
    processes, rounds  how many processes timed the steps, and how many rounds each
    samples_us         every block of every process: mean of a step
    samples_compile_cold_s   every repeat
"""

from __future__ import annotations

import contextlib
import copy
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
from torch import nn
from torch.utils.benchmark import Timer

Row = dict[str, Any]
Call = Callable[[torch.Tensor], torch.Tensor]

BLOCKS, WIDTH, BATCH = 24, 256, 8
TOLERANCE = 1e-3
SETTLING_CALLS = 4
PROFILED_STEPS = 5
WAYS: dict[str, str] = {
    "aot_eager": 'torch.compile(model, backend="aot_eager")',
    "inductor": "torch.compile(model)",
    "cudagraphs": 'torch.compile(model, backend="cudagraphs")',
    "reduce-overhead": 'torch.compile(model, mode="reduce-overhead")',
    "torch.cuda.graph": "with torch.cuda.graph(graph): y = model(x)",
    "torch.cuda.graph, fused": "with torch.cuda.graph(graph): y = torch.compile(model)(x)",
}
PLAIN = ("none", "none_again")
GRAPHED = ("cudagraphs", "reduce-overhead", "torch.cuda.graph", "torch.cuda.graph, fused")
NO_CUDA = "CUDA graphs need a CUDA device."
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


# ---------------------------------------------------------------- the model


class Block(nn.Module):
    """LayerNorm, Linear, GELU and a short cut: (batch, WIDTH) to (batch, WIDTH)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear, self.act = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x + GELU(Linear(LayerNorm(x)))."""
        return x + self.act(self.linear(self.norm(x)))


def build_model(device: str) -> tuple[nn.Module, torch.Tensor]:
    """Return the model in eval mode and its input, shape (BATCH, WIDTH), float32, the same in every process."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(BLOCKS))).eval().to(device)
    return model, torch.randn(BATCH, WIDTH, device=device)


def by_hand(model: Call, x: torch.Tensor) -> Call:
    """Return a callable that copies its input in and replays a recording of ``model``."""
    place = x.clone()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(place)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(place)

    def replay(x: torch.Tensor) -> torch.Tensor:
        place.copy_(x)
        graph.replay()
        return y

    return replay


def prepare(model: nn.Module, way: str, x: torch.Tensor) -> Call:
    """Return the callable of one way on its own copy of the module."""
    own = copy.deepcopy(model)
    if way in PLAIN:
        return own
    if way == "torch.cuda.graph":
        return by_hand(own, x)
    if way == "torch.cuda.graph, fused":
        return by_hand(torch.compile(own), x)
    if way == "inductor":
        return torch.compile(own)
    if way == "reduce-overhead":
        return torch.compile(own, mode=way)
    return torch.compile(own, backend=way)


# ---------------------------------------------------------------- in the child process


def relative_error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the largest absolute error over the largest absolute value of the float64 reference."""
    return float((result.double() - reference).abs().max() / reference.abs().max())


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


def count_launches(call: Call, x: torch.Tensor) -> Row:
    """Return launches and kernels of one step, over PROFILED_STEPS steps; None each where the profiler fails."""
    from torch.profiler import ProfilerActivity, profile

    nothing: Row = dict.fromkeys(("graph_launches", "kernel_launches", "kernels_run"))
    try:
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            for _ in range(PROFILED_STEPS):
                call(x)
            torch.cuda.synchronize()
        events = list(profiler.events())
    except Exception:
        # Without a profiler (no permission for it, say) there is no evidence against the way either.
        return nothing
    names = [event.name for event in events]
    graphs = sum(name.startswith(("cudaGraphLaunch", "cuGraphLaunch")) for name in names)
    launches = sum(name.startswith(("cudaLaunchKernel", "cuLaunchKernel")) for name in names)
    on_device = [e for e in events if str(e.device_type).endswith("CUDA") and not e.name.startswith(("Mem", "mem"))]
    if not graphs and not launches:
        return nothing
    counts = {"graph_launches": graphs, "kernel_launches": launches, "kernels_run": len(on_device)}
    return {name: count / PROFILED_STEPS for name, count in counts.items()}


def memory() -> Row:
    """Return what torch holds on the device, in MiB."""
    pools = [s["total_size"] for s in torch.cuda.memory_snapshot() if tuple(s["segment_pool_id"]) != (0, 0)]
    held = {"pool_mib": sum(pools), "reserved_mib": torch.cuda.memory_reserved()}
    return {name: size / 2**20 for name, size in (held | {"peak_mib": torch.cuda.max_memory_allocated()}).items()}


@torch.no_grad()
def child_compile(job: Row) -> Row:
    """Compile and record one way in this process: one-off cost (seconds), error, launches, memory."""
    device, way = job["device"], job["way"]
    model, x = build_model(device)
    reference = copy.deepcopy(model).double().cpu()(x.double().cpu())
    model(x)
    synchronize(device)

    start = time.perf_counter()
    call = prepare(model, way, x)
    for _ in range(SETTLING_CALLS):
        call(x)
    synchronize(device)
    settled_s = time.perf_counter() - start

    error = relative_error(call(x).cpu(), reference)
    step_s = time_block(call, x, block_size(time_block(call, x, 10, job["threads"]), job["block_ms"]), job["threads"])
    answer: Row = {"compile_s": max(0.0, settled_s - SETTLING_CALLS * step_s), "error": error}
    compiled = way not in (*PLAIN, "torch.cuda.graph")
    answer["graphs"] = captured_graphs() if compiled else None
    return answer | memory() | count_launches(call, x)


@torch.no_grad()
def child_steps(job: Row) -> Row:
    """Time all ways interleaved in a new order each round; return their block means in seconds."""
    threads, order = job["threads"], random.Random(job["seed"])
    model, x = build_model(job["device"])
    calls: dict[str, Call] = {}
    for way in job["ways"]:
        calls[way] = prepare(model, way, x)
        for _ in range(SETTLING_CALLS):
            calls[way](x)
    numbers = {way: block_size(time_block(call, x, 20, threads), job["block_ms"]) for way, call in calls.items()}
    blocks: dict[str, list[float]] = {way: [] for way in calls}
    for _ in range(job["rounds"]):
        for way in order.sample(list(calls), k=len(calls)):
            blocks[way].append(time_block(calls[way], x, numbers[way], threads))
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


def blank_row(way: str, device: str, threads: int, steps: int) -> Row:
    """Return a row with every column, nothing measured yet."""
    row: Row = {"backend": way, "call": WAYS.get(way, "model(x)"), "status": "ok", "note": None}
    row |= {"device": device, "threads": threads, "max_rel_error": None}
    row |= dict.fromkeys(("compile_cold_s", "compile_cold_low_s", "compile_cold_high_s"))
    row |= dict.fromkeys(("step_us", "step_q1_us", "step_q3_us", "speedup_ratio", "speedup_low", "speedup_high"))
    row |= {"verdict": None, "saved_us": None, "steps": steps, "total_s": None, "payoff_r": None}
    row |= dict.fromkeys(("break_even", "break_even_low", "break_even_high", "break_even_text"))
    row |= dict.fromkeys(("graph_launches", "kernel_launches", "kernels_run", "pool_mib", "reserved_mib", "peak_mib"))
    return row | {"processes": 0, "rounds": 0, "samples_us": [], "samples_compile_cold_s": []}


def trouble(way: str, answer: Row) -> tuple[str, str] | None:
    """Return (status, note) where a child did not give what it should, else None."""
    if "failed" in answer:
        return "failed", answer["failed"]
    if not answer["error"] <= TOLERANCE:  # also true for NaN
        return "wrong", f"relative error {answer['error']:.2g} against float64 is above {TOLERANCE:g}"
    if answer["graphs"] == 0:
        return "not measured", (
            "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
            "TORCH_COMPILE_DISABLE set?)."
        )
    if way in GRAPHED and answer["graph_launches"] == 0:
        return "not measured", "No CUDA graph was replayed, so there is nothing to time."
    return None


def add_compile(row: Row, answers: Sequence[Row], column: str) -> None:
    """Put the compile times of several repeats into a row: median, least, greatest, samples (seconds)."""
    samples = [answer["compile_s"] for answer in answers]
    row[f"samples_{column}_s"] = samples
    row[f"{column}_s"] = statistics.median(samples)
    row[f"{column}_low_s"], row[f"{column}_high_s"] = min(samples), max(samples)


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
    ways: Sequence[str] = tuple(WAYS),
    steps: int = 100_000,
    repeats: int = 3,
    processes: int = 5,
    rounds: int = 10,
    block_ms: float = 20.0,
    threads: int = 1,
    child_limit_s: float = 120.0,
) -> list[Row]:
    """Measure the ways and return one row each (columns: module docstring).

    ``ways``: names in WAYS; ``steps``: N of the job; ``repeats``: cold compiles of each; ``processes`` (two at
    least) x ``rounds`` blocks of ``block_ms`` milliseconds time the steps; ``child_limit_s``: a process that takes
    longer is killed, and its way is a failed row. Without a CUDA device the rows are "unavailable". Raises
    ValueError for fewer than two processes.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    rows = {way: blank_row(way, device, threads, steps) for way in (*PLAIN, *ways)}
    if not cuda:
        return [row | {"status": "unavailable", "note": NO_CUDA} for row in rows.values()]
    common: Row = {"device": device, "threads": threads, "block_ms": block_ms}
    order = random.Random(0)
    cold: dict[str, list[Row]] = {way: [] for way in rows}
    # The A/A twin needs no compile of its own.
    alive = ["none", *ways]
    reason_lost = None
    runs: list[dict[str, list[float]]] = []
    with tempfile.TemporaryDirectory(prefix="three-ways-", ignore_cleanup_errors=True) as name:
        for repeat in range(repeats):
            for way in order.sample(alive, k=len(alive)):
                job = common | {"task": "compile", "way": way}
                answer = run_child(job, Path(name, f"{order.random()}-{repeat}"), child_limit_s)
                if reason := trouble(way, answer):
                    rows[way]["status"], rows[way]["note"] = reason
                    alive.remove(way)
                else:
                    cold[way].append(answer)
        timed = [way for way in rows if way in alive or way == "none_again"]
        if "none" not in alive:
            reason_lost = "the plain model did not run"
        for seed in range(processes if reason_lost is None else 0):
            job = common | {"task": "steps", "ways": timed, "rounds": rounds, "seed": seed}
            answer = run_child(job, Path(name, "steps"), child_limit_s)
            if "failed" in answer:
                reason_lost = answer["failed"]
                break
            runs.append(answer["blocks"])

    if reason_lost is not None:
        lost = {"status": "failed", "note": f"The steps could not be timed: {reason_lost}"}
        rows |= {way: blank_row(way, device, threads, steps) | lost for way in timed}
        return list(rows.values())
    for way in alive:
        row = rows[way]
        row["max_rel_error"] = max(answer["error"] for answer in cold[way])
        row |= {name: cold[way][0][name] for name in ("graph_launches", "kernel_launches", "kernels_run")}
        row |= {name: cold[way][0][name] for name in ("pool_mib", "reserved_mib", "peak_mib")}
        if way == "none":
            # Nothing is compiled: the cost is 0 by definition, not the noise of a difference.
            row["compile_cold_s"] = row["compile_cold_low_s"] = row["compile_cold_high_s"] = 0.0
        else:
            add_compile(row, cold[way], "compile_cold")
    rows["none_again"]["max_rel_error"] = rows["none"]["max_rel_error"]
    add_steps({way: rows[way] for way in timed}, runs)
    for way in timed:
        add_payoff(rows[way])
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


def main(arguments: Sequence[str] = ()) -> None:
    """Measure and print; with ``--child JOB`` do one job for the parent process."""
    if list(arguments[:1]) == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    columns = ["backend", "status", "compile_cold_s", "step_us", "speedup_ratio", "speedup_low", "speedup_high"]
    columns += ["verdict", "break_even", "graph_launches", "kernel_launches", "pool_mib", "reserved_mib"]
    print_table(run(), columns)


if __name__ == "__main__":
    main(sys.argv[1:])
