"""Capture and graph breaks: that the evidence of these snippets counts, and that a fix left out is seen."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

FOLDER = Path(__file__).parents[1] / "snippets" / "errors"
Row = dict[str, Any]


def load(name: str) -> ModuleType:
    """A snippet as a module."""
    spec = importlib.util.spec_from_file_location(f"capture_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing of one test's graphs is left for the next."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


ATTEMPTS = (
    "data_dependent_branching",
    "data_dependent_guard",
    "disabled_function_in_fullgraph",
    "dynamic_shape_operator",
    "function_marked_as_skipped",
    "graph_break_in_a_loop",
    "print_in_compiled_code",
    "tensor_item",
)


@pytest.mark.parametrize("name", ATTEMPTS)
def test_without_the_fix_the_row_is_not_fine(name: str) -> None:
    module = load(name)
    row = module.attempt("fix", module.problem, backend="eager")
    assert row["happened"] in ("costly", "not compiled", "warning", "error")
    assert row["happened"] == "error" or row["message"]


@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_fix_that_computes_something_else_is_wrong(name: str) -> None:
    module = load(name)
    row = module.attempt("fix", lambda *x: module.problem(*x) + 1, backend="eager")
    assert row["happened"] in ("wrong", "error"), row


def test_graphs_are_counted() -> None:
    module = load("data_dependent_branching")

    def three(x: Any) -> Any:
        x = x + 1
        torch._dynamo.graph_break()
        x = x * 2
        torch._dynamo.graph_break()
        return x - 3

    assert "graphs=3, calls=2" in module.attempt("problem", three, backend="eager")["evidence"]


def test_an_error_says_at_which_call() -> None:
    module = load("tensor_item")
    seen: list[int] = []

    def back_end(graph: Any, inputs: Any) -> Any:
        def run(*arguments: Any) -> Any:
            seen.append(1)
            if len(seen) > 1:
                raise RuntimeError("the second")
            return graph.forward(*arguments)

        return run

    row = module.attempt("fix", module.fix, backend=back_end)
    assert (row["happened"], row["raised_at"], row["error"]) == ("error", "later call", "RuntimeError")
    row = module.attempt("fix", module.fix, backend="no_such_name")
    assert (row["happened"], row["raised_at"]) == ("error", "torch.compile()")


def test_text_of_the_machine_is_cut_out() -> None:
    shown = load("function_marked_as_skipped").shown
    text = 'f <function g at 0x7f00aa> in "/home/me/x/module.py", see https://example.org/a/b.html'
    text += "\nDeveloper debug context: z"
    assert shown(text) == 'f <function g> in "module.py", see https://example.org/a/b.html'
    assert len(shown("word " * 300)) <= 500


def test_a_broken_promise_and_a_kept_one_are_told_apart() -> None:
    module = load("data_dependent_guard")
    seen = {f: module.when_there_is_none(getattr(module, f), "eager") for f in ("fix_promise", "fix_mask")}
    assert seen == {"fix_promise": "RuntimeError", "fix_mask": "fine"}
    assert module.when_there_is_none(lambda x: torch.where(x > 0, x, 0.0).sum() + 5, "eager") == "wrong"


def test_the_printed_lines_are_counted() -> None:
    module = load("print_in_compiled_code")
    rows = module.run()
    assert ["printed=0" in row["evidence"] for row in rows[2:]] == [False, True, True]
    assert "printed=2" in rows[2]["evidence"]


def test_more_cuts_run_more_graphs() -> None:
    module = load("many_graph_breaks")
    before = frozenset(torch._dynamo.config.ignore_logging_functions)
    try:
        graphs, same, reason = module.count_graphs(module.problem)
        assert (graphs, same) == (2 * module.LAYERS, True)
        assert "logging.Logger method" in reason
        assert module.count_graphs(module.fix)[:2] == (1, True)
    finally:
        torch._dynamo.config.ignore_logging_functions = set(before)
    assert module.run(rounds=2)[1]["happened"] == "fine"
    assert torch._dynamo.config.ignore_logging_functions == before


def test_what_is_only_wrapped_is_not_caught_and_what_is_tried_is(caplog: pytest.LogCaptureFixture) -> None:
    module = load("except_around_compile")
    with caplog.at_level(logging.WARNING):
        rows = module.run()
    assert [row["raised_at"] for row in rows] == ["first call", "backward", "", "", ""]
    assert [row["evidence"] for row in rows[2:]] == [
        "caught=1, compiled=False",
        "caught=1, compiled=False",
        "caught=0, compiled=True",
    ]
    assert caplog.text.count("not compiled") == 2
    left_out = module.attempt("fix", "no_backward", lambda backend: torch.compile(module.model, backend=backend))
    assert left_out["happened"] == "error"


def test_a_fallback_in_silence_is_not_fine() -> None:
    module = load("suppress_errors_hides_it")
    before = torch._dynamo.config.suppress_errors
    row = module.attempt("fix", module.no_compiler, module.problem)
    assert (row["happened"], row["error"]) == ("not compiled", "BackendCompilerFailed")
    assert row["message"].startswith("WON'T CONVERT")
    assert "no compiler here" in row["message"]
    assert module.attempt("problem", "eager", module.problem)["happened"] == "fine"
    assert torch._dynamo.config.suppress_errors is before


def test_an_answer_is_held_against_what_was_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("explain_misses_breaks")
    assert module.attempt("problem", module.whole)["happened"] == "fine", "explain() is right where nothing is cut"
    assert module.attempt("problem", module.provoke_in_loop)["evidence"].startswith("graph_break_count=-1, graphs=0")
    monkeypatch.setattr(module, "fix", lambda function, x: "")
    assert module.attempt("fix", module.provoke_before)["happened"] == "wrong"
    monkeypatch.setattr(module, "fix", lambda function, x: "a reason")
    assert module.attempt("fix", module.whole)["happened"] == "wrong"


def test_no_graph_is_not_compiled() -> None:
    module = load("built_in_layer_in_place")
    assert module.attempt("fix", "plain", module.Mine(), lambda layer: layer)["happened"] == "not compiled"
    assert module.attempt("fix", "other", module.Mine(), lambda layer: lambda x: layer(x) + 1)["happened"] == "wrong"
    module = load("only_forward_is_compiled")
    assert module.attempt("fix", "plain", lambda model: model.encode(module.X))["happened"] == "not compiled"


def test_the_environment_of_a_child_is_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("compile_disabled_by_environment")
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    assert not set(module.VARIABLES) & set(module.fix())
    assert module.problem("TORCH_COMPILE_DISABLE")["TORCH_COMPILE_DISABLE"] == "1"
    assert "TORCHDYNAMO_DISABLE" not in module.problem("TORCH_COMPILE_DISABLE")
    rows = module.rows_of("fix", "left set", module.start(dict(module.os.environ)))
    assert [row["happened"] for row in rows] == ["not compiled", "not compiled"]
    monkeypatch.setattr(module, "SCRIPT", "raise SystemExit(3)")
    with pytest.raises(RuntimeError, match="left set: the script ended with 3"):
        module.rows_of("fix", "left set", module.start(module.fix()))


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTEMPTS)
def test_it_is_the_same_with_inductor(name: str) -> None:
    module = load(name)
    eager, inductor = (
        [(row["happened"], row["error"], row["evidence"]) for row in module.run(backend=backend)]
        for backend in ("eager", "inductor")
    )
    assert [row[:1] for row in inductor if row[0] == "fine"] == [row[:1] for row in eager if row[0] == "fine"]
    assert [row[1:] for row in inductor] == [row[1:] for row in eager]
