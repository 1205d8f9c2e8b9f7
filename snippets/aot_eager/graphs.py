# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 60
# ///
"""The graphs of a training step: what Dynamo captured, the joint graph, and the forward and backward cut from it.

The step is a linear layer, GELU, another linear layer and a mean squared error, on a batch of 16. The graphs are taken
at the places where ``aot_eager`` has them: AOTAutograd calls a partitioner with the joint graph and two compilers with
the halves; ours write the graph down and hand it on (``torch._dynamo.backends.common.aot_autograd``).

Then the same step is cut in three ways, which shows what the partitioner decides: what the forward keeps in memory for
the backward, and what the backward computes again. ``default`` keeps what the backward reads; ``min_cut`` finds the
cheapest cut, and is what ``aot_eager``, ``aot_eager_decomp_partition`` and ``inductor`` use (``default`` is that of
``aot_eager_default_partitioner``, whose name says so); ``budget`` is the same with
``torch._functorch.config.activation_memory_budget`` at BUDGET. To have something to decide on, this part has ten
pointwise operators in a row between the layers.

Nothing here is timed. All gradients are compared with those of the step without compiling.

Rows, told apart by ``kind``; each has status ("ok", or "failed", "wrong" with the reason in note), device.
    kind = "aot_graph": a graph
        graph_stage           "dynamo", "joint", "forward" or "backward"
        decomposed            whether Inductor's decompositions were applied
        operators             calls in the graph
        code, language        the graph as Python, "python"
    kind = "cut": the step cut by one partitioner
        partitioner           "default", "min_cut" or "budget"
        forward_operators, backward_operators   calls in each half
        saved_tensors         tensors that the forward keeps for the backward, besides what goes in anyway; a view
                              counts as what it is a view of
        saved_kib             their memory
        max_rel_error         of all gradients, against the step without compiling
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

Row = dict[str, Any]

BATCH, WIDTH = 16, 32
BUDGET = 0.3
TOLERANCE = 1e-5
STAGES = ("dynamo", "joint", "forward", "backward")
PARTITIONERS = ("default", "min_cut", "budget")


# ---------------------------------------------------------------- the steps


def step(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return the loss: mean squared error of a linear layer, GELU, a linear layer."""
    h = torch.nn.functional.gelu(x @ w1)
    y = h @ w2
    return ((y - wanted) ** 2).mean()


