# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 240
# value = 80
# ///
"""What fusing a chain of n pointwise operators saves: S = sum of t_i / (t_fused + t_launch).

The chain repeats ``mul``, ``add``, ``relu`` on one float32 tensor, n operators in all. Apart, every operator reads a
tensor and writes one; Inductor makes a single kernel that reads once and writes once. The operators are cheap, so
memory traffic and launches decide. The tensor is sized after the caches of this machine: "L2" (input and output
take half of it), "L3" (a quarter of it), "memory" (four times the last-level cache).

How it is measured
    Correctness first: a fused result further than TOLERANCE from a float64 reference gives a row "wrong".
    All callables are interleaved in one process, in a new random order each round; several fresh processes do the
    same: where the memory of a process happens to lie moves the small tensors by more than the rounds do. A block is
    ``torch.utils.benchmark.Timer(...).timeit(number)``, at least ``block_ms`` long. S is paired within a round. Each
    process gives one number, the median of the logarithms of its ratios; S is their mean (turned back into a ratio),
    and its 95 % interval the t interval of that mean, k - 1 degrees of freedom for k processes: a t interval over
    process medians. The process is the unit of replication (after Kalibera and Jones, "Rigorous Benchmarking in
    Reasonable Time", ISMM 2013). A chain of which no graph was captured, or no kernel made, is "not measured".

    Every call allocates its output, fused or not. On a CPU glibc gives large blocks back to the system at once, and
    the page faults of getting them again can take many times longer than the operator; so the processes that time
    are told to keep freed memory (KEEP_MEMORY), as PyTorch's own allocator does on a GPU.

Rows, told apart by ``kind``; each has n, status ("ok", or "failed", "wrong", "not measured" with the reason in
note), device and threads.
    kind = "chain": n operators on a tensor of one size
        place, elements, tensor_kib    where input and output fit, and the size of one tensor
        sum_apart_us                   sum of the n operators, each timed alone: the sum of t_i
        eager_chain_us                 the same n operators run in a row, not compiled
        compiled_call_us               the compiled chain: t_fused + t_launch
        launch_us                      the compiled chain on one element: guards, wrapper and launch, t_launch
        fused_kernel_us                compiled_call_us - launch_us: t_fused; None where noise makes that negative
        speedup_ratio                  S, from the paired ratios; speedup_low, speedup_high bound its 95 % interval
        chain_ratio                    eager_chain_us / compiled_call_us, from the paired ratios in the same way
        verdict                        "faster", "slower", or "no difference": 1 lies in the interval of S, or the
                                       effect is no larger than what an eager chain against its twin shows (A/A)
        noise_ratio                    that A/A: the larger of its interval's bounds, as a ratio above 1
        kernels                        kernels in the code that Inductor generated
        fused_bandwidth_gbs            2 x tensor / compiled_call_us: one read, one write (decimal gigabytes)
        eager_bandwidth_gbs            2 x n x tensor / eager_chain_us: n reads, n writes
        max_rel_error                  largest absolute error over the largest absolute reference value
        processes, rounds              how many processes, and how many blocks each
        samples_us                     every block of the compiled chain
        samples_apart_us, samples_chain_us   the same for the operators apart and the eager chain
    kind = "code": text to show
        part, language, code           "source" (the chain as written, Python) or "kernel" (what Inductor made of
                                       it: cpp, or python where it is Triton)
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import Timer

Row = dict[str, Any]

OPERATORS = ("torch.mul({}, 1.5)", "torch.add({}, 0.25)", "torch.relu({})")
TOLERANCE = 1e-5
SHOWN = 4  # the chain whose code is shown
# glibc: no block of its own mapping, and never shrink the heap.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)
NO_KERNEL = "The generated code holds no kernel, so there is nothing to time."
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
LARGEST_BYTES = 512 * 2**20  # of one tensor, so that a huge cache does not fill the memory


# ---------------------------------------------------------------- the chain


def source(n: int) -> str:
    """Return the Python source of a function that chains n operators: a code object, hence a cache, of its own."""
    lines = [f"    y = {OPERATORS[i % len(OPERATORS)].format('x' if i == 0 else 'y')}" for i in range(n)]
    return "\n".join(["def chain(x):", *lines, "    return y"])


def build_chain(n: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a new function that chains n operators."""
    scope: Row = {"torch": torch}
    exec(source(n), scope)
    function: Callable[[torch.Tensor], torch.Tensor] = scope["chain"]
    return function


