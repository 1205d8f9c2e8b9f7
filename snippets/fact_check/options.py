# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 300
# value = 52
# ///
"""What a blog post says about the arguments of torch.compile, tried: options, mode, dynamic, fullgraph, a new name.

Each claim is one function here, of the same name. It runs small cases on CPU tensors and notes what was seen beside
what the claim predicts: counts, errors, lines of generated code, bits. No clock. All of it runs in a child process
with cache folders and a TMPDIR of its own, so that what lies in your caches changes nothing.

    B10  options={'optimization_level': 1} lowers the optimisation level
    B11  mode='reduce-overhead' shortens TVM's compile time
    B12  dynamic=False turns dynamic shapes off, and so uses the cache
    B13  fullgraph=True may optimise too aggressively and let the accuracy drift
    B14  options={'precision': 'highest'} raises the precision
    B16  there is a back end named dynamic_inductor

Columns
    claim         B10 ... B16
    tried         what was run or read, as code; names without a module are functions of this file
    said, seen    what the claim predicts there, and what came out; "runs", or the name of the error
    agrees        whether the two are the same ("> 0": whether what came out is above 0); None where it wasn't tried
    status, note  "ok"; "failed" with the error, or "not measured" where nothing gets compiled here
"""

from __future__ import annotations

import contextlib
import inspect
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
from torch.nn import functional as F

Row = dict[str, Any]

RUNS = "runs"
NOTHING_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to look at (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)


def case(tried: str, said: object, seen: object, agrees: bool | None = None) -> Row:
    """Return one case; ``agrees`` None: said and seen are compared as they stand."""
    row: Row = {"tried": tried, "said": str(said), "seen": str(seen)}
    return row | {"agrees": row["said"] == row["seen"] if agrees is None else agrees}


# ---------------------------------------------------------------- what the cases look at


def f(x: torch.Tensor) -> torch.Tensor:
    """GELU and a softmax of each row: pointwise work and a reduction; same shape out as in."""
    return torch.softmax(F.gelu(x) * 2, -1)


def scaled(x: torch.Tensor) -> torch.Tensor:
    """The same, scaled by a number that is read out of the tensor: without fullgraph a graph break."""
    return f(x) * x.sum().item()


def outcome(**how: Any) -> str:
    """Return "runs" if f can be compiled so and called, or the name of the error that came."""
    torch._dynamo.reset()
    try:
        torch.compile(f, **how)(torch.ones(4, 8))
    except Exception as error:
        return type(error).__name__
    return RUNS


class Counting:
    """A back end that counts its graphs, the sizes in them that are symbols, and the calls that run in one."""

    def __init__(self) -> None:
        self.graphs = self.symbols = self.calls = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Count one graph."""
        self.graphs += 1
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        self.symbols += sum(isinstance(size, torch.SymInt) for tensor in tensors for size in tensor.shape)

        def call(*arguments: Any) -> Any:
            self.calls += 1
            return graph.forward(*arguments)

        return call


def counted(sizes: Sequence[int], **how: Any) -> Counting:
    """Call f, compiled as ``how`` says, once for each batch size, and return what the back end counted."""
    torch._dynamo.reset()
    counting = Counting()
    compiled = torch.compile(f, backend=counting, **how)
    for size in sizes:
        compiled(torch.ones(size, 8))
    return counting


def disk_hits(**how: Any) -> int:
    """Return whether a second compile of f takes its graph from the cache on disk: 1 or 0."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    torch.compile(f, **how)(torch.ones(4, 8))
    torch._dynamo.reset()
    counters.clear()
    torch.compile(f, **how)(torch.ones(4, 8))
    hits = counters["aot_autograd"]["autograd_cache_hit"], counters["inductor"]["fxgraph_cache_hit"]
    return int(max(hits) > 0)


