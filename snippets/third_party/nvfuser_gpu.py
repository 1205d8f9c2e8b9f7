# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.10", "lightning-thunder>=0.2.6", "nvfuser-cu128-torch210>=0.2.36"]
#
# [tool.kitchen]
# needs = ["cuda", "triton"]
# limit_s = 900
# value = 60
# ///
"""nvFuser beside Inductor on a GPU, on the road that is left to it: Lightning Thunder as a back end of torch.compile.

The environment is environments/thunder.txt: nvFuser's wheels are built for one torch and one CUDA each. Three models,
in inference and in training (forward, sum of squares, backward; no optimizer), float32:

    mlp                three linear layers with ReLU: matmuls, which nvFuser leaves to torch
    norm_chain         a linear layer, then layer norm, GELU, scale and add: bound by memory, what a fuser is made for
    transformer_block  attention and a feed-forward half, each with its layer norm and short cut

The name in ``backend`` is the way the model is called:

    none, none_again   not compiled, and the same once more (an A/A pair, which shows the noise)
    inductor           torch.compile(model)
    ThunderCompiler    torch.compile(model, backend=ThunderCompiler()): Dynamo's graph, thunder's executors
    thunder.jit        thunder.jit(model): the same executors behind thunder's own front end

How it is measured
    Correctness first: output, and in training every gradient, against float64 on the CPU. Compile cold, in a fresh
    process with fresh caches: the first call less a steady step. Then all ways interleaved in one process in a new
    order each round, in several fresh processes. Ratios are paired within a round; one number a process; 95 % t
    interval over processes. A way of thunder in which no fusion of nvFuser ran gets no time.

Columns
    case, workload     the model; "inference" or "training"
    backend, call      the way, and how it is written
    status, note       "ok", or "failed", "wrong", "not measured", "unavailable" with the reason in note
    device, threads    "cuda"; CPU threads of torch
    max_rel_error      largest absolute error over the largest absolute reference value, in the worst tensor
    gradients          "equal", "lost" or "wrong"; "not wanted" in inference
    compile_cold_s     one-off cost: median over repeats; compile_cold_low_s and compile_cold_high_s: least, greatest
    step_us            median of a step; step_q1_us and step_q3_us are the quartiles over all blocks
    speedup_ratio      time of none / time of this; speedup_low and speedup_high bound its 95 % interval
    verdict            "faster", "slower", or "no difference" than none
    beside_inductor    time of inductor / time of this; beside_low and beside_high bound its 95 % interval
    fusions            fusions of nvFuser in thunder's last traces, forward and backward
    fused_operations   operations inside them
    left_operations    names of the operations outside
    executed           fusions of nvFuser that ran in one step
    package, package_version        "nvfuser-cu128-torch210" and its version
    thunder_version    version of lightning-thunder
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.benchmark import Timer

Row = dict[str, Any]
Step = Callable[[], Any]

WHEEL = "nvfuser-cu128-torch210"
WIDTH, HEADS, BATCH, LENGTH = 1024, 16, 8, 512
TOLERANCE = 1e-3
WAYS = {
    "inductor": "torch.compile(model)",
    "ThunderCompiler": "torch.compile(model, backend=ThunderCompiler())",
    "thunder.jit": "thunder.jit(model)",
}
OF_THUNDER = ("ThunderCompiler", "thunder.jit")
PLAIN = ("none", "none_again")
WORKLOADS = ("inference", "training")
NO_CUDA = "nvFuser needs a CUDA device."
MODULES = {"thunder": "Lightning Thunder", "nvfuser_direct": "nvFuser"}
#: Versions that fit each other, on Linux with Python 3.12.
TO_INSTALL = "torch==2.10.0 lightning-thunder==0.2.6 nvfuser-cu128-torch210==0.2.36.dev20260301"
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


# ---------------------------------------------------------------- the models


class NormChain(nn.Module):
    """A linear layer, then layer norm, GELU, scale and add."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x + GELU(norm(linear(x))) / 2."""
        return x + nn.functional.gelu(self.norm(self.linear(x))) * 0.5


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


