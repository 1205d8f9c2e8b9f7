# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""A function under torch.compiler.disable, met by fullgraph=True: one asks for no cut, the other for a cut.

Often it isn't your own: hooks of libraries are marked this way. Fixes: leave fullgraph off, and the cut is as it was
meant (two graphs, counted); compile the parts beside it, each with fullgraph; or, if only its inside must stay
uncompiled, make it an operator of your own.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "error"; "not compiled": no graph; "costly": more graphs than the function needs; "wrong": not
                what plain Python gives; "fine"
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     the exception's text, or the reason that Dynamo notes (TORCH_LOGS="graph_breaks" prints it)
    evidence    graphs=: graphs that Dynamo captured in all calls; calls=: calls made
    status      "ok"
    note        ""
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.utils import counters

Row = dict[str, Any]

INPUTS = (torch.ones(4), -torch.ones(4))


@torch.compiler.disable
def uncompiled(x: torch.Tensor) -> torch.Tensor:
    """Something that must not be compiled."""
    return x + 1


def problem(x: torch.Tensor) -> torch.Tensor:
    """Use it in the middle."""
    x = torch.relu(x)
    x = uncompiled(x)
    return x * 2


@torch.library.custom_op("kitchen::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    """Run the same as an operator: its inside is never seen by the compiler."""
    return uncompiled(x)


@opaque.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    """Tell the compiler shape and format of what comes out."""
    return torch.empty_like(x)


def fix_operator(x: torch.Tensor) -> torch.Tensor:
    """Use the operator in the middle."""
    x = torch.relu(x)
    x = opaque(x)
    return x * 2


def shown(text: str, limit: int = 500) -> str:
    """Return the first lines of a message, without the folders and addresses of this machine."""
    text = text.split("Developer debug context")[0]
    text = re.sub(r"[\w./+-]+/(?=\w+\.py\b)", "", re.sub(r" at 0x[0-9a-f]+", "", text))
    lines = ""
    for line in text.strip().splitlines():
        if lines and len(lines) + len(line) > limit:
            break
        lines += line + "\n"
    return lines.strip()[:limit]


def attempt(step: str, function: Callable[..., Any], *, wanted: int = 1, **how: Any) -> Row:
    """Compile a function, call it with the inputs, and say what happened; ``problem`` run plain is the reference."""
    torch._dynamo.reset()
    counters.clear()
    keywords = "".join(
        f', {name}="{value}"' if isinstance(value, str) else f", {name}={value}" for name, value in how.items()
    )
    call = f"torch.compile({function.__name__}{keywords})(x)"
    row = {"step": step, "call": call, "happened": "", "raised_at": "", "error": "", "message": "", "evidence": ""}
    row |= {"status": "ok", "note": ""}
    moment, same = "torch.compile()", True
    try:
        compiled = torch.compile(function, **how)
        for x in INPUTS:
            moment = "later call" if moment == "first call" else "first call"
            same &= torch.allclose(compiled(x), problem(x))
    except Exception as error:
        return row | {
            "happened": "error",
            "raised_at": moment,
            "error": type(error).__name__,
            "message": shown(str(error)),
            "evidence": f"graphs={counters['stats']['unique_graphs']}",
        }
    graphs = counters["stats"]["unique_graphs"]
    row["evidence"] = f"graphs={graphs}, calls={len(INPUTS)}"
    row["happened"] = "wrong" if not same else "not compiled" if not graphs else "costly" if graphs > wanted else "fine"
    if row["happened"] != "fine":
        reasons = [*counters["graph_break"], *counters["unimplemented"], ""]
        row |= {"raised_at": "first call", "message": shown(reasons[0])}
    return row


def run(*, backend: str = "eager") -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [
        attempt("problem", problem, backend=backend, fullgraph=True),
        attempt("fix", problem, wanted=2, backend=backend),
        attempt("fix", fix_operator, backend=backend, fullgraph=True),
    ]


def main() -> None:
    """Run it and print what happened."""
    for row in run():
        print(f"{row['step']:8}{row['happened']:13}{row['call']}")
        print("".join(f"{'':21}{row[name]}\n" for name in ("message", "evidence") if row[name]))


if __name__ == "__main__":
    main()
