"""The kitchen timeline as a reader uses it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.address import address
from tests.browser.axe import tool_violations
from tests.site_fixtures import LANGUAGES

pytestmark = pytest.mark.browser

READY = "() => document.querySelector('[data-ck-tool]').dataset.ckMounted === 'yes'"
PATH = "/en/tools/timeline/"
BLOCK = ".ck-timeline__block"
EVENT = ".ck-timeline__event[data-event]"


@pytest.fixture
def opened(visit: Callable[..., Any]) -> Callable[..., Any]:
    def open_tool(path: str = PATH, **options: Any) -> Any:
        seen = visit(path, **options)
        seen.page.wait_for_function(READY)
        seen.page.locator(BLOCK).first.wait_for(state="attached")
        return seen

    return open_tool


def _drawn(page: Any) -> str:
    """Everything that the drawing says."""
    script = "(some) => some.map((one) => one.getAttribute('aria-label')).join('|')"
    words: str = page.locator(BLOCK).evaluate_all(script)
    return words


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_it_fits_and_is_accessible_in_use(opened: Callable[..., Any], language: str, scheme: str, width: int) -> None:
    seen = opened(f"/{language}/tools/timeline/", scheme=scheme, width=width)
    page = seen.page
    page.locator(BLOCK).nth(3).focus()
    page.keyboard.press("Enter")
    page.locator(EVENT).nth(3).focus()
    page.keyboard.press("Enter")
    for fold in page.locator(".ck-tool details > summary").all()[:-1]:
        fold.click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert tool_violations(page) == []
    assert seen.faults() == []


def test_every_control_works_by_keyboard_and_is_kept_in_the_address(opened: Callable[..., Any]) -> None:
    seen = opened()
    page = seen.page
    drawn = _drawn(page)

    def changed(what: str) -> None:
        nonlocal drawn
        now = _drawn(page)
        assert now != drawn, what
        drawn = now

    page.get_by_label("Start from").focus()
    page.keyboard.press("ArrowDown")
    changed("preset")
    for label in ("Operators in a step", "Launch of one operator or kernel", "Compute of one operator"):
        page.get_by_label(label).focus()
        page.keyboard.press("ArrowLeft")
        changed(label)
    page.get_by_label("CPU: same thread").focus()
    page.keyboard.press("ArrowRight")
    changed("device")
    page.get_by_label("1", exact=True).focus()
    page.keyboard.press("ArrowRight")
    changed("steps")
    page.get_by_label("Show the one-off capture").focus()
    page.keyboard.press("Space")
    changed("capture")
    for chef in ("aot_eager", "inductor", "cudagraphs"):
        for place in range(page.locator(f".ck-timeline__card--{chef} input[type=range]").count()):
            page.locator(f".ck-timeline__card--{chef} input[type=range]").nth(place).focus()
            page.keyboard.press("Home")
            changed(f"{chef} {place}")
    page.get_by_role("checkbox", name="aot_eager").focus()
    page.keyboard.press("Space")
    changed("chefs")
    before = page.locator(BLOCK).nth(2).bounding_box()
    page.get_by_label("Time axis ends with").focus()
    page.keyboard.press("End")
    assert page.locator(BLOCK).nth(2).bounding_box() != before
    page.get_by_label("To the next moment").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Time", exact=True).focus()
    page.keyboard.press("ArrowRight")
    page.get_by_label("Part of the step").focus()
    page.keyboard.press("ArrowDown")
    for key in (
        "preset",
        "device",
        "m",
        "launch",
        "compute",
        "steps",
        "record",
        "chefs",
        "zoom",
        "at",
        "from",
        "event",
    ):
        assert re.search(rf"[?&]{key}=", address(page)), key
    shown, before = page.locator(".ck-tool").inner_text(), address(page)
    page.reload()
    page.wait_for_function(READY)
    page.locator(BLOCK).first.wait_for(state="attached")
    assert address(page) == before
    assert _drawn(page) == drawn
    assert page.locator(".ck-tool").inner_text() == shown
    page.get_by_role("button", name="Reset").focus()
    page.keyboard.press("Enter")
    assert "?" not in address(page)
    assert seen.faults() == []


def test_every_control_works_by_mouse(opened: Callable[..., Any]) -> None:
    page = opened().page
    page.get_by_label("Start from").select_option("example_launch")
    assert page.locator(".ck-timeline__example").is_visible()
    assert "waits" in page.locator(".ck-tool__answer").inner_text()
    page.get_by_text("CPU: same thread").click()
    assert "launching takes" in page.locator(".ck-tool__answer").inner_text()
    page.get_by_role("button", name="Reset").click()
    page.get_by_role("checkbox", name="inductor").click()
    assert "inductor" not in _drawn(page)
    drawn = _drawn(page)
    page.get_by_label("Compute of one operator").click(position={"x": 5, "y": 10})
    assert _drawn(page) != drawn
    page.locator(".ck-choices label", has_text="3").click()
    assert "step 3" in _drawn(page)
    # Dragging in the drawing moves the cursor.
    page.locator(".ck-timeline__svg").first.evaluate(
        "(svg) => svg.scrollIntoView({ block: 'center', behavior: 'instant' })"
    )
    box = page.locator(".ck-timeline__svg").first.bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 60, steps=4)
    page.mouse.up()
    assert "at=" in address(page)
    there = page.locator(".ck-timeline__nows").inner_text()
    page.get_by_label("To the moment before").click()  # the start of what runs here
    page.get_by_label("To the moment before").click()
    assert page.locator(".ck-timeline__nows").inner_text() != there
    page.locator(BLOCK).nth(4).hover()
    assert "not compiled" in page.locator(".ck-timeline__said").inner_text()
    # The profiled step.
    wide = page.locator(EVENT).first.bounding_box()["width"]
    page.get_by_label("Zoom in").click()
    assert page.locator(EVENT).first.bounding_box()["width"] != wide
    page.get_by_label("Later", exact=True).click()
    page.get_by_label("Earlier", exact=True).click()
    page.get_by_label("Zoom out").click()
    page.get_by_role("button", name="Whole step").click()
    assert page.locator(EVENT).first.bounding_box()["width"] == pytest.approx(wide, abs=0.5)
    page.locator(f"{EVENT}[aria-label^='aten::addmm']").first.click()
    assert "Alone" in page.locator(".ck-timeline__details").inner_text()
    page.get_by_role("button", name="Zoom to the bar").click()
    assert "from=" in address(page)
    assert "event=" in address(page)
    page.get_by_label("Part of the step").select_option("backward")
    assert "backward" in page.locator(".ck-timeline__details").inner_text()
    page.get_by_text("All events as a table").click()
    page.locator(".ck-timeline__table tbody tr").nth(100).wait_for(state="attached")


def test_the_answer_is_the_formulas(opened: Callable[..., Any]) -> None:
    """Round numbers, so that the sums can be done here."""
    query = "?preset=example_launch&m=10&launch=6&compute=2&aotsetup=40&aotlaunch=9&call=40&group=5&fused=2&graphcall=0"
    page = opened(f"{PATH}{query}&replay=10").page
    totals = page.locator(".ck-timeline__total").all_text_contents()
    # 10 × 6 + 2; 40 + 10 × 9 + 2; 40 + 2 × 6 + 2; 10 + 10 × 2
    assert [text.split("\u202f")[0] for text in totals] == ["62.0", "132", "54.0", "30.0"]
    assert "cudagraphs" in page.locator(".ck-tool__answer").inner_text()
    assert "30.0" in page.locator(".ck-tool__answer").inner_text()
    filled = page.locator(".ck-timeline__card--none .ck-timeline__filled").first.inner_text()
    assert filled.replace(" ", "") == "=10×max(6,2)+min(6,2)=62.0µs"


def test_blocks_and_events_are_walked_by_keys(opened: Callable[..., Any]) -> None:
    page = opened().page
    label = "document.activeElement.getAttribute('aria-label')"
    page.locator(f"{BLOCK}[tabindex='0']").focus()
    assert "launch of operator 1" in page.evaluate(label)
    page.keyboard.press("ArrowRight")
    assert "launch of operator 2" in page.evaluate(label)
    page.keyboard.press("ArrowDown")
    assert "compute of operator" in page.evaluate(label)
    page.keyboard.press("End")
    last = page.evaluate(label)
    assert last == page.locator(".ck-timeline__said").inner_text()
    page.keyboard.press("Enter")
    assert "at=" in address(page)
    assert page.locator(f"{BLOCK}[tabindex='0']").count() == 1
    page.locator(f"{EVENT}[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate(label).startswith("forward")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    called = page.evaluate(label)
    assert "Called by aten::linear" in page.locator(".ck-timeline__details").inner_text()
    page.keyboard.press("Enter")
    assert "from=" in address(page)
    assert page.evaluate(label) == called
    page.keyboard.press("Escape")
    assert "from=" not in address(page)
    assert page.locator(f"{EVENT}[tabindex='0']").count() == 1


def test_playing_moves_the_cursor_and_pauses(opened: Callable[..., Any]) -> None:
    page = opened().page
    time = page.get_by_label("Time", exact=True)
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("() => Number(document.querySelector('.ck-timeline__player input').value) > 20")
    page.get_by_role("button", name="Pause").click()
    stopped = time.input_value()
    assert "at=" in address(page)
    page.wait_for_timeout(150)
    assert time.input_value() == stopped


def test_with_less_motion_it_steps(opened: Callable[..., Any]) -> None:
    page = opened(reduced_motion="reduce").page
    page.evaluate("""() => {
      window.seen = new Set();
      const watch = () => {
        window.seen.add(document.querySelector('.ck-timeline__player input').value);
        requestAnimationFrame(watch);
      };
      watch();
    }""")
    page.get_by_role("button", name="Play").click()
    page.wait_for_timeout(2100)
    page.get_by_role("button", name="Pause").click()
    assert 2 <= page.evaluate("window.seen.size") <= 4


def test_an_unknown_state_falls_back_and_a_change_is_quick(opened: Callable[..., Any]) -> None:
    seen = opened(f"{PATH}?preset=cray&m=1e9&launch=x&chefs=me&zoom=far&event=99999&from=9&to=1&at=-3")
    page = seen.page
    assert page.locator(BLOCK).count() > 20
    assert page.locator(EVENT).count() > 50
    took = page.evaluate("""() => {
      const control = document.querySelector('.ck-tool__controls input[type=range]');
      control.value = control.max;
      const start = performance.now();
      control.dispatchEvent(new Event('input'));
      document.querySelector('.ck-timeline__svg').getBoundingClientRect();
      return performance.now() - start;
    }""")
    assert page.locator(BLOCK).count() > 300
    print(f"a change to 64 operators takes {took:.0f} ms")
    assert took < 300
    assert seen.faults() == []


def test_without_records_the_examples_are_drawn(visit: Callable[..., Any]) -> None:
    seen = visit("/en/glossary/")
    page = seen.page

    def emptied(route: Any) -> None:
        payload = route.fetch().json()
        presets = [preset for preset in payload["presets"] if preset["machine"] is None]
        nothing: dict[str, Any] = {"records": [], "machines": {}, "comparisons": [], "profiles": []}
        route.fulfill(json={**payload, **nothing, "presets": presets})

    page.route("**/data/timeline.json", emptied)
    seen.go(PATH)
    page.wait_for_function(READY)
    page.locator(BLOCK).first.wait_for(state="attached")
    assert "not measured" in page.locator(".ck-timeline__example").inner_text()
    assert page.locator(".ck-timeline__fold", has_text="Where the model").is_hidden()
    assert page.locator(".ck-timeline__profile").count() == 0
    assert "null" not in page.locator(".ck-tool").inner_text()
    assert seen.faults() == []


def test_the_language_switch_keeps_the_state(opened: Callable[..., Any]) -> None:
    page = opened(f"{PATH}?preset=example_launch&m=7").page
    page.locator(".ck-languages a[data-ck-language=zh]").first.click()
    page.wait_for_url("**/zh/tools/timeline/?preset=example_launch&m=7*")
    page.wait_for_function(READY)
    assert "设备" in page.locator(".ck-tool__answer").inner_text()


def test_without_a_script_the_tables_stand(visit: Callable[..., Any]) -> None:
    page = visit(PATH, java_script_enabled=False).page
    assert page.locator("noscript").first.is_visible()
    assert page.locator("table").count() >= 3
