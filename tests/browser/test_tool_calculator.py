"""The break-even calculator in Chromium: every control by mouse and keyboard, its state, files, its speed."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kitchen import data, format, labels, tools
from kitchen.tools import calculator
from tests.browser.address import address
from tests.site_fixtures import LANGUAGES, SECOND_MACHINE

pytestmark = pytest.mark.browser

PATH = "/{}/tools/calculator/"
READY = "() => document.querySelector('[data-ck-tool=calculator]')?.dataset.ckMounted === 'yes'"
#: What sticks out of the window and is not inside a box that scrolls.
STICKS_OUT = """() => [...document.querySelectorAll('.ck-tool *')].filter(e => {
  if (e.getBoundingClientRect().right <= innerWidth + 1 || !e.checkVisibility()) return false;
  for (let p = e.parentElement; p; p = p.parentElement)
    if (/auto|scroll|hidden|clip/.test(getComputedStyle(p).overflowX)) return false;
  return true;
}).slice(0, 5).map(e => e.outerHTML.slice(0, 120))"""
#: The name of what has the focus.
WHO = "(e => e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent)(document.activeElement)"
#: The height of the tool while it waits for its data, and its height now.
JUMPS = """() => {
  const tool = document.querySelector('.ck-tool');
  const copy = document.createElement('section');
  copy.className = tool.className;
  copy.append(tool.querySelector('.ck-tool__waiting').cloneNode(true));
  tool.before(copy);
  const waiting = copy.getBoundingClientRect().height;
  copy.remove();
  return [waiting, tool.getBoundingClientRect().height];
}"""
MOST_MS = 300
MOST_BYTES = 700_000


class Tool:
    """The page as a reader uses it."""

    def __init__(self, visit: Callable[..., Any], language: str = "en", query: str = "", **options: Any) -> None:
        self.seen = visit(PATH.format(language) + query, **options)
        self.page = self.seen.page
        self.page.wait_for_function(READY)

    def go(self, query: str, language: str = "en") -> None:
        self.page.goto(self.seen.server + PATH.format(language) + query)
        self.page.wait_for_function(READY)

    def reload(self) -> None:
        self.page.reload()
        self.page.wait_for_function(READY)

    def answer(self) -> str:
        text: str = self.page.locator(".ck-tool__answer").inner_text()
        return text.replace("\u00a0", " ").replace("\u202f", " ")

    def query(self) -> dict[str, str]:
        return {key: values[0] for key, values in parse_qs(urlsplit(address(self.page)).query).items()}

    def field(self, label: str) -> Any:
        return self.page.get_by_label(label, exact=True)

    def table(self) -> str:
        text: str = self.page.locator(".ck-calc__table").inner_text()
        return text.replace("\u202f", " ")

    def cells_of(self, variant: str) -> list[str]:
        """The cells of a variant's row, without its name."""
        row = self.page.locator(".ck-calc__table tbody tr", has=self.page.locator("th", has_text=variant))
        texts: list[str] = row.locator("td").all_inner_texts()
        return texts

    def type_into(self, label: str, text: str) -> None:
        self.field(label).fill(text)
        self.field(label).press("Enter")

    def choose(self, label: str) -> None:
        """A radio button by its words, as a mouse does: its label."""
        self.page.locator(".ck-choices label", has_text=label).click()


def resnet() -> tuple[data.View, dict[str, Any], dict[str, Any]]:
    """The record that the page opens with: its view, the plain row and Inductor's, of inference."""
    view = data.views("models/resnet18")[0]
    rows = {row["variant"]: row for row in view.record.rows if row["workload"] == "inference"}
    return view, rows["eager"], rows["inductor"]


