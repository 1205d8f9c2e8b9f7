# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 800
# value = 50
# ///
"""Does one back end for the encoder and another for the decoder beat the best back end on the whole?

Three models of two parts, float32, inference under ``torch.no_grad()``:

    translator   two Transformer blocks, then a GRU with attention, unrolled: matrix products, then many small operators
    segmenter    convolutions with batch norm, then layer norms and GELU on every pixel
    greedy       Transformer blocks, then a GRU that feeds its own choice back and stops at an end token: the loop asks
                 for a value (``.item()``), so no back end can take the decoder as one graph

Each is run with one back end on the whole, as a mix (``model.encoder.compile(...); model.decoder.compile(...)``), and
each part alone. OpenVINO, where it is installed, computes in float32 (its own choice on some CPUs is bfloat16) and with
as many threads as torch. Loading it changes a setting of TorchDynamo; here the others are captured before that.

How it is measured
    Correctness first: further than TOLERANCE from a float64 reference gives a row "wrong" without times. So does a back
    end that captured nothing, and OpenVINO where no call reached its runtime: "not measured".

    All variants of a model are timed in one process, in a new random order each round; a block is
    ``torch.utils.benchmark.Timer(...).timeit(number)``. Several fresh processes do the same, on caches that the check
    filled before. Each process gives one number a variant, the median of the logarithms of its ratios to the uncompiled
    twin of the same round; the speed-up is their mean, turned back into a ratio, with Student's t over processes for
    its 95 % interval. "No difference": 1 lies in the interval, or the effect is no larger than what the A/A pair of
    that model shows. (Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013.)

    The question itself: the first processes *choose* the fastest single back end and the fastest mix, the others
    *judge* the two against each other. Chosen and judged by the same numbers, the luckiest of several mixes would win.
    The timing processes keep freed memory (glibc), so that page faults are not counted as operator time.

Columns
    kind               "whole": a model with one back end or a mix; "part": a part alone; "gain": best mix, best single
    model              which model
    scope              whole: "one back end" or "mix"
    encoder, decoder   whole: the back end of each part; "none" is not compiled
    part, backend      part: which, and its back end
    status, note       "ok"; else the reason in note, and no times
    device, threads    always "cpu"; CPU threads of torch
    max_rel_error      largest absolute error over the largest absolute value of the reference
    graphs             graphs captured; of a mix, those of its two parts
    executed           OpenVINO: calls that reached its runtime in one step; else None
    package, package_version   of the rows that need one
    step_us            median of a step; step_q1_us, step_q3_us: quartiles over all blocks
    speedup_ratio      time of the uncompiled model (or part) / time of this; speedup_low, speedup_high: 95 % interval
    verdict            "faster", "slower", "no difference"; gain: of the mix against the single
    parts_us           whole, mix: the two parts alone, added up; else None
    single, mix        gain: the two that were chosen, a mix as "encoder | decoder"
    singles, mixes     gain: among how many they were chosen
    gain_ratio         gain: time of the single / time of the mix; gain_low, gain_high: its 95 % interval
    processes, rounds  how many processes timed, and how many rounds each (gain: those that judged)
    samples_us         every block of every process: mean of a step
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.metadata
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
Call = Callable[[torch.Tensor], torch.Tensor]

TOLERANCE = 1e-4
SETTLING_CALLS = 3
#: glibc's malloc keeps freed memory instead of returning it to the system.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(2**30), "MALLOC_MMAP_THRESHOLD_": str(2**30)}
#: Every variant of a model shares the code of its parts, and the limit counts back ends too.
GRAPHS_ALLOWED = 64
PACKAGE = "openvino"
NEEDS_OPENVINO = "this row needs OpenVINO: pip install 'openvino>=2026.4'"
#: Columns of an interval that overview/four_backends explains.
SPEEDUP = ("speedup_ratio", "speedup_low", "speedup_high")
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)
NOT_EXECUTED = (
    "No call reached OpenVINO's runtime: it handed everything to another back end, so there is nothing to time."
)


# ---------------------------------------------------------------- the models


class Block(nn.Module):
    """Attention and a feed-forward layer, each after a layer norm and around a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.query_key_value, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same."""
        batch, tokens, width = x.shape
        split = self.query_key_value(self.norms[0](x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, tokens, width)
        x = x + self.output(mixed)
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Transformer(nn.Module):
    """Two blocks."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to the same."""
        for block in self.blocks:
            x = block(x)
        return x


