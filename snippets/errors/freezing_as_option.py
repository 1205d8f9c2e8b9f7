# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""``options={"freezing": True}`` freezes nothing: while Dynamo captures, it asks the global setting.

A frozen weight is a constant of the generated code, named ``_frozen_param``; the names are counted.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "not compiled" where no weight was frozen
    raised_at          ""
    error, message     ""; the problem is silent
    evidence           frozen weights in the generated code
    status, note       "ok", ""
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._inductor import config
from torch._inductor.utils import run_and_get_code

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


def problem(model: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, list[str]]:
    """Ask for freezing among the options."""
    with torch.no_grad():
        return run_and_get_code(torch.compile(model, options={"freezing": True}), x)


def fix(model: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, list[str]]:
    """Ask for it globally, before the first call; TORCHINDUCTOR_FREEZING=1 does the same."""
    with torch.no_grad(), config.patch(freezing=True):
        return run_and_get_code(torch.compile(model), x)


def judge(step: str, call: str, prepare: Any) -> Row:
    """Compile a linear layer and count its frozen weights."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = nn.Linear(64, 64).eval(), torch.randn(8, 64)
    y, codes = prepare(model, x)
    frozen = sum(f"_frozen_param{number}" in "".join(codes) for number in range(20))
    right = torch.allclose(y, model(x), atol=1e-5)
    happened = "wrong" if not right else "fine" if frozen else "not compiled"
    return row(step, call, happened, evidence=f"frozen_params={frozen}")


def run() -> list[Row]:
    """Freeze by option and by the global setting."""
    return [
        judge("problem", 'torch.compile(model, options={"freezing": True})(x)', problem),
        judge("fix", "torch._inductor.config.freezing = True; torch.compile(model)(x)", fix),
    ]


def main() -> None:
    """Print the rows."""
    for made in run():
        print(f"{made['step']:9}{made['happened']:14}{made['call']}")
        for name in ("error", "message", "evidence", "note"):
            if made[name]:
                print(f"{'':9}{name}: {made[name]}")


if __name__ == "__main__":
    main()