# ---- every language, colour and width --------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_it_opens_with_the_answer_and_fits(visit: Callable[..., Any], language: str, scheme: str, width: int) -> None:
    tool = Tool(visit, language, scheme=scheme, width=width)
    _, _, inductor = resnet()
    answer = tool.answer()
    assert "ResNet-18" in answer
    assert format.count(inductor["break_even_cold"]) in answer
    assert format.number(inductor["payoff_cold_r"] * 10_000 / inductor["steps"]) in answer
    jumps = tool.page.evaluate(JUMPS)
    print(f"{width} px: waits with {jumps[0]:.0f} px, needs {jumps[1]:.0f} px")
    assert abs(jumps[0] - jumps[1]) < 0.1 * jumps[1]
    for value in ("record", "share", "typed", "file"):
        if value != "record":
            tool.page.locator(f"input[value={value}] + label").click()
        assert tool.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, value
        assert tool.page.evaluate(STICKS_OUT) == [], value
    assert tool.seen.faults() == []


@pytest.mark.parametrize(("language", "scheme"), [("en", "light"), ("zh", "dark")])
def test_it_is_accessible_in_each_of_its_states(visit: Callable[..., Any], language: str, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    rules = {"runOnly": ["wcag2a", "wcag2aa", "best-practice"], "resultTypes": ["violations"]}
    tool = Tool(visit, language, scheme=scheme)
    found: list[str] = []

    def look(*clicks: str) -> None:
        for clicked in clicks:
            tool.page.locator(clicked).click()
        for violation in axe.run(tool.page, context=".ck-tool", options=rules).response["violations"]:
            found.extend(f"{clicks}: {violation['id']}: {node['html'][:160]}" for node in violation["nodes"])

    look()
    look("details.ck-calc__numbers > summary", "input[value=share] + label", "input[value=typed] + label")
    tool.page.locator("input[value=file] + label").click()
    give(tool, "x.json", b"{}")
    look()
    assert found == []
    assert tool.page.locator(".ck-tool__answer").get_attribute("aria-live") == "polite"


# ---- controls ----------------------------------------------------------------------------------------------------


def test_every_control_by_mouse(visit: Callable[..., Any]) -> None:
    tool = Tool(visit)
    page = tool.page
    page.get_by_label("Model", exact=True).select_option("unet")
    assert "U-Net" in tool.answer()
    page.get_by_label("Workload", exact=True).select_option("training")
    assert "training" in tool.answer()
    page.get_by_label("Model", exact=True).select_option("resnet18")
    page.get_by_label("Workload", exact=True).select_option("inference")
    tool.choose("warm start")
    assert format.count(resnet()[2]["break_even_warm"]) in tool.answer()
    tool.choose("cold start")
    page.get_by_label("Variant in the answer").select_option("aot_eager")
    assert "aot_eager never pays" in tool.answer()
    page.get_by_label("Variant in the answer").select_option("inductor")
    title = page.locator(".ck-calc__title")
    before = title.inner_text()
    tool.choose("share of not compiling")
    assert title.inner_text() != before
    assert "100%" in page.locator(".ck-calc__canvas svg").text_content()
    tool.type_into("Compiles K, recompilation included", "12")
    assert "12 compiles" in tool.answer()
    assert "8 graphs" in page.locator(".ck-calc__more").inner_text()
    tool.type_into("Cost of an hour of this machine", "3600")
    assert "in your unit" in tool.answer()
    assert "Cost" in tool.table()
    steps = page.get_by_label("Steps N", exact=True)
    size = steps.bounding_box()
    steps.click(position={"x": size["width"] * 0.9, "y": size["height"] / 2})
    assert int(tool.query()["n"]) > 10_000_000
    tool.type_into("N as a number", "250,000")
    assert "N = 250,000" in tool.answer()
    page.locator("details.ck-calc__numbers > summary").click()
    page.locator(".ck-calc__numbers table").wait_for()
    assert "from N\u00a0=\u00a01 on: not compiled" in page.locator(".ck-calc__numbers").inner_text()
    page.get_by_role("button", name="Change these numbers").click()
    assert tool.query()["from"] == "typed"
    tool.type_into("Step compiled (ms)", "0.5")
    assert tool.query()["step"] == "0.5"
    page.get_by_role("button", name="Reset").click()
    assert tool.query() == {}
    assert "ResNet-18" in tool.answer()
    assert tool.seen.faults() == []


def test_every_control_by_keyboard(visit: Callable[..., Any]) -> None:
    tool = Tool(visit)
    page = tool.page
    page.get_by_label("our records").focus()
    reached = []
    for _ in range(18):
        reached.append(page.evaluate(WHO))
        page.keyboard.press("Tab")
    # Tab goes through everything, in the order in which it stands.
    wanted = ["our records", "Machine", "Model", "Workload", "Steps N", "N as a number", "cold start", "total time",
              "Steps N, on the chart", "Variant in the answer", "Compiles K, recompilation included",
              "Cost of an hour of this machine", "The variants at N = 10,000", "The chart as numbers", "record",
              "Copy a link to this", "Change these numbers", "Reset"]  # fmt: skip
    assert [text.replace("\u00a0", " ") for text in reached] == wanted

    def after(label: str, *keys: str) -> str:
        page.get_by_label(label, exact=True).focus()
        for key in keys:
            page.keyboard.press(key)
        return tool.answer()

    assert "R = " not in after("Model", "Home")  # the first of the list
    after("Model", "R", "e", "s")
    assert "ResNet-18" in tool.answer()
    assert "training" in after("Workload", "ArrowDown")
    assert "inference" in after("Workload", "ArrowUp")
    assert "warm start" in after("cold start", "ArrowRight")
    after("warm start", "ArrowLeft")
    after("total time", "ArrowRight")
    assert tool.query()["chart"] == "share"
    assert "aot_eager" in after("Variant in the answer", "ArrowUp")
    after("Variant in the answer", "ArrowDown")
    after("Steps N", "ArrowRight")
    assert int(tool.query()["n"]) > 10_000
    after("Steps N", "Home")
    assert tool.query()["n"] == "1"
    for keys, steps in ((("PageUp",), "10"), (("ArrowRight",), "11"), (("ArrowLeft",), "10"), (("End",), "1000000000"),
                        (("PageDown",), "100000000"), (("ArrowDown",), "95200000"), (("Home",), "1")):  # fmt: skip
        after("Steps N, on the chart", *keys)
        assert tool.query()["n"] == steps, keys
    page.get_by_label("N as a number").fill("12")
    page.keyboard.press("Enter")
    assert "N = 12 " in tool.answer()
    page.get_by_label("Compiles K, recompilation included").fill("2")
    page.keyboard.press("Tab")
    assert tool.query()["k"] == "2"
    page.locator("details.ck-calc__numbers > summary").focus()
    page.keyboard.press("Enter")
    page.locator(".ck-calc__numbers table").wait_for()
    after("our records", "ArrowRight")
    assert tool.query()["from"] == "typed"
    page.get_by_role("button", name="Reset").focus()
    page.keyboard.press("Space")
    assert tool.query() == {}
    assert tool.seen.faults() == []


def test_what_is_no_number_is_told_and_changes_nothing(visit: Callable[..., Any]) -> None:
    tool = Tool(visit)
    before = tool.answer()
    compiles, price = "Compiles K, recompilation included", "Cost of an hour of this machine"
    for label, text in (
        ("N as a number", "many"),
        ("N as a number", "0"),
        ("N as a number", "1.5"),
        (compiles, "-1"),
        (price, "-2"),
    ):
        tool.type_into(label, text)
        told = tool.page.locator(".ck-control__error:not(:empty)").inner_text()
        assert f"“{text}” is no " in told
        assert tool.answer() == before
        tool.type_into(label, {"N as a number": "10000"}.get(label, "1"))
        assert tool.page.locator(".ck-control__error:not(:empty)").count() == 0
        tool.page.get_by_role("button", name="Reset").click()


def test_the_line_moves_with_mouse_and_finger(visit: Callable[..., Any]) -> None:
    tool = Tool(visit)
    page = tool.page
    plot = page.locator(".ck-calc__plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    row = box["y"] + 150
    page.mouse.move(box["x"] + box["width"] / 2, row)
    page.mouse.down()
    seen = []
    for share in (0.6, 0.7, 0.8):
        page.mouse.move(box["x"] + box["width"] * share, row)
        seen.append(int(tool.query()["n"]))
    page.mouse.up()
    assert seen == sorted(set(seen))
    page.mouse.move(box["x"] + box["width"] * 0.3, row)
    assert int(tool.query()["n"]) == seen[-1], "it moves only while held"
    # Far outside it stops at the end of the chart.
    page.mouse.move(box["x"] + box["width"] * 0.8, row)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] + 300, row)
    page.mouse.up()
    assert tool.query()["n"] == "1000000"
    assert page.evaluate("document.activeElement.getAttribute('role')") == "slider"

    phone = Tool(visit, width=390, has_touch=True)
    plot = phone.page.locator(".ck-calc__plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    phone.page.touchscreen.tap(box["x"] + box["width"] * 0.8, box["y"] + 120)
    phone.page.wait_for_function("new URLSearchParams(location.search).has('n')")
    assert int(phone.query()["n"]) > 10_000


# ---- state -----------------------------------------------------------------------------------------------------------

STATE = "?model=pointwise_chain&work=training&variant=inductor&n=345000&start=warm&k=4&price=1.5&chart=share"
TYPED = "?from=typed&compile=20&eager=4&step=3.5&pm_step=2&pm_compile=5&n=70000"


@pytest.mark.parametrize("query", [STATE, TYPED])
def test_an_address_repeats_what_was_seen(visit: Callable[..., Any], query: str) -> None:
    tool = Tool(visit, query=query)
    shown = (tool.answer(), tool.table(), tool.query())
    assert tool.query() == {key: values[0] for key, values in parse_qs(query[1:]).items()}
    tool.reload()
    assert (tool.answer(), tool.table(), tool.query()) == shown
    for name, value in tool.query().items():
        if name in ("n", "k", "price", "compile", "eager", "step"):
            assert value in tool.page.evaluate(
                "[...document.querySelectorAll('.ck-tool input[type=text]')].map(e => e.value)"
            )
    # The same in the other language, by the switch.
    tool.page.locator(".ck-languages a[hreflang=zh], .ck-languages a[data-ck-language=zh]").first.click()
    tool.page.wait_for_url("**/zh/tools/calculator/**")
    tool.page.wait_for_function(READY)
    assert tool.query() == shown[2]
    assert "划算" in tool.answer()
    assert labels.text_value("variant", "eager", "zh") in tool.table()


def test_an_address_that_means_nothing_opens_as_if_it_were_not_there(visit: Callable[..., Any]) -> None:
    tool = Tool(visit)
    usual = tool.answer()
    tool.go("?model=gpt9&work=nap&n=-4&k=1e9&start=tepid&machine=abacus&variant=none&chart=pie&price=x")
    assert tool.answer() == usual
    assert tool.seen.faults() == []


def test_the_link_names_machine_and_model(browser: Any, server: str) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(server + PATH.format("en") + "?n=500")
    page.wait_for_function(READY)
    page.get_by_role("button", name="Copy a link to this").click()
    page.get_by_role("button", name="Copied").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    told = {key: values[0] for key, values in parse_qs(urlsplit(link).query).items()}
    assert told == {"n": "500", "machine": resnet()[0].machine.name, "model": "resnet18", "work": "inference"}
    context.close()


# ---- a report --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reports() -> dict[str, bytes]:
    """Reports as the comparison tool writes them, of two workloads and a failure, made from a record's rows."""
    from snippets.measuring import compare_backends

    names = {item.name for item in dataclasses.fields(compare_backends.Row)}
    view = data.views("models/resnet18")[0]
    rows = [compare_backends.Row(**{k: v for k, v in row.items() if k in names}) for row in view.record.rows]
    failed = dataclasses.replace(rows[-1], variant="tvm")
    failed.fail("failed", "<b>no</b> such package", "missing package", "torch.compile")
    report = compare_backends.Report(compare_backends.Settings(), [*rows, failed])
    report.environment = {"device_name": "Some CPU", "torch": "2.14.0"}
    report.warnings = ["the machine was busy"]
    return {"json": json.dumps(report.as_json()).encode(), "csv": compare_backends.as_csv(report).encode()}


def give(tool: Tool, name: str, content: bytes) -> None:
    tool.page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "text/plain", "buffer": content})
    tool.page.locator(".ck-calc__told:not(:empty), .ck-calc__upload .ck-control__error:not(:empty)").first.wait_for()


