"""Arguments and names: that what helps finds the right name, and that a fix left out is seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from tests.error_snippets import load

torch = pytest.importorskip("torch")

#: The snippets with one frame: how each is provoked, and what the error says.
PROVOKED: dict[str, tuple[Callable[[ModuleType], Callable[[], Any]], str]] = {
    "invalid_backend": (lambda module: partial(module.problem, "nosuch"), "InvalidBackend"),
    "unexpected_option": (lambda module: module.problem, "RuntimeError"),
    "option_type": (lambda module: module.problem, "RuntimeError"),
    "mode_and_options": (lambda module: module.problem, "RuntimeError"),
    "unrecognized_mode": (lambda module: partial(module.problem, "fastest"), "RuntimeError"),
    "unexpected_argument": (lambda module: partial(module.problem, nopython=True), "TypeError"),
    "backend_without_mode": (lambda module: module.problem, "BackendCompilerFailed"),
}


@pytest.mark.parametrize("name", PROVOKED)
def test_without_the_fix_the_row_is_an_error(name: str) -> None:
    module = load(name)
    provoke, error = PROVOKED[name]
    row = module.compile_and_call("fix", "call", provoke(module))
    assert (row["happened"], row["error"]) == ("error", error)
    assert row["raised_at"] == ("first call" if name == "backend_without_mode" else "torch.compile()")


@pytest.mark.parametrize("name", PROVOKED)
def test_a_wrong_result_is_no_fix(name: str) -> None:
    module = load(name)
    row = module.compile_and_call("fix", "call", lambda: lambda x: module.f(x) + 1)
    assert row["happened"] == "wrong"
    assert module.compile_and_call("fix", "call", lambda: module.f)["happened"] == "fine"


def test_what_was_meant_is_found() -> None:
    assert load("invalid_backend").closest("Inductor") == "inductor"
    assert load("invalid_backend").closest("cudagraph") == "cudagraphs"
    assert load("invalid_backend").closest("nosuch") == "inductor", "the default, where nothing is like it"
    assert load("unrecognized_mode").closest("reduce_overhead") == "reduce-overhead"
    assert load("unrecognized_mode").closest("fastest") == "default"
    assert load("unexpected_option").closest("triton_cudagraphs") == "triton.cudagraphs"


def test_a_mode_and_an_option_of_ones_own_merge_and_the_own_one_wins() -> None:
    merged = load("mode_and_options").merged
    assert merged("max-autotune-no-cudagraphs", epilogue_fusion=False)["max_autotune"] is True
    assert merged("max-autotune", max_autotune=False)["max_autotune"] is False


def test_an_assignment_takes_any_type_and_leaves_nothing_behind() -> None:
    module = load("option_type")
    before = module.inductor.epilogue_fusion
    assert module.problem_silent() == "no"
    assert module.inductor.epilogue_fusion is before


def test_a_back_end_that_swallows_its_options_is_no_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("backend_without_mode")

    def swallowing(graph: Any, inputs: Any, **ignored: Any) -> Any:
        return graph.forward

    monkeypatch.setattr(module, "with_options", swallowing)
    assert module.run()[-1]["happened"] == "wrong"


def test_an_argument_that_is_ignored_shows() -> None:
    module = load("ignored_options")
    ignored = module.logged("fix", "call", lambda: module.problem("eager", mode="max-autotune"))
    assert (ignored["happened"], ignored["evidence"]) == ("warning", "lines=1, equal_to_eager=True")
    assert module.logged("fix", "call", lambda: module.fix("eager"))["happened"] == "fine"
    assert module.logged("fix", "call", lambda: lambda x: x - 1)["happened"] == "wrong"


def test_explain_is_held_to_the_graphs_that_there_are() -> None:
    module = load("explain_tuple")
    assert module.asked("fix", "call", lambda x: (1, 0))["happened"] == "wrong"
    assert module.asked("fix", "call", module.fix)["evidence"] == "graph_count=2, break_reasons=1"
    assert module.asked("fix", "call", module.problem)["error"] == "TypeError"


def test_diagnostics_are_held_to_what_they_should_say() -> None:
    module = load("gone_diagnostics")
    assert module.asked("fix", "call", "", module.fix_profiler, "graphs", 3)["happened"] == "wrong"
    assert module.asked("fix", "call", "", module.old_name, "recompile_limit", 16)["happened"] == "fine"
    assert torch._dynamo.config.recompile_limit != 16, "the setting is put back"


def test_a_container_is_not_a_model() -> None:
    module = load("not_callable")
    assert module.tried("fix", "call", "first call", module.problem_container)["error"] == "NotImplementedError"
    assert module.tried("fix", "call", "", lambda model, x: x)["happened"] == "wrong"


@pytest.mark.parametrize("name", [*PROVOKED, "ignored_options", "explain_tuple", "gone_diagnostics", "not_callable"])
def test_messages_say_nothing_of_the_machine(name: str) -> None:
    tidy = load(name).tidy
    assert tidy("no <function f at 0x7f12ab> in /usr/lib/python3/site.py") == "no <function f> in site.py"
    assert tidy("first\n\nsecond") == "first"
    assert len(tidy("x" * 5000)) <= 502