class Recurrent(nn.Module):
    """A GRU cell with attention over what was encoded, and scores for each word; a fixed number of steps."""

    def __init__(self, width: int = 256, words: int = 256, steps: int = 6) -> None:
        super().__init__()
        self.steps = steps
        self.cell = nn.GRUCell(width, width)
        self.scores = nn.Linear(width, words)

    def advance(self, state: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Look at the memory, move the state on, score the words."""
        weights = torch.softmax((memory @ state.unsqueeze(-1)).squeeze(-1) / memory.shape[-1] ** 0.5, -1)
        seen = (weights.unsqueeze(-1) * memory).sum(1)
        state = self.cell(seen, state)
        return state, F.log_softmax(self.scores(F.gelu(state + seen)), -1)

    def forward(self, memory: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to (batch, steps, words)."""
        state, scores = memory.mean(1), []
        for _ in range(self.steps):
            state, score = self.advance(state, memory)
            scores.append(score)
        return torch.stack(scores, 1)


class Greedy(Recurrent):
    """The same, stopping as soon as the first sentence chooses word 0: a value decides how long the loop is."""

    def forward(self, memory: torch.Tensor) -> torch.Tensor:
        """(batch, tokens, width) to (batch, steps taken, words)."""
        state, scores = memory.mean(1), []
        for _ in range(self.steps):
            state, score = self.advance(state, memory)
            scores.append(score)
            if score[0].argmax().item() == 0:
                break
        return torch.stack(scores, 1)


class Convolutions(nn.Module):
    """Convolutions, batch norm, ReLU."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        sizes = (3, channels, channels, channels)
        self.layers = nn.ModuleList(
            nn.Conv2d(sizes[i], sizes[i + 1], 3, padding=1, bias=False) for i in range(len(sizes) - 1)
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in self.layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 3, height, width) to (batch, height x width, channels)."""
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = F.relu(norm(layer(x)))
        return x.flatten(2).transpose(1, 2)


class PerPixel(nn.Module):
    """Layer norm, GELU, a gate and a residual, several times over, then a softmax over the classes."""

    def __init__(self, channels: int = 32, depth: int = 3) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, pixels, channels) to the same."""
        for norm in self.norms:
            y = norm(x)
            x = x + F.gelu(y) * torch.sigmoid(y) * 0.5
        return torch.softmax(x, -1)


class EncoderDecoder(nn.Module):
    """Encoder, then decoder."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What the encoder takes, to what the decoder gives."""
        return self.decoder(self.encoder(x))


MODELS: dict[str, Callable[[], tuple[nn.Module, nn.Module, torch.Tensor]]] = {
    "translator": lambda: (Transformer(), Recurrent(), torch.randn(4, 32, 256)),
    "segmenter": lambda: (Convolutions(), PerPixel(), torch.randn(4, 3, 32, 32)),
    "greedy": lambda: (Transformer(), Greedy(), torch.randn(4, 32, 256)),
}
#: One back end on the whole; "inductor, freezing" folds the weights in, which a fair single may do in inference.
SINGLES = ("none", "aot_eager", "inductor", "inductor, freezing", "openvino")
PART_BACKENDS = ("none", "aot_eager", "inductor", "openvino")
#: Encoder and decoder. The same back end twice is no mix: it shows what the boundary costs.
MIXES = (
    ("inductor", "inductor"),
    ("inductor", "none"),
    ("none", "inductor"),
    ("aot_eager", "inductor"),
    ("openvino", "inductor"),
    ("inductor", "openvino"),
    ("openvino", "none"),
)


