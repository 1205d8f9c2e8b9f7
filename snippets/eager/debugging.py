# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 400
# value = 66
# ///
"""What a debugger still sees: prints, hooks, breakpoints, tracebacks under no compiling, eager, aot_eager, inductor.

Each row is one tool of debugging, tried for real: something that must be seen ``expected`` times is counted, under each
way to run a small model. Nothing is judged by reading the documentation.

How it is tried
    One fresh process a way to run. Each tool gets a new model, and Dynamo is reset before it. The model is called
    CALLS times; the first call compiles, so a tool that works only while Dynamo traces is found out by the others.
    ``breakpoint()`` is tried with a ``sys.breakpointhook`` that notes the frame it was called from instead of stopping.
    Stepping is tried with ``sys.settrace``, which is what pdb uses: the lines of ``forward`` that a steady call visits.
    The one tool that may take the process down, an index that is out of range inside compiled code, has a process of
    its own.

The tools (``tool``)
    print                 ``print`` in ``forward``
    print_reordered       the same with print in ``torch._dynamo.config.reorderable_logging_functions``
    print_reordered_here  the same again, where the print stands in forward itself and not in a function that it calls
    attribute             ``self.kept = h`` in ``forward``, read after the call
    hook_before           a forward hook on a submodule, put there before compiling, that adds to a tensor
    hook_list             the same, but it appends to a Python list
    hook_after            the first again, put there after the first call
    hook_after_guarded    the same without ``torch._dynamo.config.skip_nnmodule_hook_guards``
    backward_hook         ``register_full_backward_hook`` on a submodule, put there before compiling
    tensor_hook           ``h.register_hook`` on a tensor inside ``forward``
    breakpoint            ``breakpoint()`` in ``forward``: does it stop
    breakpoint_locals     does it stop with the local ``h`` in sight
    disabled_function     a function under ``torch.compiler.disable`` that ``forward`` calls
    stepping              lines of ``forward`` that a debugger can step through
    stepping_stance       the same call under ``torch.compiler.set_stance("force_eager")``
    shape_error           shapes that do not fit: does the error name the line of ``forward``
    index_error           an index out of range, known at run time only: does the traceback name the line of ``forward``
    anomaly               ``detect_anomaly``: does it name the operator that made NaN, and the line of ``forward``
    dropout               the same random numbers as without compiling, from the same seed
    dropout_fallback      the same with ``torch._inductor.config.fallback_random``

Rows, told apart by ``kind``; each has tool, status ("ok", or "failed" with the reason in note), device, threads.
    kind = "debug_tool": a tool under all ways to run
        outcome_none, outcome_eager, outcome_aot_eager, outcome_inductor
                     "works"; "splits": it works, and breaks the graph; "recompiles": it works, and the graph is
                     captured anew in later calls; "partly": seen, but not as often as expected; "lost": never seen;
                     "error": it raised; "failed": the process did not live through it
    kind = "debug_detail": a tool under one way to run
        backend      "none" is the model without compiling
        seen         how often it was seen
        expected     how often it should have been
        graphs       graphs that were captured; 0 without compiling
        breaks       graph breaks among them
        outcome      as above
        detail       the error, or the name of the frame that stopped; None where there is nothing to say
    kind = "debug_frame": what a debugger finds at the last stop of ``breakpoint()`` in ``forward``
        backend      as above
        frame        name of the frame, and the line that it says it is at
        own_code     whether that frame runs the code of forward, and not code that Dynamo wrote in its name
        frame_locals name and type of every local that has a value there
        holds_h      the local that holds the tensor which forward calls h, found by its numbers; None where none does
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import traceback
import types
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]
Tool = Callable[[str, str], Row]

VARIANTS = ("none", "eager", "aot_eager", "inductor")
CALLS = 3
WIDTH = 8
TOOLS: dict[str, Tool] = {}
FRAME_COLUMNS = ("frame", "own_code", "frame_locals", "holds_h")
# May end the process instead of raising.
RISKY = ("index_error",)


def tool(function: Tool) -> Tool:
    """Enter a function into TOOLS under its own name. It returns seen, expected and detail."""
    TOOLS[function.__name__] = function
    return function


# ---------------------------------------------------------------- what the tools share


class Model(torch.nn.Module):
    """Two linear layers; ``look`` is called between them."""

    def __init__(self, look: Callable[[torch.Tensor], object] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.look = look

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, WIDTH) to (batch, WIDTH)."""
        h = self.first(x)
        if self.look is not None:
            self.look(h)
        return self.second(h)


