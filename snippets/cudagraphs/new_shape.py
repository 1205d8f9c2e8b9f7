# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["cuda", "triton"]
# limit_s = 600
# value = 56
# ///
"""What a new shape costs under CUDA graphs: a sequence of batch sizes, visited again and again.

A recording is good for the shapes that it was made with. The model is an MLP of DEPTH layers of WIDTH with ReLU,
inference; its batch goes through SIZES, and that ``visits`` times over. Each strategy has fresh processes of its own
with fresh caches. Every call is timed by itself, with the device waited for before and after, so the sum of a first
visit is what a user waits for.

Strategies
    none                       the model not compiled
    inductor                   torch.compile(model): kernels of Inductor, no CUDA graphs
    reduce-overhead            torch.compile(model, mode="reduce-overhead"): sizes become dynamic at the second one,
                               and CUDA graphs are recorded for every size
    reduce-overhead, static    the same with dynamic=False: every size is compiled *and* recorded
    reduce-overhead, padded    the same model, every batch padded to the largest size: compiled and recorded once
    reduce-overhead, skipping  options triton.cudagraphs and triton.cudagraph_skip_dynamic_graphs: graphs only where
                               no size is dynamic
    torch.cuda.graph           by hand: a graph for every size, in one shared pool

Before the clock starts another small function is compiled, recorded and replayed in the same mode, so that starting
the compiler and the pool is not counted as the price of a shape.

Rows, told apart by ``kind``; each has strategy, status, note, device, threads.
    kind = "call": one call
        visit, batch                 which time this size comes, from 1; the batch size
        position                     number of the call, from 1
        call_ms                      its time, median over the processes
        recordings, compiles         CUDA graphs recorded and graphs compiled, up to and with this call
        samples_ms                   the time in every process
    kind = "strategy": the whole of one strategy
        written                      how it is written
        first_visits_ms, first_visits_low_ms, first_visits_high_ms   the first visits of all sizes together: mean
                                     over the processes and 95 % t interval
        new_shape_ms                 the first three visits of a size (compile, warm up, record) less three steady
                                     ones: median of the sizes after the second
        steady_us, steady_low_us, steady_high_us   a call of the last visit, in the same way
        recordings, compiles, skips  CUDA graphs recorded, graphs compiled, CUDA graphs left out; in all
        pool_mib, reserved_mib       memory of the pools of CUDA graphs; all memory that torch holds at the end
        max_rel_error                largest absolute error over the largest absolute value, over all sizes
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

Row = dict[str, Any]
Call = Callable[[torch.Tensor], torch.Tensor]

WIDTH, DEPTH = 512, 6
SIZES = (64, 48, 56, 40, 24, 32)
VISITS = 5
TOLERANCE = 1e-3
NO_CUDA = "CUDA graphs need a CUDA device."
STRATEGIES: dict[str, str] = {
    "none": "model(x)",
    "inductor": "torch.compile(model)",
    "reduce-overhead": 'torch.compile(model, mode="reduce-overhead")',
    "reduce-overhead, static": 'torch.compile(model, mode="reduce-overhead", dynamic=False)',
    "reduce-overhead, padded": 'compiled = torch.compile(model, mode="reduce-overhead"); compiled(pad(x))[:n]',
    "reduce-overhead, skipping": (
        'torch.compile(model, options={"triton.cudagraphs": True, "triton.cudagraph_skip_dynamic_graphs": True})'
    ),
    "torch.cuda.graph": "with torch.cuda.graph(graphs[n], pool=pool): y[n] = model(x[n])",
}
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
WHOLE = (
    "first_visits_ms", "first_visits_low_ms", "first_visits_high_ms", "new_shape_ms", "steady_us", "steady_low_us",
    "steady_high_us", "recordings", "compiles", "skips", "pool_mib", "reserved_mib", "max_rel_error",
)  # fmt: skip


# ---------------------------------------------------------------- in the child process


def build_model(device: str) -> nn.Module:
    """Return an MLP of DEPTH layers of WIDTH with ReLU, the same in every process."""
    torch.manual_seed(0)
    layers = [layer for _ in range(DEPTH) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    return nn.Sequential(*layers).eval().to(device)


@contextlib.contextmanager
def counting() -> Iterator[dict[str, int]]:
    """Count the CUDA graphs that anyone records while this lasts."""
    count = {"recordings": 0}
    original = torch.cuda.CUDAGraph.capture_begin

    def capture_begin(self: torch.cuda.CUDAGraph, *args: Any, **kwargs: Any) -> Any:
        count["recordings"] += 1
        return original(self, *args, **kwargs)

    torch.cuda.CUDAGraph.capture_begin = capture_begin
    try:
        yield count
    finally:
        torch.cuda.CUDAGraph.capture_begin = original


class ByHand:
    """A graph for every size, recorded at its first visit, in one shared pool."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.pool = torch.cuda.graph_pool_handle()
        self.films: dict[int, tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]] = {}

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Copy x into the recorded input of its size, replay, and return the recorded output."""
        if len(x) not in self.films:
            self.films[len(x)] = self.record(x.clone())
        graph, place, y = self.films[len(x)]
        place.copy_(x)
        graph.replay()
        return y

    def record(self, place: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]:
        """Warm up on a side stream, as must be, and record."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.model(place)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            y = self.model(place)
        return graph, place, y


