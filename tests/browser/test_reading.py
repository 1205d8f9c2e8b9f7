"""What a reader does: come in, switch language, search, hover over a formula, choose a machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.site_fixtures import pages_of

pytestmark = pytest.mark.browser
FORMULAS_SET = "() => document.documentElement.dataset.ckFormulas === 'set'"


@pytest.mark.parametrize(("locale", "language"), [("zh-CN", "zh"), ("zh-TW", "zh"), ("en-GB", "en"), ("fr-FR", "en")])
def test_the_root_page_picks_the_browsers_language(
    visit: Callable[..., Any], server: str, locale: str, language: str
) -> None:
    page = visit("/", locale=locale).page
    page.wait_for_url(f"{server}/{language}/")


def test_the_root_page_remembers_the_readers_choice(visit: Callable[..., Any], server: str) -> None:
    page = visit("/", locale="en-US").page
    page.wait_for_url(f"{server}/en/")
    page.click(".ck-languages a[hreflang=zh]")
    page.wait_for_url(f"{server}/zh/")
    page.goto(f"{server}/")
    page.wait_for_url(f"{server}/zh/")


def test_the_root_page_works_without_scripts(visit: Callable[..., Any], server: str) -> None:
    page = visit("/", java_script_enabled=False).page
    assert page.url == f"{server}/"
    page.click("text=简体中文")
    page.wait_for_url(f"{server}/zh/")


def test_the_language_switch_keeps_every_page(built_site: Path, visit: Callable[..., Any], server: str) -> None:
    seen = visit("/en/")
    page = seen.page
    for path in pages_of(built_site, "en"):
        seen.go(f"/en/{path}")
        page.click(".ck-languages a[hreflang=zh]")
        page.wait_for_url(re.compile(re.escape(f"{server}/zh/{path}") + "(#.*)?$"))
        assert page.evaluate("document.documentElement.lang") == "zh"


def test_the_language_switch_keeps_the_heading_also_after_an_instant_navigation(
    visit: Callable[..., Any], server: str
) -> None:
    page = visit("/zh/menu/").page
    page.evaluate("window.stayed = true")
    page.click(".md-nav--primary a[href$='overview/']")
    page.wait_for_url(f"{server}/zh/overview/")
    assert page.evaluate("window.stayed") is True, "the page was loaded anew: navigation.instant is off"
    headings = page.evaluate("[...document.querySelectorAll('.md-content h2[id]')].map(h => h.id)")
    wanted = headings[len(headings) // 2]
    page.evaluate("id => document.getElementById(id).scrollIntoView()", wanted)
    page.wait_for_timeout(200)
    page.click(".ck-languages a[hreflang=en]")
    page.wait_for_url(f"{server}/en/overview/#{wanted}")
    top = page.evaluate("id => document.getElementById(id).getBoundingClientRect().top", wanted)
    assert -5 <= top < 300


def test_the_colours_chosen_in_one_language_hold_in_the_other(visit: Callable[..., Any], server: str) -> None:
    page = visit("/en/").page
    page.click("label[for=__palette_1]:visible")
    page.wait_for_timeout(100)
    chosen = page.evaluate("document.body.dataset.mdColorMedia")
    page.goto(f"{server}/zh/")
    assert page.evaluate("document.body.dataset.mdColorMedia") == chosen


@pytest.mark.parametrize(
    ("language", "words"),
    [("zh", w) for w in ("后端", "融合", "编译", "Dynamo", "inductor", "cudagraphs")]
    + [("en", w) for w in ("back end", "fusion", "Dynamo", "compiling")],
)
def test_search_finds(visit: Callable[..., Any], language: str, words: str) -> None:
    seen = visit(f"/{language}/")
    page = seen.page
    page.click(".md-search__input")
    page.keyboard.type(words, delay=15)
    page.keyboard.press("End")  # The theme listens for a released key; typed Chinese releases none here.
    page.wait_for_selector(".md-search-result__item", timeout=15_000)
    found = page.inner_text(".md-search-result__list").replace("\u200b", "")
    assert words.split()[0].lower() in found.lower()
    assert seen.faults() == []


def test_a_term_and_its_symbol_light_each_other(visit: Callable[..., Any]) -> None:
    page = visit("/en/overview/").page
    page.wait_for_function(FORMULAS_SET)
    named = page.locator("[data-term]").first
    term = re.sub("^(?!term-)", "term-", named.get_attribute("data-term"))
    symbol = page.locator(f"mjx-container .{term}").first
    named.scroll_into_view_if_needed()
    named.hover()
    assert "ck-lit" in symbol.get_attribute("class")
    page.mouse.move(2, 300)
    assert "ck-lit" not in (symbol.get_attribute("class") or "")
    symbol.hover()
    assert "ck-lit" in named.get_attribute("class")
    page.mouse.move(2, 300)
    if named.get_attribute("tabindex") == "0":
        named.focus()
        assert "ck-lit" in symbol.get_attribute("class")


def test_formulas_are_set_again_after_an_instant_navigation(visit: Callable[..., Any], server: str) -> None:
    page = visit("/en/overview/").page
    page.wait_for_function(FORMULAS_SET)
    page.click(".md-nav--primary a[href$='glossary/']")
    page.wait_for_url(f"{server}/en/glossary/")
    page.go_back()
    page.wait_for_url(f"{server}/en/overview/")
    page.wait_for_function("() => document.querySelector('.arithmatex mjx-container')")


def test_pages_without_formulas_do_not_load_mathjax(visit: Callable[..., Any]) -> None:
    page = visit("/en/menu/").page
    if page.query_selector(".arithmatex") is None:
        assert page.evaluate("typeof MathJax") == "undefined"


def test_a_machine_chosen_once_is_chosen_everywhere(visit: Callable[..., Any], server: str) -> None:
    page = visit("/en/overview/").page
    sets = page.locator(".tabbed-set")
    if sets.count() < 2 or sets.first.locator(".tabbed-labels > label").count() < 2:
        pytest.skip("only one machine is recorded")
    label = sets.first.locator(".tabbed-labels > label").nth(1)
    name = label.inner_text()
    label.click()
    page.wait_for_timeout(300)
    page.goto(f"{server}/zh/overview/")
    page.wait_for_timeout(300)
    shown = page.evaluate(
        """() => { const set = document.querySelector('.tabbed-set');
        const at = [...set.querySelectorAll(':scope > input')].findIndex(i => i.checked);
        return set.querySelectorAll('.tabbed-labels > label')[at].innerText; }"""
    )
    assert shown == name
