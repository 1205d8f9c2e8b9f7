# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 180
# value = 68
# ///
"""Launch against compute in eager mode: operators on growing tensors, and one real step taken apart.

T_step = sum over m operators of (t_launch + t_compute). The launch does not know how large the tensor is, the compute
does. So the time of an operator against the size of its tensor is flat at first (all launch) and rises later (all
compute); between the two lies the size where launch stops to matter. Three operators: ``relu`` allocates its output,
``mul_`` works in place, ``mm`` multiplies two square matrices.

Then the formula is put to the test: the step of a small MLP (512-256-128-10, ReLU, batch 64, inference) as m operators
in a row. Each operator is timed alone on the tensors it meets in the step, and its launch on tiny ones. The sum over
the operators is compared with the step, timed in the same rounds.

How it is measured
    All statements are interleaved in one process, in a new random order each round; several fresh processes do the
    same. A block is ``torch.utils.benchmark.Timer(...).timeit(number)``, at least ``block_ms`` long, on one thread.
    Each process gives one number a statement, its median over the rounds. Intervals are 95 % t intervals over the
    processes, k - 1 degrees of freedom for k processes: the process is the unit of replication (after Kalibera and
    Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013).

    On a CPU the call returns when the work is done. There the launch is the time of the same operator on the smallest
    tensor, and the compute is the rest. glibc is told to keep freed memory (KEEP_MEMORY), as PyTorch's own allocator
    does on a GPU: else the page faults of every large output would be counted as compute.

    On a CUDA device the launch is the time of the host alone, and the compute is the time of the kernels as the
    profiler saw them. The two overlap, for the host runs ahead: there the sum is an upper end, not the step.

Rows, told apart by ``kind``; each has status ("ok", or "failed", "not measured" with the reason in note), device,
threads.
    kind = "point": an operator on one size
        op, elements, tensor_kib               the operator, elements of its output, memory of one tensor
        op_us, op_q1_us, op_q3_us              time of a call: median and quartiles over all blocks
        launch_us, compute_us                  its two parts; compute_us is None where nothing is left of it
        launch_share_ratio                     launch / (launch + compute), with launch_share_low_ratio and
                                               launch_share_high_ratio
        processes, rounds, samples_us          how many processes, blocks in each, and every block
    kind = "crossing": where the launch stops to matter
        op
        half_elements                          elements at which launch and compute are equal, between two sizes along
                                               a straight line on logarithmic axes; half_low_elements and
                                               half_high_elements bound its interval
        tenth_elements                         the same for a launch of a tenth, with tenth_low_elements and
                                               tenth_high_elements
    kind = "summand": the i-th operator of the step
        i, statement                           which, and how it is written
        op_us, launch_us, compute_us           as above, on the tensors of the step
    kind = "whole": the whole step
        form                                   "functions" (the operators in a row) or "modules" (nn.Sequential)
        m                                      operators in the step
        step_us, step_q1_us, step_q3_us        time of a step: median and quartiles over all blocks
        launch_sum_us, compute_sum_us, sum_us  sums over the operators: launch, compute, both
        sum_ratio                              sum_us / step_us, from the process medians, with sum_low_ratio and
                                               sum_high_ratio
"""

from __future__ import annotations

import contextlib
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import Timer

Row = dict[str, Any]

BATCH = 64
WIDTHS = (512, 256, 128, 10)
# The step as m operators in a row, and for each the same operator on tiny tensors.
STEP = (
    ("h = linear(x, w1, b1)", "linear(dot, dot, spot)"),
    ("h = relu(h1)", "relu(dot)"),
    ("h = linear(r1, w2, b2)", "linear(dot, dot, spot)"),
    ("h = relu(h2)", "relu(dot)"),
    ("h = linear(r2, w3, b3)", "linear(dot, dot, spot)"),
)
WRITTEN = "h = relu(linear(x, w1, b1)); h = relu(linear(h, w2, b2)); h = linear(h, w3, b3)"
OPERATORS = {"relu": "relu(x)", "mul_": "x.mul_(y)", "mm": "mm(x, y)"}
# Elements of the smallest and the largest tensor, and how they grow. A matrix product grows faster than its output.
SIZES = {
    "cpu": {"relu": (2**6, 2**24, 4), "mul_": (2**6, 2**24, 4), "mm": (2**6, 2**18, 4)},
    "cuda": {"relu": (2**6, 2**28, 4), "mul_": (2**6, 2**28, 4), "mm": (2**6, 2**24, 4)},
}
# A CUDA device queues about a thousand launches; past that the host waits and would be timed waiting.
QUEUE = 500
PROFILED_CALLS = 20
# glibc: no block of its own mapping, and never shrink the heap.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
NOT_REACHED = "The launch is still more than that at the largest tensor measured."
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