def prepare(strategy: str, model: nn.Module, largest: int) -> Call:
    """Return the callable of one strategy."""
    if strategy == "none":
        return model
    if strategy == "inductor":
        return torch.compile(model)
    if strategy == "torch.cuda.graph":
        return ByHand(model)
    if strategy.endswith("skipping"):
        return torch.compile(model, options={"triton.cudagraphs": True, "triton.cudagraph_skip_dynamic_graphs": True})
    compiled: Call = torch.compile(
        model, mode="reduce-overhead", dynamic=False if strategy.endswith("static") else None
    )
    if not strategy.endswith("padded"):
        return compiled

    def padded(x: torch.Tensor) -> torch.Tensor:
        full = nn.functional.pad(x, (0, 0, 0, largest - len(x)))
        return compiled(full)[: len(x)]

    return padded


def starters(strategy: str, device: str) -> None:
    """Start what a process starts once (compiler, pool of graphs) with a function of no interest."""
    if strategy in ("none", "torch.cuda.graph"):
        return
    mode = "default" if strategy == "inductor" else "reduce-overhead"
    small = torch.compile(lambda x: x * 2, mode=mode)
    for _ in range(4):
        small(torch.ones(8, device=device))


def pools_mib() -> float:
    """Return the memory in all pools of CUDA graphs in MiB."""
    segments = torch.cuda.memory_snapshot()
    return sum(s["total_size"] for s in segments if tuple(s["segment_pool_id"]) != (0, 0)) / 2**20


@torch.no_grad()
def child_visits(job: Row) -> Row:
    """Make all calls of one strategy; return the time of each (seconds) and what was recorded and compiled by then."""
    from torch._dynamo.utils import counters

    strategy, device, sizes = job["strategy"], job["device"], job["sizes"]
    model = build_model(device)
    reference = copy.deepcopy(model).double()
    generator = torch.Generator().manual_seed(1)
    inputs = {n: torch.randn(n, WIDTH, generator=generator).to(device) for n in sizes}
    for x in inputs.values():
        model(x)  # the maths libraries choose and load their kernels
    starters(strategy, device)
    counters.clear()
    call = prepare(strategy, model, max(sizes))
    calls: list[Row] = []
    errors: list[float] = []
    with counting() as count:
        for visit in range(1, job["visits"] + 1):
            for n in sizes:
                torch.cuda.synchronize()
                start = time.perf_counter()
                y = call(inputs[n])
                torch.cuda.synchronize()
                calls.append({"visit": visit, "batch": n, "seconds": time.perf_counter() - start})
                calls[-1] |= {"recordings": count["recordings"], "compiles": counters["stats"]["unique_graphs"]}
                if visit in (1, job["visits"]):
                    wanted = reference(inputs[n].double())
                    errors.append(float((y.double() - wanted).abs().max() / wanted.abs().max()))
    answer: Row = {"calls": calls, "error": max(errors), "skips": counters["inductor"]["cudagraph_skips"]}
    return answer | {"pool_mib": pools_mib(), "reserved_mib": torch.cuda.memory_reserved() / 2**20}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = child_visits(job)
    except Exception as error:
        # The reason belongs in the row of this strategy; the parent goes on with the others.
        answer = {"failed": f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]}
    Path(job["answer"]).write_text(json.dumps(answer))
    sys.stdout.flush()
    # The answer is written; taking a compiler's worth of modules down in good order would cost another second.
    os._exit(0)