def code_of(function: Callable[..., Any], x: torch.Tensor, **how: Any) -> tuple[list[str], list[torch.Tensor]]:
    """Return the lines that Inductor writes for a function, and its results: output, then gradients if it has any."""
    import torch._inductor.config as config
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    x = x.detach().clone().requires_grad_(x.requires_grad)

    def step() -> list[torch.Tensor]:
        out = torch.compile(function, **how)(x)
        if not out.requires_grad:
            return [out]
        out.square().sum().backward()
        return [out.detach(), x.grad]

    with config.patch(force_disable_caches=True):
        results, codes = run_and_get_code(step)
    # The number of the compile stands in a comment.
    return [line for code in codes for line in code.splitlines() if "AOT ID" not in line], results


def lines_that_differ(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Return in how many lines two texts differ."""
    return sum(a != b for a, b in zip(ours, theirs, strict=False)) + abs(len(ours) - len(theirs))


def values_that_differ(ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor]) -> int:
    """Return how many values are not bit for bit the same."""
    return sum(int((a != b).sum()) for a, b in zip(ours, theirs, strict=True))


# ---------------------------------------------------------------- the claims


def b10() -> list[Row]:
    """Try the option, and look its name up in the list of all options."""
    options = torch._inductor.list_options()
    return [
        case("torch.compile(f, options={'optimization_level': 1})", RUNS, outcome(options={"optimization_level": 1})),
        case("'optimization_level' in torch._inductor.list_options()", True, "optimization_level" in options),
    ]


def b11() -> list[Row]:
    """Ask what the mode stands for, and whether torch's own TVM back end would take it."""
    from torch._dynamo.backends import tvm

    def of_others(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """A back end with the arguments that most packages give theirs, relax_dynamo() of TVM among them."""
        return graph.forward

    stands_for = list(torch._inductor.list_mode_options()["reduce-overhead"])
    parameters = inspect.signature(tvm.tvm).parameters
    return [
        case("'mode' in signature(torch._dynamo.backends.tvm.tvm).parameters", True, "mode" in parameters),
        case(
            "torch.compile(f, backend=of_others, mode='reduce-overhead')",
            RUNS,
            outcome(backend=of_others, mode="reduce-overhead"),
        ),
        case(
            "all('tvm' in name for name in list_mode_options()['reduce-overhead'])",
            True,
            all("tvm" in name for name in stands_for),
        ),
    ]


def b12() -> list[Row]:
    """Count symbols, graphs, calls that are served by a graph, and hits in the cache on disk."""
    six, twelve = range(2, 8), range(2, 14)
    return [
        case("counted(range(2, 8), dynamic=False).symbols", 0, counted(six, dynamic=False).symbols),
        case("counted(range(2, 8), dynamic=False).graphs", 1, counted(six, dynamic=False).graphs),
        case("counted(range(2, 14), dynamic=False).calls", 12, counted(twelve, dynamic=False).calls),
        case("disk_hits(dynamic=False)", 1, disk_hits(dynamic=False)),
        case("disk_hits()", 0, disk_hits()),
    ]


def b13() -> list[Row]:
    """Compile the same function with and without it; compare the generated code, and the results bit for bit."""
    torch.manual_seed(0)
    x = torch.randn(64, 64)
    mlp = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8))
    cases = []
    for name, function, data in (
        ("f, x", f, x),
        ("f, x.bfloat16()", f, x.bfloat16()),
        ("mlp, x.requires_grad_()", mlp, x.clone().requires_grad_()),
        ("scaled, x", scaled, x),
    ):
        plain, results = code_of(function, data)
        full, full_results = code_of(function, data, fullgraph=True)
        lines, values = lines_that_differ(plain, full), values_that_differ(results, full_results)
        both = f"code_of({name}), code_of({name}, fullgraph=True)"
        cases.append(case(f"lines_that_differ: {both}", "> 0", lines, lines > 0))
        cases.append(case(f"values_that_differ: {both}", "> 0", values, values > 0))
    return cases


def b14() -> list[Row]:
    """Try the option, look its name up, and ask how high the precision stands without it."""
    options = torch._inductor.list_options()
    now = torch.get_float32_matmul_precision()
    return [
        case("torch.compile(f, options={'precision': 'highest'})", RUNS, outcome(options={"precision": "highest"})),
        case("'precision' in torch._inductor.list_options()", True, "precision" in options),
        case("torch.get_float32_matmul_precision() != 'highest'", True, now != "highest"),
    ]


