"""The fact check: every verdict follows from a record or a source, and a changed record changes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kitchen import claims, data, groups, judges, page, results
from kitchen.claims import Claim
from kitchen.context import LANGUAGES, PageError
from kitchen.judges import Case
from tests.page_tree import Tree, cells, render, use

Row = dict[str, Any]
ROOT = Path(__file__).parents[1]
KNOWN = claims.load()
BY_RECORD = [name for name, one in KNOWN.items() if not one.by_source and one.snippet]
PAGES = {"blog": "index", "stale": "stale", "numbers": "numbers"}


# ---------------------------------------------------------------- the real ones


def test_there_are_as_many_as_promised() -> None:
    assert {f"B{n}" for n in range(1, 20)} <= set(KNOWN)
    assert len([one for one in KNOWN.values() if one.page == "stale"]) >= 15


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_verdict_has_a_record_or_a_source(name: str) -> None:
    one = KNOWN[name]
    machine, verdict = claims.chosen_verdict(one)
    if one.by_source or verdict == "not_shown":
        assert one.sources, f"{name} rests on nothing"
    else:
        assert machine
        assert claims.cases_of(one, claims.rows_by_machine(one)[machine])


@pytest.mark.parametrize("name", sorted(BY_RECORD))
def test_the_record_behind_a_verdict_is_there(name: str) -> None:
    one = KNOWN[name]
    names = groups.names(one.snippet) if groups.is_pattern(one.snippet) else [one.snippet]
    for each in names:
        assert results.newest(ROOT / "results", each), f"{name} rests on {each}, which has no record"


def flipped(cases: list[Row], agrees: bool) -> list[Row]:
    return [row | {"agrees": agrees} if row.get("agrees") is not None else row for row in cases]


@pytest.mark.parametrize("name", sorted(BY_RECORD))
def test_a_changed_record_changes_the_verdict(name: str) -> None:
    one = KNOWN[name]
    for rows in claims.rows_by_machine(one).values():
        cases = claims.cases_of(one, rows)
        if not any(row.get("agrees") is not None for row in cases):
            continue
        assert claims.verdict_of(one, flipped(cases, True)) == "true"
        assert claims.verdict_of(one, flipped(cases, False)) == ("until" if one.until else "false")
        assert claims.verdict_of(one, []) == "not_shown"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_claim_has_its_section(name: str, language: str) -> None:
    one = KNOWN[name]
    text = (ROOT / "docs" / language / "fact-check" / f"{PAGES[one.page]}.md").read_text("utf-8")
    sections = re.split(r"^(?=#{2,4} )", text, flags=re.MULTILINE)
    (own,) = (part for part in sections if f"{{#{one.anchor}}}" in part.partition("\n")[0])
    assert f'claim("{name}")' in own
    assert f'claims("{one.page}")' in text


# ---------------------------------------------------------------- how a verdict comes about


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    made = Tree(tmp_path)
    use(made, monkeypatch, url="fact-check/")
    folder = tmp_path / "claims"
    folder.mkdir()
    common = (
        'en = "says `x` is <so>"\nzh = "说 `x` 如此"\nwhere = {en = "a [post](https://example.org)", zh = "帖子"}\n'
    )
    (folder / "blog.toml").write_text(
        f'[B1]\n{common}snippet = "fact_check/planted"\n\n'
        f'[B2]\n{common}snippet = "fact_check/planted"\nuntil = "2.1"\nsources = ["pytorch#5"]\n\n'
        f'[B3]\n{common}sources = ["pytorch#6"]\nverdict = "false"\nby = "source"\n\n'
        f'[B4]\n{common}snippet = "fact_check/planted"\njudge = "planted_judge"\nversions = true\n'
    )
    monkeypatch.setattr(claims, "FOLDER", folder)
    monkeypatch.setitem(judges.JUDGES, "planted_judge", by_version)
    return made


def by_version(rows: list[Row]) -> list[Case]:
    versions = {row["torch"] for row in rows}
    return [Case("versions", "2", str(len(versions)), len(versions) == 2)] if versions else []


def case(claim: str, agrees: bool | None, **changes: Any) -> Row:
    row = {"claim": claim, "tried": "f(x)", "said": "1", "seen": "2", "agrees": agrees, "status": "ok", "note": ""}
    return row | changes


@pytest.mark.parametrize(
    ("agrees", "verdict"),
    [
        ([True, True], "true"),
        ([True, False], "half"),
        ([False, False], "false"),
        ([None], "not_shown"),
        ([], "not_shown"),
        ([True, None], "true"),
    ],
)
def test_the_verdict_follows_from_the_cases(tree: Tree, agrees: list[bool | None], verdict: str) -> None:
    tree.record("fact_check/planted", [case("B1", value) for value in agrees] + [case("B2", False)])
    html = render(page.claim("B1"))
    assert html.one("p", "ck-verdict").attributes["data-verdict"] == verdict
    if agrees:
        assert len(cells(html.one("table"))) == len(agrees)
    listed = {row[0]: row[2] for row in cells(render(page.claims("blog")).one("table"))}
    words = {"true": "true", "half": "half true", "false": "false", "not_shown": "not shown here"}
    assert listed["B1"] == words[verdict]
    assert listed["B2"] == "true until 2.1"
    assert listed["B3"] == "false"


def test_a_row_that_failed_decides_nothing(tree: Tree) -> None:
    tree.record("fact_check/planted", [case("B1", True), case("B1", False, status="failed", note="it broke")])
    html = render(page.claim("B1"))
    assert html.one("p", "ck-verdict").attributes["data-verdict"] == "true"
    assert "it broke" in html.text


def test_without_a_record_nothing_is_shown(tree: Tree) -> None:
    tree.snippet("fact_check/planted")
    assert "not shown here" in render(page.claims("blog")).text


def test_a_verdict_by_source_says_so(tree: Tree) -> None:
    html = render(page.claim("B3"))
    assert "by source" in html.text
    assert [a.attributes["href"] for a in html.all("a")] == [
        "https://example.org",
        "https://github.com/pytorch/pytorch/issues/6",
    ]


def test_a_judge_sees_every_version(tree: Tree) -> None:
    tree.record("fact_check/planted", [case("B1", True)])
    assert render(page.claim("B4")).one("p", "ck-verdict").attributes["data-verdict"] == "false"
    tree.record("fact_check/planted", [case("B1", True)], torch="2.14.1", beside=True)
    data._newest.cache_clear()
    assert render(page.claim("B4")).one("p", "ck-verdict").attributes["data-verdict"] == "true"


def test_the_pick_of_two_versions_is_compared() -> None:
    def picked(torch: str, variant: str, model: str = "mlp:build") -> Row:
        row = {"model": model, "workload": "inference", "variant": variant, "torch": torch, "steps": 10_000}
        return row | {"pick_cold": True, "status": "ok"}

    judge = judges.JUDGES["choice_changes"]
    assert judge([picked("2.13.0", "eager")]) == [], "one version is no comparison"
    same, other = judge(
        [picked("2.13.0", "eager"), picked("2.9.0", "eager"), picked("2.13.0", "a", "x"), picked("2.9.0", "b", "x")]
    )
    assert (same.agrees, other.agrees) == (False, True)
    assert other.seen == "2.9.0: b, 2.13.0: a"

    def judged(torch: str, verdict: str) -> Row:
        row = {"model": "x:build", "workload": "training", "variant": "inductor", "verdict": verdict, "torch": torch}
        return row | {"pick_cold": False, "status": "ok"}

    (turned,) = judge([judged("2.13.0", "slower"), judged("2.14.1", "faster")])
    assert (turned.tried, turned.agrees) == ("inductor(x, training)", True)
    (kept,) = judge([judged("2.13.0", "slower"), judged("2.14.1", "slower")])
    assert kept.agrees is False


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('verdict = "false"', "are computed"),
        ('verdict = "false"\nby = "source"', "needs sources"),
        ('judge = "no_judge"\nsnippet = "a/b"', "no judge 'no_judge'"),
        ("", "needs a snippet or a source"),
        ('snipet = "a/b"', "did you mean 'snippet'"),
        ('snippet = ["a/b"]', "snippet: write a text"),
        ('snippet = "a/b"\nsources = "pytorch#1"', "sources: write a list"),
        ('sources = ["x y"]', "[B1]: source 'x y'"),
        ('snippet = "a/b"\n\n[b1]\nen = "a"', "a capital letter and digits"),
    ],
)
def test_wrong_data_is_named(tree: Tree, more: str, said: str) -> None:
    text = '[B1]\nen = "a"\nzh = "b"\nwhere = {en = "c", zh = "d"}\n' + more
    (claims.FOLDER / "blog.toml").write_text(text)
    with pytest.raises(PageError, match=re.escape(said)):
        claims.load()


@pytest.mark.parametrize("where", ['"a post"', '{en = "a post"}'])
def test_where_it_is_said_is_told_in_both_languages(tree: Tree, where: str) -> None:
    (claims.FOLDER / "blog.toml").write_text(f'[B1]\nen = "a"\nzh = "b"\nsnippet = "a/b"\nwhere = {where}\n')
    with pytest.raises(PageError, match="where: write"):
        claims.load()


def test_rows_that_lack_a_column_decide_nothing_and_are_shown(tree: Tree) -> None:
    lacking = {key: value for key, value in case("B1", True).items() if key not in ("agrees", "seen")}
    tree.record("fact_check/planted", [lacking, case("B1", "False"), {"tried": "<i>no claim</i>"}])  # type: ignore[arg-type]
    html = render(page.claim("B1"))
    assert html.one("p", "ck-verdict").attributes["data-verdict"] == "not_shown"
    assert len(cells(html.one("table"))) == 2


def test_a_judge_that_cannot_read_the_records_is_named(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.record("fact_check/planted", [case("B1", True)])
    monkeypatch.setitem(judges.JUDGES, "planted_judge", lambda rows: [row["gone"] for row in rows])
    with pytest.raises(PageError, match=r"claim B4: its judge planted_judge can't read .*'gone'"):
        page.claim("B4")


def test_an_unknown_claim_or_page_is_told(tree: Tree) -> None:
    with pytest.raises(PageError, match="unknown claim 'B0'"):
        page.claim("B0")
    with pytest.raises(PageError, match="no claims"):
        page.claims("blogs")


def test_claims_are_loaded_as_objects() -> None:
    assert all(isinstance(one, Claim) for one in KNOWN.values())
