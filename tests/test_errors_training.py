"""The problems of training: their rows come out otherwise where the fix is not applied, and count what there is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.test_snippets import load

torch = pytest.importorskip("torch")

WITH_ATTEMPT = (
    "double_backward", "first_backward", "backward_a_second_time", "donated_buffers", "donation_off_with_warm_cache",
    "inference_tensor_saved", "backend_loses_gradients",
)  # fmt: skip


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def snippet(name: str) -> ModuleType:
    return load(f"errors/{name}")


@pytest.mark.parametrize("name", WITH_ATTEMPT)
def test_a_gradient_that_is_not_eagers_is_wrong(name: str) -> None:
    module, wanted = snippet(name), torch.ones(4)
    for gradient, happened, evidence in (
        (wanted.clone(), "fine", "max_difference=0.0e+00"),
        (wanted * 1.5, "wrong", "max_difference=5.0e-01"),
        (wanted * float("nan"), "wrong", "max_difference=nan"),
    ):
        row = module.attempt("fix", "f(x)", lambda gradient=gradient: gradient, wanted)
        assert (row["happened"], row["evidence"], row["error"]) == (happened, evidence, "")


@pytest.mark.parametrize("name", WITH_ATTEMPT)
def test_the_call_that_raised_is_told_apart(name: str) -> None:
    module, leaf = snippet(name), torch.ones(2, requires_grad=True)

    class Fails(torch.autograd.Function):  # type: ignore[name-defined]
        """Right forward, failing backward."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            raise NotImplementedError("the backward of the test")

    late = module.attempt("problem", "f(x)", lambda: Fails.apply(leaf).sum().backward(), leaf)
    assert (late["happened"], late["raised_at"], late["error"]) == ("error", "backward", "NotImplementedError")
    early = module.attempt("problem", "f(x)", lambda: torch.nn.Linear(3, 3)(leaf), leaf)
    assert (early["happened"], early["raised_at"], early["error"]) == ("error", "first call", "RuntimeError")


def test_paths_of_the_machine_are_left_out_of_messages() -> None:
    def fail() -> Any:
        raise ValueError("in /some/where/else/file.py, line 3")

    row = snippet("double_backward").attempt("problem", "f(x)", fail, torch.ones(1))
    assert row["message"] == "in file.py, line 3"


def test_a_rehearsal_falls_back_only_where_the_back_end_has_a_gap() -> None:
    module = snippet("first_backward")
    plain = module.make_model()
    without_relu = torch.nn.Sequential(torch.nn.Linear(4, 4))
    for choose, falls_back in ((module.problem, False), (module.fix, True), (module.fix_at_once, True)):
        torch._dynamo.reset()
        assert (choose(plain) is plain) is falls_back
        assert choose(without_relu) is not without_relu
    assert plain[0].weight.grad is None


def test_a_backend_behind_aot_autograd_keeps_gradients_and_one_that_is_not_does_not() -> None:
    module = snippet("backend_loses_gradients")
    x = torch.ones(3, requires_grad=True)
    for backend, kept in ((module.problem, False), (module.fix, True)):
        torch._dynamo.reset()
        assert torch.compile(lambda x: x.sin(), backend=backend)(x).requires_grad is kept


def test_a_budget_that_saves_nothing_is_costly(monkeypatch: pytest.MonkeyPatch) -> None:
    module = snippet("memory_budget_in_wrong_module")
    counts = iter([(16.0, torch.ones(2)), (16.0, torch.ones(2)), (16.0, torch.ones(2)), (4.0, torch.zeros(2))])
    monkeypatch.setattr(module, "saved_kib", lambda setting=None: next(counts))
    assert module.attempt("fix", "x", lambda: None)["happened"] == "costly"
    assert module.attempt("fix", "x", lambda: None)["happened"] == "wrong"


def test_what_is_kept_is_counted_without_inputs_and_once() -> None:
    module = snippet("more_saved_than_eager")

    def keeps_two(x: Any, w1: Any, w2: Any) -> Any:
        hidden = torch.sigmoid(x @ w1)
        return (hidden @ w2) + (hidden @ w2).exp()

    kib, _ = module.saved(keeps_two)
    assert kib == (32 * 256 + 32 * 64) * 4 / 1024
    assert module.saved(module.problem)[0] == 0
    assert module.saved(module.plain)[0] > 0


def test_an_operator_with_no_fake_kernel_and_one_with_a_wrong_one_are_told_apart() -> None:
    module = snippet("no_fake_impl")
    assert module.attempt("fix", "f", module.problem("kitchen_test_1::double"))["happened"] == "error"
    wrong = torch.library.custom_op(
        "kitchen_test_2::double", lambda x: x * 3, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    wrong.register_fake(torch.empty_like)
    assert module.attempt("fix", "f", wrong)["happened"] == "wrong"


def test_undeclared_writes_are_counted() -> None:
    module = snippet("undeclared_mutation")
    row = module.attempt("fix", "f", module.problem("kitchen_test_3::add_one_"), "aot_eager")
    assert (row["happened"], row["evidence"]) == ("wrong", "differing=8/8")
    row = module.attempt("fix", "f", module.fix("kitchen_test_4::add_one_"), "aot_eager")
    assert (row["happened"], row["evidence"]) == ("fine", "differing=0/8")


def test_a_wrong_derivative_is_not_fine() -> None:
    module = snippet("operator_without_autograd")
    double = torch.library.custom_op(
        "kitchen_test_5::double", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    double.register_fake(torch.empty_like)
    double.register_autograd(lambda ctx, gradient: gradient * 3)
    row = module.attempt("fix", "f", double)
    assert (row["happened"], row["evidence"]) == ("wrong", "max_difference=1.0e+00")


@pytest.mark.slow
def test_only_a_warm_cache_makes_the_advice_dangerous(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = snippet("donation_off_with_warm_cache")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    plain = module.make_model()
    wanted = module.two_backwards(plain, plain)
    assert module.attempt("problem", "f", module.problem, wanted)["happened"] == "fine"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "another"))
    torch._dynamo.reset()
    module.an_ordinary_run()
    assert module.attempt("problem", "f", module.problem, wanted)["happened"] == "wrong"
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "another")
