# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 600
# value = 44
# ///
"""Training a ResNet-50: what Inductor gives, and whether the back ends that a blog post names for it are there.

The post says that Inductor made the training of ResNet-50 2.3 times as fast (B3), and for training on images in
general: Inductor first, nvFuser second, 2 to 3 times (B7). Neither names hardware; published figures of that size are
from GPUs, so on a CPU the row of B3 shows what was measured and decides nothing.

A network with the blocks of ResNet-50 (He et al., CVPR 2016: 3, 4, 6 and 3 bottlenecks, 53 convolutions with batch
norm) and random weights, float32. On a GPU it has its full width, 224 x 224 pixels and batch 64; on a CPU a quarter of
the width, 64 x 64 pixels and batch 4, so that a step takes a fraction of a second. A step is forward, cross entropy,
backward, and an SGD step with momentum, the optimizer not compiled. All variants, each with its own copy, are timed in
one process in a new random order each round (``torch.utils.benchmark.Timer(...).timeit(number)``), and several fresh
processes do the same on caches that one filled before. Each gives one number a variant, the median of the logarithms
of the ratios to the uncompiled twin of the same round; the speed-up is their mean, turned back into a ratio, with
Student's t over processes for its 95 % interval. (Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM
2013.)

Columns
    claim                  B3 or B7
    tried                  what was run, as code
    said, seen             a speed-up, or the name of the fastest, or "runs" and the name of an error
    agrees                 speed-ups: whether the interval reaches what was said; else whether the two are the same;
                           None where this device can't decide
    speedup_ratio, speedup_low, speedup_high   time of eager mode / time with the back end; its 95 % interval
    status, note           "ok"; "wrong" where the loss is not that of eager mode; "failed", "not measured"
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.benchmark import Timer

Row = dict[str, Any]
Call = Callable[[], torch.Tensor]

#: What the post says: of ResNet-50, and of training on images in general (from, to).
SAID, SAID_RANGE = 2.3, (2.0, 3.0)
#: The loss of the first step may differ by so much of itself.
TOLERANCE = 1e-3
VARIANTS = ("none", "none_again", "aot_eager", "inductor")
BACKENDS = ("aot_eager", "inductor")
#: glibc's malloc keeps freed memory instead of returning it to the system: page faults are no operator time.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(2**30), "MALLOC_MMAP_THRESHOLD_": str(2**30)}
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)
ON_A_CPU = "measured on a CPU, and no judgement: the claim is about a GPU"


# ---------------------------------------------------------------- the model


class Unit(nn.Sequential):
    """Convolution, batch norm and, where wanted, ReLU."""

    def __init__(self, inside: int, outside: int, kernel: int, stride: int = 1, relu: bool = True) -> None:
        layers = [nn.Conv2d(inside, outside, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outside)]
        super().__init__(*layers, *([nn.ReLU(inplace=True)] if relu else []))


class Bottleneck(nn.Module):
    """1 x 1 down, 3 x 3, 1 x 1 up to four times the width; the input is added before the last ReLU."""

    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        self.way = nn.Sequential(
            Unit(inside, width, 1), Unit(width, width, 3, stride), Unit(width, 4 * width, 1, relu=False)
        )
        same = stride == 1 and inside == 4 * width
        self.aside = nn.Identity() if same else Unit(inside, 4 * width, 1, stride, relu=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, inside, h, w) to (batch, 4 * width, h / stride, w / stride)."""
        return F.relu(self.way(x) + self.aside(x))


