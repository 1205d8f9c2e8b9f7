# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 500
# value = 50
# ///
"""From the start of a process to its first answer, by what its container image brings along.

One small feed-forward block (linear, layer norm, GELU, linear, residual), inference, ``torch.compile`` with Inductor.
Every start is a fresh process in a folder of the same path, as in a container: the folder is emptied and only what the
image "holds" is put back.

    uncompiled   no torch.compile: what the start costs anyway
    empty        nothing: the first start ever
    header       only TMPDIR, where Inductor keeps its precompiled C++ header: the model is new, the compiler is not
    artifacts    one file made by torch.compiler.save_cache_artifacts(), loaded before torch.compile
    cache        the folder TORCHINDUCTOR_CACHE_DIR (and Triton's), as the first start left it; the header is made again
    both         that folder and TMPDIR

The clock starts when the process is launched. ``boot_s`` ends when the model and its input stand ready (so it holds
the import of torch), ``first_call_s`` goes on until the first answer, with the import of Dynamo and Inductor, and with
the loading of the artifacts. Starts are repeated, in a new order each time.
Files may lie in the operating system's page cache: a new machine would read them from its disk first.

Columns
    start               which of these
    status, note        "ok"; "failed", "wrong", "not measured" with the reason in note; then times are None
    device, threads     "cpu" or "cuda"; CPU threads of torch
    ready_s             boot_s + first_call_s, median of the repeats; ready_low_s, ready_high_s: least and greatest
    boot_s              launch of the process until the model is built, median
    first_call_s        torch.compile() and the first call, median
    cache_hits          graphs that came out of a cache instead of being compiled
    built               libraries that the C++ compiler made during this start; the header is none
    shipped_mib         size of what the image has to hold for it, MiB
    max_rel_error       largest absolute error over the largest absolute value of a float64 reference
    repeats             how many starts
    samples_ready_s     every start
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Row = dict[str, Any]

TOLERANCE = 1e-4
STARTS = ("uncompiled", "empty", "header", "artifacts", "cache", "both")
#: What of the folder a start finds: the names below it.
HOLDS: dict[str, tuple[str, ...]] = {
    "uncompiled": (),
    "empty": (),
    "header": ("tmp",),
    "artifacts": ("artifacts.bin",),
    "cache": ("cache",),
    "both": ("tmp", "cache"),
}
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)


class Block(nn.Module):
    """Linear, layer norm, GELU, linear, residual: (batch, width) to the same."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm = nn.LayerNorm(4 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Same shape out as in."""
        return x + self.down(F.gelu(self.norm(self.up(x))))


def build(device: str) -> tuple[nn.Module, torch.Tensor]:
    """Return the block in eval mode and its input, shape (32, 256), float32, the same in every process."""
    torch.manual_seed(0)
    return Block(256).eval().to(device), torch.randn(32, 256).to(device)


# ---------------------------------------------------------------- in the child process


def hits() -> int:
    """Return how many graphs came out of a cache in this process."""
    from torch._dynamo.utils import counters

    return max(counters["inductor"]["fxgraph_cache_hit"], counters["aot_autograd"]["autograd_cache_hit"])


def captured_graphs() -> int:
    """Return how many graphs this process has captured and had compiled: 0 where torch.compile was turned off."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


@torch.no_grad()
def child_start(job: Row) -> Row:
    """Be the start of a container: build the model, compile, answer once. Times in seconds since the launch."""
    device, start, folder = job["device"], job["start"], Path(job["folder"])
    model, x = build(device)
    # The monotonic clock is the same for parent and child.
    begun = time.monotonic()
    if start == "artifacts":
        torch.compiler.load_cache_artifacts((folder / "artifacts.bin").read_bytes())
    call = model if start == "uncompiled" else torch.compile(model)
    answer = call(x)
    if device == "cuda":
        torch.cuda.synchronize()
    ended = time.monotonic()
    reference = model.double()(x.double())
    error = float((answer.double() - reference).abs().max() / reference.abs().max())
    result: Row = {"begun": begun, "ended": ended, "error": error, "hits": 0, "graphs": None}
    if start != "uncompiled":
        result |= {"hits": hits(), "graphs": captured_graphs()}
    if job["save"]:
        saved = torch.compiler.save_cache_artifacts()
        if saved is not None:
            (folder / "artifacts.bin").write_bytes(saved[0])
    return result


def child_main(job: Row) -> None:
    """Do one start in this process and write its answer, or what went wrong."""
    torch.set_num_threads(job["threads"])
    try:
        answer = child_start(job)
    except Exception as error:
        answer = {"failed": f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]}
    Path(job["answer"]).write_text(json.dumps(answer))
    sys.stdout.flush()
    # The answer is written; taking a compiler's worth of modules down in good order would cost another second.
    os._exit(0)


# ---------------------------------------------------------------- in the parent process


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and whatever it started (a C++ compiler, a compile worker): none may run on into the next start."""
    with contextlib.suppress(ProcessLookupError):  # nobody is left
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # Windows has no process groups of this kind
            process.kill()
    process.wait()


