# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 600
# value = 58
# ///
"""What people say about the speed of torch.compile, put to the clock: five claims, each with its predictions.

Five subjects, float32, inference under ``torch.no_grad()``:

    tiny           one addition on an 8 x 8 tensor
    mlp            512-256-128-10 with ReLU, batch 64
    chain          layer norm, GELU, scale and residual on a matrix: work between the matrix products, nothing else
    product        one linear layer: a matrix product, nothing else
    product_half   the same at half the width and half the batch: an eighth of the arithmetic

A claim predicts a verdict ("faster", "no difference") for some of them; it holds where every case came out so, holds
in part where some did, and does not hold where none did.

How it is measured
    All variants of all subjects, each with its own copy, are timed in one process in a new random order each round; a
    block is ``torch.utils.benchmark.Timer(...).timeit(number)``. Several fresh processes do the same, on caches that
    one process filled before. Each process gives one number a variant, the median of the logarithms of the ratios to
    the uncompiled twin of the same round; the speed-up is their mean, turned back into a ratio, with Student's t over
    processes for its 95 % interval. "No difference": 1 lies in the interval, or the effect is no larger than what the
    A/A pair of that subject shows. (Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013.)
    The timing processes keep freed memory (glibc), so that page faults are not counted as operator time.
    The first call is timed in a fresh process whose caches and TMPDIR are empty.

Columns
    kind                "claim"; "case": a subject and a back end; "gain": one subject's speed-up over another's;
                        "first": the first call against a later one
    claim               the key of the claim
    status, note        "ok"; else the reason in note, and no times
    device, threads     "cpu" or "cuda"; CPU threads of torch
    cases, as_said, holds   claim: how many cases, how many came out as said; "yes", "in part" or "no"
    subject, backend    case, first: what ran, and with which back end; gain: a product of one size
    against             gain: the subject that this product is set against; product_half too, for the larger one
    step_us             median of a step; step_q1_us, step_q3_us: quartiles over all blocks
    speedup_ratio       case: time uncompiled / time with the back end; speedup_low, speedup_high: its 95 % interval
    gain_ratio          gain: speed-up of subject / speed-up of against; gain_low, gain_high: its 95 % interval
    first_call_s        first: torch.compile() and the first call, cold
    first_ratio         first: first call / step
    said, verdict       what the claim predicts, and what came out
    agrees              whether the two are the same
    max_rel_error       case, first: largest absolute error over the largest absolute value of a float64 reference
    processes, rounds   how many processes timed, and how many rounds each
    samples_us          every block of every process: mean of a step
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
from torch.nn import functional as F
from torch.utils.benchmark import Timer

Row = dict[str, Any]

TOLERANCE = 1e-4
#: A first call within this factor of a step would be "about the same".
SAME_FACTOR = 2.0
#: glibc's malloc keeps freed memory instead of returning it to the system.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(2**30), "MALLOC_MMAP_THRESHOLD_": str(2**30)}
#: What is timed: the model as it is, twice, and what the claims speak of.
VARIANTS: dict[str, tuple[str, ...]] = {
    "tiny": ("none", "none_again", "eager", "aot_eager", "inductor"),
    "mlp": ("none", "none_again", "eager", "aot_eager", "inductor"),
    "chain": ("none", "none_again", "eager", "aot_eager", "inductor"),
    "product": ("none", "none_again", "inductor"),
    "product_half": ("none", "none_again", "inductor"),
}
#: Claim: back end, verdict that it predicts, subjects that it is tried on.
PREDICTIONS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "compiled_is_faster": ("inductor", "faster", ("tiny", "mlp", "product_half", "product", "chain")),
    "aot_eager_is_faster": ("aot_eager", "faster", ("tiny", "mlp", "chain")),
    "eager_costs_nothing": ("eager", "no difference", ("tiny", "mlp", "chain")),
}
GAINS_MOST = "products_gain_most"
#: What GAINS_MOST predicts: the first of a pair gains more than the second. The larger product comes out ahead of the
#: smaller, and a product of either size ahead of what is none.
GAINS = (
    ("product", "product_half"),
    *((product, other) for product in ("product", "product_half") for other in ("tiny", "mlp", "chain")),
)
FIRST = "first_call_tells"
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)


# ---------------------------------------------------------------- the subjects


class Tiny(nn.Module):
    """One addition."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape out as in."""
        return x + x


