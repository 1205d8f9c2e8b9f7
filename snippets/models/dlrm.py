# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 300
# value = 35
# ///
"""A recommender like DLRM: embedding look-ups, their pairwise dot products, and two MLPs.

small: 8 tables of 1000 x 32, batch 128. large: 26 tables of 200000 x 128, batch 4096.
Architecture: Naumov et al., "Deep Learning Recommendation Model", arXiv:1906.00091, 2019.
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

#: Tables, their rows, width, look-ups a table, dense features, batch.
SIZES: dict[str, tuple[int, int, int, int, int, int]] = {
    "small": (8, 1000, 32, 4, 13, 128),
    "large": (26, 200_000, 128, 8, 13, 4096),
}


def mlp(*widths: int) -> nn.Sequential:
    """Return linear layers with ReLU between."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class DLRM(nn.Module):
    """Dense (batch, features) and sparse (tables, batch, look-ups) to a logit (batch, 1)."""

    def __init__(self, tables: int, rows: int, width: int, dense: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = mlp(dense, 4 * width, width)
        self.top = mlp(width + (tables + 1) * tables // 2, 4 * width, 2 * width, 1)
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        """Return the logit."""
        bottom = self.bottom(dense)
        vectors = torch.stack([bottom, *(table(ids) for table, ids in zip(self.tables, sparse, strict=True))], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return self.top(torch.cat([bottom, products[:, self.pairs[0], self.pairs[1]]], 1))


def build(size: str | None = None) -> Made:
    """Return the recommender and its inputs."""
    tables, rows, width, looks, dense, batch = SIZES[choose_size(size)]
    inputs = (torch.randn(batch, dense), torch.randint(rows, (tables, batch, looks)))
    return DLRM(tables, rows, width, dense), inputs


FACTORIES = {"dlrm": build}


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
