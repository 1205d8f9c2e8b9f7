# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.10", "lightning-thunder>=0.2.6"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 240
# value = 40
# ///
"""Lightning Thunder, the road to nvFuser today, as far as a CPU can go: what it captures and who runs it.

Thunder 0.2.6 imports on torch 2.10 and not on 2.13; its environment is environments/thunder.txt. Three kinds of tries:

    import   does this thunder import on this torch at all?
    case     small models, compiled in two ways and compared with eager mode, in inference and in training:
             "thunder.jit" reads Python's bytecode itself; "ThunderCompiler" is a back end of torch.compile, which
             gets its graphs from Dynamo, and hands to Inductor what thunder doesn't know
    plan     which operations nvFuser would fuse on a GPU. nvFuser's wheel can be imported without a GPU, and thunder
             decides in Python what goes into a fusion. So in a process of its own thunder is told that CUDA is there,
             and that the tensors lie on it. It traces, plans the fusions, and then refuses to run, as the tensors are
             on the CPU after all. A plan is not a measurement: nothing of it was compiled or executed. Attention is
             not among the plans: which of its kernels is taken depends on the GPU

Each kind runs in a child process, so that a crash of native code is a row.

Columns
    kind               "import", "case" or "plan"
    case               what was tried: the model
    way                "thunder.jit" or "ThunderCompiler"
    workload           "inference" or "training" (a backward pass of the sum of squares)
    outcome            "runs"; "wrong" where output or gradient differ from eager; "error"; "planned"
    raised_at          where an error came: "import", "compiling", "first call", "backward"; "never" where none did
    error, message     name of the exception and its first line
    relative_error     largest difference from eager over the largest value of eager; the worst tensor
    gradients          "equal", "lost", "wrong", "error", or "not wanted" in inference; None in a plan
    executed           calls that reached a function compiled by thunder, in one step
    captured_graphs    graphs that Dynamo captured (None for thunder.jit, which does without Dynamo)
    inductor_parts     parts of those graphs that thunder handed to Inductor
    operations         operations in thunder's last forward traces; in a plan also those inside the fusions
    executors          which of thunder's executors run them, and how many
    fusions            fusions that nvFuser would compile: forward, and backward in training
    fused_operations   operations inside them
    left_operations    names of the operations outside
    trace              the last forward trace, without comments on where in the source a line comes from
    package, package_version        "lightning-thunder" and its version
    nvfuser_version    version of nvFuser's wheel, or None where there is none
    status, note       "ok" (also for an error that was caught: that is the finding); "failed" where the process died;
                       "not measured" and why
    device             "cpu"
"""

from __future__ import annotations

import contextlib
import copy
import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

Row = dict[str, Any]

PACKAGE = "lightning-thunder"
WHEEL = "nvfuser-cu128-torch210"
#: Versions that fit each other, on Linux; the wheel of nvFuser wants Python 3.12.
TO_INSTALL = "torch==2.10.0 lightning-thunder==0.2.6 nvfuser-cu128-torch210==0.2.36.dev20260301"
WIDTH, HEADS, BATCH, LENGTH = 64, 4, 2, 16
TOLERANCE = 1e-4
WAYS = ("thunder.jit", "ThunderCompiler")
WORKLOADS = ("inference", "training")
RESULTS: tuple[str, ...] = (
    "outcome",
    "raised_at",
    "error",
    "message",
    "relative_error",
    "gradients",
    "executed",
    "captured_graphs",
)
RESULTS += ("inductor_parts", "operations", "executors", "fusions", "fused_operations", "left_operations", "trace")


# ---------------------------------------------------------------- the models


class NormChain(nn.Module):
    """A matmul, then what a fuser is made for: layer norm, GELU, scale and add, all of them bound by memory."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return x + GELU(norm(linear(x))) / 2."""
        return x + nn.functional.gelu(self.norm(self.linear(x))) * 0.5


class FeedForward(nn.Module):
    """The second half of a transformer block: layer norm, two linear layers with a GELU between, a short cut."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Take and return (batch, length, WIDTH)."""
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Block(nn.Module):
    """A block of a transformer: attention behind a layer norm and beside a short cut, then the feed-forward half."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.feed_forward = nn.LayerNorm(WIDTH), FeedForward()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Take and return (batch, length, WIDTH)."""
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).reshape(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        return self.feed_forward(x + self.out(mixed.transpose(1, 2).reshape(batch, length, width)))


class UnknownOperator(nn.Module):
    """torch.sinc, which thunder has no word of its own for, between two operators that it knows."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return relu(sinc(linear(x)))."""
        return torch.sinc(self.linear(x)).relu()


class BranchOnValue(nn.Module):
    """Asks for a value of a tensor in the middle: Dynamo breaks the graph there."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return twice or half of linear(x), by the sign of its sum."""
        y = self.linear(x)
        return y * 2 if y.sum() > 0 else y * 0.5


def mlp() -> nn.Module:
    """Return WIDTH to WIDTH with ReLU between three linear layers."""
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 8))


