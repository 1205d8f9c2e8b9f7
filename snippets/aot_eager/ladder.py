# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 400
# value = 61
# ///
"""The ladder of back ends: which layer of torch.compile breaks? Faults are planted, and the ladder has to find them.

Each rung adds one layer to the rung below: ``eager`` captures with Dynamo and runs the graph; ``aot_eager`` adds
AOTAutograd, with the min-cut partitioner that ``inductor`` has too; ``aot_eager_decomp_partition`` adds Inductor's
decompositions and cuts in the same way; ``inductor`` adds lowering, fusion and code generation. The first rung that
raises, or whose numbers differ from those without compiling, names the layer. Output *and* gradients are compared: a
fault in the backward spares the output.

The faults (``fault``; each in a process of its own, so that nothing planted stays)
    nothing            none: the ladder must be climbed to the end
    branch             a branch on a tensor's value under ``fullgraph=True``: Dynamo can't capture it
    double_backward    a gradient of a gradient: AOTAutograd does not do it
    decomposition      the derivative of ReLU planted as Inductor's decomposition of ``aten.gelu_backward``
    codegen            torch's own planted fault in the code that Inductor generates for ``relu``
                       (``inject_relu_bug_TESTING_ONLY``)

For the last two torch's bisector is asked as well (``torch._inductor.compiler_bisector``): it climbs the same ladder,
then turns single passes, decompositions and lowerings off until it knows which one.

To use the ladder on a model of your own: copy ``climb`` and ``worst_error``, and give it a function that takes the name
of a back end, builds your model anew, runs one step and returns its output and gradients.

Rows, told apart by ``kind``; each has fault, status ("ok", or "failed" with the reason in note), device.
    kind = "rung": one back end
        backend         which
        outcome         "same", "differs" (by more than TOLERANCE) or "raises"
        max_rel_error   of output and gradients, against the step without compiling; None where it raised
        detail          the error as one line; None where there was none
    kind = "found": what the ladder says
        planted, found  the layer with the fault, and the layer of the first rung that is not "same": "dynamo",
                        "aotautograd", "decompositions", "inductor" or "no layer"
        first_bad       that rung, or None
        agrees          whether the two are the same
    kind = "bisection": what torch's bisector says
        backend, subsystem, number   rung, part of it, and which application of that part makes the difference
        detail                       what it knows about it
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]
Results = list[torch.Tensor]

RUNGS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
# The layer that each rung adds to the one below.
LAYERS = {"eager": "dynamo", "aot_eager": "aotautograd", "aot_eager_decomp_partition": "decompositions"}
LAYERS |= {"inductor": "inductor"}
PLANTED = {
    "nothing": "no layer",
    "branch": "dynamo",
    "double_backward": "aotautograd",
    "decomposition": "decompositions",
    "codegen": "inductor",
}
BISECTED = ("decomposition", "codegen")
TOLERANCE = 1e-4
WIDTH = 16


# ---------------------------------------------------------------- the ladder


def worst_error(results: Results, reference: Results) -> float:
    """Return the largest absolute error over the largest absolute value, of all pairs."""
    errors = [float((a - b).abs().max() / b.abs().max()) for a, b in zip(results, reference, strict=True)]
    # max() would let a NaN pass where it stands first.
    return max(errors) if all(error == error for error in errors) else float("nan")


def climb(step: Callable[[str | None], Results]) -> list[Row]:
    """Return what each rung does; ``step(backend)`` runs anew and returns output and gradients (None: no compiling)."""
    reference = step(None)
    rows: list[Row] = []
    for backend in RUNGS:
        torch._dynamo.reset()
        row: Row = {"backend": backend, "outcome": "raises", "max_rel_error": None, "detail": None}
        try:
            error = worst_error(step(backend), reference)
        except Exception as caught:
            # Compiling happens at the first call and, for the backward, at the first backward: both are in step().
            row["detail"] = f"{type(caught).__name__}: {caught}".strip().splitlines()[0][:200]
        else:
            row["max_rel_error"] = error if error == error else None
            row["outcome"] = "same" if error <= TOLERANCE else "differs"
        rows.append(row)
    return rows


def first_bad(rungs: Sequence[Row]) -> str | None:
    """Return the lowest rung that is not "same", or None."""
    return next((row["backend"] for row in rungs if row["outcome"] != "same"), None)


# ---------------------------------------------------------------- the steps and the faults


def weights(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x and w, shape (WIDTH, WIDTH), both wanting gradients, the same at every call."""
    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(WIDTH, WIDTH, generator=generator).to(device) for _ in range(2))
    return x.requires_grad_(), w.requires_grad_()


def plain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return a layer with GELU and ReLU, shape (WIDTH, WIDTH)."""
    h = torch.nn.functional.gelu(x @ w)
    return torch.relu(h - 0.1) + h


def branching(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Return the same, doubled if it is positive on the whole."""
    h = plain(x, w)
    if h.sum() > 0:
        h = 2 * h
    return h


