"""Several records as one: kitchen.page.matrix, and table and verdict with a pattern of snippets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kitchen import page
from tests.page_tree import Row, Tree, cells, render, tabs, use


def row(model: str, variant: str, workload: str = "inference", **changes: Any) -> Row:
    """A row of the comparison tool, without the columns that no test here looks at."""
    made: Row = {"model": f"{model}:build", "variant": variant, "workload": workload, "status": "ok", "note": None}
    made |= {"speedup_ratio": 1.0, "speedup_low": None, "speedup_high": None, "verdict": None, "samples_us": [1.0, 2.0]}
    made |= {"break_even_warm": None, "break_even_warm_low": None, "break_even_warm_high": None}
    return made | {"break_even_text": None, "steps": 10_000, "pick_warm": False, "pick_note": None} | changes


def faster(model: str, ratio: float, workload: str = "inference", **changes: Any) -> Row:
    ends = {"speedup_ratio": ratio, "speedup_low": ratio - 0.05, "speedup_high": ratio + 0.05}
    verdict = "faster" if ratio > 1 else "slower"
    return row(model, "inductor", workload, verdict=verdict, **ends, **changes)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    made = Tree(tmp_path)
    use(made, monkeypatch)
    made.record("models/mlp", [row("mlp", "eager"), row("mlp", "eager again"), faster("mlp", 0.9)])
    made.record(
        "models/cnn",
        [
            row("cnn", "eager"),
            faster("cnn", 1.5, break_even_warm=2000, break_even_warm_low=1500),
            row("cnn", "aot_eager", verdict="no difference", speedup_ratio=1.01, break_even_text="never"),
            row("cnn", "eager", "training"),
            faster("cnn", 1.2, "training"),
        ],
    )
    return made


INFERENCE = {"workload": "inference"}


def test_a_line_for_each_model_and_a_column_for_each_back_end(tree: Tree) -> None:
    html = render(
        page.matrix("models/*", rows="model", across="variant", cell="speedup_ratio", where=INFERENCE, caption="Cap")
    )
    table = html.one("table", "ck-matrix")
    assert [h.text for h in table.one("thead").all("th")][1:] == ["inductor", "aot_eager"]
    lines = {line[0]: line[1:] for line in cells(table)}
    assert len(lines) == 2
    texts = [cell for line in lines.values() for cell in line]
    assert any("1.50×" in text and text.startswith("▲") for text in texts)
    assert any("0.900×" in text and text.startswith("▼") for text in texts)
    assert any(text.startswith("= 1.01×") for text in texts)
    assert "–" in texts, "the MLP has no aot_eager: a dash"
    marks = table.all("span", "ck-mark")
    assert {mark.attributes["aria-label"] for mark in marks} == {"faster", "slower", "no difference"}
    assert html.one("p", "ck-caption").text == "Cap"


def test_the_back_end_eager_is_not_the_model_without_compiling(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("mlp", "eager"), row("mlp", "compile:eager", verdict="slower", speedup_ratio=0.8)]
    tree.record("models/mlp", rows, day="2026-11-30")
    for language, plain in (("en", "not compiled"), ("zh", "不编译")):
        use(tree, monkeypatch, language=language)
        html = page.matrix("models/*", rows="model", across="variant", cell="speedup_ratio", where=INFERENCE)
        heads = re.findall('<th scope="col" class="num">(.*?)</th>', html)
        assert sorted(heads) == ["<code>aot_eager</code>", "<code>eager</code>", "<code>inductor</code>"]
        table = page.table("models/mlp", columns=["variant", "verdict"])
        assert re.findall('<th scope="row"[^>]*>(.*?)</th>', table) == [plain, "<code>eager</code>"]
        told = page.verdict("models/*", "tally", workload="inference")
        assert "<code>eager</code>" in told
        assert "compile:eager" not in html + told


def test_every_record_is_named_below(tree: Tree) -> None:
    html = render(page.matrix("models/*", rows="model", across="variant", cell="speedup_ratio", where=INFERENCE))
    line = html.one("p", "ck-provenance")
    assert {a.text for a in line.all("a")} == {"mlp", "cnn"}
    assert all("/results/toy-cpu/" in a.attributes["href"] for a in line.all("a"))
    assert "--only 'models/*'" in line.text
    assert "16 samples" in line.text


def test_a_break_even_that_never_comes_and_one_without_an_upper_end(tree: Tree) -> None:
    html = render(page.matrix("models/*", rows="model", across="variant", cell="break_even_warm", where=INFERENCE))
    texts = [cell for line in cells(html.one("table", "ck-matrix")) for cell in line[1:]]
    assert any("never" in text for text in texts)
    assert any("2,000" in text and "1,500–∞" in text for text in texts)


def test_a_row_that_is_not_ok_says_why(tree: Tree) -> None:
    tree.record("models/net", [row("net", "eager"), row("net", "inductor", status="failed", note="it fell")])
    html = render(page.matrix("models/*", rows="model", across="variant", cell="speedup_ratio", where=INFERENCE))
    badge = html.one("table", "ck-matrix").one("span", "ck-badge--failed")
    assert badge.attributes["title"] == "it fell"


def test_a_failed_record_keeps_its_line(tree: Tree) -> None:
    tree.record("models/net", [], status="timeout", reason="still running after 900 s")
    for html in (
        render(page.matrix("models/*", rows="model", across="variant", cell="speedup_ratio", where=INFERENCE)),
        render(page.table("models/*", columns=["model", "variant", "speedup_ratio"])),
    ):
        [line] = [line for line in cells(html.one("table", "ck-table")) if line[0] == "net"]
        assert "still running after 900 s" in line[-1]


def test_what_a_machine_lacks_is_said(tree: Tree) -> None:
    tree.record("models/mlp", [row("mlp", "eager"), faster("mlp", 2.0)], machine="toy-gpu")
    html = render(page.matrix("models/*", rows="model", across="variant", cell="speedup_ratio", where=INFERENCE))
    assert len(tabs(html)) == 2
    lines = [p.text for p in html.all("p", "ck-provenance")]
    assert sum("Not recorded on this machine: cnn" in line for line in lines) == 1


def test_a_stale_record_is_marked(tree: Tree) -> None:
    tree.record("models/mlp", [row("mlp", "eager"), faster("mlp", 2.0)], day="2026-11-30", stale=True)
    html = render(page.matrix("models/*", rows="model", across="variant", cell="speedup_ratio", where=INFERENCE))
    assert "mlp" in html.one("span", "ck-badge--stale").attributes["title"]


def test_two_rows_for_one_cell_is_an_error(tree: Tree) -> None:
    with pytest.raises(page.PageError, match=r"two rows of 'models/\*'.*add to where"):
        page.matrix("models/*", rows="model", across="variant", cell="speedup_ratio")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ('matrix("model/*", rows="model", across="variant", cell="speedup_ratio")', "no snippet matches 'model/*'"),
        ('matrix("models/*", rows="modell", across="variant", cell="speedup_ratio")', "did you mean 'model'?"),
        ('table("models/*", columns=["varient"])', "did you mean 'variant'?"),
        ('table("models/*", where={"workload": "sleeping"})', "no row of 'models/*' has"),
        ('verdict("nothing/*", "tally")', "no snippet matches 'nothing/*'"),
    ],
)
def test_a_fault_says_what_to_write(tree: Tree, call: str, says: str) -> None:
    with pytest.raises(page.PageError) as caught:
        eval(call, vars(page))  # noqa: S307 - the calls stand above
    assert says in str(caught.value)


def test_a_table_of_several(tree: Tree) -> None:
    html = render(page.table("models/*", columns=["model", "variant", "speedup_ratio"], where={"variant": "inductor"}))
    assert len(cells(html.one("table", "ck-table"))) == 3
    assert html.one("p", "ck-provenance").all("a")


def test_the_tally_counts_what_the_rows_say(tree: Tree) -> None:
    html = render(page.verdict("models/*", "tally", workload="inference"))
    said = html.one("p", "ck-verdict").text
    assert "inductor" in said
    assert "faster for 1 " in said
    assert "slower for 1" in said
    assert "0.90" in said
    assert "1.50" in said
    tree.record("models/mlp", [row("mlp", "eager"), faster("mlp", 1.9)], day="2026-11-30")
    said = render(page.verdict("models/*", "tally", workload="inference")).one("p", "ck-verdict").text
    assert "faster for 2" in said
    assert "slower" not in said


def test_the_pick_is_told_with_its_reason(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    note = "eager: no compiled variant is measurably faster."
    tree.record(
        "models/mlp", [row("mlp", "eager", pick_warm=True, pick_note=note), faster("mlp", 0.9)], day="2026-11-30"
    )
    assert "10,000" in render(page.verdict("models/mlp", "pick")).one("p", "ck-verdict").text
    use(tree, monkeypatch, language="zh")
    said = render(page.verdict("models/mlp", "pick")).one("p", "ck-verdict").text
    assert "no compiled" not in said, "the reason is in the page's language"
