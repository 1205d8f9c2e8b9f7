# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 900
# value = 32
# measured_by = "measuring/compare_backends"
# ///
"""A model full of graph breaks: ordinary Python that Dynamo cannot keep in one graph.

small: 3 blocks of width 256, batch 64. large: 12 blocks of width 2048, batch 512.
Each block branches on a tensor's value, reads a number out of a tensor, and calls code that is kept from Dynamo.
``build()`` takes "small" (fits two CPU cores), "large" (for a GPU), or None, which chooses by device.

Measured by compare_backends.py: ``python compare_backends.py graph_breaks.py:build``.
By itself it runs once and prints shapes.
"""

from __future__ import annotations

import torch
from torch import nn

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]

#: Blocks, width, batch.
SIZES: dict[str, tuple[int, int, int]] = {"small": (3, 256, 64), "large": (12, 2048, 512)}


@torch.compiler.disable
def outside(x: torch.Tensor) -> torch.Tensor:
    """Return x clamped; stands for a library call that Dynamo is told to leave alone."""
    return x.clamp(-3, 3)


class Block(nn.Module):
    """(batch, width) to the same shape."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's result."""
        y = self.norm(self.linear(x))
        # The branch is decided by data: Python has to look at it, so the graph ends here. (Far from its threshold:
        # rounding must not decide.)
        y = torch.relu(y) if y.abs().mean() > 0.1 else torch.tanh(y)
        # A Python number out of a tensor: the graph ends once more.
        largest = y.abs().max().item()
        return outside(y / max(largest, 1.0)) + x


def build(size: str | None = None) -> Made:
    """Return the blocks and their input, shape (batch, width)."""
    blocks, width, batch = SIZES[choose_size(size)]
    return nn.Sequential(*(Block(width) for _ in range(blocks))), (torch.randn(batch, width),)


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
