# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 300
# value = 36
# ///
"""A U-Net: convolutions, group norm and SiLU on a way down and up, joined by skip connections.

small: widths 16, 32, 64, 64 x 64 pixels, batch 2. large: widths 64 to 512, 256 x 256, batch 16.
Architecture: Ronneberger et al., "U-Net", MICCAI 2015; norm and activation as in diffusion models.
``build()`` takes "small" (fits two CPU cores), "large" (for a GPU), or None, which chooses by device.

run() gives a row per variant of the model: is it what it says, and does ``torch.compile`` compute the same?

Columns
    model, size         which, "small" or "large"
    status, note        "ok"; "failed" or "wrong" with the reason in note
    device              "cpu" or "cuda"
    parameters, parameters_mib   number of parameters, and their size
    input_shape, output_shape    of one call, as text
    eager_rel_error     largest absolute error over the largest absolute value, against the same model in float64
    inductor_rel_error  the same for ``torch.compile(model)``
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

Row = dict[str, Any]

TOLERANCE = 1e-4
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


FACTORIES = {"unet": build}


# ---------------------------------------------------------------- is it right?


def choose_size(size: str | None) -> str:
    """Return "small" or "large"; None chooses by device. ValueError for anything else."""
    if size is None:
        return "large" if torch.cuda.is_available() else "small"
    if size not in SIZES:
        raise ValueError(f"size {size!r}: wants one of {', '.join(SIZES)}")
    return size


def relative_error(result: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the largest absolute error over the largest absolute value of the float64 reference."""
    return float((result.double() - reference).abs().max() / reference.abs().max())


def shape(tensors: Iterable[torch.Tensor]) -> str:
    """Return shapes as text: (64, 512), (64, 26)."""
    return ", ".join(str(tuple(tensor.shape)) for tensor in tensors)


@torch.no_grad()
def check(name: str, factory: Callable[[str | None], Made], size: str | None) -> Row:
    """Return the row of one factory (columns: module docstring)."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model, example = factory(size)
    model = model.eval().to(device)
    inputs = [tensor.to(device) for tensor in example]
    parameters = sum(p.numel() for p in model.parameters())
    size_mib = sum(p.numel() * p.element_size() for p in model.parameters()) / 2**20
    row: Row = {"model": name, "size": choose_size(size), "status": "ok", "note": None, "device": device}
    row |= {"parameters": parameters, "parameters_mib": size_mib, "input_shape": shape(inputs), "output_shape": None}
    row |= {"eager_rel_error": None, "inductor_rel_error": None}
    try:
        exact = copy.deepcopy(model).double()(*(t.double() if t.is_floating_point() else t for t in inputs))
        eager = model(*inputs)
        row["output_shape"] = shape([eager])
        row["eager_rel_error"] = relative_error(eager, exact)
        row["inductor_rel_error"] = relative_error(torch.compile(model)(*inputs), exact)
    except Exception as error:
        return row | {"status": "failed", "note": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    if not row["inductor_rel_error"] <= TOLERANCE:  # also true for NaN
        note = f"relative error {row['inductor_rel_error']:.2g} is above {TOLERANCE:g}"
        return row | {"status": "wrong", "note": note, "inductor_rel_error": None}
    return row


def run(*, size: str | None = None) -> list[Row]:
    """Build the model, run it with and without ``torch.compile``, and return its rows."""
    return [check(name, factory, size) for name, factory in FACTORIES.items()]


if __name__ == "__main__":
    for line in run():
        print("\n".join(f"{key:20} {value}" for key, value in line.items()), end="\n\n")
