# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 200
# value = 48
# ///
"""In which order does Inductor pass through its forms? A blog post says: ATen IR, then Torch IR, then target code.

A function is compiled once, for real, with a tap at each place where the program is handed on: what a back end
receives, what Inductor's own compiler receives, the scheduler's nodes, and the code that is saved. The taps note what
they see in the order in which they are passed. What a graph is made of is read from the graph: the operators of ATen
are ``torch._ops.OpOverload``, everything else that a graph of Dynamo calls is a function of ``torch``. Nothing is
timed. One row a function, with and without gradients: in training the backward graph follows the same way.

Columns
    claim         B2
    tried         the function that was compiled, as code
    said, seen    the forms in order: "torch" (calls of torch), "aten" (ATen operators), "loops" (Inductor's loop IR),
                  "code" (C++ or Triton)
    agrees        whether the two are the same; None where nothing was compiled
    status, note  "ok"; "failed" with the error, or "not measured" where nothing gets compiled here
"""

from __future__ import annotations

import operator
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

Row = dict[str, Any]

SAID = "aten, torch, code"
NOTHING_COMPILED = (
    "No graph was captured, so there is no stage to show (is TORCHDYNAMO_DISABLE or TORCH_COMPILE_DISABLE set?)."
)


def head(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A matrix product, GELU and a softmax of each row."""
    return torch.softmax(torch.nn.functional.gelu(x @ w), dim=-1)


def norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A layer norm and a residual, scaled by the diagonal of w."""
    return x + torch.nn.functional.layer_norm(x, x.shape[-1:]) * w.diagonal()


def form_of(graph: torch.fx.Graph) -> str:
    """Return "aten" where everything that a graph calls is an operator of ATen, else "torch".

    Taking one of several results (``getitem``) is in graphs of both kinds.
    """
    calls = [node for node in graph.nodes if node.op.startswith("call_") and node.target is not operator.getitem]
    overloads = [isinstance(node.target, torch._ops.OpOverload) for node in calls]
    return "aten" if calls and all(overloads) else "torch"


def stages_of(function: Callable[..., torch.Tensor], values: Sequence[torch.Tensor]) -> list[str]:
    """Compile a function for these values (with the backward if they want gradients) and return its forms in order.

    A form that is met again, as in the backward graph, is not noted twice.
    """
    import torch._inductor.config as inductor_config
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.graph import GraphLowering

    seen: list[str] = []

    def note(form: str) -> None:
        if form not in seen:
            seen.append(form)

    def inner(module: torch.fx.GraphModule, examples: Sequence[Any], **options: Any) -> Any:
        note(form_of(module.graph))
        return compile_fx_inner(module, examples, **options)

    def backend(module: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        note(form_of(module.graph))
        return compile_fx(module, examples, inner_compile=inner)

    def scheduled(nodes: list[Any]) -> list[Any]:
        note("loops")
        return nodes

    # Out of a cache the graph would come finished, past every tap.
    settings = {"force_disable_caches": True, "_pre_fusion_custom_pass": scheduled}
    with (
        inductor_config.patch(settings),
        patch.object(GraphLowering, "save_output_code", lambda code: note("code")),
    ):
        out = torch.compile(function, backend=backend, fullgraph=True)(*values)
        if out.requires_grad:
            out.sum().backward()
    return seen


def try_function(function: Callable[..., torch.Tensor], gradients: bool) -> Row:
    """Return the row of one function."""
    written = f"torch.compile({function.__name__})(x, w)" + (".sum().backward()" if gradients else "")
    row: Row = {"claim": "B2", "tried": written, "said": SAID, "seen": None, "agrees": None}
    generator = torch.Generator().manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    values = [torch.randn(64, 64, generator=generator).to(device).requires_grad_(gradients) for _ in range(2)]
    torch._dynamo.reset()
    try:
        stages = stages_of(function, values)
    except Exception as error:
        note = f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
        return row | {"status": "failed", "note": note}
    if not stages:
        return row | {"said": None, "status": "not measured", "note": NOTHING_COMPILED}
    seen = ", ".join(stages)
    return row | {"seen": seen, "agrees": seen == SAID, "status": "ok", "note": None}


def run() -> list[Row]:
    """Compile the functions and return a row each (columns: module docstring).

    The compiler's files go into a folder that is removed afterwards.
    """
    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="stages-", ignore_cleanup_errors=True) as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder))
        try:
            return [try_function(function, gradients) for function in (head, norm) for gradients in (False, True)]
        finally:
            if before is None:
                del os.environ["TORCHINDUCTOR_CACHE_DIR"]
            else:
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = before


if __name__ == "__main__":
    for row in run():
        print(f"{row['tried']}\n    said {row['said']}\n    seen {row['seen']}  {row['note'] or ''}")
