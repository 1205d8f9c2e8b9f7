# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""A custom operator that writes into an argument and doesn't say so: compiled, the write is lost or comes too late.

mutates_args is a promise. AOTAutograd reorders, merges and drops operators by it: one that returns nothing anybody
uses, and writes nothing, has no effect and is dropped. Nothing is reported. The fix names the argument.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "wrong": not what eager gives; "fine": as in eager
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    differing=: values that differ from eager, of how many
    status      "ok"
    note        ""
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Row = dict[str, Any]

X = torch.linspace(-1, 1, 8)


def problem(name: str) -> Callable[..., None]:
    """An operator that changes x in place, declared as if it changed nothing."""

    @torch.library.custom_op(name, mutates_args=())
    def add_one_(x: torch.Tensor) -> None:
        x.add_(1)

    add_one_.register_fake(lambda x: None)
    return add_one_


def fix(name: str) -> Callable[..., None]:
    """The same kernel, declared as what it is."""

    @torch.library.custom_op(name, mutates_args={"x"})
    def add_one_(x: torch.Tensor) -> None:
        x.add_(1)

    return add_one_


def attempt(step: str, call: str, add_one_: Callable[..., None], backend: str) -> Row:
    """Compile a function that calls the operator, and compare with eager."""

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        add_one_(y)
        return y

    torch._dynamo.reset()
    result, wanted = torch.compile(f, backend=backend)(X.clone()), f(X.clone())
    differing = int((result != wanted).sum())
    row: Row = {"step": step, "call": call, "happened": "wrong" if differing else "fine"}
    row |= {"raised_at": "first call" if differing else "", "error": "", "message": ""}
    return row | {"evidence": f"differing={differing}/{X.numel()}", "status": "ok", "note": ""}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    silent, declared = problem("kitchen_silent::add_one_"), fix("kitchen_declared::add_one_")
    undeclared_line = "torch.compile(f{})(x)  # mutates_args=()"
    return [
        attempt("problem", undeclared_line.format(""), silent, "inductor"),
        attempt("problem", undeclared_line.format(', backend="aot_eager"'), silent, "aot_eager"),
        attempt("fix", 'torch.compile(f)(x)  # mutates_args={"x"}', declared, "inductor"),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
