# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11", "torch-tensorrt>=2.11"]
#
# [tool.kitchen]
# needs = ["cuda", "triton"]
# limit_s = 900
# value = 55
# ///
"""Torch-TensorRT beside Inductor on a GPU: what goes into its engines, what stays in PyTorch, right or not, how fast.

torch-tensorrt fits the torch of the same first two numbers. Inference, float32 without TF32 on either side:

    mlp                three linear layers with ReLU
    cnn                two convolutions with batch norm, pooling and a linear layer
    transformer_block  attention and a feed-forward half, each with its layer norm and short cut
    split              layer norm, linear, tanh, linear, with tanh kept out of TensorRT (torch_executed_ops), and no
                       block too small (min_block_size=1): two engines, and PyTorch between them
    too_small          two operators, below min_block_size: everything stays in PyTorch, by a line in the log only

The name in ``backend`` is the way the model is called:

    none, none_again   not compiled, and the same once more (an A/A pair, which shows the noise)
    inductor           torch.compile(model)
    torch_tensorrt     torch.compile(model, backend="torch_tensorrt", options={...}); the name exists after the import

How it is measured
    Correctness first, against float64 on the CPU. Compile cold, in a fresh process with fresh caches: the first call
    less a steady step; for TensorRT that is the building of the engines. Then all ways interleaved in one process in
    a new order each round, in several fresh processes. Ratios are paired within a round; one number a process; 95 %
    t interval over processes. A torch_tensorrt in which no engine ran gets no time.

    What went where is read from the object that torch-tensorrt makes for its dry run; that an engine ran is counted
    by the calls of its module.

Columns
    case, workload     the model; "inference"
    backend, call      the way, and how it is written
    status, note       "ok", or "failed", "wrong", "not measured", "unavailable" with the reason in note
    device, threads    "cuda"; CPU threads of torch
    max_rel_error      largest absolute error over the largest absolute reference value
    gradients          with gradients enabled: "equal", "lost", "wrong" or "error"; None for the other ways
    compile_cold_s     one-off cost: median over repeats; compile_cold_low_s and compile_cold_high_s: least, greatest
    step_us            median of a step; step_q1_us and step_q3_us are the quartiles over all blocks
    speedup_ratio      time of none / time of this; speedup_low and speedup_high bound its 95 % interval
    verdict            "faster", "slower", or "no difference" than none
    beside_inductor    time of inductor / time of this; beside_low and beside_high bound its 95 % interval
    graph_operations   operations in the graph that torch-tensorrt got, after its lowering
    engines            TensorRT engines
    engine_operations  operations inside them
    left_operations    names of the operations that stay in PyTorch
    executed           engines that ran in one step
    package, package_version        "torch-tensorrt" and its version
    tensorrt_version   version of TensorRT
    processes, rounds  how many processes timed the steps, and how many rounds each
    samples_us         every block of every process: mean of a step
    samples_compile_cold_s   every repeat
"""

from __future__ import annotations

import contextlib
import copy
import importlib.metadata
import importlib.util
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
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.benchmark import Timer

Row = dict[str, Any]
Step = Callable[[], Any]

PACKAGE = "torch-tensorrt"
WIDTH, HEADS, BATCH, LENGTH = 1024, 16, 8, 512
TOLERANCE = 1e-3
BACKEND = "torch_tensorrt"
WAYS = {
    "inductor": "torch.compile(model)",
    BACKEND: 'torch.compile(model, backend="torch_tensorrt")',
}
PLAIN = ("none", "none_again")
PARTITION = ("graph_operations", "engines", "engine_operations", "left_operations")
NO_CUDA = "TensorRT needs a CUDA device."
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


# ---------------------------------------------------------------- the models


class Split(nn.Module):
    """Layer norm, linear, tanh, linear, and a short cut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x + down(tanh(up(norm(x))))."""
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class TooSmall(nn.Module):
    """Two operators."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return relu(x * scale)."""
        return torch.relu(x * self.scale)


