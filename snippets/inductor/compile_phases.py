# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 300
# value = 68
# ///
"""Where the compile time of Inductor goes: import, Dynamo, AOTAutograd, Inductor, the C++ or Triton compiler.

The job is the first training step of a small MLP (512, 256, 128, 10, ReLU, batch 64): forward and backward are
compiled. Three starts, each a fresh process:
    "cold"     nothing on disk: an empty ``TORCHINDUCTOR_CACHE_DIR`` and an empty ``TMPDIR``
    "header"   the precompiled C++ header is there (it lies in ``TMPDIR``, not in the cache folder), the cache is empty
    "warm"     the header and the cache of an earlier process are there

How it is measured
    torch's own timers (``torch._dynamo.utils.get_compilation_metrics``) are nested: Dynamo's holds AOTAutograd's,
    which holds Inductor's, which holds the compilers'. Each phase here is its timer less the next one, so that
    phases add up. External compilers are seen as calls of ``subprocess.run`` and ``subprocess.check_call``; where
    several run at once, the time during which at least one runs counts. Their time is taken out of Inductor's timer,
    and what does not fit in there out of AOTAutograd's: a graph out of the cache is loaded there, without Inductor,
    and the compiler still answers a few questions (which instructions, which header). The import of the compiler is
    forced before the first call and timed by itself. What is left of the first step (running it, building guards,
    loading what is imported late) is "rest". Written for torch 2.11 to 2.13.

Rows, told apart by ``kind``; each has start, device, threads, status ("ok", or "failed", "not measured" with the
reason in note).
    kind = "compile_phase": one phase of one start
        phase              "import", "dynamo", "aot_autograd", "inductor", "header" (C++ only: precompiling it, or
                           checking that it is still good), "compiler", "rest"
        phase_s            median over the repeats; phase_low_s, phase_high_s the least and the greatest
        share              of the whole
        samples_s          every repeat
    kind = "compile_total": one start
        total_s            import and first training step; total_low_s, total_high_s the least and the greatest
        step_us            a steady training step, for comparison
        graphs             graphs compiled, forward and backward
        cache_hits, cache_misses   of the AOTAutograd cache
        compiler_calls     external programs started, nearly all of them the C++ compiler
        repeats, samples_s
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import Timer

Row = dict[str, Any]

BATCH = 64
WIDTHS = (512, 256, 128, 10)
STARTS = ("cold", "header", "warm")
PHASES = ("import", "dynamo", "aot_autograd", "inductor", "header", "compiler", "rest")
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)


# ---------------------------------------------------------------- the model


def build_model(device: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """Return the MLP and its input, shape (BATCH, 512), float32, the same in every process."""
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = []
    for inputs, outputs in itertools.pairwise(WIDTHS):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1]).to(device), torch.randn(BATCH, WIDTHS[0], device=device)


def training_step(model: torch.nn.Module, x: torch.Tensor) -> None:
    """Run forward and backward; the gradients are set anew."""
    for parameter in model.parameters():
        parameter.grad = None
    model(x).square().mean().backward()


def synchronize(device: str) -> None:
    """Wait for the device; on a CPU calls are complete when they return."""
    if device == "cuda":
        torch.cuda.synchronize()


# ---------------------------------------------------------------- in the child process


class Compilers:
    """Notes when external compilers run: Inductor starts them through the subprocess module."""

    FUNCTIONS = ("run", "check_call")  # check_output calls run

    def __init__(self) -> None:
        self.spans: list[tuple[float, float, bool]] = []

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Note every call within a ``with`` block, on whichever thread."""
        originals = {name: getattr(subprocess, name) for name in self.FUNCTIONS}

        def noting(original: Any) -> Any:
            def noted(command: Any, *args: Any, **kwargs: Any) -> Any:
                words = command.split() if isinstance(command, str) else [str(word) for word in command]
                # Precompiling it, or reading it through to see whether the precompiled one is still good.
                header = any(word == "c++-header" or word.endswith(("header.hpp", "header.i")) for word in words)
                start = time.perf_counter()
                try:
                    return original(command, *args, **kwargs)
                finally:
                    self.spans.append((start, time.perf_counter(), header))

            return noted

        for name, original in originals.items():
            setattr(subprocess, name, noting(original))
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(subprocess, name, original)

    def busy_s(self, header: bool | None = None) -> float:
        """Return the seconds in which at least one ran; ``header``: only those that made the header, or the others."""
        total, reached = 0.0, float("-inf")
        for start, end, made_header in sorted(self.spans):
            if header is None or made_header == header:
                total += max(0.0, end - max(start, reached))
                reached = max(reached, end)
        return total


