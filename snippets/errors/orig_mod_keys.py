# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""Missing and unexpected keys with "_orig_mod.": a compiled model's weights in a model that is not, or the reverse.

torch.compile(model) gives a wrapper whose one child is called _orig_mod, and the child's name becomes part of each key.

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


def make_model(seed: int) -> nn.Sequential:
    """A small model; the seed tells one set of weights from another."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def problem(trained: nn.Module, fresh: nn.Module) -> None:
    """Save the wrapper's weights, load them into the plain model."""
    compiled = torch.compile(trained, backend="eager")
    fresh.load_state_dict(compiled.state_dict())


def problem_reversed(trained: nn.Module, fresh: nn.Module) -> None:
    """Plain weights into the wrapper."""
    compiled = torch.compile(fresh, backend="eager")
    compiled.load_state_dict(trained.state_dict())


def problem_hidden(trained: nn.Module, fresh: nn.Module) -> None:
    """strict=False takes the error away and loads nothing."""
    compiled = torch.compile(trained, backend="eager")
    fresh.load_state_dict(compiled.state_dict(), strict=False)


def fix_in_place(trained: nn.Module, fresh: nn.Module) -> None:
    """Compile in place: there is no wrapper, and the keys stay."""
    trained.compile(backend="eager")
    fresh.load_state_dict(trained.state_dict())


def fix_by_saving_the_original(trained: nn.Module, fresh: nn.Module) -> None:
    """The wrapper shares its weights with the model inside: save that one."""
    compiled = torch.compile(trained, backend="eager")
    fresh.load_state_dict(compiled._orig_mod.state_dict())


def fix_an_old_file(trained: nn.Module, fresh: nn.Module) -> None:
    """For files that exist already: take the prefix off."""
    saved = torch.compile(trained, backend="eager").state_dict()
    fresh.load_state_dict({key.replace("_orig_mod.", ""): value for key, value in saved.items()})


def loaded(step: str, call: str, load: Callable[[nn.Module, nn.Module], None]) -> Row:
    """Carry weights from one model to another: the error, or whether both give the same."""
    torch._dynamo.reset()
    trained, fresh, x = make_model(0), make_model(1), torch.randn(3, 4)
    expected = trained(x)
    try:
        load(trained, fresh)
    except Exception as error:
        return row(step, call, "error", "load", type(error).__name__, tidy(error))
    equal = torch.equal(fresh(x), expected)
    return row(step, call, "fine" if equal else "wrong", "" if equal else "load", evidence=f"same_result={equal}")


def run() -> list[Row]:
    """Rows: three ways to lose the weights, three ways to keep them."""
    return [
        loaded("problem", "model.load_state_dict(torch.compile(trained).state_dict())", problem),
        loaded("problem", "torch.compile(model).load_state_dict(trained.state_dict())", problem_reversed),
        loaded("problem", "model.load_state_dict(torch.compile(trained).state_dict(), strict=False)", problem_hidden),
        loaded("fix", "trained.compile(); model.load_state_dict(trained.state_dict())", fix_in_place),
        loaded("fix", "model.load_state_dict(compiled._orig_mod.state_dict())", fix_by_saving_the_original),
        loaded("fix", 'key.replace("_orig_mod.", "")', fix_an_old_file),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
