"""Every page, in both languages, light and dark, wide and narrow, as Chromium shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.site_fixtures import LANGUAGES, pages_of

pytestmark = pytest.mark.browser

FORMULAS_ARE_SET = (
    "() => !document.querySelector('.arithmatex') || document.documentElement.dataset.ckFormulas === 'set'"
)
# What sticks out of the window to the right and is not inside a box that scrolls.
STICKS_OUT = """() => [...document.querySelectorAll('.md-content *')].filter(e => {
  if (e.getBoundingClientRect().right <= innerWidth + 1 || !e.checkVisibility()) return false;
  for (let p = e.parentElement; p; p = p.parentElement)
    if (/auto|scroll|hidden|clip/.test(getComputedStyle(p).overflowX)) return false;
  return true;
}).slice(0, 5).map(e => e.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_is_quiet_and_fits(
    built_site: Path, visit: Callable[..., Any], language: str, scheme: str, width: int
) -> None:
    faults: list[str] = []
    first, *others = pages_of(built_site, language)
    seen = visit(f"/{language}/{first}", width=width, scheme=scheme)
    page = seen.page
    for path in [first, *others]:
        if path != first:
            seen.go(f"/{language}/{path}")
        page.wait_for_function(FORMULAS_ARE_SET, timeout=20_000)
        shown = page.evaluate("document.body.dataset.mdColorScheme")
        assert shown == ("slate" if scheme == "dark" else "default")
        overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if overflow > 0:
            faults.append(f"/{language}/{path}: {overflow} px too wide")
        faults += [f"/{language}/{path}: sticks out: {html}" for html in page.evaluate(STICKS_OUT)]
        wrong = page.evaluate("[...document.querySelectorAll('mjx-merror, [data-mjx-error]')].map(e => e.textContent)")
        faults += [f"/{language}/{path}: formula: {text}" for text in wrong]
        raw = page.evaluate(
            "[...document.querySelectorAll('.arithmatex')].filter(e => !e.querySelector('mjx-container')).length"
        )
        if raw:
            faults.append(f"/{language}/{path}: {raw} formulas are not set")
    assert faults + seen.faults() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_is_accessible(built_site: Path, visit: Callable[..., Any], language: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    faults = []
    seen = visit(f"/{language}/", scheme=scheme)
    page = seen.page
    for path in pages_of(built_site, language):
        seen.go(f"/{language}/{path}")
        page.wait_for_function(FORMULAS_ARE_SET, timeout=20_000)
        rules = {"runOnly": ["wcag2a", "wcag2aa"], "resultTypes": ["violations"]}
        for violation in axe.run(page, options=rules).response["violations"]:
            for node in violation["nodes"][:4]:
                faults.append(
                    f"/{language}/{path}: {violation['id']}: {node['html'][:120]} {node['failureSummary'][:200]}"
                )
    assert faults == []


@pytest.mark.parametrize("path", ["/", "/404.html", "/en/404.html", "/zh/404.html"])
def test_the_pages_beside_the_languages_are_quiet(visit: Callable[..., Any], path: str) -> None:
    assert visit(path).faults() == []