def timers() -> dict[str, float]:
    """Return torch's own compile timers in seconds, nested as they are."""
    from torch._dynamo import utils

    metrics = utils.get_compilation_metrics()

    def total(name: str, forward_only: bool = False) -> float:
        chosen = [m for m in metrics if not forward_only or getattr(m, "dynamo_cumulative_compile_time_us", None)]
        return sum(getattr(m, name, None) or 0 for m in chosen) / 1e6

    return {
        "dynamo": total("dynamo_cumulative_compile_time_us"),
        "aot": total("aot_autograd_cumulative_compile_time_us"),
        "backward": total("backward_cumulative_compile_time_us"),
        "inductor": total("inductor_cumulative_compile_time_us"),
        "inductor_forward": total("inductor_cumulative_compile_time_us", forward_only=True),
        "triton": total("triton_compile_time_us"),
    }


def phases_of(nested: dict[str, float], header_s: float, compilers_s: float) -> dict[str, float]:
    """Return the phases without overlap from nested timers: each less what it holds, none below zero."""
    inner, inductor = nested["inductor_forward"], nested["inductor"]
    # Inductor may compile the backward ahead, inside the forward's timer, or later, inside the backward's own.
    backward = max(0.0, nested["backward"] - (inductor - inner))
    aot = max(0.0, nested["aot"] - inner) + backward
    native = min(max(compilers_s, nested["triton"]), inductor + aot)
    header = min(header_s, native)
    in_inductor = min(native, inductor)
    return {
        "dynamo": max(0.0, nested["dynamo"] - nested["aot"]),
        "aot_autograd": aot - (native - in_inductor),
        "inductor": inductor - in_inductor,
        "header": header,
        "compiler": native - header,
    }


def child_main(job: Row) -> None:
    """Time the import and the first training step of this process and write the phases, or what went wrong."""
    torch.set_num_threads(job["threads"])
    try:
        answer = first_step(job)
    except Exception as error:
        answer = {"failed": f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]}
    Path(job["answer"]).write_text(json.dumps(answer))
    sys.stdout.flush()
    # The answer is written; taking a compiler's worth of modules down in good order would cost another second.
    os._exit(0)


def first_step(job: Row) -> Row:
    """Return the phases of the first compiled training step, in seconds, and what was counted on the way."""
    device = job["device"]
    model, x = build_model(device)
    training_step(model, x)  # the libraries of eager mode are loaded before the clock starts
    synchronize(device)
    compilers = Compilers()
    start = time.perf_counter()
    import torch._dynamo  # these imports are the first thing that compiling costs
    import torch._inductor.compile_fx
    from torch._dynamo.utils import counters

    imported = time.perf_counter()
    compiled = torch.compile(model)
    with compilers.watched():
        training_step(compiled, x)
        synchronize(device)
    done = time.perf_counter()
    phases = {"import": imported - start}
    phases |= phases_of(timers(), compilers.busy_s(header=True), compilers.busy_s())
    phases["rest"] = max(0.0, done - start - sum(phases.values()))
    timer = Timer("step(model, x)", globals={"step": training_step, "model": compiled, "x": x}, num_threads=1)
    return {
        "phases": phases,
        "total_s": done - start,
        "step_s": timer.timeit(max(1, round(0.1 / max(timer.timeit(3).mean, 1e-6)))).mean,
        "graphs": counters["stats"]["unique_graphs"],
        "cache_hits": counters["aot_autograd"]["autograd_cache_hit"],
        "cache_misses": counters["aot_autograd"]["autograd_cache_miss"],
        "compiler_calls": len(compilers.spans),
    }


