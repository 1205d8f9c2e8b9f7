"""kitchen.page.chart: what the SVG holds, and that it can stand in any page."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from kitchen import charts, page, placing
from kitchen.context import PageError
from tests.page_tree import Row, Tree, backend_row, cells, four_backends, render, total_time, use

NAME = "overview/four_backends"
TOTAL = "overview/total_time"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    made = Tree(tmp_path)
    use(made, monkeypatch)
    made.record(NAME, four_backends())
    made.record(TOTAL, total_time())
    monkeypatch.setattr(charts, "CACHE", tmp_path / "cache")
    return made


def lines(**changes: Any) -> str:
    ask: dict[str, Any] = {"x": "steps", "y": "total_s", "by": "backend", "where": {"kind": "point"}}
    return page.chart(TOTAL, changes.pop("kind", "loglog"), **(ask | changes))


def test_bars_have_colours_whiskers_words_and_a_text_equivalent(tree: Tree) -> None:
    html = render(page.chart(NAME, "bars", x="backend", y="step_us", title="Steps & times"))
    figure = html.one("figure", "ck-chart")
    svg = figure.one("svg")
    assert svg.attributes["role"] == "img"
    assert svg.attributes["aria-label"] == "Steps & times"
    assert "inductor: 80.0" in figure.one("desc").text
    assert svg.attributes["aria-describedby"] == figure.one("desc").attributes["id"]
    fills = {e.attributes.get("fill") for e in svg.walk()}
    assert {"var(--ck-none)", "var(--ck-eager)", "var(--ck-inductor)", "currentColor"} <= fills
    labels = [e.text for e in svg.all("text")]
    for word in ("not compiled", "eager", "inductor", "80.0 µs", "Step time, µs"):
        assert word in labels
    caption = figure.one("figcaption").text
    assert caption == "Steps & timesNot in the chart: cudagraphs (not measured)."
    table = figure.one("details").one("table")
    assert [row[0] for row in cells(table)] == [
        "not compiled",
        "not compiled, again",
        "eager",
        "inductor",
        "cudagraphs",
    ]


def test_in_chinese(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    use(tree, monkeypatch, language="zh")
    figure = render(page.chart(NAME, "bars", x="backend", y="step_us")).one("figure")
    labels = [e.text for e in figure.one("svg").all("text")]
    assert "不编译" in labels
    assert "单步时间（µs）" in labels
    assert figure.one("svg").attributes["aria-label"] == "单步时间（按后端）"


def test_lines_have_a_legend_bands_and_the_crossing(tree: Tree) -> None:
    svg = render(lines(crossings="crossing_steps")).one("svg")
    labels = [e.text for e in svg.all("text")]
    for word in ("100,000", "1 s"):
        assert word in labels, labels
    legend = render(lines()).one("ul", "ck-legend").all("li")
    assert [item.text for item in legend] == ["not compiled", "inductor", "eager"]
    assert [item.one("i").attributes["style"] for item in legend] == [
        "color:var(--ck-none)",
        "color:var(--ck-inductor)",
        "color:var(--ck-eager)",
    ]
    assert "Not in the chart: cudagraphs (not measured)." in render(lines()).one("figcaption").text
    without = [e.text for e in render(lines()).one("svg").all("text")]
    assert "100,000" not in without


@pytest.mark.parametrize("kind", ["lines", "loglog"])
def test_zero_and_negative_values_do_not_break_a_logarithmic_axis(tree: Tree, kind: str) -> None:
    rows = [row | {"total_low_s": 0.0} if row.get("steps") == 1 else row for row in total_time()]
    rows[1] = rows[1] | {"total_s": 0.0}
    tree.record(TOTAL, rows)
    svg = lines(kind=kind)
    assert "NaN" not in svg
    assert "Infinity" not in svg


def test_fit_draws_the_line_of_the_record(tree: Tree) -> None:
    rows: list[dict[str, Any]] = [
        {"kind": "point", "op": op, "m": m, "chain_us": 1.0 + s * m, "chain_q1_us": s * m, "chain_q3_us": 2.0 + s * m}
        for op, s in (("relu", 2.0), ("mul_", 1.0))
        for m in (1, 10, 100)
    ]
    rows += [{"kind": "fit", "op": op, "slope_us": s, "intercept_us": 1.0} for op, s in (("relu", 2.0), ("mul_", 1.0))]
    tree.record("eager/launch_overhead", rows)
    html = page.chart(
        "eager/launch_overhead",
        "fit",
        x="m",
        y="chain_us",
        by="op",
        where={"kind": "point"},
        fit=("slope_us", "intercept_us"),
    )
    assert html.count("stroke-dasharray") == 2
    assert "var(--ck-series-1, var(--ck-inductor))" in html


def test_totals_are_lines_from_the_compile_time_that_rise_with_the_step(tree: Tree) -> None:
    def variant(name: str, step_us: float, compile_s: float, **more: Any) -> Row:
        made: Row = {"variant": name, "status": "ok", "note": None, "step_us": step_us, "saved_us": 1000.0 - step_us}
        made |= {"steps": 10_000, "compile_cold_s": compile_s, "total_cold_s": 1.0, "break_even_cold": None}
        return made | {"samples_us": [1.0]} | more

    rows = [
        variant("eager", 1000.0, 0.0, saved_us=None),
        variant("eager again", 1001.0, 0.0),
        variant("compile:eager", 1100.0, 1.0),
        variant("aot_eager", 1000.0, 2.0),
        variant("inductor", 500.0, 10.0, break_even_cold=20_000),
        variant("cudagraphs", 100.0, 1.0, status="failed", note="x"),
    ]
    points, crossings = charts.total_rows(rows, "cold")
    totals = {(row["variant"], row["steps"]): row["total_cold_s"] for row in points}
    assert {name for name, _ in totals} == {"eager", "compile:eager", "aot_eager", "inductor"}
    assert totals["eager", 1000] == pytest.approx(1.0)
    assert totals["inductor", 1000] == pytest.approx(10.5)
    assert totals["aot_eager", 10_000_000] == pytest.approx(10_002.0)
    assert [(row["variant"], row["break_even_cold"]) for row in crossings] == [("inductor", 20_000)]
    tree.record("models/mlp", rows)
    html = page.chart("models/mlp", "totals", x="steps", y="total_cold_s", by="variant", title="T")
    assert "20,000" in html
    assert "var(--ck-none)" in html  # eager is the model without compiling here
    assert "var(--ck-eager)" in html  # and compile:eager the back end of that name
    assert ">compile:eager<" not in html
    assert "<code>eager</code>" in html
    with pytest.raises(PageError, match="totals wants"):
        page.chart("models/mlp", "totals", x="steps", y="step_us", by="variant")


def test_nothing_foreign_and_no_id_twice_on_a_page(tree: Tree) -> None:
    # A clipped mark makes ids in the drawing; the same chart twice must not share them.
    svg = '<svg class="marks" width="10" viewBox="0 0 10 5"><clipPath id="clip0"/><g clip-path="url(#clip0)"/></svg>'
    assert "url(#p-clip0)" in charts.inline(svg, "p", "l", "d")
    assert 'id="p-clip0"' in charts.inline(svg, "p", "l", "d")
    both = page.chart(NAME, "bars", x="backend", y="step_us") + page.chart(NAME, "bars", x="backend", y="step_us")
    both += lines(crossings="crossing_steps")
    ids = re.findall(r'\bid="([^"]+)"', both)
    assert len(ids) == len(set(ids)) >= 3
    svgs = "".join(re.findall(r"<svg.*?</svg>", both, re.DOTALL))
    assert set(re.findall(r'https?://[^"\s]+', svgs)) == {"http://www.w3.org/2000/svg"}
    assert "xlink" not in svgs
    assert "<style" not in svgs
    assert "@import" not in svgs
    assert not re.search(r'\s(width|height)="\d+"', svgs.split(">")[0])


def test_drawings_are_kept_and_a_broken_or_read_only_cache_does_no_harm(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = page.chart(NAME, "bars", x="backend", y="step_us")
    kept = list((tmp_path / "cache").glob("*.svg"))
    assert len(kept) == 1
    kept[0].write_text("<svg half", "utf-8")
    use(tree, monkeypatch)
    assert page.chart(NAME, "bars", x="backend", y="step_us") == first
    (tmp_path / "a file").write_text("")
    monkeypatch.setattr(charts, "CACHE", tmp_path / "a file" / "below")
    use(tree, monkeypatch)
    assert page.chart(NAME, "bars", x="backend", y="step_us") == first


def test_a_machine_with_nothing_to_draw_says_so(tree: Tree) -> None:
    tree.record(NAME, [backend_row("cudagraphs", status="failed", note="x", step_us=None)])
    html = render(page.chart(NAME, "bars", x="backend", y="step_us"))
    assert html.one("p", "ck-missing").text == "There is nothing to draw on this machine."


def _texts(svg: Any) -> list[tuple[str, float, float]]:
    """Each text of a drawing with its place, in the plot's own pixels."""
    found = []
    for element in svg.all("text"):
        at = re.fullmatch(r"translate\(([-\d.]+),\s*([-\d.]+)\)", element.attributes.get("transform", ""))
        if at:
            found.append((element.text, float(at[1]), float(at[2])))
    return found


