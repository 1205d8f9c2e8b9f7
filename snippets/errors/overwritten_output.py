# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""An output of a CUDA graph was kept over the next call, which writes the same place.

**An emulation**, for it needs no GPU: a back end whose outputs have one fixed place stands in for CUDA graphs. As with
these, the outputs of earlier calls are declared lost while a function warms up and is recorded (its first two calls);
from the third on they silently hold the new values. The text of the error is torch's own, asked of the class that
raises it. The same cases on a GPU, with real CUDA graphs, are in snippets/cudagraphs/overwritten_output.py.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "error", or "wrong" where the first output became the second
    raised_at          "later call": when the old output is read
    error, message     what torch raises for such an output of CUDA graphs
    evidence           whether the first output is still what it was; whether the second is right
    status, note       "ok", ""
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor.cudagraph_trees import CUDAGraphTreeManager

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


class OnePlace:
    """A back end that stands in for CUDA graphs: every call writes its outputs into the same place."""

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Take one graph."""
        calls = 0
        given: list[Output] = []
        places: list[torch.Tensor] = []

        def replay(*arguments: Any) -> list[torch.Tensor]:
            nonlocal calls
            calls += 1
            results = graph(*arguments)
            if calls <= 2:  # warming up, recording
                for output in given:
                    output.lost = CUDAGraphTreeManager.format_dealloc_msg("return torch.relu(x @ x)")
                given[:] = [result.as_subclass(Output) for result in results]
                return list(given)
            places.extend(torch.empty_like(result) for result in results[len(places) :])
            for place, result in zip(places, results, strict=True):
                place.copy_(result)
            return list(places)

        return replay


def f(x: torch.Tensor) -> torch.Tensor:
    """What is compiled."""
    return torch.relu(x @ x)


def problem(f: Any, x1: torch.Tensor, x2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Keep the first output over the second call."""
    y1 = f(x1)
    y2 = f(x2)
    return y1 + 0, y2 + 0


def fix_clone(f: Any, x1: torch.Tensor, x2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Clone what is to be kept, outside of what is compiled."""
    y1 = f(x1).clone()
    y2 = f(x2)
    return y1, y2 + 0


def fix_own_place(f: Any, x1: torch.Tensor, x2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Copy it into a place of your own, made once."""
    mine = torch.empty_like(x1)
    mine.copy_(f(x1))
    y2 = f(x2)
    return mine, y2 + 0


def judge(step: str, call: str, attempt: Callable[..., Any], *, calls_before: int = 0) -> Row:
    """Try on a freshly compiled function, or on one that is past its recording; compare both outputs."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    compiled, x1, x2 = torch.compile(f, backend=OnePlace()), torch.randn(8, 8), torch.randn(8, 8)
    for _ in range(calls_before):
        compiled(x1)
    try:
        y1, y2 = attempt(compiled, x1, x2)
    except RuntimeError as error:
        return row(
            step, call, "error", raised_at="later call", error="RuntimeError", message=str(error), evidence="kept=False"
        )
    kept, right = torch.allclose(y1, f(x1), atol=1e-5), torch.allclose(y2, f(x2), atol=1e-5)
    return row(step, call, "fine" if kept and right else "wrong", evidence=f"kept={kept}, second_right={right}")


@torch.no_grad()
def run() -> list[Row]:
    """Keep an output while the function is new, and when it is warm; then keep a copy."""
    kept, warm = "y1 = f(x1); y2 = f(x2); y1", "f(x1); f(x1); f(x1); "
    cloned, own = "y1 = f(x1).clone(); y2 = f(x2); y1", "mine.copy_(f(x1)); y2 = f(x2); mine"
    return [
        judge("problem", kept, problem),
        judge("problem", warm + kept, problem, calls_before=3),
        judge("fix", cloned, fix_clone),
        judge("fix", warm + cloned, fix_clone, calls_before=3),
        judge("fix", warm + own, fix_own_place, calls_before=3),
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
