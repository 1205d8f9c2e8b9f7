# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 300
# value = 70
# ///
"""How many kernels are left, before and after fusion, counted in every way that is in use, and what fusing is worth.

Inductor merges operators at two moments. *Inlining*: while it lowers the graph, a pointwise result that is cheap is
no buffer, only an expression that its user repeats. *Fusion*: afterwards the scheduler puts loop nodes that run over
the same range into one. Functions are compiled with both, with one of them, and with neither:
    "default"       as it comes
    "no_fusion"     ``max_fusion_size=1``: the scheduler may not put two nodes together
    "no_inlining"   every result of the graph is made a buffer as soon as it is lowered (``realize()``)
    "neither"       both
The last two reach into ``GraphLowering.run_node``; written for torch 2.11 to 2.13.

How it is measured
    One process counts and compares each result with float64: the functions in ``timed`` in every setting, the others
    in the first two. Times are taken for the functions in ``timed``: in several fresh processes, all settings and the
    function without compiling interleaved in a new order each round. A block is
    ``torch.utils.benchmark.Timer(...).timeit(number)``. A ratio is paired within a round; each process gives the
    median of its logarithms, the interval is Student's t over processes. "eager" runs twice: the second one, its twin,
    shows the noise.
    A CPU process is told to keep freed memory (KEEP_MEMORY), as in inductor/fusion.

Rows, told apart by ``kind``; each has case, setting, device, threads, status ("ok", or "failed", "wrong",
"not measured" with the reason in note).
    kind = "kernel_count": one function in one setting
        operators            ATen operators in the graph that Inductor lowers (views count, inputs do not)
        nodes_before         scheduler nodes before fusion: the inlined operators are gone already
        nodes_after          scheduler nodes after it: a library call is one of them
        loop_nests           outermost loops in the generated C++, or Triton kernels: what goes through the data
        kernels              kernels in the generated code: C++ functions (one may hold several loop nests), or Triton
        kernel_calls         calls of those kernels in one run of the wrapper
        library_calls        calls of a library function (a matrix product)
        generated_counter    ``torch._inductor.metrics.generated_kernel_count``, which is often taken for ``kernels``
        max_rel_error        largest absolute error over the largest absolute reference value
    kind = "kernel_time": one function in one setting; "eager" and "twin" are the function without compiling
        call_us              one call, median of block means; call_q1_us and call_q3_us its quartiles
        speedup_ratio        eager / this setting, paired; speedup_low and speedup_high bound its 95 % interval
        verdict, noise_ratio as in inductor/fusion
        processes, rounds    how many
        samples_us           every block
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.nn import functional
from torch.utils.benchmark import Timer

Row = dict[str, Any]

ROWS, COLUMNS = 2048, 1024
TOLERANCE = 1e-4
SETTINGS = ("default", "no_fusion", "no_inlining", "neither")
PLAIN = ("eager", "twin")
# glibc: no block of its own mapping, and never shrink the heap.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


# ---------------------------------------------------------------- the functions


def pointwise(x: torch.Tensor) -> torch.Tensor:
    """Return six pointwise operators in a row, (ROWS, COLUMNS) to the same."""
    y = torch.relu(x * 1.5 + 0.25)
    return torch.tanh(y) * x - 1.0


def norm_softmax(x: torch.Tensor) -> torch.Tensor:
    """Return twice the softmax of the layer norm of every row: four reductions over the same range."""
    return torch.softmax(functional.layer_norm(x, (COLUMNS,)), dim=-1) * 2


def two_ways(x: torch.Tensor) -> torch.Tensor:
    """Return a sum along the rows and one along the columns, added up: two ranges that no one loop serves."""
    y = torch.relu(x)
    return y.sum(dim=0) + y.sum(dim=1)[:COLUMNS]


def linear(x: torch.Tensor) -> torch.Tensor:
    """Return GELU of a product with the first 256 rows of x: the product goes to a library."""
    return functional.gelu(x @ x[:256].t() + 1.0)


CASES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "pointwise": pointwise,
    "norm_softmax": norm_softmax,
    "two_ways": two_ways,
    "linear": linear,
}


def build_input(device: str) -> torch.Tensor:
    """Return the input, (ROWS, COLUMNS), float32, the same in every process."""
    return torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0)).to(device)


# ---------------------------------------------------------------- settings


@contextlib.contextmanager
def without_inlining() -> Iterator[None]:
    """Make every result of the graph a buffer as soon as it is lowered, within a ``with`` block."""
    from torch._inductor import ir
    from torch._inductor.graph import GraphLowering

    lower = GraphLowering.run_node

    def run_node(self: GraphLowering, node: torch.fx.Node) -> object:
        result = lower(self, node)
        if node.op == "call_function" and isinstance(result, ir.TensorBox):
            result.realize()
        return result

    with patch.object(GraphLowering, "run_node", run_node):
        yield


@contextlib.contextmanager
def setting_of(setting: str) -> Iterator[None]:
    """Switch fusion, inlining or both off within a ``with`` block, in which the function has to be compiled."""
    import torch._inductor.config as inductor_config

    with contextlib.ExitStack() as stack:
        # The cache does not know what was patched: it would hand out the code of another setting.
        stack.enter_context(inductor_config.patch({"force_disable_caches": True}))
        if setting in ("no_fusion", "neither"):
            stack.enter_context(inductor_config.patch({"max_fusion_size": 1}))
        if setting in ("no_inlining", "neither"):
            stack.enter_context(without_inlining())
        yield


def fresh(case: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function of a code object of its own: compiled graphs are kept by code object."""
    function = CASES[case]
    code = function.__code__.replace(co_name=f"{case}_copy")
    return types.FunctionType(code, function.__globals__, case)