def drop(tool: Tool, name: str, content: bytes) -> None:
    transfer = tool.page.evaluate_handle(
        "([name, text]) => { const t = new DataTransfer(); t.items.add(new File([text], name)); return t; }",
        [name, content.decode()],
    )
    for kind in ("dragenter", "dragover", "drop"):
        tool.page.dispatch_event(".ck-calc__drop", kind, {"dataTransfer": transfer})
    tool.page.locator(".ck-calc__told", has_text=name).wait_for()


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_report_is_read_here_and_its_link_carries_typed_numbers(
    visit: Callable[..., Any], reports: dict[str, bytes], form: str
) -> None:
    tool = Tool(visit)
    tool.choose("a report of mine")
    asked: list[Any] = []
    tool.page.on("request", lambda request: asked.append(request))
    give(tool, f"mine.{form}", reports[form])
    _, _, inductor = resnet()
    assert tool.answer().startswith("mine." + form)
    assert format.count(inductor["break_even_cold"]) in tool.answer()
    # A new address makes Chromium ask for the page's icon; nothing else is asked for, and nothing is sent.
    left = [request.url for request in asked if request.post_data or not request.url.endswith("/favicon.svg")]
    assert left == [], "a report leaves the browser"
    tool.field("Model and workload").select_option(label="resnet18:build, training")
    assert "<b>no</b> such package" in tool.table(), "markup of a report stays text"
    assert "missing package" in tool.table()
    tool.field("Variant in the answer").select_option("tvm")
    assert "has no times" in tool.answer()
    assert tool.page.get_by_role("button", name="Copy a link to this").is_disabled()
    tool.field("Model and workload").select_option(label="resnet18:build, inference")
    assert "as typed ones" in tool.page.locator(".ck-calc__notes").inner_text()
    there, sums = tool.answer(), tool.cells_of("inductor")
    assert tool.query()["from"] == "typed"
    if form == "json":
        assert "the machine was busy" in tool.page.locator(".ck-calc__told").inner_text()
        assert "Some CPU" in tool.page.locator(".ck-tool .ck-provenance").inner_text()
    tool.reload()
    again = tool.answer()
    low, high = (format.count(inductor[f"break_even_cold_{end}"]) for end in ("low", "high"))
    assert f"({low}–{high})" in there
    assert f"({low}–{high})" in again
    assert any("faster" in cell for cell in sums)
    assert sums == tool.cells_of("the compiled model")
    assert tool.seen.faults() == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_file_that_is_no_report_says_what_where_and_what_to_do(
    visit: Callable[..., Any], reports: dict[str, bytes], language: str
) -> None:
    tool = Tool(visit, language)
    tool.page.locator("input[value=file] + label").click()
    usual = tool.answer()
    drop(tool, "dropped.csv", reports["csv"])
    assert tool.answer() != usual
    tool.page.get_by_role("button", name={"en": "Reset", "zh": "重置"}[language]).click()
    assert tool.answer() == usual
    tool.page.locator("input[value=file] + label").click()
    broken = json.loads(reports["json"])
    broken["rows"][2]["step_us"] = "fast"
    for name, content, words in (
        ("cut.json", reports["json"][:-40], "JSON"),
        ("value.json", json.dumps(broken).encode(), 'rows[2], step_us'),
        ("notes.txt", b'a "quoted" note', "variant"),
        ("record.json", resnet()[0].record.path.read_bytes(), {"en": "our records", "zh": "本站记录"}[language]),
        ("image.png", b"\x89PNG\xff\xfe", "UTF-8"),
        ("huge.json", b" " * (4 * 1024 * 1024 + 1), "4.00 MiB"),
        ("empty.csv", b"", {"en": "empty", "zh": "空的"}[language]),
    ):  # fmt: skip
        give(tool, name, content)
        told = tool.page.locator(".ck-calc__upload .ck-control__error").inner_text().replace("\u202f", " ")
        assert name in told
        assert words in told, told
        assert "{" not in told.replace("{file", "") or name == "cut.json", told
        assert tool.answer() == usual
        tool.page.evaluate("document.querySelector('.ck-calc__upload .ck-control__error').textContent = ''")
    assert tool.seen.faults() == []


