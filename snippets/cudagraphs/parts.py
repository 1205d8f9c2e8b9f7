# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["cuda"]
# limit_s = 300
# value = 68
# ///
"""A CUDA graph in its parts: recording it, launching it, and what its kernels compute; m launches against one.

T_graph = T_capture + T_launch_graph + T_compute, each term measured by itself, for a chain of m operators (``relu``)
on a tensor of ELEMENTS["tiny"] floats, where launching is nearly all, and of ELEMENTS["large"], where computing is.

How it is measured
    Three clocks. ``complete``: the mean of a block of steps, the device waited for at both ends of the block; what a
    job sees. ``enqueue``: the host alone, until it has handed the work over, on an idle device. ``device``: the
    device alone, between two events; a sleeping kernel (``torch.cuda._sleep``) goes before them and holds the device
    up until the host has handed everything over, so that no launch is in the time.

    Capture is timed ``captures`` times a process: recording under ``torch.cuda.graph`` (with the synchronisation and
    the emptying of the allocator's cache that it does), then instantiating, then the first replay.

    Chains, ways and clocks are interleaved in a new random order each round, in several fresh processes. Intervals
    are 95 % t intervals over one number a process (after Kalibera and Jones, "Rigorous Benchmarking in Reasonable
    Time", ISMM 2013). Both ways are checked against float64.

Rows, told apart by ``kind``; each has work ("tiny", "large"), status, note, device, threads.
    kind = "point": a chain of m operators, launched in one way and read from one clock
        way                                  "one by one", "one by one, again" (A/A), "one graph"
        clock, m                             as above; operators in the chain
        chain_us, chain_q1_us, chain_q3_us   time of the chain: median and quartiles over all samples
        per_operator_us                      chain_us / m
        processes, rounds                    how many processes, and how many samples each
        samples_us                           every sample
    kind = "fit": the line over m of one way and clock
        slope_us, slope_low_us, slope_high_us              cost of one more operator, with its 95 % interval
        intercept_us, intercept_low_us, intercept_high_us  what a chain costs before its first operator
        fit_error_ratio                      largest relative distance of a point from the line
    kind = "parts": the terms for a chain of m
        record_us, instantiate_us, first_replay_us   the three steps of a capture, medians
        capture_us                           record_us + instantiate_us, with capture_low_us and capture_high_us
        launch_us                            host time of one replay, with launch_low_us and launch_high_us
        compute_us                           device time of one replay, with compute_low_us and compute_high_us
        graph_total_us                       the sum of the three
        measured_us                          capture and first replay on one clock
        prediction_ratio                     graph_total_us / measured_us
        speedup_ratio, speedup_low, speedup_high   one by one / one graph on the clock ``complete``, paired in a round
        verdict                              "faster", "slower", "no difference" (by the interval and the A/A pair)
        saved_us                             one by one less one graph
        break_even                           replays until the capture has paid; None and break_even_text "never"
                                             where the graph is not faster
        pool_mib                             memory of the graph's own pool
        max_rel_error                        largest absolute error over the largest absolute value
"""

from __future__ import annotations

import contextlib
import functools
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
Chain = Callable[[torch.Tensor], torch.Tensor]
Key = tuple[str, int, str, str]  # work, m, way, clock

ELEMENTS = {"tiny": 64, "large": 2**24}
LENGTHS = (1, 4, 16, 64, 256)
WAYS = ("one by one", "one by one, again", "one graph")
CLOCKS = ("complete", "enqueue", "device")
TOLERANCE = 1e-6
WARM_UP = 3
#: A CUDA device queues about a thousand launches; past that the host waits and would be timed waiting.
QUEUE = 500
#: More cycles a second than a GPU has: a sleep of so many lasts at least as long as meant.
CYCLES_PER_S = 3e9
NO_CUDA = "CUDA graphs need a CUDA device."
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
PARTS = (
    "record_us", "instantiate_us", "first_replay_us", "capture_us", "capture_low_us", "capture_high_us", "launch_us",
    "launch_low_us", "launch_high_us", "compute_us", "compute_low_us", "compute_high_us", "graph_total_us",
    "measured_us", "prediction_ratio", "speedup_ratio", "speedup_low", "speedup_high", "verdict", "saved_us",
    "break_even", "break_even_text", "pool_mib", "max_rel_error",
)  # fmt: skip


# ---------------------------------------------------------------- in the child process


def build_chain(m: int) -> Chain:
    """Return a chain of m calls of relu, unrolled, so that no loop is timed with it."""
    scope: Row = {"relu": torch.relu}
    exec("def chain(x):\n" + "    x = relu(x)\n" * m + "    return x", scope)
    chain: Chain = scope["chain"]
    return chain