# ---------------------------------------------------------------- in the parent process


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and whatever it started (a compile worker): none may run on into the next timing."""
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


def new_shape_s(calls: Sequence[Row]) -> float | None:
    """Return what a new size costs one process beyond its steps (seconds); None where no size counts.

    The first two sizes are left out: at the first everything is compiled, at the second sizes become dynamic.
    """
    last = max(call["visit"] for call in calls)
    sizes = list(dict.fromkeys(call["batch"] for call in calls))[2:]
    costs = []
    for n in sizes:
        times = {call["visit"]: call["seconds"] for call in calls if call["batch"] == n}
        early = [times[visit] for visit in (1, 2, 3) if visit < last]
        costs.append(sum(early) - len(early) * times[last])
    return statistics.median(costs) if costs else None


def strategy_rows(strategy: str, answers: Sequence[Row]) -> list[Row]:
    """Return the calls and the whole of one strategy from what its processes said."""
    rows: list[Row] = []
    for position, together in enumerate(zip(*(answer["calls"] for answer in answers), strict=True), 1):
        samples = [call["seconds"] * 1e3 for call in together]
        row: Row = {"kind": "call", "visit": together[0]["visit"], "batch": together[0]["batch"]}
        row |= {"position": position, "call_ms": statistics.median(samples)}
        row |= {name: together[0][name] for name in ("recordings", "compiles")}
        rows.append(row | {"samples_ms": samples})
    last = rows[-1]["visit"]
    whole: Row = {"kind": "strategy", "written": STRATEGIES[strategy]} | dict.fromkeys(WHOLE)
    firsts = [sum(c["seconds"] for c in a["calls"] if c["visit"] == 1) * 1e3 for a in answers]
    steady = [statistics.median(c["seconds"] for c in a["calls"] if c["visit"] == last) * 1e6 for a in answers]
    names = ("first_visits_ms", "first_visits_low_ms", "first_visits_high_ms")
    whole |= dict(zip(names, t_interval(firsts), strict=True))
    whole |= dict(zip(("steady_us", "steady_low_us", "steady_high_us"), t_interval(steady), strict=True))
    costs = [cost for answer in answers if (cost := new_shape_s(answer["calls"])) is not None]
    whole["new_shape_ms"] = statistics.median(costs) * 1e3 if costs else None
    whole |= {name: rows[-1][name] for name in ("recordings", "compiles")}
    whole |= {name: answers[0][name] for name in ("skips", "pool_mib", "reserved_mib")}
    return [*rows, whole | {"max_rel_error": max(answer["error"] for answer in answers)}]


def run(
    *,
    strategies: Sequence[str] = tuple(STRATEGIES),
    sizes: Sequence[int] = SIZES,
    visits: int = VISITS,
    processes: int = 3,
    threads: int = 1,
    child_limit_s: float = 120.0,
) -> list[Row]:
    """Visit the sizes under each strategy and return calls and wholes (columns: module docstring).

    ``strategies``: names in STRATEGIES; ``sizes``: batch sizes in their order; ``visits``: two at least;
    ``processes``: two at least; ``child_limit_s``: a process that takes longer is killed, and its strategy is a
    failed row. Without a CUDA device the rows are "unavailable". Raises ValueError for fewer than two visits or
    processes.
    """
    if min(processes, visits) < 2:
        raise ValueError(f"processes = {processes}, visits = {visits}: wants at least two of each")
    shared: Row = {"status": "ok", "note": None, "device": "cuda", "threads": threads}
    rows: list[Row] = []
    for strategy in strategies:
        lost = {"strategy": strategy, "kind": "strategy", "written": STRATEGIES[strategy]} | dict.fromkeys(WHOLE)
        if not torch.cuda.is_available():
            rows.append(shared | lost | {"status": "unavailable", "note": NO_CUDA, "device": "cpu"})
            continue
        job: Row = {"strategy": strategy, "device": "cuda", "threads": threads, "sizes": list(sizes)}
        answers: list[Row] = []
        for _ in range(processes):
            with tempfile.TemporaryDirectory(prefix="new-shape-", ignore_cleanup_errors=True) as name:
                answers.append(run_child(job | {"visits": visits}, Path(name), child_limit_s))
            if "failed" in answers[-1]:
                break
        error = max((answer.get("error", 0.0) for answer in answers), default=0.0)
        if "failed" in answers[-1]:
            rows.append(shared | lost | {"status": "failed", "note": answers[-1]["failed"]})
        elif not error <= TOLERANCE:  # also true for NaN
            note = f"relative error {error:.2g} against float64 is above {TOLERANCE:g}"
            rows.append(shared | lost | {"status": "wrong", "note": note})
        else:
            rows += [shared | {"strategy": strategy} | row for row in strategy_rows(strategy, answers)]
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


def main(arguments: Sequence[str] = ()) -> None:
    """Measure and print; with ``--child JOB`` do one job for the parent process."""
    if list(arguments[:1]) == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    rows = run()
    columns = ["strategy", "status", "first_visits_ms", "new_shape_ms", "steady_us", "recordings", "compiles"]
    print_table([row for row in rows if row["kind"] == "strategy"], [*columns, "skips", "pool_mib", "reserved_mib"])


if __name__ == "__main__":
    main(sys.argv[1:])
