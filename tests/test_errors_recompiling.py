"""The problems of recompilation: what their rows are made of can come out otherwise, and counts what there is."""

from __future__ import annotations

import ast
import logging
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from kitchen import problems
from tests.test_snippets import SNIPPETS, load

torch = pytest.importorskip("torch")

NAMES = sorted(one.snippet for one in problems.load().values() if one.page == "recompiling")
SHARED = ("Graphs", "listening", "first_lines", "look", "close", "main", "NOT_COMPILED")
LIMIT = "errors/recompile_limit"


@pytest.fixture
def snippet() -> ModuleType:
    return load(LIMIT)


def row(snippet: ModuleType, attempt: Callable[..., Any], **more: Any) -> dict[str, str]:
    """The row of an attempt that should give what the problem gives, uncompiled."""
    found: dict[str, str] = snippet.look("fix", "f(x)", attempt, more.pop("like", snippet.problem), **more)
    return found


def by_name(name: str) -> dict[str, str]:
    text = (SNIPPETS / f"{name}.py").read_text("utf-8")
    parts = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            parts[node.name] = ast.unparse(node)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            parts[node.targets[0].id] = ast.unparse(node)
    return parts


def test_all_count_and_compare_in_the_same_way() -> None:
    assert len(NAMES) >= 9
    first = by_name(LIMIT)
    for name in NAMES:
        own = by_name(name)
        assert {part: own[part] for part in SHARED} == {part: first[part] for part in SHARED}, name


def test_a_fix_that_is_not_applied_is_not_fine(snippet: ModuleType) -> None:
    found = row(snippet, snippet.problem)
    assert (found["happened"], found["raised_at"]) == ("not compiled", "later call")
    assert found["evidence"] == "calls=12, graphs=8, compiled_calls=8"
    assert found["message"].startswith("torch._dynamo hit config.recompile_limit (8)")


def test_a_limit_that_is_one_too_low_is_not_fine(snippet: ModuleType) -> None:
    def one_short(backend: Any) -> Any:
        with torch._dynamo.config.patch(recompile_limit=11):
            return snippet.problem(backend)

    assert row(snippet, one_short, enough=12)["evidence"] == "calls=12, graphs=11, compiled_calls=11"
    assert row(snippet, one_short, enough=12)["happened"] == "not compiled"


def test_a_graph_more_than_the_work_needs_is_a_recompilation(snippet: ModuleType) -> None:
    found = row(snippet, snippet.fix_limit, enough=11)
    assert (found["happened"], found["raised_at"]) == ("recompiled", "later call")
    assert "times == " in found["message"]
    assert row(snippet, snippet.fix_limit, enough=12)["happened"] == "fine"


@pytest.mark.parametrize("change", [lambda results: [x + 1e-3 for x in results], lambda results: results[:-1]])
def test_another_result_is_wrong(snippet: ModuleType, change: Callable[[Any], Any]) -> None:
    assert row(snippet, lambda backend: change(snippet.fix_region(backend)))["happened"] == "wrong"
    assert row(snippet, lambda backend: [x + 1e-9 for x in snippet.fix_region(backend)])["happened"] == "fine"


def test_what_never_reaches_the_back_end_is_not_fine(snippet: ModuleType) -> None:
    found = row(snippet, lambda backend: [snippet.repeat(snippet.X, times) for times in range(1, 13)])
    assert (found["happened"], found["status"]) == ("not compiled", "not measured")
    assert found["note"] == snippet.NOT_COMPILED


@pytest.mark.parametrize(("calls", "when"), [(0, "first call"), (2, "later call")])
def test_an_error_is_told_with_its_place_and_without_paths(snippet: ModuleType, calls: int, when: str) -> None:
    def breaks(backend: Any) -> Any:
        compiled = torch.compile(snippet.repeat, backend=backend)
        for _ in range(calls):
            compiled(snippet.X, 1)
        raise ValueError('no such thing\nUser stack:\n  File "/home/someone/x.py", line 1\n')

    found = row(snippet, breaks)
    assert (found["happened"], found["error"], found["raised_at"]) == ("error", "ValueError", when)
    assert found["message"] == "no such thing"


def test_text_for_the_page_has_no_path_address_or_trace(snippet: ModuleType) -> None:
    said = (
        "Recompiling function f in /home/a/b.py:11\n    triggered by the following guard failure(s):\n"
        "    - 0/1: n == 8   # for _ in range(n): x = x + 1  # a/b.py:65 in f (_dynamo/variables/tensor.py:6 in g)\n"
        "    - 0/0: ___check_obj_id(g, 139912245424992), type=<class 'code'>  # return g(x)  # a/b.py:37 in f\n"
        '    - User stack trace:\n    -   File "/home/a/b.py", line 37, in f\n'
    )
    assert snippet.first_lines(said) == (
        "Recompiling function f\ntriggered by the following guard failure(s):\n"
        "- 0/1: n == 8\n- 0/0: ___check_obj_id(g, …), type=<class 'code'>"
    )
    assert len(snippet.first_lines("word " * 500)) == 500


def test_graphs_are_those_that_torch_counts(snippet: ModuleType) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    graphs = snippet.Graphs()
    snippet.problem(graphs)
    assert graphs.made == torch._dynamo.utils.counters["stats"]["unique_graphs"] == 8


@pytest.mark.parametrize(
    ("name", "functions"),
    [
        ("batch_of_one", ("fix_unbacked", "fix_pad")),
        ("equal_sizes", ("fix_first_call", "fix_mark", "fix_setting")),
        ("stride_or_dtype", ("fix",)),
        ("grad_mode", ("fix_mode", "fix_input")),
        ("learning_rate_schedule", ("fix",)),
    ],
)
def test_where_one_graph_is_said_to_be_enough_there_is_one(name: str, functions: tuple[str, ...]) -> None:
    module = load(f"errors/{name}")
    for function in functions:
        torch._dynamo.reset()
        graphs = module.Graphs()
        getattr(module, function)(graphs)
        assert graphs.made == 1, function


def test_nothing_stays_behind_in_the_logging(snippet: ModuleType) -> None:
    before = [list(logging.getLogger(name).handlers) for name in ("torch", "torch._dynamo")]
    row(snippet, snippet.problem)
    after = [list(logging.getLogger(name).handlers) for name in ("torch", "torch._dynamo")]
    assert [len(handlers) for handlers in before] == [len(handlers) for handlers in after]
    assert not any(type(handler) is logging.Handler for handlers in after for handler in handlers)