# ---------------------------------------------------------------- counting


def loop_nests(kernel: str) -> int:
    """Return how many outermost loops a generated C++ function holds."""
    count, pending = 0, False
    loops: list[bool] = []  # of every open brace: does a loop stand before it?
    for line in kernel.splitlines():
        if re.match(r"\s*for\s*\(", line):
            count += not any(loops)
            pending = True
        for sign in line:
            if sign == "{":
                loops.append(pending)
                pending = False
            elif sign == "}" and loops:
                loops.pop()
    return count


def count_code(code: str) -> Row:
    """Return the counts that the text of a generated module gives."""
    _, _, wrapper = code.partition("def call(")
    definitions = re.findall(r"async_compile\.(cpp_pybinding|cpp|triton)\(.*?'''\n?(.*?)'''", code, re.DOTALL)
    return {
        "loop_nests": sum(1 if kind == "triton" else loop_nests(text) for kind, text in definitions),
        "kernels": len(definitions),
        "kernel_calls": len(re.findall(r"\bcpp_fused\w*\(|\btriton_\w+\.run\(", wrapper)),
        "library_calls": len(re.findall(r"\bextern_kernels\.\w+\(|\btorch\.ops\.[\w.]+\(", wrapper)),
    }


def count_case(case: str, setting: str, x: torch.Tensor, reference: torch.Tensor) -> Row:
    """Compile one function in one setting and return its counts and its error; "graphs" is 0 if nothing was."""
    import torch._inductor.config as inductor_config
    from torch._inductor import metrics
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.graph import GraphLowering

    seen: Row = {"graphs": 0}
    codes: list[str] = []

    def inner(module: torch.fx.GraphModule, examples: Sequence[Any], **options: Any) -> Any:
        compiled = compile_fx_inner(module, examples, **options)
        # Read after Inductor's passes, which change the graph in place: this is what was lowered.
        seen["operators"] = sum(node.op == "call_function" for node in module.graph.nodes)
        return compiled

    def backend(module: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        seen["graphs"] += 1
        return compile_fx(module, examples, inner_compile=inner)

    def before(nodes: list[Any]) -> list[Any]:
        seen["nodes_before"] = len(nodes)
        return nodes

    def after(nodes: list[Any]) -> list[Any]:
        seen["nodes_after"] = len(nodes)
        return nodes

    hooks = {"_pre_fusion_custom_pass": before, "_post_fusion_custom_pass": after}
    metrics.reset()
    saved = patch.object(GraphLowering, "save_output_code", codes.append)
    with setting_of(setting), inductor_config.patch(hooks), saved:
        result = torch.compile(fresh(case), backend=backend, fullgraph=True)(x)
    if codes:
        seen |= count_code("\n".join(codes)) | {"generated_counter": metrics.generated_kernel_count}
    seen["error"] = float((result.double() - reference).abs().max() / reference.abs().max())
    return seen


# ---------------------------------------------------------------- in the child process


def reason_of(error: Exception) -> str:
    """Return the first line of an exception."""
    return f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]


