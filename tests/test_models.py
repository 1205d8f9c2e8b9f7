"""The reference models: built in both sizes, what they are said to be, and the same when compiled."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from kitchen import child, snippet

MODELS = (
    "models/mlp",
    "models/resnet18",
    "models/transformer_encoder",
    "models/gpt_decoder",
    "models/unet",
    "models/dlrm",
    "models/pointwise_chain",
    "models/lstm",
    "models/graph_breaks",
)


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"snippets.{name.replace('/', '.')}")


def test_every_model_is_tested() -> None:
    assert {name for name in snippet.load_all() if name.startswith("models/")} == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_small_runs_and_is_repeatable(name: str) -> None:
    for factory in module_of(name).FACTORIES.values():
        outputs = []
        for _ in range(2):
            torch.manual_seed(0)
            model, inputs = factory("small")
            with torch.no_grad():
                outputs.append(model.eval()(*inputs))
        assert outputs[0].isfinite().all()
        assert torch.equal(outputs[0], outputs[1])
        assert outputs[0].std() > 0


@pytest.mark.parametrize("name", MODELS)
def test_large_is_larger(name: str) -> None:
    """Built on the meta device, which takes no memory."""

    def work(factory: Callable[[str], Any], size: str) -> int:
        model, inputs = factory(size)
        return sum(p.numel() for p in model.parameters()) + sum(t.numel() for t in inputs)

    for factory in module_of(name).FACTORIES.values():
        with torch.device("meta"):
            assert work(factory, "large") > 10 * work(factory, "small")


@pytest.mark.parametrize("name", MODELS)
def test_a_size_that_there_is_not(name: str) -> None:
    with pytest.raises(ValueError, match="wants one of small, large"):
        module_of(name).build("huge")


def test_resnet18_is_resnet18() -> None:
    with torch.device("meta"):
        model, _ = module_of("models/resnet18").build("large")
    # torchvision's has 11 689 512, with 1000 classes instead of 10: 990 x 513 more.
    assert sum(p.numel() for p in model.parameters()) == 11_689_512 - 990 * 513


def test_decoding_one_token_is_the_end_of_a_prefill() -> None:
    """The cache holds what the prompt left there, so that the next token's logits are the prefill's."""
    module = module_of("models/gpt_decoder")
    torch.manual_seed(0)
    prefill, (tokens, places) = module.build("small")
    decode, _ = module.build_decode("small")
    decode.load_state_dict(prefill.state_dict(), strict=False)
    count = 10
    with torch.no_grad():
        wanted = prefill(tokens[:, :count], places[:count])[:, -1]
        for place in range(count):
            found = decode(tokens[:, place : place + 1], places[place : place + 1])
    torch.testing.assert_close(found[:, 0], wanted, rtol=1e-4, atol=1e-4)


def test_the_encoder_without_its_fast_path_is_the_same_function() -> None:
    module = module_of("models/transformer_encoder")
    outputs = []
    for factory in module.FACTORIES.values():
        torch.manual_seed(0)
        model, inputs = factory("small")
        with torch.no_grad():
            outputs.append(model.eval()(*inputs))
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_compiled_is_the_same(name: str, inductor_cache: None) -> None:
    rows: list[dict[str, Any]] = module_of(name).run(size="small")
    assert child.row_fault(rows) is None
    for row in rows:
        assert row["status"] == "ok", row["note"]
        assert row["inductor_rel_error"] <= 1e-4


@pytest.fixture
def inductor_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own, so that nothing stale is found; each model compiles code of its own anyway."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
