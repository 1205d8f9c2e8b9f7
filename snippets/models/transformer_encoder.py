# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 900
# value = 38
# measured_by = "measuring/compare_backends"
# arguments = {factories = ["build", "build_without_fast_path"], inference_only = ["build"]}
# ///
"""A Transformer encoder of torch.nn, with and without its fused inference fast path.

small: 2 layers, width 256, 64 tokens, batch 4. large: 12 layers, width 768, 512 tokens, batch 32.
In eval mode without gradients ``nn.TransformerEncoderLayer`` calls one fused operator: a back end sees a single
box and can do nothing. ``build_without_fast_path`` switches that off, for the whole process.
``build()`` takes "small" (fits two CPU cores), "large" (for a GPU), or None, which chooses by device.

Measured by compare_backends.py: ``python compare_backends.py transformer_encoder.py:build``.
By itself it runs once and prints shapes.
"""

from __future__ import annotations

import torch
from torch import nn

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]

#: Layers, width, heads, tokens, batch.
SIZES: dict[str, tuple[int, int, int, int, int]] = {"small": (2, 256, 4, 64, 4), "large": (12, 768, 12, 512, 32)}


def build(size: str | None = None) -> Made:
    """Return the encoder, with the fast path, and its input, shape (batch, tokens, width)."""
    torch.backends.mha.set_fastpath_enabled(True)
    layers, width, heads, tokens, batch = SIZES[choose_size(size)]
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), (torch.randn(batch, tokens, width),)


def build_without_fast_path(size: str | None = None) -> Made:
    """Return the same encoder and input; its layers run operator by operator, also in inference."""
    made = build(size)
    torch.backends.mha.set_fastpath_enabled(False)
    return made


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
            build_without_fast_path,
        ):
            model, inputs = factory()
            shapes = [tuple(tensor.shape) for tensor in inputs]
            parameters = sum(p.numel() for p in model.parameters())
            result = tuple(model.eval()(*inputs).shape)
            print(f"{factory.__name__}: {parameters:,} parameters, {shapes} -> {result}")
