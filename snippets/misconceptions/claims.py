# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 400
# value = 60
# ///
"""What people say about torch.compile, put to a small test each: counts, errors and bits, no clock.

Each claim is one function here, of the same name. It turns the claim into predictions ("then one graph is
compiled", "then it raises at torch.compile()"), runs small cases on CPU tensors, and notes what was seen beside what
was said. A claim holds where every case came out as it says, holds in part where some did, and does not hold where
none did: nothing is judged by hand. Claims that need a clock are in speed.py beside this file.

Everything runs in a child process with cache folders and TMPDIR of its own, so that what lies in your caches changes
nothing and nothing stays behind. Dynamo is reset before each claim. If a claim takes the process down, it is a failed
row, and the rest goes on in a new process.

Columns
    kind            "claim": one row a claim; "case": one row for each thing that was tried for it
    claim, topic    its key (the function's name), and what it is about: names, capture, shapes, results, inside, around
    status, note    "ok"; "failed" with the error in note, or "not measured" where nothing gets compiled here
    device          "cpu": every case uses CPU tensors, on a GPU machine too
    cases, as_said  claim: how many cases ran, and how many came out as the claim says
    holds           claim: "yes", "in part" or "no"; None where status is not ok
    case            case: what was run, as code
    measure         case: what was looked at: graphs compiled, outcome, values that differ and so on
    said, seen      case: what the claim predicts there, and what came out
    agrees          case: whether the two are the same
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

Row = dict[str, Any]

#: What a case can look at.
GRAPHS = "graphs compiled"
AFTER_FIRST = "graphs compiled after the first step"
OUTCOME = "outcome"
RAISED_AT = "raised at"
DIFFERING = "values that differ"
LINES = "lines that differ"
ERROR = "error, compiled / eager"
VALUE = "value"
BREAKS = "graph breaks counted"
LIBRARY = "library calls in the code"
OPERATORS = "operators in the graph"
SKIPS = "CUDA graphs skipped"
INNER = "graphs for the inner back end"
KEYS = "keys changed"
HITS = "graphs from the disk cache"
THREADS = "threads"
COMPILING = "is_compiling() inside f"

RUNS = "runs"
SOME_ERROR = "an error"
NOTHING_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to look at (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)


class Case(NamedTuple):
    """One thing that was tried. ``agrees`` None: said and seen are compared as they stand."""

    case: str
    measure: str
    said: str
    seen: str
    agrees: bool | None = None

    def row(self) -> Row:
        """The columns of a case."""
        agrees = self.said == self.seen if self.agrees is None else self.agrees
        return {
            "case": self.case,
            "measure": self.measure,
            "said": self.said,
            "seen": self.seen,
            "agrees": agrees,
        }


class Counting:
    """A back end that counts the graphs it is given and runs them as they are."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Count one graph."""
        self.graphs += 1
        return graph.forward


def graphs_of(function: Callable[..., Any], calls: Sequence[torch.Tensor], **how: Any) -> int:
    """Return how many graphs are compiled for these calls of a function; ``how``: keywords of torch.compile."""
    torch._dynamo.reset()
    counting = Counting()
    compiled = torch.compile(function, backend=counting, **how)
    for x in calls:
        compiled(x)
    return counting.graphs


def outcome(attempt: Callable[[], Any]) -> str:
    """Return "runs", or the name of the error that came."""
    torch._dynamo.reset()
    try:
        attempt()
    except Exception as error:
        return type(error).__name__
    return RUNS


def trying(function: Callable[..., Any], *arguments: Any, **how: Any) -> Callable[[], Any]:
    """Return an attempt: compile a function as ``how`` says, and call it."""
    return lambda: torch.compile(function, **how)(*arguments)


def differing(result: torch.Tensor, reference: torch.Tensor) -> str:
    """Return how many values are not bit for bit the same, of how many."""
    return f"{int((result != reference).sum())}/{reference.numel()}"


def counter(group: str, name: str) -> int:
    """Return one of Dynamo's own counters since the last reset of this claim."""
    from torch._dynamo.utils import counters

    return int(counters[group][name])


def rows_of_batches(sizes: Sequence[int], width: int = 8) -> list[torch.Tensor]:
    """Return one input for each batch size, shape (size, width)."""
    return [torch.ones(size, width) for size in sizes]


def relu_plus_one(x: torch.Tensor) -> torch.Tensor:
    """A function with two operators and no branches; same shape out as in."""
    return torch.relu(x) + 1


