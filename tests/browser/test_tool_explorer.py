"""The results explorer as a reader uses it."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.address import address
from tests.browser.axe import tool_violations
from tests.site_fixtures import LANGUAGES

pytestmark = pytest.mark.browser

READY = "() => document.querySelector('[data-ck-tool]').dataset.ckMounted === 'yes'"
PATH = "/en/tools/explorer/"


@pytest.fixture
def opened(visit: Callable[..., Any]) -> Callable[..., Any]:
    def open_tool(path: str = PATH, **options: Any) -> Any:
        seen = visit(path, **options)
        seen.page.wait_for_function(READY)
        return seen

    return open_tool


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_it_fits_and_is_accessible_with_a_row_open(
    opened: Callable[..., Any], language: str, scheme: str, width: int
) -> None:
    seen = opened(f"/{language}/tools/explorer/", scheme=scheme, width=width)
    page = seen.page
    page.locator(".ck-explorer__cell").nth(5).click()
    page.locator(".ck-explorer__details svg circle").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tool_violations(page) == []
    assert seen.faults() == []


def test_every_control_works_by_keyboard_and_is_kept_in_the_address(opened: Callable[..., Any]) -> None:
    page = opened().page
    heat = page.locator(".ck-matrix").first
    before = heat.inner_text()
    page.get_by_label("What the cells show").focus()
    page.keyboard.press("ArrowDown")
    assert heat.inner_text() != before
    page.get_by_label("inference", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert "workload=training" in address(page)
    page.locator("summary", has_text="Models").focus()
    page.keyboard.press("Enter")
    page.get_by_role("checkbox", name="ResNet-18").focus()
    page.keyboard.press("Space")
    assert "ResNet-18" not in heat.inner_text()
    page.locator("[data-sort=step_us]").focus()
    page.keyboard.press("Enter")
    assert page.locator("th[aria-sort=ascending]").inner_text().startswith("Step time")
    assert page.evaluate("document.activeElement.dataset.sort") == "step_us"
    page.keyboard.press("Enter")
    assert page.locator("th[aria-sort=descending]").count() == 1
    page.locator(".ck-explorer__cell").first.focus()
    page.keyboard.press("Enter")
    details = page.locator(".ck-explorer__details")
    assert details.is_visible()
    details.locator("circle").first.wait_for()
    shown = [
        heat.inner_text(),
        page.locator(".ck-explorer__table").inner_text(),
        details.locator("dl").first.inner_text(),
    ]
    before = address(page)
    page.reload()
    page.wait_for_function(READY)
    assert address(page) == before
    again = [
        heat.inner_text(),
        page.locator(".ck-explorer__table").inner_text(),
        details.locator("dl").first.inner_text(),
    ]
    assert again == shown
    details.focus()
    page.keyboard.press("Escape")
    assert details.is_hidden()


def test_every_control_works_by_mouse(opened: Callable[..., Any]) -> None:
    page = opened().page
    page.get_by_label("PyTorch version").select_option(index=1)
    assert "torch=" in address(page)
    page.get_by_text("both", exact=True).click()
    assert "training" in page.locator(".ck-matrix").first.inner_text()
    page.locator("summary", has_text="Back ends").click()
    page.get_by_role("checkbox", name="aot_eager").click()
    assert "aot_eager" not in page.locator(".ck-tool .ck-matrix").first.inner_text()
    page.locator("[data-sort=speedup_ratio]").click()
    page.locator("[data-sort=speedup_ratio]").click()
    column = [
        float(text.rstrip("×"))
        for text in page.locator(".ck-explorer__table td:nth-of-type(3)").all_inner_texts()
        if "×" in text
    ]
    assert column == sorted(column, reverse=True)
    page.get_by_role("button", name="Reset").click()
    assert "?" not in address(page)


def test_a_row_opens_to_its_samples_and_environment(opened: Callable[..., Any], built_site: Path) -> None:
    seen = opened(f"{PATH}?models=resnet18:build")
    page = seen.page
    page.locator(".ck-matrix .ck-explorer__cell").last.click()
    details = page.locator(".ck-explorer__details")
    details.locator("circle").first.wait_for()
    link = details.get_by_role("link", name="record").get_attribute("href")
    path = built_site / link.split(seen.server + "/")[1]
    record = json.loads(path.read_text("utf-8"))
    environment = json.loads((path.parents[1] / "run.json").read_text("utf-8"))["environment"]
    row = next(r for r in record["rows"] if (r["variant"], r["workload"]) == ("inductor", "inference"))
    assert details.locator("circle").count() == len(row["samples_us"])
    assert record["snippet"] in details.locator("pre").inner_text()
    details.get_by_text(environment["torch"]).first.wait_for()


def test_what_is_downloaded_is_what_is_shown(opened: Callable[..., Any], tmp_path: Path) -> None:
    page = opened(f"{PATH}?workload=training").page
    with page.expect_download() as wait:
        page.get_by_role("button", name="Download CSV").click()
    wait.value.save_as(tmp_path / "shown.csv")
    with (tmp_path / "shown.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == page.locator(".ck-explorer__table tbody tr").count()
    assert {line["workload"] for line in lines} == {"training"}


def test_an_unknown_state_falls_back_and_a_change_is_quick(opened: Callable[..., Any]) -> None:
    seen = opened(f"{PATH}?machine=cray&value=luck&sort=colour&row=x")
    page = seen.page
    assert page.locator(".ck-matrix tbody tr").count() > 5
    took = page.evaluate("""() => {
      const control = [...document.querySelectorAll('.ck-tool select')].at(-1);
      control.value = 'step';
      const start = performance.now();
      control.dispatchEvent(new Event('change'));
      document.querySelector('.ck-matrix').getBoundingClientRect();
      return performance.now() - start;
    }""")
    print(f"a change takes {took:.0f} ms")
    assert took < 300
    assert seen.faults() == []


def test_the_language_switch_keeps_the_state(opened: Callable[..., Any]) -> None:
    page = opened(f"{PATH}?workload=training&value=step").page
    page.locator(".ck-languages a[data-ck-language=zh]").first.click()
    page.wait_for_url("**/zh/tools/explorer/?workload=training&value=step*")
    page.wait_for_function(READY)
    assert "训练" in page.locator(".ck-choices input:checked + label").inner_text()