class Block(nn.Module):
    """A block of a transformer: attention and a feed-forward half, each behind a layer norm and beside a short cut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Take and return (batch, length, width)."""
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).reshape(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def mlp(width: int) -> nn.Module:
    """Return three linear layers with ReLU between them."""
    layers = [nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)]
    return nn.Sequential(*layers)


def cnn(width: int) -> nn.Module:
    """Return two convolutions with batch norm, pooling and a linear layer; ``width`` // 16 channels."""
    channels = max(4, width // 16)
    parts: list[nn.Module] = []
    for inputs in (3, channels):
        parts += [nn.Conv2d(inputs, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
    return nn.Sequential(*parts, nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


CASES: dict[str, Callable[[int], nn.Module]] = {
    "mlp": mlp,
    "cnn": cnn,
    "transformer_block": Block,
    "split": Split,
    "too_small": TooSmall,
}


def options_of(case: str) -> Row:
    """Return the options of torch.compile for torch_tensorrt: full float32, and for "split" a hole in the engine."""
    options: Row = {"disable_tf32": True}
    if case == "split":
        options |= {"min_block_size": 1, "torch_executed_ops": {torch.ops.aten.tanh.default}}
    return options


def build_model(job: Row) -> tuple[nn.Module, torch.Tensor]:
    """Return a model in eval mode and its input in float32, the same in every process: pictures, or sequences."""
    torch.manual_seed(0)
    model = CASES[job["case"]](job["width"]).eval().to(job["device"])
    side = max(4, job["length"] // 8)
    shape = (job["batch"], 3, side, side) if job["case"] == "cnn" else (job["batch"], job["length"], job["width"])
    return model, torch.randn(shape).to(job["device"])


def prepare(model: nn.Module, way: str, case: str) -> nn.Module:
    """Return the callable of one way on its own copy of the model."""
    own = copy.deepcopy(model)
    if way in PLAIN:
        return own
    if way == "inductor":
        return torch.compile(own)
    import torch_tensorrt  # noqa: F401  # registers the name

    return torch.compile(own, backend=BACKEND, options=options_of(case))


def step_of(call: nn.Module, x: torch.Tensor) -> Step:
    """Return a function without arguments that does one step, without gradients."""

    def step() -> None:
        with torch.no_grad():
            call(x)

    return step


# ---------------------------------------------------------------- what went into TensorRT


@contextlib.contextmanager
def watching() -> Iterator[list[Any]]:
    """Give a list that holds, after a compile, what torch-tensorrt's dry run would print, an object for each graph.

    Torch-tensorrt makes the object at each compile, and gives it to one function that prints or logs it. A graph that
    it leaves to PyTorch as a whole (too few operators) does not get that far: the list stays empty.
    """
    from torch_tensorrt.dynamo import _compiler

    seen: list[Any] = []
    original = _compiler.dryrun_stats_display

    def noted(tracker: Any, enabled: Any) -> None:
        seen.append(tracker)
        original(tracker, enabled)

    _compiler.dryrun_stats_display = noted
    try:
        yield seen
    finally:
        _compiler.dryrun_stats_display = original


def partition_of(trackers: Sequence[Any]) -> Row:
    """Return how the operations of the graphs were shared out between engines and PyTorch."""
    names = Counter(str(node).partition(",")[0].removeprefix("Node: ") for t in trackers for node in t.to_run_in_torch)
    return {
        "graph_operations": sum(tracker.total_ops_in_graph for tracker in trackers) if trackers else None,
        "engines": sum(tracker.tensorrt_graph_count for tracker in trackers),
        "engine_operations": sum(part.subgraph_op_count for t in trackers for part in t.per_subgraph_data),
        "left_operations": ", ".join(f"{name} {count}" for name, count in names.most_common()) if trackers else "all",
    }


@contextlib.contextmanager
def counting_engines() -> Iterator[list[str]]:
    """Give a list that gets an entry for each TensorRT engine that is called meanwhile."""
    from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

    called: list[str] = []
    original = TorchTensorRTModule.forward

    def counted(self: Any, *arguments: Any) -> Any:
        called.append(str(getattr(self, "name", "")))
        return original(self, *arguments)

    TorchTensorRTModule.forward = counted
    try:
        yield called
    finally:
        TorchTensorRTModule.forward = original


# ---------------------------------------------------------------- in the child process


def relative_error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the largest absolute error over the largest absolute value of the float64 reference."""
    return float((result.double().cpu() - reference).abs().max() / reference.abs().max().clamp_min(1e-12))


def gradients_of(model: nn.Module, case: str, x: torch.Tensor) -> str:
    """Call a compiled copy with gradients enabled and go backward; return what became of the gradients.

    Torch-TensorRT is made for inference: this is what happens to those who train all the same.
    """
    exact = copy.deepcopy(model).cpu().double()
    exact(x.cpu().double()).square().sum().backward()
    try:
        call = prepare(model, BACKEND, case)
        result = call(x)
        if not result.requires_grad:
            return "lost"
        result.square().sum().backward()
    except Exception:
        return "error"
    pairs = [(mine.grad, theirs.grad) for mine, theirs in zip(call.parameters(), exact.parameters(), strict=True)]
    if any(mine is None for mine, _ in pairs):
        return "lost"
    return "equal" if max(relative_error(mine, theirs) for mine, theirs in pairs) <= TOLERANCE else "wrong"


def synchronize(device: str) -> None:
    """Wait for the device; on a CPU calls are complete when they return."""
    if device == "cuda":
        torch.cuda.synchronize()


def time_block(step: Step, number: int, threads: int) -> float:
    """Return the mean time of a step over ``number`` steps in seconds (Timer warms up and synchronises)."""
    return Timer("step()", globals={"step": step}, num_threads=threads).timeit(number).mean


def block_size(step_s: float, block_ms: float) -> int:
    """Return how many steps fill a block."""
    return max(1, math.ceil(block_ms / 1e3 / max(step_s, 1e-9)))


def captured_graphs() -> int:
    """Return how many graphs this process has captured and had compiled: 0 where torch.compile was turned off."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def child_compile(job: Row) -> Row:
    """Compile one way in this process: one-off cost (seconds), error, and what went into TensorRT."""
    device, way = job["device"], job["way"]
    model, x = build_model(job)
    exact = copy.deepcopy(model).cpu().double()(x.cpu().double()).detach()
    # The kernels of eager mode load once, whoever asks first: not a cost of compiling. Nor is an import.
    step_of(model, x)()
    if way == BACKEND:
        import torch_tensorrt  # noqa: F401
    synchronize(device)

    watch: contextlib.AbstractContextManager[list[Any]] = watching() if way == BACKEND else contextlib.nullcontext([])
    with watch as seen:
        start = time.perf_counter()
        call = prepare(model, way, job["case"])
        step = step_of(call, x)
        step()
        synchronize(device)
        first_s = time.perf_counter() - start

    step_s = time_block(step, block_size(time_block(step, 5, job["threads"]), job["block_ms"]), job["threads"])
    with torch.no_grad():
        answer: Row = {"compile_s": max(0.0, first_s - step_s), "error": relative_error(call(x), exact)}
    answer["graphs"] = captured_graphs()
    if way == BACKEND:
        answer |= partition_of(seen)
        with counting_engines() as called:
            step()
            synchronize(device)
        answer |= {"executed": len(called), "gradients": gradients_of(model, job["case"], x)}
    return answer


def child_steps(job: Row) -> Row:
    """Time all ways interleaved in a new order each round; return their block means in seconds."""
    threads, order = job["threads"], random.Random(job["seed"])
    model, x = build_model(job)
    steps: dict[str, Step] = {}
    for way in job["ways"]:
        steps[way] = step_of(prepare(model, way, job["case"]), x)
        steps[way]()
    numbers = {way: block_size(time_block(step, 5, threads), job["block_ms"]) for way, step in steps.items()}
    blocks: dict[str, list[float]] = {way: [] for way in steps}
    for _ in range(job["rounds"]):
        for way in order.sample(list(steps), k=len(steps)):
            blocks[way].append(time_block(steps[way], numbers[way], threads))
    return {"blocks": blocks}


CHILDREN: dict[str, Callable[[Row], Row]] = {"compile": child_compile, "steps": child_steps}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = CHILDREN[job["task"]](job)
    except Exception as error:
        # The reason belongs in the row of this way; the parent goes on with the others.
        answer = {"failed": f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]}
    Path(job["answer"]).write_text(json.dumps(answer))
    sys.stdout.flush()
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


def installed(module: str) -> bool:
    """Tell whether a module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def blank_row(case: str, way: str, device: str, threads: int) -> Row:
    """Return a row with every column, nothing measured yet."""
    row: Row = {"case": case, "workload": "inference", "backend": way, "call": WAYS.get(way, "model(x)")}
    row |= {"status": "ok", "note": None, "device": device, "threads": threads}
    row |= dict.fromkeys(("max_rel_error", "gradients", "compile_cold_s", "compile_cold_low_s", "compile_cold_high_s"))
    row |= dict.fromkeys(("step_us", "step_q1_us", "step_q3_us", "speedup_ratio", "speedup_low", "speedup_high"))
    row |= dict.fromkeys(("verdict", "beside_inductor", "beside_low", "beside_high"))
    row |= dict.fromkeys((*PARTITION, "executed"))
    row |= {"package": PACKAGE, "package_version": version_of(PACKAGE)}
    row["tensorrt_version"] = version_of("tensorrt-cu13") or version_of("tensorrt")
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
    if way == BACKEND and not answer["executed"]:
        return "not measured", "No TensorRT engine ran: everything stayed in PyTorch, so there is nothing to time."
    return None


def add_compile(row: Row, answers: Sequence[Row]) -> None:
    """Put the compile times of several repeats into a row: median, least, greatest, samples (seconds)."""
    samples = [answer["compile_s"] for answer in answers]
    row["samples_compile_cold_s"], row["compile_cold_s"] = samples, statistics.median(samples)
    row["compile_cold_low_s"], row["compile_cold_high_s"] = min(samples), max(samples)


def add_steps(rows: dict[str, Row], runs: Sequence[dict[str, list[float]]]) -> None:
    """Put step times, paired ratios and verdicts into the rows; ``runs`` holds each process's blocks (s)."""

    def against(base: str, way: str) -> tuple[float, float, float]:
        return ratio_interval([[b / t for b, t in zip(run[base], run[way], strict=True)] for run in runs])

    noise = max(abs(math.log(bound)) for bound in against("none", "none_again")[1:])
    for way, row in rows.items():
        samples = [block * 1e6 for run in runs for block in run[way]]
        row["samples_us"] = samples
        row["step_q1_us"], row["step_us"], row["step_q3_us"] = quartiles(samples)
        row["processes"], row["rounds"] = len(runs), len(runs[0][way])
        if way == "none":
            continue
        ratio, low, high = against("none", way)
        row["speedup_ratio"], row["speedup_low"], row["speedup_high"] = ratio, low, high
        row["verdict"] = judge(ratio, low, high, noise)
        if way == BACKEND and "inductor" in rows:
            row["beside_inductor"], row["beside_low"], row["beside_high"] = against("inductor", way)


def measure_case(common: Row, ways: Sequence[str], budget: Row, folder: Path) -> list[Row]:
    """Measure one model; return its rows. ``budget``: the arguments of run()."""
    case, device, threads = common["case"], common["device"], common["threads"]
    rows = {way: blank_row(case, way, device, threads) for way in (*PLAIN, *ways)}
    for way in ways:
        answers: list[Row] = []
        for repeat in range(budget["repeats"]):
            job = common | {"task": "compile", "way": way}
            answer = run_child(job, folder / f"{case}-{way}-{repeat}", budget["child_limit_s"])
            bad = trouble(way, answer)
            row = rows[way]
            error = answer.get("error")
            row["max_rel_error"] = error if error is not None and math.isfinite(error) else None
            row |= {name: answer[name] for name in (*PARTITION, "executed", "gradients") if name in answer}
            if bad:
                row["status"], row["note"] = bad
                break
            answers.append(answer)
        else:
            add_compile(rows[way], answers)
    alive = [way for way, row in rows.items() if row["status"] == "ok"]
    runs: list[dict[str, list[float]]] = []
    for number in range(budget["processes"]):
        job = common | {"task": "steps", "ways": alive, "seed": number, "rounds": budget["rounds"]}
        answer = run_child(job, folder / f"{case}-steps-{number}", budget["child_limit_s"])
        if "failed" in answer:
            for way in alive:
                rows[way] |= {"status": "failed", "note": f"timing: {answer['failed']}"}
                rows[way] |= dict.fromkeys(("compile_cold_s", "compile_cold_low_s", "compile_cold_high_s"))
            return list(rows.values())
        runs.append(answer["blocks"])
    add_steps({way: rows[way] for way in alive}, runs)
    return list(rows.values())


def run(
    *,
    cases: Sequence[str] = tuple(CASES),
    ways: Sequence[str] = tuple(WAYS),
    width: int = WIDTH,
    batch: int = BATCH,
    length: int = LENGTH,
    repeats: int = 1,
    processes: int = 3,
    rounds: int = 8,
    block_ms: float = 30.0,
    threads: int = 1,
    child_limit_s: float = 180.0,
) -> list[Row]:
    """Measure the ways and return one row each for every model (columns: module docstring).

    ``width``, ``batch``, ``length``: sizes of the input; ``repeats``: cold compiles of each; ``processes`` (two at
    least) x ``rounds`` blocks of ``block_ms`` milliseconds time the steps; ``child_limit_s``: a process that takes
    longer is killed, and its way is a failed row. Without a CUDA device the rows are "unavailable"; raises SystemExit
    where torch-tensorrt is missing, and ValueError for fewer than two processes.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    if not torch.cuda.is_available():
        rows = [blank_row(case, way, "cpu", threads) for case in cases for way in (*PLAIN, *ways)]
        return [row | {"status": "unavailable", "note": NO_CUDA} for row in rows]
    if not installed("torch_tensorrt"):
        release = ".".join(torch.__version__.split(".")[:2])
        raise SystemExit(f"this snippet needs Torch-TensorRT: pip install 'torch-tensorrt=={release}.*'")
    common: Row = {"device": "cuda", "threads": threads, "block_ms": block_ms}
    common |= {"width": width, "batch": batch, "length": length}
    budget: Row = {"repeats": repeats, "processes": processes, "rounds": rounds, "child_limit_s": child_limit_s}
    with tempfile.TemporaryDirectory(prefix="tensorrt-", ignore_cleanup_errors=True) as folder:
        return [row for case in cases for row in measure_case(common | {"case": case}, ways, budget, Path(folder))]


def main(arguments: Sequence[str]) -> None:
    """Measure and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        name = row["case"]
        if row["status"] != "ok":
            print(f"{name:18} {row['backend']:16} {row['status']}: {row['note']}")
            continue
        beside = f"{row['beside_inductor']:.2f} of inductor" if row["beside_inductor"] else ""
        print(
            f"{name:18} {row['backend']:16} {row['step_us']:10.1f} us  {row['verdict'] or '':13} {beside:18} "
            f"{row['engines'] or 0} engines, {row['executed'] or 0} ran"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
