# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 240
# value = 50
# ///
"""Falling back when a back end fails: what does ``try`` catch, by what it is put around?

Six back ends that are made for this, all but the first at fault in a way that back ends of packages are: the name is
unknown; the package is missing; the backward graph can't be compiled; the output wants no gradient; the output is
wrong. Each is tried with ``try`` around three things, and whatever happens behind the ``try`` is noted:

- ``torch.compile()`` alone;
- the first call as well;
- a whole training step, checked against the step without compiling (``compiled_or_plain``, to be copied).

Columns
    case                "right", "unknown name", "missing package", "backward", "gradients lost", "wrong output"
    around_compile      "caught", "escapes" (raised behind the try), "unnoticed" (wrong, and nothing is raised), "right"
    around_call         the same, with the first call inside the try
    around_step         the same, with ``compiled_or_plain``
    reason              why ``compiled_or_plain`` gave the model back as it was, None where it gave the compiled one
    status, note        "ok"
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

Row = dict[str, Any]
Backend = str | Callable[..., Any]

FEATURES = 16
TOLERANCE = 1e-3


# ---------------------------------------------------------------- to be copied


def step(model: Callable[..., torch.Tensor], weights: list[torch.Tensor], x: torch.Tensor) -> list[torch.Tensor]:
    """Return the output and the gradients of one training step; the weights are left as they were."""
    result = model(x)
    return [result.detach(), *torch.autograd.grad(result.sum(), weights)]


def compiled_or_plain(model: torch.nn.Module, backend: Backend, x: torch.Tensor) -> tuple[Callable[..., Any], str]:
    """Return the compiled model and "", or the model as it is and why: ``x`` is a batch like those to come."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    expected = step(model, weights, x)
    try:
        compiled = torch.compile(model, backend=backend)
        found = step(compiled, weights, x)
    except Exception as error:
        return model, f"{type(error).__name__}: {error}"
    for a, b in zip(found, expected, strict=True):
        if not torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE):
            return model, f"differs from the model without compiling by up to {float((a - b).abs().max()):.1e}"
    return compiled, ""


# ---------------------------------------------------------------- back ends at fault


def right(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Run the graph as it is."""
    return graph.forward


def missing_package(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Ask for a package that is not there, as ``tvm`` and ``openxla`` do."""
    raise ImportError("Please install some_package to use this backend.")


def no_gradient(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Compute outside of autograd, as back ends for inference do."""

    def run(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.no_grad():
            return tuple(graph.forward(*values))

    return run


def wrong_output(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Add one to every result."""
    return lambda *values: tuple(value + 1 for value in graph.forward(*values))


def as_it_is(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Run a graph of AOTAutograd as it is."""
    boxed: Callable[..., Any] = make_boxed_func(graph.forward)
    return boxed


def refuse(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Refuse a graph."""
    raise NotImplementedError("no such operator: threshold_backward")


CASES: dict[str, Backend] = {
    "right": right,
    "unknown name": "no_such_backend",
    "missing package": missing_package,
    "backward": aot_autograd(fw_compiler=as_it_is, bw_compiler=refuse),
    "gradients lost": no_gradient,
    "wrong output": wrong_output,
}


# ---------------------------------------------------------------- what is caught


def model_and_input() -> tuple[torch.nn.Module, torch.Tensor]:
    """Return a linear layer with ReLU and a batch, the same each time."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, FEATURES), torch.nn.ReLU()), torch.randn(4, FEATURES)


def behind(model: torch.nn.Module, compiled: Callable[..., Any], x: torch.Tensor) -> str:
    """Do a step with nothing around it, as a program does that believes itself safe; return what becomes of it."""
    plain = copy.deepcopy(model)
    expected = step(plain, list(plain.parameters()), x)
    try:
        found = step(compiled, list(model.parameters()), x)
    except Exception:
        return "escapes"
    same = all(torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE) for a, b in zip(found, expected, strict=True))
    return "right" if same else "unnoticed"


def around_compile(backend: Backend) -> str:
    """Put ``try`` around ``torch.compile()`` alone."""
    model, x = model_and_input()
    try:
        compiled = torch.compile(model, backend=backend)
    except Exception:
        return "caught"
    return behind(model, compiled, x)


def around_call(backend: Backend) -> str:
    """Put ``try`` around ``torch.compile()`` and the first call."""
    model, x = model_and_input()
    try:
        compiled = torch.compile(model, backend=backend)
        compiled(x)
    except Exception:
        return "caught"
    return behind(model, compiled, x)


def around_step(backend: Backend) -> tuple[str, str]:
    """Use ``compiled_or_plain``; return what came of it and the reason that it gave."""
    model, x = model_and_input()
    chosen, reason = compiled_or_plain(model, backend, x)
    after = behind(model, chosen, x)
    return ("caught" if reason and after == "right" else after), reason


def run() -> list[Row]:
    """Try the six back ends (columns: module docstring)."""
    rows: list[Row] = []
    for case, backend in CASES.items():
        outcome, reason = around_step(backend)
        row: Row = {"case": case, "around_compile": around_compile(backend), "around_call": around_call(backend)}
        # What Dynamo wraps has its own message on the second line.
        said = " ".join(line.strip() for line in reason.splitlines()[:2]).strip()
        rows.append(row | {"around_step": outcome, "reason": said or None, "status": "ok", "note": None})
    return rows


if __name__ == "__main__":
    for row in run():
        print(f"{row['case']:16} {row['around_compile']:10} {row['around_call']:10} {row['around_step']:10}", end=" ")
        print(row["reason"] or "")
