# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""torch.save(compiled) works, and torch.load refuses the file: it holds an object, not only weights.

Since torch 2.6 torch.load reads weights only, unless told otherwise, and OptimizedModule is not on its list.

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

import io
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
    """The line that names the class."""
    text = " ".join(str(error).split())
    start = text.find("Unsupported global")
    head = text.partition(".")[0]
    return f"{head}. … {text[start : start + 130]} …" if start >= 0 else text[:300]


def make_model(seed: int) -> nn.Sequential:
    """A small model; the seed tells one set of weights from another."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def problem(model: nn.Module, file: io.BytesIO) -> nn.Module:
    """The whole compiled model into a file, and back."""
    torch.save(torch.compile(model, backend="eager"), file)
    file.seek(0)
    return torch.load(file)


def fix(model: nn.Module, file: io.BytesIO) -> nn.Module:
    """Only the weights, and the model from your code."""
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh = make_model(1)
    fresh.load_state_dict(torch.load(file))
    return torch.compile(fresh, backend="eager")


def fix_a_file_you_trust(model: nn.Module, file: io.BytesIO) -> nn.Module:
    """For a file that you made yourself: loading it runs code."""
    torch.save(torch.compile(model, backend="eager"), file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def saved_and_loaded(step: str, call: str, carry: Callable[[nn.Module, io.BytesIO], nn.Module]) -> Row:
    """Save and load: the error, or whether the loaded model gives the same."""
    torch._dynamo.reset()
    model, x = make_model(0), torch.randn(3, 4)
    try:
        loaded = carry(model, io.BytesIO())
    except Exception as error:
        return row(step, call, "error", "load", type(error).__name__, tidy(error))
    equal = torch.equal(loaded(x), model(x))
    return row(step, call, "fine" if equal else "wrong", evidence=f"same_result={equal}")


def run() -> list[Row]:
    """Rows: the whole compiled model, its weights only, and a file that is trusted."""
    return [
        saved_and_loaded("problem", "torch.save(torch.compile(model), file); torch.load(file)", problem),
        saved_and_loaded("fix", "torch.save(model.state_dict(), file); torch.load(file)", fix),
        saved_and_loaded("fix", "torch.load(file, weights_only=False)", fix_a_file_you_trust),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
