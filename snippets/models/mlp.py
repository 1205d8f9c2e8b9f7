# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 900
# value = 40
# measured_by = "measuring/compare_backends"
# ///
"""An MLP: matrix multiplications with a cheap ReLU between; little to fuse.

small: 512-256-128-10, batch 64. large: 4096-4096-4096-1000, batch 512.
``build()`` takes "small" (fits two CPU cores), "large" (for a GPU), or None, which chooses by device.

Measured by compare_backends.py: ``python compare_backends.py mlp.py:build``.
By itself it runs once and prints shapes.
"""

from __future__ import annotations

import itertools

import torch
from torch import nn

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]

#: Widths of the layers, and the batch.
SIZES: dict[str, tuple[tuple[int, ...], int]] = {
    "small": ((512, 256, 128, 10), 64),
    "large": ((4096, 4096, 4096, 1000), 512),
}


def build(size: str | None = None) -> Made:
    """Return the MLP and its input, shape (batch, width)."""
    widths, batch = SIZES[choose_size(size)]
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1]), (torch.randn(batch, widths[0]),)


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