def b16() -> list[Row]:
    """Try the name, and look it up among all names, those for debugging included."""
    names = torch.compiler.list_backends(exclude_tags=())
    return [
        case("torch.compile(f, backend='dynamic_inductor')", RUNS, outcome(backend="dynamic_inductor")),
        case(
            "'dynamic_inductor' in torch.compiler.list_backends(exclude_tags=())",
            True,
            "dynamic_inductor" in names,
        ),
    ]


CLAIMS: dict[str, Callable[[], list[Row]]] = {
    "B10": b10,
    "B11": b11,
    "B12": b12,
    "B13": b13,
    "B14": b14,
    "B16": b16,
}


# ---------------------------------------------------------------- in the child process


def child_main(job: Row) -> None:
    """Try claims and write a line of JSON for each into the answer file, as soon as it is known."""
    torch.set_num_threads(1)
    with Path(job["answer"]).open("a") as answer:
        for name in job["claims"]:
            line: Row = {"claim": name}
            try:
                if counted([2]).graphs == 0:
                    line["nothing"] = True
                else:
                    line["cases"] = CLAIMS[name]()
            except Exception as error:
                line["failed"] = f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
            answer.write(json.dumps(line) + "\n")
            answer.flush()
    sys.stdout.flush()
    # The answers are written; taking a compiler's worth of modules down in good order would cost another second.
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
    caches = {
        "TMPDIR": folder,
        "TORCHINDUCTOR_CACHE_DIR": folder / "inductor",
        "TRITON_CACHE_DIR": folder / "triton",
    }
    environment = os.environ | {name: str(path) for name, path in caches.items()}
    command = [sys.executable, __file__, "--child", json.dumps(job)]
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
            return f"no answer within {limit_s:g} s"
        finally:
            end_group(process)
    if code == 0:
        return None
    if code < 0:
        return f"the process died of signal {signal.Signals(-code).name}"
    last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
    return f"the process ended with code {code}: {last[:300]}"


def rows_of(name: str, answer: Row) -> list[Row]:
    """Return the rows of one claim (columns: module docstring)."""
    empty: Row = {"claim": name, "tried": None, "said": None, "seen": None, "agrees": None}
    if answer.get("nothing"):
        return [empty | {"status": "not measured", "note": NOTHING_COMPILED}]
    if "failed" in answer or not answer.get("cases"):
        return [empty | {"status": "failed", "note": answer.get("failed", "the claim has no case here")}]
    return [empty | one | {"status": "ok", "note": None} for one in answer["cases"]]


def run(*, claims: Sequence[str] = tuple(CLAIMS), child_limit_s: float = 200.0) -> list[Row]:
    """Try the claims and return a row for each case (columns: module docstring).

    ``child_limit_s``: a process that takes longer is killed, and the claims that it left are failed rows.
    Raises ValueError for a claim that is not in CLAIMS.
    """
    if unknown := set(claims) - set(CLAIMS):
        raise ValueError(f"no claim {', '.join(sorted(unknown))} here; there are {', '.join(CLAIMS)}")
    answers: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="options-", ignore_cleanup_errors=True) as name:
        path = Path(name, "answers.jsonl")
        lost = run_child({"claims": list(claims), "answer": str(path)}, Path(name), child_limit_s)
        for line in path.read_text().splitlines() if path.exists() else ():
            with contextlib.suppress(json.JSONDecodeError):  # the process was killed while it wrote
                answer: Row = json.loads(line)
                answers[answer["claim"]] = answer
    missing: Row = {"failed": lost or "no answer"}
    return [row for claim in claims for row in rows_of(claim, answers.get(claim, missing))]


def main(arguments: Sequence[str]) -> None:
    """Try all claims and print them; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        if row["status"] == "ok":
            mark = "as said" if row["agrees"] else "not so"
            print(f"{row['claim']}  {mark:7}  said {row['said']:5} seen {row['seen']:24} {row['tried']}")
        else:
            print(f"{row['claim']}  {row['status']}: {row['note']}")


if __name__ == "__main__":
    main(sys.argv[1:])