def build(model: str) -> tuple[EncoderDecoder, torch.Tensor]:
    """Return a model in eval mode and its input, the same in every process."""
    torch.manual_seed(0)
    encoder, decoder, x = MODELS[model]()
    return EncoderDecoder(encoder, decoder).eval(), x


# ---------------------------------------------------------------- the variants


def compile_arguments(backend: str, threads: int) -> Row:
    """Return the arguments of torch.compile for a back end of ours."""
    if backend == "inductor, freezing":
        return {"backend": "inductor", "options": {"freezing": True}}
    if backend == PACKAGE:
        config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": str(threads)}
        return {"backend": PACKAGE, "options": {"config": config}}
    return {"backend": backend}


def whole(backend: str) -> str:
    """Return the key of one back end on the whole."""
    return f"whole: {backend}"


def mixed(encoder: str, decoder: str) -> str:
    """Return the key of a mix."""
    return f"mix: {encoder} | {decoder}"


def alone(part: str, backend: str) -> str:
    """Return the key of a part alone."""
    return f"{part}: {backend}"


class Variants:
    """The ways to run one model, each compiled once and only when asked for.

    The mixes share the compiled parts: a part in inference keeps no state.
    """

    def __init__(self, model: str, threads: int) -> None:
        self.threads = threads
        self.plain, self.x = build(model)
        self.encoded = self.plain.encoder(self.x)
        self.parts: dict[tuple[str, str], nn.Module] = {}

    def part(self, name: str, backend: str) -> nn.Module:
        """Return a part compiled in place with a back end."""
        if (name, backend) not in self.parts:
            part = copy.deepcopy(getattr(self.plain, name))
            if not backend.startswith("none"):
                part.compile(**compile_arguments(backend, self.threads))
            self.parts[name, backend] = part
        return self.parts[name, backend]

    def get(self, variant: str) -> tuple[Call, torch.Tensor]:
        """Return the callable of a variant and its input."""
        scope, backend = variant.split(": ", 1)
        if scope == "whole":
            model = copy.deepcopy(self.plain)
            if backend.startswith("none"):
                return model, self.x
            return torch.compile(model, **compile_arguments(backend, self.threads)), self.x
        if scope == "mix":
            encoder, decoder = backend.split(" | ")
            return EncoderDecoder(self.part("encoder", encoder), self.part("decoder", decoder)).eval(), self.x
        return self.part(scope, backend), self.x if scope == "encoder" else self.encoded

    def reference(self, variant: str) -> torch.Tensor:
        """Return what a variant should give, in float64."""
        scope = variant.split(": ", 1)[0]
        exact = copy.deepcopy(self.plain).double()
        call = exact if scope in ("whole", "mix") else getattr(exact, scope)
        result: torch.Tensor = call((self.encoded if scope == "decoder" else self.x).double())
        return result


def variants_of(*, backends: Sequence[str]) -> list[str]:
    """Return the keys of all variants with these back ends; those with OpenVINO last (why: module docstring)."""
    keys = [whole("none"), whole("none_again"), *(whole(b) for b in SINGLES if b != "none" and b in backends)]
    for part in ("encoder", "decoder"):
        keys += [alone(part, backend) for backend in PART_BACKENDS if backend in backends]
    keys += [mixed(*pair) for pair in MIXES if set(pair) <= set(backends)]
    return sorted(keys, key=lambda key: PACKAGE in key)


# ---------------------------------------------------------------- in the child process


def count_executions() -> list[None]:
    """Make OpenVINO's runtime note each call, and return the list of notes."""
    notes: list[None] = []
    execute: Any = importlib.import_module("openvino.frontend.pytorch.torchdynamo.execute")
    original = execute.openvino_execute

    def counting(*arguments: Any, **settings: Any) -> Any:
        notes.append(None)
        return original(*arguments, **settings)

    execute.openvino_execute = counting
    return notes