CASES: dict[str, Callable[[int], nn.Module]] = {"mlp": mlp, "norm_chain": NormChain, "transformer_block": Block}


def build_model(job: Row) -> tuple[nn.Module, torch.Tensor]:
    """Return a model and its input, (batch, length, width) in float32, the same in every process."""
    torch.manual_seed(0)
    training = job["workload"] == "training"
    model = CASES[job["case"]](job["width"]).train(training).requires_grad_(training).to(job["device"])
    return model, torch.randn(job["batch"], job["length"], job["width"]).to(job["device"])


def prepare(model: nn.Module, way: str) -> tuple[nn.Module, Any]:
    """Return the callable of one way on its own copy of the model, and thunder's ThunderCompiler object if any."""
    own = copy.deepcopy(model)
    if way in PLAIN:
        return own, None
    if way == "inductor":
        return torch.compile(own), None
    if way == "thunder.jit":
        import thunder

        return thunder.jit(own), None
    from thunder.dynamo import ThunderCompiler

    backend = ThunderCompiler()
    return torch.compile(own, backend=backend), backend


def step_of(call: nn.Module, x: torch.Tensor, workload: str) -> Step:
    """Return a function without arguments that does one step: a call, in training also the backward pass."""
    if workload == "inference":
        return lambda: call(x)

    def train() -> None:
        loss = call(x).square().sum()
        if loss.requires_grad:  # if not, compare() says that the gradients are lost, and nothing is timed
            loss.backward()
        for parameter in call.parameters():
            parameter.grad = None

    return train


# ---------------------------------------------------------------- what nvFuser took


def functions_of(call: Any, backend: Any) -> list[Any]:
    """Return the functions that thunder compiled: the one of thunder.jit, or those in the graphs of Dynamo."""
    if backend is None:
        return [call]
    return [function for info in backend.subgraph_infos for function in info.thunder_compiled_fns or ()]


def fusions_of(functions: Iterable[Any]) -> Row:
    """Return what thunder's last traces say: fusions, operations inside them, and the names of those outside."""
    import thunder

    traces: list[Any] = []
    for function in functions:
        traces += (thunder.last_traces(function) or [])[-1:] + (thunder.last_backward_traces(function) or [])[-1:]
    fusions, inside, left = 0, 0, Counter[str]()
    for symbol in (bound for trace in traces for bound in trace.bound_symbols):
        # Without an executor it unpacks, returns or deletes; the executor "python" keeps the books.
        if symbol.sym.executor is None or symbol.sym.executor.name == "python":
            continue
        if symbol.sym.is_fusion and symbol.sym.executor.name == "nvfuser":
            fusions += 1
            inside += len(symbol.subsymbols)
        else:
            left[symbol.sym.name] += 1
    names = ", ".join(f"{name} {count}" for name, count in left.most_common())
    return {"fusions": fusions, "fused_operations": inside, "left_operations": names}


@contextlib.contextmanager
def counting_fusions() -> Iterator[list[str]]:
    """Give a list that gets an entry for each fusion of nvFuser that is called meanwhile."""
    from thunder.executors import get_nvfuser_executor

    called: list[str] = []
    if get_nvfuser_executor() is None:  # thunder found no nvFuser that it can use: nothing to count
        yield called
        return
    from thunder.executors.nvfuserex_impl import FusionDefinitionWrapper

    original = FusionDefinitionWrapper.__call__

    def counted(self: Any, *arguments: Any) -> Any:
        called.append(self.name)
        return original(self, *arguments)

    FusionDefinitionWrapper.__call__ = counted
    try:
        yield called
    finally:
        FusionDefinitionWrapper.__call__ = original


# ---------------------------------------------------------------- in the child process


