# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 300
# value = 56
# ///
"""Statements of well-known documentation, tried on the torch that is installed here: calls, names, defaults, counts.

Each function below is one statement, numbered as on the page. It says what should come out if the statement held, does
it, and notes what came out. No clock: most cases take milliseconds. Code is the documentation's own, shortened; a case
may also be the call that was probably meant, so that a slip of the pen is not taken for a wrong idea. Where a document
contradicts itself, the case is arithmetic on its own figures.

All of it runs on CPU tensors in a child process with cache folders and TMPDIR of its own; Dynamo is reset before each
statement. A statement that takes the process down is a failed row, and the rest goes on in a new process.

Columns
    claim     number of the statement, "S2"
    tried     what was run or read, as code
    said      what the statement predicts there: "runs", "an error", or the value
    seen      what came out; an error by its name
    agrees    whether the two are the same; None where it could not be tried
    status    "ok"; "failed" with the error in note; "not measured" where nothing gets compiled here
    note      why a row is not ok
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

Row = dict[str, Any]

RUNS = "runs"
SOME_ERROR = "an error"
NOTHING_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to look at (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)


class Case(NamedTuple):
    """One thing that was tried. ``agrees`` None: said and seen are compared as they stand."""

    tried: str
    said: str
    seen: str
    agrees: bool | None = None

    def row(self) -> Row:
        """The columns of a case."""
        agrees = self.said == self.seen if self.agrees is None else self.agrees
        return {"tried": self.tried, "said": self.said, "seen": self.seen, "agrees": agrees}


def outcome(attempt: Callable[[], Any]) -> str:
    """Return "runs", or the name of the error that came."""
    torch._dynamo.reset()
    try:
        attempt()
    except Exception as error:
        return type(error).__name__
    return RUNS


def graphs_of(function: Callable[..., Any], calls: Sequence[Sequence[Any]], **how: Any) -> int:
    """Return how many graphs are compiled for these calls of a function; ``how``: keywords of torch.compile."""
    torch._dynamo.reset()
    graphs = []

    def keep(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(function, backend=keep, **how)
    for arguments in calls:
        compiled(*arguments)
    return len(graphs)


def batches(sizes: Sequence[int]) -> list[tuple[torch.Tensor]]:
    """Return one call for each batch size."""
    return [(torch.ones(size, 8),) for size in sizes]


def two_operators(x: torch.Tensor) -> torch.Tensor:
    """Cosine, then sine: the example of the getting-started page."""
    return torch.sin(torch.cos(x))


# ---------------------------------------------------------------- PyTorch: FAQ and guides


def s2_dynamic_shapes_are_off() -> list[Case]:
    """Dynamic shapes are switched off by default."""
    import torch._dynamo.config as config

    value = config.automatic_dynamic_shapes
    return [
        Case("torch._dynamo.config.automatic_dynamic_shapes", "False", str(value)),
        Case(
            "len(graphs)  # torch.compile(f), batch 2, 3 … 7", "6", str(graphs_of(two_operators, batches(range(2, 8))))
        ),
    ]


def s3_transform_of_a_compiled_function() -> list[Case]:
    """torch.grad(f)(x) of a compiled f works, x being a matrix."""
    compiled = torch.compile(torch.sin)
    matrix, scalar = torch.randn(2, 3), torch.tensor(1.0)
    return [
        Case("torch.grad(f)(torch.randn(2, 3))", RUNS, outcome(lambda: torch.grad(compiled)(matrix))),
        Case("torch.func.grad(f)(torch.randn(2, 3))", RUNS, outcome(lambda: torch.func.grad(compiled)(matrix))),
        Case("torch.func.grad(f)(torch.tensor(1.0))", RUNS, outcome(lambda: torch.func.grad(compiled)(scalar))),
    ]


def optimize_for_inference_compiler(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """The back end of the guide to back ends of one's own: TorchScript."""
    compiled: Callable[..., Any] = torch.jit.optimize_for_inference(torch.jit.script(graph))
    return compiled