def check(variants: Variants, variant: str) -> Row:
    """Compile a variant, compare it with float64, and count the graphs and OpenVINO's calls."""
    from torch._dynamo.utils import counters

    calls = count_executions() if PACKAGE in variant else []
    if not variant.startswith("mix"):  # a mix uses parts that were checked before it
        torch._dynamo.reset()
    before = counters["stats"]["unique_graphs"]
    call, x = variants.get(variant)
    for _ in range(SETTLING_CALLS):
        call(x)
    calls.clear()
    result, reference = call(x), variants.reference(variant)
    if result.shape != reference.shape:
        return {"failed": f"the result has shape {tuple(result.shape)}, the reference {tuple(reference.shape)}"}
    error = float((result.double() - reference).abs().max() / reference.abs().max())
    graphs = counters["stats"]["unique_graphs"] - before
    return {"error": error, "graphs": graphs, "executed": len(calls) if PACKAGE in variant else None}


@torch.no_grad()
def child_check(job: Row) -> None:
    """Check variants of a model; a line of JSON for each goes into the answer file as soon as it is known."""
    variants = Variants(job["model"], job["threads"])
    with Path(job["answer"]).open("a") as answer:
        for variant in job["variants"]:
            try:
                found = check(variants, variant)
            except Exception as error:
                inner = getattr(error, "inner_exception", None) or error
                found = {"failed": f"{type(inner).__name__}: {inner}".strip().splitlines()[0][:300]}
            answer.write(json.dumps({"variant": variant, **found}) + "\n")
            answer.flush()


def time_block(call: Call, x: torch.Tensor, number: int, threads: int) -> float:
    """Return the mean time of a step over ``number`` steps in seconds (Timer warms up)."""
    return Timer("call(x)", globals={"call": call, "x": x}, num_threads=threads).timeit(number).mean


@torch.no_grad()
def child_steps(job: Row) -> None:
    """Time the variants of each model interleaved, in a new order each round; write their block means in seconds."""
    threads, order = job["threads"], random.Random(job["seed"])
    blocks: dict[str, dict[str, list[float]]] = {}
    for model, keys in job["variants"].items():
        variants = Variants(model, threads)
        calls = {key: variants.get(key) for key in keys}
        for call, x in calls.values():
            for _ in range(SETTLING_CALLS):
                call(x)
        numbers = {key: max(1, math.ceil(job["block_ms"] / 1e3 / time_block(*calls[key], 2, threads))) for key in calls}
        blocks[model] = {key: [] for key in calls}
        for _ in range(job["rounds"]):
            for key in order.sample(list(calls), k=len(calls)):
                blocks[model][key].append(time_block(*calls[key], numbers[key], threads))
    Path(job["answer"]).write_text(json.dumps(blocks))


def child_main(job: Row) -> None:
    """Do one job in this process."""
    torch.set_num_threads(job["threads"])
    from torch._dynamo import config

    config.recompile_limit = GRAPHS_ALLOWED
    {"check": child_check, "steps": child_steps}[job["task"]](job)
    sys.stdout.flush()
    os._exit(0)


