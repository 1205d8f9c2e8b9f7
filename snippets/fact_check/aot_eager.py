# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 400
# value = 50
# ///
"""``aot_eager`` is about 1.5 times as fast and still debuggable, says a blog post. Both, tried.

Speed: five small models in float32, forward alone under ``torch.no_grad()`` and a training step of forward and
backward. All variants of all models, each with its own copy, are timed in one process in a new random order each round;
a block is ``torch.utils.benchmark.Timer(...).timeit(number)``. Several fresh processes do the same. Each gives one
number a variant, the median of the logarithms of the ratios to the uncompiled twin of the same round; the speed-up is
their mean, turned back into a ratio, with Student's t over processes for its 95 % interval. The uncompiled model is
there twice: a difference no larger than between these two would be no difference. (Kalibera and Jones, "Rigorous
Benchmarking in Reasonable Time", ISMM 2013.)

    mlp        512-256-128-10 with ReLU, batch 64
    cnn        three convolutions with batch norm and ReLU
    encoder    one layer of a transformer, its fast path off
    norms      layer norm, GELU, scale and residual
    repeats    a function that computes the same thing eight times: AOTAutograd's graph computes it once

Debugging: what a print, a breakpoint and a traceback show under ``aot_eager`` that they show without compiling.

Columns
    claim                  B6
    tried                  what was run, as code
    said, seen             speed: the speed-up; debugging: whether it was seen
    agrees                 speed: whether it is faster, and the upper end of the interval reaches ABOUT of what was
                           said; debugging: whether the two are the same
    speedup_ratio, speedup_low, speedup_high   time without / time with, above 1 is faster; its 95 % interval
    status, note           "ok"; "wrong" where the result is not that of float64; "failed", "not measured"
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
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.benchmark import Timer

Row = dict[str, Any]
Call = Callable[[], torch.Tensor]

SAID = 1.5
#: "About": so much of what was said is enough.
ABOUT = 0.9
TOLERANCE = 1e-4
#: glibc's malloc keeps freed memory instead of returning it to the system: page faults are no operator time.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(2**30), "MALLOC_MMAP_THRESHOLD_": str(2**30)}
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)


# ---------------------------------------------------------------- the models


class Encoder(nn.TransformerEncoderLayer):
    """One layer, of which the compiler sees every operator: in training mode, without dropout."""

    def __init__(self) -> None:
        super().__init__(128, 4, 256, dropout=0.0, batch_first=True)


class Norms(nn.Module):
    """Layer norm, GELU, scale, residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(512)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape out as in."""
        return x + F.gelu(self.norm(x)) * 0.5


class Repeats(nn.Module):
    """The same sigmoid, computed wherever it is wanted."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape out as in."""
        total = x
        for _ in range(8):
            total = total + torch.sigmoid(x)
        return total


