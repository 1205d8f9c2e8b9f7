# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 300
# value = 42
# ///
"""Do options={'shape_padding': False, 'triton.cudagraphs': True} save a quarter of the memory at equal speed?

So a blog post says (B15): 12 GB became 9 GB. Both settings are made for GPUs: padding of matrix sizes, and recording
CUDA graphs. On a GPU a training step of linear layers, whose sizes are odd so that padding has something to do, runs
with and without the options, each in a fresh process: the most memory that torch reserved, and the median of
``torch.utils.benchmark.Timer(...).blocked_autorange()``. On a CPU these rows are "not measured". What can be asked
everywhere, and decides nothing, is whether the options are known, whether turning the padding off changes the
generated code, and whether graphs were recorded.

Columns
    claim         B15
    tried         what was run, as code
    said, seen    what the claim predicts there, and what came out; memory and time as ratios, with / without them
    agrees        memory: whether no more than what was said; time: whether within TOLERANCE of 1; None on a CPU
    status, note  "ok"; "failed" with the error, or "not measured" with the reason
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
from torch import nn
from torch.utils.benchmark import Timer

Row = dict[str, Any]

OPTIONS: dict[str, Any] = {"shape_padding": False, "triton.cudagraphs": True}
SAID_MEMORY = 0.75
TOLERANCE = 0.05
WITHOUT_CUDA = "needs a CUDA GPU: this torch is a build without CUDA"
NO_GPU = "needs a CUDA GPU: no GPU or driver was found"
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to look at (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)


def build(device: str, width: int) -> tuple[nn.Module, torch.Tensor]:
    """Return four linear layers of an odd width with GELU, and their input."""
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*layers).to(device), torch.randn(2 * width, width, device=device)


def step_of(model: nn.Module, x: torch.Tensor, options: Row) -> Callable[[], None]:
    """Return a training step, compiled with these options."""
    compiled = torch.compile(model, options=options)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        compiled(x).square().mean().backward()

    return step


# ---------------------------------------------------------------- in the child process


def peak_mib() -> float:
    """Return the most GPU memory that torch has reserved in this process."""
    return torch.cuda.max_memory_reserved() / 2**20


def child_measure(job: Row) -> Row:
    """Train with the options of the job: the peak of memory and the time of a step."""
    from torch._dynamo.utils import counters

    step = step_of(*build(job["device"], job["width"]), job["options"])
    for _ in range(5):
        step()
    seconds = Timer("step()", globals={"step": step}).blocked_autorange(min_run_time=job["least_s"]).median
    return {"peak_mib": peak_mib(), "step_s": seconds, "graphs": counters["stats"]["unique_graphs"]}


def child_look(job: Row) -> Row:
    """Compile with and without: lines of code that the padding changes, and CUDA graphs that were skipped."""
    import torch._inductor.config as config
    from torch._dynamo.utils import counters
    from torch._inductor.utils import run_and_get_code

    codes = []
    for padding in (True, False):
        torch._dynamo.reset()
        with config.patch(force_disable_caches=True):
            step = step_of(*build(job["device"], job["width"]), {"shape_padding": padding})
            _, texts = run_and_get_code(step)
        # The number of the compile stands in a comment.
        codes.append([line for text in texts for line in text.splitlines() if "AOT ID" not in line])
    plain, off = codes
    lines = sum(a != b for a, b in zip(plain, off, strict=False)) + abs(len(plain) - len(off))
    torch._dynamo.reset()
    before = counters["inductor"]["cudagraph_skips"]
    step_of(*build(job["device"], job["width"]), OPTIONS)()
    skips = counters["inductor"]["cudagraph_skips"] - before
    return {"lines": lines, "skips": skips, "graphs": counters["stats"]["unique_graphs"]}


CHILDREN: dict[str, Callable[[Row], Row]] = {"measure": child_measure, "look": child_look}


def child_main(job: Row) -> None:
    """Do one job in this process and write its answer, or what went wrong, beside it."""
    torch.set_num_threads(1)
    try:
        answer = CHILDREN[job["task"]](job)
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
    """Run one job in a fresh process with all caches below ``folder``; return its answer, or {"failed": reason}."""
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


def blank(tried: str, said: str) -> Row:
    """Return a row with every column, nothing seen yet."""
    return {
        "claim": "B15",
        "tried": tried,
        "said": said,
        "seen": None,
        "agrees": None,
        "status": "ok",
        "note": None,
    }


def lost(answers: Sequence[Row]) -> Row:
    """Return the status and note of rows that have nothing to show, else an empty row."""
    for answer in answers:
        if "failed" in answer:
            return {"status": "failed", "note": answer["failed"]}
        if answer["graphs"] == 0:
            return {"status": "not measured", "note": NOT_COMPILED}
    return {}


def known() -> str:
    """Return "runs" where torch.compile takes the options, or the name of the error."""
    try:
        torch.compile(nn.ReLU(), options=OPTIONS)
    except Exception as error:
        return type(error).__name__
    return "runs"


def looked_rows(answer: Row) -> list[Row]:
    """Return the rows of what can be asked on any device."""
    rows = [
        blank(f"torch.compile(model, options={OPTIONS})", "runs") | {"seen": known()},
        blank("lines_that_differ(code(shape_padding=True), code(shape_padding=False))", "> 0"),
        blank("counters['inductor']['cudagraph_skips']", "0"),
    ]
    if reason := lost([answer]):
        return [rows[0], *(row | reason for row in rows[1:])]
    rows[1]["seen"], rows[2]["seen"] = str(answer["lines"]), str(answer["skips"])
    return rows


def measured_rows(plain: Row, ours: Row) -> list[Row]:
    """Return the rows of memory and time, from the answers without and with the options."""
    memory = blank("max_memory_reserved(options) / max_memory_reserved()", f"{SAID_MEMORY:g}")
    speed = blank("median(options) / median()", "1")
    if reason := lost([plain, ours]):
        return [memory | reason, speed | reason]
    less, longer = ours["peak_mib"] / plain["peak_mib"], ours["step_s"] / plain["step_s"]
    memory |= {"seen": f"{less:.2f}", "agrees": less <= SAID_MEMORY}
    speed |= {"seen": f"{longer:.2f}", "agrees": abs(longer - 1) <= TOLERANCE}
    return [memory, speed]


def run(*, width: int | None = None, least_s: float = 1.0, child_limit_s: float = 120.0) -> list[Row]:
    """Look, and on a GPU measure; return a row for each case (columns: module docstring).

    ``width`` of the layers (None: by device); ``least_s``: how long the Timer measures at least.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if width is None:
        width = 4097 if device == "cuda" else 129
    shared = {"device": device, "width": width, "least_s": least_s}
    with tempfile.TemporaryDirectory(prefix="memory-", ignore_cleanup_errors=True) as name:
        rows = looked_rows(run_child(shared | {"task": "look"}, Path(name), child_limit_s))
        if device == "cpu":
            missing = {"status": "not measured", "note": NO_GPU if torch.version.cuda else WITHOUT_CUDA}
            return [*(row | missing for row in measured_rows({"failed": ""}, {"failed": ""})), *rows]
        job = shared | {"task": "measure"}
        plain, ours = (run_child(job | {"options": one}, Path(name), child_limit_s) for one in ({}, OPTIONS))
    return [*measured_rows(plain, ours), *rows]


def main(arguments: Sequence[str]) -> None:
    """Measure and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        print(f"said {row['said']}, seen {row['seen']}: {row['tried']} {row['note'] or ''}")


if __name__ == "__main__":
    main(sys.argv[1:])
