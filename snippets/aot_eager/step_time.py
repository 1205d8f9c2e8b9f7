# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 400
# value = 63
# ///
"""Is aot_eager faster? A training step of three small models, without compiling and under four back ends.

``aot_eager`` runs the same operators one by one, so there is little it could save. Three cases show what that
comes to: ``mlp`` (three linear layers with ReLU, nearly all matrix product), ``pointwise`` (a long pointwise
expression on a large tensor, where fusion pays) and ``repeats`` (an expression that is written three times over, as
careless code has it). The last is the exception that proves the rule: in training ``aot_eager`` cuts the joint graph
with the min-cut partitioner, as ``inductor`` and ``aot_eager_decomp_partition`` do, and that drops common
subexpressions before it cuts. So ``aot_eager`` may gain there without any kernel being compiled. (The default
partitioner does not drop them; of torch's back ends ``aot_eager_default_partitioner`` uses it, which is not timed
here.) A step is forward, backward and fresh gradients, without an optimizer.

How it is measured
    Correctness first: gradients further than TOLERANCE from the same step in float64 give a row "wrong" without times.
    All variants, each with its own function, are interleaved in one process, in a new random order each round, and
    ``none_again`` is ``none`` once more: an A/A pair, which shows the noise. A block is
    ``torch.utils.benchmark.Timer(...).timeit(number)``, at least ``block_ms`` long. Several fresh processes do the
    same. The ratio to ``none`` is paired within a round; each process gives one number, the median of the logarithms of
    its ratios. The speed-up is their mean, turned back into a ratio, its 95 % interval the t interval of that mean,
    k - 1 degrees of freedom for k processes (after Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time",
    ISMM 2013). glibc is told to keep freed memory (KEEP_MEMORY), as PyTorch's own allocator does on a GPU.

Columns
    case, backend                 what, and how it was run; "none" is not compiled
    status, note                  "ok", or "failed", "wrong", "not measured" with the reason in note, and no times
    device, threads               "cpu" or "cuda"; CPU threads of torch
    step_us                       median of a step; step_q1_us and step_q3_us are the quartiles over all blocks
    speedup_ratio                 time of none / time of this, above 1 is faster; speedup_low and speedup_high bound it
    verdict                       "faster", "slower", or "no difference": 1 lies in the interval, or the effect is no
                                  larger than what the A/A pair of the case shows
    forward_operators, backward_operators   calls in the two graphs of AOTAutograd; None where there are none to count
    max_rel_error                 of all gradients, against float64
    processes, rounds, samples_us how many processes, blocks in each, and every block
"""

from __future__ import annotations

import contextlib
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
from torch.utils.benchmark import Timer

Row = dict[str, Any]
Step = Callable[..., torch.Tensor]

BACKENDS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
CASES = ("mlp", "pointwise", "repeats")
TOLERANCE = 1e-4
SETTLING_CALLS = 3
# glibc: no block of its own mapping, and never shrink the heap.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


# ---------------------------------------------------------------- the cases


def mlp(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, w3: torch.Tensor) -> torch.Tensor:
    """Return the mean output of three linear layers with ReLU."""
    h = torch.relu(x @ w1)
    h = torch.relu(h @ w2)
    return (h @ w3).mean()