# ---------------------------------------------------------------- names


def eager_is_uncompiled() -> list[Case]:
    """backend="eager" means that nothing is compiled."""
    inside: list[bool] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        inside.append(torch.compiler.is_compiling())
        return relu_plus_one(x)

    call = 'torch.compile(f, backend="eager")(x)'
    torch.compile(f, backend="eager")(torch.ones(4))
    return [
        Case(call, GRAPHS, "0", str(counter("stats", "unique_graphs"))),
        Case(call, COMPILING, "False", str(inside[-1])),
    ]


def mode_is_backend() -> list[Case]:
    """A mode such as "reduce-overhead" is a back end."""
    x = torch.ones(4)
    cases = []
    for name in ("reduce-overhead", "max-autotune"):
        seen = outcome(trying(relu_plus_one, x, backend=name))
        cases.append(Case(f'torch.compile(f, backend="{name}")', OUTCOME, RUNS, seen))
    return cases


def option_levels() -> list[Case]:
    """options= and mode= take general levels of optimisation and precision."""
    x = torch.ones(4)
    cases = []
    for how in (
        {"options": {"optimization_level": 1}},
        {"options": {"precision": "highest"}},
        {"mode": "fast"},
    ):
        seen = outcome(trying(relu_plus_one, x, **how))
        (name, value), *_ = how.items()
        shown = f'"{value}"' if isinstance(value, str) else json.dumps(value)
        cases.append(Case(f"torch.compile(f, {name}={shown})", OUTCOME, RUNS, seen))
    return cases


def old_names() -> list[Case]:
    """The back ends of older guides are still there under their names."""
    x = torch.ones(4)
    names = ("nvfuser", "tvmgraph", "onnxrt", "tensorrt", "ipex")
    seen = {name: outcome(trying(relu_plus_one, x, backend=name)) for name in names}
    return [Case(f'backend="{name}"', OUTCOME, RUNS, seen[name]) for name in names]


def list_is_what_works() -> list[Case]:
    """torch.compiler.list_backends() lists what works, and all that works."""
    x = torch.ones(4)
    listed = torch.compiler.list_backends()
    cases = []
    for name in listed:
        seen = outcome(trying(relu_plus_one, x, backend=name))
        cases.append(Case(f'backend="{name}"  # listed', OUTCOME, RUNS, seen))
    for name in ("eager", "aot_eager"):
        if name not in listed:
            seen = outcome(trying(relu_plus_one, x, backend=name))
            cases.append(Case(f'backend="{name}"  # not listed', OUTCOME, SOME_ERROR, seen, seen != RUNS))
    return cases


def cuda_graphs_by_default() -> list[Case]:
    """torch.compile records CUDA graphs unless told otherwise."""
    import torch._inductor.config as config

    modes = torch._inductor.list_mode_options()
    return [
        Case("torch._inductor.config.triton.cudagraphs", VALUE, "True", str(config.triton.cudagraphs)),
        Case(
            'list_mode_options()["default"].get("triton.cudagraphs")',
            VALUE,
            "True",
            str(modes["default"].get("triton.cudagraphs")),
        ),
    ]


# ---------------------------------------------------------------- capture


