# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 120
# value = 25
# ///
"""max-autotune compiles long: it writes, compiles and times candidates for every matrix product.

On a CPU there is a choice only where the weights are constants (``torch._inductor.config.freezing``); both sides have
that here. Compile time is one first call each, in an empty cache folder: the ratio, never the time, is what is told.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "costly" where a search made the first call longer
    raised_at          "first call" where it was costly
    error, message     ""; the problem is silent
    evidence           searches for the fastest kernel; first call over that of the default mode
    status, note       "ok"; or "not measured" with the reason where this CPU has nothing to search among
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor import config

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")

NO_SEARCH = "Nothing was searched for: on this CPU Inductor has no candidates of its own."


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


def problem(model: nn.Module) -> Any:
    """Ask for the search."""
    return torch.compile(model, mode="max-autotune")


def fix(model: nn.Module) -> Any:
    """Leave the search out: matrix products go to the library, as in eager mode."""
    return torch.compile(model)


@contextlib.contextmanager
def empty_cache() -> Iterator[None]:
    """Give the compiler an empty cache folder: results of a search are kept there, and found again."""
    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        try:
            yield
        finally:
            os.environ.pop("TORCHINDUCTOR_CACHE_DIR")
            if before is not None:
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = before


def first_call(compiled: Any, x: torch.Tensor) -> tuple[float, int, torch.Tensor]:
    """Seconds of the first call, searches in it, and its result."""
    torch._dynamo.reset()
    counters.clear()
    with empty_cache(), config.patch(freezing=True):
        start = time.perf_counter()
        y = compiled(x)
        return time.perf_counter() - start, counters["inductor"]["select_algorithm_autotune"], y


@torch.no_grad()
def run() -> list[Row]:
    """Compile a linear layer with and without the search."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, x = nn.Linear(256, 256).eval(), torch.randn(64, 256)
    first_call(torch.compile(torch.sin), x)  # what a process pays once: imports, the precompiled header
    default_s, default_searches, default_y = first_call(fix(model), x)
    search_s, searches, search_y = first_call(problem(model), x)
    rows = []
    for step, call, seconds, count, y in (
        ("problem", 'torch.compile(model, mode="max-autotune")(x)', search_s, searches, search_y),
        ("fix", "torch.compile(model)(x)", default_s, default_searches, default_y),
    ):
        ratio = seconds / default_s
        right = torch.allclose(y, model(x), atol=1e-4)
        happened = "wrong" if not right else "costly" if count and ratio > 1.5 else "fine"
        at = "first call" if happened == "costly" else ""
        rows.append(
            row(step, call, happened, raised_at=at, evidence=f"searches={count}, first_call/default={ratio:.2g}")
        )
    if not searches:  # no library of packed weights on this CPU: Inductor has nothing to choose from
        rows[0] |= {"status": "not measured", "note": NO_SEARCH}
    return rows


def main() -> None:
    """Print the rows."""
    for made in run():
        print(f"{made['step']:9}{made['happened']:14}{made['call']}")
        for name in ("error", "message", "evidence", "note"):
            if made[name]:
                print(f"{'':9}{name}: {made[name]}")


if __name__ == "__main__":
    main()