def cnn() -> nn.Module:
    """Return a convolution with batch norm and pooling; without a bias, whose gradient batch norm would make 0."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    )


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (BATCH, WIDTH)),
    "norm_chain": (NormChain, (BATCH, WIDTH)),
    "feed_forward": (FeedForward, (BATCH, LENGTH, WIDTH)),
    "transformer_block": (Block, (BATCH, LENGTH, WIDTH)),
    "cnn": (cnn, (BATCH, 3, 8, 8)),
    "unknown_operator": (UnknownOperator, (BATCH, WIDTH)),
    "branch_on_value": (BranchOnValue, (BATCH, WIDTH)),
}
PLANS = ("mlp", "norm_chain", "feed_forward")


def example(case: str, workload: str) -> tuple[nn.Module, torch.Tensor]:
    """Return a model and its input on the CPU, the same in every process; in inference nothing wants a gradient."""
    torch.manual_seed(0)
    build, shape = CASES[case]
    model = build().train(workload == "training").requires_grad_(workload == "training")
    return model, torch.randn(shape)


# ---------------------------------------------------------------- what thunder tells


def operations_of(traces: Iterable[Any]) -> list[tuple[str, str, list[str]]]:
    """Return (name, executor, names of the operations inside a fusion) of what the traces run, in their order.

    Operations without an executor only unpack, return and delete; those of the executor "python" keep the books.
    """
    everything = [bound for trace in traces for bound in trace.bound_symbols if bound.sym.executor is not None]
    symbols = [bound for bound in everything if bound.sym.executor.name != "python"]
    return [
        (bound.sym.name, bound.sym.executor.name, [s.sym.name for s in bound.subsymbols] if bound.sym.is_fusion else [])
        for bound in symbols
    ]


def tally(names: Iterable[str]) -> str:
    """Return "torch 12, sdpa 1": the most frequent first."""
    return ", ".join(f"{name} {count}" for name, count in Counter(names).most_common())


def readable(trace: Any, *, inside: bool) -> str:
    """Return a trace as text; ``inside`` keeps the comments that show what a fusion consists of.

    Thunder writes above each line where in the source it comes from, with the path on this machine: left out.
    """
    kept = []
    for line in str(trace).splitlines():
        bare = line.strip()
        comment = bare.startswith("#")
        fused = line.startswith("    # ") and re.match(r"#\s+[\w(\[].*= prims\.", bare)
        if not bare or (comment and not (inside and fused)) or re.match(r"(import|from|@|del )", bare):
            continue
        kept.append(line)
    return "\n".join(kept)


def text_of(traces: Sequence[Any], *, inside: bool) -> str | None:
    """Return the traces as one text, or None where there is none."""
    return "\n\n".join(readable(trace, inside=inside) for trace in traces) or None


def compile_with(model: nn.Module, way: str) -> tuple[Callable[..., Any], Any]:
    """Return the compiled model and, for a back end of torch.compile, thunder's ThunderCompiler object."""
    import thunder
    from thunder.dynamo import ThunderCompiler

    if way == "thunder.jit":
        return thunder.jit(model), None
    backend = ThunderCompiler()
    return torch.compile(model, backend=backend), backend


def functions_of(compiled: Any, backend: Any) -> list[Any]:
    """Return the functions that thunder compiled: one of thunder.jit, or those in the graphs of Dynamo."""
    if backend is None:
        return [compiled]
    return [function for info in backend.subgraph_infos for function in info.thunder_compiled_fns or ()]


def calls_of(functions: Iterable[Any]) -> int:
    """Return how often these functions have been called."""
    import thunder

    return sum(thunder.compile_stats(function).calls for function in functions)


def parts_of(backend: Any) -> int:
    """Return how many parts of the captured graphs thunder gave to Inductor."""
    compilers = [
        part.compiler for info in backend.subgraph_infos for part in info.submodule_to_compiled_functions.values()
    ]
    return sum("INDUCTOR" in str(compiler) for compiler in compilers)


# ---------------------------------------------------------------- the tries, each in a child process


def without_paths(text: str) -> str:
    """Return a text with the folders of this machine left out of its paths."""
    return re.sub(r"(/[\w.+-]+){2,}/", ".../", text)


def first_line(error: BaseException) -> str:
    """Return the first line of a message that says something, without paths of this machine."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return without_paths(lines[0])[:200] if lines else ""


def difference(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the largest absolute difference over the largest absolute value of the reference."""
    return float((result - reference).abs().max() / reference.abs().max().clamp_min(1e-12))