def pointwise(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return the mean of a pointwise expression of eight operators."""
    h = torch.sigmoid(x * scale) + torch.tanh(x)
    h = torch.sin(h) * torch.exp(-h)
    return (h * h).mean()


def repeats(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return the mean of an expression that computes the same thing three times."""
    first = torch.sin(x * scale) * 1.0
    second = torch.sin(x * scale) * 2.0
    third = torch.sin(x * scale) * 3.0
    return (first + second + third).mean()


def tensors(case: str, device: str, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Return the input and the weights of a case, the weights wanting gradients, the same in every process."""
    generator = torch.Generator().manual_seed(0)
    if case == "mlp":
        shapes: list[tuple[int, ...]] = [(64, 512), (512, 256), (256, 128), (128, 10)]
    else:
        large = (4096, 4096) if device == "cuda" else (512, 512)
        shapes = [large, (large[1],)]
    made = [torch.randn(shape, generator=generator, dtype=torch.float64) / shape[0] ** 0.5 for shape in shapes]
    moved = [tensor.to(device, dtype) for tensor in made]
    return [moved[0], *(weight.requires_grad_() for weight in moved[1:])]


def build(case: str, backend: str) -> Step:
    """Return the function of a case, with a code object of its own, as it is or compiled."""
    import types

    original: Any = {"mlp": mlp, "pointwise": pointwise, "repeats": repeats}[case]
    # Dynamo keeps what it compiled by code object: a copy a variant, so that none lengthens the look-up of another.
    own = types.FunctionType(original.__code__.replace(), original.__globals__, original.__name__)
    return own if backend.startswith("none") else torch.compile(own, backend=backend, dynamic=False)


def gradients(call: Step, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the gradients of the weights by one step."""
    return list(torch.autograd.grad(call(*inputs), list(inputs[1:])))


# ---------------------------------------------------------------- in the child process


def count_operators(case: str, device: str, backend: str) -> dict[str, int]:
    """Return the calls in the forward and the backward graph that ``backend`` makes of a case."""
    from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    counts: dict[str, int] = {}

    def compiler(half: str) -> Callable[..., Any]:
        def compile_half(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Any:
            counts[half] = sum(node.op == "call_function" for node in graph.graph.nodes)
            return make_boxed_func(graph.forward)

        return compile_half

    table: Row = {}
    if backend == "aot_eager_decomp_partition":
        from torch._inductor.decomposition import select_decomp_table

        table["decompositions"] = select_decomp_table()
    counting = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        partition_fn=min_cut_rematerialization_partition,
        **table,
    )
    own = build(case, "none")
    gradients(torch.compile(own, backend=counting, dynamic=False), tensors(case, device))
    return counts


def time_block(timer: Timer, number: int) -> float:
    """Return the mean time of a step in seconds over ``number`` steps."""
    return timer.timeit(number).mean


def child_steps(job: Row) -> Row:
    """Time all variants of all cases interleaved; return block means in seconds, errors, what failed, counts."""
    from torch._dynamo.utils import counters

    device, order = job["device"], random.Random(job["seed"])
    timers: dict[str, Timer] = {}
    errors: dict[str, float] = {}
    failed: dict[str, str] = {}
    graphs: dict[str, int] = {}
    for case in job["cases"]:
        exact = tensors(case, device, torch.float64)
        reference = gradients(build(case, "none"), exact)
        for backend in ("none", "none_again", *job["backends"]):
            key = f"{case}/{backend}"
            counters.clear()
            inputs = tensors(case, device)
            try:
                call = build(case, backend)
                for _ in range(SETTLING_CALLS):
                    found = gradients(call, inputs)
            except Exception as error:
                failed[key] = f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
                continue
            pairs = zip(found, reference, strict=True)
            errors[key] = max(float((a.double() - b).abs().max() / b.abs().max()) for a, b in pairs)
            graphs[key] = counters["stats"]["unique_graphs"]
            scope: Row = {"step": gradients, "call": call, "inputs": inputs}
            timers[key] = Timer("step(call, inputs)", globals=scope, num_threads=job["threads"])
    numbers = {}
    for key, timer in timers.items():
        numbers[key] = max(1, math.ceil(job["block_ms"] / 1e3 / time_block(timer, 10)))
    blocks: dict[str, list[float]] = {key: [] for key in timers}
    for _ in range(job["rounds"]):
        for key in order.sample(list(timers), k=len(timers)):
            blocks[key].append(time_block(timers[key], numbers[key]))
    answer: Row = {"blocks": blocks, "errors": errors, "failed_of": failed, "graphs": graphs, "operators": {}}
    if job["count"]:
        for case in job["cases"]:
            for backend in ("aot_eager", "aot_eager_decomp_partition"):
                # An internal hook: without it there are times all the same, and no count.
                with contextlib.suppress(Exception):
                    answer["operators"][f"{case}/{backend}"] = count_operators(case, device, backend)
    return answer


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
    caches = {"TMPDIR": folder, "TORCHINDUCTOR_CACHE_DIR": folder / "inductor", "TRITON_CACHE_DIR": folder / "triton"}
    command = [sys.executable, __file__, "--child", json.dumps(job | {"answer": str(answer)})]
    with log.open("w") as output:
        # A session of its own makes it the leader of a process group.
        process = subprocess.Popen(
            command,
            env=os.environ | KEEP_MEMORY | {name: str(path) for name, path in caches.items()},
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


def blank_row(case: str, backend: str) -> Row:
    """Return a row with every column, nothing measured yet."""
    row: Row = {"case": case, "backend": backend, "status": "ok", "note": None}
    row |= dict.fromkeys(("step_us", "step_q1_us", "step_q3_us", "speedup_ratio", "speedup_low", "speedup_high"))
    row |= dict.fromkeys(("verdict", "forward_operators", "backward_operators", "max_rel_error"))
    return row | {"processes": 0, "rounds": 0, "samples_us": []}


def trouble(key: str, answers: Sequence[Row]) -> tuple[str, str] | None:
    """Return (status, note) where a variant did not give what it should in some process, else None."""
    for answer in answers:
        if "failed" in answer:
            return "failed", answer["failed"]
        if key in answer["failed_of"]:
            return "failed", answer["failed_of"][key]
        if not (error := answer["errors"][key]) <= TOLERANCE:  # also true for NaN
            return "wrong", f"relative error {error:.2g} against float64 is above {TOLERANCE:g}"
        if not key.rpartition("/")[2].startswith("none") and answer["graphs"][key] == 0:
            return "not measured", NOT_COMPILED
    return None


def case_rows(case: str, backends: Sequence[str], answers: Sequence[Row]) -> list[Row]:
    """Return the rows of one case."""

    def blocks(backend: str) -> list[list[float]]:
        return [answer["blocks"][f"{case}/{backend}"] for answer in answers]

    def ratios(backend: str) -> list[list[float]]:
        pairs = zip(blocks("none"), blocks(backend), strict=True)
        return [[a / b for a, b in zip(one, other, strict=True)] for one, other in pairs]

    rows: list[Row] = []
    for backend in ("none", "none_again", *backends):
        row = blank_row(case, backend)
        rows.append(row)
        key = f"{case}/{backend}"
        if reason := trouble(f"{case}/none", answers) or trouble(key, answers):
            row["status"], row["note"] = reason
            continue
        samples = [block * 1e6 for process in blocks(backend) for block in process]
        row["samples_us"] = samples
        row["step_q1_us"], row["step_us"], row["step_q3_us"] = statistics.quantiles(samples, n=4, method="inclusive")
        row["processes"], row["rounds"] = len(answers), len(samples) // len(answers)
        row["max_rel_error"] = max(answer["errors"][key] for answer in answers)
        for half, count in answers[0]["operators"].get(key, {}).items():
            row[f"{half}_operators"] = count
        if backend != "none":
            noise = max(abs(math.log(bound)) for bound in ratio_interval(ratios("none_again"))[1:])
            ratio, low, high = ratio_interval(ratios(backend))
            row |= {"speedup_ratio": ratio, "speedup_low": low, "speedup_high": high}
            row["verdict"] = judge(ratio, low, high, noise)
    return rows


def run(
    *,
    cases: Sequence[str] = CASES,
    backends: Sequence[str] = BACKENDS,
    processes: int = 5,
    rounds: int = 8,
    block_ms: float = 15.0,
    threads: int = 1,
    child_limit_s: float = 180.0,
) -> list[Row]:
    """Time the training steps and return one row a case and variant (columns: module docstring).

    ``cases``: mlp, pointwise, repeats; ``backends``: names for torch.compile; ``processes`` (two at least) x
    ``rounds`` blocks of ``block_ms`` milliseconds a variant; ``child_limit_s``: a process that takes longer is killed.
    Raises ValueError for fewer than two processes.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    job: Row = {"device": device, "threads": threads, "cases": list(cases), "backends": list(backends)}
    job |= {"rounds": rounds, "block_ms": block_ms}
    answers: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="step-time-", ignore_cleanup_errors=True) as name:
        for seed in range(processes):
            # The first process fills the caches for the others; compile time is not what is measured here.
            answers.append(run_child(job | {"seed": seed, "count": seed == 0}, Path(name), child_limit_s))
            if "failed" in answers[-1]:
                answers = answers[-1:]
                break
    shared: Row = {"device": device, "threads": threads}
    return [shared | row for case in cases for row in case_rows(case, backends, answers)]


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
    columns = ["case", "backend", "status", "step_us", "speedup_ratio", "speedup_low", "speedup_high", "verdict"]
    print_table(run(), [*columns, "forward_operators", "backward_operators", "max_rel_error"])


if __name__ == "__main__":
    main(sys.argv[1:])