def cache_bytes(device: str) -> dict[str, int]:
    """Return the sizes of the caches that matter, by level: L2 and L3 of a CPU, L2 of a GPU."""
    if device == "cuda":
        return {"L2": torch.cuda.get_device_properties(0).L2_cache_size}
    sizes = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index[23]"):
        size = re.fullmatch(r"(\d+)([KMG])", (index / "size").read_text().strip())
        if size:
            level = "L" + (index / "level").read_text().strip()
            sizes[level] = int(size[1]) * 2 ** {"K": 10, "M": 20, "G": 30}[size[2]]
    return sizes


def tensor_sizes(device: str) -> dict[str, int]:
    """Return the bytes of one tensor for each place, in order of size."""
    caches = cache_bytes(device)
    shares = {"L2": 4, "L3": 8}
    sizes = {place: size // shares[place] for place, size in sorted(caches.items())}
    if not caches:
        # Not Linux, say: a size that no usual cache holds.
        return {"memory": LARGEST_BYTES}
    last = max(caches.values())
    # Where even the largest tensor leaves half of its traffic in a cache, nothing here shows memory.
    return sizes | ({"memory": min(LARGEST_BYTES, 2 * last)} if last <= LARGEST_BYTES else {})


def count_kernels(code: str) -> int:
    """Return how many kernels the generated module defines (Inductor's own counter counts something else)."""
    return len(re.findall(r"\basync_compile\.(?:cpp_pybinding|cpp|triton)\(", code))


def kernel_text(code: str) -> str:
    """Return the first kernel of the generated module: the C++ text, or the Triton function."""
    text = re.search(r"async_compile\.\w+\(.*?'''\n?(.*?)'''", code, re.DOTALL)
    if text is None:
        raise ValueError("no kernel in the generated code")
    _, jit, function = text[1].partition("@triton.jit")
    return (jit + function if jit else text[1]).strip()


# ---------------------------------------------------------------- in the child process


def time_block(timer: Timer, number: int) -> float:
    """Return the mean time of a call over ``number`` calls in seconds (Timer warms up and synchronises)."""
    return timer.timeit(number).mean


def captured_graphs() -> int:
    """Return how many graphs this process has captured and had compiled: 0 where torch.compile was turned off."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def compile_chain(n: int, x: torch.Tensor) -> tuple[Callable[[torch.Tensor], torch.Tensor], str, float]:
    """Return the compiled chain for the shape of x, its generated code, its error against float64."""
    from torch._inductor.utils import run_and_get_code

    reference = build_chain(n)(x.double())
    fused = torch.compile(build_chain(n), dynamic=False)
    result, codes = run_and_get_code(fused, x)
    error = float((result.double() - reference).abs().max() / reference.abs().max())
    return fused, "\n".join(codes), error


@torch.no_grad()
def child_chains(job: Row) -> Row:
    """Time everything interleaved in a new order each round; return block means in seconds and the code.

    The blocks are keyed "apart/PLACE/i", "eager/PLACE/n", "twin/PLACE/n", "fused/PLACE/n", "launch/n".
    """
    device, lengths, threads = job["device"], job["lengths"], job["threads"]
    generator = torch.Generator().manual_seed(0)
    timers: dict[str, Timer] = {}
    kernels: dict[str, int] = {}
    errors: dict[str, float] = {}
    answer: Row = {"kernels": kernels, "errors": errors, "kernel": None}

    def add(key: str, statement: str, **scope: Any) -> None:
        timers[key] = Timer(statement, globals={"torch": torch} | scope, num_threads=threads)

    for n in lengths:
        one = torch.randn(1, generator=generator).to(device)
        add(f"launch/{n}", "chain(x)", chain=compile_chain(n, one)[0], x=one)
    for place, size in job["sizes"].items():
        x = torch.randn(size // 4, generator=generator).to(device)
        for i, operator in enumerate(OPERATORS):
            add(f"apart/{place}/{i}", operator.format("x"), x=x)
        add(f"twin/{place}/{lengths[0]}", "chain(x)", chain=build_chain(lengths[0]), x=x)
        for n in lengths:
            key = f"{place}/{n}"
            add(f"eager/{key}", "chain(x)", chain=build_chain(n), x=x)
            fused, code, errors[key] = compile_chain(n, x)
            add(f"fused/{key}", "chain(x)", chain=fused, x=x)
            kernels[key] = count_kernels(code)
            if n == job["shown"] and kernels[key] and answer["kernel"] is None:
                answer["kernel"] = kernel_text(code)

    answer["graphs"] = captured_graphs()
    order = random.Random(job["seed"])
    block_s = job["block_ms"] / 1e3
    numbers: dict[str, int] = {}
    for key, timer in timers.items():
        once = time_block(timer, 1)
        # A short call is timed again over many: one alone says little.
        numbers[key] = max(1, math.ceil(block_s / (once if once > block_s else time_block(timer, 10))))
    blocks: dict[str, list[float]] = {key: [] for key in timers}
    for _ in range(job["rounds"]):
        for key in order.sample(list(timers), k=len(timers)):
            blocks[key].append(time_block(timers[key], numbers[key]))
    return answer | {"blocks": blocks}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = child_chains(job)
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


def chain_row(place: str, size: int, n: int, answers: Sequence[Row], noise: float) -> Row:
    """Return the row of n operators on a tensor of ``size`` bytes from the blocks of all processes."""

    def blocks(key: str) -> list[list[float]]:
        return [[block * 1e6 for block in answer["blocks"][key]] for answer in answers]

    operators = [blocks(f"apart/{place}/{i}") for i in range(len(OPERATORS))]
    apart = [
        [sum(parts[i % len(parts)] for i in range(n)) for parts in zip(*process, strict=True)]
        for process in zip(*operators, strict=True)
    ]
    chain, fused = blocks(f"eager/{place}/{n}"), blocks(f"fused/{place}/{n}")
    call_us, chain_us = statistics.median(flat(fused)), statistics.median(flat(chain))
    launch_us = statistics.median(flat(blocks(f"launch/{n}")))
    ratio, low, high = ratio_interval(divide(apart, fused))
    return {
        "sum_apart_us": statistics.median(flat(apart)),
        "eager_chain_us": chain_us,
        "compiled_call_us": call_us,
        "launch_us": launch_us,
        "fused_kernel_us": call_us - launch_us if call_us > launch_us else None,
        "speedup_ratio": ratio,
        "speedup_low": low,
        "speedup_high": high,
        "chain_ratio": ratio_interval(divide(chain, fused))[0],
        "verdict": judge(ratio, low, high, noise),
        "noise_ratio": math.exp(noise),
        "kernels": answers[0]["kernels"][f"{place}/{n}"],
        "fused_bandwidth_gbs": 2 * size / call_us / 1e3,
        "eager_bandwidth_gbs": 2 * n * size / chain_us / 1e3,
        "processes": len(answers),
        "rounds": len(chain[0]),
        "samples_us": flat(fused),
        "samples_apart_us": flat(apart),
        "samples_chain_us": flat(chain),
    }


def idle(answers: Sequence[Row], key: str) -> str | None:
    """Return why a chain was not compiled at all in some process, or None."""
    if any(answer["graphs"] == 0 for answer in answers):
        return NOT_COMPILED
    return NO_KERNEL if any(answer["kernels"][key] == 0 for answer in answers) else None


def blank_chain(place: str, size: int, n: int) -> Row:
    """Return a chain row with every column, nothing measured yet."""
    row: Row = {"kind": "chain", "n": n, "place": place, "elements": size // 4, "tensor_kib": size / 1024}
    row |= dict.fromkeys(("sum_apart_us", "eager_chain_us", "compiled_call_us", "launch_us", "fused_kernel_us"))
    row |= dict.fromkeys(("speedup_ratio", "speedup_low", "speedup_high", "chain_ratio", "verdict"))
    row |= dict.fromkeys(("noise_ratio", "kernels", "fused_bandwidth_gbs", "eager_bandwidth_gbs"))
    row |= {"max_rel_error": None, "processes": 0, "rounds": 0}
    return row | {"samples_us": [], "samples_apart_us": [], "samples_chain_us": []}


def run(
    *,
    lengths: Sequence[int] = (1, 2, 4, 8, 16),
    places: Sequence[str] = ("L2", "L3", "memory"),
    processes: int = 6,
    rounds: int = 3,
    block_ms: float = 20.0,
    threads: int = 1,
    child_limit_s: float = 120.0,
) -> list[Row]:
    """Time the chains and return their rows and the code (columns: module docstring).

    ``lengths``: the values of n, ascending; ``places``: which sizes; ``processes`` (two at least) x ``rounds`` blocks
    of ``block_ms`` milliseconds a callable; ``child_limit_s``: a process that takes longer is killed. Raises ValueError
    for fewer than two processes.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = {place: size for place, size in tensor_sizes(device).items() if place in places}
    shown = SHOWN if SHOWN in lengths else lengths[-1]
    job: Row = {"device": device, "threads": threads, "lengths": list(lengths), "sizes": sizes, "shown": shown}
    job |= {"rounds": rounds, "block_ms": block_ms}
    answers: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="fusion-", ignore_cleanup_errors=True) as name:
        for seed in range(processes):
            # The first process fills the caches for the others; compile time is not what is measured here.
            answers.append(run_child(job | {"seed": seed}, Path(name), child_limit_s))
            if "failed" in answers[-1]:
                break

    shared: Row = {"status": "ok", "note": None, "device": device, "threads": threads}
    rows: list[Row] = []
    for place, size in sizes.items():
        noise = 0.0
        if "failed" not in answers[-1]:
            eager, twin = ([a["blocks"][f"{who}/{place}/{lengths[0]}"] for a in answers] for who in ("eager", "twin"))
            noise = max(abs(math.log(bound)) for bound in ratio_interval(divide(eager, twin))[1:])
        for n in lengths:
            row = shared | blank_chain(place, size, n)
            if "failed" in answers[-1]:
                rows.append(row | {"status": "failed", "note": answers[-1]["failed"]})
                continue
            errors = [answer["errors"][f"{place}/{n}"] for answer in answers]
            error = math.nan if any(map(math.isnan, errors)) else max(errors)
            row["max_rel_error"] = error if math.isfinite(error) else None
            if not error <= TOLERANCE:  # also true for NaN
                note = f"relative error {error:.2g} against float64 is above {TOLERANCE:g}"
                rows.append(row | {"status": "wrong", "note": note})
            elif reason := idle(answers, f"{place}/{n}"):
                rows.append(row | {"status": "not measured", "note": reason})
            else:
                rows.append(row | chain_row(place, size, n, answers, noise))
    code = shared | {"kind": "code", "n": shown}
    rows.append(code | {"part": "source", "language": "python", "code": source(shown)})
    if "failed" not in answers[-1]:
        language = "python" if device == "cuda" else "cpp"
        rows.append(code | {"part": "kernel", "language": language, "code": answers[0]["kernel"]})
        if answers[0]["kernel"] is None:
            reason = idle(answers, f"{next(iter(sizes))}/{shown}") if sizes else None
            rows[-1] |= {"status": "not measured", "note": reason or NO_KERNEL}
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
    columns = ["place", "n", "tensor_kib", "status", "sum_apart_us", "eager_chain_us", "compiled_call_us"]
    columns += ["launch_us", "speedup_ratio", "speedup_low", "speedup_high", "verdict", "kernels"]
    columns += ["fused_bandwidth_gbs", "eager_bandwidth_gbs"]
    print_table([row for row in rows if row["kind"] == "chain"], columns)
    for row in rows:
        if row["kind"] == "code" and row["status"] == "ok":
            print(f"\n# {row['part']}, n = {row['n']}\n{row['code']}")


if __name__ == "__main__":
    main(sys.argv[1:])
