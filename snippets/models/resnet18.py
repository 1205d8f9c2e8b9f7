# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 900
# value = 39
# measured_by = "measuring/compare_backends"
# ///
"""A CNN like ResNet-18: convolution, batch norm and ReLU in residual blocks.

small: widths 16 to 128, 96 x 96 pixels, batch 2. large: widths 64 to 512, 224 x 224, batch 64 (ResNet-18 itself).
Architecture: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, table 1.
``build()`` takes "small" (fits two CPU cores), "large" (for a GPU), or None, which chooses by device.

Measured by compare_backends.py: ``python compare_backends.py resnet18.py:build``.
By itself it runs once and prints shapes.
"""

from __future__ import annotations

import torch
from torch import nn

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]

#: Width of the first stage, pixels, batch.
SIZES: dict[str, tuple[int, int, int]] = {"small": (16, 96, 2), "large": (64, 224, 64)}


class Block(nn.Module):
    """Two 3 x 3 convolutions and a short cut: (batch, inputs, h, w) to (batch, outputs, h / stride, w / stride)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.short: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return relu(two convolutions + short cut)."""
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + self.short(x))


def build(size: str | None = None) -> Made:
    """Return the network, 10 classes, and its input, shape (batch, 3, pixels, pixels)."""
    width, pixels, batch = SIZES[choose_size(size)]
    layers: list[nn.Module] = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    inputs = width
    for stage in range(4):
        outputs = width * 2**stage
        layers += [Block(inputs, outputs, 1 if stage == 0 else 2), Block(outputs, outputs, 1)]
        inputs = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10)]
    return nn.Sequential(*layers), (torch.randn(batch, 3, pixels, pixels),)


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
