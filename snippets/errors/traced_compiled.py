# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""torch.jit.trace and torch.jit.script of a compiled model: they need the model as you wrote it.

torch.export takes the wrapper, but the parameters' names get its prefix.

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
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

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


def make_model() -> nn.Sequential:
    """A model to be exported."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).eval()


def problem_trace(model: nn.Module, x: torch.Tensor) -> Callable[..., Any]:
    """TorchScript by tracing."""
    return torch.jit.trace(torch.compile(model, backend="eager"), (x,))


def problem_script(model: nn.Module, x: torch.Tensor) -> Callable[..., Any]:
    """TorchScript from source."""
    return torch.jit.script(torch.compile(model, backend="eager"))


def problem_names(model: nn.Module, x: torch.Tensor) -> Callable[..., Any]:
    """torch.export: works, and renames the parameters."""
    return exported(torch.compile(model, backend="eager"), x)


def fix(model: nn.Module, x: torch.Tensor) -> Callable[..., Any]:
    """Export the model that you compiled, not the wrapper."""
    compiled = torch.compile(model, backend="eager")
    return exported(compiled._orig_mod, x)


def exported(model: nn.Module, x: torch.Tensor) -> Callable[..., Any]:
    """Export, and give what runs."""
    return torch.export.export(model, (x,)).module()


def tried(step: str, call: str, convert: Callable[[nn.Module, torch.Tensor], Callable[..., Any]]) -> Row:
    """Convert a fresh model: the error, or whether result and names are those of the model."""
    torch._dynamo.reset()
    model, x = make_model(), torch.randn(3, 4)
    expected, names = model(x), set(model.state_dict())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TorchScript is deprecated
            converted: Any = convert(model, x)
    except Exception as error:
        return row(step, call, "error", "save", type(error).__name__, tidy(error))
    equal = torch.allclose(converted(x), expected)
    kept = set(converted.state_dict()) == names
    evidence = f"equal_to_eager={equal}, first_key={next(iter(converted.state_dict()))}"
    return row(step, call, "fine" if equal and kept else "wrong", "" if kept else "save", evidence=evidence)


def run() -> list[Row]:
    """Rows: three ways to export the wrapper, then the model inside."""
    return [
        tried("problem", "torch.jit.trace(torch.compile(model), (x,))", problem_trace),
        tried("problem", "torch.jit.script(torch.compile(model))", problem_script),
        tried("problem", "torch.export.export(torch.compile(model), (x,))", problem_names),
        tried("fix", "torch.export.export(compiled._orig_mod, (x,))", fix),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