def run_child(job: Row, folder: Path, limit_s: float) -> Row:
    """Start one process whose caches and temporary files live in ``folder``; return its answer, times since launch.

    {"failed": reason} if it crashed or took longer than ``limit_s`` seconds. Its process group is killed at the end.
    """
    answer, log = folder.parent / "answer.json", folder.parent / "log.txt"
    answer.unlink(missing_ok=True)
    for name in ("tmp", "cache"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    caches = {
        "TMPDIR": folder / "tmp",
        "TORCHINDUCTOR_CACHE_DIR": folder / "cache",
        "TRITON_CACHE_DIR": folder / "cache" / "triton",
    }
    environment = os.environ | {name: str(path) for name, path in caches.items()}
    asked = job | {"folder": str(folder), "answer": str(answer)}
    command = [sys.executable, __file__, "--child", json.dumps(asked)]
    with log.open("w") as output:
        launched, launched_at = time.monotonic(), time.time()
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
        if "failed" not in result:
            built = [path for path in (folder / "cache").rglob("*.so") if path.stat().st_mtime > launched_at]
            result |= {"built": len(built), "boot_s": result["begun"] - launched}
            result["first_call_s"] = result["ended"] - result["begun"]
        return result
    if code < 0:
        return {"failed": f"the process died of signal {signal.Signals(-code).name}"}
    last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
    return {"failed": f"the process ended with code {code}: {last[:300]}"}


def put_back(folder: Path, image: Path, names: Sequence[str]) -> None:
    """Empty the folder and put back what the image holds; times of files stay, so that what is built can be told."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in names:
        if (image / name).is_dir():
            shutil.copytree(image / name, folder / name)
        elif (image / name).exists():
            shutil.copy2(image / name, folder / name)


def size_mib(image: Path, names: Sequence[str]) -> float:
    """Return the size of the files below these names, MiB."""
    paths = [path for name in names for path in (image / name, *(image / name).rglob("*"))]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 2**20


def trouble(start: str, answer: Row) -> tuple[str, str] | None:
    """Return (status, note) where a start did not give what it should, else None."""
    if "failed" in answer:
        return "failed", answer["failed"]
    if not answer["error"] <= TOLERANCE:  # also true for NaN
        return "wrong", f"relative error {answer['error']:.2g} against float64 is above {TOLERANCE:g}"
    if answer["graphs"] == 0:
        return "not measured", NOT_COMPILED
    return None


def start_row(start: str, shared: Row, answers: Sequence[Row], shipped_mib: float) -> Row:
    """Return the row of one kind of start from its repeats (columns: module docstring)."""
    row: Row = {"start": start} | shared | {"status": "ok", "note": None}
    row |= dict.fromkeys(("ready_s", "ready_low_s", "ready_high_s", "boot_s", "first_call_s", "cache_hits", "built"))
    row |= {"shipped_mib": None, "max_rel_error": None, "repeats": 0, "samples_ready_s": []}
    for answer in answers:
        if reason := trouble(start, answer):
            error = answer.get("error", math.nan)
            row["max_rel_error"] = error if math.isfinite(error) else None
            return row | {"status": reason[0], "note": reason[1]}
    if not answers:
        return row | {"status": "failed", "note": "the first start left nothing to put into an image"}
    ready = [answer["boot_s"] + answer["first_call_s"] for answer in answers]
    row |= {"ready_s": statistics.median(ready), "ready_low_s": min(ready), "ready_high_s": max(ready)}
    row |= {name: statistics.median(answer[name] for answer in answers) for name in ("boot_s", "first_call_s")}
    row |= {"cache_hits": answers[0]["hits"], "built": answers[0]["built"], "shipped_mib": shipped_mib}
    row |= {"max_rel_error": max(answer["error"] for answer in answers)}
    return row | {"repeats": len(answers), "samples_ready_s": ready}


def run(
    *,
    starts: Sequence[str] = STARTS,
    repeats: int = 2,
    threads: int = 1,
    child_limit_s: float = 150.0,
) -> list[Row]:
    """Start processes and return one row for each kind of start (columns: module docstring).

    ``starts``: which, of STARTS; ``repeats``: starts of each kind; ``child_limit_s``: a process that takes longer is
    killed, and its row is a failed one.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    order = random.Random(0)
    answers: dict[str, list[Row]] = {start: [] for start in starts}
    shipped: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="container-", ignore_cleanup_errors=True) as name:
        folder, image = Path(name, "box"), Path(name, "image")
        job: Row = {"device": device, "threads": threads, "save": False}
        # The first start ever fills the image that the others are made of; it is one of the empty ones.
        put_back(folder, image, ())
        first = run_child(job | {"start": "empty", "save": True}, folder, child_limit_s)
        if "empty" in answers:
            answers["empty"].append(first)
        if trouble("empty", first) is None:
            shutil.copytree(folder, image)
        shipped = {start: size_mib(image, HOLDS[start]) for start in starts}
        for _ in range(repeats):
            for start in order.sample(list(starts), k=len(starts)):
                done = answers[start]
                lacking = [held for held in HOLDS[start] if not (image / held).exists()]
                if len(done) == repeats or lacking or (done and trouble(start, done[-1])):
                    continue
                put_back(folder, image, HOLDS[start])
                done.append(run_child(job | {"start": start}, folder, child_limit_s))
    shared: Row = {"device": device, "threads": threads}
    return [start_row(start, shared, answers[start], shipped[start]) for start in starts]


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
    """Measure and print; with ``--child JOB`` be one start for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    columns = ["start", "status", "ready_s", "ready_low_s", "ready_high_s", "boot_s", "first_call_s"]
    print_table(run(), [*columns, "cache_hits", "built", "shipped_mib"])


if __name__ == "__main__":
    main(sys.argv[1:])
