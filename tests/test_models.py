"""The reference models: built in both sizes, what they are said to be, and the same when compiled."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from kitchen import runner, snippet
from snippets.measuring import compare_backends

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


def factories_of(name: str) -> list[Callable[..., Any]]:
    """The factories that are recorded."""
    names = snippet.load(name).arguments.get("factories", ["build"])
    return [getattr(module_of(name), factory) for factory in names]


def test_every_model_is_tested() -> None:
    assert {name for name in snippet.load_all() if name.startswith("models/")} == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_small_runs_and_is_repeatable(name: str) -> None:
    for factory in factories_of(name):
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

    for factory in factories_of(name):
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


def test_a_step_of_the_recommender_reads_more_than_a_cache_holds() -> None:
    """The same ids come at every step: not the size of the tables counts, but what a step touches of them."""
    torch.manual_seed(0)
    model, (_, sparse) = module_of("models/dlrm").build("small")
    row = model.tables[0].weight[0].nbytes
    touched = sum(len(ids.unique()) for ids in sparse) * row
    assert 38 * 2**20 < touched < 40 * 2**20, "as the docstring says"
    assert 58 * 2**20 < sum(table.weight.nbytes for table in model.tables) < 59 * 2**20


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
    outputs = []
    for factory in factories_of("models/transformer_encoder"):
        torch.manual_seed(0)
        model, inputs = factory("small")
        with torch.no_grad():
            outputs.append(model.eval()(*inputs))
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_compiled_is_the_same(name: str, inductor_cache: None) -> None:
    for factory in factories_of(name):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, inputs = factory("small")
        model.eval()
        with torch.no_grad():
            exact = copy.deepcopy(model).double()(*(t.double() if t.is_floating_point() else t for t in inputs))
            compiled = torch.compile(copy.deepcopy(model))(*inputs)
        assert (compiled.double() - exact).abs().max() <= 1e-4 * exact.abs().max()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_measured_by_the_tool(name: str) -> None:
    one = snippet.load(name)
    assert one.measured_by == "measuring/compare_backends"
    wanted = set(inspect.signature(compare_backends.run).parameters)
    assert set(one.arguments) <= wanted
    inference_only = one.arguments.get("inference_only", [])
    assert set(inference_only) <= set(one.arguments.get("factories", ["build"]))


@pytest.mark.slow
def test_a_record_of_a_model() -> None:
    """The shortest real one, as the kitchen makes it."""
    outcome = runner.run(snippet.load("models/mlp"), {"seconds": 0.3, "processes": 2}, limit_s=300)
    assert outcome.status == "ok", outcome.reason
    seen = [(row["model"], row["workload"], row["variant"]) for row in outcome.rows]
    names = ("eager", "eager again", "compile:eager", "aot_eager", "inductor")
    assert seen == [("mlp:build", work, name) for work in ("inference", "training") for name in names]
    assert all(row["status"] == "ok" and row["step_us"] > 0 for row in outcome.rows)


@pytest.fixture
def inductor_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own, so that nothing stale is found; each model compiles code of its own anyway."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