def _width(html: str) -> float:
    box = re.search(r'viewBox="\d+ 0 ([\d.]+) ', html)
    assert box
    return float(box[1])


LONG = "default: a symbol from the beginning, which takes any length, and a very long explanation besides"


def test_a_long_name_of_a_line_stands_whole_in_the_legend(tree: Tree) -> None:
    rows = [row | {"backend": LONG} if row["backend"] == "inductor" else row for row in total_time()]
    tree.record(TOTAL, rows)
    html = lines()
    assert LONG in [item.text for item in render(html).one("ul", "ck-legend").all("li")]
    assert _width(html) < charts.WIDTH + 25


def test_a_long_name_of_a_bar_stands_above_it_and_the_chart_is_no_wider_than_a_phone(tree: Tree) -> None:
    tree.record(NAME, [row | {"backend": LONG} if row["backend"] == "inductor" else row for row in four_backends()])
    html = page.chart(NAME, "bars", x="backend", y="step_us")
    svg = render(html).one("svg")
    texts = _texts(svg)
    parts = [text for text, x, _ in texts if text in LONG and x == 0 and len(text) > 10]
    assert " ".join(parts) == LONG
    heights = [y for text, x, y in texts if text in parts and x == 0]
    assert all(later - sooner >= charts.FONT for sooner, later in itertools.pairwise(heights))
    assert _width(html) < charts.WIDTH + 25
    # Short names stand beside their bars, as before.
    tree.record(NAME, four_backends(), day="2026-11-30")
    short = page.chart(NAME, "bars", x="backend", y="step_us")
    assert _width(short) < charts.WIDTH + 25