# ---------------------------------------------------------------- in the parent process


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and whatever it started (a C++ compiler, a compile worker)."""
    with contextlib.suppress(ProcessLookupError):  # nobody is left
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # Windows has no process groups of this kind
            process.kill()
    process.wait()


def run_child(job: Row, folder: Path, limit_s: float) -> str | None:
    """Run one job in a fresh process with all caches below ``folder``; return what went wrong, or None."""
    log = folder / "log.txt"
    environment = (
        os.environ | KEEP_MEMORY | {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    )
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, __file__, "--child", json.dumps(job)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"no answer within {limit_s:g} s"
        finally:
            end_group(process)
    if code == 0:
        return None
    if code < 0:
        return f"the process died of signal {signal.Signals(-code).name}"
    last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
    return f"the process ended with code {code}: {last[:300]}"


def check_model(model: str, keys: Sequence[str], threads: int, folder: Path, limit_s: float) -> dict[str, Row]:
    """Check all variants of a model. One that takes the process down is "failed"; the others get a new one."""
    path = folder / f"{model}.jsonl"
    answers: dict[str, Row] = {}
    while left := [key for key in keys if key not in answers]:
        job = {"task": "check", "model": model, "variants": left, "threads": threads, "answer": str(path)}
        trouble = run_child(job, folder, limit_s)
        for line in path.read_text().splitlines() if path.exists() else ():
            with contextlib.suppress(json.JSONDecodeError):  # a line that was cut off
                answer = json.loads(line)
                answers[answer.pop("variant")] = answer
        first = next((key for key in left if key not in answers), None)
        if first is not None:
            answers[first] = {"failed": trouble or "the process ended without an answer"}
    return answers


def trouble_of(key: str, answer: Row) -> tuple[str, str] | None:
    """Return (status, note) where a check did not give what it should, else None."""
    if "failed" in answer:
        return "failed", answer["failed"]
    if not answer["error"] <= TOLERANCE:  # also true for NaN
        return "wrong", f"relative error {answer['error']:.2g} against float64 is above {TOLERANCE:g}"
    if answer["executed"] == 0:
        return "not measured", NOT_EXECUTED
    compiled = not key.startswith("mix: ") and ": none" not in key
    if compiled and answer["graphs"] == 0:
        return "not measured", NOT_COMPILED
    return None


def t_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return mean, lower and upper end of the 95 % t interval of the mean; ``values``: one of each process.

    Raises ValueError for fewer than two: one process says nothing about how much processes differ.
    """
    if len(values) < 2:
        raise ValueError("an interval needs at least two processes")
    quantile = T_975[min(len(values) - 1, len(T_975)) - 1]
    mean = statistics.fmean(values)
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def log_ratios(runs: Sequence[Row], over: str, under: str) -> list[float]:
    """Return one number a process: the median of the logarithms of the paired ratios of two variants."""
    return [statistics.median(math.log(a / b) for a, b in zip(run[over], run[under], strict=True)) for run in runs]


def ratio_interval(runs: Sequence[Row], over: str, under: str) -> tuple[float, float, float]:
    """Return the ratio of two variants and its 95 % interval."""
    mean, low, high = t_interval(log_ratios(runs, over, under))
    return math.exp(mean), math.exp(low), math.exp(high)


def judge(ratio: float, low: float, high: float, noise: float) -> str:
    """Return the verdict on a ratio, above 1 is faster; ``noise`` is the largest log ratio of the A/A pair."""
    if low <= 1 <= high or abs(math.log(ratio)) <= noise:
        return "no difference"
    return "faster" if ratio > 1 else "slower"


def choose(runs: Sequence[Row], keys: Sequence[str]) -> str:
    """Return the variant with the greatest speed-up over the uncompiled model."""
    return max(keys, key=lambda key: statistics.fmean(log_ratios(runs, whole("none"), key)))


def kind_of(key: str) -> str:
    """Return "whole" or "part"."""
    return "whole" if key.startswith(("whole: ", "mix: ")) else "part"


def is_mix(key: str) -> bool:
    """Tell whether the two parts have different back ends."""
    if not key.startswith("mix: "):
        return False
    encoder, decoder = key.removeprefix("mix: ").split(" | ")
    return encoder != decoder