def take_step(function: Callable[..., torch.Tensor], device: str, backend: str | None, *, twice: bool) -> Results:
    """Run forward and backward, return output and gradients; ``twice``: a penalty on the gradient, differentiated."""
    x, w = weights(device)
    call = function if backend is None else torch.compile(function, backend=backend, fullgraph=True)
    y = call(x, w)
    if twice:
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (slope**2).sum().backward()
    else:
        y.sum().backward()
    return [y.detach(), *(leaf.grad for leaf in (x, w) if leaf.grad is not None)]


def plant(fault: str) -> None:
    """Put a fault into this process."""
    if fault == "decomposition":
        from torch._inductor.decomposition import select_decomp_table

        def derivative_of_relu(gradient: torch.Tensor, x: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
            return gradient * (x > 0)

        select_decomp_table()[torch.ops.aten.gelu_backward.default] = derivative_of_relu
    if fault == "codegen":
        import torch._inductor.config as inductor_config

        inductor_config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
        inductor_config.triton.inject_relu_bug_TESTING_ONLY = "accuracy"


# ---------------------------------------------------------------- in the child process


def bisect(step: Callable[[str | None], Results]) -> Row:
    """Ask torch's bisector; it puts its own back end in place of the one that is asked for."""
    from torch._inductor.compiler_bisector import CompilerBisector

    reference = step(None)

    def is_good() -> bool:
        torch._dynamo.reset()
        try:
            return worst_error(step("inductor"), reference) <= TOLERANCE
        except Exception:
            return False

    # It tells what it does; the result says all that is needed.
    with contextlib.redirect_stdout(io.StringIO()):
        result = CompilerBisector.do_bisect(is_good)
    if result is None:
        return {"backend": None, "subsystem": None, "number": None, "detail": None}
    row: Row = {"backend": result.backend, "subsystem": result.subsystem, "number": result.bisect_number}
    return row | {"detail": result.debug_info and str(result.debug_info)[:200]}


def child_main(job: Row) -> None:
    """Plant a fault, climb, bisect if told to, and write the answer beside it."""
    torch.set_num_threads(1)
    fault, device = job["fault"], job["device"]
    function = branching if fault == "branch" else plain

    def step(backend: str | None) -> Results:
        return take_step(function, device, backend, twice=fault == "double_backward")

    try:
        plant(fault)
        answer: Row = {"rungs": climb(step)} | ({"bisection": bisect(step)} if job["bisect"] else {})
    except Exception as error:
        answer = {"failed": f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]}
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
    """Run one job in a fresh process, with caches of its own and the precompiled header of all in ``folder``.

    Returns the child's answer, or {"failed": reason} if it crashed or took longer than ``limit_s`` seconds.
    """
    answer, log = folder / "answer.json", folder / "log.txt"
    answer.unlink(missing_ok=True)
    own = Path(tempfile.mkdtemp(dir=folder))
    caches = {"TMPDIR": folder, "TORCHINDUCTOR_CACHE_DIR": own, "TRITON_CACHE_DIR": own}
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
    faults: Sequence[str] = tuple(PLANTED),
    bisected: Sequence[str] = BISECTED,
    child_limit_s: float = 180.0,
) -> list[Row]:
    """Climb the ladder for each fault and return the rows (columns: module docstring).

    ``faults``: names of the docstring; ``bisected``: those for which torch's bisector is asked too; ``child_limit_s``:
    a process that takes longer is killed. Raises ValueError for an unknown fault.
    """
    if unknown := set(faults) - set(PLANTED):
        raise ValueError(f"unknown faults {sorted(unknown)}: choose from {', '.join(PLANTED)}")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="ladder-", ignore_cleanup_errors=True) as name:
        for fault in faults:
            own: Row = {"fault": fault, "status": "ok", "note": None, "device": device}
            job = {"fault": fault, "device": device, "bisect": fault in bisected}
            answer = run_child(job, Path(name), child_limit_s)
            found: Row = {"kind": "found", "planted": PLANTED[fault], "found": None, "first_bad": None, "agrees": None}
            if "failed" in answer:
                rows.append(own | found | {"status": "failed", "note": answer["failed"]})
                continue
            rows += [own | {"kind": "rung"} | row for row in answer["rungs"]]
            bad = first_bad(answer["rungs"])
            found |= {"found": LAYERS[bad] if bad else "no layer", "first_bad": bad}
            rows.append(own | found | {"agrees": found["found"] == found["planted"]})
            if fault in bisected:
                rows.append(own | {"kind": "bisection"} | answer["bisection"])
    return rows


def print_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print some columns of the rows, aligned; notes follow below."""

    def cell(value: Any) -> str:
        return "-" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)

    lines = [list(columns), *([cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)))
    for row in rows:
        if row["note"]:
            print(f"{row[columns[0]]}: {row['note']}")
    print()


def main(arguments: Sequence[str]) -> None:
    """Climb and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    rows = run()
    columns = {
        "rung": ["fault", "backend", "outcome", "max_rel_error", "detail"],
        "found": ["fault", "status", "planted", "found", "first_bad", "agrees"],
        "bisection": ["fault", "status", "backend", "subsystem", "number", "detail"],
    }
    for kind, names in columns.items():
        if chosen := [row for row in rows if row["kind"] == kind]:
            print_table(chosen, names)


if __name__ == "__main__":
    main(sys.argv[1:])
