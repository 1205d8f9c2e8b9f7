# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""DistributedDataParallel and torch.compile each put a prefix before every key, in the order of wrapping.

Taking one prefix off once is not enough. One process is enough to see it: a group of one, over gloo.

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
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

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


def ddp_then_compile(model: nn.Module) -> nn.Module:
    """Keys begin with _orig_mod.module."""
    return torch.compile(DistributedDataParallel(model), backend="eager")


def compile_then_ddp(model: nn.Module) -> nn.Module:
    """Keys begin with module._orig_mod."""
    return DistributedDataParallel(torch.compile(model, backend="eager"))


def strip_once(weights: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """What most scripts do: one prefix, if it stands in front."""
    return {key.removeprefix(prefix): value for key, value in weights.items()}


def strip_all(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Take prefixes off until none is left, in whatever order they came."""
    stripped = {}
    for key, value in weights.items():
        while key.startswith(("_orig_mod.", "module.")):
            key = key.partition(".")[2]
        stripped[key] = value
    return stripped


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside, to save its weights without any prefix."""
    while True:
        inner = getattr(model, "_orig_mod", None) or getattr(model, "module", None)
        if inner is None:
            return model
        model = inner


def loaded(step: str, call: str, wrap: Callable[[nn.Module], nn.Module], weights_of: Callable[..., Any]) -> Row:
    """Carry weights out of the wrappers: the error, or whether the plain model gives the same."""
    torch._dynamo.reset()
    trained, fresh, x = make_model(0), make_model(1), torch.randn(3, 4)
    wrapped = wrap(trained)
    first_key = f"first_key={next(iter(wrapped.state_dict()))}"
    try:
        fresh.load_state_dict(weights_of(wrapped))
    except Exception as error:
        return row(step, call, "error", "load", type(error).__name__, tidy(error), first_key)
    equal = torch.equal(fresh(x), trained(x))
    return row(step, call, "fine" if equal else "wrong", evidence=f"{first_key}, same_result={equal}")


def run() -> list[Row]:
    """Rows: one prefix taken off, in both orders; then all of them, and the inner model's own keys."""
    if not (distributed.is_available() and distributed.is_gloo_available()):
        missing = row("problem", "torch.compile(DistributedDataParallel(model)).state_dict()", "fine")
        return [{**missing, "step": step, **NOT_HERE} for step in ("problem", "fix")]
    with tempfile.TemporaryDirectory() as folder:
        store = distributed.FileStore(f"{folder}/store", 1)
        distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        try:
            return [
                loaded(
                    "problem",
                    'strip_once(torch.compile(DistributedDataParallel(model)).state_dict(), "module.")',
                    ddp_then_compile,
                    lambda wrapped: strip_once(wrapped.state_dict(), "module."),
                ),
                loaded(
                    "problem",
                    'strip_once(DistributedDataParallel(torch.compile(model)).state_dict(), "_orig_mod.")',
                    compile_then_ddp,
                    lambda wrapped: strip_once(wrapped.state_dict(), "_orig_mod."),
                ),
                loaded(
                    "fix",
                    "strip_all(torch.compile(DistributedDataParallel(model)).state_dict())",
                    ddp_then_compile,
                    lambda wrapped: strip_all(wrapped.state_dict()),
                ),
                loaded(
                    "fix",
                    "strip_all(DistributedDataParallel(torch.compile(model)).state_dict())",
                    compile_then_ddp,
                    lambda wrapped: strip_all(wrapped.state_dict()),
                ),
                loaded("fix", "unwrapped(model).state_dict()", ddp_then_compile, lambda w: unwrapped(w).state_dict()),
            ]
        finally:
            distributed.destroy_process_group()


NOT_HERE = {"happened": "", "status": "not measured", "note": "torch.distributed with gloo is not in this build"}


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