def inputs(device: str, batch: int = 4) -> torch.Tensor:
    """Return the input, shape (batch, WIDTH)."""
    return torch.randn(batch, WIDTH, generator=torch.Generator().manual_seed(1)).to(device)


def prepare(model: torch.nn.Module, variant: str, device: str) -> Callable[..., torch.Tensor]:
    """Return the model as one calls it: as it is, or compiled with a back end."""
    model = model.to(device)
    return model if variant == "none" else torch.compile(model, backend=variant)


def names_line(error: BaseException, line: str) -> bool:
    """Tell whether an error leads to a line of this file: in its traceback, its message, or those of its causes."""
    found: BaseException | None = error
    while found is not None:
        frames = traceback.extract_tb(found.__traceback__)
        if line in str(found) or any(frame.filename == __file__ and frame.line == line for frame in frames):
            return True
        found = found.__cause__ or found.__context__
    return False


def first_line(error: BaseException) -> str:
    """Return an error as one line, without folders."""
    line = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    return re.sub(r"(?:/[\w.+-]+)+/", "", line)[:200]


# ---------------------------------------------------------------- tools that look into forward


def show(h: torch.Tensor) -> None:
    """Print a number."""
    print("h", h.mean())


class Printing(Model):
    """Prints a number in forward itself."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, WIDTH) to (batch, WIDTH)."""
        h = self.first(x)
        print("h", h.mean())
        return self.second(h)


def printed_lines(model: Model, variant: str, device: str) -> Row:
    """Count the printed lines over CALLS calls."""
    call, x, printed = prepare(model, variant, device), inputs(device), io.StringIO()
    with contextlib.redirect_stdout(printed):
        for _ in range(CALLS):
            call(x)
    return {"seen": printed.getvalue().count("h tensor("), "expected": CALLS}


@tool
def print_(variant: str, device: str) -> Row:
    """A print in a function that forward calls: printed lines over CALLS calls."""
    return printed_lines(Model(show), variant, device)


@tool
def print_reordered(variant: str, device: str) -> Row:
    """The same, with leave to print after the graph has run."""
    import torch._dynamo.config

    with torch._dynamo.config.patch(reorderable_logging_functions={print}):
        return print_(variant, device)


@tool
def print_reordered_here(variant: str, device: str) -> Row:
    """The same where the print stands in forward itself."""
    import torch._dynamo.config

    with torch._dynamo.config.patch(reorderable_logging_functions={print}):
        return printed_lines(Printing(), variant, device)


