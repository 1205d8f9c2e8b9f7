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


def test_nothing_recorded(tree: Tree) -> None:
    tree.snippet(NAME)
    assert "admonition" in page.versions(NAME, rows="mode", cell="speedup_ratio")
