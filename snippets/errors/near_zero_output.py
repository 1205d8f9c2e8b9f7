# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""A check passes with an error of 1e-16, and the back end is wrong: the outputs themselves are next to nothing.

Freshly initialised networks can shrink their input to almost zero. Any two results then agree in absolute terms, also
those of a back end that does nothing right. The fix measures the error relative to the size of the output, and makes
sure that the check is able to fail, by giving it a back end that is known to be wrong.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    "wrong": the check accepts a wrong back end (or refuses a right one); "fine": neither
    raised_at   when it showed
    error       the exception's class; "" if none came
    message     its text
    evidence    accepts_right=, accepts_wrong=: what the check says of a right and of a wrong back end; largest_output=;
                largest_error=: of the wrong back end
    status      "ok"
    note        ""
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Row = dict[str, Any]
Check = Callable[[torch.Tensor, torch.Tensor], bool]

X = torch.linspace(-1, 1, 512).reshape(8, 64)


def make_model() -> nn.Module:
    """Twelve layers that each shrink what comes in. Shape (n, 64) in and out."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(64, 64, bias=False), nn.ReLU()) for _ in range(12)]
    for layer in layers:
        nn.init.normal_(layer[0].weight, std=0.01)
    return nn.Sequential(*layers).eval()


def problem(got: torch.Tensor, wanted: torch.Tensor) -> bool:
    """An absolute tolerance that looks strict."""
    return bool((got - wanted).abs().max() < 1e-6)


def problem_of_allclose(got: torch.Tensor, wanted: torch.Tensor) -> bool:
    """allclose has an absolute tolerance too: 1e-8 by default."""
    return torch.allclose(got, wanted)


def fix(got: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Relative to the largest output; needs one that is not zero."""
    return bool((got - wanted).abs().max() < 1e-4 * wanted.abs().max())


def wrong_backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """Returns the negative of everything, so every check should refuse it."""
    return lambda *tensors: [-result for result in graph(*tensors)]


def attempt(step: str, call: str, check: Check) -> Row:
    """Give a check a right back end and a wrong one."""
    model = make_model()
    with torch.no_grad():
        wanted = model(X)
        torch._dynamo.reset()
        right = torch.compile(model, backend="aot_eager")(X)
        torch._dynamo.reset()
        wrong = torch.compile(model, backend=wrong_backend)(X)
    accepts = {"right": check(right, wanted), "wrong": check(wrong, wanted)}
    sound = accepts["right"] and not accepts["wrong"]
    row: Row = {"step": step, "call": call, "happened": "fine" if sound else "wrong", "raised_at": "", "error": ""}
    row |= {"message": "", "evidence": f"accepts_right={accepts['right']}, accepts_wrong={accepts['wrong']}, "}
    row["evidence"] += (
        f"largest_output={float(wanted.abs().max()):.1e}, largest_error={float((wrong - wanted).abs().max()):.1e}"
    )
    return row | {"status": "ok", "note": ""}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [
        attempt("problem", "(got - wanted).abs().max() < 1e-6", problem),
        attempt("problem", "torch.allclose(got, wanted)", problem_of_allclose),
        attempt("fix", "(got - wanted).abs().max() < 1e-4 * wanted.abs().max()", fix),
    ]


if __name__ == "__main__":
    for row in run():
        print("\n".join(f"{name:>9}  {value}" for name, value in row.items() if value), end="\n\n")
