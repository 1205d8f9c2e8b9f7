"""The comparison tool on models that nobody here wrote, through their own constructors, with random weights."""

from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path

import pytest

from snippets.measuring import compare_backends as tool

#: A factory for each, as a user would write it. Small: what is tested is that they run unchanged and come out right.
FACTORIES = {
    "bert": """
        import torch
        from transformers import BertConfig, BertModel

        def build():
            config = BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128)
            return BertModel(config), {"input_ids": torch.randint(0, 1000, (2, 32))}
    """,
    "gpt2": """
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel

        def build():
            config = GPT2Config(n_embd=64, n_layer=2, n_head=2, vocab_size=1000, use_cache=False)
            ids = torch.randint(0, 1000, (2, 32))
            return GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}
    """,
    "vit": """
        import torch
        from transformers import ViTConfig, ViTModel

        def build():
            config = ViTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
                               image_size=64, patch_size=16)
            return ViTModel(config), torch.randn(2, 3, 64, 64)
    """,
}


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")
@pytest.mark.parametrize(
    ("name", "training", "reference"),
    [
        ("bert", False, "float64"),
        # GPT-2 drops out in training: the same random numbers for both, or there is nothing to compare.
        ("gpt2", True, "eager with the same seed, fallback_random"),
        ("vit", False, "float64"),
    ],
)
def test_it_runs_unchanged_and_comes_out_right(tmp_path: Path, name: str, training: bool, reference: str) -> None:
    path = tmp_path / f"{name}.py"
    path.write_text(textwrap.dedent(FACTORIES[name]), "utf-8")
    rows = tool.compare(f"{path}:build", training=training, variants=("inductor",), seconds=0.3, processes=2)
    plain, again, compiled = rows
    assert [row.status for row in rows] == ["ok"] * 3, compiled.note or plain.note
    assert compiled.max_rel_error is not None
    assert compiled.tolerance is not None
    assert compiled.max_rel_error <= compiled.tolerance
    assert compiled.reference == reference
    assert compiled.ran == "yes"
    assert compiled.graphs
    assert again.verdict is not None
