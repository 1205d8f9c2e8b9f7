# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""try/except around torch.compile() catches nothing: it compiles nothing yet.

The first forward compiles, and where gradients are needed the first backward compiles again. A machine without a C++
compiler is stood for by a back end that refuses, in the forward or in the backward. The fix runs both once inside the
try, on an example, and only then decides.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "error": it came after the try; "wrong": the result or the gradient isn't that of plain Python; "fine"
    raised_at   when it came
    error       the exception's class; "" if none came
    message     its text
    evidence    caught=: exceptions that the except clause got; compiled=: whether the compiled function is used
    status      "ok"
    note        ""
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

Row = dict[str, Any]
Function = Callable[[torch.Tensor], torch.Tensor]


def model(x: torch.Tensor) -> torch.Tensor:
    """Something to train."""
    return torch.sin(x) * 2


def problem(function: Function, backend: Any) -> Function:
    """Fall back where compiling fails: it looks right and never happens."""
    try:
        return torch.compile(function, backend=backend)
    except Exception:
        return function


def fix(function: Function, backend: Any, example: torch.Tensor) -> Function:
    """Compile, run forward and backward once, and fall back where one of them fails."""
    try:
        compiled = torch.compile(function, backend=backend)
        compiled(example.detach().clone().requires_grad_()).sum().backward()
    except Exception as error:
        logging.warning("not compiled: %s: %s", type(error).__name__, str(error).splitlines()[0])
        return function
    return compiled


def keep(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
    """Run the graph as it is."""
    return make_boxed_func(graph.forward)


def refuse(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
    """Fail as a compiler does that isn't there."""
    raise RuntimeError("no compiler here")


BACKENDS = {
    "no_forward": aot_autograd(fw_compiler=refuse, bw_compiler=refuse),
    "no_backward": aot_autograd(fw_compiler=keep, bw_compiler=refuse),
    "working": aot_autograd(fw_compiler=keep, bw_compiler=keep),
}


def attempt(step: str, backend: str, make: Callable[[Any], Function]) -> Row:
    """Make the function, train one step with it, and say what happened."""
    torch._dynamo.reset()
    names = f"model, {backend}" if step == "problem" else f"model, {backend}, example"
    row: Row = {"step": step, "call": f"f = {step}({names}); f(x).sum().backward()"}
    row |= {"happened": "fine", "raised_at": "", "error": "", "message": "", "evidence": "", "status": "ok", "note": ""}
    x = torch.linspace(-1, 1, 5, requires_grad=True)
    used = make(BACKENDS[backend])
    row["evidence"] = f"caught={int(used is model)}, compiled={used is not model}"
    moment = "first call"
    try:
        loss = used(x).sum()
        moment = "backward"
        loss.backward()
    except Exception as error:
        row |= {"happened": "error", "raised_at": moment, "error": type(error).__name__}
        return row | {"message": str(error).split("\n\n")[0][:500]}
    (wanted,) = torch.autograd.grad(model(x).sum(), x)
    if x.grad is None or not torch.allclose(x.grad, wanted) or not torch.allclose(loss, model(x).sum()):
        row["happened"] = "wrong"
    return row


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    example = torch.linspace(-1, 1, 5)
    rows = [attempt("problem", name, lambda backend: problem(model, backend)) for name in ("no_forward", "no_backward")]
    return rows + [attempt("fix", name, lambda backend: fix(model, backend, example)) for name in BACKENDS]


def main() -> None:
    """Run it and print what happened."""
    for row in run():
        print(f"{row['step']:8}{row['happened']:13}{row['call']}")
        print("".join(f"{'':21}{row[name]}\n" for name in ("message", "evidence") if row[name]))


if __name__ == "__main__":
    main()
