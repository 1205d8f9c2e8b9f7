# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 600
# value = 90
# ///
"""Total time of a job against its number of steps: T_total = T_compile + N x T_step, run and not only computed.

The job is inference of an MLP 512-256-128-10 with ReLU, batch 64, float32: not compiled (``none``) and under each
back end of torch.compile. Each job is really run from its start: a fresh process, fresh caches (TMPDIR too), one
clock from before ``torch.compile()`` until after the last step, read at N = 1, 2, 5, 10, 20, 50 ... steps. The
plain model runs once before the clock starts, so that no back end pays for the start-up of the maths libraries.
Several repeats, the back ends in a new random order each time, each job in a new folder. A back end whose result is
further than TOLERANCE from a float64 reference, or which did nothing (no graph captured), gets no times.

Does the formula hold? Each repeat is predicted from the two terms of the *other* repeats (their medians), never from
its own clock, so a prediction can miss. The two marks at which the terms are read, SETTLING_STEPS and the last, have
no prediction: there a line through the clock agrees however bent the clock is in between.

This file times whole jobs, each alone in its process, with one clock (``time.perf_counter``): what a user waits
for. Which of two steps is faster is better told by interleaving them in one process; see four_backends.py.

Rows, told apart by ``kind``; each has status ("ok", or "failed", "wrong", "not measured" with the reason in note),
device and threads.
    kind = "point": one back end after N steps
        backend, steps                       the back end and N
        total_s, total_low_s, total_high_s   clock at N: median, least and greatest of the repeats
        predicted_s                          the formula with the terms of the other repeats: median of the repeats;
                                             None at the marks of the terms, and with a single repeat
        prediction_ratio                     prediction of a repeat / its clock: median of the repeats, 1 where the
                                             formula holds; prediction_low_ratio and prediction_high_ratio are the
                                             least and the greatest
        samples_s                            the clock of every repeat
    kind = "fit": the two terms of one back end
        compile_s, compile_low_s, compile_high_s   clock after SETTLING_STEPS steps, less as many steady steps
        step_us, step_low_us, step_high_us         slope of the clock from there to the last mark
        max_rel_error                        largest absolute error over the largest absolute reference value
    kind = "crossing": where the curves of two back ends meet
        backend, other                       the pair; other is "none" or another back end
        crossing_steps                       N at which they meet; None where they don't
        crossing_low_steps, crossing_high_steps   where it is extrapolated: its range over the repeats' terms
        how                                  "measured" (interpolated between two marks), "extrapolated" (from the
                                             fits, beyond the last mark), "never" (the one that starts cheaper also
                                             steps no slower), "undecided" (the repeats overlap; see note)
        cheaper_at_start, cheaper_later      which of the two has the smaller total before and after; None where
                                             the repeats can't tell
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import os
import random
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

Row = dict[str, Any]

BATCH = 64
WIDTHS = (512, 256, 128, 10)
TOLERANCE = 1e-4
SETTLING_STEPS = 5
PROFILED_STEPS = 5
BACKENDS = ("eager", "aot_eager", "inductor", "cudagraphs")
NO_GRAPHS = (
    "No CUDA graph was recorded, so there is nothing to time: the back end fell back to running the captured "
    "operators one by one"
)
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)


# ---------------------------------------------------------------- the job


def build_model(device: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """Return the MLP in eval mode and its input, shape (BATCH, 512), float32, the same in every process."""
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = []
    for inputs, outputs in itertools.pairwise(WIDTHS):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1]).eval().to(device)
    return model, torch.randn(BATCH, WIDTHS[0], device=device)


def marks() -> Iterator[int]:
    """Yield the step counts at which the clock is read: 1, 2, 5, 10, 20, 50 ..."""
    for decade in itertools.count():
        yield from (10**decade, 2 * 10**decade, 5 * 10**decade)


def relative_error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the largest absolute error over the largest absolute value of the float64 reference."""
    return float((result.double() - reference).abs().max() / reference.abs().max())


