# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""``cudagraph_mark_step_begin()`` before each call keeps no output: it ends the step whose outputs were to be kept.

**An emulation**, for it needs no GPU: a back end stands in for CUDA graphs. Like these it reads torch's own count of
steps; a new step declares the outputs of the one before lost, and without marks every call is a step. The text of the
error is torch's own, asked of the class that raises it.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "error" where the first output was lost
    raised_at          "later call": when the old output is read
    error, message     what torch raises for such an output of CUDA graphs
    evidence           steps that were marked; whether the first output is still what it was
    status, note       "ok", ""
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor.cudagraph_trees import CUDAGraphTreeManager, MarkStepBox

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


class Output(torch.Tensor):
    """An output of the stand-in. Once it is lost, reading it raises what torch raises for CUDA graphs."""

    lost = ""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator, unless an argument is lost."""
        for argument in args:
            if isinstance(argument, Output) and argument.lost:
                raise RuntimeError(argument.lost)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class Steps:
    """A back end that stands in for CUDA graphs: outputs live until the next step begins."""

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Take one graph."""
        step, calls = 0, itertools.count(1)
        given: list[Output] = []

        def run(*arguments: Any) -> list[torch.Tensor]:
            nonlocal step
            now = MarkStepBox.mark_step_counter or next(calls)
            if now != step:
                for output in given:
                    output.lost = CUDAGraphTreeManager.format_dealloc_msg("return torch.relu(x @ x)")
                given.clear()
                step = now
            results = [result.as_subclass(Output) for result in graph(*arguments)]
            given.extend(results)
            return list(results)

        return run


def f(x: torch.Tensor) -> torch.Tensor:
    """What is compiled."""
    return torch.relu(x @ x)


def problem(f: Any, x1: torch.Tensor, x2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mark before each call, as the message seems to advise."""
    torch.compiler.cudagraph_mark_step_begin()
    y1 = f(x1)
    torch.compiler.cudagraph_mark_step_begin()
    y2 = f(x2)
    return y1 + 0, y2 + 0


def fix_clone(f: Any, x1: torch.Tensor, x2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Clone what is to outlive its step."""
    torch.compiler.cudagraph_mark_step_begin()
    y1 = f(x1).clone()
    torch.compiler.cudagraph_mark_step_begin()
    y2 = f(x2)
    return y1, y2 + 0


def fix_one_step(f: Any, x1: torch.Tensor, x2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mark once, where an iteration begins: both calls belong to it, and so do their outputs."""
    torch.compiler.cudagraph_mark_step_begin()
    y1 = f(x1)
    y2 = f(x2)
    return y1 + 0, y2 + 0


def judge(step: str, call: str, attempt: Callable[..., Any]) -> Row:
    """Try on a freshly compiled function; compare both outputs."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    compiled, x1, x2 = torch.compile(f, backend=Steps()), torch.randn(8, 8), torch.randn(8, 8)
    before = MarkStepBox.mark_step_counter
    marks = 0
    try:
        y1, y2 = attempt(compiled, x1, x2)
    except RuntimeError as error:
        marks = before - MarkStepBox.mark_step_counter
        return row(
            step,
            call,
            "error",
            raised_at="later call",
            error="RuntimeError",
            message=str(error),
            evidence=f"steps={marks}, kept=False",
        )
    finally:
        marks = before - MarkStepBox.mark_step_counter
        MarkStepBox.mark_step_counter = before
    kept, right = torch.allclose(y1, f(x1), atol=1e-5), torch.allclose(y2, f(x2), atol=1e-5)
    return row(step, call, "fine" if kept and right else "wrong", evidence=f"steps={marks}, kept={kept}")


@torch.no_grad()
def run() -> list[Row]:
    """Mark before each call, then clone, then mark once an iteration."""
    mark = "cudagraph_mark_step_begin(); "
    return [
        judge("problem", f"{mark}y1 = f(x1); {mark}y2 = f(x2); y1", problem),
        judge("fix", f"{mark}y1 = f(x1).clone(); {mark}y2 = f(x2); y1", fix_clone),
        judge("fix", f"{mark}y1 = f(x1); y2 = f(x2); y1", fix_one_step),
    ]


def main() -> None:
    """Print the rows."""
    for made in run():
        print(f"{made['step']:9}{made['happened']:14}{made['call']}")
        for name in ("error", "message", "evidence", "note"):
            if made[name]:
                print(f"{'':9}{name}: {made[name]}")


if __name__ == "__main__":
    main()