# ---- more machines, speed, weight --------------------------------------------------------------------------------


def test_another_machine_can_be_chosen(visit: Callable[..., Any], two_machine_server: str) -> None:
    seen = visit(PATH.format("en"), at=two_machine_server)
    page = seen.page
    page.wait_for_function(READY)
    page.get_by_label("Machine", exact=True).select_option(SECOND_MACHINE)
    assert "Toy, second" in page.locator(".ck-tool__answer").inner_text()
    page.get_by_label("Model", exact=True).select_option("mlp")
    assert "Toy, second" in page.locator(".ck-tool__answer").inner_text()
    assert SECOND_MACHINE in page.get_by_role("link", name="record", exact=True).first.get_attribute("href")
    assert page.request.get(page.locator(".ck-tool .ck-provenance a").evaluate("a => a.href")).ok
    assert seen.faults() == []


def answering(content: dict[str, Any]) -> Callable[[Any], None]:
    """A route that answers with this JSON."""
    text = json.dumps(content)
    return lambda route: route.fulfill(body=text, content_type="application/json")


def test_without_records_it_still_takes_typed_numbers_and_says_what_is_missing(browser: Any, server: str) -> None:
    told = json.loads(json.dumps(calculator.payload("en").data))
    words = tools.words("calculator", "en")
    case = told["cases"][0] | {"rows": [], "failed": "failed: no compiler"}
    none: dict[str, list[Any]] = {"machines": [], "models": [], "works": [], "cases": []}
    for change, opens, answers in (
        (none, "With the numbers typed in", words["no_cases"]),
        ({"cases": [case]}, "failed: no compiler", "failed: no compiler"),
    ):
        context = browser.new_context()
        page = context.new_page()
        page.add_init_script("window.faults = []; addEventListener('error', (event) => faults.push(event.message))")
        page.route("**/data/calculator.json", answering({"language": "en", "words": words, **told, **change}))
        page.goto(server + PATH.format("en"))
        page.wait_for_function(READY)
        answer = page.locator(".ck-tool__answer")
        assert opens in answer.inner_text()
        page.locator("input[value=records] + label").click()
        assert answers in answer.inner_text()
        assert page.evaluate("faults") == []
        context.close()