class Chain(nn.Module):
    """Layer norm, GELU, scale, residual; (rows, columns) to the same."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape out as in."""
        return x + F.gelu(self.norm(x)) * 0.5


class Product(nn.Linear):
    """One linear layer."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        return F.linear(x, self.weight, self.bias)


class HalfProduct(nn.Linear):
    """The same with code of its own: Dynamo would take two sizes of one code for a size that changes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        return F.linear(x, self.weight, self.bias)


def build(subject: str, device: str) -> tuple[nn.Module, torch.Tensor]:
    """Return a subject in eval mode and its input, float32, the same in every process; larger on a GPU."""
    torch.manual_seed(0)
    large = device == "cuda"
    model: nn.Module
    if subject == "tiny":
        model, x = Tiny(), torch.randn(8, 8)
    elif subject == "mlp":
        layers = [nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)]
        model, x = nn.Sequential(*layers), torch.randn(64, 512)
    elif subject == "chain":
        rows, columns = (16384, 4096) if large else (1024, 1024)
        model, x = Chain(columns), torch.randn(rows, columns)
    else:
        width, batch = (8192, 4096) if large else (1024, 256)
        kind: type[nn.Linear] = Product
        if subject == "product_half":
            kind, width, batch = HalfProduct, width // 2, batch // 2
        model, x = kind(width, width), torch.randn(batch, width)
    return model.eval().to(device), x.to(device)


def prepare(model: nn.Module, variant: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the callable of one variant on its own copy of the module."""
    own = copy.deepcopy(model)
    return own if variant.startswith("none") else torch.compile(own, backend=variant)


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


def captured_graphs() -> int:
    """Return how many graphs this process has captured and had compiled: 0 where torch.compile was turned off."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


@torch.no_grad()
def child_first(job: Row) -> Row:
    """Compile the MLP on empty caches: the first call and a later step (seconds). Fills the caches by the way."""
    device = job["device"]
    model, x = build("mlp", device)
    reference = copy.deepcopy(model).double()(x.double())
    model(x)
    synchronize(device)
    start = time.perf_counter()
    call = prepare(model, "inductor")
    call(x)
    synchronize(device)
    first_s = time.perf_counter() - start
    number = max(1, math.ceil(0.1 / time_block(call, x, 20, job["threads"])))
    blocks = [time_block(call, x, number, job["threads"]) for _ in range(3)]
    error = relative_error(call(x), reference)
    return {"first_s": first_s, "blocks": blocks, "error": error, "graphs": captured_graphs()}


@torch.no_grad()
def child_steps(job: Row) -> Row:
    """Time all variants of all subjects in turns, in a new order each round; return block means in seconds."""
    device, threads, order = job["device"], job["threads"], random.Random(job["seed"])
    calls: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]] = {}
    errors: dict[str, float] = {}
    for subject in job["subjects"]:
        model, x = build(subject, device)
        reference = copy.deepcopy(model).double()(x.double())
        for variant in VARIANTS[subject]:
            key = f"{subject}/{variant}"
            call = prepare(model, variant)
            for _ in range(2):
                call(x)
            calls[key] = call, x
            errors[key] = relative_error(call(x), reference)
    block_s = job["block_ms"] / 1e3
    numbers: dict[str, int] = {}
    for key, (call, x) in calls.items():
        once = time_block(call, x, 1, threads)
        # A short call is timed again over many: one alone says little.
        step_s = once if once > block_s else time_block(call, x, 10, threads)
        numbers[key] = max(1, math.ceil(block_s / step_s))
    blocks: dict[str, list[float]] = {key: [] for key in calls}
    for _ in range(job["rounds"]):
        for key in order.sample(list(calls), k=len(calls)):
            blocks[key].append(time_block(*calls[key], numbers[key], threads))
    return {"blocks": blocks, "errors": errors, "graphs": captured_graphs()}


