# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""A synchronize in every iteration: the device finishes its queue and then waits for the host, again and again.

A CPU has no queue, so this is an emulation: a thread with a queue stands in for the GPU. A kernel takes KERNEL_S
seconds, and the host needs HOST_S to prepare the next one, which overlaps with the kernel if nobody waits. What carries
over is the order of things, not a number.

Columns
    step               "problem" or "fix"
    call               the code that was run
    happened           computed from what was seen: "costly" where the device ran out of work at most calls
    raised_at          ""
    error, message     ""; the problem is silent
    evidence           launches that found the device without work; calls; time on the clock over the device's
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

KERNEL_S, HOST_S, CALLS = 0.010, 0.006, 20


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


def prepare(x: torch.Tensor) -> torch.Tensor:
    """Make the next input: work of the host."""
    time.sleep(HOST_S)
    return x + 1


def problem(device: Device, x: torch.Tensor) -> torch.Tensor:
    """Wait for the device in every iteration."""
    for _ in range(CALLS):
        x = prepare(x)
        y = device.launch(torch.relu, x)
        device.synchronize()
    return y.result()


def fix(device: Device, x: torch.Tensor) -> torch.Tensor:
    """Wait once, at the end."""
    for _ in range(CALLS):
        x = prepare(x)
        y = device.launch(torch.relu, x)
    device.synchronize()
    return y.result()


def judge(step: str, call: str, loop: Callable[..., torch.Tensor]) -> Row:
    """Run a loop; count how often the device had run out of work, and compare the clock with its own account."""
    device, x = Device(), torch.randn(8)
    start = time.perf_counter()
    y = loop(device, x)
    ratio = (time.perf_counter() - start) / device.busy_s
    wanted = x
    for _ in range(CALLS):
        wanted = wanted + 1
    happened = "wrong" if not torch.equal(y, wanted.relu()) else "costly" if device.idle > CALLS / 2 else "fine"
    return row(step, call, happened, evidence=f"idle={device.idle}, calls={CALLS}, clock/device={ratio:.2g}")


def run() -> list[Row]:
    """The same loop with a synchronize inside and with one after it."""
    body = "x = prepare(x); y = device.launch(f, x)"
    return [
        judge("problem", f"for _ in range({CALLS}): {body}; device.synchronize()", problem),
        judge("fix", f"for _ in range({CALLS}): {body}  # after the loop: device.synchronize()", fix),
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