class Keeping(Model):
    """Keeps what lies between the layers."""

    kept: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, WIDTH) to (batch, WIDTH)."""
        h = self.first(x)
        self.kept = h
        return self.second(h)


@tool
def attribute(variant: str, device: str) -> Row:
    """A tensor kept on the module: calls after which it holds what it should."""
    model = Keeping()
    call, seen = prepare(model, variant, device), 0
    for i in range(CALLS):
        x = inputs(device) + i
        call(x)
        seen += torch.allclose(model.kept, model.first(x), atol=1e-5)
    return {"seen": seen, "expected": CALLS}


def counting_hook(count: torch.Tensor) -> Callable[..., None]:
    """Return a forward hook that adds one to a tensor: an operator like any other."""

    def hook(module: torch.nn.Module, arguments: object, output: torch.Tensor) -> None:
        count.add_(1)

    return hook


@tool
def hook_before(variant: str, device: str) -> Row:
    """A forward hook that is there before compiling."""
    model, count = Model(), torch.zeros((), device=device)
    model.first.register_forward_hook(counting_hook(count))
    call, x = prepare(model, variant, device), inputs(device)
    for _ in range(CALLS):
        call(x)
    return {"seen": int(count), "expected": CALLS}


@tool
def hook_list(variant: str, device: str) -> Row:
    """The same, but the hook appends to a Python list."""
    model = Model()
    noted: list[torch.Size] = []
    model.first.register_forward_hook(lambda module, arguments, output: noted.append(output.shape))
    call, x = prepare(model, variant, device), inputs(device)
    for _ in range(CALLS):
        call(x)
    return {"seen": len(noted), "expected": CALLS}


@tool
def hook_after(variant: str, device: str) -> Row:
    """A forward hook put on after the first call."""
    model, count = Model(), torch.zeros((), device=device)
    call, x = prepare(model, variant, device), inputs(device)
    call(x)
    model.first.register_forward_hook(counting_hook(count))
    for _ in range(CALLS):
        call(x)
    return {"seen": int(count), "expected": CALLS}


@tool
def hook_after_guarded(variant: str, device: str) -> Row:
    """The same, with guards on hooks."""
    import torch._dynamo.config

    with torch._dynamo.config.patch(skip_nnmodule_hook_guards=False):
        return hook_after(variant, device)


@tool
def backward_hook(variant: str, device: str) -> Row:
    """A full backward hook on a submodule."""
    model = Model()
    noted: list[torch.Size] = []
    model.first.register_full_backward_hook(lambda module, before, after: noted.append(after[0].shape))
    call, x = prepare(model, variant, device), inputs(device).requires_grad_()
    for _ in range(CALLS):
        call(x).sum().backward()
    return {"seen": len(noted), "expected": CALLS}


@tool
def tensor_hook(variant: str, device: str) -> Row:
    """A hook on a tensor inside forward, which gets its gradient."""
    noted: list[torch.Size] = []

    def look(h: torch.Tensor) -> None:
        h.register_hook(lambda gradient: noted.append(gradient.shape))

    call, x = prepare(Model(look), variant, device), inputs(device)
    for _ in range(CALLS):
        call(x).sum().backward()
    return {"seen": len(noted), "expected": CALLS}


class Stopping(Model):
    """Stops between the layers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, WIDTH) to (batch, WIDTH)."""
        h = self.first(x)
        breakpoint()
        return self.second(h)


class Stop:
    """What a debugger finds in the frame that called ``breakpoint()``, noted while it stands there."""

    def __init__(self, frame: types.FrameType) -> None:
        where = traceback.extract_stack(frame, limit=1)[0]
        self.frame = f"{where.name}: {where.line}"
        self.own_code = frame.f_code is Stopping.forward.__code__
        # A copy: what the frame does later is not what the debugger saw.
        self.locals = dict(frame.f_locals)

    def holder(self, wanted: torch.Tensor) -> str | None:
        """Return the local that holds these numbers, be it in a list."""
        for name, value in self.locals.items():
            for one in value if isinstance(value, list | tuple) else [value]:
                if isinstance(one, torch.Tensor) and one.shape == wanted.shape and torch.allclose(one, wanted):
                    return name
        return None


def stops_of(variant: str, device: str) -> list[Stop]:
    """Return where ``breakpoint()`` would have stopped."""
    stops: list[Stop] = []

    def stop() -> None:
        stops.append(Stop(sys._getframe(1)))

    sys.breakpointhook = stop
    try:
        call, x = prepare(Stopping(), variant, device), inputs(device)
        for _ in range(CALLS):
            call(x)
    finally:
        sys.breakpointhook = sys.__breakpointhook__
    return stops


@tool
def breakpoint_(variant: str, device: str) -> Row:
    """A breakpoint in forward: stops; detail is the line of the last."""
    stops = stops_of(variant, device)
    return {"seen": len(stops), "expected": CALLS, "detail": stops[-1].frame if stops else None}


@tool
def breakpoint_locals(variant: str, device: str) -> Row:
    """The same, with the local ``h`` in sight; detail: the locals of the last stop."""
    stops = stops_of(variant, device)
    seen = sum(isinstance(stop.locals.get("h"), torch.Tensor) for stop in stops)
    return {"seen": seen, "expected": CALLS, "detail": ", ".join(stops[-1].locals) if stops else None}


def last_stop(variant: str, device: str) -> Row:
    """Return what a debugger finds at the last stop of a breakpoint in forward (columns: module docstring)."""
    import torch._dynamo

    torch._dynamo.reset()
    stops = stops_of(variant, device)
    if not stops:
        return dict.fromkeys(FRAME_COLUMNS)
    stop = stops[-1]
    wanted = Stopping().to(device).first(inputs(device))
    return {
        "frame": stop.frame,
        "own_code": stop.own_code,
        "frame_locals": ", ".join(f"{name}: {type(value).__name__}" for name, value in stop.locals.items()),
        "holds_h": stop.holder(wanted),
    }


@tool
def disabled_function(variant: str, device: str) -> Row:
    """A function that torch.compile leaves alone: calls of it, with a real tensor."""
    noted: list[bool] = []

    @torch.compiler.disable
    def look(h: torch.Tensor) -> None:
        noted.append(bool(torch.isfinite(h).all()))

    call, x = prepare(Model(look), variant, device), inputs(device)
    for _ in range(CALLS):
        call(x)
    return {"seen": noted.count(True), "expected": CALLS}


# ---------------------------------------------------------------- stepping


class Steps(Model):
    """A forward of four lines."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (batch, WIDTH) to (batch, WIDTH)."""
        h = self.first(x)
        h = h + x
        h = self.second(h)
        return h + x