def build(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Return a model in training mode and its input, float32, the same in every process."""
    torch.manual_seed(0)
    if name == "mlp":
        layers = [nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)]
        return nn.Sequential(*layers), torch.randn(64, 512)
    if name == "cnn":
        blocks: list[nn.Module] = []
        for channels in (3, 16, 16):
            blocks += [nn.Conv2d(channels, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
        return nn.Sequential(*blocks), torch.randn(4, 3, 32, 32)
    if name == "encoder":
        return Encoder(), torch.randn(4, 32, 128)
    if name == "norms":
        return Norms(), torch.randn(256, 512)
    return Repeats(), torch.randn(256, 512)


MODELS = ("mlp", "cnn", "encoder", "norms", "repeats")
WORKLOADS = ("inference", "training")
VARIANTS = ("none", "none_again", "aot_eager")


def make_call(model: nn.Module, x: torch.Tensor, workload: str, variant: str) -> Call:
    """Return a step of one variant on its own copy; it returns the output, in training the gradient of the input."""
    own = copy.deepcopy(model)
    forward = torch.compile(own, backend=variant) if variant == "aot_eager" else own

    def infer() -> torch.Tensor:
        with torch.no_grad():
            return forward(x)

    def train() -> torch.Tensor:
        own.zero_grad(set_to_none=True)
        given = x.detach().requires_grad_()
        out = forward(given)
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        out.backward(weights)
        assert given.grad is not None
        return given.grad

    return infer if workload == "inference" else train


def relative_error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the largest absolute error over the largest absolute value of the float64 reference."""
    return float((result.double() - reference).abs().max() / reference.abs().max())


# ---------------------------------------------------------------- debugging


class Debugged(nn.Module):
    """A model with what one debugs by."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.layer, self.how = nn.Linear(8, 8), how

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """(batch, 8) to (batch, 8)."""
        hidden = torch.relu(self.layer(x))
        if self.how == "print":
            print("seen")
        if self.how == "breakpoint":
            breakpoint()
        return torch.index_select(hidden, 0, index)


def shows(how: str, backend: str | None) -> bool:
    """Return whether a print, a stop with the local in sight, or the line of forward in a traceback is seen.

    Asked of a later call: the first one is Dynamo's.
    """
    torch._dynamo.reset()
    model: Callable[..., torch.Tensor] = Debugged(how)
    if backend is not None:
        model = torch.compile(model, backend=backend)
    x, inside, outside = torch.ones(4, 8), torch.tensor([0, 3]), torch.tensor([0, 9])
    stops: list[bool] = []

    def stop(*_: Any, **__: Any) -> None:
        frame = sys._getframe(1)
        stops.append("hidden" in frame.f_locals and frame.f_code.co_name == "forward")

    before, sys.breakpointhook = sys.breakpointhook, stop
    written = Writer()
    try:
        with torch.no_grad(), contextlib.redirect_stdout(written):
            model(x, inside)
            stops.clear()
            written.text = ""
            try:
                model(x, outside if how == "traceback" else inside)
            except IndexError as error:
                lines = [frame.line or "" for frame in traceback.extract_tb(error.__traceback__)]
                return any("torch.index_select(hidden" in line for line in lines)
    finally:
        sys.breakpointhook = before
    return any(stops) if how == "breakpoint" else "seen" in written.text


class Writer:
    """Where print writes to."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        """Keep it."""
        self.text += text
        return len(text)

    def flush(self) -> None:
        """Nothing to do."""


DEBUG = {
    "print": "def forward(…): print('seen')",
    "breakpoint": "def forward(…): breakpoint(); 'hidden' in frame.f_locals",
    "traceback": "except IndexError: 'torch.index_select(hidden' in traceback",
}


# ---------------------------------------------------------------- in the child process


def time_block(call: Call, number: int, threads: int) -> float:
    """Return the mean time of a step over ``number`` steps in seconds (Timer warms up)."""
    return Timer("call()", globals={"call": call}, num_threads=threads).timeit(number).mean


def child_steps(job: Row) -> Row:
    """Time all variants of all models in turns, in a new order each round; return block means in seconds."""
    from torch._dynamo.utils import counters

    threads, order = job["threads"], random.Random(job["seed"])
    calls: dict[str, Call] = {}
    errors: dict[str, float] = {}
    for name in job["models"]:
        model, x = build(name)
        exact = copy.deepcopy(model).double()
        for workload in WORKLOADS:
            reference = make_call(exact, x.double(), workload, "none")()
            for variant in VARIANTS:
                key = f"{name}/{workload}/{variant}"
                calls[key] = make_call(model, x, workload, variant)
                errors[key] = relative_error(calls[key](), reference)
                calls[key]()
    numbers = {
        key: max(1, math.ceil(job["block_ms"] / 1e3 / time_block(call, 3, threads))) for key, call in calls.items()
    }
    blocks: dict[str, list[float]] = {key: [] for key in calls}
    for _ in range(job["rounds"]):
        for key in order.sample(list(calls), k=len(calls)):
            blocks[key].append(time_block(calls[key], numbers[key], threads))
    return {"blocks": blocks, "errors": errors, "graphs": counters["stats"]["unique_graphs"]}


def child_debug(job: Row) -> Row:
    """Try the ways of debugging, without compiling and with aot_eager."""
    from torch._dynamo.utils import counters

    seen = {how: [shows(how, backend) for backend in (None, "aot_eager")] for how in DEBUG}
    # The way that a graph break leaves no trace in the last reset is counted here.
    torch.compile(nn.ReLU(), backend="aot_eager")(torch.ones(4))
    return {"seen": seen, "graphs": counters["stats"]["unique_graphs"]}


CHILDREN: dict[str, Callable[[Row], Row]] = {"steps": child_steps, "debug": child_debug}


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
    """
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


def lost(answers: Sequence[Row]) -> tuple[str, str] | None:
    """Return (status, note) where the processes have no numbers, else None."""
    for answer in answers:
        if "failed" in answer:
            return "failed", answer["failed"]
        if answer["graphs"] == 0:
            return "not measured", NOT_COMPILED
    return None


def blank(tried: str, said: str) -> Row:
    """Return a row with every column, nothing seen yet."""
    row: Row = {"claim": "B6", "tried": tried, "said": said, "seen": None, "agrees": None}
    row |= dict.fromkeys(("speedup_ratio", "speedup_low", "speedup_high"))
    return row | {"status": "ok", "note": None}


def speed_row(name: str, workload: str, answers: Sequence[Row]) -> Row:
    """Return the row of a model and a workload."""
    step = "torch.compile({0}, backend='aot_eager')(x)" + ("" if workload == "inference" else ".backward(g)")
    row = blank(step.format(name), f"{SAID:g}")
    if reason := lost(answers):
        return row | {"status": reason[0], "note": reason[1]}
    plain, again, ours = (f"{name}/{workload}/{variant}" for variant in VARIANTS)
    error = max(answer["errors"][ours] for answer in answers)
    if not error <= TOLERANCE:  # also true for NaN
        return row | {"status": "wrong", "note": f"relative error {error:.2g} against float64 is above {TOLERANCE:g}"}
    mean, low, high = t_interval(log_ratios(answers, plain, ours))
    noise = max(abs(bound) for bound in t_interval(log_ratios(answers, plain, again))[1:])
    agrees = math.exp(high) >= SAID * ABOUT and low > 0 and mean > noise
    row |= {"speedup_ratio": math.exp(mean), "speedup_low": math.exp(low), "speedup_high": math.exp(high)}
    return row | {"seen": f"{math.exp(mean):.2f}", "agrees": agrees}


def debug_row(how: str, answer: Row) -> Row:
    """Return the row of one way of debugging: it counts only where it works without compiling."""
    row = blank(DEBUG[how], "True")
    if reason := lost([answer]):
        return row | {"status": reason[0], "note": reason[1]}
    without, compiled = answer["seen"][how]
    if not without:
        return row | {"status": "failed", "note": "not seen without compiling either"}
    return row | {"seen": str(compiled), "agrees": compiled}


def run(
    *,
    models: Sequence[str] = MODELS,
    processes: int = 4,
    rounds: int = 8,
    block_ms: float = 12.0,
    threads: int = 1,
    child_limit_s: float = 120.0,
) -> list[Row]:
    """Time the models, try the debugging, and return a row for each case (columns: module docstring).

    ``processes`` (two at least) x ``rounds`` (two at least) blocks of ``block_ms`` milliseconds a variant;
    ``child_limit_s``: a process that takes longer is killed. Raises ValueError for fewer than two.
    """
    if processes < 2 or rounds < 2:
        raise ValueError(f"processes = {processes}, rounds = {rounds}: an interval needs at least two of each")
    steps = {"task": "steps", "models": list(models), "rounds": rounds, "block_ms": block_ms, "threads": threads}
    answers: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="aot-eager-", ignore_cleanup_errors=True) as name:
        for seed in range(processes):
            answers.append(run_child(steps | {"seed": seed}, Path(name), child_limit_s))
            if lost(answers[-1:]):
                break
        debug = run_child({"task": "debug", "threads": threads}, Path(name), child_limit_s)
    rows = [speed_row(name, workload, answers) for name in models for workload in WORKLOADS]
    return [*rows, *(debug_row(how, debug) for how in DEBUG)]


def main(arguments: Sequence[str]) -> None:
    """Try everything and print it; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        ratio = row["speedup_ratio"]
        spread = f" ({row['speedup_low']:.2f} to {row['speedup_high']:.2f})" if ratio is not None else ""
        print(f"said {row['said']}, seen {row['seen']}{spread}: {row['tried']} {row['note'] or ''}")


if __name__ == "__main__":
    main(sys.argv[1:])