@torch.no_grad()
def child_count(job: Row) -> Row:
    """Count each function of ``job["cases"]`` in its settings; a failure stays with its function and setting."""
    x = build_input(job["device"])
    counts: Row = {}
    for case in job["cases"]:
        reference = CASES[case](x.double())
        for setting in job["cases"][case]:
            try:
                counts[f"{case}/{setting}"] = count_case(case, setting, x, reference)
            except Exception as error:
                counts[f"{case}/{setting}"] = {"failed": reason_of(error)}
    return {"counts": counts}


def time_block(timer: Timer, number: int) -> float:
    """Return the mean time of a call over ``number`` calls in seconds (Timer warms up and synchronises)."""
    return timer.timeit(number).mean


@torch.no_grad()
def child_time(job: Row) -> Row:
    """Time the settings in ``job["timed"]`` (of every case) interleaved; return block means in seconds.

    The blocks are keyed "CASE/SETTING", with "eager" and "twin" among the settings.
    """
    x = build_input(job["device"])
    timers: dict[str, Timer] = {}
    for case, settings in job["timed"].items():
        for setting in (*PLAIN, *settings):
            call = fresh(case)
            if setting not in PLAIN:
                call = torch.compile(call, fullgraph=True)
                with setting_of(setting):
                    call(x)
            scope = {"call": call, "x": x}
            timers[f"{case}/{setting}"] = Timer("call(x)", globals=scope, num_threads=job["threads"])
    order = random.Random(job["seed"])
    block_s = job["block_ms"] / 1e3
    numbers = {key: max(1, math.ceil(block_s / time_block(timer, 3))) for key, timer in timers.items()}
    blocks: dict[str, list[float]] = {key: [] for key in timers}
    for _ in range(job["rounds"]):
        for key in order.sample(list(timers), k=len(timers)):
            blocks[key].append(time_block(timers[key], numbers[key]))
    return {"blocks": blocks}


CHILDREN: dict[str, Callable[[Row], Row]] = {"count": child_count, "time": child_time}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = CHILDREN[job["task"]](job)
    except Exception as error:
        answer = {"failed": reason_of(error)}
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


