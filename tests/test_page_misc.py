"""The other page functions: code, source, formulas, machines, glossary, and calls from a notebook."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kitchen import calls, excerpts, formulas, glossary, page
from tests.page_tree import SNIPPET, Tree, backend_row, cells, four_backends, parse, render, tabs, use

NAME = "overview/four_backends"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    made = Tree(tmp_path)
    use(made, monkeypatch)
    return made


CODE = """#include <vector>
/// tab | not a tab
// ``` and ~~~~ and ````````
--8<-- "nothing"
template<class T> T f(T a) { return a < 1 ? a : "&amp;"; }

{#id} **x** $y$
///
</code></pre></div>
"""


def test_text_is_the_code_character_for_character(tree: Tree) -> None:
    tree.record(NAME, [backend_row("inductor", code=CODE)])
    html = render(page.text(NAME, "code", where={"backend": "inductor"}))
    code = html.one("div", "language-cpp").one("code")
    assert code.text.replace("\u200b", "") == CODE
    assert code.all("span")
    assert tabs(html) == ["Toy Cpu"]


def test_text_is_highlighted_as_the_row_says(tree: Tree) -> None:
    tree.record(NAME, [backend_row("inductor", code="import triton", language="python")])
    assert render(page.text(NAME, "code")).one("div", "language-python").one("code").all("span")


@pytest.mark.parametrize(
    ("lines", "label"), [(excerpts.LONG_LINES, None), (excerpts.LONG_LINES + 1, "Code, 41 lines, scrolls")]
)
def test_a_long_listing_is_a_region_that_the_keyboard_reaches(tree: Tree, lines: int, label: str | None) -> None:
    tree.record(NAME, [backend_row("inductor", code="x = 1;\n" * lines)])
    box = render(page.text(NAME, "code")).one("div", "highlight")
    pre = box.one("pre")
    assert ("ck-long" in box.attributes["class"].split()) is (label is not None)
    assert pre.attributes.get("aria-label") == label
    assert pre.attributes.get("tabindex") == (label and "0")
    assert pre.attributes.get("role") == (label and "region")


def test_text_of_a_row_that_failed_gives_the_reason(tree: Tree) -> None:
    tree.record(NAME, [backend_row("inductor", status="failed", note="no compiler", code=None)])
    assert render(page.text(NAME, "code")).one("p", "ck-missing").text == "failed No compiler."


def test_source_shows_the_named_functions_and_links_the_file(tree: Tree) -> None:
    tree.snippet(NAME)
    html = render(page.source(NAME, "helper"))
    shown = html.one("code" if not html.all("div", "highlight") else "div", "highlight").text.replace("\u200b", "")
    assert "def helper() -> int:" in shown
    assert '    """Two backticks `` and a fence:' in shown
    assert "def run" not in shown
    link = html.one("p", "ck-provenance").one("a")
    assert link.attributes["href"] == "../../snippets/overview/four_backends.py"
    whole = render(page.source(NAME)).one("div", "highlight").text
    assert "# /// script" in whole
    assert "def run" in whole


def test_source_shows_a_table_with_what_stands_above_it(tree: Tree) -> None:
    table = "#: What it means,\n#: in two lines.\nTABLE: dict[str, int] = {\n    'a': 1,\n}"
    tree.snippet(NAME, f"{SNIPPET}\n\n{table}\nmade = helper()\n")
    shown = render(page.source(NAME, "TABLE")).one("div", "highlight").text
    assert shown.replace("\u200b", "").strip() == table
    assert "made = helper()" in render(page.source(NAME, "made")).one("div", "highlight").text.replace("\u200b", "")
    with pytest.raises(page.PageError, match="no function 'absent'"):
        page.source(NAME, "absent")


def test_example_shows_a_file_and_links_it(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples" / "one").mkdir(parents=True)
    (tmp_path / "examples" / "one" / "pyproject.toml").write_text('[project]\nname = "<one>"\n')
    monkeypatch.setattr(excerpts, "EXAMPLES", tmp_path / "examples")
    html = render(page.example("one/pyproject.toml"))
    assert html.one("div", "language-toml").text.replace("\u200b", "").strip() == '[project]\nname = "<one>"'
    link = html.one("p", "ck-provenance").one("a")
    assert link.attributes["href"] == "../../examples/one/pyproject.toml"
    with pytest.raises(page.PageError, match=r"did you mean 'one/pyproject\.toml'"):
        page.example("one/pyproject.tml")


@pytest.mark.parametrize("name", formulas.names())
@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_formula_and_its_terms_in_both_languages(
    name: str, language: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = Tree(tmp_path)
    use(made, monkeypatch, language=language)
    for snippet in formulas.snippets_of(name):
        made.snippet(snippet)
    block = render(page.formula(name)).one("div", "arithmatex").text
    assert block.startswith("\\[")
    assert block.endswith("\\]")
    assert block.count("{") == block.count("}")
    assert "@" not in block
    classes = re.findall(r"\\class\{([^}]+)\}", block)
    entry = formulas.get(name)
    assert set(classes) == {f"term-{term['id']}" for term in entry["term"]}
    # Without a column check there is nothing recorded: the rows still stand, and say so.
    for snippet in formulas.snippets_of(name):
        columns = [f'"{t["column"]}"' for t in entry["term"] if t.get("snippet") == snippet]
        text = (made.snippets / f"{snippet}.py").read_text("utf-8")
        made.snippet(snippet, text + f"\nCOLUMNS = ({', '.join(columns)},)\n")
    html = render(page.terms(name))
    rows = html.one("table", "ck-terms").one("tbody").all("tr")
    assert [row.attributes["data-term"] for row in rows] == [f"term-{term['id']}" for term in entry["term"]]
    assert {row.attributes["tabindex"] for row in rows} == {"0"}
    for term in entry["term"]:
        assert term[language]
        assert ("snippet" in term) == ("column" in term) == (f"where_{language}" in term)


def test_terms_show_measured_values_a_machine(tree: Tree) -> None:
    tree.record(NAME, four_backends())
    slow = [row | {"break_even": None, "break_even_text": "never"} for row in four_backends()]
    tree.record(NAME, slow, machine="toy-other")
    html = render(page.terms("break_even"))
    assert tabs(html) == ["Toy Cpu", "Toy Other"]
    first, second = (cells(table) for table in html.all("table", "ck-terms"))
    assert [row[2].replace("\u202f", " ") for row in first] == ["100,000", "2.00 s", "100 µs", "80.0 µs"]
    assert second[0][2] == "never"
    assert first[1][3] == "overview/four_backendsinductor, cold"


def test_terms_nobody_measures_say_so(tree: Tree) -> None:
    rows = four_backends()
    lost = next(row for row in rows if row["backend"] == "inductor")
    lost |= {"status": "not measured", "note": "it was Sunday", "step_us": None, "break_even": None}
    tree.record(NAME, rows)
    for name, formula in (("cudagraphs/parts", "graph_parts"), ("scenarios/container_start", "ready")):
        columns = [term["column"] for term in formulas.get(formula)["term"]]
        tree.snippet(name, SNIPPET + f"\nCOLUMNS = {columns}\n")
    tree.record("cudagraphs/parts", [], status="unavailable", reason="it needs a CUDA device")
    assert cells(render(page.terms("break_even")).one("table", "ck-terms"))[0][2] == "not measured"
    assert cells(render(page.terms("graph_parts")).one("table", "ck-terms"))[0][2] == "unavailable"
    assert cells(render(page.terms("ready")).one("table", "ck-terms"))[0][2] == "not recorded"


def test_machines_lists_every_machine_with_its_runs(tree: Tree) -> None:
    tree.record(NAME, four_backends())
    tree.record("overview/other", [], status="failed", reason="x")
    tree.record(NAME, four_backends(), day="2026-12-01")
    tree.machine("toy-gpu", title="Toy | GPU `x`", kind="cuda")
    html = render(page.machines())
    heads = html.all("h3")
    assert [(h.attributes["id"], h.text) for h in heads] == [("toy-gpu", "Toy | GPU `x`"), ("toy-cpu", "Toy Cpu")]
    gpu, cpu, runs = html.all("table", "ck-table")
    assert ["GPU", "Toy GPU, 16.0\u202fGiB"] in cells(gpu)
    assert ["CPU", "Toy <b>CPU</b>"] in cells(cpu)
    assert ["PyTorch", "2.13.0+cpu"] in cells(cpu)
    newest, _, oldest, files = cells(runs)
    assert newest[0] == "2026-12-01 10:11:12PyTorch 2.13.0+cpu"
    assert oldest[1] == "completemeasured: 1failed: 1"
    assert files == ["overview four_backends, otherrun.json"]
    links = [a.attributes["href"] for a in runs.all("a")]
    assert "../../results/toy-cpu/2026-12-01T101112Z-torch2.13.0/run.json" in links
    assert "../../results/toy-cpu/2026-11-29T101112Z-torch2.13.0/overview/other.json" in links


def test_machines_without_any(tree: Tree) -> None:
    tree.results.mkdir()
    assert "python -m kitchen measure" in render(page.machines()).one("div", "admonition").text


def test_glossary_in_both_languages(tree: Tree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    terms = tmp_path / "terms.toml"
    terms.write_text(
        """
[[term]]
id = "step"
en = "step"
zh = "一步"
en_text = "One call of `model`: 1 < 2."
zh_text = "调用一次 `model`。"
avoid_en = ["iteration"]
[[term]]
id = "a-dynamo"
en = "Dynamo"
zh = "Dynamo"
en_text = "Captures."
zh_text = "捕获。"
""",
        "utf-8",
    )
    monkeypatch.setattr(glossary, "TERMS", terms)
    html = render(page.glossary()).one("dl", "ck-glossary")
    assert [dt.text for dt in html.all("dt")] == ["Dynamo", "step 一步"]
    assert html.all("dt")[1].attributes["id"] == "step"
    assert html.all("dd")[1].text == "One call of model: 1 < 2. Not: iteration"
    assert html.all("dd")[1].one("code").text == "model"
    use(tree, monkeypatch, language="zh")
    html = render(page.glossary()).one("dl", "ck-glossary")
    assert [dt.text for dt in html.all("dt")] == ["Dynamo", "一步 step"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[term]]\nid = "a"', "term 1 (a): en is missing"),
        ("[[term", "terms.toml: "),
    ],
)
def test_a_broken_glossary_names_the_term(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "terms.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(page.PageError, match=re.escape(message)):
        glossary.load(path)


def test_the_real_glossary_loads() -> None:
    if glossary.TERMS.exists():
        assert glossary.load()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("true", True),
        ("a", "a"),
        ("a,b", ["a", "b"]),
        ('["a","b"]', ["a", "b"]),
        ("kind:step,n:3", {"kind": "step", "n": 3}),
        ('{"kind": "x y"}', {"kind": "x y"}),
    ],
)
def test_values_of_a_call(text: str, value: object) -> None:
    assert calls.parse_value(text) == value


def test_a_call_is_the_function(tree: Tree) -> None:
    tree.record(NAME, four_backends())
    assert page.call(f"table {NAME} columns=backend,step_us where=backend:inductor") == page.table(
        NAME, columns=["backend", "step_us"], where={"backend": "inductor"}
    )
    assert page.call(f"table {NAME} columns=backend") == page.table(NAME, columns=["backend"])
    assert page.call(f"verdict {NAME} pays_for steps=10") == page.verdict(NAME, "pays_for", steps=10)
    assert page.call(f"table {NAME} 'caption=two words'") == page.table(NAME, caption="two words")


def test_a_fault_in_a_call_names_the_line_of_the_notebook_once(tree: Tree) -> None:
    notebook = tree.root / "demo.ipynb"
    notebook.write_text('{\n "cells": [\n  "<div data-kitchen=\\"table overview/x n=\'1\'\\"></div>"\n ]\n}', "utf-8")
    page.state.begin(language="en", source=notebook, url="", markdown="")
    page.state.errors.clear()
    with pytest.raises(page.PageError):
        page.call("table overview/x n='1'")
    assert len(page.state.errors) == 1
    assert page.state.errors[0].startswith(f"{notebook.as_posix()}:3: ")


def test_rendered_html_has_tabs_of_its_own(tree: Tree) -> None:
    tree.record(NAME, four_backends())
    tree.record(NAME, four_backends(), machine="toy-other")
    first, second = (page.render_html(page.table(NAME)) for _ in range(2))
    html = parse(first + second)
    ids = [e.attributes["id"] for e in html.all("input")]
    assert len(ids) == len(set(ids)) == 4
    assert [e.attributes["for"] for e in html.all("label")] == ids
    assert len({e.attributes["name"] for e in html.all("input")}) == 2
    assert len(html.all("table", "ck-table")) == 4
