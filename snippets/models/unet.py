# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 900
# value = 36
# measured_by = "measuring/compare_backends"
# ///
"""A U-Net: convolutions, group norm and SiLU on a way down and up, joined by skip connections.

small: widths 16, 32, 64, 64 x 64 pixels, batch 2. large: widths 64 to 512, 256 x 256, batch 16.
Architecture: Ronneberger et al., "U-Net", MICCAI 2015; norm and activation as in diffusion models.
``build()`` takes "small" (fits two CPU cores), "large" (for a GPU), or None, which chooses by device.

Measured by compare_backends.py: ``python compare_backends.py unet.py:build``.
By itself it runs once and prints shapes.
"""

from __future__ import annotations

import itertools

import torch
from torch import nn

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]

#: Widths from the top down, pixels, batch.
SIZES: dict[str, tuple[tuple[int, ...], int, int]] = {
    "small": ((16, 32, 64), 64, 2),
    "large": ((64, 128, 256, 512), 256, 16),
}


def double(inputs: int, outputs: int) -> nn.Sequential:
    """Return twice convolution, group norm, SiLU; height and width stay."""
    layers: list[nn.Module] = []
    for before in (inputs, outputs):
        layers += [nn.Conv2d(before, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """(batch, 3, h, w) to (batch, 3, h, w)."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        steps = list(itertools.pairwise(widths))
        self.first, self.last = double(3, widths[0]), nn.Conv2d(widths[0], 3, 1)
        self.down = nn.ModuleList(double(above, below) for above, below in steps)
        self.rise = nn.ModuleList(nn.ConvTranspose2d(below, above, 2, 2) for above, below in reversed(steps))
        self.up = nn.ModuleList(double(2 * above, above) for above, _ in reversed(steps))
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Go down, and up again with what was kept on the way."""
        kept = [self.first(x)]
        for stage in self.down:
            kept.append(stage(self.pool(kept[-1])))
        out = kept.pop()
        for rise, stage in zip(self.rise, self.up, strict=True):
            out = stage(torch.cat([rise(out), kept.pop()], 1))
        return self.last(out)


def build(size: str | None = None) -> Made:
    """Return the U-Net and its input, shape (batch, 3, pixels, pixels)."""
    widths, pixels, batch = SIZES[choose_size(size)]
    return UNet(widths), (torch.randn(batch, 3, pixels, pixels),)


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
