"""Where a page is."""

from __future__ import annotations

from typing import Any


def address(page: Any) -> str:
    """The address as the page itself knows it now; ``page.url`` hears of what a script wrote there a while later."""
    href: str = page.evaluate("location.href")
    return href