def try_import(_: Row) -> Row:
    """Import thunder; returns outcome, raised_at, error and message."""
    try:
        import thunder  # noqa: F401
    except Exception as error:
        return {"outcome": "error", "raised_at": "import", "error": type(error).__name__, "message": first_line(error)}
    return {"outcome": "runs", "raised_at": "never"}


def try_case(job: Row) -> Row:
    """Compile, call twice, go backward, compare with eager, and look at the traces."""
    import thunder

    torch._dynamo.reset()
    training = job["workload"] == "training"
    model, x = example(job["case"], job["workload"])
    eager = copy.deepcopy(model)
    answer: Row = {"outcome": "error", "gradients": "error" if training else "not wanted"}
    at = "compiling"
    try:
        compiled, backend = compile_with(model, job["way"])
        at = "first call"
        compiled(x)
        functions = functions_of(compiled, backend)
        # Batch norm has moved its statistics on by one step: eager mode follows.
        eager(x)
        before = calls_of(functions)
        result, expected = compiled(x), eager(x)
        answer["executed"] = calls_of(functions) - before
        forward = [traces[-1] for function in functions if (traces := thunder.last_traces(function))]
        answer |= {"relative_error": difference(result, expected), "trace": text_of(forward, inside=False)}
        found = operations_of(forward)
        answer |= {"operations": len(found), "executors": tally(executor for _, executor, _ in found)}
        if backend is not None:
            answer |= {"captured_graphs": len(backend.subgraph_infos), "inductor_parts": parts_of(backend)}
        at = "backward"
        if training:
            answer["gradients"], worst = compare_gradients(model, eager, result, expected)
            answer["relative_error"] = max(answer["relative_error"], worst)
    except Exception as error:
        inner = getattr(error, "inner_exception", None) or error
        return answer | {"raised_at": at, "error": type(inner).__name__, "message": first_line(inner)}
    right = answer["relative_error"] <= TOLERANCE and answer["gradients"] in ("equal", "not wanted")
    return answer | {"outcome": "runs" if right else "wrong", "raised_at": "never"}


def compare_gradients(
    model: nn.Module, eager: nn.Module, result: torch.Tensor, expected: torch.Tensor
) -> tuple[str, float]:
    """Go backward on both sides; return "equal", "lost" or "wrong", and the largest difference."""
    expected.square().sum().backward()
    if not result.requires_grad:
        return "lost", 0.0
    result.square().sum().backward()
    pairs = [(p.grad, q.grad) for p, q in zip(model.parameters(), eager.parameters(), strict=True)]
    if any(mine is None for mine, _ in pairs):
        return "lost", 0.0
    worst = max(difference(mine, theirs) for mine, theirs in pairs)
    return "equal" if worst <= TOLERANCE else "wrong", worst


def try_plan(job: Row) -> Row:
    """Let thunder plan for a GPU that isn't there (how: module docstring), and count what nvFuser would fuse."""
    torch.cuda.is_available = lambda: True  # for this process only
    import thunder

    if thunder.executors.get_nvfuser_executor() is None:
        return {"unplanned": "thunder did not take nvFuser's wheel for a usable one"}
    model, x = example(job["case"], job["workload"])
    for tensor in (x, *model.parameters()):
        tensor._thunder_device = torch.device("cuda", 0)
    compiled = thunder.jit(model)
    try:
        compiled(x)
        return {"unplanned": "thunder ran tensors of the CPU as if they lay on a GPU"}
    except AssertionError as error:
        # Traced, planned, and now refused: the check in front of the compiled function finds tensors on the CPU.
        if "cuda:0" not in str(error):
            raise
    forward, backward = thunder.last_traces(compiled)[-1:], (thunder.last_backward_traces(compiled) or [])[-1:]
    found = operations_of([*forward, *backward])
    inside = [name for _, _, names in found for name in names]
    left = [name for name, _, names in found if not names]
    return {
        "outcome": "planned",
        "raised_at": "never",
        "executed": 0,
        "operations": len(inside) + len(left),
        "executors": tally(executor for _, executor, _ in found),
        "fusions": sum(bool(names) for _, _, names in found),
        "fused_operations": len(inside),
        "left_operations": tally(left),
        "trace": text_of(forward, inside=True),
    }


TRIES: dict[str, Callable[[Row], Row]] = {"import": try_import, "case": try_case, "plan": try_plan}


def child_main(job: Row) -> None:
    """Do the tries of one kind and write a line of JSON for each into the answer file, as soon as it is known."""
    warnings.simplefilter("ignore")
    with Path(job["answer"]).open("a") as answer:
        for one in job["tries"]:
            answer.write(json.dumps({"of": one, "found": TRIES[one["kind"]](one)}) + "\n")
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


