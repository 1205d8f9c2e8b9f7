# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""A log line in every layer: many small graphs a call, with Python between each two of them.

No error, only a call that costs more: each part checks its own guards, and nothing is fused across a cut. The back end
runs the graphs as they are, so the times show what the cuts alone cost, without the fusion that they also prevent. Both
are timed in turns by torch.utils.benchmark.Timer. The fix names the call in ignore_logging_functions; other kinds of
cuts are taken out of the layers.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "costly": more than one graph runs in a call, and the call takes longer than with one, by more than the
                spread; "wrong": not what plain Python gives; "fine"
    raised_at   when it showed
    error       ""
    message     the reason that Dynamo notes (TORCH_LOGS="graph_breaks" prints it)
    evidence    graphs_run=: graphs run in one call; cut/whole=: time of a call with the cuts over one without, median
                and quartiles over the rounds
    status      "ok"
    note        ""
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.utils.benchmark import Timer

Row = dict[str, Any]

LAYERS = 8
X = torch.linspace(-1, 1, 16)
LOG = logging.getLogger("layers")


class Layer(nn.Module):
    """A layer with a line for debugging, which is off."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape stays."""
        x = torch.relu(x)
        LOG.debug("layer done")
        return x + 1


def problem(backend: Any) -> Callable[..., Any]:
    """Compile the layers as they are."""
    return torch.compile(nn.Sequential(*(Layer() for _ in range(LAYERS))), backend=backend)


def fix(backend: Any) -> Callable[..., Any]:
    """Let Dynamo leave the line out of compiled code."""
    torch._dynamo.config.ignore_logging_functions.add(LOG.debug)
    return torch.compile(nn.Sequential(*(Layer() for _ in range(LAYERS))), backend=backend, fullgraph=True)


def count_graphs(make: Callable[[Any], Callable[..., Any]]) -> tuple[int, bool, str]:
    """Return how many graphs run in one call, whether the result is that of plain Python, and why it was cut."""
    torch._dynamo.reset()
    counters.clear()
    runs: list[int] = []

    def back_end(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        def run_graph(*arguments: Any) -> Any:
            runs.append(1)
            return graph.forward(*arguments)

        return run_graph

    wanted = nn.Sequential(*(Layer() for _ in range(LAYERS)))(X)
    compiled = make(back_end)
    compiled(X)
    runs.clear()
    same = torch.allclose(compiled(X), wanted)
    return len(runs), same, next(iter(counters["graph_break"]), "").split("\n\n")[0][:500]


def run(*, rounds: int = 9) -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    before = set(torch._dynamo.config.ignore_logging_functions)
    timers, counts = [], []
    try:
        for make in (problem, fix):
            counts.append(count_graphs(make))
            torch._dynamo.reset()
        for make in (problem, fix):
            torch._dynamo.config.ignore_logging_functions = set(before)
            compiled = make("eager")
            compiled(X)
            timers.append(Timer("compiled(x)", globals={"compiled": compiled, "x": X}))
    finally:
        torch._dynamo.config.ignore_logging_functions = before
    ratios = [timers[0].timeit(200).mean / timers[1].timeit(200).mean for _ in range(rounds)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    rows = []
    for step, (graphs, same, reason) in zip(("problem", "fix"), counts, strict=True):
        happened = "wrong" if not same else "costly" if graphs > 1 and low > 1 else "fine"
        row: Row = {"step": step, "call": f'{step}("eager")(x)'}
        row |= {"happened": happened, "raised_at": "first call" if happened != "fine" else "", "error": ""}
        row["message"] = reason if happened != "fine" else ""
        row["evidence"] = f"graphs_run={graphs}"
        if step == "problem":
            row["evidence"] += f", cut/whole={middle:.2f} ({low:.2f}–{high:.2f})"
        rows.append(row | {"status": "ok", "note": ""})
    return rows


def main() -> None:
    """Run it and print what happened."""
    for row in run():
        print(f"{row['step']:8}{row['happened']:13}{row['call']}")
        print("".join(f"{'':21}{row[name]}\n" for name in ("message", "evidence") if row[name]))


if __name__ == "__main__":
    main()
