# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 400
# value = 72
# ///
"""The total with recompiles counted: K compiles, not one, for a job whose batch size changes.

T_total = T_compile,1 + ... + T_compile,K + N x T_step. The model is LAYERS layers of scale, shift, ReLU and short cut
on rows of WIDTH numbers, inference: all pointwise, the kind that fusion likes. Its batch goes through SIZES in turn,
one size a step. Strategies, all ``torch.compile`` with its default back end:

    static     dynamic=False: every size is compiled by itself
    default    the first size is compiled as it is; at the second the size becomes a symbol, good for all that follow
    padded     every batch is padded to the largest size: one compile, and more work a step
    none       not compiled; "none again" is the A/A pair that shows the noise

How it is measured
    Compiles: a fresh process with a fresh Inductor cache for each strategy and repeat. The precompiled C++ header is
    made beforehand, for it is paid once on a machine, not once a compile (four_backends.py has it in its cold
    compile). The price of compile k is the time of the call that caused it less a steady step of that size; the first
    counts from before ``torch.compile()``, so importing the compiler is in it. Dynamo's own counter says which calls
    compiled.

    Steps: all strategies in one process on filled caches, a block of each size of each strategy in a new random
    order each round, in several fresh processes. A step of a strategy is the mean over the sizes. Ratios to ``none``
    are paired within a round; one number a process, the median of the log ratios; 95 % t interval over processes (after
    Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013).

    The limit: with ``backend="eager"``, which compiles in no time, LIMIT_SIZES sizes are fed to a function, and the
    counter is read after each. Past torch._dynamo.config.recompile_limit graphs no new one is made, and what fits none
    runs uncompiled.

Rows, told apart by ``kind``; each has strategy, status, note, device, threads.
    kind = "compile": one compile of one strategy
        k, batch                     which, from 1; the batch size that caused it
        compile_s, compile_low_s, compile_high_s   its price: median, least and greatest of the repeats
        samples_s                    every repeat
    kind = "strategy": the whole
        written                      how it is written
        compiles                     K
        first_compile_s              T_compile,1
        recompile_s, recompile_low_s, recompile_high_s   the later ones: median, least, greatest; None where K is 1
        compile_all_s                sum of all K, median over repeats; compile_all_low_s, compile_all_high_s: least,
                                     greatest
        step_us, step_q1_us, step_q3_us   a step, mean over the sizes: median and quartiles over all rounds
        speedup_ratio, speedup_low, speedup_high   step of none / step of this, above 1 is faster
        verdict                      "faster", "slower", "no difference"
        saved_us                     step of none less step of this
        steps, total_s               N, and compile_all_s + N x step_us
        payoff_r                     saved_us x N / compile_all_s; None where the verdict is "no difference"
        break_even                   compile_all_s / saved_us, rounded up; None where not faster, and then
                                     break_even_text is "never"; break_even_low and break_even_high: at the ends of
                                     the interval of the speed-up
        max_rel_error                largest absolute error over the largest absolute value, over all sizes
        processes, rounds            how many processes timed the steps, and how many rounds each
        samples_us                   a step in every round of every process
    kind = "limit": how many graphs a function has after so many sizes
        sizes_seen, compiles         sizes fed, graphs made
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import random
import shutil
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

LAYERS, WIDTH = 4, 4096
SIZES = (64, 48, 56, 40, 32)
LIMIT_SIZES = tuple(range(2, 14))
TOLERANCE = 1e-4
STRATEGIES: dict[str, str] = {
    "none": "model(x)",
    "none again": "model(x)",
    "static": "torch.compile(model, dynamic=False)(x)",
    "default": "torch.compile(model)(x)",
    "padded": "torch.compile(model)(pad(x))[:n]",
}
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
WHOLE = (
    "compiles", "first_compile_s", "recompile_s", "recompile_low_s", "recompile_high_s", "compile_all_s",
    "compile_all_low_s", "compile_all_high_s", "step_us", "step_q1_us", "step_q3_us", "speedup_ratio", "speedup_low",
    "speedup_high", "verdict", "saved_us", "total_s", "payoff_r", "break_even", "break_even_low", "break_even_high",
    "break_even_text", "max_rel_error",
)  # fmt: skip


# ---------------------------------------------------------------- the model


class Layer(nn.Module):
    """x + relu(x * scale + shift): (batch, WIDTH) to (batch, WIDTH)."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's output."""
        return x + torch.relu(x * self.scale + self.shift)


def build_model(device: str) -> nn.Module:
    """Return LAYERS layers in eval mode, the same in every process."""
    torch.manual_seed(0)
    return nn.Sequential(*(Layer() for _ in range(LAYERS))).eval().to(device)