def warm_up(chain: Chain, x: torch.Tensor) -> None:
    """Run a chain a few times on a side stream, as must be done before it is recorded."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            chain(x)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()


def new_graph() -> tuple[torch.cuda.CUDAGraph, bool]:
    """Return an empty graph, and whether it is instantiated by a call of its own, which can be timed."""
    try:
        return torch.cuda.CUDAGraph(keep_graph=True), True
    except TypeError:  # a torch that instantiates where the recording ends
        return torch.cuda.CUDAGraph(), False


def capture(chain: Chain, x: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor, list[float]]:
    """Return the graph of a chain, its output, and the seconds of recording, instantiating and the first replay."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    graph, apart = new_graph()
    with torch.cuda.graph(graph):
        y = chain(x)
    torch.cuda.synchronize()
    recorded = time.perf_counter()
    if apart:
        graph.instantiate()
    torch.cuda.synchronize()
    instantiated = time.perf_counter()
    graph.replay()
    torch.cuda.synchronize()
    replayed = time.perf_counter()
    return graph, y, [recorded - start, instantiated - recorded, replayed - instantiated]


def pool_mib(graph: torch.cuda.CUDAGraph) -> float:
    """Return the memory of a graph's own pool in MiB."""
    pool = tuple(graph.pool())
    segments = torch.cuda.memory_snapshot()
    return sum(s["total_size"] for s in segments if tuple(s["segment_pool_id"]) == pool) / 2**20


def enqueue_s(call: Callable[[], Any], repeats: int = 10) -> float:
    """Return the host's median time of one call on an idle device, in seconds."""
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return statistics.median(times)


def device_s(call: Callable[[], Any], kernels: int, host_s: float) -> float:
    """Return the device's mean time of one call in seconds; ``host_s``: what the host needs to hand one over."""
    calls = max(1, QUEUE // kernels)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    # The device sleeps until the host has handed all calls over; twice that, for the host may be slow just now.
    torch.cuda._sleep(int(CYCLES_PER_S * (2 * calls * host_s + 1e-4)))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / calls


def complete_s(call: Callable[[], Any], number: int, threads: int) -> float:
    """Return the mean time of a call over a block of ``number``; the Timer waits for the device at both ends."""
    return Timer("call()", globals={"call": call}, num_threads=threads).timeit(number).mean


def chain_error(y: torch.Tensor, m: int, x: torch.Tensor) -> float:
    """Return the relative error of a chain's output against float64."""
    wanted = build_chain(m)(x.double())
    return float((y.double() - wanted).abs().max() / wanted.abs().max())


@torch.no_grad()
def child_parts(job: Row) -> Row:
    """Capture every chain, then time chains, ways and clocks interleaved; return seconds."""
    device, order, block_s = job["device"], random.Random(job["seed"]), job["block_ms"] / 1e3
    calls: dict[tuple[str, int, str], tuple[Callable[[], Any], int]] = {}  # what to call, and its kernels
    parts: dict[str, Row] = {}
    kept: list[Any] = []  # a graph's tensors must live as long as the graph
    for work, elements in job["works"].items():
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(elements, generator=generator).to(device)
        for m in job["lengths"]:
            chain = build_chain(m)
            warm_up(chain, x)
            times = []
            for _ in range(job["captures"]):
                graph, y, seconds = capture(chain, x)
                times.append(seconds)
            x.neg_()  # the replay must read what is there now, not what was there while recording
            graph.replay()
            errors = [chain_error(y, m, x), chain_error(chain(x), m, x)]
            parts[f"{work}/{m}"] = {"capture": times, "error": max(errors), "pool_mib": pool_mib(graph)}
            kept += [graph, y, x]
            calls[work, m, "one by one"] = calls[work, m, "one by one, again"] = functools.partial(chain, x), m
            calls[work, m, "one graph"] = graph.replay, m

    host = {key: enqueue_s(call) for key, (call, _) in calls.items()}
    numbers = {}
    for key, (call, _) in calls.items():
        numbers[key] = max(1, math.ceil(block_s / max(complete_s(call, 3, job["threads"]), 1e-9)))
    samples: dict[Key, list[float]] = {(*key, clock): [] for key in calls for clock in CLOCKS}
    for _ in range(job["rounds"]):
        for work, m, way, clock in order.sample(list(samples), k=len(samples)):
            call, kernels = calls[work, m, way]
            if clock == "complete":
                taken_s = complete_s(call, numbers[work, m, way], job["threads"])
            elif clock == "enqueue":
                taken_s = enqueue_s(call)
            else:
                taken_s = device_s(call, kernels, host[work, m, way])
            samples[work, m, way, clock].append(taken_s)
    return {"parts": parts, "samples": [[*key, values] for key, values in samples.items()]}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = child_parts(job)
    except Exception as error:
        answer = {"failed": f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]}
    Path(job["answer"]).write_text(json.dumps(answer))


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


