# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""torch.save, pickle and deepcopy of a compiled model: all three work.

Up to torch 2.3 the first two raised "Can't pickle local object 'convert_frame.<locals>._convert_frame'".

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

import copy
import io
import pickle
import re
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
    """A small model."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def problem_save(compiled: nn.Module) -> nn.Module:
    """Into a file, and back. Without weights_only=False torch.load refuses any object that is not a tensor."""
    file = io.BytesIO()
    torch.save(compiled, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def problem_pickle(compiled: nn.Module) -> nn.Module:
    """As multiprocessing sends it."""
    return pickle.loads(pickle.dumps(compiled))


def problem_copy(compiled: nn.Module) -> nn.Module:
    """As for an average of the weights."""
    return copy.deepcopy(compiled)


def fix(compiled: nn.Module) -> nn.Module:
    """What helped, and is still the better file: the weights only."""
    fresh = make_model()
    fresh.load_state_dict(compiled._orig_mod.state_dict())
    return torch.compile(fresh, backend="eager")


def carried(step: str, call: str, carry: Callable[[nn.Module], nn.Module]) -> Row:
    """Carry a compiled model over: the error, or whether what comes back is compiled and gives the same."""
    torch._dynamo.reset()
    compiled, x = torch.compile(make_model(), backend="eager"), torch.randn(3, 4)
    expected = compiled(x)
    try:
        back = carry(compiled)
    except Exception as error:
        return row(step, call, "error", "save", type(error).__name__, tidy(error))
    equal = torch.equal(back(x), expected)
    return row(step, call, "fine" if equal else "wrong", evidence=f"type={type(back).__name__}, same_result={equal}")


def run() -> list[Row]:
    """Rows: a file, a pickle, a copy, and the weights only."""
    return [
        carried("problem", "torch.save(torch.compile(model), file)", problem_save),
        carried("problem", "pickle.dumps(torch.compile(model))", problem_pickle),
        carried("problem", "copy.deepcopy(torch.compile(model))", problem_copy),
        carried("fix", "torch.save(model.state_dict(), file)", fix),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
