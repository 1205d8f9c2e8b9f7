"""kitchen.page.chart: what the SVG holds, and that it can stand in any page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kitchen import charts, page
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
    for word in ("inductor", "eager", "not compiled", "100,000", "1 s"):
        assert word in labels, labels
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
