# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 300
# value = 37
# ///
"""A GPT-style decoder: prefill over a prompt, and one decode step on a static key-value cache.

small: 4 layers, width 256, prompt 128, batch 2. large: 12 layers, width 768, prompt 1024, batch 8 (GPT-2 small).
The cache has its full length from the start and is written in place, so that shapes never change.
Architecture: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019 (pre-norm blocks).
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
from torch.nn import functional as F

Row = dict[str, Any]

TOLERANCE = 1e-4
Made = tuple[nn.Module, tuple[torch.Tensor, ...]]

#: Layers, width, heads, vocabulary, tokens, batch.
SIZES: dict[str, tuple[int, int, int, int, int, int]] = {
    "small": (4, 256, 4, 4096, 128, 2),
    "large": (12, 768, 12, 50304, 1024, 8),
}


class Attention(nn.Module):
    """Causal self-attention; with a cache it takes one token at position ``at``."""

    def __init__(self, width: int, heads: int, cache: tuple[int, int] | None) -> None:
        super().__init__()
        self.heads, self.cached = heads, cache is not None
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        if cache is not None:
            batch, tokens = cache
            # Filled as if a prompt had been read.
            self.register_buffer("keys", torch.randn(batch, heads, tokens, width // heads))
            self.register_buffer("values", torch.randn(batch, heads, tokens, width // heads))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Map (batch, tokens, width) to the same shape; ``at``: the positions, shape (tokens,)."""
        batch, tokens, width = x.shape
        parts = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        if self.cached:
            self.keys.index_copy_(2, at, key)
            self.values.index_copy_(2, at, value)
            seen = torch.arange(self.keys.shape[2], device=x.device) <= at
            attended = F.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=seen.view(1, 1, 1, -1))
        else:
            attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(attended.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    """Attention and MLP, each after a layer norm, each added to its input."""

    def __init__(self, width: int, heads: int, cache: tuple[int, int] | None) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, cache)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Map (batch, tokens, width) to the same shape."""
        x = x + self.attention(self.norm1(x), at)
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    """Tokens (batch, tokens) and their positions (tokens,) to logits (batch, tokens, vocabulary)."""

    def __init__(self, size: str, cache: bool) -> None:
        super().__init__()
        layers, width, heads, words, tokens, batch = SIZES[size]
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(tokens, width)
        held = (batch, tokens) if cache else None
        self.blocks = nn.ModuleList(Block(width, heads, held) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        x = self.words(tokens) + self.places(at)
        for block in self.blocks:
            x = block(x, at)
        return self.head(self.norm(x))


def build(size: str | None = None) -> Made:
    """Return the decoder for a prompt: (batch, tokens) in, (batch, tokens, vocabulary) out."""
    chosen = choose_size(size)
    words, tokens, batch = SIZES[chosen][3:]
    return Decoder(chosen, False), (torch.randint(words, (batch, tokens)), torch.arange(tokens))


def build_decode(size: str | None = None) -> Made:
    """Return the decoder for one more token at three quarters of the cache: (batch, 1) in."""
    chosen = choose_size(size)
    words, tokens, batch = SIZES[chosen][3:]
    return Decoder(chosen, True), (torch.randint(words, (batch, 1)), torch.tensor([tokens * 3 // 4]))


FACTORIES = {"prefill": build, "decode": build_decode}


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
