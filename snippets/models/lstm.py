# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 900
# value = 33
# measured_by = "measuring/compare_backends"
# ///
"""An LSTM with a classifier: a loop over time inside one operator, which Dynamo does not look into.

small: 1 layer, width 128, 32 time steps, batch 16. large: 2 layers, width 1024, 256 time steps, batch 128.
``build()`` takes "small" (fits two CPU cores), "large" (for a GPU), or None, which chooses by device.

Measured by compare_backends.py: ``python compare_backends.py lstm.py:build``.
By itself it runs once and prints shapes.
"""

from __future__ import annotations

import torch
from torch import nn

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]

#: Layers, width, time steps, batch.
SIZES: dict[str, tuple[int, int, int, int]] = {"small": (1, 128, 32, 16), "large": (2, 1024, 256, 128)}


class Classifier(nn.Module):
    """(batch, time, width) to (batch, 10): the last state of an LSTM through a linear layer."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(width, width, layers, batch_first=True), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the class scores."""
        states, _ = self.lstm(x)
        return self.head(torch.relu(states[:, -1]))


def build(size: str | None = None) -> Made:
    """Return the classifier and its input, shape (batch, time, width)."""
    layers, width, steps, batch = SIZES[choose_size(size)]
    return Classifier(layers, width), (torch.randn(batch, steps, width),)


def choose_size(size: str | None) -> str:
    """Return "small" or "large"; None chooses by device. ValueError for anything else."""
    if size is None:
        return "large" if torch.cuda.is_available() else "small"
    if size not in SIZES:
        raise ValueError(f"size {size!r}: wants one of {', '.join(SIZES)}")
    return size


if __name__ == "__main__":
    with torch.no_grad():
        for factory in (build,):
            model, inputs = factory()
            shapes = [tuple(tensor.shape) for tensor in inputs]
            parameters = sum(p.numel() for p in model.parameters())
            result = tuple(model.eval()(*inputs).shape)
            print(f"{factory.__name__}: {parameters:,} parameters, {shapes} -> {result}")
