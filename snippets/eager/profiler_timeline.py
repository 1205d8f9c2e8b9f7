# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 90
# value = 64
# ///
"""The profiler's timeline of one training step in eager mode: what runs when, and what lies between the operators.

The model is an MLP 512-256-128-10 with ReLU and cross-entropy, batch 64, trained by SGD, on one thread. Each phase of
the step stands in a ``torch.profiler.record_function``, so that the profiler's events can be told apart by phase.
``steps`` steps are recorded one after another; the one whose length is the median is shown event by event, and the
phases are medians over all of them.

The profiler is not free: it takes time for every event that it writes down. So the step is also timed without it, by
``torch.utils.benchmark.Timer``; compare the two before believing a timeline to the microsecond.

Rows, told apart by ``kind``; each has status ("ok", or "failed" with the reason in note), device, threads.
    kind = "profile_event": an event of the step that is shown
        name, lane             what ran, and where: "host", or "device" for a kernel of a CUDA device
        step_phase, depth      the phase it belongs to, and how many events it lies inside of; a phase has depth 0
        start_us, duration_us  from the start of the step; how long it took, with what it calls
        self_us                what is left without the events inside of it (None for a kernel)
    kind = "phase_sum": a phase over all recorded steps; the last is "whole step"
        step_phase, phase_us   which, and its median time; phase_q1_us and phase_q3_us are the quartiles
        operators              calls of operators that the phase makes itself (those that operators make not counted)
        inside_us              time inside these operators (median)
        between_us             time between them: Python and what starts the next one (median)
        plain_us               whole step only: the step without the profiler (median of blocks)
        steps                  recorded steps
        samples_us             every recorded step
    kind = "timeline": the events of depth 0 and 1 as a drawing in text
        drawing                a line an event: its name, and where its bar stands in the step
        language               "text": how a page shows the drawing
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
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.benchmark import Timer

Row = dict[str, Any]

BATCH = 64
WIDTHS = (512, 256, 128, 10)
PHASES = ("zero_grad", "forward", "loss", "backward", "optimizer")
WHOLE = "whole step"
WARM_UP = 20
COLUMNS = 64  # of the drawing


# ---------------------------------------------------------------- the step


def build_step(device: str) -> Callable[[], None]:
    """Return a training step of the MLP on a batch of shape (BATCH, 512), float32, the same in every process."""
    torch.manual_seed(0)
    layers: list[torch.nn.Module] = []
    for inputs, outputs in itertools.pairwise(WIDTHS):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1]).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, labels = torch.randn(BATCH, WIDTHS[0], device=device), torch.randint(WIDTHS[-1], (BATCH,), device=device)

    def step() -> None:
        with record_function("zero_grad"):
            optimizer.zero_grad()
        with record_function("forward"):
            scores = model(x)
        with record_function("loss"):
            loss = torch.nn.functional.cross_entropy(scores, labels)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()

    return step


# ---------------------------------------------------------------- reading the profiler's events


def is_operator(name: str) -> bool:
    """Tell whether an event is an operator of PyTorch."""
    return name.startswith("aten::")


def outermost(event: Any) -> list[Any]:
    """Return the operators below an event that no other operator called, in the order of their start."""
    found: list[Any] = []
    for child in event.cpu_children:
        found += [child] if is_operator(child.name) else outermost(child)
    return sorted(found, key=lambda child: child.time_range.start)


def split_into_steps(events: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the recorded steps, each the host events of its phases by name.

    Raises RuntimeError where the profiler lost a phase.
    """
    from torch.autograd import DeviceType

    marks = [event for event in events if event.name in PHASES and event.device_type == DeviceType.CPU]
    marks.sort(key=lambda event: event.time_range.start)
    names = [event.name for event in marks]
    if not marks or len(marks) % len(PHASES) or names != list(PHASES) * (len(marks) // len(PHASES)):
        raise RuntimeError("the profiler's events do not hold every phase of every step")
    groups = (marks[start : start + len(PHASES)] for start in range(0, len(marks), len(PHASES)))
    return [{event.name: event for event in group} for group in groups]


def length(step: dict[str, Any]) -> float:
    """Return how long a recorded step took in us, from the start of its first phase to the end of its last."""
    return float(step[PHASES[-1]].time_range.end - step[PHASES[0]].time_range.start)


def event_rows(step: dict[str, Any], kernels: Sequence[Any]) -> list[Row]:
    """Return the events of one step, each phase before what lies inside it; kernels at the end."""
    zero = step[PHASES[0]].time_range.start
    rows: list[Row] = []

    def add(event: Any, phase: str, depth: int) -> None:
        start, duration = event.time_range.start - zero, event.time_range.elapsed_us()
        inside = sum(child.time_range.elapsed_us() for child in event.cpu_children)
        row: Row = {"kind": "profile_event", "name": event.name, "lane": "host", "step_phase": phase, "depth": depth}
        rows.append(row | {"start_us": start, "duration_us": duration, "self_us": max(0.0, duration - inside)})
        for child in sorted(event.cpu_children, key=lambda child: child.time_range.start):
            add(child, phase, depth + 1)

    for phase in PHASES:
        add(step[phase], phase, 0)
    end = max(row["start_us"] + row["duration_us"] for row in rows)
    for kernel in kernels:
        start = kernel.time_range.start - zero
        # Kernels run behind the host: those of this step may end after it.
        if 0 <= start <= end:
            row = {"kind": "profile_event", "name": kernel.name[:60], "lane": "device", "step_phase": "", "depth": 1}
            rows.append(row | {"start_us": start, "duration_us": kernel.time_range.elapsed_us(), "self_us": None})
    return rows


def drawing(rows: Sequence[Row]) -> str:
    """Return the rows of depth 0 and 1 as text: a line an event, with its bar where it stands in the step."""
    shown = [row for row in rows if row["depth"] <= 1]
    end = max(row["start_us"] + row["duration_us"] for row in shown)
    # "autograd::engine::evaluate_function: AddmmBackward0" -> "AddmmBackward0"
    names = ["  " * row["depth"] + row["name"].rpartition(": ")[2][:32] for row in shown]
    width = max(map(len, names))
    lines = []
    for name, row in zip(names, shown, strict=True):
        first = min(COLUMNS - 1, int(row["start_us"] / end * COLUMNS))
        last = min(COLUMNS, max(first + 1, round((row["start_us"] + row["duration_us"]) / end * COLUMNS)))
        bar = "·" * first + ("█" if row["depth"] == 0 else "▒") * (last - first) + "·" * (COLUMNS - last)
        lines.append(f"{name.ljust(width)} {bar} {row['start_us']:8.1f} {row['duration_us']:8.1f}")
    return "\n".join([f"{'event'.ljust(width)} {''.ljust(COLUMNS)} start/us  took/us", *lines])


# ---------------------------------------------------------------- in the child process


def child_profile(job: Row) -> Row:
    """Record the steps; return the events of the median step, and each step's phases (us)."""
    from torch.autograd import DeviceType

    device = job["device"]
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    step = build_step(device)
    for _ in range(WARM_UP):
        step()
    plain = Timer("step()", globals={"step": step}, num_threads=job["threads"])
    blocks = [plain.timeit(job["steps"]).mean * 1e6 for _ in range(5)]
    # Once for nothing: the first profile of a process sets the profiler up.
    for wanted in (3, job["steps"]):
        with profile(activities=activities) as profiler:
            for _ in range(wanted):
                step()
            if device == "cuda":
                torch.cuda.synchronize()
    events = profiler.events()
    steps = split_into_steps(events)
    phases: dict[str, list[tuple[float, float, int]]] = {phase: [] for phase in (*PHASES, WHOLE)}
    for recorded in steps:
        sums = [0.0, 0]
        for phase in PHASES:
            operators = outermost(recorded[phase])
            inside = sum(operator.time_range.elapsed_us() for operator in operators)
            phases[phase].append((recorded[phase].time_range.elapsed_us(), inside, len(operators)))
            sums[0], sums[1] = sums[0] + inside, sums[1] + len(operators)
        phases[WHOLE].append((length(recorded), sums[0], int(sums[1])))
    chosen = sorted(steps, key=length)[len(steps) // 2]
    kernels = [e for e in events if e.device_type == DeviceType.CUDA and e.name not in PHASES]
    return {"events": event_rows(chosen, kernels), "phases": phases, "plain": statistics.median(blocks)}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = child_profile(job)
    except Exception as error:
        answer = {"failed": f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]}
    Path(job["answer"]).write_text(json.dumps(answer))


# ---------------------------------------------------------------- in the parent process


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and whatever it started."""
    with contextlib.suppress(ProcessLookupError):  # nobody is left
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # Windows has no process groups of this kind
            process.kill()
    process.wait()


def run_child(job: Row, folder: Path, limit_s: float) -> Row:
    """Run one job in a fresh process.

    Returns the child's answer, or {"failed": reason} if it crashed or took longer than ``limit_s`` seconds.
    """
    answer, log = folder / "answer.json", folder / "log.txt"
    answer.unlink(missing_ok=True)
    command = [sys.executable, __file__, "--child", json.dumps(job | {"answer": str(answer)})]
    with log.open("w") as output:
        # A session of its own makes it the leader of a process group.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
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


def phase_row(phase: str, recorded: Sequence[Sequence[float]], plain_us: float) -> Row:
    """Return the row of a phase from (time, inside operators, operators) of each recorded step."""
    times = [own[0] for own in recorded]
    q1, median, q3 = statistics.quantiles(times, n=4, method="inclusive")
    row: Row = {"kind": "phase_sum", "step_phase": phase, "phase_us": median, "phase_q1_us": q1, "phase_q3_us": q3}
    row |= {"operators": int(statistics.median(own[2] for own in recorded))}
    row |= {"inside_us": statistics.median(own[1] for own in recorded)}
    row |= {"between_us": statistics.median(own[0] - own[1] for own in recorded)}
    return row | {"plain_us": plain_us if phase == WHOLE else None, "steps": len(times), "samples_us": times}


def run(*, steps: int = 100, threads: int = 1, child_limit_s: float = 60.0) -> list[Row]:
    """Record a step and return its events, phases and drawing (columns: module docstring).

    ``steps``: how many are recorded, three at least; ``child_limit_s``: a process that takes longer is killed. Raises
    ValueError for fewer than three steps.
    """
    if steps < 3:
        raise ValueError(f"steps = {steps}: the middle one of at least three is shown")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory(prefix="profiler-timeline-") as name:
        job: Row = {"device": device, "threads": threads, "steps": steps}
        answer = run_child(job, Path(name), child_limit_s)
    shared: Row = {"status": "ok", "note": None, "device": device, "threads": threads}
    if "failed" in answer:
        lost = shared | {"status": "failed", "note": answer["failed"]}
        return [
            lost | {"kind": "phase_sum", "step_phase": WHOLE, "phase_us": None, "plain_us": None},
            lost | {"kind": "timeline", "drawing": None},
        ]
    rows = [*answer["events"], {"kind": "timeline", "language": "text", "drawing": drawing(answer["events"])}]
    rows += [phase_row(phase, recorded, answer["plain"]) for phase, recorded in answer["phases"].items()]
    return [shared | row for row in rows]


def print_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print some columns of the rows, aligned; notes follow below."""

    def cell(value: Any) -> str:
        return "-" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)

    lines = [list(columns), *([cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))
    for row in rows:
        if row["note"]:
            print(f"{row[columns[0]]}: {row['note']}")
    print()


def main(arguments: Sequence[str]) -> None:
    """Record and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    rows = run()
    columns = [
        "step_phase",
        "phase_us",
        "phase_q1_us",
        "phase_q3_us",
        "operators",
        "inside_us",
        "between_us",
        "plain_us",
    ]
    print_table([row for row in rows if row["kind"] == "phase_sum"], columns)
    for row in rows:
        if row["kind"] == "timeline" and row["status"] == "ok":
            print(row["drawing"])


if __name__ == "__main__":
    main(sys.argv[1:])
