# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""mode= and options= reach the back end as keywords: one that does not take them fails at the first call.

Inductor handles mode= itself. Every other back end gets what you passed, so a function of two arguments raises
TypeError inside BackendCompilerFailed.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    what came of it, computed: "fine" is only a result that equals eager mode's
    raised_at   when it showed
    error       the exception's class
    message     what a user sees
    evidence    what was counted or computed
    status      "ok"
    note        ""
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

Row = dict[str, Any]


def row(
    step: str, call: str, happened: str, raised_at: str = "", error: str = "", message: str = "", evidence: str = ""
) -> Row:
    """One row of the table."""
    return {
        "step": step,
        "call": call,
        "happened": happened,
        "raised_at": raised_at,
        "error": error,
        "message": message,
        "evidence": evidence,
        "status": "ok",
        "note": "",
    }


def tidy(error: object) -> str:
    """The first lines of a message, without addresses and folders of this machine."""
    text = re.sub(r" at 0x[0-9a-f]+", "", str(error).partition("\n\n")[0])
    text = re.sub(r"(?:/[\w.+-]+)+/(?=[\w.+-])", "", text)
    return text if len(text) <= 500 else text[:500] + " …"


def f(x: torch.Tensor) -> torch.Tensor:
    """What gets compiled."""
    return torch.relu(x) * 2


def compile_and_call(step: str, call: str, build: Callable[[], Callable[[torch.Tensor], torch.Tensor]]) -> Row:
    """Compile, then call once: what came, and when. Fine is a result that equals eager mode's."""
    torch._dynamo.reset()
    x = torch.randn(8)
    raised_at = "torch.compile()"
    try:
        compiled = build()
        raised_at = "first call"
        result = compiled(x)
    except Exception as error:
        return row(step, call, "error", raised_at, type(error).__name__, tidy(error))
    equal = torch.allclose(result, f(x))
    return row(step, call, "fine" if equal else "wrong", evidence=f"equal_to_eager={equal}")


def plain(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """A back end that takes the graph and its inputs, and nothing else."""
    return graph.forward


def problem() -> Callable[..., Any]:
    """Inductor's argument for another back end."""
    return torch.compile(f, backend=plain, mode="max-autotune")


def problem_options() -> Callable[..., Any]:
    """options= takes the same way."""
    return torch.compile(f, backend=plain, options={"level": 3})


def fix_the_call() -> Callable[..., Any]:
    """Leave the argument out: it meant nothing here."""
    return torch.compile(f, backend=plain)


def with_options(
    graph: torch.fx.GraphModule, inputs: list[torch.Tensor], *, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """A back end with options of its own."""
    seen.append(options)
    return graph.forward


def fix_the_backend() -> Callable[..., Any]:
    """Let the back end take what it understands."""
    return torch.compile(f, backend=with_options, options={"level": 3})


seen: list[dict[str, Any] | None] = []


def run() -> list[Row]:
    """Rows: mode= and options= for a back end that takes neither; the call mended, and the back end mended."""
    rows = [
        compile_and_call("problem", 'torch.compile(f, backend=plain, mode="max-autotune")(x)', problem),
        compile_and_call("problem", 'torch.compile(f, backend=plain, options={"level": 3})(x)', problem_options),
        compile_and_call("fix", "torch.compile(f, backend=plain)(x)", fix_the_call),
    ]
    seen.clear()
    mended = compile_and_call("fix", 'torch.compile(f, backend=with_options, options={"level": 3})(x)', fix_the_backend)
    mended["evidence"] += f", options_seen={seen}"
    if seen != [{"level": 3}]:
        mended["happened"] = "wrong"
    return [*rows, mended]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
