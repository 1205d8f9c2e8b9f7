"""Models, back ends and wrappers that the comparison tool's tests hand to it; child processes import this file."""

from __future__ import annotations

import importlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

Graph = Callable[..., Any]


def small(batch: int = 4) -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)), torch.randn(batch, 16)


def with_keywords() -> tuple[nn.Module, tuple[tuple[torch.Tensor], dict[str, torch.Tensor]]]:
    class Adds(nn.Module):
        def forward(self, x: torch.Tensor, *, shift: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"sum": x + shift}

    return Adds(), ((torch.randn(4, 8),), {"shift": torch.randn(8)})


def with_dropout() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5), nn.Linear(32, 4)), torch.randn(16, 32)


def only_float32() -> tuple[nn.Module, torch.Tensor]:
    class Picky(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dtype != torch.float32:
                raise TypeError("float32 only")
            return x.sin()

    return Picky(), torch.randn(8, 8)


def with_choice() -> tuple[nn.Module, torch.Tensor]:
    """Scores and, as whole numbers and booleans, what follows from them."""

    class Chooses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 5)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            scores = self.linear(x)
            return {"scores": scores, "choice": scores.argmax(1), "above": scores > 0}

    return Chooses(), torch.randn(16, 8)


def broken() -> tuple[nn.Module, torch.Tensor]:
    return nn.Linear(4, 4), torch.randn(2, 5)


def not_a_pair() -> nn.Module:
    return nn.Linear(4, 4)


class Breaking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        print("", end="")
        return y + 1 if y.abs().sum() > 0 else y


def breaking() -> tuple[nn.Module, torch.Tensor]:
    return Breaking(), torch.randn(4, 8)


# ---- back ends that go wrong, each in its own way


def raises(graph: Graph, inputs: Sequence[Any]) -> Graph:
    raise ValueError("cannot do this\nand a second line")


def wants_a_package(graph: Graph, inputs: Sequence[Any]) -> Graph:
    importlib.import_module("no_such_package")
    return graph


def out_of_memory(graph: Graph, inputs: Sequence[Any]) -> Graph:
    torch.empty(2**52)
    return graph


def crashes(graph: Graph, inputs: Sequence[Any]) -> Graph:
    os.kill(os.getpid(), signal.SIGSEGV)
    return graph


def crashes_second_time(graph: Graph, inputs: Sequence[Any]) -> Graph:
    marker = Path(os.environ["COMPARE_TEST_MARKER"])
    if marker.exists():
        os.kill(os.getpid(), signal.SIGSEGV)
    marker.touch()
    return graph


def no_memory_second_time(graph: Graph, inputs: Sequence[Any]) -> Graph:
    marker = Path(os.environ["COMPARE_TEST_MARKER"])
    if marker.exists():
        torch.empty(2**52)
    marker.touch()
    return graph


def fails_later(graph: Graph, inputs: Sequence[Any]) -> Graph:
    """In its second process it raises, 0.3 seconds after its first call: compiled by then, and being timed."""
    marker = Path(os.environ["COMPARE_TEST_MARKER"])
    again, end = marker.exists(), 0.0
    marker.touch()

    def call(*args: Any) -> Any:
        nonlocal end
        end = end or time.monotonic() + 0.3
        if again and time.monotonic() > end:
            raise ValueError("later")
        return graph(*args)

    return call


def hangs(graph: Graph, inputs: Sequence[Any]) -> Graph:
    time.sleep(3600)
    return graph


def wrong(graph: Graph, inputs: Sequence[Any]) -> Graph:
    return lambda *args: tuple(x * 1.01 for x in graph(*args))


def wrong_choice(graph: Graph, inputs: Sequence[Any]) -> Graph:
    """Right scores; whole numbers and booleans wrong, all of them."""

    def call(*args: Any) -> Any:
        return tuple(x if x.is_floating_point() else ~x if x.dtype == torch.bool else x + 1 for x in graph(*args))

    return call


def nan(graph: Graph, inputs: Sequence[Any]) -> Graph:
    return lambda *args: tuple(x * float("nan") for x in graph(*args))


def drops_gradients(graph: Graph, inputs: Sequence[Any]) -> Graph:
    return lambda *args: tuple(x.detach() for x in graph(*args))


def wrong_gradients(graph: Graph, inputs: Sequence[Any]) -> Graph:
    # Right outputs, twice the gradients.
    return lambda *args: tuple(2 * x - x.detach() for x in graph(*args))


def hands_back(graph: Graph, inputs: Sequence[Any]) -> Graph:
    return graph


# ---- wrappers


def traced(model: nn.Module) -> Callable[..., Any]:
    return lambda *args: model(*args)


def twice(model: nn.Module) -> Callable[..., Any]:
    """The model, and all its work once more: half as fast."""

    def call(*args: Any) -> Any:
        model(*args)
        return model(*args)

    return call