def compiles_at_once() -> list[Case]:
    """torch.compile() compiles the model."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    forward, backward = [0], [0]

    def counting(counts: list[int]) -> Callable[..., Any]:
        def compiler(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            counts[0] += 1
            return make_boxed_func(graph.forward)

        return compiler

    backend = aot_autograd(fw_compiler=counting(forward), bw_compiler=counting(backward))
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    cases = []
    compiled = torch.compile(model, backend=backend)
    cases.append(Case("c = torch.compile(model)", GRAPHS, "2", str(forward[0] + backward[0])))
    before = forward[0] + backward[0]
    out = compiled(torch.ones(4, 8))
    cases.append(Case("out = c(x)", GRAPHS, "0", str(forward[0] + backward[0] - before)))
    before = forward[0] + backward[0]
    out.sum().backward()
    cases.append(Case("out.sum().backward()", GRAPHS, "0", str(forward[0] + backward[0] - before)))
    return cases


def refuse(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """A compiler that always fails."""
    raise NotImplementedError("this compiler never succeeds")


def try_catches() -> list[Case]:
    """A try/except around torch.compile() catches what goes wrong in compiling."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def keep(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return make_boxed_func(graph.forward)

    def breaks(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x + 1

    def raised_at(function: Callable[..., Any], **how: Any) -> str:
        torch._dynamo.reset()
        moment = "torch.compile()"
        try:
            compiled = torch.compile(function, **how)
            moment = "first call"
            out = compiled(torch.ones(4, requires_grad=True))
            moment = "backward()"
            out.sum().backward()
        except Exception:
            return moment
        return RUNS

    bad_backward = aot_autograd(fw_compiler=keep, bw_compiler=refuse)
    tried = {
        'backend="nvfuser"': raised_at(relu_plus_one, backend="nvfuser"),
        'mode="fast"': raised_at(relu_plus_one, mode="fast"),
        "backend=refuse": raised_at(relu_plus_one, backend=refuse),
        "graph_break() + fullgraph=True": raised_at(breaks, backend="eager", fullgraph=True),
        "aot_autograd(bw_compiler=refuse)": raised_at(relu_plus_one, backend=bad_backward),
    }
    return [Case(case, RAISED_AT, "torch.compile()", seen) for case, seen in tried.items()]


def one_graph() -> list[Case]:
    """A model that compiles without an error is one graph."""

    def straight(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + 1

    def branch(x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x)
        return x + 1 if x.sum() > 0 else x - 1

    def item(x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x)
        return x * x.sum().item() + 1

    x = [torch.ones(4)]
    return [
        Case("relu(x) + 1", GRAPHS, "1", str(graphs_of(straight, x))),
        Case("x + 1 if x.sum() > 0 else x - 1", GRAPHS, "1", str(graphs_of(branch, x))),
        Case("x * x.sum().item() + 1", GRAPHS, "1", str(graphs_of(item, x))),
    ]


def python_breaks() -> list[Case]:
    """Whatever is not a tensor operator breaks the graph."""
    import torch._dynamo.config as config

    log = logging.getLogger("claims")
    shapes: list[torch.Size] = []

    def plain(x: torch.Tensor) -> torch.Tensor:
        table = {name: index for index, name in enumerate(("a", "b"))}
        x = torch.relu(x)
        for name in table:
            x = x + len(f"{name}!")
        return x

    def logs(x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x)
        log.info("seen")
        return x + 1

    def appends(x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x)
        shapes.append(x.shape)
        return x + 1

    def prints(x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x)
        print("seen")
        return x + 1

    def sleeps(x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x)
        time.sleep(0)
        return x + 1

    tried: dict[str, Callable[..., Any]] = {
        'for name in {"a": 0, "b": 1}: …': plain,
        "shapes.append(x.shape)": appends,
        'print("seen")': prints,
        'log.info("seen")': logs,
        "time.sleep(0)": sleeps,
    }
    graphs = {case: graphs_of(function, [torch.ones(4)]) for case, function in tried.items()}
    with config.patch(reorderable_logging_functions={print}):
        graphs['print("seen")  # reorderable_logging_functions'] = graphs_of(prints, [torch.ones(4)])
    return [Case(case, GRAPHS, "2", str(number), number > 1) for case, number in graphs.items()]


def explain_counts() -> list[Case]:
    """torch._dynamo.explain() counts all graph breaks."""

    def first(x: torch.Tensor) -> torch.Tensor:
        print("seen")
        return torch.relu(x) + 1

    def middle(x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x)
        print("seen")
        return x + 1

    def both(x: torch.Tensor) -> torch.Tensor:
        print("seen")
        x = torch.relu(x)
        print("seen")
        return x + 1

    tried = {
        "print(); relu(x)": (first, 1),
        "relu(x); print(); x + 1": (middle, 1),
        "print(); relu(x); print(); x + 1": (both, 2),
    }
    cases = []
    for case, (function, breaks) in tried.items():
        torch._dynamo.reset()
        seen = torch._dynamo.explain(function)(torch.ones(4)).graph_break_count
        cases.append(Case(case, BREAKS, str(breaks), str(seen)))
    return cases


def fullgraph_optimises() -> list[Case]:
    """fullgraph=True makes the compiler optimise more."""
    import torch._inductor.config as config
    from torch._inductor.utils import run_and_get_code

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(F.gelu(x) * 2, -1)

    x = torch.ones(64, 64)
    codes = []
    for fullgraph in (False, True):
        torch._dynamo.reset()
        with config.patch(force_disable_caches=True):
            _, (code, *_) = run_and_get_code(torch.compile(f, fullgraph=fullgraph), x)
        # The number of the compile stands in a comment.
        codes.append([line for line in code.splitlines() if "AOT ID" not in line])
    plain, full = codes
    lines = sum(a != b for a, b in zip(plain, full, strict=False)) + abs(len(plain) - len(full))
    return [Case("fullgraph=False / fullgraph=True", LINES, "> 0", str(lines), lines > 0)]


# ---------------------------------------------------------------- shapes


def every_shape_recompiles() -> list[Case]:
    """Every new batch size compiles again."""
    calls = rows_of_batches((2, 3, 4, 5, 6, 7))
    marked = rows_of_batches((2, 3, 4, 5, 6, 7))
    for x in marked:
        torch._dynamo.mark_dynamic(x, 0)
    return [
        Case("torch.compile(f)  # 2, 3 … 7", GRAPHS, "6", str(graphs_of(relu_plus_one, calls))),
        Case("torch.compile(f, dynamic=True)", GRAPHS, "6", str(graphs_of(relu_plus_one, calls, dynamic=True))),
        Case("torch._dynamo.mark_dynamic(x, 0)", GRAPHS, "6", str(graphs_of(relu_plus_one, marked))),
    ]


def dynamic_false_caches() -> list[Case]:
    """dynamic=False avoids recompilation."""
    six, twelve = rows_of_batches(range(2, 8)), rows_of_batches(range(2, 14))
    return [
        Case("dynamic=False  # 2, 3 … 7", GRAPHS, "1", str(graphs_of(relu_plus_one, six, dynamic=False))),
        Case("dynamic=False  # 2, 3 … 13", GRAPHS, "1", str(graphs_of(relu_plus_one, twelve, dynamic=False))),
    ]


def limit_raises() -> list[Case]:
    """Too many recompilations are an error, so they can't be missed."""
    cases = []
    for fullgraph in (False, True):

        def attempt(fullgraph: bool = fullgraph) -> None:
            compiled = torch.compile(relu_plus_one, backend="eager", dynamic=False, fullgraph=fullgraph)
            for x in rows_of_batches(range(2, 14)):
                compiled(x)

        seen = outcome(attempt)
        how = "dynamic=False" + (", fullgraph=True" if fullgraph else "")
        cases.append(Case(f"{how}  # 2, 3 … 13", OUTCOME, SOME_ERROR, seen, seen != RUNS))
    return cases


def same_shape_same_graph() -> list[Case]:
    """As long as the shape stays, one graph is enough."""
    x = torch.ones(4, 4)

    def without_grad() -> int:
        torch._dynamo.reset()
        counting = Counting()
        compiled = torch.compile(relu_plus_one, backend=counting)
        compiled(x)
        with torch.no_grad():
            compiled(x)
        return counting.graphs

    return [
        Case("f(x); f(x)", GRAPHS, "1", str(graphs_of(relu_plus_one, [x, x]))),
        Case("f(x); no_grad: f(x)", GRAPHS, "1", str(without_grad())),
        Case("f(x); f(x.t())", GRAPHS, "1", str(graphs_of(relu_plus_one, [torch.ones(4, 4), torch.rand(4, 4).t()]))),
        Case(
            "f(x); f(x.requires_grad_())", GRAPHS, "1", str(graphs_of(relu_plus_one, [x, x.clone().requires_grad_()]))
        ),
        Case("f(x); f(x.double())", GRAPHS, "1", str(graphs_of(relu_plus_one, [x, x.double()]))),
    ]


def schedule_recompiles() -> list[Case]:
    """A learning-rate schedule compiles the optimizer anew at each rate."""
    cases = []
    for case, make in (("lr = 0.1, 0.2 … 0.6", float), ("lr = tensor(0.1) …", torch.tensor)):
        torch._dynamo.reset()
        weight = nn.Parameter(torch.ones(8))
        weight.grad = torch.ones(8)
        optimizer = torch.optim.Adam([weight], lr=make(0.1), capturable=False)
        counting = Counting()
        step = torch.compile(optimizer.step, backend=counting)
        step()
        first = counting.graphs
        for tenths in range(2, 7):
            rate = optimizer.param_groups[0]["lr"]
            if isinstance(rate, torch.Tensor):
                rate.fill_(tenths / 10)
            else:
                optimizer.param_groups[0]["lr"] = tenths / 10
            step()
        cases.append(Case(case, AFTER_FIRST, "5", str(counting.graphs - first)))
    return cases


def train_eval_recompiles() -> list[Case]:
    """Each switch between train() and eval() compiles again."""
    model, counting = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), Counting()
    compiled = torch.compile(model, backend=counting)
    for _ in range(3):
        compiled.train()(torch.ones(4, 8))
        compiled.eval()(torch.ones(4, 8))
    return [Case("3 × (train(), eval())", GRAPHS, "6", str(counting.graphs))]


# ---------------------------------------------------------------- results


def bit_identical() -> list[Case]:
    """A compiled model gives the same bits as the model."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(F.gelu(x) * 1.7 + 0.3, -1)

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 256, generator=generator)
    cases = []
    for backend, dtype in (
        ("eager", torch.float32),
        ("aot_eager", torch.float32),
        ("inductor", torch.float32),
        ("inductor", torch.bfloat16),
    ):
        torch._dynamo.reset()
        data = x.to(dtype)
        seen = differing(torch.compile(f, backend=backend)(data), f(data))
        cases.append(Case(f'backend="{backend}"  # {dtype}', DIFFERING, f"0/{x.numel()}", seen))
    return cases


def less_accurate() -> list[Case]:
    """A compiled model is less accurate."""

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.sigmoid(x) * 1.3 + x * 0.5
        return x

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 256, generator=generator)
    cases = []
    for dtype in (torch.bfloat16, torch.float16):
        torch._dynamo.reset()
        data = x.to(dtype)
        exact = chain(data.double())
        eager, compiled = chain(data).double(), torch.compile(chain)(data).double()
        ratio = float((compiled - exact).square().mean().sqrt() / (eager - exact).square().mean().sqrt())
        cases.append(Case(f"4 × (sigmoid(x) * 1.3 + x * 0.5)  # {dtype}", ERROR, "> 1", f"{ratio:.2f}", ratio > 1))
    return cases


def same_dropout() -> list[Case]:
    """With the same seed, dropout drops the same values."""
    import torch._inductor.config as config

    def f(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.5)

    x = torch.ones(64, 64)
    torch.manual_seed(0)
    reference = f(x)
    cases = []
    for backend, fallback in (("eager", False), ("aot_eager", False), ("inductor", False), ("inductor", True)):
        torch._dynamo.reset()
        with config.patch(fallback_random=fallback):
            compiled = torch.compile(f, backend=backend)
            torch.manual_seed(0)
            seen = differing(compiled(x), reference)
        case = f'backend="{backend}"' + (", fallback_random=True" if fallback else "")
        cases.append(Case(case, DIFFERING, f"0/{x.numel()}", seen))
    return cases


def runs_everywhere() -> list[Case]:
    """What runs with one back end runs with all."""

    def attempt(backend: str) -> None:
        compiled = torch.compile(lambda x: (x.sin() * x).sum(), backend=backend)
        x = torch.ones(4, requires_grad=True)
        (slope,) = torch.autograd.grad(compiled(x), x, create_graph=True)
        slope.sum().backward()

    backends = ("eager", "aot_eager", "inductor")
    seen = {backend: outcome(partial(attempt, backend)) for backend in backends}
    return [Case(f'double backward, backend="{name}"', OUTCOME, RUNS, seen[name]) for name in backends]


# ---------------------------------------------------------------- inside


def writes_matrix_products() -> list[Case]:
    """Inductor writes its own code for every operator, matrix products too."""
    from torch._inductor.utils import run_and_get_code

    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64)).eval()
    with torch.no_grad():
        _, (code, *_) = run_and_get_code(torch.compile(model), torch.ones(32, 64))
    calls = re.findall(r"extern_kernels\.\w+\(|torch\.ops\.(?:aten|mkl|mkldnn|onednn)\.\w*(?:mm|linear)\w*", code)
    return [Case("Linear, GELU, Linear", LIBRARY, "0", str(len(calls)))]


def looks_into_layers() -> list[Case]:
    """The compiler optimises inside nn.TransformerEncoderLayer."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    found: list[int] = []

    def count(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        found.append(sum(node.op == "call_function" for node in graph.graph.nodes))
        return make_boxed_func(graph.forward)

    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True).eval()
    cases = []
    before = torch.backends.mha.get_fastpath_enabled()
    try:
        for enabled in (True, False):
            torch._dynamo.reset()
            found.clear()
            torch.backends.mha.set_fastpath_enabled(enabled)
            with torch.no_grad():
                torch.compile(layer, backend=aot_autograd(fw_compiler=count))(torch.ones(2, 8, 32))
            operators = sum(found)
            case = f"eval(), no_grad(), set_fastpath_enabled({enabled})"
            cases.append(Case(case, OPERATORS, "> 1", str(operators), operators > 1))
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    return cases


def ran_so_recorded() -> list[Case]:
    """It ran and the result is right, so the CUDA graphs were recorded."""
    cases = []
    for case, how in (
        ('backend="cudagraphs"', {"backend": "cudagraphs"}),
        ('mode="reduce-overhead"', {"mode": "reduce-overhead"}),
    ):
        torch._dynamo.reset()
        before = counter("inductor", "cudagraph_skips")
        x = torch.ones(4, device="cpu")
        assert torch.equal(torch.compile(relu_plus_one, **how)(x), relu_plus_one(x))
        skips = counter("inductor", "cudagraph_skips") - before
        cases.append(Case(f"torch.compile(f, {case})(cpu_tensor)", SKIPS, "0", str(skips)))
    return cases


def inner_stays() -> list[Case]:
    """A part compiled with its own back end keeps it inside a larger torch.compile."""
    cases = []
    for outside in (False, True):
        torch._dynamo.reset()
        inner = Counting()
        encoder = torch.compile(nn.Linear(8, 8), backend=inner)
        model: Callable[..., Any] = nn.Sequential(encoder, nn.ReLU())
        if outside:
            model = torch.compile(model, backend=Counting())
        model(torch.ones(4, 8))
        case = "torch.compile(Sequential(encoder, relu))" if outside else "Sequential(encoder, relu)"
        cases.append(Case(f"{case}(x)", INNER, "1", str(inner.graphs)))
    return cases


# ---------------------------------------------------------------- around


def state_dict_is_the_same() -> list[Case]:
    """A compiled model saves and loads like the model."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    names = set(model.state_dict())
    wrapped = torch.compile(copy.deepcopy(model))
    in_place = copy.deepcopy(model)
    in_place.compile()
    return [
        Case("torch.compile(model).state_dict()", KEYS, "0", str(len(set(wrapped.state_dict()) - names))),
        Case(
            "model.load_state_dict(torch.compile(model).state_dict())",
            OUTCOME,
            RUNS,
            outcome(lambda: model.load_state_dict(wrapped.state_dict())),
        ),
        Case("model.compile(); model.state_dict()", KEYS, "0", str(len(set(in_place.state_dict()) - names))),
    ]


def reset_is_cold() -> list[Case]:
    """torch._dynamo.reset() makes the next compile a cold one."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) * 3 + 2

    x = torch.ones(32)
    torch.compile(f)(x)
    cases = []
    for case, reset in (
        ("torch._dynamo.reset()", torch._dynamo.reset),
        ("torch.compiler.reset()", torch.compiler.reset),
    ):
        groups = (("inductor", "fxgraph_cache_hit"), ("aot_autograd", "autograd_cache_hit"))
        before = [counter(*group) for group in groups]
        reset()
        torch.compile(f)(x)
        hits = max(counter(*group) - was for group, was in zip(groups, before, strict=True))
        cases.append(Case(case, HITS, "0", str(hits)))
    return cases


def timer_uses_all_threads() -> list[Case]:
    """torch.utils.benchmark.Timer times with as many threads as PyTorch uses."""
    from torch.utils.benchmark import Timer

    before = torch.get_num_threads()
    seen: list[int] = []
    try:
        torch.set_num_threads(2)
        Timer("seen.append(get())", globals={"seen": seen, "get": torch.get_num_threads}).timeit(1)
    finally:
        torch.set_num_threads(before)
    return [Case("set_num_threads(2); Timer(…).timeit(1)", THREADS, "2", str(seen[-1]))]


#: Topic of each claim, in the order of the page.
TOPICS: dict[str, tuple[Callable[[], list[Case]], ...]] = {
    "names": (
        eager_is_uncompiled,
        mode_is_backend,
        option_levels,
        old_names,
        list_is_what_works,
        cuda_graphs_by_default,
    ),
    "capture": (compiles_at_once, try_catches, one_graph, python_breaks, explain_counts, fullgraph_optimises),
    "shapes": (
        every_shape_recompiles,
        dynamic_false_caches,
        limit_raises,
        same_shape_same_graph,
        schedule_recompiles,
        train_eval_recompiles,
    ),
    "results": (bit_identical, less_accurate, same_dropout, runs_everywhere),
    "inside": (writes_matrix_products, looks_into_layers, ran_so_recorded, inner_stays),
    "around": (state_dict_is_the_same, reset_is_cold, timer_uses_all_threads),
}
CLAIMS = {function.__name__: (topic, function) for topic, functions in TOPICS.items() for function in functions}


# ---------------------------------------------------------------- in the child process


def try_claim(name: str) -> list[Row]:
    """Return the columns of the cases of one claim."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    return [case.row() for case in CLAIMS[name][1]()]


def child_main(job: Row) -> None:
    """Try claims and write a line of JSON for each into the answer file, as soon as it is known."""
    torch.set_num_threads(1)
    with Path(job["answer"]).open("a") as answer:
        for name in job["claims"]:
            line: Row = {"claim": name}
            try:
                if graphs_of(relu_plus_one, [torch.ones(4)]) == 0:
                    line["nothing"] = True
                else:
                    line["cases"] = try_claim(name)
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
    """Run one job in a fresh process with all caches below ``folder``; return what went wrong, or None.

    Its process group is killed at the end, and after ``limit_s`` seconds at the latest. Output goes to a file.
    """
    folder.mkdir(parents=True, exist_ok=True)
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


def answers_in(path: Path) -> dict[str, Row]:
    """Return the lines of the answer file by claim; a line that was cut off is left out."""
    found: dict[str, Row] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            answer: Row = json.loads(line)
            found[answer["claim"]] = answer
    return found


def claim_rows(name: str, answer: Row) -> list[Row]:
    """Return the row of a claim, then those of its cases (columns: module docstring)."""
    shared: Row = {"claim": name, "topic": CLAIMS[name][0], "status": "ok", "note": None, "device": "cpu"}
    claim = shared | {"kind": "claim", "cases": 0, "as_said": 0, "holds": None}
    if answer.get("nothing"):
        return [claim | {"status": "not measured", "note": NOTHING_COMPILED}]
    if "failed" in answer or not answer.get("cases"):
        return [claim | {"status": "failed", "note": answer.get("failed", "the claim has no case here")}]
    cases = [shared | {"kind": "case"} | case for case in answer["cases"]]
    as_said = sum(case["agrees"] for case in cases)
    holds = "no" if as_said == 0 else "yes" if as_said == len(cases) else "in part"
    return [claim | {"cases": len(cases), "as_said": as_said, "holds": holds}, *cases]


def run(*, claims: Sequence[str] = tuple(CLAIMS), child_limit_s: float = 300.0) -> list[Row]:
    """Try the claims and return their rows (columns: module docstring).

    ``claims``: which, by name; ``child_limit_s``: a process that takes longer is killed, and the claim that it was at
    is a failed row. Raises ValueError for a name that is not in CLAIMS.
    """
    if unknown := set(claims) - set(CLAIMS):
        raise ValueError(f"no claim named {', '.join(sorted(unknown))}; there are {', '.join(CLAIMS)}")
    answers: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="claims-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "answers.jsonl")
        while left := [name for name in claims if name not in answers]:
            trouble = run_child({"claims": left, "answer": str(path)}, Path(folder), child_limit_s)
            answers |= answers_in(path)
            lost = next((name for name in left if name not in answers), None)
            if lost is not None:
                # The first without an answer took the process down; the others get a new one.
                answers[lost] = {"claim": lost, "failed": trouble or "the process ended without an answer"}
    return [row for name in claims for row in claim_rows(name, answers[name])]


def main(arguments: Sequence[str]) -> None:
    """Try and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        if row["kind"] == "claim":
            words = (CLAIMS[row["claim"]][1].__doc__ or "").strip()
            held = f"{row['as_said']} of {row['cases']} as said" if row["status"] == "ok" else row["note"]
            print(f"\n{row['claim']}: {words}\n    holds: {row['holds'] or row['status']} ({held})")
        else:
            mark = "as said" if row["agrees"] else "not so"
            print(f"    {row['case']:60} {row['measure']}: said {row['said']}, seen {row['seen']} ({mark})")


if __name__ == "__main__":
    main(sys.argv[1:])
