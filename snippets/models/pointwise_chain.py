# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 300
# value = 34
# ///
"""A chain of pointwise operations between normalisations: memory traffic, and much to fuse.

small: 512 x 512. large: 16384 x 4096.
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

#: Rows, columns.
SIZES: dict[str, tuple[int, int]] = {"small": (512, 512), "large": (16384, 4096)}


class Chain(nn.Module):
    """(rows, columns) to the same shape: layer norm, a gated activation, a softmax, another norm."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(columns), nn.LayerNorm(columns)
        self.scale, self.shift = nn.Parameter(torch.ones(columns)), nn.Parameter(torch.zeros(columns))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the chain's result; nine operations that each read and write the whole tensor in eager mode."""
        y = self.norm1(x) * self.scale + self.shift
        y = torch.tanh(y) * torch.sigmoid(y) + x
        return self.norm2(torch.softmax(y, -1) * 2 + y)


def build(size: str | None = None) -> Made:
    """Return the chain and its input, shape (rows, columns)."""
    rows, columns = SIZES[choose_size(size)]
    return Chain(columns), (torch.randn(rows, columns),)


FACTORIES = {"pointwise chain": build}


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