def divide(above: Sequence[Sequence[float]], below: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the ratios paired within each round of each process."""
    pairs = zip(above, below, strict=True)
    return [[a / b for a, b in zip(one, other, strict=True)] for one, other in pairs]


def flat(groups: Sequence[Sequence[float]]) -> list[float]:
    """Return the values of all processes in one list."""
    return [value for group in groups for value in group]


def count_row(case: str, setting: str, answer: Row) -> Row:
    """Return the row of the counts of one function in one setting."""
    row: Row = {"kind": "kernel_count", "case": case, "setting": setting}
    row |= dict.fromkeys(("operators", "nodes_before", "nodes_after", "loop_nests", "kernels", "kernel_calls"))
    row |= dict.fromkeys(("library_calls", "generated_counter", "max_rel_error"))
    seen = answer if "failed" in answer else answer["counts"][f"{case}/{setting}"]
    if "failed" in seen:
        return row | {"status": "failed", "note": seen["failed"]}
    if seen["graphs"] == 0 or "kernels" not in seen:
        return row | {"status": "not measured", "note": NOT_COMPILED}
    error = seen["error"]
    if not error <= TOLERANCE:  # also true for NaN
        note = f"relative error {error:.2g} against float64 is above {TOLERANCE:g}"
        return row | {"status": "wrong", "note": note}
    counts = {name: seen.get(name) for name in row if name in seen}
    return row | counts | {"max_rel_error": error, "status": "ok", "note": None}


def time_row(case: str, setting: str, answers: Sequence[Row], noise: float) -> Row:
    """Return the row of the times of one function in one setting."""
    here, plain = ([answer["blocks"][f"{case}/{who}"] for answer in answers] for who in (setting, "eager"))
    samples = [block * 1e6 for block in flat(here)]
    low_q, middle, high_q = statistics.quantiles(samples, n=4, method="inclusive")
    ratio, low, high = ratio_interval(divide(plain, here))
    row: Row = {"call_us": middle, "call_q1_us": low_q, "call_q3_us": high_q}
    row |= {"speedup_ratio": ratio, "speedup_low": low, "speedup_high": high}
    if setting == "eager":
        row |= dict.fromkeys(("speedup_ratio", "speedup_low", "speedup_high"))
    row["verdict"] = None if setting in PLAIN else judge(ratio, low, high, noise)
    row |= {"noise_ratio": math.exp(noise), "processes": len(answers), "rounds": len(here[0])}
    return row | {"samples_us": samples}


def blank_time(case: str, setting: str) -> Row:
    """Return a time row with every column, nothing measured yet."""
    row: Row = {"kind": "kernel_time", "case": case, "setting": setting}
    row |= dict.fromkeys(("call_us", "call_q1_us", "call_q3_us", "speedup_ratio", "speedup_low", "speedup_high"))
    return row | {"verdict": None, "noise_ratio": None, "processes": 0, "rounds": 0, "samples_us": []}


def run(
    *,
    cases: Sequence[str] = tuple(CASES),
    timed: Sequence[str] = ("pointwise", "norm_softmax"),
    processes: int = 3,
    rounds: int = 5,
    block_ms: float = 20.0,
    threads: int = 1,
    child_limit_s: float = 150.0,
) -> list[Row]:
    """Count, then time, and return the rows (columns: module docstring).

    ``cases``: names of CASES to count; ``timed``: those of them to time; ``processes`` (two at least) x ``rounds``
    blocks of ``block_ms`` milliseconds a setting. Raises ValueError for fewer than two processes.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    settings = {case: list(SETTINGS if case in timed else SETTINGS[:2]) for case in dict.fromkeys((*cases, *timed))}
    job: Row = {"device": device, "threads": threads, "cases": settings, "block_ms": block_ms, "rounds": rounds}
    shared: Row = {"device": device, "threads": threads}
    answers: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="kernels-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # It compiles the precompiled header too, and leaves the kernels where the next processes find them.
        counted = run_child(job | {"task": "count"}, folder, child_limit_s)
        rows = [shared | count_row(case, setting, counted) for case in settings for setting in settings[case]]
        good = {(row["case"], row["setting"]) for row in rows if row["status"] == "ok"}
        job["timed"] = {case: [setting for setting in SETTINGS if (case, setting) in good] for case in timed}
        for seed in range(processes):
            answers.append(run_child(job | {"task": "time", "seed": seed}, folder, child_limit_s))
            if "failed" in answers[-1]:
                break
    reasons = {(row["case"], row["setting"]): (row["status"], row["note"]) for row in rows}
    for case in timed:
        lost = answers[-1].get("failed")
        noise = 0.0
        if lost is None:
            eager, twin = ([answer["blocks"][f"{case}/{who}"] for answer in answers] for who in PLAIN)
            noise = max(abs(math.log(bound)) for bound in ratio_interval(divide(eager, twin))[1:])
        for setting in (*PLAIN, *SETTINGS):
            row = shared | blank_time(case, setting)
            status, note = reasons.get((case, setting), ("ok", None))
            if lost is not None:
                status, note = "failed", lost
            if status == "ok":
                row |= time_row(case, setting, answers, noise)
            rows.append(row | {"status": status, "note": note})
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
    columns = ["case", "setting", "status", "operators", "nodes_before", "nodes_after", "loop_nests", "kernels"]
    columns += ["kernel_calls", "library_calls", "generated_counter"]
    print_table([row for row in rows if row["kind"] == "kernel_count"], columns)
    print()
    columns = ["case", "setting", "status", "call_us", "speedup_ratio", "speedup_low", "speedup_high", "verdict"]
    print_table([row for row in rows if row["kind"] == "kernel_time"], columns)


if __name__ == "__main__":
    main(sys.argv[1:])
