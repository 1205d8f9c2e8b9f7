"""Search on the Chinese site: a word is found whole, wherever it stands in the query, and so are its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

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