# ---------------------------------------------------------------- in the parent process


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and whatever it started (a C++ compiler, a compile worker): none may run on into the next timing."""
    with contextlib.suppress(ProcessLookupError):  # nobody is left
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # Windows has no process groups of this kind
            process.kill()
    process.wait()


def run_child(job: Row, folder: Path, cache: Path, limit_s: float) -> Row:
    """Run the job in a fresh process with ``folder`` for temporary files and ``cache`` for Inductor.

    Returns the child's answer, or {"failed": reason} if it crashed or took longer than ``limit_s`` seconds.
    Its whole process group is killed at the end. Output goes to files, so nothing can hold a pipe open.
    """
    folder.mkdir(parents=True, exist_ok=True)
    answer, log = folder / "answer.json", folder / "log.txt"
    answer.unlink(missing_ok=True)
    caches = {"TMPDIR": folder, "TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": cache / "triton"}
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


def spread(name: str, values: Sequence[float]) -> Row:
    """Return median, least and greatest under ``NAME_s``, ``NAME_low_s``, ``NAME_high_s``."""
    return {f"{name}_s": statistics.median(values), f"{name}_low_s": min(values), f"{name}_high_s": max(values)}


def rows_of(start: str, answers: Sequence[Row]) -> list[Row]:
    """Return the rows of one start from the answers of its processes."""
    empty: Row = {"start": start, "status": "ok", "note": None}
    failed = next((answer["failed"] for answer in answers if "failed" in answer), None)
    if failed is None and any(answer["graphs"] == 0 for answer in answers):
        failed = NOT_COMPILED
    if failed is not None:
        empty |= {"status": "not measured" if failed == NOT_COMPILED else "failed", "note": failed}
    rows: list[Row] = []
    whole = [] if failed else [answer["total_s"] for answer in answers]
    total: Row = {"kind": "compile_total", **empty, "total_s": None, "total_low_s": None, "total_high_s": None}
    total |= dict.fromkeys(("step_us", "graphs", "cache_hits", "cache_misses", "compiler_calls"))
    total |= {"repeats": len(answers), "samples_s": whole}
    if not failed:
        total |= spread("total", whole)
        total["step_us"] = statistics.median(answer["step_s"] for answer in answers) * 1e6
        total |= {key: answers[-1][key] for key in ("graphs", "cache_hits", "cache_misses", "compiler_calls")}
    for phase in PHASES:
        row: Row = {"kind": "compile_phase", "phase": phase, **empty}
        row |= dict.fromkeys(("phase_s", "phase_low_s", "phase_high_s", "share")) | {"samples_s": []}
        if not failed:
            samples = [answer["phases"][phase] for answer in answers]
            row |= spread("phase", samples) | {"samples_s": samples}
            row["share"] = statistics.median(s / t for s, t in zip(samples, whole, strict=True))
        rows.append(row)
    return [total, *rows]


def run(
    *,
    starts: Sequence[str] = STARTS,
    repeats: int = 3,
    threads: int = 1,
    child_limit_s: float = 120.0,
) -> list[Row]:
    """Compile in fresh processes and return the rows (columns: module docstring).

    ``starts``: some of STARTS; ``repeats``: how often each; ``child_limit_s``: a process that takes longer is killed.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    job: Row = {"device": device, "threads": threads}
    answers: dict[str, list[Row]] = {start: [] for start in starts}
    for _ in range(repeats):
        # One folder a repeat: the cold start leaves the header to the second and the cache to the third.
        with tempfile.TemporaryDirectory(prefix="phases-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            order = [("cold", folder / "cache"), ("header", folder / "empty"), ("warm", folder / "cache")]
            for start, cache in order:
                if start in starts or start == "cold":  # without a cold start there is no header and no cache
                    answer = run_child(job, folder / "tmp", cache, child_limit_s)
                    if start in starts:
                        answers[start].append(answer)
    shared = {"device": device, "threads": threads}
    return [row | shared for start in starts for row in rows_of(start, answers[start])]


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
    columns = ["start", "status", "total_s", "total_low_s", "total_high_s", "step_us", "graphs"]
    columns += ["cache_hits", "cache_misses", "compiler_calls"]
    print_table([row for row in rows if row["kind"] == "compile_total"], columns)
    print()
    print_table([row for row in rows if row["kind"] == "compile_phase"], ["start", "phase", "phase_s", "share"])


if __name__ == "__main__":
    main(sys.argv[1:])
