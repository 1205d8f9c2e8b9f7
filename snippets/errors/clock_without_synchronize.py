# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""The clock was read before the device was done: a GPU call returns when the work is queued, not when it is finished.

A CPU has no queue, so this is an emulation: a thread with a queue stands in for the GPU, and a kernel takes KERNEL_S
seconds. What carries over is the order of things, not a number.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "wrong" where the clock showed less than the device worked
    raised_at          ""
    error, message     ""; the problem is silent
    evidence           time on the clock over time that the device worked; calls timed
    status, note       "ok", ""
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

Row = dict[str, Any]
COLUMNS = ("step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note")

KERNEL_S, CALLS = 0.005, 20


def row(step: str, call: str, happened: str, **more: str) -> Row:
    """One row of the table; what is not given is empty."""
    return dict.fromkeys(COLUMNS, "") | {"step": step, "call": call, "happened": happened, "status": "ok"} | more


class Device:
    """Stands in for a GPU: ``launch`` only queues work, a thread does it one after another, ``synchronize`` waits.

    ``busy_s`` is the device's own account of its work; ``idle`` counts launches that found nothing left to do.
    """

    def __init__(self) -> None:
        self.queue = ThreadPoolExecutor(max_workers=1)
        self.last: Future[torch.Tensor] | None = None
        self.busy_s = 0.0
        self.idle = 0

    def launch(self, kernel: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Future[torch.Tensor]:
        """Queue a kernel and return at once, with a place for its result."""

        def work() -> torch.Tensor:
            start = time.perf_counter()
            time.sleep(KERNEL_S)  # how long the kernel takes
            y = kernel(x)
            self.busy_s += time.perf_counter() - start
            return y

        self.idle += self.last is None or self.last.done()
        self.last = self.queue.submit(work)
        return self.last

    def synchronize(self) -> None:
        """Wait until all that was queued is done."""
        if self.last is not None:
            self.last.result()


def problem(device: Device, x: torch.Tensor) -> tuple[float, torch.Tensor]:
    """Read the clock around the calls alone (seconds)."""
    start = time.perf_counter()
    for _ in range(CALLS):
        y = device.launch(torch.relu, x)
    return time.perf_counter() - start, y.result()


def fix(device: Device, x: torch.Tensor) -> tuple[float, torch.Tensor]:
    """Let the device finish before each reading of the clock (seconds)."""
    device.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        y = device.launch(torch.relu, x)
    device.synchronize()
    return time.perf_counter() - start, y.result()


def judge(step: str, call: str, timed: Callable[..., tuple[float, torch.Tensor]]) -> Row:
    """Compare the clock with the device's own account of its work."""
    device, x = Device(), torch.randn(8)
    seconds, y = timed(device, x)
    device.synchronize()
    ratio = seconds / device.busy_s
    right = torch.equal(y, torch.relu(x))
    return row(
        step, call, "fine" if right and ratio > 0.9 else "wrong", evidence=f"clock/device={ratio:.2g}, calls={CALLS}"
    )


def run() -> list[Row]:
    """Time the same calls without and with waiting for the device."""
    loop = f"for _ in range({CALLS}): y = device.launch(f, x)"
    return [
        judge("problem", f"t = perf_counter(); {loop}; perf_counter() - t", problem),
        judge(
            "fix", f"device.synchronize(); t = perf_counter(); {loop}; device.synchronize(); perf_counter() - t", fix
        ),
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