CHILDREN: dict[str, Callable[[Row], Row]] = {"first": child_first, "steps": child_steps}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = CHILDREN[job["task"]](job)
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
    """Return mean, lower and upper end of the 95 % t interval of the mean; ``values``: one of each process."""
    if len(values) < 2:
        raise ValueError("an interval needs at least two processes")
    # Beyond the table the last quantile is kept: a little too wide rather than too narrow.
    quantile = T_975[min(len(values) - 1, len(T_975)) - 1]
    mean = statistics.fmean(values)
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def log_ratios(answers: Sequence[Row], above: str, below: str) -> list[float]:
    """Return, for each process, the median over its rounds of log(time of ``above`` / time of ``below``)."""
    return [
        statistics.median(math.log(a / b) for a, b in zip(one["blocks"][above], one["blocks"][below], strict=True))
        for one in answers
    ]


def judge(mean: float, low: float, high: float, noise: float) -> str:
    """Return the verdict on a log ratio, above 0 is faster; ``noise`` is the largest log ratio of the A/A pair."""
    if low <= 0 <= high or abs(mean) <= noise:
        return "no difference"
    return "faster" if mean > 0 else "slower"


def noise_of(answers: Sequence[Row], subject: str) -> float:
    """Return the largest log ratio that the A/A pair of a subject allows."""
    bounds = t_interval(log_ratios(answers, f"{subject}/none", f"{subject}/none_again"))[1:]
    return max(abs(bound) for bound in bounds)


def quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    """Return lower quartile, median, upper quartile."""
    q1, median, q3 = statistics.quantiles(samples, n=4, method="inclusive")
    return q1, median, q3


def lost(answers: Sequence[Row]) -> tuple[str, str] | None:
    """Return (status, note) where the processes have no numbers, else None."""
    for answer in answers:
        if "failed" in answer:
            return "failed", answer["failed"]
        if answer["graphs"] == 0:
            return "not measured", NOT_COMPILED
    return None


def case_row(shared: Row, subject: str, backend: str, said: str, answers: Sequence[Row]) -> Row:
    """Return the row of a subject and a back end, and what a claim said about it."""
    row: Row = shared | {"kind": "case", "subject": subject, "backend": backend, "said": said}
    row |= dict.fromkeys(("step_us", "step_q1_us", "step_q3_us", "speedup_ratio", "speedup_low", "speedup_high"))
    row |= {"verdict": None, "agrees": None, "max_rel_error": None, "processes": 0, "rounds": 0, "samples_us": []}
    if reason := lost(answers):
        return row | {"status": reason[0], "note": reason[1]}
    key = f"{subject}/{backend}"
    errors = [answer["errors"][key] for answer in answers]
    error = math.nan if any(map(math.isnan, errors)) else max(errors)
    row["max_rel_error"] = error if math.isfinite(error) else None
    if not error <= TOLERANCE:  # also true for NaN
        note = f"relative error {error:.2g} against float64 is above {TOLERANCE:g}"
        return row | {"status": "wrong", "note": note}
    mean, low, high = t_interval(log_ratios(answers, f"{subject}/none", key))
    verdict = judge(mean, low, high, noise_of(answers, subject))
    samples = [block * 1e6 for answer in answers for block in answer["blocks"][key]]
    q1, median, q3 = quartiles(samples)
    row |= {"step_us": median, "step_q1_us": q1, "step_q3_us": q3}
    row |= {"speedup_ratio": math.exp(mean), "speedup_low": math.exp(low), "speedup_high": math.exp(high)}
    row |= {"verdict": verdict, "agrees": verdict == said, "processes": len(answers)}
    return row | {"rounds": len(answers[0]["blocks"][key]), "samples_us": samples}


def gain_row(shared: Row, product: str, other: str, answers: Sequence[Row]) -> Row:
    """Return the row that sets the speed-up of a product against that of another subject."""
    row: Row = shared | {"kind": "gain", "subject": product, "against": other, "said": "more"}
    row |= {"verdict": None, "agrees": None}
    row |= {"gain_ratio": None, "gain_low": None, "gain_high": None, "processes": 0}
    if reason := lost(answers):
        return row | {"status": reason[0], "note": reason[1]}
    ours = log_ratios(answers, f"{product}/none", f"{product}/inductor")
    theirs = log_ratios(answers, f"{other}/none", f"{other}/inductor")
    mean, low, high = t_interval([a - b for a, b in zip(ours, theirs, strict=True)])
    noise = max(noise_of(answers, product), noise_of(answers, other))
    verdict = {"faster": "more", "slower": "less"}.get(judge(mean, low, high, noise), "no difference")
    row |= {"gain_ratio": math.exp(mean), "gain_low": math.exp(low), "gain_high": math.exp(high)}
    return row | {"verdict": verdict, "agrees": verdict == "more", "processes": len(answers)}


