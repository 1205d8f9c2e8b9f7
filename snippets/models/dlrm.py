# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 900
# value = 35
# measured_by = "measuring/compare_backends"
# ///
"""A recommender like DLRM: embedding look-ups, their pairwise dot products, and two MLPs.

small: 8 tables of 60000 x 32, 32 look-ups in each, batch 2048. large: 26 tables of 200000 x 128, 8 look-ups, batch
4096. A step is repeated on the same ids, so large tables alone would not do: what they look up would stay in the
caches. The small size holds 59 MiB of tables, and one step reads 39 MiB of them in random order: more than the
last-level cache that a core of a common CPU has (32 MiB or less), so that rows come from memory.
Architecture: Naumov et al., "Deep Learning Recommendation Model", arXiv:1906.00091, 2019.
``build()`` takes "small" (fits two CPU cores), "large" (for a GPU), or None, which chooses by device.

Measured by compare_backends.py: ``python compare_backends.py dlrm.py:build``.
By itself it runs once and prints shapes.
"""

from __future__ import annotations

import itertools

import torch
from torch import nn

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]

#: Tables, their rows, width, look-ups a table, dense features, batch.
SIZES: dict[str, tuple[int, int, int, int, int, int]] = {
    "small": (8, 60_000, 32, 32, 13, 2048),
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
