"""Versions of torch side by side: records made beside the machine's own, and the table that compares them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitchen import page, results
from kitchen.context import PageError
from tests.page_tree import Tree, cells, render, tabs, use

NAME = "overview/four_backends"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    made = Tree(tmp_path)
    use(made, monkeypatch)
    return made


def rows(speed: float) -> list[dict[str, object]]:
    return [
        {"backend": "inductor", "mode": "a", "speedup_ratio": speed, "verdict": "faster", "status": "ok"},
        {"backend": "inductor", "mode": "b", "speedup_ratio": speed / 2, "verdict": "slower", "status": "ok"},
    ]


def test_a_run_beside_is_shown_only_side_by_side(tree: Tree) -> None:
    tree.record(NAME, rows(2.0), day="2026-11-27")
    tree.record(NAME, rows(3.0), day="2026-11-28", torch="2.14.1", beside=True)
    tree.record(NAME, rows(1.0), day="2026-11-29", torch="2.9.0", beside=True)
    assert results.newest(tree.results, NAME)["toy-cpu"].run.torch == "2.13.0"
    assert list(results.by_torch(tree.results, NAME)["toy-cpu"]) == ["2.9.0", "2.13.0", "2.14.1"]
    html = render(page.versions(NAME, rows="mode", cell="speedup_ratio"))
    head, *_ = html.one("table").all("tr")
    assert [cell.text for cell in head.all("th")][1:] == ["2.9.0", "2.13.0", "2.14.1"]
    table = cells(html.one("table"))
    assert [cell.replace("▲ ", "") for cell in table[0]] == ["a", "1.00×", "2.00×", "3.00×"]
    assert tabs(html) == ["Toy Cpu"]
    assert "2.9.0" in html.one("p", "ck-provenance").text


def test_where_there_is_no_other_a_run_beside_counts(tree: Tree) -> None:
    tree.record(NAME, rows(1.0), torch="2.9.0", beside=True)
    assert results.newest(tree.results, NAME)["toy-cpu"].run.torch == "2.9.0"


def test_records_of_another_text_are_left_out(tree: Tree) -> None:
    tree.record(NAME, rows(2.0), day="2026-11-27")
    tree.record(NAME, rows(3.0), day="2026-11-28", torch="2.14.1", beside=True, stale=True)
    head, *_ = render(page.versions(NAME, rows="mode", cell="speedup_ratio")).one("table").all("tr")
    assert [cell.text for cell in head.all("th")][1:] == ["2.13.0"]


def test_two_columns_make_a_line_and_faults_are_told(tree: Tree) -> None:
    tree.record(NAME, rows(2.0))
    html = render(page.versions(NAME, rows=["backend", "mode"], cell="speedup_ratio"))
    assert [row[0] for row in cells(html.one("table"))] == ["inductor · a", "inductor · b"]
    with pytest.raises(PageError, match="two rows"):
        page.versions(NAME, rows="backend", cell="speedup_ratio")
    with pytest.raises(PageError, match="did you mean 'speedup_ratio'"):
        page.versions(NAME, rows="mode", cell="speedup_ratios")


def test_the_line_of_two_columns_is_words_and_may_be_chosen_by_a_column_of_any_name(tree: Tree) -> None:
    table = [row | {"subject": "a"} for row in rows(2.0)]
    tree.record(NAME, table)
    html = render(
        page.versions(NAME, rows=["backend", "mode"], cell="speedup_ratio", where={"subject": "a", "mode": "b"})
    )
    assert [row[0] for row in cells(html.one("table"))] == ["inductor · b"]
    assert not html.one("tbody").all("code")


def test_a_row_without_the_column_is_told(tree: Tree) -> None:
    tree.record(NAME, [*rows(2.0), {"speedup_ratio": 1.0, "status": "ok"}])
    with pytest.raises(PageError, match="has no column 'mode'"):
        page.versions(NAME, rows="mode", cell="speedup_ratio")


def test_the_heads_are_those_of_the_snippet(tree: Tree) -> None:
    name = "versions/settings"
    tree.record(name, [{"subject": "back end", "full_name": "eager", "value": "listed", "status": "ok"}])
    html = render(page.versions(name, rows="subject", cell="value", where={"full_name": "eager"}))
    assert html.one("thead").all("th")[0].text == "What"


def test_versions_that_are_no_release_have_their_place(tree: Tree) -> None:
    for day, torch in enumerate(("2.15.0.dev20261201+cu130", "2.9.0", "2.10.0a0+gitabc"), 20):
        tree.record(NAME, rows(1.0), day=f"2026-11-{day}", torch=torch, beside=True)
    html = render(page.versions(NAME, rows="mode", cell="speedup_ratio"))
    head, *_ = html.one("table").all("tr")
    assert [cell.text for cell in head.all("th")][1:] == ["2.9.0", "2.10.0a0", "2.15.0.dev20261201"]
    assert "2.9.0–2.15.0.dev20261201+cu130" in html.one("p", "ck-provenance").text


def test_nothing_recorded(tree: Tree) -> None:
    tree.snippet(NAME)
    assert "admonition" in page.versions(NAME, rows="mode", cell="speedup_ratio")
