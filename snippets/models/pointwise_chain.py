# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 900
# value = 34
# measured_by = "measuring/compare_backends"
# ///
"""A chain of pointwise operations between normalisations: memory traffic, and much to fuse.

small: 512 x 512. large: 16384 x 4096.
``build()`` takes "small" (fits two CPU cores), "large" (for a GPU), or None, which chooses by device.

Measured by compare_backends.py: ``python compare_backends.py pointwise_chain.py:build``.
By itself it runs once and prints shapes.
"""

from __future__ import annotations

import torch
from torch import nn

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]

#: Rows, columns.
SIZES: dict[str, tuple[int, int]] = {"small": (512, 512), "large": (16384, 4096)}


class Chain(nn.Module):
    """(rows, columns) to the same shape: layer norm, a gated activation, a softmax, another norm."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(columns), nn.LayerNorm(columns)
        self.scale, self.shift = nn.Parameter(torch.ones(columns)), nn.Parameter(torch.zeros(columns))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the chain's result; eleven operations that each read and write the whole tensor in eager mode."""
        y = self.norm1(x) * self.scale + self.shift
        y = torch.tanh(y) * torch.sigmoid(y) + x
        return self.norm2(torch.softmax(y, -1) * 2 + y)


def build(size: str | None = None) -> Made:
    """Return the chain and its input, shape (rows, columns)."""
    rows, columns = SIZES[choose_size(size)]
    return Chain(columns), (torch.randn(rows, columns),)


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
