"""The problems of numbers: each check is given something that is right and something that is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.test_snippets import load

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def snippet(name: str) -> ModuleType:
    return load(f"errors/{name}")


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """torch.compile gives the function back, or what stands under "instead"."""
    plan: dict[str, Any] = {}
    monkeypatch.setattr(torch, "compile", lambda function, **how: plan.get("instead", function))
    return plan


def test_a_check_that_always_or_never_agrees_is_wrong() -> None:
    module = snippet("near_zero_output")
    for check, evidence in (
        (lambda got, wanted: True, "accepts_right=True, accepts_wrong=True"),
        (lambda got, wanted: False, "accepts_right=False, accepts_wrong=False"),
    ):
        row = module.attempt("fix", "check", check)
        assert row["happened"] == "wrong"
        assert row["evidence"].startswith(evidence)
    assert module.fix(torch.zeros(2), torch.zeros(2)) is False


def test_low_precision_is_judged_by_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    module = snippet("low_precision")
    eager = module.f(module.X)
    assert module.attempt("fix", "f", eager, module.fix)["happened"] == "fine"
    worse = module.attempt("fix", "f", eager * 1.5, module.fix)
    assert worse["happened"] == "wrong"
    assert module.error_of(module.f(module.X.double())) == 0
    assert module.error_of(module.f(module.X.double()) * 1.25) == pytest.approx(0.25)


@pytest.mark.parametrize("name", ["low_precision", "reduction_order", "dropout_differs"])
def test_the_first_rung_is_the_one_whose_bits_differ(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = snippet(name)

    def planted(function: Any, backend: str) -> Any:
        return (lambda x: function(x) + 1) if backend in bad else function

    monkeypatch.setattr(torch, "compile", planted)
    for bad, found in (({"inductor"}, "inductor"), ({"aot_eager", "inductor"}, "aot_eager"), (set(), "none")):  # noqa: B007 - planted() reads it
        assert module.first_rung(lambda x: x * 2, torch.ones(3)) == found


def test_a_sum_that_is_wrong_by_a_thousandth_is_refused(uncompiled: dict[str, Any]) -> None:
    module = snippet("reduction_order")
    assert module.attempt("fix", "f", module.f, module.fix)["happened"] == "fine"
    assert module.attempt("fix", "f", module.f, lambda got: True)["happened"] == "wrong"
    uncompiled["instead"] = lambda x: x.sum(dim=-1) * 1.01
    assert module.attempt("fix", "f", module.f, module.fix)["happened"] == "wrong"


def test_a_fix_that_still_overflows_is_wrong(uncompiled: dict[str, Any]) -> None:
    module = snippet("hidden_overflow")
    row = module.attempt("fix", "f", module.problem)
    assert (row["happened"], row["evidence"]) == ("wrong", "eager=inf, compiled=inf, float64=160")
    assert module.attempt("fix", "f", module.fix)["happened"] == "fine"


@pytest.mark.parametrize("name", ["float_to_int8", "floor_division"])
def test_one_value_that_differs_is_wrong(name: str, uncompiled: dict[str, Any]) -> None:
    module = snippet(name)
    same = module.attempt("fix", "f", module.fix)
    assert (same["happened"], same["raised_at"]) == ("fine", "")

    def off_by_one(x: Any) -> Any:
        result = module.fix(x).clone()
        result[10] += 1
        return result

    uncompiled["instead"] = off_by_one
    row = module.attempt("fix", "f", module.fix)
    assert (row["happened"], row["raised_at"]) == ("wrong", "first call")
    assert row["evidence"].startswith(f"differing=1/{len(module.X)}, ")


def test_dropout_is_compared_from_the_same_seed() -> None:
    module = snippet("dropout_differs")
    assert module.attempt("fix", "f", module.problem, module.problem)["happened"] == "fine"
    row = module.attempt("fix", "f", module.problem, lambda x: x * 0)
    assert row["happened"] == "wrong"
    assert "kept_compiled=0.00" in row["evidence"]


def test_a_table_that_is_too_small_is_an_error_and_one_with_other_rows_is_wrong() -> None:
    module = snippet("index_out_of_bounds")
    row = module.attempt("fix", "f", module.problem(), lambda function: function)
    assert (row["happened"], row["error"]) == ("error", "IndexError")
    assert module.attempt("fix", "f", module.fix(), lambda function: function)["evidence"] == "rows=101, largest_id=100"
    other = module.attempt("fix", "f", module.fix(), lambda function: lambda ids: torch.zeros(3, 4))
    assert other["happened"] == "wrong"


@pytest.mark.parametrize(
    ("code", "happened", "error", "message"),
    [
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGFPE)",
            "error",
            "SIGFPE",
            "Fatal Python error: Floating point",
        ),
        (
            "raise RuntimeError('in /a/b/c.h:3, ZeroDivisionError')",
            "error",
            "RuntimeError",
            "RuntimeError: in c.h:3, Zero",
        ),
        ("pass", "wrong", "", ""),
    ],
)
def test_what_became_of_a_process_is_read_from_it(code: str, happened: str, error: str, message: str) -> None:
    command = [sys.executable, "-X", "faulthandler", "-c", code]
    process = subprocess.Popen(command, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    row = snippet("integer_division_by_zero").outcome("a // b", process)
    assert (row["happened"], row["error"]) == (happened, error)
    assert row["message"].startswith(message)


def test_the_masked_division_divides_and_never_by_zero() -> None:
    module = snippet("integer_division_by_zero")
    a, b = torch.tensor([7, -7, 7]), torch.tensor([2, 2, 0])
    assert module.fix(a, b).tolist() == [3, -3, 0]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.div(a, b, rounding_mode="trunc")
