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
