# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 400
# value = 74
# ///
"""Every back end that this torch knows by name, each called once: does it run, and if not, when does it say so?

The names come from ``torch.compiler.list_backends``: those that it lists by default, and with other ``exclude_tags``
those that are meant for debugging or marked experimental. A package that is installed may add names of its own.

Each compiles the same small function, ``(x * 2 + 1).relu().sum()`` on 64 floats, with a gradient wanted, calls it and
goes backward. Output and gradient are compared with the function without compiling. That a call succeeds does not mean
that the back end did what its name says: ``cudagraphs`` on a CPU records nothing and runs all the same.

All names are tried one after another in a child process, from a clean Dynamo; one that takes the process down is a
failed row, and the others go on in a new process.

Columns
    backend            the name, as ``torch.compile(backend=...)`` takes it
    listed             whether ``list_backends()`` shows it by default
    tag                "debug", "experimental", or None
    outcome            "runs"; "wrong" where output or gradient differ; "error"
    raised_at          where an error came: "torch.compile()", "first call", "backward"; "never" where none did
    error, message     name of the exception and its first line
    status, note       "ok" (also for an error that was caught: that is the finding), "failed" where the process died
    device             "cuda" or "cpu"
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]

ELEMENTS = 64
TOLERANCE = 1e-5
#: Names that ``list_backends`` leaves out unless asked.
TAGS = ("debug", "experimental")


def names() -> dict[str, Row]:
    """Return the known names with ``listed`` and ``tag``; those listed by default come first."""
    everything = torch.compiler.list_backends(exclude_tags=())
    by_default = set(torch.compiler.list_backends())
    without = {tag: set(torch.compiler.list_backends(exclude_tags=(tag,))) for tag in TAGS}
    found: dict[str, Row] = {}
    for name in sorted(everything, key=lambda name: (name not in by_default, name)):
        tags = [tag for tag in TAGS if name not in without[tag]]
        found[name] = {"listed": name in by_default, "tag": " ".join(tags) or None}
    return found


def small(x: torch.Tensor) -> torch.Tensor:
    """Return a scalar of a vector."""
    return (x * 2 + 1).relu().sum()


def example(device: str) -> torch.Tensor:
    """Return the vector, shape (ELEMENTS,), that wants a gradient."""
    return torch.linspace(-1, 1, ELEMENTS, device=device).requires_grad_()


def first_line(error: BaseException) -> str:
    """Return the first line of a message that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else ""


def attempt(backend: str, device: str) -> Row:
    """Compile, call and differentiate with one back end; returns outcome, raised_at, error and message."""
    torch._dynamo.reset()
    plain, x = example(device), example(device)
    expected = small(plain)
    expected.backward()
    at = "torch.compile()"
    try:
        compiled = torch.compile(small, backend=backend)
        at = "first call"
        result = compiled(x)
        at = "backward"
        result.backward()
    except Exception as error:
        inner = getattr(error, "inner_exception", None) or error
        return {"outcome": "error", "raised_at": at, "error": type(inner).__name__, "message": first_line(inner)}
    right = x.grad is not None and all(
        torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE) for a, b in ((result, expected), (x.grad, plain.grad))
    )
    return {"outcome": "runs" if right else "wrong", "raised_at": "never", "error": None, "message": None}


# ---------------------------------------------------------------- in the child process


def child_main(job: Row) -> None:
    """Try back ends and write a line of JSON for each into the answer file, as soon as it is known."""
    with Path(job["answer"]).open("a") as answer:
        for name in job["backends"]:
            answer.write(json.dumps({"backend": name, **attempt(name, job["device"])}) + "\n")
            answer.flush()
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


def run_child(job: Row, folder: Path, limit_s: float) -> str | None:
    """Run one job in a fresh process with all caches below ``folder``; return what went wrong, or None."""
    log = folder / "log.txt"
    environment = os.environ | {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    command = [sys.executable, __file__, "--child", json.dumps(job)]
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
            return f"no answer within {limit_s:g} s"
        finally:
            end_group(process)
    if code == 0:
        return None
    if code < 0:
        return f"the process died of signal {signal.Signals(-code).name}"
    last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
    return f"the process ended with code {code}: {last[:300]}"


def answers_in(path: Path) -> dict[str, Row]:
    """Return the lines of the answer file by back end; a line that was cut off is left out."""
    found: dict[str, Row] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            answer: Row = json.loads(line)
            found[answer.pop("backend")] = answer
    return found


def run(*, backends: Sequence[str] | None = None, child_limit_s: float = 180.0) -> list[Row]:
    """Try the back ends (None: all that torch knows) and return one row each (columns: module docstring)."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    known = names()
    wanted = list(known) if backends is None else list(backends)
    answers: dict[str, Row] = {}
    lost: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="backend-list-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "answers.jsonl")
        while left := [name for name in wanted if name not in answers and name not in lost]:
            trouble = run_child({"backends": left, "answer": str(path), "device": device}, Path(folder), child_limit_s)
            answers |= answers_in(path)
            first = next((name for name in left if name not in answers), None)
            if first is not None:
                # The first without an answer took the process down; the others get a new one.
                lost[first] = trouble or "the process ended without an answer"
    rows: list[Row] = []
    for name in wanted:
        row: Row = {"backend": name} | known.get(name, {"listed": False, "tag": None})
        row |= dict.fromkeys(("outcome", "raised_at", "error", "message")) | answers.get(name, {})
        row |= {"status": "failed" if name in lost else "ok", "note": lost.get(name), "device": device}
        rows.append(row)
    return rows


def main(arguments: Sequence[str]) -> None:
    """Try and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        listed = "listed" if row["listed"] else row["tag"] or "-"
        where = (
            "" if row["raised_at"] in (None, "never") else f"at {row['raised_at']}: {row['error']}: {row['message']}"
        )
        print(f"{row['backend']:40} {listed:14} {row['outcome'] or row['status']:6} {where or row['note'] or ''}"[:160])


if __name__ == "__main__":
    main(sys.argv[1:])
