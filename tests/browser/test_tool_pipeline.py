"""The pipeline explorer as a reader uses it: by mouse, by touch, by keyboard, and from a link."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.address import address
from tests.site_fixtures import LANGUAGES

pytestmark = pytest.mark.browser

MOUNTED = "[data-ck-tool=pipeline][data-ck-mounted=yes]"
FUSED = ".ck-pipe__group--fused"
STRONG = '.ck-pipe__line[data-lit="2"]'
STATE_KEYS = {"example", "target", "backend", "graph", "shown", "pick", "step"}
#: Of everything that the page loads, in bytes after gzip.
MOST = 700_000


def _payload(site: Path, language: str = "en") -> dict[str, Any]:
    data: dict[str, Any] = json.loads((site / language / "tools" / "data" / "pipeline.json").read_text("utf-8"))
    return data


@pytest.fixture(scope="module")
def examples(built_site: Path) -> list[dict[str, Any]]:
    """The examples that the site has, each with its part under ``data``."""
    found = _payload(built_site).get("examples")
    if not found:
        pytest.skip("no record of pipeline/capture")
    for example in found:
        text = (built_site / "en" / "tools" / "data" / f"pipeline-{example['part']}.json").read_text("utf-8")
        example["data"] = json.loads(text)
    return list(found)


def _fused(example: dict[str, Any]) -> dict[str, Any] | None:
    """The first kernel of an example that holds several operators."""
    graph = example["data"]["targets"]["cpu"]["graphs"][0]
    return next((kernel for kernel in graph["kernels"] if kernel["kind"] == "fused" and len(kernel["keys"]) > 2), None)


@pytest.fixture(scope="module")
def chosen(examples: list[dict[str, Any]]) -> dict[str, Any]:
    """An example with a fused kernel, for CPU and for CUDA."""
    return next(example for example in examples if _fused(example) and len(example["targets"]) == 2)


@pytest.fixture
def explorer(visit: Callable[..., Any]) -> Callable[..., Any]:
    """Open the explorer with a query ("?example=…") and wait for it."""

    def open_explorer(query: str = "", *, language: str = "en", **options: Any) -> Any:
        seen = visit(f"/{language}/tools/pipeline/{query}", **options)
        seen.page.wait_for_selector(MOUNTED)
        return seen

    return open_explorer


def _query(page: Any) -> dict[str, str]:
    found: dict[str, str] = page.evaluate("Object.fromEntries(new URLSearchParams(location.search))")
    return found


def _reset(page: Any) -> None:
    page.get_by_role("button", name="Reset").click()
    assert not STATE_KEYS & set(_query(page))


def _pressed(page: Any) -> list[str]:
    return list(page.locator(".ck-pipe__steps [aria-pressed=true]").all_inner_texts())


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_it_fits_and_is_quiet(
    explorer: Callable[..., Any], chosen: dict[str, Any], language: str, scheme: str, width: int
) -> None:
    seen = explorer(f"?example={chosen['id']}", language=language, width=width, scheme=scheme)
    page = seen.page
    kernel = _fused(chosen)
    assert kernel
    frame = page.locator(FUSED).filter(has_text=kernel["name"])
    assert frame.locator(".ck-pipe__chip").count() == len(kernel["keys"])
    frame.locator(".ck-pipe__chip").first.click()
    assert page.locator(STRONG).count() > 1
    # On a phone one stage beside the source, on a wide window two.
    assert page.locator(".ck-pipe__strip > section").count() == (2 if width > 700 else 1)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert seen.faults() == []


def test_every_example_shows_itself(explorer: Callable[..., Any], examples: list[dict[str, Any]]) -> None:
    seen = explorer()
    page = seen.page
    select = page.get_by_label("Example")
    for example in examples:
        select.select_option(example["id"])
        page.wait_for_selector(".ck-pipe:not([aria-busy])")
        first = example["data"]["targets"]["cpu"]["graphs"][0]
        source = next(stage for stage in first["stages"] if stage["id"] == "source")
        told = page.locator(".ck-pipe__source .ck-pipe__line").all_inner_texts()
        assert [line.rstrip() for line in told if line.strip()] == [
            line["text"].rstrip() for line in source["lines"] if line["text"].strip()
        ]
        frames = page.locator(".ck-pipe__group .ck-pipe__kernel").all_inner_texts()
        in_passes = [
            kernel["name"] for passed in ("fw", "bw") for kernel in first["kernels"] if kernel["pass"] == passed
        ]
        assert frames == in_passes, example["id"]
    assert seen.faults() == []


def test_by_mouse_every_control_changes_what_is_shown(explorer: Callable[..., Any], chosen: dict[str, Any]) -> None:
    seen = explorer(f"?example={chosen['id']}")
    page = seen.page
    kernels = page.locator(".ck-pipe__kernel").all_inner_texts()

    page.get_by_text("NVIDIA GPU (Triton)").click()
    assert page.locator(".ck-pipe__kernel").all_inner_texts() != kernels
    assert page.locator(".ck-pipe__about-example .ck-badge").is_visible()

    page.locator("input[value=eager] + label").click()
    assert page.locator(FUSED).count() == 0
    assert page.locator(".ck-pipe__group--call").count() == page.locator(".ck-pipe__launch").count() > 0
    page.locator(".ck-pipe__backends label").filter(has_text="inductor").click()

    chain = page.locator(".ck-pipe__chain button")
    frames = page.locator(".ck-pipe__group")
    apart = page.locator(".ck-pipe__group--bare")
    assert apart.count() == 0
    chain.nth(1).click()
    assert apart.count() == frames.count() > 1
    assert chain.nth(1).get_attribute("aria-pressed") == "true"
    chain.last.click()
    assert apart.count() == 0

    before = _pressed(page)
    page.locator(".ck-pipe__steps button").filter(has_text="Launch code").click()
    assert len(_pressed(page)) == len(before) + 1 == page.locator(".ck-pipe__strip > section").count()
    page.locator(".ck-pipe__steps button").filter(has_text="Launch code").click()
    assert _pressed(page) == before

    # Pointing lights a line's relatives; leaving puts them out; a click keeps them, and a second one lets go.
    kernel = page.locator(".ck-pipe__kernel").first
    kernel.hover()
    assert page.locator(STRONG).count() > 1
    page.mouse.move(5, 5)
    page.locator("h1").hover()
    assert page.locator(STRONG).count() == 0
    line = page.locator(".ck-pipe__stage--kernel [data-linked]").first
    line.click()
    assert page.locator(".ck-pipe__said code").count() > 1
    assert page.locator(f".ck-pipe__source {STRONG}").count() >= 1
    assert page.locator(".ck-pipe__chip[data-lit]").count() >= 1
    assert page.locator(".ck-pipe__steps [data-lit]").count() > 1
    page.locator("h1").hover()
    assert page.locator(STRONG).count() > 1
    line.click()
    page.locator("h1").hover()
    assert page.locator(STRONG).count() == 0

    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Next").click()
    assert _query(page)["step"] == "2"
    assert page.locator(".ck-pipe__stage[data-current]").count() == 1
    page.get_by_role("button", name="Back", exact=True).click()
    assert _query(page)["step"] == "1"
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == address(page)
    _reset(page)
    assert seen.faults() == []


def test_by_keyboard_every_control_changes_what_is_shown(explorer: Callable[..., Any], chosen: dict[str, Any]) -> None:
    seen = explorer(f"?example={chosen['id']}")
    page = seen.page
    keys = page.keyboard

    page.get_by_label("Example").focus()
    keys.press("ArrowDown")
    page.wait_for_selector(".ck-pipe:not([aria-busy])")
    assert _query(page).get("example") != chosen["id"]
    keys.press("ArrowUp")
    page.wait_for_selector(".ck-pipe:not([aria-busy])")

    page.locator("input[value=cpu]").focus()
    keys.press("ArrowRight")
    assert _query(page)["target"] == "cuda"
    keys.press("ArrowLeft")
    page.locator("input[value=inductor]").focus()
    keys.press("ArrowLeft")
    assert _query(page)["backend"] == "aot_eager"
    keys.press("ArrowRight")

    # The picture: its phases and its operators are buttons, and the focus stays on the one that was pressed.
    page.locator(".ck-pipe__chain button").first.focus()
    keys.press("Enter")
    assert page.locator(".ck-pipe__group--bare").count() > 0
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    page.locator(".ck-pipe__chain button").last.focus()
    keys.press(" ")
    page.locator(".ck-pipe__chip").first.focus()
    keys.press("Enter")
    assert page.locator(STRONG).count() > 1
    assert page.locator(".ck-pipe__chip").first.get_attribute("aria-pressed") == "true"
    keys.press("Escape")
    assert "pick" not in _query(page)

    # The stages: one stop for Tab in each list, arrows inside and across.
    chip = page.locator(".ck-pipe__steps button").filter(has_text="Launch code")
    chip.focus()
    keys.press("Enter")
    assert chip.get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.activeElement.textContent").endswith("Launch code")
    for stage in page.locator(".ck-pipe__lines").all():
        assert stage.locator("[tabindex='0']").count() == 1
    page.locator(".ck-pipe__source [tabindex='0']").focus()
    keys.press("End")
    assert page.locator(STRONG).count() > 1
    where = "document.activeElement.closest('[data-stage]').dataset.stage"
    keys.press("Enter")
    assert _query(page)["pick"].startswith("source:")
    keys.press("ArrowRight")
    assert page.evaluate(where) != "source"
    assert page.evaluate("document.activeElement.dataset.lit") == "2"
    keys.press("ArrowLeft")
    assert page.evaluate(where) == "source"
    keys.press("ArrowUp")
    keys.press("ArrowDown")
    keys.press("Escape")
    assert "pick" not in _query(page)

    page.get_by_role("button", name="Next").focus()
    keys.press("Enter")
    keys.press("Enter")
    assert _query(page)["step"] == "2"
    assert page.evaluate("document.activeElement.textContent") == "Next"
    keys.press("Escape")
    assert "step" not in _query(page)
    page.context.grant_permissions(["clipboard-write"])
    page.get_by_role("button", name="Copy link").focus()
    keys.press("Enter")
    page.get_by_role("button", name="Copied").wait_for()
    page.get_by_role("button", name="Reset").focus()
    keys.press("Enter")
    assert not STATE_KEYS & set(_query(page))
    assert seen.faults() == []


def test_a_graph_is_chosen_where_there_are_several(
    explorer: Callable[..., Any], examples: list[dict[str, Any]]
) -> None:
    several = [example for example in examples if len(example["data"]["targets"]["cpu"]["graphs"]) > 1]
    assert several, "no example has several graphs"
    page = explorer(f"?example={several[0]['id']}").page
    titles = [graph["title"] for graph in several[0]["data"]["targets"]["cpu"]["graphs"]]
    graphs = page.get_by_label("Graph", exact=True)
    assert graphs.locator("option").all_inner_texts() == titles
    first = page.locator(".ck-pipe__rows").inner_text()
    graphs.focus()
    page.keyboard.press("ArrowDown")
    assert _query(page)["graph"] == "2"
    assert page.locator(".ck-pipe__rows").inner_text() != first
    graphs.select_option("1")
    assert page.locator(".ck-pipe__rows").inner_text() == first


def test_a_link_repeats_what_was_seen(explorer: Callable[..., Any], chosen: dict[str, Any]) -> None:
    kernel = _fused(chosen)
    assert kernel
    key = kernel["keys"][0]
    query = f"?example={chosen['id']}&shown=dynamo,kernel_fw&pick={key}"
    seen = explorer(query)
    page = seen.page

    def looks() -> list[Any]:
        return [
            page.get_by_label("Example").input_value(),
            page.locator(".ck-pipe__strip > section").evaluate_all("all => all.map(one => one.dataset.stage)"),
            page.locator(STRONG).all_inner_texts(),
            page.locator(".ck-pipe__said").inner_text(),
        ]

    first = looks()
    assert first[1] == ["dynamo", "kernel_fw"]
    assert kernel["name"] in first[3]
    # The first line that is about the operator alone is scrolled to.
    assert page.locator(f".ck-pipe__stage--kernel {STRONG}").last.is_visible()
    seen.go(f"/en/tools/pipeline/{page.evaluate('location.search')}")
    page.wait_for_selector(MOUNTED)
    assert looks() == first

    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Next").click()
    stepped = [*looks(), page.locator(".ck-pipe__place").inner_text()]
    page.reload(wait_until="networkidle")
    page.wait_for_selector(MOUNTED)
    assert [*looks(), page.locator(".ck-pipe__place").inner_text()] == stepped
    assert seen.faults() == []


def test_the_language_switch_keeps_the_state(explorer: Callable[..., Any], chosen: dict[str, Any]) -> None:
    page = explorer(f"?example={chosen['id']}&target=cuda&backend=eager").page
    page.locator(".ck-languages a[hreflang=zh], .ck-languages [data-ck-language=zh]").first.click()
    page.wait_for_url("**/zh/tools/pipeline/**")
    page.wait_for_selector(MOUNTED)
    assert _query(page) == {"example": chosen["id"], "target": "cuda", "backend": "eager"}
    assert page.locator("input[value=eager]").is_checked()


def test_the_walk_goes_on_by_itself_until_it_is_paused(explorer: Callable[..., Any], chosen: dict[str, Any]) -> None:
    page = explorer().page
    page.clock.install()
    page.goto(address(page) + f"?example={chosen['id']}", wait_until="load")
    page.wait_for_selector(MOUNTED)
    said = page.locator(".ck-pipe__said")
    page.get_by_role("button", name="Play").click()
    told = []
    for step in ("1", "2", "3"):
        assert _query(page)["step"] == step
        told.append(said.inner_text())
        for _second in range(60):
            if step == "3" or _query(page)["step"] != step:
                break
            page.clock.run_for(1000)
    assert len(set(told)) == 3
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(600_000)
    assert _query(page)["step"] == "3"
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(600_000)
    place, whole = page.locator(".ck-pipe__place").inner_text().split(" of ")
    assert place == whole
    assert page.get_by_role("button", name="Play").is_visible()


def test_with_less_motion_nothing_moves_by_itself(explorer: Callable[..., Any], chosen: dict[str, Any]) -> None:
    page = explorer(f"?example={chosen['id']}", reduced_motion="reduce").page
    page.get_by_role("button", name="Play").click()
    page.locator(".ck-pipe__chain button").first.click()
    assert page.evaluate("document.getAnimations().length") == 0
    page.get_by_role("button", name="Play").click()
    step = _query(page)["step"]
    page.wait_for_timeout(300)
    assert page.get_by_role("button", name="Play").is_visible()
    assert _query(page)["step"] == step


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_while_in_use(explorer: Callable[..., Any], chosen: dict[str, Any], scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    kernel = _fused(chosen)
    assert kernel
    page = explorer(f"?example={chosen['id']}&pick={kernel['keys'][1]}&shown=guards,kernel_fw", scheme=scheme).page
    faults = []
    for state in ("picked", "eager", "walk"):
        if state == "eager":
            page.locator("input[value=eager] + label").click()
        if state == "walk":
            page.get_by_role("button", name="Reset").click()
            page.get_by_role("button", name="Next").click()
            page.get_by_role("button", name="Next").click()
        page.wait_for_function("document.getAnimations().every(one => one.playState !== 'running')")
        options = {"runOnly": ["wcag2a", "wcag2aa"], "resultTypes": ["violations"]}
        for violation in axe.run(page, context=".ck-tool", options=options).response["violations"]:
            faults += [f"{state}: {violation['id']}: {node['html'][:160]}" for node in violation["nodes"][:4]]
    assert faults == []


def test_it_answers_at_once_and_weighs_little(
    built_site: Path, explorer: Callable[..., Any], examples: list[dict[str, Any]]
) -> None:
    largest = max(examples, key=lambda example: len(json.dumps(example["data"])))
    seen = explorer(f"?example={largest['id']}")
    page = seen.page
    took = page.evaluate(
        """() => {
          const timed = (selector) => {
            const start = performance.now();
            document.querySelector(selector).click();
            document.body.offsetHeight;
            return performance.now() - start;
          };
          const all = [".ck-pipe__chip", "input[value=eager]", "input[value=inductor]",
            ".ck-pipe__steps button:last-child", ".ck-pipe__player button:last-of-type"];
          return Object.fromEntries(all.map((selector) => [selector, timed(selector)]));
        }"""
    )
    print(took)
    assert max(took.values()) < 300
    loaded = page.evaluate("performance.getEntriesByType('resource').map(one => new URL(one.name).pathname)")
    files = {built_site / path.lstrip("/") for path in loaded if not path.endswith("/")}
    weight = sum(len(gzip.compress(file.read_bytes())) for file in files if file.is_file())
    weight += len(gzip.compress(Path(built_site, "en", "tools", "pipeline", "index.html").read_bytes()))
    print(weight)
    assert weight < MOST


def test_without_records_it_says_so(built_site: Path, visit: Callable[..., Any]) -> None:
    words = _payload(built_site)["words"]
    seen = visit("/en/")
    page = seen.page
    empty = json.dumps({"language": "en", "words": words, "examples": []})
    page.route("**/data/pipeline.json", lambda route: route.fulfill(body=empty, content_type="application/json"))
    seen.go("/en/tools/pipeline/")
    page.wait_for_selector(MOUNTED)
    assert words["nothing"] in page.locator("[data-ck-tool=pipeline]").inner_text()
    assert seen.faults() == []


def test_a_part_that_does_not_arrive_is_told_and_tried_again(
    explorer: Callable[..., Any], examples: list[dict[str, Any]]
) -> None:
    page = explorer().page
    other = examples[1]
    page.route(f"**/pipeline-{other['part']}.json", lambda route: route.abort(), times=1)
    page.get_by_label("Example").select_option(other["id"])
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(".ck-pipe:not([aria-busy])")
    assert page.locator(".ck-pipe__group").count() > 0
    assert page.get_by_role("button", name="Try again").count() == 0
