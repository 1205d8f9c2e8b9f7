# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["cuda", "triton"]
# limit_s = 300
# value = 58
# ///
"""The overwritten output: an output of a CUDA graph that is kept over the next call, and what mends it.

Outputs of a CUDA graph lie in its pool, and the next replay writes the same place. While a function warms up and is
recorded (its first two calls), torch invalidates the old outputs and reading one raises an error. After that, by the
author of the check (pytorch/pytorch#100927), it does not look any more: the old output simply holds the new values.
Each case runs in a fresh process. f is relu(x @ x) under mode="reduce-overhead", on CUDA; x1 and x2 differ.

Columns
    case               what is tried (below)
    written            the lines that try it
    status, note       "ok", or "failed" or "unavailable" with the reason in note
    device, threads    "cuda"; CPU threads of torch
    outcome            "error", "silently overwritten" or "kept"; where nothing is kept "right" or "wrong"
    first_kept         whether the first result still is what it was; None where nothing is kept
    error              the message, where reading it raised one
    max_rel_error      of the second result against float64
Cases
    kept               y1 = f(x1); y2 = f(x2); y1 is read
    marked             the same with torch.compiler.cudagraph_mark_step_begin() before each call
    cloned             y1 = f(x1).clone()
    own buffer         mine.copy_(f(x1))
    kept, warm         as kept, after three calls
    cloned, warm       as cloned, after three calls
    fed back           f(f(x1)): the output is the next input
    fed back, cloned   f(f(x1).clone())
    by hand            torch.cuda.graph without torch.compile: nobody checks
"""

from __future__ import annotations

import contextlib
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
Call = Callable[[torch.Tensor], torch.Tensor]

SIZE = 64
TOLERANCE = 1e-3
NO_CUDA = "CUDA graphs need a CUDA device."
CASES: dict[str, str] = {
    "kept": "y1 = f(x1); y2 = f(x2); y1",
    "marked": "mark_step_begin(); y1 = f(x1); mark_step_begin(); y2 = f(x2); y1",
    "cloned": "y1 = f(x1).clone(); y2 = f(x2); y1",
    "own buffer": "mine.copy_(f(x1)); y2 = f(x2); mine",
    "kept, warm": "f(x1); f(x1); f(x1); y1 = f(x1); y2 = f(x2); y1",
    "cloned, warm": "f(x1); f(x1); f(x1); y1 = f(x1).clone(); y2 = f(x2); y1",
    "fed back": "y2 = f(f(x1))",
    "fed back, cloned": "y2 = f(f(x1).clone())",
    "by hand": "x.copy_(x1); graph.replay(); y1 = y; x.copy_(x2); graph.replay(); y1",
}
OBSERVED = ("outcome", "first_kept", "error", "max_rel_error")


# ---------------------------------------------------------------- in the child process


def cook(x: torch.Tensor) -> torch.Tensor:
    """Return relu(x @ x): (SIZE, SIZE) to (SIZE, SIZE)."""
    return torch.relu(x @ x)


def by_hand(x: torch.Tensor) -> Call:
    """Return a callable that replays a recording of cook: a new input is copied in, the output is the recorded one."""
    place = x.clone()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        cook(place)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = cook(place)

    def replay(x: torch.Tensor) -> torch.Tensor:
        place.copy_(x)
        graph.replay()
        return y

    return replay


def attempt(
    case: str, f: Call, x1: torch.Tensor, x2: torch.Tensor
) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor]:
    """Return the first result as it is at the end, the second result, and the input that the second was made of.

    The first is None where it is only fed back. RuntimeError where torch notices that a result was overwritten.
    """
    if case.startswith("fed back"):
        first = f(x1).clone() if case.endswith("cloned") else f(x1)
        return None, f(first) + 0, cook(x1)
    if case.endswith("warm"):
        for _ in range(3):
            f(x1)
    if case == "marked":
        torch.compiler.cudagraph_mark_step_begin()
    y1 = f(x1)
    if case.startswith("cloned"):
        y1 = y1.clone()
    elif case == "own buffer":
        y1 = torch.empty_like(y1).copy_(y1)
    if case == "marked":
        torch.compiler.cudagraph_mark_step_begin()
    y2 = f(x2)
    # Reading is what raises: adding nothing is reading.
    return y1 + 0, y2 + 0, x2


@torch.no_grad()
def child_case(job: Row) -> Row:
    """Try one case in this process; return its observations."""
    case, device = job["case"], job["device"]
    generator = torch.Generator().manual_seed(0)
    x1, x2 = (torch.randn(SIZE, SIZE, generator=generator).to(device) / SIZE**0.5 for _ in range(2))
    f = by_hand(x1) if case == "by hand" else torch.compile(cook, mode="reduce-overhead")
    wanted = cook(x1)
    row: Row = dict.fromkeys(OBSERVED)
    try:
        first, second, came_from = attempt(case, f, x1, x2)
    except RuntimeError as error:
        if "overwritten" not in str(error):
            raise
        return row | {"outcome": "error", "first_kept": False, "error": str(error)}
    exact = cook(came_from.double())
    row["max_rel_error"] = float((second.double() - exact).abs().max() / exact.abs().max())
    if first is None:
        return row | {"outcome": "right" if row["max_rel_error"] <= TOLERANCE else "wrong"}
    row["first_kept"] = bool(torch.allclose(first, wanted, rtol=TOLERANCE, atol=TOLERANCE))
    return row | {"outcome": "kept" if row["first_kept"] else "silently overwritten"}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(job["threads"])
    try:
        answer = child_case(job)
    except Exception as error:
        answer = {"failed": f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]}
    Path(job["answer"]).write_text(json.dumps(answer))
    sys.stdout.flush()
    # The answer is written; taking a compiler's worth of modules down in good order would cost another second.
    os._exit(0)


# ---------------------------------------------------------------- in the parent process


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and whatever it started (a compile worker)."""
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


def run(*, cases: Sequence[str] = tuple(CASES), threads: int = 1, child_limit_s: float = 90.0) -> list[Row]:
    """Try the cases and return one row each (columns: module docstring).

    ``cases``: names in CASES; ``child_limit_s``: a process that takes longer is killed. Without a CUDA device the
    rows are "unavailable".
    """
    rows: list[Row] = []
    # The cases share their caches: what is compiled is the same, and no time is taken.
    with tempfile.TemporaryDirectory(prefix="overwritten-", ignore_cleanup_errors=True) as name:
        for case in cases:
            row: Row = {"case": case, "written": CASES[case], "status": "ok", "note": None, "device": "cuda"}
            row |= {"threads": threads} | dict.fromkeys(OBSERVED)
            if not torch.cuda.is_available():
                rows.append(row | {"status": "unavailable", "note": NO_CUDA, "device": "cpu"})
                continue
            answer = run_child({"case": case, "device": "cuda", "threads": threads}, Path(name), child_limit_s)
            lost = {"status": "failed", "note": answer.get("failed")}
            rows.append(row | (lost if "failed" in answer else answer))
    return rows


def main(arguments: Sequence[str] = ()) -> None:
    """Try the cases and print what came of them; with ``--child JOB`` do one for the parent process."""
    if list(arguments[:1]) == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        print(f"{row['case']:18} {row['outcome'] or row['note']:22} {row['written']}")
        if row["error"]:
            print(f"{'':18} {row['error']}")


if __name__ == "__main__":
    main(sys.argv[1:])