def blank_row(kind: str, model: str, threads: int) -> Row:
    """Return a row of a kind with every column, nothing measured yet."""
    row: Row = {"kind": kind, "model": model, "status": "ok", "note": None, "device": "cpu", "threads": threads}
    if kind == "gain":
        row |= dict.fromkeys(("single", "mix", "singles", "mixes", "gain_ratio", "gain_low", "gain_high", "verdict"))
        return row | {"processes": 0, "rounds": 0}
    row |= dict.fromkeys(("scope", "encoder", "decoder", "parts_us") if kind == "whole" else ("part", "backend"))
    row |= dict.fromkeys(("max_rel_error", "graphs", "executed", "package", "package_version"))
    row |= dict.fromkeys(("step_us", "step_q1_us", "step_q3_us", *SPEEDUP, "verdict"))
    return row | {"processes": 0, "rounds": 0, "samples_us": []}


def row_of(model: str, key: str, threads: int, version: str | None) -> Row:
    """Return the row of a variant, nothing measured yet."""
    scope, backend = key.split(": ", 1)
    row = blank_row(kind_of(key), model, threads)
    if row["kind"] == "part":
        row |= {"part": scope, "backend": backend}
    elif scope == "mix":
        encoder, decoder = backend.split(" | ")
        row |= {"scope": "mix" if is_mix(key) else "one back end, part by part", "encoder": encoder, "decoder": decoder}
    else:
        row |= {"scope": "one back end", "encoder": backend, "decoder": backend}
    if PACKAGE in key:
        row |= {"package": PACKAGE, "package_version": version}
    return row


def add_steps(rows: dict[str, Row], runs: Sequence[Row], noise: float) -> None:
    """Put step times, speed-ups and verdicts into the rows of one model."""
    for key, row in rows.items():
        if row["status"] != "ok":
            continue
        samples = [block * 1e6 for run in runs for block in run[key]]
        row["samples_us"] = samples
        row["step_q1_us"], row["step_us"], row["step_q3_us"] = statistics.quantiles(samples, n=4, method="inclusive")
        row["processes"], row["rounds"] = len(runs), len(runs[0][key])
        twin = whole("none") if row["kind"] == "whole" else alone(row["part"], "none")
        if key != twin:
            ratio, low, high = ratio_interval(runs, twin, key)
            row |= {"speedup_ratio": ratio, "speedup_low": low, "speedup_high": high}
            row["verdict"] = judge(ratio, low, high, noise)
    for row in rows.values():
        if row["status"] == "ok" and row["kind"] == "whole" and row["scope"] != "one back end":
            parts = [rows[alone(part, row[part])]["step_us"] for part in ("encoder", "decoder")]
            row["parts_us"] = None if None in parts else sum(parts)


def gain_row(model: str, keys: Sequence[str], runs: Sequence[Row], choosing: int, noise: float, threads: int) -> Row:
    """Choose the best single and the best mix by the first processes, and judge them by the others."""
    row = blank_row("gain", model, threads)
    singles = [key for key in keys if key.startswith("whole: ") and key != whole("none_again")]
    mixes = [key for key in keys if is_mix(key)]
    if not mixes:
        return row | {"status": "not measured", "note": "No mix was measured."}
    single, mix = choose(runs[:choosing], singles), choose(runs[:choosing], mixes)
    judges = runs[choosing:]
    ratio, low, high = ratio_interval(judges, single, mix)
    row |= {"single": single.removeprefix("whole: "), "mix": mix.removeprefix("mix: ")}
    row |= {"singles": len(singles), "mixes": len(mixes), "gain_ratio": ratio, "gain_low": low, "gain_high": high}
    row |= {"verdict": judge(ratio, low, high, noise), "processes": len(judges), "rounds": len(judges[0][single])}
    return row


def package_version() -> str | None:
    """Return the version of OpenVINO, or None where it is not installed."""
    try:
        return importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None


