"""Search: on the Chinese site a word is found whole, wherever it stands in the query, and so are its parts.

In both languages an error message that is pasted whole finds the section of what it is about.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from typing import Any

import pytest

from kitchen import problems

pytestmark = pytest.mark.browser

FIRST = ".md-search-result__item:first-child"


@pytest.mark.parametrize(
    "words",
    ["重编译", "图中断", "图捕获", "回本步数", "冷编译", "编译", "融合", "启动", "启动开销", "算子融合", "逐元素"],
)
def test_the_first_result_holds_the_whole_word(visit: Callable[..., Any], words: str) -> None:
    page = visit("/zh/").page
    page.click(".md-search__input")
    page.keyboard.type(words, delay=15)
    page.keyboard.press("End")  # The theme listens for a released key; typed Chinese releases none here.
    page.wait_for_selector(FIRST, timeout=15_000)
    page.wait_for_function(
        """([first, words]) => document.querySelector(first).innerText.replace(/[\\s\\u200b]/g, '').includes(words)""",
        arg=[FIRST, "融合" if words == "算子融合" else words],
        timeout=10_000,
    )


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_beginning_of_a_word_breaks_the_search(visit: Callable[..., Any], language: str) -> None:
    seen = visit(f"/{language}/")
    page = seen.page
    page.click(".md-search__input")
    page.keyboard.type("torch", delay=15)
    page.wait_for_selector(FIRST, timeout=15_000)
    for letter in string.ascii_lowercase + string.digits:
        page.fill(".md-search__input", "")
        page.wait_for_function("() => !document.querySelector('.md-search-result__item')", timeout=10_000)
        page.keyboard.type(letter)
        page.keyboard.press("End")
        page.wait_for_function(
            "() => /\\d/.test(document.querySelector('.md-search-result__meta').innerText)", timeout=10_000
        )
    assert seen.faults() == []


@pytest.mark.parametrize("query", ["", "?h=torch", "?q=torch"])
def test_the_index_is_fetched_when_it_is_wanted(visit: Callable[..., Any], query: str) -> None:
    seen = visit(f"/en/glossary/{query}")
    page = seen.page
    loaded = "() => performance.getEntriesByType('resource').some(e => e.name.endsWith('search_index.json'))"
    assert page.evaluate(loaded) is bool(query)
    page.keyboard.press("f")
    page.wait_for_function(loaded, timeout=10_000)
    assert seen.faults() == []


SEEN = "see `torch._dynamo.list_backends()` for available backends."
#: What readers paste: cut after the name, whole, with the exception before it, and as torch 2.14 says it.
PASTED = {
    "short": "Invalid backend: '{}'",
    "whole": "Invalid backend: '{}', " + SEEN,
    "with the exception": "torch._dynamo.exc.InvalidBackend: Invalid backend: '{}', " + SEEN,
    "torch 2.14": "torch._dynamo.exc.InvalidBackend: Invalid backend: '{}'. " + SEEN.capitalize(),
}
GONE = [
    "nvfuser",
    "tvmgraph",
    "onnxrt",
    "ipex",
    "tensorrt",
    "torch_tensorrt",
    "aot_ts_nvfuser",
    "reduce-overhead",
    "tt",
]
#: Names that stand in a section of another name.
SHARED = {"tt": "migraphx"}


def _paste(page: Any, query: str) -> None:
    """Put a query into the search as a paste does: all at once."""
    page.click(".md-search__input")
    page.fill(".md-search__input", query)
    page.keyboard.press("End")


def _first_links(page: Any) -> list[str]:
    """The addresses in the first result: the page, then its sections."""
    found: list[str] = page.eval_on_selector_all(f"{FIRST} a", "all => all.map(a => a.href)")
    return found


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("form", list(PASTED))
def test_a_pasted_message_lands_on_the_answer(visit: Callable[..., Any], language: str, form: str) -> None:
    seen = visit(f"/{language}/")
    for name in GONE:
        _paste(seen.page, PASTED[form].format(name))
        section = f"#name-{SHARED.get(name, name)}"
        seen.page.wait_for_function(
            "([first, section]) => document.querySelectorAll(first + ' a')[1]?.href.endsWith(section)",
            arg=[FIRST, section],
            timeout=15_000,
        )
        address, best = _first_links(seen.page)[:2]
        assert re.search(rf"/{language}/third-party/names/(\?|$)", address), f"{name}: {address}"
        assert best.endswith(section), f"{name}: {best}"
    # And the link leads there.
    seen.page.click(f"{FIRST} a[href$='{section}']")
    seen.page.wait_for_url(re.compile(re.escape(section)))
    seen.page.wait_for_selector(f"[id='{section[1:]}']", state="visible", timeout=15_000)
    assert not seen.faults()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_message_about_a_word_that_is_nowhere_still_finds_something(visit: Callable[..., Any], language: str) -> None:
    page = visit(f"/{language}/").page
    _paste(page, "BackendCompilerFailed: no such thing: 'qqzzxxyy'")
    page.wait_for_selector(FIRST, timeout=15_000)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_message_of_the_catalogue_finds_its_entry_first(visit: Callable[..., Any], language: str) -> None:
    page = visit(f"/{language}/").page
    _paste(page, "torch.compile")
    page.wait_for_selector(FIRST, timeout=60_000)  # the index is loaded and read
    missed = []
    for one in problems.load().values():
        if not one.message:
            continue
        _paste(page, one.message)
        try:
            page.wait_for_function(
                """([first, page, id]) => { const links = document.querySelectorAll(first + ' a');
                return new URL(links[0]?.href).pathname.endsWith(page) && links[1]?.href.endsWith(id); }""",
                arg=[FIRST, f"/{language}/errors/{one.page}/", f"#{one.id}"],
                timeout=10_000,
            )
        except Exception:  # the time-out of the browser's library, which may not be installed
            missed.append((one.message, _first_links(page)[:2]))
    assert missed == []


#: What readers paste, by entry: the exception before it, their own names, numbers and paths, marks of a traceback.
OTHER_NAMES = {
    "recompile-limit": "W1130 12:00:00.000 4711 torch/_dynamo/convert_frame.py:1676] [7/8] "
    "torch._dynamo hit config.recompile_limit (8) "
    "function: 'my_step' (train.py:17) last reason: 7/7: tensor 'x' size mismatch at index 0",
    "last-small-batch": "triggered by the following guard failure(s): "
    "- 0/0: tensor 'images' size mismatch at index 0. expected 128, actual 80",
    "constraint-violation": "torch.fx.experimental.symbolic_shapes.ConstraintViolationError: Constraints violated "
    "(L['tokens'].size()[1])! For more information, run with TORCH_LOGS=\"+dynamic\". - You marked "
    "L['tokens'].size()[1] as dynamic but your code specialized it to be a constant (77).",
    "orig-mod-keys": "RuntimeError: Error(s) in loading state_dict for GPT: Missing key(s) in state_dict: "
    '"wte.weight", "lm_head.weight". Unexpected key(s) in state_dict: "_orig_mod.wte.weight".',
    "wrapper-type": 'Traceback (most recent call last): File "/home/me/infer.py", line 12, in <module> '
    "head = model[3] ~~~~~^^^ TypeError: 'OptimizedModule' object is not subscriptable",
    "overwritten-output": "RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a "
    'subsequent run. Stack trace: File "/home/me/train.py", line 88, in forward return self.out(h).',
    "backend-loses-gradients": "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
    "unrecognized-mode": "RuntimeError: Unrecognized mode=max_autotune, should be one of: default, lite, "
    "reduce-overhead, max-autotune-no-cudagraphs, max-autotune",
    "unexpected-option": "RuntimeError: Unexpected optimization option max_autotune_gemms, known options are "
    "['TYPE_CHECKING', 'inplace_padding', 'can_inplace_pad_graph_input']",
    "data-dependent-guard": "GuardOnDataDependentSymNode: Could not guard on data-dependent expression Eq(u3, 7) "
    "(unhinted: Eq(u3, 7)).  (Size-like symbols: none)",
    "missing-python-headers": "CppCompileError: C++ compile error Output: /cache/ab/cabx.main.cpp:3:10: "
    "fatal error: Python.h: No such file or directory 3 | #include <Python.h>",
    "function-made-anew": "- 0/3: ___check_obj_id(L['act'], 140233187), type=<class 'function'>",
}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_message_with_other_names_in_it_finds_its_entry_too(visit: Callable[..., Any], language: str) -> None:
    """What a reader pastes has their own numbers and names, and the exception before it."""
    page = visit(f"/{language}/").page
    for entry, message in OTHER_NAMES.items():
        _paste(page, message)
        page.wait_for_function(
            "([first, id]) => document.querySelectorAll(first + ' a')[1]?.href.endsWith(id)",
            arg=[FIRST, f"#{entry}"],
            timeout=15_000,
        )
