"""What is measured in the browser: nothing of a page is out of view, too small to read or printed over something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.test_pages import FORMULAS_ARE_SET
from tests.site_fixtures import LANGUAGES, pages_of

pytestmark = pytest.mark.browser

#: Tables that are wider than the article at 1280 px, by the name of their region, and why that can't be helped.
TOO_WIDE_ALL_THE_SAME = {
    "All rows chosen": "the results explorer: every column side by side, to be sorted by",
    "选中的全部数据": "the same in Chinese",
}

OPEN_ALL = "document.querySelectorAll('.md-content details').forEach(d => { d.open = true; })"
TABLES = """() => [...document.querySelectorAll('.md-content :is(.ck-scroll, .md-typeset__scrollwrap)')]
  .filter(box => box.checkVisibility() && box.querySelector('table'))
  .map(box => [box.getAttribute('aria-label') || box.innerText.slice(0, 60), box.scrollWidth - box.clientWidth,
    box.querySelector('tbody').offsetHeight / box.querySelectorAll('tbody tr').length])"""
# Name, the smallest text in pixels, pairs of texts that lie over each other, texts outside the drawing.
CHARTS = """() => [...document.querySelectorAll('figure.ck-chart svg')].filter(s => s.checkVisibility()).map(svg => {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const texts = [...svg.querySelectorAll('text')].filter(text => text.textContent.trim() && text.getBBox().width > 0);
  const boxes = texts.map(text => text.getBoundingClientRect());
  const over = [];
  boxes.forEach((a, i) => boxes.slice(0, i).forEach((b, j) => {
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    // The box of a text has the room of its descenders: texts of two lines may share some of that.
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > 1 && down > Math.min(a.height, b.height) * 0.3)
      over.push(`${texts[i].textContent} / ${texts[j].textContent}`);
  }));
  const frame = svg.getBoundingClientRect();
  const outside = texts.filter((_, i) => boxes[i].left < frame.left - 2 || boxes[i].right > frame.right + 2);
  const sizes = texts.map(text => parseFloat(getComputedStyle(text).fontSize) * scale);
  return [svg.getAttribute('aria-label') || '', sizes.length ? Math.min(...sizes) : 99, over,
    outside.map(text => text.textContent)];
})"""
# A formula and the sign after it: in one line, or the sign would begin the next one.
PARTED = """() => [...document.querySelectorAll('.md-content .ck-together')].filter(span => {
  if (!span.checkVisibility()) return false;
  const formula = span.querySelector('.arithmatex'), sign = span.lastChild;
  if (sign.nodeType !== Node.TEXT_NODE) return false;
  const range = document.createRange();
  range.selectNode(sign);
  const after = range.getBoundingClientRect();
  return after.left < formula.getBoundingClientRect().right - 3;
}).map(span => span.parentElement.textContent.trim().slice(0, 80))"""
# Formulas on lines of their own that are wider than the page.
LONG_FORMULAS = """() => [...document.querySelectorAll(
  '.md-content :is(div.arithmatex, mjx-container[display])')].filter(box =>
  box.checkVisibility() && box.scrollWidth > box.clientWidth + 1
).map(box => box.closest('[data-formula]')?.dataset.formula || box.textContent.slice(0, 40))"""
# Boxes of tables and drawings that go on behind their edge and show no shade there.
UNSHADED = """() => [...document.querySelectorAll(
  '.md-content :is(.ck-scroll, .md-typeset__scrollwrap, figure.ck-chart)')].filter(box =>
  box.checkVisibility() && box.scrollWidth > box.clientWidth + 1 &&
  (getComputedStyle(box).backgroundImage.match(/linear-gradient/g) || []).length < 4
).map(box => box.className + ': ' + (box.getAttribute('aria-label') || ''))"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_out_of_view_too_small_or_printed_over_something(
    built_site: Path, visit: Callable[..., Any], language: str, width: int
) -> None:
    pages = pages_of(built_site, language)
    seen = visit(f"/{language}/{pages[0]}", width=width)
    faults, tables, charts = [], 0, 0
    for path in pages:
        seen.go(f"/{language}/{path}")
        seen.page.wait_for_function(FORMULAS_ARE_SET, timeout=20_000)
        seen.page.evaluate(OPEN_ALL)
        here: list[str] = []
        for name, over, tall in seen.page.evaluate(TABLES):
            tables += 1
            if width == 1280 and over > 1 and name not in TOO_WIDE_ALL_THE_SAME:
                here.append(f"{name}: {over} px too wide")
            if width == 1280 and tall > 160:
                here.append(f"{name}: rows {tall:.0f} px high")
        for name, size, over, outside in seen.page.evaluate(CHARTS):
            charts += 1
            if size < 10:
                here.append(f"{name}: text of {size:.1f} px")
            here += [f"{name}: one over the other: {pair}" for pair in over]
            here += [f"{name}: outside the drawing: {text}" for text in outside]
        here += [f"no shade at the edge: {box}" for box in seen.page.evaluate(UNSHADED)]
        here += [f"a formula scrolls: {name}" for name in seen.page.evaluate(LONG_FORMULAS)]
        here += [f"a formula and its sign in two lines: {text}" for text in seen.page.evaluate(PARTED)]
        faults += [f"/{language}/{path}: {fault}" for fault in here]
    assert faults == []
    assert tables > 50
    assert charts > 15
