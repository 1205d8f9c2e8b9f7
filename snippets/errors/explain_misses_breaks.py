# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""torch._dynamo.explain() reports 0 graph breaks, or -1, where the function is cut or not compiled at all.

It doesn't count breaks: graph_break_count is the number of graphs less one. A cut before the first operator leaves one
graph: 0. A cut in a loop leaves none: -1. The fix asks in a way that can't miss one: compile with fullgraph=True and a
back end that does nothing; the error names the reason and the line.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "wrong": what it says is not so (the truth: a print that still prints has been left to Python); "fine"
    raised_at   when it showed
    error       ""
    message     "": nothing is said
    evidence    what was answered; graphs=: graphs that the back end got; left_to_python=: lines that a call printed
    status      "ok"
    note        ""
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import torch

Row = dict[str, Any]

X = torch.linspace(-1, 1, 5)


def provoke_before(x: torch.Tensor) -> torch.Tensor:
    """Cut before the first operator."""
    print("shape:", x.shape)
    return torch.sin(x) * 2


def provoke_in_loop(x: torch.Tensor) -> torch.Tensor:
    """Cut in a loop: nothing is compiled."""
    for _ in range(3):
        x = torch.sin(x)
        print("shape:", x.shape)
    return x


def whole(x: torch.Tensor) -> torch.Tensor:
    """Not cut."""
    return torch.sin(x) * 2


def problem(function: Callable[..., Any], x: torch.Tensor) -> int:
    """Return the number of graph breaks, as explain() has it."""
    return torch._dynamo.explain(function)(x).graph_break_count


def fix(function: Callable[..., Any], x: torch.Tensor) -> str:
    """Return the first reason for a cut, or "" if the function is one graph."""
    torch._dynamo.reset()
    try:
        torch.compile(function, backend="eager", fullgraph=True)(x)
    except torch._dynamo.exc.Unsupported as error:
        return str(error).splitlines()[0]
    return ""


def graphs_and_lines(function: Callable[..., Any], x: torch.Tensor) -> tuple[int, int]:
    """Count without asking Dynamo: graphs that the back end gets, and lines that Python prints, so outside of them."""
    graphs: list[Any] = []

    def back_end(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        torch.compile(function, backend=back_end)(x)
    return len(graphs), len(printed.getvalue().splitlines())


def attempt(step: str, function: Callable[..., Any]) -> Row:
    """Ask about one function and compare the answer with what its call did."""
    graphs, printed = graphs_and_lines(function, X)
    cut = printed > 0
    torch._dynamo.reset()
    with contextlib.redirect_stdout(io.StringIO()):
        answer = problem(function, X) if step == "problem" else fix(function, X)
    right = (answer > 0) == cut if isinstance(answer, int) else bool(answer) == cut
    said = f"graph_break_count={answer}" if step == "problem" else f"first_reason={answer!r}"
    call = f"torch._dynamo.explain({function.__name__})(x)" if step == "problem" else f"fix({function.__name__}, x)"
    row: Row = {"step": step, "call": call, "happened": "fine" if right else "wrong"}
    row |= {"raised_at": "" if right else "first call", "error": "", "message": ""}
    return row | {"evidence": f"{said}, graphs={graphs}, left_to_python={printed}", "status": "ok", "note": ""}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    cut = (provoke_before, provoke_in_loop)
    return [attempt("problem", f) for f in cut] + [attempt("fix", f) for f in (*cut, whole)]


def main() -> None:
    """Run it and print what happened."""
    for row in run():
        print(f"{row['step']:8}{row['happened']:13}{row['call']}")
        print("".join(f"{'':21}{row[name]}\n" for name in ("message", "evidence") if row[name]))


if __name__ == "__main__":
    main()
