"""What a reader does: come in, switch language, search, hover over a formula, choose a machine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.site_fixtures import pages_of

pytestmark = pytest.mark.browser
# A heading has come to rest in the upper part of the window.
AT_THE_TOP = """id => { const top = document.getElementById(id)?.getBoundingClientRect().top;
  return top !== undefined && top >= -5 && top < 300; }"""
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
    page.wait_for_function(AT_THE_TOP, arg=wanted, timeout=10_000)
    page.click(".ck-languages a[hreflang=en]")
    page.wait_for_url(f"{server}/en/overview/#{wanted}")
    page.wait_for_function(AT_THE_TOP, arg=wanted, timeout=10_000)


def test_the_colours_chosen_in_one_language_hold_in_the_other(visit: Callable[..., Any], server: str) -> None:
    page = visit("/en/").page
    before = page.evaluate("document.body.dataset.mdColorMedia")
    page.click("label[for=__palette_1]:visible")
    page.wait_for_function(
        "was => document.body.dataset.mdColorMedia !== was && localStorage.length > 0", arg=before, timeout=5_000
    )
    chosen = page.evaluate("document.body.dataset.mdColorMedia")
    page.goto(f"{server}/zh/")
    page.wait_for_function("chosen => document.body.dataset.mdColorMedia === chosen", arg=chosen, timeout=5_000)


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
    page.wait_for_function(
        """word => document.querySelector('.md-search-result__list').innerText
        .replaceAll('\u200b', '').toLowerCase().includes(word)""",
        arg=words.split()[0].lower(),
        timeout=10_000,
    )
    assert seen.faults() == []


def test_a_term_and_its_symbol_light_each_other(visit: Callable[..., Any]) -> None:
    page = visit("/en/overview/").page
    page.wait_for_function(FORMULAS_SET)
    named = page.locator("[data-term]").first
    term = re.sub("^(?!term-)", "term-", named.get_attribute("data-term"))
    symbol = page.locator(f"mjx-container .{term}").first
    drawn, told = symbol.element_handle(), named.element_handle()

    def wait_lit(element: Any, lit: bool) -> None:
        page.wait_for_function(
            "([element, lit]) => element.classList.contains('ck-lit') === lit", arg=[element, lit], timeout=5_000
        )

    named.scroll_into_view_if_needed()
    named.hover()
    wait_lit(drawn, True)
    page.mouse.move(2, 300)
    wait_lit(drawn, False)
    symbol.hover()
    wait_lit(told, True)
    page.mouse.move(2, 300)
    wait_lit(told, False)
    assert named.get_attribute("tabindex") == "0"
    named.focus()
    wait_lit(drawn, True)


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


# The label that is chosen in each set of tabs with more than one.
CHOSEN = """() => [...document.querySelectorAll('.md-content .tabbed-set')].filter(
  set => set.querySelectorAll(':scope > .tabbed-labels > label').length > 1
).map(set => {
  const at = [...set.querySelectorAll(':scope > input')].findIndex(input => input.checked);
  return set.querySelectorAll(':scope > .tabbed-labels > label')[at].textContent.trim();
})"""
ALL_CHOSEN = f"""name => {{ const chosen = ({CHOSEN})();
  return chosen.length > 1 && chosen.every(label => label === name); }}"""


def test_a_machine_chosen_once_is_chosen_everywhere(visit: Callable[..., Any], two_machine_server: str) -> None:
    seen = visit("/en/overview/", at=two_machine_server)
    page = seen.page
    before = page.evaluate(CHOSEN)
    assert len(before) > 5
    assert set(before) == {before[0]}
    labels = page.locator(".md-content .tabbed-set").first.locator(":scope > .tabbed-labels > label")
    names = [name.strip() for name in labels.all_text_contents()]
    other = next(name for name in names if name != before[0])
    labels.nth(names.index(other)).click()
    page.wait_for_function(ALL_CHOSEN, arg=other)
    for path in ("/en/overview/", "/zh/overview/"):
        seen.go(path)
        page.wait_for_function(ALL_CHOSEN, arg=other)
    assert seen.faults() == []