def resnet(blocks: Sequence[int], width: int, classes: int = 1000) -> nn.Module:
    """Return a ResNet of bottlenecks; (3, 4, 6, 3) and width 64 are ResNet-50."""
    layers: list[nn.Module] = [Unit(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inside = width
    for stage, count in enumerate(blocks):
        for index in range(count):
            layers.append(Bottleneck(inside, width << stage, 2 if stage and not index else 1))
            inside = 4 * (width << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, classes))


def build(job: Row) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return the model, images and labels, the same in every process."""
    torch.manual_seed(0)
    model = resnet(job["blocks"], job["width"]).to(job["device"])
    images = torch.randn(job["batch"], 3, job["pixels"], job["pixels"]).to(job["device"])
    return model, images, torch.randint(0, 1000, (job["batch"],)).to(job["device"])


def make_step(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, variant: str) -> Call:
    """Return a training step of one variant on its own copy of the model; it returns the loss."""
    own = copy.deepcopy(model)
    forward = torch.compile(own, backend=variant) if variant in BACKENDS else own
    # A learning rate so small that the weights, and with them the work, stay what they are.
    optimizer = torch.optim.SGD(own.parameters(), lr=1e-6, momentum=0.9)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(forward(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


# ---------------------------------------------------------------- in the child process


def time_block(call: Call, number: int, threads: int) -> float:
    """Return the mean time of a step over ``number`` steps in seconds (Timer synchronises)."""
    return Timer("call()", globals={"call": call}, num_threads=threads).timeit(number).mean


def child_steps(job: Row) -> Row:
    """Take turns with all variants; return block means in seconds, and the first loss of each."""
    from torch._dynamo.utils import counters

    threads, order = job["threads"], random.Random(job["seed"])
    model, images, labels = build(job)
    calls = {variant: make_step(model, images, labels, variant) for variant in VARIANTS}
    losses = {variant: float(call()) for variant, call in calls.items()}
    number = max(1, math.ceil(job["block_ms"] / 1e3 / time_block(calls["none"], 1, threads)))
    blocks: dict[str, list[float]] = {variant: [] for variant in calls}
    for _ in range(job["rounds"]):
        for variant in order.sample(list(calls), k=len(calls)):
            blocks[variant].append(time_block(calls[variant], number, threads))
    return {"blocks": blocks, "losses": losses, "graphs": counters["stats"]["unique_graphs"]}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = child_steps(job)
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
        eager, ours = answer["losses"]["none"], answer["losses"]["inductor"]
        if not abs(ours - eager) <= TOLERANCE * abs(eager):  # also true for NaN
            return "wrong", f"the first loss is {ours:.5g}, in eager mode {eager:.5g}"
    return None


def blank(claim: str, tried: str, said: str) -> Row:
    """Return a row with every column, nothing seen yet."""
    row: Row = {"claim": claim, "tried": tried, "said": said, "seen": None, "agrees": None}
    row |= dict.fromkeys(("speedup_ratio", "speedup_low", "speedup_high"))
    return row | {"status": "ok", "note": None}


def speedup(answers: Sequence[Row], variant: str) -> Row:
    """Return the speed-up of a variant over eager mode, with its interval."""
    mean, low, high = map(math.exp, t_interval(log_ratios(answers, "none", variant)))
    return {"speedup_ratio": mean, "speedup_low": low, "speedup_high": high}


def fastest(answers: Sequence[Row]) -> str:
    """Return the back end that is faster than eager mode and than the other, beyond the A/A pair, or "none"."""
    noise = max(abs(bound) for bound in t_interval(log_ratios(answers, "none", "none_again"))[1:])
    best = "none"
    for variant in BACKENDS:
        mean, low, _ = t_interval(log_ratios(answers, best, variant))
        if low > 0 and mean > noise:
            best = variant
    return best


def outcome(backend: str) -> str:
    """Return "runs" if the back end's name is known here, or the name of the error."""
    try:
        torch.compile(nn.ReLU(), backend=backend)(torch.ones(4))
    except Exception as error:
        return type(error).__name__
    return "runs"


def claim_rows(answers: Sequence[Row], device: str) -> list[Row]:
    """Return the rows of B3 and B7 from the answers of the processes."""
    step = "cross_entropy(torch.compile(resnet50)(x), y).backward(); sgd.step()"
    low, high = SAID_RANGE
    rows = [
        blank("B3", step, f"{SAID:g}"),
        blank("B7", "torch.compile(model, backend='nvfuser')", "runs"),
        blank("B7", "fastest(none, aot_eager, inductor)", "inductor"),
        blank("B7", step, f"{low:g} to {high:g}"),
    ]
    seen = outcome("nvfuser")
    rows[1] |= {"seen": seen, "agrees": seen == "runs"}
    if reason := lost(answers):
        for row in (rows[0], *rows[2:]):
            row |= {"status": reason[0], "note": reason[1]}
        return rows
    ratio = speedup(answers, "inductor")
    shown = ratio | {"seen": f"{ratio['speedup_ratio']:.2f}"}
    rows[0] |= shown | {"agrees": ratio["speedup_high"] >= SAID}
    if device == "cpu":
        rows[0] |= {"agrees": None, "note": ON_A_CPU}
    best = fastest(answers)
    rows[2] |= {"seen": best, "agrees": best == "inductor"}
    rows[3] |= shown | {"agrees": ratio["speedup_high"] >= low and ratio["speedup_low"] <= high}
    return rows


def run(
    *,
    blocks: Sequence[int] = (3, 4, 6, 3),
    processes: int = 3,
    rounds: int = 8,
    block_ms: float = 40.0,
    threads: int = 1,
    child_limit_s: float = 300.0,
) -> list[Row]:
    """Train in turns and return the rows of both claims (columns: module docstring).

    ``blocks``: bottlenecks of each stage. A first process fills the caches; then ``processes`` (two at least) x
    ``rounds`` (two at least) blocks of ``block_ms`` milliseconds a variant. Raises ValueError for fewer than two.
    """
    if processes < 2 or rounds < 2:
        raise ValueError(f"processes = {processes}, rounds = {rounds}: an interval needs at least two of each")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    size = {"width": 64, "pixels": 224, "batch": 64} if device == "cuda" else {"width": 16, "pixels": 64, "batch": 4}
    job = {"device": device, "threads": threads, "blocks": list(blocks), "rounds": rounds, "block_ms": block_ms} | size
    answers: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="resnet50-", ignore_cleanup_errors=True) as name:
        filled = run_child(job | {"seed": 0, "rounds": 0}, Path(name), child_limit_s)
        if lost([filled]):
            return claim_rows([filled], device)
        for seed in range(processes):
            answers.append(run_child(job | {"seed": seed}, Path(name), child_limit_s))
            if lost(answers[-1:]):
                return claim_rows(answers[-1:], device)
    return claim_rows(answers, device)


def main(arguments: Sequence[str]) -> None:
    """Measure and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        ratio = row["speedup_ratio"]
        spread = f" ({row['speedup_low']:.2f} to {row['speedup_high']:.2f})" if ratio is not None else ""
        print(f"{row['claim']}: said {row['said']}, seen {row['seen']}{spread}: {row['tried']} {row['note'] or ''}")


if __name__ == "__main__":
    main(sys.argv[1:])
