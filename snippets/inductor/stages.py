# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 180
# value = 78
# ///
"""One function at every stage of Inductor: what you wrote, what each stage made of it, and how much is left to run.

The function is a matrix product, a bias, GELU and softmax on float32: something for a library, something pointwise
and a reduction, so that every stage has something to do. It is compiled once, for real, and its result is compared
with float64. Nothing is timed.

How each text is captured
    python      the source of the function
    dynamo      the FX graph that a back end receives: torch.compile calls ours, which hands it on to Inductor's
                ``compile_fx``
    aten        the graph after AOTAutograd and Inductor's decompositions: what ``compile_fx`` gives to its
                ``inner_compile``, here a function of ours
    post_grad   the same graph, which Inductor's passes have changed in place, read again when it is done
    loop_ir     the scheduler's nodes before fusion, with what each does for one element (one line a load, an
                operation or a store); "fused": the nodes after it, and which of the old ones each holds
                (``_pre_fusion_custom_pass``, ``_post_fusion_custom_pass``); lines about layouts are left out
    kernel      what is generated: C++ on a CPU, Triton on a GPU
    wrapper     the Python function that allocates, calls the kernels and the library, and returns
    These are inner parts of torch, written for 2.11 to 2.13. A stage that can't be captured is a row "failed".

Rows, one a stage, in order:
    position, stage        1 "python" ... 8 "wrapper"
    operations, counted    how many of what the stage holds: "torch calls", "ATen operators", "loop nodes",
                           "kernels", "kernel and library calls"; None for the source
    lines                  lines of the text
    language, code         the text itself; a file is named without its folder
    max_rel_error          largest absolute error of the compiled result over the largest absolute reference value
    device, threads, status ("ok"; "failed", "wrong", "not measured" with the reason in note), note
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import torch

Row = dict[str, Any]

ROWS, INNER, COLUMNS = 128, 256, 512
TOLERANCE = 1e-4
COUNTED = {
    "python": None,
    "dynamo": "torch calls",
    "aten": "ATen operators",
    "post_grad": "ATen operators",
    "loop_ir": "loop nodes",
    "fused": "loop nodes",
    "kernel": "kernels",
    "wrapper": "kernel and library calls",
}
NO_GRAPH = "No graph was captured, so there is no stage to show (is TORCHDYNAMO_DISABLE or TORCH_COMPILE_DISABLE set?)."


# ---------------------------------------------------------------- the function


def head(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return softmax(GELU(x w + b)), each row by itself."""
    h = x @ w + b
    h = torch.nn.functional.gelu(h)
    return torch.softmax(h, dim=-1)