def s4_torchscript_as_a_back_end() -> list[Case]:
    """torch.jit.script(graph) makes a back end that any code can use."""
    x, model = torch.ones(4, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    tried = {"f": two_operators, "model": model}

    def attempt(what: Callable[..., Any]) -> None:
        torch.compile(what, backend=optimize_for_inference_compiler)(x)

    return [
        Case(
            f"torch.compile({name}, backend=optimize_for_inference_compiler)(x)", RUNS, outcome(partial(attempt, what))
        )
        for name, what in tried.items()
    ]


def s5_where_the_option_stands() -> list[Case]:
    """Input mutation is supported once torch._inductor.config.cudagraph_support_input_mutation is set."""
    import torch._inductor.config as config

    name = "cudagraph_support_input_mutation"
    return [
        Case(f"torch._inductor.config.{name} = True", RUNS, outcome(lambda: setattr(config, name, True))),
        Case(f"torch._inductor.config.triton.{name}", "False", str(getattr(config.triton, name))),
    ]


def s7_allow_in_graph() -> list[Case]:
    """The function is torch.compile.allow_in_graph."""
    return [Case("torch.compile.allow_in_graph", RUNS, outcome(lambda: torch.compile.allow_in_graph))]


def without_triton() -> None:
    """Compile on a CPU in a process that can't import Triton; says how the generated code was made."""
    sys.modules["triton"] = None  # type: ignore[assignment]  # import triton raises ImportError from here on
    from torch._inductor.utils import run_and_get_code

    _, (code, *_) = run_and_get_code(torch.compile(two_operators), torch.ones(64))
    print("TRITON" if "@triton.jit" in code else "C++" if "async_compile.cpp" in code else "OTHER")


def s8_triton_writes_cpp() -> list[Case]:
    """On a CPU, Triton generates the C++ kernels."""
    answer = subprocess.run([sys.executable, __file__, "--without-triton"], capture_output=True, text=True, timeout=120)
    if answer.returncode == 0:
        seen, made_by = RUNS, answer.stdout.split()[-1]
    else:
        seen, made_by = (answer.stderr.strip().splitlines() or ["no output"])[-1].partition(":")[0], "OTHER"
    return [
        Case('sys.modules["triton"] = None; torch.compile(f)(cpu_tensor)', SOME_ERROR, seen, seen != RUNS),
        Case('"@triton.jit" in code  # torch.compile(f)(cpu_tensor)', "True", str(made_by == "TRITON")),
    ]


def s9_each_number_compiles_again() -> list[Case]:
    """A float argument is a constant: each new value compiles again."""

    def add(x: torch.Tensor, c: float) -> torch.Tensor:
        return x + c

    growing = graphs_of(add, [(torch.ones(i), 0.5 + i) for i in range(5)])
    alone = graphs_of(add, [(torch.ones(4), 0.5 + i) for i in range(5)])
    return [
        Case("len(graphs)  # f(torch.ones(i), 0.5 + i), i = 0, 1 … 4", "5", str(growing)),
        Case("len(graphs)  # f(torch.ones(4), 0.5 + i), i = 0, 1 … 4", "5", str(alone)),
    ]


# ---------------------------------------------------------------- PyTorch: the announcement of 2.0


def s12_saving_is_an_error() -> list[Case]:
    """torch.save(compiled_model) is an error."""
    model, x, file = nn.Linear(8, 8), torch.ones(4, 8), io.BytesIO()
    saving = outcome(lambda: torch.save(torch.compile(model), file))

    def load() -> None:
        file.seek(0)
        assert torch.equal(torch.load(file, weights_only=False)._orig_mod(x), model(x))

    loading = outcome(load)
    return [
        Case("torch.save(optimized_model, file)", SOME_ERROR, saving, saving != RUNS),
        Case("torch.load(file, weights_only=False)", SOME_ERROR, loading, loading != RUNS),
    ]


def s13_writing_to_a_weight() -> list[Case]:
    """optimized_model.weight.fill_(0.01) works, and the model has the new weight."""
    model = nn.Linear(8, 8)
    optimized = torch.compile(model)
    plain = outcome(lambda: optimized.weight.fill_(0.01))
    with torch.no_grad():
        optimized.weight.fill_(0.01)
    arrived = bool((model.weight == torch.tensor(0.01)).all())
    return [
        Case("optimized_model.weight.fill_(0.01)", RUNS, plain),
        Case("with torch.no_grad(): optimized_model.weight.fill_(0.01); model.weight == 0.01", "True", str(arrived)),
    ]


def s14_calls_of_the_announcement() -> list[Case]:
    """The calls of the announcement: the list of back ends, exporting, the default of dynamic=."""
    model, x = nn.Linear(8, 8).eval(), torch.ones(4, 8)

    def listed() -> None:
        __import__("torchdynamo").list_backends()

    def exported() -> None:
        torch.save(torch._dynamo.export(model, x), io.BytesIO())

    default = inspect.signature(torch.compile).parameters["dynamic"].default
    return [
        Case("torchdynamo.list_backends()", RUNS, outcome(listed)),
        Case("torch.save(torch._dynamo.export(model, x), file)", RUNS, outcome(exported)),
        Case('inspect.signature(torch.compile).parameters["dynamic"].default', "False", str(default)),
    ]


# ---------------------------------------------------------------- PyTorch: documentation of older versions


def s15_limit_is_64() -> list[Case]:
    """A function keeps up to 64 graphs."""
    import torch._dynamo.config as config

    graphs = graphs_of(two_operators, batches(range(2, 14)), dynamic=False)
    return [
        Case("torch._dynamo.config.cache_size_limit", "64", str(config.cache_size_limit)),
        Case("len(graphs)  # dynamic=False, batch 2, 3 … 13", "12", str(graphs)),
    ]


def s16_fullgraph_allows_breaks() -> list[Case]:
    """fullgraph says whether it is ok to break the model into several subgraphs."""

    def breaks(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x + 1

    x = torch.ones(4)
    allowed = outcome(lambda: torch.compile(breaks, backend="eager", fullgraph=True)(x))
    forbidden = outcome(lambda: torch.compile(breaks, backend="eager", fullgraph=False)(x))
    return [
        Case("graph_break() + fullgraph=True", RUNS, allowed),
        Case("graph_break() + fullgraph=False", SOME_ERROR, forbidden, forbidden != RUNS),
    ]


def s17_compile_profiler() -> list[Case]:
    """CompileProfiler shows why a function is compiled again."""

    def use() -> None:
        from torch._dynamo.utils import CompileProfiler

        torch.compile(two_operators, backend=CompileProfiler())(torch.ones(4))

    return [Case("from torch._dynamo.utils import CompileProfiler", RUNS, outcome(use))]


def s18_tools_of_the_old_faq() -> list[Case]:
    """explain() gives four values, nopython=True forbids breaks, log_level makes Dynamo talk."""
    import torch._dynamo.config as config

    x = torch.ones(4)

    def explained() -> None:
        # The line of the documentation, unpacking four values.
        explanation, _out_guards, _graphs, _ops_per_graph = torch._dynamo.explain(two_operators, x)
        assert explanation is not None

    return [
        Case("explanation, out_guards, graphs, ops_per_graph = torch._dynamo.explain(f, x)", RUNS, outcome(explained)),
        Case("torch.compile(f, nopython=True)", RUNS, outcome(lambda: torch.compile(two_operators, nopython=True))),
        Case("torch._dynamo.config.log_level = logging.INFO", RUNS, outcome(lambda: setattr(config, "log_level", 20))),
    ]


# ---------------------------------------------------------------- documentation of other projects


def s19_shape_padding_is_off() -> list[Case]:
    """shape_padding is False by default."""
    import torch._inductor.config as config

    return [Case("torch._inductor.config.shape_padding", "False", str(config.shape_padding))]


def s20_where_the_budget_stands() -> list[Case]:
    """The memory budget for activations is set in torch._dynamo.config."""
    import torch._dynamo.config as config

    name = "activation_memory_budget"
    return [Case(f"torch._dynamo.config.{name} = 0.5", RUNS, outcome(lambda: setattr(config, name, 0.5)))]


def s21_names_of_back_ends() -> list[Case]:
    """aot_cudagraphs, nvfuser and aot_nvfuser are back ends."""
    names = ("aot_cudagraphs", "nvfuser", "aot_nvfuser")
    return [
        Case(f'backend="{name}"', RUNS, outcome(partial(torch.compile, two_operators, backend=name))) for name in names
    ]


#: Milliseconds of an inference as the transformers documentation prints them, without and with torch.compile: A100,
#: batch size 1, torch 2.0.1 (docs/source/en/perf_torch_compile.md, commit 0559c47).
PRINTED_MS = {
    "ViT": (9.325, 7.584),
    "Segformer": (11.759, 10.500),
    "OwlViT": (24.978, 18.420),
    "BeiT": (11.282, 8.448),
    "DETR": (34.619, 19.040),
    "ConvNeXT": (10.410, 10.208),
    "ResNet": (6.531, 4.124),
    "Mask2former": (60.188, 49.117),
    "Maskformer": (75.764, 59.487),
    "MobileNet": (8.583, 3.974),
    "Resnet-101": (36.276, 18.197),
    "Conditional-DETR": (31.219, 17.993),
}


def s22_up_to_thirty_percent() -> list[Case]:
    """The speed-up is up to 30 %, read in either way: times as fast, or time saved."""
    ratio = max(before / after for before, after in PRINTED_MS.values())
    saved = max(1 - after / before for before, after in PRINTED_MS.values())
    return [
        Case("max(before / after)  # A100, batch 1", "≤ 1.30", f"{ratio:.2f}", ratio <= 1.3),
        Case("max(1 - after / before)  # A100, batch 1", "≤ 30 %", f"{saved * 100:.0f} %", saved <= 0.3),
    ]


def s24_a_line_of_python() -> list[Case]:
    """The line imports compile_regions."""
    line = "from accelerate.utils import compile regions"
    return [Case(line, RUNS, outcome(lambda: compile(line, "<documentation>", "exec")))]


#: By number; numbers that are missing here are decided by other records, or by their sources.
CLAIMS: dict[str, Callable[[], list[Case]]] = {
    function.__name__.partition("_")[0].upper(): function
    for function in (
        s2_dynamic_shapes_are_off,
        s3_transform_of_a_compiled_function,
        s4_torchscript_as_a_back_end,
        s5_where_the_option_stands,
        s7_allow_in_graph,
        s8_triton_writes_cpp,
        s9_each_number_compiles_again,
        s12_saving_is_an_error,
        s13_writing_to_a_weight,
        s14_calls_of_the_announcement,
        s15_limit_is_64,
        s16_fullgraph_allows_breaks,
        s17_compile_profiler,
        s18_tools_of_the_old_faq,
        s19_shape_padding_is_off,
        s20_where_the_budget_stands,
        s21_names_of_back_ends,
        s22_up_to_thirty_percent,
        s24_a_line_of_python,
    )
}


# ---------------------------------------------------------------- in the child process


def child_main(job: Row) -> None:
    """Try statements and write a line of JSON for each into the answer file, as soon as it is known."""
    torch.set_num_threads(1)
    with Path(job["answer"]).open("a") as answer:
        for name in job["claims"]:
            line: Row = {"claim": name}
            torch._dynamo.reset()
            torch.manual_seed(0)
            try:
                if graphs_of(two_operators, batches([2])) == 0:
                    line["nothing"] = True
                else:
                    line["cases"] = [case.row() for case in CLAIMS[name]()]
            except Exception as error:
                line["failed"] = f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
            answer.write(json.dumps(line) + "\n")
            answer.flush()


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
    caches = {"TMPDIR": ".", "TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
    environment = os.environ | {name: str(folder / place) for name, place in caches.items()}
    log = folder / "log.txt"
    with log.open("w") as output:
        # A session of its own makes it the leader of a process group, which is killed at the end.
        process = subprocess.Popen(
            [sys.executable, __file__, "--child", json.dumps(job)],
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
    """Return the rows of a statement (columns: module docstring)."""
    if answer.get("cases"):
        return [{"claim": name, **case, "status": "ok", "note": None} for case in answer["cases"]]
    summary = (CLAIMS[name].__doc__ or "").strip()
    empty = {"claim": name, "tried": summary, "said": None, "seen": None, "agrees": None}
    if answer.get("nothing"):
        return [empty | {"status": "not measured", "note": NOTHING_COMPILED}]
    return [empty | {"status": "failed", "note": answer.get("failed", "the statement has no case here")}]


def run(*, claims: Sequence[str] = tuple(CLAIMS), child_limit_s: float = 240.0) -> list[Row]:
    """Try the statements and return their rows (columns: module docstring).

    ``claims``: which, by number; ``child_limit_s``: a process that takes longer is killed, and the statement that it
    was at is a failed row. Raises ValueError for a number that is not in CLAIMS.
    """
    if unknown := set(claims) - set(CLAIMS):
        raise ValueError(f"no statement {', '.join(sorted(unknown))}; there are {', '.join(CLAIMS)}")
    answers: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="stale-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "answers.jsonl")
        while left := [name for name in claims if name not in answers]:
            trouble = run_child({"claims": left, "answer": str(path)}, Path(folder), child_limit_s)
            for line in path.read_text().splitlines() if path.exists() else ():
                with contextlib.suppress(json.JSONDecodeError):  # a line that was cut off
                    answer: Row = json.loads(line)
                    answers[answer["claim"]] = answer
            lost = next((name for name in left if name not in answers), None)
            if lost is not None:
                # The first without an answer took the process down; the others get a new one.
                answers[lost] = {"claim": lost, "failed": trouble or "the process ended without an answer"}
    return [row for name in claims for row in rows_of(name, answers[name])]


def main(arguments: Sequence[str]) -> None:
    """Try and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
    elif arguments == ["--without-triton"]:
        without_triton()
    else:
        for row in run():
            mark = row["status"] if row["agrees"] is None else "as said" if row["agrees"] else "not so"
            print(f"{row['claim']:4} {row['tried']}\n     said {row['said']}, seen {row['seen']} ({mark})")


if __name__ == "__main__":
    main(sys.argv[1:])