def synchronize(device: str) -> None:
    """Wait for the device; on a CPU calls are complete when they return."""
    if device == "cuda":
        torch.cuda.synchronize()


def captured_graphs() -> int:
    """Return how many graphs this process has captured and had compiled: 0 where torch.compile was turned off."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def count_graph_launches(call: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> float | None:
    """Return the CUDA graph launches of one step, over PROFILED_STEPS steps.

    None where that stays unknown: the profiler failed, or saw no launch of any kind.
    """
    from torch.profiler import ProfilerActivity, profile

    try:
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            for _ in range(PROFILED_STEPS):
                call(x)
            torch.cuda.synchronize()
        names = [event.name for event in profiler.events()]
    except Exception:
        # Without a profiler (no permission for it, say) there is no evidence against the back end either.
        return None
    graphs = sum(name.startswith(("cudaGraphLaunch", "cuGraphLaunch")) for name in names)
    others = sum(name.startswith(("cudaLaunch", "cuLaunch")) for name in names)
    return graphs / PROFILED_STEPS if graphs or others else None


@torch.no_grad()
def child_job(job: Row) -> Row:
    """Run one whole job; return the clock at each mark (seconds) until about job["seconds"] of stepping."""
    device, backend = job["device"], job["backend"]
    model, x = build_model(device)
    reference = copy.deepcopy(model).double()(x.double())
    model(x)
    synchronize(device)

    clock: list[tuple[int, float]] = []
    done = 0
    start = time.perf_counter()
    call = model if backend == "none" else torch.compile(model, backend=backend)
    for mark in marks():
        if done > SETTLING_STEPS:
            # Stop before a stretch that would go past the budget.
            stepping_s = clock[-1][1] - dict(clock)[SETTLING_STEPS]
            if stepping_s * (mark - SETTLING_STEPS) / (done - SETTLING_STEPS) > job["seconds"]:
                break
        for _ in range(mark - done):
            result = call(x)
        synchronize(device)
        clock.append((mark, time.perf_counter() - start))
        done = mark

    answer: Row = {"clock": clock, "error": relative_error(result, reference)}
    answer["graphs"] = None if backend == "none" else captured_graphs()
    if backend == "cudagraphs":
        from torch._dynamo.utils import counters

        answer["graph_skips"] = counters["inductor"]["cudagraph_skips"]
        answer["graph_launches"] = count_graph_launches(call, x) if device == "cuda" else None
    return answer


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = child_job(job)
    except Exception as error:
        # The reason belongs in the row of this back end; the parent goes on with the others.
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


def trouble(backend: str, device: str, answer: Row) -> tuple[str, str] | None:
    """Return (status, note) where a job did not give what it should, else None."""
    if "failed" in answer:
        return "failed", answer["failed"]
    if not answer["error"] <= TOLERANCE:  # also true for NaN
        return "wrong", f"relative error {answer['error']:.2g} against float64 is above {TOLERANCE:g}"
    if answer["graphs"] == 0:
        return "not measured", NOT_COMPILED
    if backend == "cudagraphs":
        if device != "cuda":
            return "not measured", f"{NO_GRAPHS} (it needs a CUDA device; this machine has none)."
        if answer["graph_skips"] or answer["graph_launches"] == 0:
            seen = f"skips counted: {answer['graph_skips']}, graph launches seen: {answer['graph_launches']}"
            return "not measured", f"{NO_GRAPHS} ({seen})."
    return None


def fit(clock: dict[int, float]) -> tuple[float, float]:
    """Return (T_compile, T_step) in seconds of one job from its clock at the marks."""
    last = max(clock)
    step_s = (clock[last] - clock[SETTLING_STEPS]) / (last - SETTLING_STEPS)
    return max(0.0, clock[SETTLING_STEPS] - SETTLING_STEPS * step_s), step_s


def predict(terms: Sequence[tuple[float, float]], mark: int) -> list[float]:
    """Return for each repeat T_compile + mark x T_step (seconds) with the median terms of the other repeats."""
    predictions = []
    for left_out in range(len(terms)):
        others = [term for i, term in enumerate(terms) if i != left_out]
        compile_s, step_s = (statistics.median(values) for values in zip(*others, strict=True))
        predictions.append(compile_s + mark * step_s)
    return predictions


def curve_rows(backend: str, jobs: Sequence[dict[int, float]], error: float) -> list[Row]:
    """Return the fit and the points of one back end; ``jobs`` holds the clock of each repeat."""
    terms = [fit(clock) for clock in jobs]
    if backend == "none":
        # Nothing is compiled: the cost is 0 by definition, not the noise of a difference.
        terms = [(0.0, step_s) for _, step_s in terms]
    compiles, steps = [c for c, _ in terms], [s * 1e6 for _, s in terms]
    rows: list[Row] = [
        {
            "kind": "fit",
            "backend": backend,
            "compile_s": statistics.median(compiles),
            "compile_low_s": min(compiles),
            "compile_high_s": max(compiles),
            "step_us": statistics.median(steps),
            "step_low_us": min(steps),
            "step_high_us": max(steps),
            "max_rel_error": error,
        }
    ]
    read = {SETTLING_STEPS} | {max(clock) for clock in jobs}
    for mark in sorted(set.intersection(*(set(clock) for clock in jobs))):
        samples = [clock[mark] for clock in jobs]
        row: Row = {
            "kind": "point",
            "backend": backend,
            "steps": mark,
            "total_s": statistics.median(samples),
            "total_low_s": min(samples),
            "total_high_s": max(samples),
        }
        row |= dict.fromkeys(("predicted_s", "prediction_ratio", "prediction_low_ratio", "prediction_high_ratio"))
        if mark not in read and len(jobs) > 1:
            predictions = predict(terms, mark)
            ratios = [predicted / sample for predicted, sample in zip(predictions, samples, strict=True)]
            row |= {"predicted_s": statistics.median(predictions), "prediction_ratio": statistics.median(ratios)}
            row |= {"prediction_low_ratio": min(ratios), "prediction_high_ratio": max(ratios)}
        rows.append(row | {"samples_s": samples})
    return rows


def apart(low_a: float, high_a: float, low_b: float, high_b: float) -> bool:
    """Tell whether two ranges have no point in common."""
    return high_a < low_b or high_b < low_a


def crossing_row(a: str, b: str, rows: Sequence[Row]) -> Row:
    """Return where the curves of two back ends meet, from their points, else from their fits."""
    row: Row = {"kind": "crossing", "backend": a, "other": b, "crossing_steps": None}
    row |= {"crossing_low_steps": None, "crossing_high_steps": None, "how": "undecided"}
    points = {(r["backend"], r["steps"]): r for r in rows if r["kind"] == "point"}
    fits = {r["backend"]: r for r in rows if r["kind"] == "fit"}
    steps = sorted(n for name, n in points if name == a and (b, n) in points)
    gaps = [points[a, n]["total_s"] - points[b, n]["total_s"] for n in steps]

    def told(n: int) -> bool:
        """Tell whether the repeats of the two are apart after n steps."""
        return apart(*(points[name, n][key] for name in (a, b) for key in ("total_low_s", "total_high_s")))

    start, other = (a, b) if gaps[0] < 0 else (b, a)
    row |= {"cheaper_at_start": start, "cheaper_later": None}
    if gaps[0] * gaps[-1] < 0 and told(steps[0]) and told(steps[-1]):
        i = max(k for k in range(len(gaps) - 1) if gaps[k] * gaps[-1] <= 0)
        part = gaps[i] / (gaps[i] - gaps[i + 1])
        meeting = steps[i] + part * (steps[i + 1] - steps[i])
        return row | {"how": "measured", "crossing_steps": meeting, "cheaper_later": other}
    step_ranges = [fits[name][key] for name in (a, b) for key in ("step_low_us", "step_high_us")]
    if not apart(*step_ranges):
        return row | {"note": "The step times of the repeats overlap: which is cheaper later can't be told."}
    if not told(steps[0]):
        later = min(a, b, key=lambda name: fits[name]["step_us"])
        note = "The repeats of the first step overlap: which is cheaper at the start can't be told."
        return row | {"cheaper_at_start": None, "cheaper_later": later, "note": note}
    if fits[start]["step_us"] < fits[other]["step_us"]:
        return row | {"how": "never", "cheaper_later": start}

    def meet(slow: str, fast: str, more: str, less: str) -> float:
        """Return N from one choice of the terms: what is invested over what a step saves."""
        invested_s = fits[other][f"compile{more}_s"] - fits[start][f"compile{less}_s"]
        return invested_s / ((fits[start][f"step{slow}_us"] - fits[other][f"step{fast}_us"]) * 1e-6)

    # The curves did not meet in what was run, so no estimate may say that they did.
    low, middle, high = (
        max(n, float(steps[-1]))
        for n in (meet("_high", "_low", "_low", "_high"), meet("", "", "", ""), meet("_low", "_high", "_high", "_low"))
    )
    row |= {"crossing_low_steps": low, "crossing_steps": middle, "crossing_high_steps": high}
    return row | {"how": "extrapolated", "cheaper_later": other}


def run(
    *,
    backends: Sequence[str] = BACKENDS,
    repeats: int = 3,
    seconds: float = 3.0,
    threads: int = 1,
    child_limit_s: float = 120.0,
) -> list[Row]:
    """Run the jobs and return points, fits and crossings (columns: module docstring).

    ``backends``: names for torch.compile; ``repeats``: jobs of each, two at least for a prediction; ``seconds``:
    stepping time of a job; ``child_limit_s``: a job that takes longer is killed, and its back end is a failed row.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    order = random.Random(0)
    alive = ["none", *backends]
    answers: dict[str, list[Row]] = {backend: [] for backend in alive}
    lost: dict[str, tuple[str, str]] = {}
    for _ in range(repeats):
        for backend in order.sample(alive, k=len(alive)):
            job: Row = {"device": device, "threads": threads, "backend": backend, "seconds": seconds}
            with tempfile.TemporaryDirectory(prefix="total-time-", ignore_cleanup_errors=True) as name:
                answer = run_child(job, Path(name), child_limit_s)
            if reason := trouble(backend, device, answer):
                lost[backend] = reason
                alive.remove(backend)
            else:
                answers[backend].append(answer)

    rows: list[Row] = []
    for backend, results in answers.items():
        if backend in lost:
            status, note = lost[backend]
            unknown = ("compile_s", "compile_low_s", "compile_high_s", "step_us", "step_low_us", "step_high_us")
            rows.append({"kind": "fit", "backend": backend, "status": status, "note": note})
            rows[-1] |= dict.fromkeys((*unknown, "max_rel_error"))
        else:
            clocks = [dict(result["clock"]) for result in results]
            rows += curve_rows(backend, clocks, max(result["error"] for result in results))
    # "none" stands first, so it is the other of each back end.
    rows += [crossing_row(b, a, rows) for a, b in itertools.combinations(alive, 2)]
    shared: Row = {"status": "ok", "note": None, "device": device, "threads": threads}
    return [shared | row for row in rows]


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
    tables = {
        "point": ["backend", "steps", "total_s", "total_low_s", "total_high_s", "predicted_s", "prediction_ratio"],
        "fit": ["backend", "status", "compile_s", "compile_low_s", "compile_high_s", "step_us"],
        "crossing": [
            "backend",
            "other",
            "crossing_steps",
            "crossing_low_steps",
            "crossing_high_steps",
            "how",
            "cheaper_at_start",
            "cheaper_later",
        ],
    }
    for kind, columns in tables.items():
        print_table([row for row in rows if row["kind"] == kind], columns)
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