# ---------------------------------------------------------------- the statements


def sizes(op: str, device: str, largest: int | None) -> list[int]:
    """Return the elements an operator is timed on, ascending; ``largest`` lowers the end."""
    first, last, factor = SIZES[device][op]
    last = min(last, largest or last)
    return list(itertools.takewhile(lambda n: n <= last, (first * factor**i for i in itertools.count())))


def operands(op: str, elements: int, device: str) -> Row:
    """Return the names that a statement of OPERATORS uses: x, y with this many elements, square for ``mm``."""
    side = math.isqrt(elements)
    shape = (side, side) if op == "mm" else (elements,)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device)
    # In place again and again: a factor of one keeps the numbers as they are.
    y = torch.ones_like(x) if op == "mul_" else x.clone()
    return {"x": x, "y": y, "relu": torch.relu, "mm": torch.mm}


def step_names(device: str) -> Row:
    """Return the names that STEP and WRITTEN use: input, weights, each operator's own input, tiny tensors."""
    generator = torch.Generator().manual_seed(0)
    scope: Row = {"relu": torch.relu, "linear": torch.nn.functional.linear}
    scope["x"] = torch.randn(BATCH, WIDTHS[0], generator=generator).to(device)
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(WIDTHS), start=1):
        scope[f"w{layer}"] = (torch.randn(outputs, inputs, generator=generator) / math.sqrt(inputs)).to(device)
        scope[f"b{layer}"] = torch.zeros(outputs, device=device)
    for layer, before in ((1, "x"), (2, "r1")):
        scope[f"h{layer}"] = scope["linear"](scope[before], scope[f"w{layer}"], scope[f"b{layer}"])
        scope[f"r{layer}"] = torch.relu(scope[f"h{layer}"])
    return scope | {"dot": torch.ones(1, 1, device=device), "spot": torch.ones(1, device=device)}


def modules(scope: Row) -> torch.nn.Module:
    """Return the same step as ``nn.Sequential``."""
    layers: list[torch.nn.Module] = []
    for layer in range(1, len(WIDTHS)):
        linear = torch.nn.Linear(WIDTHS[layer - 1], WIDTHS[layer], device=scope["x"].device)
        linear.load_state_dict({"weight": scope[f"w{layer}"], "bias": scope[f"b{layer}"]})
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1]).eval()


# ---------------------------------------------------------------- in the child process


def statements(job: Row) -> dict[str, tuple[str, Row]]:
    """Return every statement of a job with its names, by key: "op/OP/ELEMENTS", "alone/i", "tiny/i", "step/FORM"."""
    found: dict[str, tuple[str, Row]] = {}
    for op in job["ops"]:
        for elements in sizes(op, job["device"], job["largest"]):
            found[f"op/{op}/{elements}"] = (OPERATORS[op], operands(op, elements, job["device"]))
    scope = step_names(job["device"])
    for i, (statement, tiny) in enumerate(STEP, start=1):
        found[f"alone/{i}"], found[f"tiny/{i}"] = (statement, scope), (tiny, scope)
    found["step/functions"] = (WRITTEN, scope)
    found["step/modules"] = ("model(x)", scope | {"model": modules(scope)})
    return found


def time_statement(timer: Timer, block_ms: float) -> float:
    """Return the mean time of a call in seconds over one block; a device is waited for at its end."""
    once = timer.timeit(1).mean
    # A short call is timed again over many: one alone says little.
    estimate = once if once > block_ms / 1e3 else timer.timeit(10).mean
    return timer.timeit(max(1, math.ceil(block_ms / 1e3 / estimate))).mean


