# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 900
# value = 37
# measured_by = "measuring/compare_backends"
# arguments = {factories = ["build", "build_decode"], inference_only = ["build_decode"]}
# ///
"""A GPT-style decoder: prefill over a prompt, and one decode step on a static key-value cache.

small: 4 layers, width 256, prompt 128, batch 2. large: 12 layers, width 768, prompt 1024, batch 8 (GPT-2 small).
The cache has its full length from the start and is written in place, so that shapes never change.
Architecture: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019 (pre-norm blocks).
``build()`` takes "small" (fits two CPU cores), "large" (for a GPU), or None, which chooses by device.

Measured by compare_backends.py: ``python compare_backends.py gpt_decoder.py:build``.
By itself it runs once and prints shapes.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

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


def choose_size(size: str | None) -> str:
    """Return "small" or "large"; None chooses by device. ValueError for anything else."""
    if size is None:
        return "large" if torch.cuda.is_available() else "small"
    if size not in SIZES:
        raise ValueError(f"size {size!r}: wants one of {', '.join(SIZES)}")
    return size


if __name__ == "__main__":
    with torch.no_grad():
        for factory in (
            build,
            build_decode,
        ):
            model, inputs = factory()
            shapes = [tuple(tensor.shape) for tensor in inputs]
            parameters = sum(p.numel() for p in model.parameters())
            result = tuple(model.eval()(*inputs).shape)
            print(f"{factory.__name__}: {parameters:,} parameters, {shapes} -> {result}")
