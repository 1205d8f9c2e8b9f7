# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# limit_s = 180
# value = 30
# ///
"""TorchScript as a back end (``ts``, ``aot_ts``), and TorchScript alone: what still runs, and what torch.export does.

``ts`` gives the graph that Dynamo captured to ``torch.jit.script``. On torch 2.3 to 2.13 that graph is of a lazy class
which ``torch.jit.script`` can't read; ``scripted`` below makes a plain graph of it first, and that is all it takes.
Results are compared with eager mode; "right" is a difference below 1e-5.

Columns
    kind               "back end": through torch.compile; "alone": trace, script and export by themselves
    backend, case      the back end; what is compiled ("function", "mlp") or called ("trace", "script", "export")
    mode               "inference" or "training" (forward and backward)
    outcome            "runs"; "wrong"; "error"
    executed           calls of a scripted graph in one step, backward included
    gradients          "equal", "wrong", "lost", "not wanted"
    branch             of a function with ``if x.sum() > 0``: "kept": both ways are right; "lost": only the way of the
                       example is; "refused": an error says so
    saved              whether a file written by it gives the same result: "yes", "no"
    warning            kind and first sentence of the warning
    raised_at, error, message   where an error came, its name, its first line
    status, note       "ok" (also for an error that was caught: that is the finding)
"""

from __future__ import annotations

import contextlib
import copy
import io
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

Row = dict[str, Any]
TOLERANCE = 1e-5