def run(
    *,
    models: Sequence[str] = tuple(MODELS),
    backends: Sequence[str] = SINGLES,
    choosing: int = 2,
    judging: int = 4,
    rounds: int = 8,
    block_ms: float = 10.0,
    threads: int = 1,
    child_limit_s: float = 200.0,
) -> list[Row]:
    """Measure and return the rows (columns: module docstring).

    ``models``: names in MODELS; ``backends``: of SINGLES, "none" among them; ``choosing`` processes choose, ``judging``
    (two at least) judge, each ``rounds`` blocks of ``block_ms`` milliseconds a variant; ``child_limit_s``: a process
    that takes longer is killed. Raises ValueError for too few processes.
    """
    if choosing < 1 or judging < 2:
        raise ValueError(f"choosing = {choosing}, judging = {judging}: wants at least one and two")
    version = package_version()
    keys = variants_of(backends=backends)
    rows = {model: {key: row_of(model, key, threads, version) for key in keys} for model in models}
    runs: list[dict[str, Row]] = []
    lost: str | None = None
    with tempfile.TemporaryDirectory(prefix="mixing-speed-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for model in models:
            usable = [key for key in keys if version is not None or PACKAGE not in key]
            answers = check_model(model, usable, threads, folder, child_limit_s)
            for key, row in rows[model].items():
                if key not in answers:
                    row |= {"status": "unavailable", "note": NEEDS_OPENVINO}
                    continue
                answer = answers[key]
                if reason := trouble_of(key, answer):
                    row["status"], row["note"] = reason
                error = answer.get("error", math.nan)
                row["max_rel_error"] = error if math.isfinite(error) else None
                row["graphs"], row["executed"] = answer.get("graphs"), answer.get("executed")
                if key.startswith("mix: ") and row["status"] == "ok":
                    parts = zip(("encoder", "decoder"), key.removeprefix("mix: ").split(" | "), strict=True)
                    row["graphs"] = sum(answers[alone(*part)]["graphs"] for part in parts)
        alive = {model: [key for key in keys if rows[model][key]["status"] == "ok"] for model in models}
        alive = {model: keys for model, keys in alive.items() if {whole("none"), whole("none_again")} <= set(keys)}
        for seed in range(choosing + judging if alive else 0):
            answer_path = folder / f"steps-{seed}.json"
            job: Row = {"task": "steps", "variants": alive, "rounds": rounds, "block_ms": block_ms, "seed": seed}
            lost = run_child(job | {"threads": threads, "answer": str(answer_path)}, folder, child_limit_s)
            if lost is not None:
                break
            runs.append(json.loads(answer_path.read_text()))

    told: list[Row] = []
    for model in models:
        if lost is not None or model not in alive:
            note = f"The steps could not be timed: {lost or 'the plain model did not run'}"
            for row in rows[model].values():
                if row["status"] == "ok":
                    row |= {"status": "failed", "note": note}
            told += [*rows[model].values(), blank_row("gain", model, threads) | {"status": "failed", "note": note}]
            continue
        own = [run_[model] for run_ in runs]
        bounds = ratio_interval(own, whole("none"), whole("none_again"))[1:]
        noise = max(abs(math.log(bound)) for bound in bounds)
        add_steps(rows[model], own, noise)
        told += [*rows[model].values(), gain_row(model, alive[model], own, choosing, noise, threads)]
    return told


def main(arguments: Sequence[str]) -> None:
    """Measure and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        if row["kind"] == "gain":
            names = f"{row['mix']} against {row['single']}"
        elif row["kind"] == "part":
            names = f"{row['part']} alone: {row['backend']}"
        else:
            names = f"{row['scope']}: {row['encoder']} | {row['decoder']}"
        ratio = row.get("speedup_ratio") or row.get("gain_ratio")
        low, high = (row.get(f"speedup_{end}") or row.get(f"gain_{end}") for end in ("low", "high"))
        shown = row["note"] or (f"{ratio:.3f} ({low:.3f} to {high:.3f})" if ratio else "")
        step = f"{row['step_us']:9.0f} us" if row.get("step_us") else ""
        print(f"{row['model']:10} {names:52} {step:12} {shown} {row['verdict'] or row['status']}"[:190])


if __name__ == "__main__":
    main(sys.argv[1:])