def test_text_of_a_chart_never_falls_below_its_least_size(tree: Tree) -> None:
    html = page.chart(NAME, "bars", x="backend", y="step_us")
    least = re.search(r"min-width:(\d+)px", html)
    assert least
    assert charts.FONT * float(least[1]) / _width(html) >= charts.LEAST_FONT


def test_numbers_of_crossings_that_lie_together_stand_apart_and_off_the_lines(tree: Tree) -> None:
    rows = [row for row in total_time() if row.get("kind") != "crossing"]
    again = [row | {"backend": "eager", "compile_s": 2.1} for row in rows if row["backend"] == "inductor"]
    again = [row | {"total_s": row["total_s"] * 1.01} if "total_s" in row else row for row in again]
    rows = [row for row in rows if row["backend"] != "eager"] + again
    same = {"kind": "crossing", "other": "none", "status": "ok", "note": None, "how": "measured"}
    rows += [same | {"backend": "inductor", "crossing_steps": 18_300.0}]
    rows += [same | {"backend": "eager", "crossing_steps": 17_600.0}]
    tree.record(TOTAL, rows)
    texts = {text: (x, y) for text, x, y in _texts(render(lines(crossings="crossing_steps")).one("svg"))}
    (ax, ay), (bx, by) = texts["18,300"], texts["17,600"]
    wide = charts.text_width("18,300")
    assert abs(ay - by) >= charts.FONT or abs(ax - bx) >= wide, (texts["18,300"], texts["17,600"])


