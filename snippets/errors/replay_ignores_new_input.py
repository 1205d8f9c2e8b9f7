# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""A replay reads the tensor that was recorded: a new tensor under the same name is never seen.

**An emulation**, for it needs no GPU: below autograd a recorder keeps every operator with the tensors that it read and
wrote, as a CUDA graph keeps kernels with addresses, and a replay runs them on these same tensors. The API of the real
thing is ``torch.cuda.graph``; snippets/cudagraphs/recorder.py shows more of what follows from fixed addresses.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "wrong" where the new values were not seen
    raised_at          ""
    error, message     ""; the problem is silent
    evidence           whether the result is that of the new values; whether it is that of the recording
    status, note       "ok", ""
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


class Recorder(TorchDispatchMode):
    """Keeps each operator with what it read and wrote; ``replay`` runs them again on the same tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.film: list[tuple[Any, Any, Any, torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and keep it."""
        result = func(*args, **(kwargs or {}))
        self.film.append((func, args, kwargs or {}, result))
        return result

    def replay(self) -> None:
        """Run the film: from the same inputs into the same outputs."""
        for func, args, kwargs, place in self.film:
            place.copy_(func(*args, **kwargs))


def f(x: torch.Tensor) -> torch.Tensor:
    """What is recorded."""
    return torch.relu(2 * x + 1)


def problem(new: torch.Tensor) -> torch.Tensor:
    """Record, give the input's name to a new tensor, replay."""
    x = torch.zeros_like(new)
    graph = Recorder()
    with graph:
        y = f(x)
    x = new
    graph.replay()
    return y


def fix(new: torch.Tensor) -> torch.Tensor:
    """Record, copy the new values into the recorded input, replay."""
    x = torch.zeros_like(new)
    graph = Recorder()
    with graph:
        y = f(x)
    x.copy_(new)
    graph.replay()
    return y


def judge(step: str, call: str, attempt: Callable[[torch.Tensor], torch.Tensor]) -> Row:
    """Compare the result with that of the new values, and with that of the recorded ones."""
    new = torch.arange(1.0, 5.0)
    y = attempt(new)
    right, stale = torch.equal(y, f(new)), torch.equal(y, f(torch.zeros_like(new)))
    return row(step, call, "fine" if right else "wrong", evidence=f"right={right}, result_of_the_recording={stale}")


@torch.no_grad()
def run() -> list[Row]:
    """Replay with a new tensor, and with new values in the old one."""
    return [
        judge("problem", "with graph: y = f(x)  # then: x = new; graph.replay(); y", problem),
        judge("fix", "with graph: y = f(x)  # then: x.copy_(new); graph.replay(); y", fix),
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
