# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 300
# value = 39
# ///
"""A CNN like ResNet-18: convolution, batch norm and ReLU in residual blocks.

small: widths 16 to 128, 96 x 96 pixels, batch 2. large: widths 64 to 512, 224 x 224, batch 64 (ResNet-18 itself).
Architecture: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, table 1.
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
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

Row = dict[str, Any]

TOLERANCE = 1e-4
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


FACTORIES = {"resnet18": build}


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