def long_step(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return the loss of the same step with ten pointwise operators between the layers."""
    h = x @ w1
    for _ in range(5):
        h = torch.sin(h)
        h = torch.exp(h)
    y = h @ w2
    return ((y - wanted) ** 2).mean()


def tensors(device: str) -> tuple[torch.Tensor, ...]:
    """Return x, w1, w2 (the weights want gradients) and the wanted output, the same at every call."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((BATCH, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH), (BATCH, WIDTH))
    made = [(torch.randn(shape, generator=generator) / WIDTH**0.5).to(device) for shape in shapes]
    return made[0], made[1].requires_grad_(), made[2].requires_grad_(), made[3]


def gradients(function: Callable[..., torch.Tensor], device: str) -> list[torch.Tensor]:
    """Return the gradients of both weights."""
    inputs = tensors(device)
    function(*inputs).backward()
    return [weight.grad for weight in inputs[1:3] if weight.grad is not None]


def worst_error(found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> float:
    """Return the largest absolute error over the largest absolute value, of all pairs."""
    errors = [float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, wanted, strict=True)]
    return max(errors)


# ---------------------------------------------------------------- a back end that writes the graphs down


def readable(graph: GraphModule) -> str:
    """Return a graph as short Python: its forward, with shapes, without the places in memory."""
    code = graph.print_readable(print_output=False)
    # "f32[16, 32][32, 1]cpu" -> "f32[16, 32]": strides and device are the same all through.
    code = re.sub(r'("\w+\[[^\]]*\])(\[[^\]]*\]\w*(?::\d+)?)?"', r'\1"', code)
    lines = [line.split("  # No stacktrace")[0].rstrip() for line in code.splitlines()]
    body = [line for line in lines if line.strip() and not re.match(r"\s*# (File|No stacktrace|Annotation)", line)]
    return "\n".join(re.sub(r";\s+\w+ = None(?:;.*)?$", "", line) for line in body)


def operators(graph: GraphModule) -> int:
    """Return how many calls a graph makes."""
    return sum(node.op in ("call_function", "call_method", "call_module") for node in graph.graph.nodes)


class Recorder:
    """A back end like ``aot_eager`` that keeps each graph as text, and what the forward saves."""

    def __init__(self, partitioner: str = "min_cut", *, decompose: bool = False) -> None:
        self.partitioner, self.decompose = partitioner, decompose
        self.code: dict[str, str] = {}
        self.operators: dict[str, int] = {}
        self.saved: dict[str, torch.Tensor] = {}

    def note(self, stage: str, graph: GraphModule) -> None:
        """Write a graph down."""
        self.code[stage], self.operators[stage] = readable(graph), operators(graph)

    def compiler(self, stage: str) -> Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]:
        """Return a compiler of one half: it notes the graph and runs it as it is."""
        from functorch.compile import make_boxed_func

        def compile_half(graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
            self.note(stage, graph)
            boxed: Callable[..., Any] = make_boxed_func(graph.forward)
            return boxed

        return compile_half

    def partition(self, joint: GraphModule, joint_inputs: Any, **more: Any) -> tuple[GraphModule, GraphModule]:
        """Note the joint graph, have it cut, and note what the cut keeps."""
        from functorch.compile import default_partition, min_cut_rematerialization_partition

        self.note("joint", joint)
        cut = default_partition if self.partitioner == "default" else min_cut_rematerialization_partition
        forward, backward = cut(joint, joint_inputs, **more)
        given = {node.name for node in forward.graph.nodes if node.op == "placeholder"}
        (returned,) = (node.args[0] for node in forward.graph.nodes if node.op == "output")
        for node in returned[more["num_fwd_outputs"] :]:
            kept = node
            while isinstance(kept, torch.fx.Node) and getattr(kept.target, "is_view", False):
                kept = kept.args[0]
            if isinstance(kept, torch.fx.Node) and kept.name not in given:
                self.saved[kept.name] = kept.meta["val"]
        return forward, backward

    def __call__(self, graph: GraphModule, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
        from torch._dynamo.backends.common import aot_autograd

        self.note("dynamo", graph)
        table: Row = {}
        if self.decompose:
            from torch._inductor.decomposition import select_decomp_table

            table["decompositions"] = select_decomp_table()
        back_end = aot_autograd(
            fw_compiler=self.compiler("forward"),
            bw_compiler=self.compiler("backward"),
            partition_fn=self.partition,
            **table,
        )
        compiled: Callable[..., Any] = back_end(graph, inputs)
        return compiled


# ---------------------------------------------------------------- the rows


def trouble(error: float) -> Row:
    """Return status and note of a row whose gradients are this far off."""
    if error <= TOLERANCE:
        return {"status": "ok", "note": None}
    return {"status": "wrong", "note": f"relative error {error:.2g} of the gradients is above {TOLERANCE:g}"}


def graph_rows(device: str) -> list[Row]:
    """Return the graphs of ``step``: as Dynamo captured it, joint, and both halves, these also decomposed."""
    rows: list[Row] = []
    wanted = gradients(step, device)
    for decompose in (False, True):
        torch._dynamo.reset()
        recorder = Recorder(decompose=decompose)
        error = worst_error(gradients(torch.compile(step, backend=recorder, fullgraph=True), device), wanted)
        for stage in STAGES:
            row: Row = {"kind": "aot_graph", "graph_stage": stage, "decomposed": decompose} | trouble(error)
            row |= {"operators": recorder.operators[stage], "code": recorder.code[stage], "language": "python"}
            # Dynamo's graph knows nothing of decompositions.
            if stage != "dynamo" or not decompose:
                rows.append(row)
    return rows


def cut_rows(device: str, partitioners: Sequence[str]) -> list[Row]:
    """Return ``long_step`` cut by each partitioner."""
    import torch._functorch.config as functorch_config

    rows: list[Row] = []
    wanted = gradients(long_step, device)
    for partitioner in partitioners:
        torch._dynamo.reset()
        recorder = Recorder(partitioner)
        with functorch_config.patch(activation_memory_budget=BUDGET if partitioner == "budget" else 1.0):
            compiled = torch.compile(long_step, backend=recorder, fullgraph=True)
            error = worst_error(gradients(compiled, device), wanted)
        row: Row = {"kind": "cut", "partitioner": partitioner, "max_rel_error": error} | trouble(error)
        row |= {f"{half}_operators": recorder.operators[half] for half in ("forward", "backward")}
        saved = [value for value in recorder.saved.values() if isinstance(value, torch.Tensor)]
        row |= {"saved_tensors": len(saved), "saved_kib": sum(value.nbytes for value in saved) / 1024}
        rows.append(row)
    return rows


def run(*, partitioners: Sequence[str] = PARTITIONERS) -> list[Row]:
    """Take the graphs and cut the long step (columns: module docstring).

    ``partitioners``: default, min_cut, budget. Raises ValueError for another.
    """
    if unknown := set(partitioners) - set(PARTITIONERS):
        raise ValueError(f"unknown partitioners {sorted(unknown)}: choose from {', '.join(PARTITIONERS)}")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows: list[Row] = []
    lost: tuple[tuple[str, Row, Callable[[], list[Row]]], ...] = (
        ("aot_graph", {"graph_stage": "joint", "decomposed": False, "code": None}, lambda: graph_rows(device)),
        ("cut", {"partitioner": "min_cut", "saved_kib": None}, lambda: cut_rows(device, partitioners)),
    )
    for kind, blank, make in lost:
        try:
            rows += make()
        except Exception as error:
            # These hooks are not promised to stay: another version of torch gets a row that says what broke.
            note = f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
            rows.append({"kind": kind, "status": "failed", "note": note} | blank)
    return [{"status": "ok", "note": None, "device": device} | row for row in rows]


def print_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Print some columns of the rows, aligned; notes follow below."""

    def cell(value: Any) -> str:
        return "-" if value is None else f"{value:,.4g}" if isinstance(value, float) else str(value)

    lines = [list(columns), *([cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))
    for row in rows:
        if row["note"]:
            print(f"{row[columns[0]]}: {row['note']}")
    print()


def main(_: Sequence[str]) -> None:
    """Take the graphs and print them."""
    rows = run()
    for row in rows:
        if row["kind"] == "aot_graph" and row["code"]:
            print(f"# {row['graph_stage']}, {'decomposed, ' if row['decomposed'] else ''}{row['operators']} operators")
            print(f"{row['code']}\n")
    columns = ["partitioner", "status", "forward_operators", "backward_operators", "saved_tensors", "saved_kib"]
    print_table([row for row in rows if row["kind"] == "cut"], [*columns, "max_rel_error"])


if __name__ == "__main__":
    main([])
