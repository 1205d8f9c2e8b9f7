# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""A Python decision about a size that only the values tell: "Could not guard on data-dependent expression".

The mask is captured (fullgraph=True does that), its length is a symbol without a value, u0, and then code asks
whether it is 0. torch._check() promises the answer; where the promise is broken at run time, the compiled function
raises. Without a promise to give: compute with masks and never ask.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "error"; "not compiled": no graph; "costly": more graphs than the function needs; "wrong": not
                what plain Python gives; "fine"
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     the exception's text, or the reason that Dynamo notes (TORCH_LOGS="graph_breaks" prints it)
    evidence    graphs=, calls=: graphs captured, calls made; without_a_positive=: what the same function does
                with an input that has no positive element
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

INPUTS = (torch.tensor([1.0, -2.0, 3.0]), torch.tensor([1.0, 2.0, 6.0]))


def problem(x: torch.Tensor) -> torch.Tensor:
    """Treat the empty case apart."""
    positive = x[x > 0]
    if positive.shape[0] == 0:
        return x.new_zeros(())
    return positive.mean()


def fix_promise(x: torch.Tensor) -> torch.Tensor:
    """Say that there is at least one: the branch is decided."""
    positive = x[x > 0]
    torch._check(positive.shape[0] > 0)
    if positive.shape[0] == 0:
        return x.new_zeros(())
    return positive.mean()


def fix_mask(x: torch.Tensor) -> torch.Tensor:
    """Handle both cases without asking for the size."""
    mask = x > 0
    return torch.where(mask, x, 0.0).sum() / mask.sum().clamp(min=1)


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


def when_there_is_none(function: Callable[..., Any], backend: str) -> str:
    """Return what the compiled function does with an input that has no positive element."""
    torch._dynamo.reset()
    try:
        value = torch.compile(function, backend=backend, fullgraph=True)(-torch.ones(3))
    except RuntimeError as error:
        return type(error).__name__
    return "fine" if torch.equal(value, torch.zeros(())) else "wrong"


def run(*, backend: str = "eager") -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    rows = [attempt("problem", problem, backend=backend, fullgraph=True)]
    for function in (fix_promise, fix_mask):
        row = attempt("fix", function, backend=backend, fullgraph=True)
        row["evidence"] += f", without_a_positive={when_there_is_none(function, backend)}"
        rows.append(row)
    return rows


def main() -> None:
    """Run it and print what happened."""
    for row in run():
        print(f"{row['step']:8}{row['happened']:13}{row['call']}")
        print("".join(f"{'':21}{row[name]}\n" for name in ("message", "evidence") if row[name]))


if __name__ == "__main__":
    main()