def first_row(shared: Row, answer: Row) -> Row:
    """Return the row of the first call against a later one."""
    row: Row = shared | {"kind": "first", "subject": "mlp", "backend": "inductor", "said": "about the same"}
    row |= {"first_call_s": None, "step_us": None, "first_ratio": None, "verdict": None, "agrees": None}
    row |= {"max_rel_error": None}
    if reason := lost([answer]):
        return row | {"status": reason[0], "note": reason[1]}
    error = answer["error"]
    row["max_rel_error"] = error if math.isfinite(error) else None
    if not error <= TOLERANCE:
        note = f"relative error {error:.2g} against float64 is above {TOLERANCE:g}"
        return row | {"status": "wrong", "note": note}
    step_s = statistics.median(answer["blocks"])
    ratio = answer["first_s"] / step_s
    same = 1 / SAME_FACTOR <= ratio <= SAME_FACTOR
    row |= {"first_call_s": answer["first_s"], "step_us": step_s * 1e6, "first_ratio": ratio}
    return row | {"verdict": "about the same" if same else "slower", "agrees": same}


def claim_row(shared: Row, rows: Sequence[Row]) -> Row:
    """Return the row of a claim from those of its cases: it stands or falls by what ran."""
    row: Row = shared | {"kind": "claim", "cases": len(rows), "as_said": 0, "holds": None}
    broken = next((case for case in rows if case["status"] != "ok"), None)
    if broken is not None:
        return row | {"status": broken["status"], "note": broken["note"]}
    as_said = sum(case["agrees"] for case in rows)
    holds = "no" if as_said == 0 else "yes" if as_said == len(rows) else "in part"
    return row | {"as_said": as_said, "holds": holds}


def run(
    *,
    processes: int = 4,
    rounds: int = 8,
    block_ms: float = 12.0,
    threads: int = 1,
    child_limit_s: float = 150.0,
) -> list[Row]:
    """Time the subjects and return the rows of the claims and of their cases (columns: module docstring).

    ``processes`` (two at least) x ``rounds`` (two at least) blocks of ``block_ms`` milliseconds a variant;
    ``child_limit_s``: a process that takes longer is killed. Raises ValueError for fewer than two.
    """
    if processes < 2 or rounds < 2:
        raise ValueError(f"processes = {processes}, rounds = {rounds}: an interval needs at least two of each")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    common: Row = {"device": device, "threads": threads}
    steps = common | {"task": "steps", "subjects": list(VARIANTS), "rounds": rounds, "block_ms": block_ms}
    answers: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="speed-", ignore_cleanup_errors=True) as name:
        first = run_child(common | {"task": "first"}, Path(name), child_limit_s)
        for seed in range(processes):
            answers.append(run_child(steps | {"seed": seed}, Path(name), child_limit_s))
            if lost(answers[-1:]):
                break

    rows: list[Row] = []
    for claim in (*PREDICTIONS, GAINS_MOST, FIRST):
        shared: Row = {"claim": claim, "status": "ok", "note": None} | common
        if claim == GAINS_MOST:
            cases = [gain_row(shared, product, other, answers) for product, other in GAINS]
        elif claim == FIRST:
            cases = [first_row(shared, first)]
        else:
            backend, said, subjects = PREDICTIONS[claim]
            cases = [case_row(shared, subject, backend, said, answers) for subject in subjects]
        rows += [claim_row(shared, cases), *cases]
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
    rows = run()
    shown = {
        "claim": ["claim", "status", "holds", "as_said", "cases"],
        "case": ["claim", "subject", "backend", "step_us", "speedup_ratio", "speedup_low", "speedup_high"],
        "gain": ["claim", "subject", "against", "gain_ratio", "gain_low", "gain_high"],
        "first": ["claim", "subject", "backend", "first_call_s", "step_us", "first_ratio"],
    }
    for kind, columns in shown.items():
        judged = [] if kind == "claim" else ["said", "verdict", "agrees"]
        print_table([row for row in rows if row["kind"] == kind], [*columns, *judged])
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