def test_it_answers_at_once(visit: Callable[..., Any]) -> None:
    tool = Tool(visit)
    tool.page.locator("details.ck-calc__numbers > summary").click()
    took = tool.page.evaluate("""() => {
      const field = [...document.querySelectorAll('.ck-tool input[type=range]')][0];
      const times = [];
      for (let at = 1; at <= 8; at += 0.5) {
        const from = performance.now();
        field.value = at;
        field.dispatchEvent(new Event('input'));
        document.querySelector('.ck-tool').getBoundingClientRect(); // style and layout are part of it
        times.push(performance.now() - from);
      }
      return times;
    }""")
    print(f"an answer after {max(took):.0f} ms at most, {sorted(took)[len(took) // 2]:.0f} ms as a median")
    assert max(took) < MOST_MS


def test_the_page_is_light(browser: Any, server: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    sizes: dict[str, int] = {}

    def weigh(answer: Any) -> None:
        if answer.status == 200:
            sizes[answer.url] = len(gzip.compress(answer.body()))

    page.on("response", weigh)
    page.goto(server + PATH.format("en"), wait_until="networkidle")
    page.wait_for_function(READY)
    own = sum(size for url, size in sizes.items() if "tools/" in url)
    print(f"{sum(sizes.values()) / 1e3:.0f} kB in {len(sizes)} files, {own / 1e3:.0f} kB of them the tool's")
    assert sum(sizes.values()) < MOST_BYTES
    context.close()