SIZE = (275.0, 230.0)


@pytest.mark.parametrize(
    ("marks", "lines_of"),
    [
        ([(140.0, 120.0), (143.0, 121.0)], [[(0.0, 200.0), (275.0, 30.0)], [(0.0, 180.0), (275.0, 60.0)]]),
        ([(268.0, 8.0)], [[(0.0, 230.0), (275.0, 0.0)], [(0.0, 10.0), (275.0, 6.0)]]),
        (
            [(10.0, 222.0), (60.0, 218.0), (64.0, 214.0)],
            [[(0.0, 228.0), (275.0, 100.0)], [(0.0, 210.0), (275.0, 230.0)]],
        ),
    ],
)
def test_a_place_for_each_label(marks: list[placing.Point], lines_of: list[list[placing.Point]]) -> None:
    widths = [44.0] * len(marks)
    places = placing.place(marks, widths, lines_of, SIZE, 13)
    boxes = [spot.box(mark, width, 13) for spot, mark, width in zip(places, marks, widths, strict=True)]
    for index, box in enumerate(boxes):
        assert not any(box.meets(other) for other in boxes[:index])
        assert 0 <= box.left <= box.right <= SIZE[0]
        assert 0 <= box.top <= box.bottom <= SIZE[1]
        for line in lines_of:
            assert not any(box.crossed(a, b) for a, b in itertools.pairwise(line))


def test_a_line_through_a_box_is_seen() -> None:
    box = placing.Box(10, 10, 20, 20)
    assert box.crossed((0, 0), (30, 30))
    assert box.crossed((15, 0), (15, 30))
    assert box.crossed((12, 12), (13, 13))
    assert not box.crossed((0, 30), (9, 0))
    assert not box.crossed((0, 0), (9, 9))
    assert not box.crossed((0, 25), (30, 25))


@pytest.mark.parametrize(
    ("text", "lines_of"),
    [
        ("a short name", ["a short name"]),
        ("one two three", ["one two", "three"]),
        ("内存下限很长的名字", ["内存下限很长", "的名字"]),
    ],
)
def test_a_text_is_wrapped_at_blanks_or_between_chinese_characters(text: str, lines_of: list[str]) -> None:
    assert charts.wrapped(text, 95) == lines_of


def test_a_chinese_name_takes_no_more_room_than_it_needs(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    use(tree, monkeypatch, language="zh")
    html = page.chart(NAME, "bars", x="backend", y="step_us")
    assert "不编译（再测一次）" in [e.text for e in render(html).one("svg").all("text")]
    assert _width(html) < charts.WIDTH + 25
    svg = '<svg viewBox="0 0 400 50"><g transform="translate(160,5)"></g></svg>'
    assert 'viewBox="54 0 346 50"' in charts.inline(svg, "p", "l", "d", 100)
    assert 'viewBox="0 0 400 50"' in charts.inline(svg, "p", "l", "d", 158)
    assert 'viewBox="0 0 400 50"' in charts.inline(svg, "p", "l", "d")
