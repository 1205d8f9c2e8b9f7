# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""A function written in C inside the compiled code: Dynamo reads bytecode, and C has none.

zlib.crc32 stands for any of them: your own extension (pybind11, Cython), a lock, a clock, a tokenizer. With
fullgraph=True an error, without it a cut. Fixes: work it out before the call where it doesn't depend on tensors; or
wrap it as an operator of your own, which the graph then holds as one opaque node.

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
import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.utils import counters

Row = dict[str, Any]

INPUTS = (torch.ones(4), -torch.ones(4))


def problem(x: torch.Tensor) -> torch.Tensor:
    """Call C in the middle."""
    x = torch.relu(x)
    return x + zlib.crc32(b"layer.0") % 7


SHIFT = zlib.crc32(b"layer.0") % 7


def fix_before(x: torch.Tensor) -> torch.Tensor:
    """Use what was worked out beforehand."""
    x = torch.relu(x)
    return x + SHIFT


@torch.library.custom_op("kitchen::shifted", mutates_args=())
def shifted(x: torch.Tensor) -> torch.Tensor:
    """Run any Python or C, unseen by the compiler."""
    return x + zlib.crc32(b"layer.0") % 7


@shifted.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    """Tell the compiler shape and format of what comes out."""
    return torch.empty_like(x)


def fix_operator(x: torch.Tensor) -> torch.Tensor:
    """Call it as an operator."""
    x = torch.relu(x)
    return shifted(x)


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
        attempt("problem", problem, backend=backend),
        attempt("fix", fix_before, backend=backend, fullgraph=True),
        attempt("fix", fix_operator, backend=backend, fullgraph=True),
    ]


def main() -> None:
    """Run it and print what happened."""
    for row in run():
        print(f"{row['step']:8}{row['happened']:13}{row['call']}")
        print("".join(f"{'':21}{row[name]}\n" for name in ("message", "evidence") if row[name]))


if __name__ == "__main__":
    main()