def time_enqueue(timer: Timer) -> float:
    """Return the mean time in seconds that the host needs to hand a call to a CUDA device."""
    repeats = []
    for _ in range(10):
        torch.cuda.synchronize()
        repeats.append(timer.timeit(QUEUE // 2).mean)
    torch.cuda.synchronize()
    return statistics.median(repeats)


def kernel_time(statement: str, scope: Row) -> float:
    """Return the time in seconds that a CUDA device spends in the kernels of one call, as the profiler saw them."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    code = compile(statement, "<statement>", "exec")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(PROFILED_CALLS):
            exec(code, scope)
        torch.cuda.synchronize()
    kernels = [event for event in profiler.events() if event.device_type == DeviceType.CUDA]
    if not kernels:
        raise RuntimeError("the profiler saw no kernel")
    return sum(event.time_range.elapsed_us() for event in kernels) / PROFILED_CALLS / 1e6


@torch.no_grad()
def child_statements(job: Row) -> Row:
    """Time all statements interleaved in a new order each round; return seconds by key.

    ``blocks``: until the device is done. On CUDA also ``host``, one number a key (enqueue), and ``kernel``.
    """
    order = random.Random(job["seed"])
    found = statements(job)
    timers = {key: Timer(text, globals=scope, num_threads=job["threads"]) for key, (text, scope) in found.items()}
    blocks: dict[str, list[float]] = {key: [] for key in timers}
    for _ in range(job["rounds"]):
        for key in order.sample(list(timers), k=len(timers)):
            blocks[key].append(time_statement(timers[key], job["block_ms"]))
    answer: Row = {"blocks": blocks}
    if job["device"] == "cuda":
        for key, (text, scope) in found.items():
            host = Timer(text, globals=scope, num_threads=job["threads"], timer=time.perf_counter)
            answer.setdefault("host", {})[key] = time_enqueue(host)
            answer.setdefault("kernel", {})[key] = kernel_time(text, scope)
    return answer


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = child_statements(job)
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


def geometric_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the geometric mean of positive values and its interval."""
    mean, low, high = t_interval([math.log(value) for value in values])
    return math.exp(mean), math.exp(low), math.exp(high)


def quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    """Return lower quartile, median, upper quartile."""
    if len(samples) < 2:
        return samples[0], samples[0], samples[0]
    q1, median, q3 = statistics.quantiles(samples, n=4, method="inclusive")
    return q1, median, q3


def parts(answer: Row, key: str, tiny: str) -> tuple[float, float]:
    """Return launch and compute in us of one process; ``tiny`` is the key of the same operator on a tiny tensor."""
    if "kernel" in answer:
        return answer["host"][key] * 1e6, answer["kernel"][key] * 1e6
    call, launch = (statistics.median(answer["blocks"][which]) * 1e6 for which in (key, tiny))
    return launch, call - launch


def reach(shares: dict[int, float], share: float) -> float | None:
    """Return the elements at which the launch falls to ``share`` of the time, or None if it never does.

    ``shares`` holds launch / (launch + compute) by elements, ascending. Between two sizes (1 - share) / share, the
    compute in launches, is taken to follow a straight line on logarithmic axes.
    """
    wanted = math.log((1 - share) / share)
    for (n0, share0), (n1, share1) in itertools.pairwise(shares.items()):
        if share0 > share >= share1:
            # A share of 1 and more is all launch: nothing of the compute can be told.
            y1 = math.log((1 - share1) / share1)
            y0 = math.log((1 - share0) / share0) if share0 < 1 else y1 - math.log(n1 / n0)
            along = min(1.0, max(0.0, (wanted - y0) / (y1 - y0)))
            return math.exp(math.log(n0) + along * math.log(n1 / n0))
    return None


def timed(keys: str, answers: Sequence[Row], name: str) -> Row:
    """Return median, quartiles and samples in us of one statement over all processes, as columns ``name``_us."""
    samples = [block * 1e6 for answer in answers for block in answer["blocks"][keys]]
    q1, median, q3 = quartiles(samples)
    rounds = len(samples) // len(answers)
    row: Row = {f"{name}_us": median, f"{name}_q1_us": q1, f"{name}_q3_us": q3}
    return row | {"processes": len(answers), "rounds": rounds, "samples_us": samples}


def split(pairs: Sequence[tuple[float, float]]) -> Row:
    """Return launch_us and compute_us, medians over the processes; no compute where noise is all that is left."""
    launch, compute = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
    return {"launch_us": launch, "compute_us": compute if compute > 0 else None}


def operator_rows(op: str, elements: Sequence[int], answers: Sequence[Row]) -> list[Row]:
    """Return the points of one operator and where its launch stops to matter."""
    tiny = f"op/{op}/{elements[0]}"
    rows: list[Row] = []
    shares: list[dict[int, float]] = [{} for _ in answers]
    for size in elements:
        key = f"op/{op}/{size}"
        pairs = [parts(answer, key, tiny) for answer in answers]
        row: Row = {"kind": "point", "op": op, "elements": size, "tensor_kib": size * 4 / 1024}
        row |= timed(key, answers, "op") | split(pairs)
        for own, (launch, compute) in zip(shares, pairs, strict=True):
            own[size] = launch / (launch + compute)
        mean, low, high = t_interval([own[size] for own in shares])
        row |= {"launch_share_ratio": min(1.0, mean)}
        row |= {"launch_share_low_ratio": max(0.0, min(1.0, low)), "launch_share_high_ratio": min(1.0, high)}
        rows.append(row)
    crossing: Row = {"kind": "crossing", "op": op, "status": "ok", "note": None}
    for name, share in (("half", 0.5), ("tenth", 0.1)):
        crossing |= dict.fromkeys((f"{name}_elements", f"{name}_low_elements", f"{name}_high_elements"))
        found = [reached for own in shares if (reached := reach(own, share)) is not None]
        if len(found) == len(answers):
            middle, low, high = geometric_interval(found)
            crossing |= {f"{name}_elements": middle, f"{name}_low_elements": low, f"{name}_high_elements": high}
        else:
            crossing["note"] = NOT_REACHED
    return [*rows, crossing]


def step_rows(answers: Sequence[Row]) -> list[Row]:
    """Return the operators of the step, and the step against their sum."""
    rows: list[Row] = []
    sums = [[0.0, 0.0] for _ in answers]  # launch and compute of each process, in us
    for i, (statement, _) in enumerate(STEP, start=1):
        pairs = [parts(answer, f"alone/{i}", f"tiny/{i}") for answer in answers]
        for own, pair in zip(sums, pairs, strict=True):
            own[0], own[1] = own[0] + pair[0], own[1] + pair[1]
        row: Row = {"kind": "summand", "i": i, "statement": statement}
        rows.append(row | timed(f"alone/{i}", answers, "op") | split(pairs))
    launch, compute = (statistics.median(own[i] for own in sums) for i in (0, 1))
    for form in ("functions", "modules"):
        steps = [statistics.median(answer["blocks"][f"step/{form}"]) * 1e6 for answer in answers]
        whole: Row = {"kind": "whole", "form": form, "m": len(STEP)} | timed(f"step/{form}", answers, "step")
        whole |= {"launch_sum_us": launch, "compute_sum_us": compute, "sum_us": launch + compute}
        ratio, low, high = geometric_interval([sum(own) / step for own, step in zip(sums, steps, strict=True)])
        rows.append(whole | {"sum_ratio": ratio, "sum_low_ratio": low, "sum_high_ratio": high})
    return rows


def run(
    *,
    ops: Sequence[str] = tuple(OPERATORS),
    largest: int | None = None,
    processes: int = 6,
    rounds: int = 4,
    block_ms: float = 15.0,
    threads: int = 1,
    child_limit_s: float = 60.0,
) -> list[Row]:
    """Time the operators and the step and return their rows (columns: module docstring).

    ``ops``: relu, mul_, mm; ``largest``: elements of the largest tensor; ``processes`` (two at least) x ``rounds``
    blocks of ``block_ms`` milliseconds a statement; ``child_limit_s``: a process that takes longer is killed.
    Raises ValueError for fewer than two processes.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    job: Row = {"device": device, "threads": threads, "ops": list(ops), "largest": largest}
    job |= {"rounds": rounds, "block_ms": block_ms}
    answers: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="launch-and-compute-") as name:
        for seed in range(processes):
            answers.append(run_child(job | {"seed": seed}, Path(name), child_limit_s))
            if "failed" in answers[-1]:
                break

    shared: Row = {"status": "ok", "note": None, "device": device, "threads": threads}
    if "failed" in answers[-1]:
        lost = shared | {"status": "failed", "note": answers[-1]["failed"], "kind": "crossing"}
        ends = [f"{name}{end}_elements" for name in ("half", "tenth") for end in ("", "_low", "_high")]
        blank = dict.fromkeys(ends)
        return [lost | {"op": op} | blank for op in ops]
    rows = [row for op in ops for row in operator_rows(op, sizes(op, device, largest), answers)]
    return [shared | row for row in [*rows, *step_rows(answers)]]


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
        "point": ["op", "elements", "op_us", "launch_us", "compute_us", "launch_share_ratio"],
        "crossing": ["op", "status", "half_elements", "half_low_elements", "half_high_elements", "tenth_elements"],
        "summand": ["i", "statement", "op_us", "launch_us", "compute_us"],
        "whole": ["form", "m", "step_us", "launch_sum_us", "compute_sum_us", "sum_us", "sum_ratio"],
    }
    for kind, names in columns.items():
        if chosen := [row for row in rows if row["kind"] == kind]:
            print_table(chosen, names)


if __name__ == "__main__":
    main(sys.argv[1:])