def ratio_interval(above: Sequence[Sequence[float]], below: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return a ratio and its 95 % interval from two ways' samples of each process, paired within a round."""
    logs = [
        statistics.median(math.log(a / b) for a, b in zip(*pair, strict=True))
        for pair in zip(above, below, strict=True)
    ]
    mean, low, high = t_interval(logs)
    return math.exp(mean), math.exp(low), math.exp(high)


def judge(ratio: float, low: float, high: float, noise: float) -> str:
    """Return the verdict on a ratio, above 1 is faster; ``noise`` is the largest log ratio of the A/A pair."""
    if low <= 1 <= high or abs(math.log(ratio)) <= noise:
        return "no difference"
    return "faster" if ratio > 1 else "slower"


def point_row(work: str, m: int, way: str, clock: str, runs: Sequence[Sequence[float]]) -> Row:
    """Return the row of one chain, way and clock; ``runs``: the samples of each process (us)."""
    samples = [sample for run in runs for sample in run]
    q1, median, q3 = statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else samples * 3
    row: Row = {"kind": "point", "work": work, "way": way, "clock": clock, "m": m, "chain_us": median}
    row |= {"chain_q1_us": q1, "chain_q3_us": q3, "per_operator_us": median / m}
    return row | {"processes": len(runs), "rounds": len(runs[0]), "samples_us": samples}


def fit_row(work: str, way: str, clock: str, runs: Sequence[dict[int, list[float]]]) -> Row:
    """Return the line over m of one way and clock; ``runs``: the samples of each process by m (us)."""
    lines = [fit_line({m: statistics.median(run[m]) for m in run}) for run in runs]
    slope, slope_low, slope_high = t_interval([line[0] for line in lines])
    intercept, intercept_low, intercept_high = t_interval([line[1] for line in lines])
    row: Row = {"kind": "fit", "work": work, "way": way, "clock": clock}
    row |= {"slope_us": slope, "slope_low_us": slope_low, "slope_high_us": slope_high}
    row |= {"intercept_us": intercept, "intercept_low_us": intercept_low, "intercept_high_us": intercept_high}
    medians = {m: statistics.median(sample for run in runs for sample in run[m]) for m in runs[0]}
    row["fit_error_ratio"] = max(abs(intercept + slope * m - t) / t for m, t in medians.items())
    return row


def parts_row(work: str, m: int, parts: Sequence[Row], ways: dict[str, dict[str, list[list[float]]]]) -> Row:
    """Return the terms of the formula for a chain of m.

    ``parts``: what each process said of its captures (seconds); ``ways``: the samples of each process by way and
    clock (us).
    """
    steps = [[[s * 1e6 for s in times] for times in part["capture"]] for part in parts]
    row: Row = {"kind": "parts", "work": work, "m": m} | dict.fromkeys(PARTS)
    for i, name in enumerate(("record_us", "instantiate_us", "first_replay_us")):
        row[name] = statistics.median(times[i] for process in steps for times in process)
    terms = {
        "capture": [statistics.median(times[0] + times[1] for times in process) for process in steps],
        "launch": [statistics.median(samples) for samples in ways["one graph"]["enqueue"]],
        "compute": [statistics.median(samples) for samples in ways["one graph"]["device"]],
    }
    for name, values in terms.items():
        row[f"{name}_us"], row[f"{name}_low_us"], row[f"{name}_high_us"] = t_interval(values)
    row["graph_total_us"] = row["capture_us"] + row["launch_us"] + row["compute_us"]
    row["measured_us"] = statistics.median(sum(times) for process in steps for times in process)
    row["prediction_ratio"] = row["graph_total_us"] / row["measured_us"]
    complete = {way: ways[way]["complete"] for way in WAYS}
    pair = ratio_interval(complete["one by one"], complete["one by one, again"])
    noise = max(abs(math.log(bound)) for bound in pair[1:])
    ratio, low, high = ratio_interval(complete["one by one"], complete["one graph"])
    row |= {"speedup_ratio": ratio, "speedup_low": low, "speedup_high": high}
    row["verdict"] = judge(ratio, low, high, noise)
    middle = {way: statistics.median(s for run in runs for s in run) for way, runs in complete.items()}
    row["saved_us"] = middle["one by one"] - middle["one graph"]
    if row["verdict"] == "faster" and row["saved_us"] > 0:
        row["break_even"] = math.ceil(row["capture_us"] / row["saved_us"])
    else:
        row["break_even_text"] = "never"
    row["pool_mib"] = statistics.median(part["pool_mib"] for part in parts)
    row["max_rel_error"] = max(part["error"] for part in parts)
    return row


def rows_of(answers: Sequence[Row], works: Sequence[str], lengths: Sequence[int]) -> list[Row]:
    """Return points, fits and parts from the answers of the processes."""
    table: dict[Key, list[list[float]]] = {}
    for answer in answers:
        for work, m, way, clock, values in answer["samples"]:
            table.setdefault((work, m, way, clock), []).append([value * 1e6 for value in values])
    rows: list[Row] = []
    for work in works:
        wrong = {m: max(answer["parts"][f"{work}/{m}"]["error"] for answer in answers) for m in lengths}
        for m in lengths:
            if not wrong[m] <= TOLERANCE:  # also true for NaN
                note = f"relative error {wrong[m]:.2g} against float64 is above {TOLERANCE:g}"
                rows.append({"kind": "parts", "work": work, "m": m, "status": "wrong", "note": note})
                rows[-1] |= dict.fromkeys(PARTS)
                continue
            rows += [point_row(work, m, way, clock, table[work, m, way, clock]) for way in WAYS for clock in CLOCKS]
            parts = [answer["parts"][f"{work}/{m}"] for answer in answers]
            ways = {way: {clock: table[work, m, way, clock] for clock in CLOCKS} for way in WAYS}
            rows.append(parts_row(work, m, parts, ways))
        right = [m for m in lengths if wrong[m] <= TOLERANCE]
        for way in WAYS if len(right) > 1 else ():
            for clock in CLOCKS:
                runs = [{m: table[work, m, way, clock][i] for m in right} for i in range(len(answers))]
                rows.append(fit_row(work, way, clock, runs))
    return rows


def run(
    *,
    works: Sequence[str] = tuple(ELEMENTS),
    lengths: Sequence[int] = LENGTHS,
    captures: int = 5,
    processes: int = 5,
    rounds: int = 4,
    block_ms: float = 20.0,
    threads: int = 1,
    child_limit_s: float = 60.0,
) -> list[Row]:
    """Measure the parts and return points, fits and parts (columns: module docstring).

    ``works``: "tiny", "large"; ``lengths``: the values of m; ``captures``: of each chain in each process;
    ``processes`` (two at least) x ``rounds`` samples; ``block_ms``: length of a block on the clock ``complete``;
    ``child_limit_s``: a process that takes longer is killed. Without a CUDA device the rows are "unavailable".
    Raises ValueError for fewer than two processes.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    shared: Row = {"status": "ok", "note": None, "device": "cuda", "threads": threads}
    nothing = [
        shared | {"kind": "parts", "work": work, "m": m} | dict.fromkeys(PARTS) for work in works for m in lengths
    ]
    if not torch.cuda.is_available():
        return [row | {"status": "unavailable", "note": NO_CUDA, "device": "cpu"} for row in nothing]
    job: Row = {"device": "cuda", "threads": threads, "works": {work: ELEMENTS[work] for work in works}}
    job |= {"lengths": list(lengths), "captures": captures, "rounds": rounds, "block_ms": block_ms}
    answers: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="graph-parts-") as name:
        for seed in range(processes):
            answers.append(run_child(job | {"seed": seed}, Path(name), child_limit_s))
            if "failed" in answers[-1]:
                return [row | {"status": "failed", "note": answers[-1]["failed"]} for row in nothing]
    return [shared | row for row in rows_of(answers, works, lengths)]


def print_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print some columns of the rows, aligned; notes follow below."""

    def cell(value: Any) -> str:
        return "-" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)

    lines = [list(columns), *([cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))
    for note in dict.fromkeys(row["note"] for row in rows if row["note"]):
        print(note)


def main(arguments: Sequence[str] = ()) -> None:
    """Measure and print; with ``--child JOB`` do one job for the parent process."""
    if list(arguments[:1]) == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    rows = run()
    columns = ["work", "m", "status", "capture_us", "launch_us", "compute_us", "speedup_ratio", "verdict", "break_even"]
    print_table([row for row in rows if row["kind"] == "parts"], columns)
    columns = ["work", "way", "clock", "slope_us", "slope_low_us", "slope_high_us", "intercept_us"]
    print_table([row for row in rows if row["kind"] == "fit"], columns)


if __name__ == "__main__":
    main(sys.argv[1:])