def run_child(tries: Sequence[Row], folder: Path, limit_s: float) -> tuple[list[Row], str]:
    """Run tries in a fresh process with all caches below ``folder``; return the answers and what went wrong, or ""."""
    answers, log = folder / "answers.jsonl", folder / "log.txt"
    answers.unlink(missing_ok=True)
    environment = os.environ | {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    job = {"tries": list(tries), "answer": str(answers)}
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
            code: int | None = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end_group(process)
    lines = answers.read_text().splitlines() if answers.exists() else []
    found: list[Row] = []
    for line in lines:
        with contextlib.suppress(json.JSONDecodeError):  # cut off
            found.append(json.loads(line)["found"])
    if code == 0:
        return found, ""
    if code is None:
        return found, f"no answer within {limit_s:g} s"
    if code < 0:
        return found, f"the process died of signal {signal.Signals(-code).name}"
    last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
    return found, f"the process ended with code {code}: {without_paths(last)[:300]}"


def fill(rows: Sequence[Row], folder: Path, limit_s: float) -> None:
    """Try rows of one kind; the one that takes the process down is a failed row, and the rest get a new process."""
    left = list(rows)
    while left:
        found, trouble = run_child(left, folder, limit_s)
        for row, answer in zip(left, found, strict=False):
            if "unplanned" in answer:
                row |= {"status": "not measured", "note": answer["unplanned"]}
            else:
                row.update(answer)
        left = left[len(found) :]
        if left:
            left[0] |= {"status": "failed", "note": trouble or "the process ended without an answer"}
            left = left[1:]


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def blank_row(kind: str, **given: Any) -> Row:
    """Return a row with every column, nothing tried yet."""
    row: Row = {"kind": kind, "case": None, "way": None, "workload": None} | given
    row |= dict.fromkeys(RESULTS)
    row |= {"package": PACKAGE, "package_version": version_of(PACKAGE), "nvfuser_version": version_of(WHEEL)}
    return row | {"status": "ok", "note": None, "device": "cpu"}


def run(
    *,
    cases: Sequence[str] = tuple(CASES),
    ways: Sequence[str] = WAYS,
    workloads: Sequence[str] = WORKLOADS,
    plans: Sequence[str] = PLANS,
    child_limit_s: float = 150.0,
) -> list[Row]:
    """Try thunder on this machine's CPU and return one row a try (columns: module docstring).

    Raises SystemExit where thunder isn't installed. ``cases``, ``plans``: names in CASES; ``child_limit_s``: a
    process that takes longer is killed, and what it was at is a failed row.
    """
    if importlib.util.find_spec("thunder") is None:
        raise SystemExit(f"this snippet needs Lightning Thunder: pip install {TO_INSTALL}")
    imported = blank_row("import", case="import thunder")
    tried = [blank_row("case", case=c, way=w, workload=k) for c in cases for w in ways for k in workloads]
    planned = [blank_row("plan", case=c, way="thunder.jit", workload=k) for c in plans for k in workloads]
    with tempfile.TemporaryDirectory(prefix="thunder-cpu-", ignore_cleanup_errors=True) as name:
        fill([imported], Path(name), child_limit_s)
        if imported["outcome"] == "runs":
            fill(tried, Path(name), child_limit_s)
    if imported["outcome"] != "runs":
        for row in (*tried, *planned):
            row |= {"status": "not measured", "note": "thunder does not import on this torch."}
        return [imported, *tried, *planned]
    if version_of(WHEEL) is None:
        for row in planned:
            row |= {"status": "not measured", "note": f"A plan needs the package {WHEEL}."}
    else:
        with tempfile.TemporaryDirectory(prefix="thunder-plan-", ignore_cleanup_errors=True) as name:
            fill(planned, Path(name), child_limit_s)
    return [imported, *tried, *planned]


def main(arguments: Sequence[str]) -> None:
    """Try and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        tried = " ".join(str(row[name]) for name in ("kind", "case", "way", "workload") if row[name])
        if row["status"] != "ok":
            told = row["note"]
        elif row["error"]:
            told = f"{row['raised_at']}: {row['error']}: {row['message']}"
        elif row["kind"] == "plan":
            told = f"{row['fusions']} fusions of {row['fused_operations']} operations; left: {row['left_operations']}"
        else:
            told = f"executed {row['executed']}, {row['executors']}, gradients {row['gradients']}"
        print(f"{tried:48} {row['outcome'] or row['status']:8} {told}"[:170])


if __name__ == "__main__":
    main(sys.argv[1:])
