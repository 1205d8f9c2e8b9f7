"""What users rely on: found by name without an import, right, trainable, clear about what it does not know."""

from __future__ import annotations

import copy

import pytest
import torch
from kitchen_numpy_backend import EXECUTED
from torch import nn


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Forget what was compiled before."""
    torch.compiler.reset()
    EXECUTED.clear()
    torch.manual_seed(0)


def test_name_is_listed() -> None:
    assert "kitchen_numpy" in torch.compiler.list_backends()


def test_model_runs_in_numpy_and_is_right() -> None:
    model, x = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)), torch.randn(5, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="kitchen_numpy")(x), model(x))
    assert {where for where, _ in EXECUTED} == {"numpy"}


def test_what_is_not_in_the_table_runs_in_torch_and_is_counted() -> None:
    model, x = nn.Sequential(nn.Conv1d(2, 3, 3), nn.ReLU()), torch.randn(1, 2, 9)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="kitchen_numpy")(x), model(x))
    assert EXECUTED["torch", "aten.convolution"] == 1
    assert EXECUTED["numpy", "aten.relu"] == 1


@pytest.mark.parametrize("partitioner", ["min_cut", "default"])
def test_gradients_are_those_of_eager(partitioner: str) -> None:
    model, x = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(5, 8)
    plain = copy.deepcopy(model)
    plain(x).square().sum().backward()
    torch.compile(model, backend="kitchen_numpy", options={"partitioner": partitioner})(x).square().sum().backward()
    for mine, right in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, right.grad)


def test_sizes_change_without_a_compile_for_each() -> None:
    compiled = torch.compile(lambda x: torch.softmax(x, -1) * x.shape[0], backend="kitchen_numpy")
    for rows in (2, 3, 4, 5):
        x = torch.randn(rows, 6)
        torch.testing.assert_close(compiled(x), torch.softmax(x, -1) * rows)


def test_input_written_in_place_is_seen_by_the_caller() -> None:
    x = torch.zeros(3)
    torch.compile(lambda x: x.add_(1) * 2, backend="kitchen_numpy")(x)
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ({"options": {"partitoner": "default"}}, ValueError, "did you mean 'partitioner'"),
        ({"options": {"partitioner": "best"}}, ValueError, "'min_cut' or 'default'"),
        ({"options": {"fallback": 1}}, TypeError, "True or False"),
        ({"options": {"fallback": False}}, NotImplementedError, "aten.erf"),
        ({"mode": "max-autotune"}, ValueError, "has no modes"),
    ],
)
def test_what_it_does_not_know_is_refused(how: dict, error: type[Exception], says: str) -> None:
    compiled = torch.compile(torch.erf, backend="kitchen_numpy", **how)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=says) as caught:
        compiled(torch.ones(2))
    assert isinstance(caught.value.inner_exception, error)