def inputs(device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return x (ROWS, INNER), w (INNER, COLUMNS) and b (COLUMNS), float32, the same every time."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((ROWS, INNER), (INNER, COLUMNS), (COLUMNS,))
    x, w, b = (torch.randn(*shape, generator=generator).to(device) for shape in shapes)
    return x, w / INNER**0.5, b


# ---------------------------------------------------------------- capture


def operations(graph: torch.fx.Graph) -> int:
    """Return how many nodes of an FX graph call something."""
    return sum(node.op.startswith("call_") for node in graph.nodes)


def graph_text(module: torch.fx.GraphModule) -> str:
    """Return the readable text of a graph, without folders of this machine."""
    text = str(module.print_readable(print_output=False))
    return re.sub(r"(# File: )(?:[^\s:]*[/\\])?([^\s/\\:]+:\d+)", r"\1\2", text).strip()


def node_texts(nodes: Sequence[Any], bodies: bool) -> str:
    """Return the loop IR of the scheduler's nodes, one after the other, with or without the loop bodies.

    Lines about layouts, users and distances are left out: they say nothing about what is computed.
    """
    kept = r"\s*op\w*(: |\.node\.kernel|\.group\.iteration|\.snodes\[)"
    texts = []
    for node in nodes:
        lines, body = [], False
        for line in node.debug_str().strip().splitlines():
            body = line.startswith("class ") or (body and line.startswith(" "))
            if (bodies and body) or re.match(kept, line):
                lines.append(line)
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


def split_code(code: str) -> tuple[str, str]:
    """Return the kernels of a generated module, and its wrapper: the function ``call``."""
    kernels = re.findall(r"async_compile\.(?:cpp_pybinding|cpp|triton)\(.*?'''\n?(.*?)'''", code, re.DOTALL)
    texts = []
    for kernel in kernels:
        _, jit, function = kernel.partition("@triton.jit")
        texts.append((jit + function if jit else kernel).strip())
    wrapper = re.search(r"^( *)def call\(self, args\):\n.*?(?=^\S)", code, re.DOTALL | re.MULTILINE)
    if wrapper is None:
        wrapper = re.search(r"^()def call\(args\):\n.*?(?=^\S)", code, re.DOTALL | re.MULTILINE)
    if wrapper is None:
        raise ValueError("no function call() in the generated code")
    lines = [line.removeprefix(wrapper[1]) for line in wrapper[0].rstrip().splitlines()]
    return "\n\n".join(texts), "\n".join(lines)


def count_kernels(code: str) -> int:
    """Return how many kernels the generated module defines."""
    return len(re.findall(r"\basync_compile\.(?:cpp_pybinding|cpp|triton)\(", code))


def count_calls(wrapper: str) -> int:
    """Return how many times the wrapper calls a kernel or a library function."""
    call = r"\bextern_kernels\.\w+\(|\btorch\.ops\.[\w.]+\(|\bcpp_fused\w*\(|\btriton_\w+\.run\("
    return len(re.findall(call, wrapper))


def capture(function: Callable[..., torch.Tensor], values: Sequence[torch.Tensor]) -> tuple[Row, torch.Tensor]:
    """Compile a function and return what each stage held, and the result of the compiled function.

    The answer maps a stage to (operations, text); a stage that was not reached is not in it.
    """
    import torch._inductor.config as inductor_config
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.graph import GraphLowering

    stages: Row = {}

    def inner(module: torch.fx.GraphModule, examples: Sequence[Any], **options: Any) -> Any:
        stages["aten"] = operations(module.graph), graph_text(module)
        compiled = compile_fx_inner(module, examples, **options)
        # The passes after autograd have changed the same graph.
        stages["post_grad"] = operations(module.graph), graph_text(module)
        return compiled

    def backend(module: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        stages["dynamo"] = operations(module.graph), graph_text(module)
        return compile_fx(module, examples, inner_compile=inner)

    def before(nodes: list[Any]) -> list[Any]:
        stages["loop_ir"] = len(nodes), node_texts(nodes, bodies=True)
        return nodes

    def after(nodes: list[Any]) -> list[Any]:
        stages["fused"] = len(nodes), node_texts(nodes, bodies=False)
        return nodes

    def save(code: str) -> None:
        kernels, wrapper = split_code(code)
        stages["kernel"] = count_kernels(code), kernels
        stages["wrapper"] = count_calls(wrapper), wrapper

    hooks = {"_pre_fusion_custom_pass": before, "_post_fusion_custom_pass": after}
    # Out of a cache the graph would come finished, past every hook.
    settings = {"force_disable_caches": True, **hooks}
    with inductor_config.patch(settings), patch.object(GraphLowering, "save_output_code", save):
        result = torch.compile(function, backend=backend, fullgraph=True)(*values)
    return stages, result


# ---------------------------------------------------------------- rows


def blank(position: int, stage: str) -> Row:
    """Return a row with every column, nothing captured yet."""
    row: Row = {"position": position, "stage": stage, "operations": None, "counted": COUNTED[stage]}
    return row | {"lines": None, "language": None, "code": None, "max_rel_error": None}


def language_of(stage: str, device: str) -> str:
    """Return the language of a stage's text."""
    if stage in ("loop_ir", "fused"):
        return "text"
    return "cpp" if stage == "kernel" and device == "cpu" else "python"


@torch.no_grad()
def run(*, threads: int = 1) -> list[Row]:
    """Capture the stages and return one row each (columns: module docstring)."""
    torch.set_num_threads(threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    values = inputs(device)
    reference = head(*(value.double() for value in values))
    stages: Row = {"python": (None, inspect.getsource(head).strip())}
    status, note, error = "ok", None, None
    try:
        captured, result = capture(head, values)
    except Exception as problem:
        status, note = "failed", f"{type(problem).__name__}: {problem}".strip().splitlines()[0][:300]
    else:
        stages |= captured
        error = float((result.double() - reference).abs().max() / reference.abs().max())
        if not captured:
            status, note = "not measured", NO_GRAPH
        elif not error <= TOLERANCE:  # also true for NaN
            status, note = "wrong", f"relative error {error:.2g} against float64 is above {TOLERANCE:g}"
            error = None
    rows = []
    for position, stage in enumerate(COUNTED, start=1):
        row = blank(position, stage) | {"device": device, "threads": threads, "status": "ok", "note": None}
        if stage in stages:
            count, text = stages[stage]
            row |= {"operations": count, "code": text, "lines": len(text.splitlines())}
            row |= {"language": language_of(stage, device), "max_rel_error": error}
        if stage not in stages or (status == "wrong" and stage != "python"):
            reason = note or "This stage was not reached."
            row |= {"status": status if status != "ok" else "failed", "note": reason}
        rows.append(row)
    return rows


def main(arguments: Sequence[str]) -> None:
    """Capture and print every stage; there are no arguments."""
    del arguments
    for row in run():
        count = "" if row["operations"] is None else f", {row['counted']}: {row['operations']}"
        print(f"\n# ---- {row['position']}. {row['stage']} ({row['status']}{count})")
        print(row["code"] or row["note"])


if __name__ == "__main__":
    main(sys.argv[1:])