def build_inputs(sizes: Sequence[int], device: str) -> dict[int, torch.Tensor]:
    """Return one input a batch size, shape (size, WIDTH), float32."""
    generator = torch.Generator().manual_seed(1)
    return {n: torch.randn(n, WIDTH, generator=generator).to(device) for n in sizes}


def prepare(strategy: str, model: nn.Module, largest: int) -> Call:
    """Return the callable of one strategy on its own copy of the module."""
    own = copy.deepcopy(model)
    if strategy.startswith("none"):
        return own
    compiled: Call = torch.compile(own, dynamic=False if strategy == "static" else None)
    if strategy != "padded":
        return compiled

    def padded(x: torch.Tensor) -> torch.Tensor:
        full = nn.functional.pad(x, (0, 0, 0, largest - len(x)))
        return compiled(full)[: len(x)]

    return padded


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


@torch.no_grad()
def child_compile(job: Row) -> Row:
    """Show every size to one strategy; return the price of each compile (seconds) with the size that caused it."""
    device, sizes, threads = job["device"], job["sizes"], job["threads"]
    model, inputs = build_model(device), build_inputs(sizes, device)
    reference = copy.deepcopy(model).double()
    for x in inputs.values():
        model(x)
    synchronize(device)

    start = time.perf_counter()
    call = prepare(job["strategy"], model, max(sizes))
    compiles: list[tuple[int, float]] = []
    for n in sizes:
        before = captured_graphs()
        call(inputs[n])
        synchronize(device)
        if captured_graphs() > before:
            compiles.append((n, time.perf_counter() - start))
        start = time.perf_counter()
    errors = []
    for x in inputs.values():
        wanted = reference(x.double())
        errors.append(float((call(x).double() - wanted).abs().max() / wanted.abs().max()))
    answer = [(n, max(0.0, seconds - time_block(call, inputs[n], 20, threads))) for n, seconds in compiles]
    return {"compiles": answer, "error": max(errors), "graphs": captured_graphs()}


@torch.no_grad()
def child_steps(job: Row) -> Row:
    """Time a step of each strategy at each size in a new order each round; return means over the sizes (seconds)."""
    device, sizes, threads = job["device"], job["sizes"], job["threads"]
    order = random.Random(job["seed"])
    model, inputs = build_model(device), build_inputs(sizes, device)
    calls = {strategy: prepare(strategy, model, max(sizes)) for strategy in job["strategies"]}
    for call in calls.values():
        for _ in range(2):
            for x in inputs.values():
                call(x)
    pairs = [(strategy, n) for strategy in calls for n in sizes]
    numbers = {
        (strategy, n): block_size(time_block(calls[strategy], inputs[n], 5, threads), job["block_ms"])
        for strategy, n in pairs
    }
    steps: dict[str, list[float]] = {strategy: [] for strategy in calls}
    for _ in range(job["rounds"]):
        times: dict[str, list[float]] = {strategy: [] for strategy in calls}
        for strategy, n in order.sample(pairs, k=len(pairs)):
            times[strategy].append(time_block(calls[strategy], inputs[n], numbers[strategy, n], threads))
        for strategy, values in times.items():
            steps[strategy].append(statistics.fmean(values))
    return {"steps": steps}


@torch.no_grad()
def child_limit(job: Row) -> Row:
    """Return the number of graphs after each size, for dynamic=False and for the default; nothing is generated."""
    counts: Row = {}
    for strategy, dynamic in (("static", False), ("default", None)):
        torch._dynamo.reset()
        before = captured_graphs()
        call = torch.compile(lambda x: torch.relu(x) + 1, backend="eager", dynamic=dynamic)
        counts[strategy] = []
        for n in job["sizes"]:
            call(torch.ones(n, 4))
            counts[strategy].append(captured_graphs() - before)
    return {"counts": counts}


def child_header(job: Row) -> Row:
    """Compile something of no interest, so that the precompiled header lies in the temporary folder."""
    torch.compile(lambda x: torch.relu(x) + 1)(torch.ones(8, 8, device=job["device"]))
    return {}


CHILDREN: dict[str, Callable[[Row], Row]] = {
    "compile": child_compile,
    "steps": child_steps,
    "limit": child_limit,
    "header": child_header,
}


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