def scripted(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """What ``ts`` was meant to be: a back end that hands the graph to TorchScript."""
    plain = torch.fx.GraphModule(graph, graph.graph)
    result: Callable[..., Any] = torch.jit.script(plain)
    return result


BACKENDS: dict[str, Any] = {"ts": "ts", "aot_ts": "aot_ts", "scripted": scripted}


def function(x: torch.Tensor) -> torch.Tensor:
    """Return a few operators on a vector."""
    return (x * 2 + 1).relu() - x


def branching(x: torch.Tensor) -> torch.Tensor:
    """Go one of two ways, by the values of x."""
    if x.sum() > 0:  # noqa: SIM108  this is the branch that is tried
        y = x * 2
    else:
        y = x - 1
    return y


class Branching(nn.Module):
    """The same as a module."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Go one of two ways, by the values of x."""
        return branching(x)


def mlp() -> nn.Module:
    """Return two linear layers with ReLU between."""
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def first_line(error: BaseException | str) -> str:
    """Return the first line of a message that says something, without folders of this machine."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return re.sub(r"(?:/[\w.+-]+)+/(?=[\w.+-]+)", "", lines[0])[:240] if lines else ""


@contextlib.contextmanager
def counted() -> Iterator[list[int]]:
    """Count the calls of what torch.jit.script returns, in the one number of a list."""
    calls, script = [0], torch.jit.script

    def counting(*arguments: Any, **keywords: Any) -> Any:
        torch.jit.script = script  # what it calls itself is not counted
        try:
            made = script(*arguments, **keywords)
        finally:
            torch.jit.script = counting

        def call(*inputs: Any) -> Any:
            calls[0] += 1
            return made(*inputs)

        return call

    torch.jit.script = counting
    try:
        yield calls
    finally:
        torch.jit.script = script


def through_compile(backend: str, case: str, mode: str) -> Row:
    """Compile with one back end, call, differentiate, and compare with eager mode."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    plain: Any = mlp() if case == "mlp" else function
    model = copy.deepcopy(plain)
    x = torch.randn(5, 8, requires_grad=mode == "training")
    again = x.detach().clone().requires_grad_(mode == "training")
    at = "torch.compile()"
    try:
        with counted() as calls, torch.set_grad_enabled(mode == "training"), quiet():
            compiled = torch.compile(model, backend=BACKENDS[backend])
            at = "first call"
            compiled(x)
            calls[0] = 0
            result = compiled(x)
            if mode == "training":
                at = "backward"
                result.sum().backward()
            executed = calls[0]
            expected = plain(again)
            if mode == "training":
                expected.sum().backward()
    except Exception as error:
        inner = getattr(error, "inner_exception", None) or error
        return {"outcome": "error", "raised_at": at, "error": type(inner).__name__, "message": first_line(inner)}
    gradients = "not wanted"
    if mode == "training":
        pairs = [(x.grad, again.grad)]
        if case == "mlp":
            pairs += [(a.grad, b.grad) for a, b in zip(model.parameters(), plain.parameters(), strict=True)]
        lost = any(a is None for a, _ in pairs)
        gradients = "lost" if lost else "equal" if all(near(a, b) for a, b in pairs) else "wrong"
    right = near(result, expected) and gradients in ("equal", "not wanted")
    found = {"outcome": "runs" if right else "wrong", "raised_at": "never", "executed": executed}
    return found | {"gradients": gradients}


def near(value: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether two results are the same within rounding."""
    return torch.allclose(value, expected, rtol=TOLERANCE, atol=TOLERANCE)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Leave warnings out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def trace(model: nn.Module, x: torch.Tensor) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the traced model, and the same read back from a file."""
    made, file = torch.jit.trace(model, x), io.BytesIO()
    torch.jit.save(made, file)
    file.seek(0)
    return made, torch.jit.load(file)


def script(model: nn.Module, x: torch.Tensor) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the scripted model, and the same read back from a file."""
    made, file = torch.jit.script(model), io.BytesIO()
    torch.jit.save(made, file)
    file.seek(0)
    return made, torch.jit.load(file)


def export(model: nn.Module, x: torch.Tensor) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the exported model, and the same read back from a file."""
    made, file = torch.export.export(model, (x,)), io.BytesIO()
    torch.export.save(made, file)
    file.seek(0)
    return made.module(), torch.export.load(file).module()


WAYS = {"trace": trace, "script": script, "export": export}


def alone(case: str) -> Row:
    """Turn a model into a program of its own by one of the ways; save it; try the branch."""
    torch.manual_seed(0)
    model, x = mlp().eval(), torch.randn(5, 8)
    with torch.no_grad(), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            made, loaded = WAYS[case](model, x)
        except Exception as error:
            found = {"outcome": "error", "raised_at": "first call", "error": type(error).__name__}
            return found | {"message": first_line(error)}
        right, same = near(made(x), model(x)), near(loaded(x), model(x))
    deprecated = [w for w in heard if issubclass(w.category, DeprecationWarning | FutureWarning)]
    up, down = torch.ones(4), torch.full((4,), -3.0)
    name, message = None, None
    try:
        with torch.no_grad(), quiet():
            branchy, _ = WAYS[case](Branching(), up)
            branch = "kept" if near(branchy(up), branching(up)) and near(branchy(down), branching(down)) else "lost"
    except Exception as error:
        branch, name, message = "refused", type(error).__name__, first_line(error)
    said = f"{deprecated[0].category.__name__}: {first_line(deprecated[0].message)}" if deprecated else None
    return {
        "outcome": "runs" if right else "wrong",
        "raised_at": "never",
        "gradients": "not wanted",
        "branch": branch,
        "saved": "yes" if same else "no",
        "warning": said,
        "error": name,
        "message": message,
    }


def run() -> list[Row]:
    """Try everything and return one row each (columns: module docstring)."""
    rows: list[Row] = []
    for backend in BACKENDS:
        for case in ("function", "mlp"):
            for mode in ("inference", "training"):
                names = {"kind": "back end", "backend": backend, "case": case, "mode": mode}
                rows.append(names | through_compile(backend, case, mode))
    rows += [{"kind": "alone", "backend": None, "case": case, "mode": "inference"} | alone(case) for case in WAYS]
    blank = dict.fromkeys(("executed", "gradients", "branch", "saved", "warning", "raised_at", "error", "message"))
    return [blank | row | {"torch_version": str(torch.__version__), "status": "ok", "note": None} for row in rows]


def main() -> None:
    """Run and print."""
    for row in run():
        if row["kind"] == "back end":
            says = " ".join(filter(None, (row["error"], row["message"]))) or f"gradients {row['gradients']}"
            print(
                f"{row['backend']:9} {row['case']:9} {row['mode']:10} {row['outcome']:6} {row['executed'] or 0} {says}"
            )
        else:
            print(f"{row['case']:9} {row['outcome']:6} branch {row['branch']:8} saved {row['saved']}  {row['warning']}")


if __name__ == "__main__":
    main()