def relative_error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the largest absolute error over the largest absolute value of the float64 reference."""
    return float((result.double().cpu() - reference).abs().max() / reference.abs().max().clamp_min(1e-12))


def compare(call: nn.Module, model: nn.Module, x: torch.Tensor, workload: str) -> tuple[float, str]:
    """Return the worst relative error against float64 on the CPU, and what became of the gradients."""
    exact = copy.deepcopy(model).cpu().double()
    expected, result = exact(x.cpu().double()), call(x)
    error = relative_error(result.detach(), expected.detach())
    if workload == "inference":
        return error, "not wanted"
    expected.square().sum().backward()
    if not result.requires_grad:
        return error, "lost"
    result.square().sum().backward()
    pairs = [(mine.grad, theirs.grad) for mine, theirs in zip(call.parameters(), exact.parameters(), strict=True)]
    for parameter in call.parameters():
        parameter.grad = None
    if any(mine is None for mine, _ in pairs):
        return error, "lost"
    worst = max(relative_error(mine, theirs) for mine, theirs in pairs)
    return max(error, worst), "equal" if worst <= TOLERANCE else "wrong"


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
    """Compile one way in this process: one-off cost (seconds), error, gradients, and what nvFuser took."""
    device, way, workload = job["device"], job["way"], job["workload"]
    model, x = build_model(job)
    # The kernels of eager mode load once, whoever asks first: not a cost of compiling.
    step_of(copy.deepcopy(model), x, workload)()
    synchronize(device)

    start = time.perf_counter()
    call, backend = prepare(model, way)
    step = step_of(call, x, workload)
    step()
    synchronize(device)
    first_s = time.perf_counter() - start

    step_s = time_block(step, block_size(time_block(step, 5, job["threads"]), job["block_ms"]), job["threads"])
    error, gradients = compare(call, model, x, workload)
    answer: Row = {"compile_s": max(0.0, first_s - step_s), "error": error, "gradients": gradients}
    answer["graphs"] = captured_graphs() if way in ("inductor", "ThunderCompiler") else None
    if way in OF_THUNDER:
        answer |= fusions_of(functions_of(call, backend))
        with counting_fusions() as called:
            step()
            synchronize(device)
        answer["executed"] = len(called)
    return answer


def child_steps(job: Row) -> Row:
    """Time all ways interleaved in a new order each round; return their block means in seconds."""
    threads, order = job["threads"], random.Random(job["seed"])
    model, x = build_model(job)
    steps: dict[str, Step] = {}
    for way in job["ways"]:
        steps[way] = step_of(prepare(model, way)[0], x, job["workload"])
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


def blank_row(case: str, workload: str, way: str, device: str, threads: int) -> Row:
    """Return a row with every column, nothing measured yet."""
    row: Row = {"case": case, "workload": workload, "backend": way, "call": WAYS.get(way, "model(x)")}
    row |= {"status": "ok", "note": None, "device": device, "threads": threads}
    row |= dict.fromkeys(("max_rel_error", "gradients", "compile_cold_s", "compile_cold_low_s", "compile_cold_high_s"))
    row |= dict.fromkeys(("step_us", "step_q1_us", "step_q3_us", "speedup_ratio", "speedup_low", "speedup_high"))
    row |= dict.fromkeys(("verdict", "beside_inductor", "beside_low", "beside_high"))
    row |= dict.fromkeys(("fusions", "fused_operations", "left_operations", "executed"))
    row |= {"package": WHEEL, "package_version": version_of(WHEEL)}
    row["thunder_version"] = version_of("lightning-thunder")
    return row | {"processes": 0, "rounds": 0, "samples_us": [], "samples_compile_cold_s": []}


def trouble(way: str, answer: Row) -> tuple[str, str] | None:
    """Return (status, note) where a child did not give what it should, else None."""
    if "failed" in answer:
        return "failed", answer["failed"]
    if answer["gradients"] == "lost":
        return "wrong", "The gradients are lost."
    if not answer["error"] <= TOLERANCE:  # also true for NaN
        return "wrong", f"relative error {answer['error']:.2g} against float64 is above {TOLERANCE:g}"
    if answer["graphs"] == 0:
        return "not measured", (
            "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
            "TORCH_COMPILE_DISABLE set?)."
        )
    if way in OF_THUNDER and not answer["executed"]:
        return "not measured", "No fusion of nvFuser ran, so there is nothing to time."
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
        if way in OF_THUNDER and "inductor" in rows:
            row["beside_inductor"], row["beside_low"], row["beside_high"] = against("inductor", way)


def measure_pair(common: Row, ways: Sequence[str], budget: Row, folder: Path) -> list[Row]:
    """Measure one model with one workload; return its rows. ``budget``: the arguments of run()."""
    case, workload, device, threads = common["case"], common["workload"], common["device"], common["threads"]
    rows = {way: blank_row(case, workload, way, device, threads) for way in (*PLAIN, *ways)}
    for way in ways:
        answers: list[Row] = []
        for repeat in range(budget["repeats"]):
            place = folder / f"{case}-{workload}-{way}-{repeat}"
            answer = run_child(common | {"task": "compile", "way": way}, place, budget["child_limit_s"])
            bad = trouble(way, answer)
            row = rows[way]
            row["max_rel_error"], row["gradients"] = answer.get("error"), answer.get("gradients")
            row |= {name: answer[name] for name in ("fusions", "fused_operations", "left_operations") if name in answer}
            row["executed"] = answer.get("executed")
            if row["max_rel_error"] is not None and not math.isfinite(row["max_rel_error"]):
                row["max_rel_error"] = None
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
        answer = run_child(job, folder / f"{case}-{workload}-steps-{number}", budget["child_limit_s"])
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
    workloads: Sequence[str] = WORKLOADS,
    ways: Sequence[str] = tuple(WAYS),
    width: int = WIDTH,
    batch: int = BATCH,
    length: int = LENGTH,
    repeats: int = 1,
    processes: int = 3,
    rounds: int = 8,
    block_ms: float = 30.0,
    threads: int = 1,
    child_limit_s: float = 150.0,
) -> list[Row]:
    """Measure the ways and return one row each for every model and workload (columns: module docstring).

    ``width``, ``batch``, ``length``: sizes of the input; ``repeats``: cold compiles of each; ``processes`` (two at
    least) x ``rounds`` blocks of ``block_ms`` milliseconds time the steps; ``child_limit_s``: a process that takes
    longer is killed, and its way is a failed row. Without a CUDA device the rows are "unavailable"; raises SystemExit
    where a package is missing, and ValueError for fewer than two processes.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    pairs = [(case, workload) for case in cases for workload in workloads]
    if not torch.cuda.is_available():
        rows = [blank_row(*pair, way, "cpu", threads) for pair in pairs for way in (*PLAIN, *ways)]
        return [row | {"status": "unavailable", "note": NO_CUDA} for row in rows]
    for module, name in MODULES.items():
        if not installed(module):
            raise SystemExit(f"this snippet needs {name}: pip install {TO_INSTALL}")
    common: Row = {"device": "cuda", "threads": threads, "block_ms": block_ms}
    common |= {"width": width, "batch": batch, "length": length}
    budget: Row = {"repeats": repeats, "processes": processes, "rounds": rounds, "child_limit_s": child_limit_s}
    with tempfile.TemporaryDirectory(prefix="nvfuser-", ignore_cleanup_errors=True) as folder:
        return [
            row
            for case, workload in pairs
            for row in measure_pair(common | {"case": case, "workload": workload}, ways, budget, Path(folder))
        ]


def main(arguments: Sequence[str]) -> None:
    """Measure and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        name = f"{row['case']}, {row['workload']}"
        if row["status"] != "ok":
            print(f"{name:30} {row['backend']:16} {row['status']}: {row['note']}")
            continue
        beside = f"{row['beside_inductor']:.2f} of inductor" if row["beside_inductor"] else ""
        print(
            f"{name:30} {row['backend']:16} {row['step_us']:10.1f} us  {row['verdict'] or '':13} {beside:18} "
            f"{row['fusions'] or 0} fusions, {row['executed'] or 0} ran"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