def visited_lines(call: Callable[..., torch.Tensor], x: torch.Tensor) -> int:
    """Return how many lines of Steps.forward a debugger would stop at in one call."""
    code = Steps.forward.__code__
    body = range(code.co_firstlineno + 1, max(line for *_, line in code.co_lines() if line) + 1)
    seen: set[int] = set()

    def note(frame: types.FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename == code.co_filename and event == "line" and frame.f_lineno in body:
            seen.add(frame.f_lineno)
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        call(x)
    finally:
        sys.settrace(before)
    return len(seen)


@tool
def stepping(variant: str, device: str) -> Row:
    """Lines of forward that a debugger can step through once all is compiled."""
    call, x = prepare(Steps(), variant, device), inputs(device)
    for _ in range(CALLS):
        call(x)
    return {"seen": visited_lines(call, x), "expected": visited_lines(Steps().to(device), x)}


@tool
def stepping_stance(variant: str, device: str) -> Row:
    """The same under a stance that runs everything without compiling."""
    call, x = prepare(Steps(), variant, device), inputs(device)
    for _ in range(CALLS):
        call(x)
    with torch.compiler.set_stance("force_eager"):
        return {"seen": visited_lines(call, x), "expected": visited_lines(Steps().to(device), x)}


# ---------------------------------------------------------------- tools that explain an error


class Looking(torch.nn.Module):
    """Looks rows up in a table: an index out of range is known only when the numbers are."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(10, WIDTH)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Map (batch,) to (batch, WIDTH)."""
        rows = self.table(ids)
        return rows.relu()


def led_to(call: Callable[[], object], line: str) -> Row:
    """Call something that must fail; seen is 1 where its error leads to ``line`` of this file."""
    try:
        call()
    except Exception as error:
        return {"seen": int(names_line(error, line)), "expected": 1, "detail": first_line(error)}
    return {"seen": 0, "expected": 1, "detail": "no error was raised"}


@tool
def shape_error(variant: str, device: str) -> Row:
    """An input that is too wide for the first layer."""
    call = prepare(Steps(), variant, device)
    return led_to(lambda: call(torch.ones(4, WIDTH + 1, device=device)), "h = self.first(x)")


@tool
def index_error(variant: str, device: str) -> Row:
    """An index that is out of range, after a call with good ones."""
    call = prepare(Looking(), variant, device)
    call(torch.tensor([1, 2, 3], device=device))

    def bad() -> None:
        call(torch.tensor([1, 2, 99], device=device))
        if device == "cuda":
            torch.cuda.synchronize()

    return led_to(bad, "rows = self.table(ids)")


class Rooting(torch.nn.Module):
    """Its gradient is 0 / 0."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map any shape to itself."""
        root = torch.sqrt(x)
        return root * 0.0


@tool
def anomaly(variant: str, device: str) -> Row:
    """A NaN in the backward under detect_anomaly: is the operator named (one), and the line of forward (two)."""
    call, x = prepare(Rooting(), variant, device), torch.zeros(4, device=device, requires_grad=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            with torch.autograd.detect_anomaly(check_nan=True):
                call(x).sum().backward()
        except RuntimeError as error:
            words = "\n".join(str(warning.message) for warning in told) + str(error)
            seen = ("Sqrt" in str(error)) + ("root = torch.sqrt(x)" in words)
            return {"seen": seen, "expected": 2, "detail": first_line(error)}
    return {"seen": 0, "expected": 2, "detail": "no error was raised"}


@tool
def dropout(variant: str, device: str) -> Row:
    """Dropout from the same seed: does it drop the same elements as without compiling?"""
    model = torch.nn.Dropout(0.5)
    call, x = prepare(model, variant, device), torch.ones(256, device=device)
    call(x)
    torch.manual_seed(0)
    result = call(x)
    torch.manual_seed(0)
    return {"seen": int(torch.equal(result, model(x))), "expected": 1}


@tool
def dropout_fallback(variant: str, device: str) -> Row:
    """The same with Inductor told to call PyTorch's own generator."""
    import torch._inductor.config

    with torch._inductor.config.patch(fallback_random=True):
        return dropout(variant, device)


# ---------------------------------------------------------------- in the child process


def outcome(seen: int, expected: int, graphs: int, breaks: int) -> str:
    """Return the word for what was seen."""
    if seen == expected:
        return "splits" if breaks else "recompiles" if graphs > 1 else "works"
    return "partly" if seen else "lost"


def try_tool(name: str, variant: str, device: str) -> Row:
    """Try one tool under one way to run, from a clean Dynamo."""
    import torch._dynamo
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    row: Row = dict.fromkeys(("seen", "expected", "graphs", "breaks", "detail")) | {"outcome": "error"}
    try:
        row |= TOOLS[name](variant, device)
        row["graphs"], row["breaks"] = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
        row["outcome"] = outcome(row["seen"], row["expected"], row["graphs"], row["breaks"])
    except Exception as error:
        row["detail"] = first_line(error)
    return row


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    answer: Row = {name: try_tool(name, job["variant"], job["device"]) for name in job["tools"]}
    if breakpoint_.__name__ in job["tools"]:
        try:
            answer["frame"] = {"status": "ok", "note": None} | last_stop(job["variant"], job["device"])
        except Exception as error:
            answer["frame"] = {"status": "failed", "note": first_line(error)} | dict.fromkeys(FRAME_COLUMNS)
    Path(job["answer"]).write_text(json.dumps(answer))
    sys.stdout.flush()
    # The answer is written; taking a compiler's worth of modules down in good order would cost another second.
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
            env=os.environ | {name: str(path) for name, path in caches.items()},
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


def run(
    *,
    variants: Sequence[str] = VARIANTS,
    tools: Sequence[str] | None = None,
    threads: int = 1,
    child_limit_s: float = 180.0,
) -> list[Row]:
    """Try the tools and return their rows (columns: module docstring).

    ``variants``: "none" and names for torch.compile; ``tools``: names of the docstring, None for all;
    ``child_limit_s``: a process that takes longer is killed. Raises ValueError for an unknown tool.
    """
    names = [name.rstrip("_") for name in TOOLS]
    wanted = list(names if tools is None else tools)
    if unknown := set(wanted) - set(names):
        raise ValueError(f"unknown tools {sorted(unknown)}: choose from {', '.join(names)}")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    groups = [[name for name in wanted if name not in RISKY], *([name] for name in wanted if name in RISKY)]
    # The functions of print and breakpoint carry an underscore, not to hide what Python calls so.
    full = {name.rstrip("_"): name for name in TOOLS}
    found: dict[tuple[str, str], Row] = {}
    frames: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="debugging-", ignore_cleanup_errors=True) as folder:
        for variant in variants:
            for group in filter(None, groups):
                job: Row = {"variant": variant, "device": device, "threads": threads}
                answer = run_child(job | {"tools": [full[name] for name in group]}, Path(folder), child_limit_s)
                if "breakpoint" in group:
                    dead: Row = {"status": "failed", "note": answer.get("failed")} | dict.fromkeys(FRAME_COLUMNS)
                    frames[variant] = dead if "failed" in answer else answer["frame"]
                for name in group:
                    lost: Row = dict.fromkeys(("seen", "expected", "graphs", "breaks", "detail"))
                    lost["outcome"] = "failed"
                    if "failed" in answer:
                        lost |= {"status": "failed", "note": answer["failed"]}
                        found[name, variant] = lost
                    else:
                        found[name, variant] = {"status": "ok", "note": None} | answer[full[name]]

    shared: Row = {"status": "ok", "note": None, "device": device, "threads": threads}
    rows: list[Row] = []
    for name in wanted:
        row = shared | {"kind": "debug_tool", "tool": name}
        rows.append(row | {f"outcome_{variant}": found[name, variant]["outcome"] for variant in variants})
    for (name, variant), detail in found.items():
        rows.append(shared | {"kind": "debug_detail", "tool": name, "backend": variant} | detail)
    for variant, frame in frames.items():
        rows.append(shared | {"kind": "debug_frame", "tool": "breakpoint", "backend": variant} | frame)
    return rows


def print_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print some columns of the rows, aligned; notes follow below."""
    lines = [list(columns), *([str(row.get(column, "-")) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)))
    for row in rows:
        if row["note"]:
            print(f"{row[columns[0]]}: {row['note']}")
    print()


def main(arguments: Sequence[str]) -> None:
    """Try and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    rows = run()
    print_table([row for row in rows if row["kind"] == "debug_tool"], ["tool", *(f"outcome_{v}" for v in VARIANTS)])
    columns = ["tool", "backend", "seen", "expected", "graphs", "breaks", "outcome", "detail"]
    print_table([row for row in rows if row["kind"] == "debug_detail"], columns)
    print_table([row for row in rows if row["kind"] == "debug_frame"], ["backend", *FRAME_COLUMNS])


if __name__ == "__main__":
    main(sys.argv[1:])
