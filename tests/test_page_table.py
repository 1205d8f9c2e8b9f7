"""kitchen.page.table and what stands around every page function: tabs, badges, provenance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kitchen import page, tables
from tests.page_tree import Tree, backend_row, cells, four_backends, parse, render, tabs, use

NAME = "overview/four_backends"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    made = Tree(tmp_path)
    use(made, monkeypatch)
    return made


def test_headers_rows_units_and_spread(tree: Tree) -> None:
    tree.record(NAME, four_backends())
    html = render(page.table(NAME, columns=["backend", "step_us", "speedup_ratio", "verdict", "break_even"]))
    table = html.one("table", "ck-table")
    heads = table.one("thead").all("th")
    assert [h.text for h in heads] == ["Back end", "Step time µs", "Speed-up", "Verdict", "Break-even count N*"]
    assert {h.attributes["scope"] for h in heads} == {"col"}
    assert heads[1].one("abbr").attributes["title"].startswith("Time of a step: median")
    body = table.one("tbody").all("tr")
    assert all(row.children[0].attributes["scope"] == "row" for row in body if not isinstance(row.children[0], str))
    inductor = cells(table)[3]
    assert inductor == ["inductor", "80.079.0–81.0", "1.25×1.22–1.29", "faster", "100,000"]
    assert cells(table)[2][4] == "never"
    assert table.all("small", "ck-spread")[0].text == "99–102"
    box = html.one("div", "ck-scroll")
    assert box.attributes["role"] == "region"
    assert box.attributes["tabindex"] == "0"
    assert NAME in box.attributes["aria-label"]


def test_in_chinese(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.record(NAME, four_backends())
    use(tree, monkeypatch, language="zh")
    html = render(page.table(NAME, columns=["backend", "step_us", "verdict", "break_even"]))
    table = html.one("table", "ck-table")
    assert [h.text for h in table.one("thead").all("th")] == ["后端", "单步时间 µs", "结论", "回本步数 N*"]
    rows = cells(table)
    assert rows[0][0] == "不编译"
    assert rows[2][2:] == ["更慢", "永不"]
    assert rows[4][1].startswith("未测")
    assert "个样本" in html.one("p", "ck-provenance").text


def test_a_row_that_is_not_ok_keeps_its_place_and_gives_its_reason(tree: Tree) -> None:
    tree.record(NAME, four_backends())
    html = render(page.table(NAME, columns=["backend", "call", "step_us", "compile_cold_s"], sort="-step_us"))
    rows = cells(html.one("table", "ck-table"))
    assert [row[0] for row in rows] == ["eager", "not compiled", "not compiled, again", "inductor", "cudagraphs"]
    assert rows[-1][1] == 'torch.compile(model, backend="cudagraphs")(x)'
    assert rows[-1][2] == "not measured it needs a CUDA device"
    badge = html.one("span", "ck-badge")
    assert "ck-badge--unavailable" in badge.attributes["class"]


def test_best_is_marked_only_where_the_spreads_are_apart(tree: Tree) -> None:
    tree.record(NAME, four_backends())
    html = render(page.table(NAME, columns=["backend", "step_us"]))
    assert [cell.text for cell in html.all("td", "best")] == ["80.079.0–81.0"]
    near = [backend_row("none"), backend_row("inductor", step_us=99.5, step_q1_us=98.0, step_q3_us=101.0)]
    tree.record(NAME, near, day="2026-12-01")
    assert not render(page.table(NAME, columns=["backend", "step_us"])).all("td", "best")


def test_nothing_that_is_not_faster_is_praised(tree: Tree) -> None:
    slower = [row | ({"verdict": "slower"} if row["backend"] == "inductor" else {}) for row in four_backends()]
    tree.record(NAME, slower)
    html = render(page.table(NAME, columns=["backend", "speedup_ratio", "verdict"]))
    assert not html.all("td", "best")


def test_a_missing_number_is_a_dash_that_says_so(tree: Tree) -> None:
    tree.record(NAME, four_backends())
    html = render(page.table(NAME, columns=["backend", "speedup_ratio"]))
    dash = html.one("table").all("td", "muted")[0].one("span")
    assert (dash.text, dash.attributes["title"]) == ("–", "not measured")


def test_the_interval_of_a_break_even_count_may_be_open_and_noise_has_no_payoff(tree: Tree) -> None:
    rows = four_backends()
    rows[3] |= {"break_even_low": 80_000, "break_even_high": 131_000}
    rows[2] |= {"break_even": 5, "break_even_low": 4, "break_even_high": None, "break_even_text": None}
    rows[1] |= {"payoff_r": None, "break_even_text": "never"}
    tree.record(NAME, rows)
    shown = cells(render(page.table(NAME, columns=["backend", "payoff_r", "break_even"])).one("table", "ck-table"))
    assert [row[2] for row in shown[1:4]] == ["never", "54–∞", "100,00080,000–131,000"]
    assert shown[1][1] == "no difference"
    assert shown[0][1] == "–"
    noise = [row | {"payoff_r": None, "verdict": "no difference"} for row in rows]
    tree.record(NAME, noise, day="2026-12-01")
    assert cells(render(page.terms("payoff")).one("table", "ck-terms"))[0][2] == "no difference"


def test_the_newest_record_of_each_machine_in_linked_tabs(tree: Tree) -> None:
    tree.record(NAME, [backend_row("none", step_us=1.0)], day="2026-01-01")
    tree.record(NAME, [backend_row("none", step_us=7.0)], day="2026-02-02")
    tree.machine("toy-gpu", title="Toy GPU, 16 GiB", kind="cuda")
    tree.record(NAME, [backend_row("none", step_us=0.5)], machine="toy-gpu")
    tree.machine("toy-idle", title="Never used")
    html = render(page.table(NAME, columns=["backend", "step_us"]))
    assert tabs(html) == ["Toy GPU, 16 GiB", "Toy Cpu"]
    first, second = html.all("table", "ck-table")
    assert cells(first)[0][1].startswith("500")
    assert cells(second)[0][1].startswith("7.00")
    assert html.all("p", "ck-provenance")[1].text.count("2026-02-02") == 1


def test_two_calls_in_one_fence_stay_two_groups_of_tabs(tree: Tree) -> None:
    tree.record(NAME, four_backends())
    html = render(page.table(NAME) + "\n" + page.table(NAME))
    assert len(html.all("div", "tabbed-set")) == 2


def test_provenance_names_versions_samples_record_and_command(tree: Tree) -> None:
    tree.record(NAME, four_backends())
    line = render(page.table(NAME)).one("p", "ck-provenance")
    for part in ("Toy Cpu", "PyTorch 2.13.0+cpu", "Python 3.11.7", "2026-11-29", "12 samples"):
        assert part in line.text
    link = line.one("a").attributes["href"]
    assert link == "../../results/toy-cpu/2026-11-29T101112Z-torch2.13.0/overview/four_backends.json"
    assert line.one("code").text == "python -m kitchen measure --only overview/four_backends"
    assert not line.all("span", "ck-badge")


@pytest.mark.parametrize(
    ("url", "root"), [("", "../"), ("overview/", "../../"), ("overview/python-demo/", "../../../")]
)
def test_links_reach_the_root_of_the_site(tree: Tree, monkeypatch: pytest.MonkeyPatch, url: str, root: str) -> None:
    tree.record(NAME, four_backends())
    use(tree, monkeypatch, url=url)
    href = render(page.provenance(NAME)).one("a").attributes["href"]
    assert href.startswith(f"{root}results/")
    assert not href.startswith(f"{root}../")


def test_a_stale_record_has_a_badge(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.record(NAME, four_backends(), stale=True)
    badge = render(page.table(NAME)).one("p", "ck-provenance").one("span", "ck-badge--stale")
    assert badge.text == "stale"
    use(tree, monkeypatch, language="zh")
    assert render(page.table(NAME)).one("p", "ck-provenance").one("span", "ck-badge--stale").text == "过期"


@pytest.mark.parametrize(
    ("status", "css"), [("failed", "failed"), ("timeout", "failed"), ("unavailable", "unavailable")]
)
def test_a_record_that_is_not_ok_shows_badge_and_reason_in_its_tab(tree: Tree, status: str, css: str) -> None:
    tree.record(NAME, [], status=status, reason="no <compiler> here")
    html = render(page.table(NAME))
    assert tabs(html) == ["Toy Cpu"]
    missing = html.one("p", "ck-missing")
    assert missing.all("span", f"ck-badge--{css}")
    assert missing.text.endswith(" No <compiler> here.")
    assert not html.all("table")


def test_nothing_recorded_yet_is_no_error_and_says_how_to_record(tree: Tree) -> None:
    tree.snippet(NAME)
    for text in (page.table(NAME, columns=["backend", "step_us"]), page.verdict(NAME, "noise"), page.provenance(NAME)):
        box = render(text).one("div", "ck-missing")
        assert box.one("p", "admonition-title").text == "Not recorded yet"
        assert box.all("code")[1].text == f"python -m kitchen measure --only {NAME}"
    assert page.state.errors == []


def test_a_record_that_changes_under_serve_shows_at_once(tree: Tree) -> None:
    tree.record(NAME, [backend_row("none", step_us=1.0)])
    page.table(NAME)
    tree.record(NAME, [backend_row("none", step_us=123.0)])
    assert "123" in page.table(NAME, columns=["backend", "step_us"])


HOSTILE = [
    "<script>alert(1)</script>",
    "a | b",
    "``` cpp\nint x;\n```",
    "~~~~",
    "/// tab | x\n///",
    "{#x} {: .y}",
    "**bold** _it_ __x__",
    '--8<-- "secret"',
    "[link](http://example.org) ![i](x)",
    "$$ x $$ \\(y\\)",
    "</td></table></div><p>",
    "\x02wzxhzdk:0\x03 \x00",
    "line\n\n    indented\n\n# heading",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_strings_of_a_record_stay_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, language: str
) -> None:
    tree = Tree(tmp_path)
    use(tree, monkeypatch, language=language)
    title = " ".join(text.replace("\x00", "").replace("\x02", "").replace("\x03", "").split())[:100]
    tree.machine(title=title)
    rows: list[dict[str, Any]] = [
        backend_row(text, call=text, verdict=text),
        backend_row("inductor", status="failed", note=text, step_us=None),
    ]
    tree.record(NAME, rows)
    wanted = " ".join("".join(c for c in text if c not in "\x00\x02\x03").split())
    html = render(page.table(NAME, columns=["backend", "call", "verdict", "step_us"], caption="Caption"))
    got = cells(html.one("table", "ck-table"))
    assert got[0][:3] == [wanted] * 3
    assert got[1][2].endswith(wanted)
    assert tabs(html) == [title]
    assert not html.all("script")
    assert not html.all("h1")
    chart = page.chart(NAME, "bars", x="backend", y="step_us")
    figure = render(chart).one("figure")
    assert not figure.all("script")
    paragraph = parse(page.value(NAME, "verdict"))
    assert paragraph.text == wanted
    # The number stands in prose, where Markdown still looks for markup.
    prose = render(f"Text {page.value(NAME, 'verdict')} text.").all("p")[1]
    assert prose.text == f"Text {wanted} text."


def test_default_columns_leave_out_samples_spreads_and_long_texts(tree: Tree) -> None:
    tree.record(NAME, [backend_row("none", code="x" * 500)])
    heads = [h.text for h in render(page.table(NAME)).one("thead").all("th")]
    assert "Back end" in heads
    assert "Step time µs" in heads
    assert not [h for h in heads if "samples" in h or "quartile" in h or h in ("Code", "Status", "Note")]


def test_an_unlabelled_column_is_shown_by_its_own_name(tree: Tree) -> None:
    tree.record(NAME, [{"backend": "none", "surprise_ms": 2.5, "flag": True}])
    table = render(page.table(NAME)).one("table")
    assert [h.text for h in table.one("thead").all("th")] == ["Back end", "surprise_ms ms", "flag"]
    assert cells(table)[0] == ["not compiled", "2.50", "✓"]


def test_where_takes_one_value_or_several(tree: Tree) -> None:
    tree.record(NAME, four_backends())
    table = page.table(NAME, columns=["backend", "step_us"], where={"backend": ["eager", "inductor"]})
    assert [row[0] for row in cells(render(table).one("table"))] == ["eager", "inductor"]


def test_a_machine_without_such_a_row_says_so(tree: Tree) -> None:
    tree.record(NAME, four_backends())
    tree.record(NAME, [backend_row("none")], machine="toy-other")
    html = render(page.table(NAME, columns=["backend", "step_us"], where={"backend": "inductor"}))
    assert len(html.all("table")) == 1
    assert html.one("p", "ck-missing").text == "This machine has no such row."


def test_value_names_machine_and_date(tree: Tree) -> None:
    tree.record(NAME, four_backends())
    span = parse(page.value(NAME, "step_us", where={"backend": "inductor"})).one("span", "ck-value")
    assert span.text.replace("\u202f", " ") == "80.0 µs"
    assert span.attributes["title"] == "Toy Cpu, 2026-11-29"
    absent = parse(page.value(NAME, "step_us", where={"backend": "cudagraphs"})).one("span")
    assert absent.text == "not measured"
    with pytest.raises(page.PageError, match="unknown machine 'toy-cpi': did you mean 'toy-cpu'"):
        page.value(NAME, "step_us", machine="toy-cpi")


def test_long_code_in_a_cell_can_be_broken_at_the_signs_inside_it(tree: Tree) -> None:
    call = 'torch.compile(model, backend="aot_eager_decomp_partition")(x)'
    tree.record(NAME, [backend_row("eager", call=call)])
    html = page.table(NAME, columns=["backend", "call"])
    assert "torch.<wbr>compile(<wbr>model" in html
    assert "aot_<wbr>eager_<wbr>decomp_<wbr>partition" in html
    assert cells(render(html).one("table"))[0][1] == call


def test_a_column_of_words_has_the_room_it_needs_and_no_more(tree: Tree) -> None:
    text = "A sentence of some length that may be told in several lines, but not in single words."
    tree.record(NAME, [backend_row("eager", call="x", detail=text)])
    html = render(page.table(NAME, columns=["backend", "call", "step_us", "detail"])).one("div", "ck-scroll")
    heads = html.one("thead").all("th")
    widths = [h.attributes.get("style") for h in heads]
    assert widths[2] is None  # numbers are never broken: they need no least width
    backend, call, detail = (
        float(str(w).removeprefix("--least:").removesuffix("rem")) for w in (*widths[:2], widths[3])
    )
    assert call < backend < detail
    assert detail == pytest.approx(tables.SENTENCE + tables.PADDING, abs=0.1)


def test_texts_that_do_not_fit_beside_the_other_columns_stand_below_their_row(tree: Tree) -> None:
    text = "A warning of some length that may be told in several lines, but not in single words."
    texts = {f"warning_{n}": f"{n} {text}" for n in range(5)}
    tree.record(NAME, [backend_row("eager", **texts), backend_row("inductor")])
    columns = ["backend", "step_us", *texts, "verdict"]
    table = render(page.table(NAME, columns=columns)).one("table", "ck-sized")
    heads = [h.text for h in table.one("thead").all("th")]
    assert heads == ["Back end", "Step time µs", "Verdict"]
    first, below, second = table.one("tbody").all("tr")
    assert first.all("th")[0].attributes["rowspan"] == "2"
    assert below.attributes["class"] == "ck-below"
    assert below.one("td").attributes["colspan"] == "2"
    assert [f"{name}: {words}" in below.text for name, words in texts.items()] == [True] * 5
    assert "rowspan" not in second.all("th")[0].attributes
    # With room for them they stay where they were asked for.
    narrow = render(page.table(NAME, columns=["backend", "warning_0", "warning_1"])).one("table", "ck-sized")
    assert len(narrow.one("thead").all("th")) == 3
    assert not narrow.all("tr", "ck-below")


def test_a_table_of_many_columns_is_set_dense(tree: Tree) -> None:
    tree.record(NAME, [backend_row("eager", **{f"n{i}": i for i in range(9)})])
    assert page.table(NAME, columns=["backend", *(f"n{i}" for i in range(9))]).count("ck-dense") == 1
    assert "ck-dense" not in page.table(NAME, columns=["backend", "n1", "n2"])


def test_an_empty_text_is_an_empty_cell(tree: Tree) -> None:
    tree.record("overview/four_backends", [backend_row("none", call="")])
    html = render(page.table("overview/four_backends", columns=["backend", "call"]))
    assert cells(html.one("table")) == [["not compiled", ""]]
    assert not html.one("table").one("tbody").all("td")[0].all("code")
