"""third_party/weight_updates: who goes on with old weights is found, and nobody else is accused."""

from __future__ import annotations

import copy
import importlib.metadata
from types import ModuleType
from typing import Any

import pytest

from tests.test_snippets import load, run_alone

torch = pytest.importorskip("torch")

NAME = "third_party/weight_updates"


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return load(NAME)


def planted(module: ModuleType, compiled: Any) -> Any:
    return module.BackEnd("torch", "torch", compiled)


@pytest.mark.parametrize("case", ["in place", "load_state_dict", "new tensors"])
def test_the_plain_model_has_the_new_weights_and_a_frozen_copy_the_old_ones(module: ModuleType, case: str) -> None:
    assert module.infer(planted(module, lambda model: model), case)["saw"] == "new weights"
    assert module.infer(planted(module, lambda model: copy.deepcopy(model)), case)["saw"] == "old weights"
    assert module.infer(planted(module, lambda model: lambda x: model(x) + 1), case)["saw"] == "wrong"


def test_a_back_end_that_writes_into_the_weights_is_found(module: ModuleType) -> None:
    def reorders(model: Any) -> Any:
        packed = copy.deepcopy(model)
        for parameter in model.parameters():
            parameter.copy_(parameter.flip(0))
        return packed

    row = module.infer(planted(module, reorders), "in place")
    assert (row["saw"], row["kept"]) == ("old weights", "overwritten")
    assert module.infer(planted(module, lambda model: model), "in place")["kept"] == "intact"


def test_training_that_looks_right_for_one_step_is_found(module: ModuleType) -> None:
    def first_layer_frozen(model: Any) -> Any:
        packed = copy.deepcopy(model[0])
        return lambda x: model[2](model[1](packed(x)) + 0 * model[0](x))

    row = module.train(planted(module, first_layer_frozen))
    assert row["saw"] == "wrong"
    plain = module.train(planted(module, lambda model: model))
    assert row["first_loss"] == pytest.approx(plain["first_loss"], rel=1e-6)
    assert (plain["saw"], plain["kept"], plain["relative_error"]) == ("equal", "intact", 0)


def test_an_error_says_when_it_came(module: ModuleType) -> None:
    calls = []

    def second_call_fails(model: Any) -> Any:
        def call(x: Any) -> Any:
            calls.append(1)
            if len(calls) > 1:
                raise ZeroDivisionError("no more")
            return model(x)

        return call

    row = module.infer(planted(module, second_call_fails), "in place")
    assert (row["saw"], row["raised_at"], row["error"], row["message"]) == (
        "error",
        "call after",
        "ZeroDivisionError",
        "no more",
    )
    lost = module.train(planted(module, lambda model: lambda x: model(x).detach()))
    assert (lost["saw"], lost["raised_at"], lost["error"]) == ("error", "training", "RuntimeError")


def test_inductor_has_the_new_weights() -> None:
    rows = run_alone(NAME, {"back_ends": ["inductor"], "cases": ["in place", "training", "inductor after"]})
    assert [(row["change"], row["status"], row["saw"]) for row in rows] == [
        ("in place", "ok", "new weights"),
        ("training", "ok", "equal"),
    ]


def test_a_package_that_is_absent_says_what_to_install(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    rows = module.run(back_ends=["openvino"], cases=["in place"])
    assert [row["status"] for row in rows] == ["unavailable"]
    assert "pip install 'openvino>=" in rows[0]["note"]


@pytest.mark.slow
def test_back_ends_of_others_have_an_answer_each() -> None:
    pytest.importorskip("openvino")
    rows = run_alone(NAME, {"back_ends": ["openvino", "relax_dynamo()"], "cases": ["in place"]})
    for row in rows:
        assert row["status"] in ("ok", "unavailable"), row["note"]
        if row["status"] == "ok":
            assert row["saw"] in ("new weights", "old weights", "wrong", "error")
            assert row["package_version"] == importlib.metadata.version(row["package"])
