"""What a pointer can do on a phone, a keyboard can too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.browser


def test_the_drawer_opens_by_keyboard_and_is_out_of_reach_while_closed(visit: Callable[..., Any]) -> None:
    page = visit("/zh/overview/", width=390).page
    opener = page.locator(".md-header label[for=__drawer]")
    inside = page.locator(".md-sidebar--primary a:visible")
    page.wait_for_function("document.querySelector('.md-header label[for=__drawer]').tabIndex === 0")
    assert inside.count() == 0
    opener.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('__drawer').checked", timeout=5_000)
    inside.first.wait_for(timeout=5_000)
    assert opener.get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")
    page.wait_for_function("!document.getElementById('__drawer').checked")
    page.wait_for_timeout(600)
    assert inside.count() == 0


def test_nothing_that_the_keyboard_reaches_is_invisible(visit: Callable[..., Any]) -> None:
    page = visit("/en/overview/").page
    hidden = page.evaluate(
        """() => [...document.querySelectorAll('article input, article [tabindex="0"], article a[href]')]
          .filter((e) => e.tabIndex >= 0 && e.offsetParent === null
            && getComputedStyle(e).display !== 'none' && e.checkVisibility({visibilityProperty: true}))
          .map((e) => e.outerHTML.slice(0, 120))"""
    )
    assert hidden == []


def test_a_long_listing_scrolls_by_keyboard_and_keeps_its_copy_button(visit: Callable[..., Any]) -> None:
    page = visit("/en/inductor/").page
    box = page.locator(".ck-long").first
    listing = box.locator("pre")
    assert listing.evaluate("e => e.clientHeight < innerHeight && e.scrollHeight > e.clientHeight")
    listing.focus()
    page.keyboard.press("End")
    page.wait_for_function("e => e.scrollTop > 0", arg=listing.element_handle(), timeout=5_000)
    button = box.locator("button[data-md-type=copy]")
    inside = """e => { const a = e.getBoundingClientRect(), b = e.closest('.ck-long').getBoundingClientRect();
      return a.top >= b.top && a.bottom <= b.bottom && a.right <= b.right; }"""
    assert button.evaluate(inside)


def test_a_long_listing_is_printed_whole(visit: Callable[..., Any]) -> None:
    page = visit("/en/inductor/").page
    page.emulate_media(media="print")
    listings = page.locator(".ck-long > pre")
    assert listings.count() > 0
    assert listings.evaluate_all("all => all.filter(e => e.scrollHeight > e.clientHeight + 1).length") == 0
