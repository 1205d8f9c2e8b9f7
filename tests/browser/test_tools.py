"""What all interactive tools share: they load on their own page only, come back after a visit elsewhere, and say
what is wrong when their data can't be had."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from typing import Any

import pytest

from kitchen import tools

pytestmark = pytest.mark.browser

TOOLS = sorted(tools.names())
READY = "() => document.querySelector('[data-ck-tool]')?.dataset.ckMounted === 'yes'"


def test_a_page_without_a_tool_loads_none(visit: Callable[..., Any]) -> None:
    seen = visit("/en/")
    asked: list[str] = []
    seen.page.on("request", lambda request: asked.append(request.url))
    seen.go("/en/overview/")
    assert [url for url in asked if "/js/tools/" in url or "/tools/data/" in url or "css/tools" in url] == []


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_comes_back_after_a_visit_elsewhere(visit: Callable[..., Any], name: str) -> None:
    seen = visit(f"/en/tools/{name}/")
    page = seen.page
    page.wait_for_function(READY)
    page.evaluate("window.sameDocument = true")
    page.locator(".md-tabs a, .md-nav--primary a").first.evaluate("link => link.click()")
    page.wait_for_function("!document.querySelector('[data-ck-tool]')")
    page.go_back()
    page.wait_for_function(READY)
    assert page.evaluate("window.sameDocument"), "the theme's instant navigation was not used"
    assert seen.faults() == []


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_whose_data_is_missing_says_so(browser: Any, server: str, name: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.route(f"**/tools/data/{name}.json", lambda route: route.fulfill(status=404, body="gone"))
    page.goto(f"{server}/zh/tools/{name}/")
    alert = page.locator(".ck-tool [role=alert]")
    alert.wait_for()
    assert f"{name}.json" in alert.text_content()
    assert "404" in alert.text_content()
    context.close()


@pytest.mark.parametrize("name", TOOLS)
def test_without_javascript_the_page_still_answers(browser: Any, server: str, name: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{server}/en/tools/{name}/")
    assert page.locator(".ck-tool noscript p").is_visible()
    words = page.locator(".md-content").inner_text()
    assert len(words.split()) > 150, words
    context.close()


#: What a tool keeps in the address; `test_a_tool_opens_with_any_address` gives all of it odd values.
KEPT = {
    "calculator": "from machine model work variant n start k price chart compile eager step pm_step pm_compile",
    "chooser": "code steps deploy hardware workload shapes flow goal",
    "explorer": "machine torch workload value models without sort row",
    "pipeline": "example target backend graph shown pick step",
    "timeline": """preset device m launch compute aotsetup aotlaunch call group fused graphcall replay capture steps
      record chefs zoom at step from to event""",
}
ODD = ["", "0", "-1", "1e-300", "1e308", "NaN", "constructor", "source:-1", "%00", "%E2%80%AE%3Cscript%3E"]


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_opens_with_any_address(visit: Callable[..., Any], name: str) -> None:
    seen = visit("/en/glossary/")
    for value in ODD:
        query = "&".join(f"{key}={value}&{key}=twice" for key in KEPT[name].split())
        seen.go(f"/en/tools/{name}/?{query}")
        seen.page.wait_for_function(READY)
        words = seen.page.locator(".ck-tool").inner_text()
        assert not re.search(r"NaN|undefined|Infinity", words), value
        assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), value
    assert seen.faults() == []


@pytest.mark.parametrize("name", TOOLS)
def test_the_page_of_a_tool_is_light(visit: Callable[..., Any], name: str) -> None:
    seen = visit("/en/glossary/")
    sizes: dict[str, int] = {}
    seen.page.on("response", lambda answer: sizes.update({answer.url: len(gzip.compress(answer.body()))}))
    seen.go(f"/en/tools/{name}/")
    seen.page.wait_for_function(READY)
    print(f"{sum(sizes.values())} bytes")
    assert sum(sizes.values()) < 700_000
