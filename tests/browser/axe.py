"""What axe-core finds in an interactive tool."""

from __future__ import annotations

from typing import Any

import pytest


def tool_violations(page: Any) -> list[str]:
    """Each rule of WCAG 2 A and AA that the tool on this page breaks, with the first element that does."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    rules = {"runOnly": ["wcag2a", "wcag2aa"], "resultTypes": ["violations"]}
    found = axe.run(page, context=".ck-tool", options=rules).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]