def run_child(job: Row, folder: Path, cache: Path, limit_s: float) -> Row:
    """Run one job in a fresh process: temporary files in ``folder``, the caches of the compiler in ``cache``.

    Returns the child's answer, or {"failed": reason} if it crashed or took longer than ``limit_s`` seconds.
    Its whole process group is killed at the end. Output goes to files, so nothing can hold a pipe open.
    """
    cache.mkdir(parents=True, exist_ok=True)
    answer, log = folder / "answer.json", folder / "log.txt"
    answer.unlink(missing_ok=True)
    caches = {
        "TMPDIR": folder,
        "TORCHINDUCTOR_CACHE_DIR": cache / "inductor",
        "TRITON_CACHE_DIR": cache / "triton",
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


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return median, least and greatest."""
    return statistics.median(values), min(values), max(values)


def compile_rows(strategy: str, answers: Sequence[Row]) -> list[Row]:
    """Return a row for each compile of one strategy; ``answers``: one a repeat."""
    rows: list[Row] = []
    for k, together in enumerate(zip(*(answer["compiles"] for answer in answers), strict=True), 1):
        samples = [seconds for _, seconds in together]
        row: Row = {"kind": "compile", "strategy": strategy, "k": k, "batch": together[0][0]}
        row |= dict(zip(("compile_s", "compile_low_s", "compile_high_s"), spread(samples), strict=True))
        rows.append(row | {"samples_s": samples})
    return rows


def add_compiles(row: Row, answers: Sequence[Row]) -> None:
    """Put K, the first compile, the later ones and their sum into a row; ``answers``: one a repeat."""
    prices = [[seconds for _, seconds in answer["compiles"]] for answer in answers]
    row["compiles"] = len(prices[0])
    row["first_compile_s"] = statistics.median(price[0] for price in prices)
    names = ("recompile_s", "recompile_low_s", "recompile_high_s")
    if later := [seconds for price in prices for seconds in price[1:]]:
        row |= dict(zip(names, spread(later), strict=True))
    names = ("compile_all_s", "compile_all_low_s", "compile_all_high_s")
    row |= dict(zip(names, spread([sum(price) for price in prices]), strict=True))
    row["max_rel_error"] = max(answer["error"] for answer in answers)


def add_steps(rows: dict[str, Row], runs: Sequence[dict[str, list[float]]]) -> None:
    """Put step times, paired ratios and verdicts into the rows; ``runs`` holds each process's rounds (s)."""
    ratios: dict[str, list[list[float]]] = {
        name: [[n / t for n, t in zip(run["none"], run[name], strict=True)] for run in runs] for name in rows
    }
    noise = max(abs(math.log(bound)) for bound in ratio_interval(ratios["none again"])[1:])
    for name, row in rows.items():
        row["samples_us"] = [step * 1e6 for run in runs for step in run[name]]
        row["step_q1_us"], row["step_us"], row["step_q3_us"] = quartiles(row["samples_us"])
        row["processes"], row["rounds"] = len(runs), len(runs[0][name])
        if name == "none":
            continue
        ratio, low, high = ratio_interval(ratios[name])
        row |= {"speedup_ratio": ratio, "speedup_low": low, "speedup_high": high}
        row["verdict"] = judge(ratio, low, high, noise)
        row["saved_us"] = rows["none"]["step_us"] - row["step_us"]


def add_payoff(row: Row) -> None:
    """Put the total, the payoff R and the break-even count N* into a row that has compile and step times."""
    if row["compile_all_s"] is None:
        return
    row["total_s"] = row["compile_all_s"] + row["steps"] * row["step_us"] * 1e-6
    if row["strategy"] == "none":
        return
    saved_s = row["saved_us"] * 1e-6
    if row["verdict"] != "no difference":
        row["payoff_r"] = saved_s * row["steps"] / row["compile_all_s"]
    if row["verdict"] != "faster" or saved_s <= 0:
        row["break_even_text"] = "never"
        return
    row["break_even"] = math.ceil(row["compile_all_s"] / saved_s)
    for name, bound in (("break_even_low", row["speedup_high"]), ("break_even_high", row["speedup_low"])):
        # A step saves 1 - 1/ratio of the time of "none"; in proportion, so that N* lies between the two.
        saved_at_bound_s = saved_s * (1 - 1 / bound) / (1 - 1 / row["speedup_ratio"])
        if saved_at_bound_s > 0:
            row[name] = math.ceil(row["compile_all_s"] / saved_at_bound_s)


def trouble(answer: Row) -> tuple[str, str] | None:
    """Return (status, note) where a child did not give what it should, else None."""
    if "failed" in answer:
        return "failed", answer["failed"]
    if not answer["error"] <= TOLERANCE:  # also true for NaN
        return "wrong", f"relative error {answer['error']:.2g} against float64 is above {TOLERANCE:g}"
    return ("not measured", NOT_COMPILED) if answer["graphs"] == 0 else None


def limit_rows(answer: Row) -> list[Row]:
    """Return how many graphs there are after so many sizes."""
    if "failed" in answer:
        lost = {"kind": "limit", "status": "failed", "note": answer["failed"], "sizes_seen": None, "compiles": None}
        return [lost | {"strategy": strategy} for strategy in ("static", "default")]
    rows: list[Row] = []
    for strategy, counts in answer["counts"].items():
        for seen, compiles in enumerate(counts, 1):
            rows.append({"kind": "limit", "strategy": strategy, "sizes_seen": seen, "compiles": compiles})
    return rows


def run(
    *,
    strategies: Sequence[str] = ("static", "default", "padded"),
    sizes: Sequence[int] = SIZES,
    steps: int = 10_000,
    repeats: int = 2,
    processes: int = 4,
    rounds: int = 5,
    block_ms: float = 10.0,
    threads: int = 1,
    child_limit_s: float = 120.0,
) -> list[Row]:
    """Measure the strategies and return compiles, wholes and the limit (columns: module docstring).

    ``strategies``: static, default, padded; ``sizes``: batch sizes in their order; ``steps``: N of the job;
    ``repeats``: processes that compile, of each; ``processes`` (two at least) x ``rounds`` time the steps in blocks of
    ``block_ms`` milliseconds; ``child_limit_s``: a process that takes longer is killed, and its strategy is a failed
    row. Raises ValueError for fewer than two processes.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shared: Row = {"status": "ok", "note": None, "device": device, "threads": threads}
    wholes: dict[str, Row] = {}
    for name in ("none", "none again", *strategies):
        wholes[name] = {"kind": "strategy", "strategy": name, "written": STRATEGIES[name], "steps": steps}
        wholes[name] |= dict.fromkeys(WHOLE) | {"processes": 0, "rounds": 0, "samples_us": []}
    job: Row = {"device": device, "threads": threads, "sizes": list(sizes), "block_ms": block_ms}
    answers: dict[str, list[Row]] = {name: [] for name in strategies}
    order = random.Random(0)
    alive = list(strategies)
    runs: list[dict[str, list[float]]] = []
    lost: str | None = None
    with tempfile.TemporaryDirectory(prefix="recompiles-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # Where there is no compiler this fails, and so do the strategies, each with its reason.
        run_child(job | {"task": "header"}, folder, folder / "header", child_limit_s)
        for repeat in range(repeats):
            for strategy in order.sample(alive, k=len(alive)):
                cache = folder / f"{strategy}-{repeat}"
                answer = run_child(job | {"task": "compile", "strategy": strategy}, folder, cache, child_limit_s)
                if reason := trouble(answer):
                    wholes[strategy]["status"], wholes[strategy]["note"] = reason
                    alive.remove(strategy)
                else:
                    answers[strategy].append(answer)
        timed = ["none", "none again", *alive]
        filled = folder / "filled"
        for strategy in alive:
            # Keys are made of what is compiled, so the caches of all strategies go together in one.
            shutil.copytree(folder / f"{strategy}-0", filled, dirs_exist_ok=True)
        for seed in range(processes):
            answer = run_child(
                job | {"task": "steps", "strategies": timed, "rounds": rounds, "seed": seed},
                folder, filled, child_limit_s,
            )  # fmt: skip
            if "failed" in answer:
                lost = f"The steps could not be timed: {answer['failed']}"
                break
            runs.append(answer["steps"])
        limit = run_child(job | {"task": "limit", "sizes": list(LIMIT_SIZES)}, folder, folder / "limit", child_limit_s)

    rows: list[Row] = []
    for strategy in alive:
        rows += compile_rows(strategy, answers[strategy])
        add_compiles(wholes[strategy], answers[strategy])
    wholes["none"] |= {"compiles": 0, "compile_all_s": 0.0, "compile_all_low_s": 0.0, "compile_all_high_s": 0.0}
    if lost is not None:
        blank = dict.fromkeys(WHOLE) | {"status": "failed", "note": lost}
        rows = []
        for name in timed:
            wholes[name] |= blank
    else:
        add_steps({name: wholes[name] for name in timed}, runs)
        for name in timed:
            add_payoff(wholes[name])
    return [shared | row for row in (*rows, *wholes.values(), *limit_rows(limit))]


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
    rows = run()
    columns = ["strategy", "status", "compiles", "first_compile_s", "recompile_s", "compile_all_s", "step_us"]
    columns += ["speedup_ratio", "verdict", "saved_us", "payoff_r", "break_even", "total_s"]
    print_table([row for row in rows if row["kind"] == "strategy"], columns)
    print_table([row for row in rows if row["kind"] == "compile"], ["strategy", "k", "batch", "compile_s"])
    print_table([row for row in rows if row["kind"] == "limit"], ["strategy", "sizes_seen", "compiles"])


if __name__ == "__main__":
    main(sys.argv[1:])
