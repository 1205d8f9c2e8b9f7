"""Every snippet has a page in both languages, a test and a fresh record; every record has a snippet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kitchen import claims, problems, results, snippet

REPO = Path(__file__).resolve().parent.parent
#: The machine whose records must be up to date with the snippets; others may lag behind and get a badge.
REFERENCE = "amd-epyc-turin-2vcpu"
SNIPPETS = snippet.load_all(REPO / "snippets")


def pages(language: str) -> str:
    """The text of all pages of one language; of notebooks, the cells."""
    texts = []
    for path in sorted((REPO / "docs" / language).rglob("*")):
        if path.suffix == ".md":
            texts.append(path.read_text("utf-8"))
        elif path.suffix == ".ipynb":
            cells = json.loads(path.read_text("utf-8"))["cells"]
            texts += ["".join(cell["source"]) for cell in cells]
    return "\n".join(texts)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", sorted(SNIPPETS))
def test_every_snippet_is_shown(name: str, language: str) -> None:
    shown = pages(language)
    # A problem's section names it by the problem; a claim's section by the claim.
    ways = [f'problem("{one.id}")' for one in problems.load().values() if one.snippet == name]
    ways += [f'claim("{one.id}")' for one in claims.load().values() if one.snippet == name]
    assert any(way in shown for way in (name, *ways)), f"no page of docs/{language} shows {name}"


@pytest.mark.parametrize("name", sorted(SNIPPETS))
def test_every_snippet_is_tested(name: str) -> None:
    if name in {one.snippet for one in problems.load().values()}:
        return  # tests/test_problems.py runs each of them
    tests = [p.read_text("utf-8") for p in (REPO / "tests").rglob("test_*.py") if p != Path(__file__)]
    assert any(name in text for text in tests), f"no test names {name}"


@pytest.mark.parametrize("name", sorted(SNIPPETS))
def test_the_reference_machine_has_a_fresh_record(name: str) -> None:
    record = results.newest(REPO / "results", name).get(REFERENCE)
    assert record is not None, f"record it: make measure ARGS='--only {name}'"
    if record.status == "unavailable" and "cuda" in SNIPPETS[name].needs:
        assert "CUDA" in (record.reason or "")  # this machine has no GPU: the page says so, and shows no number
    else:
        assert record.status == "ok", record.reason
    assert not results.is_stale(record, SNIPPETS[name]), (
        f"{name} has changed since {record.started}: make measure ARGS='--only {name}'"
    )


def test_every_record_has_a_snippet() -> None:
    orphans = {r.snippet for r in results.load_records(REPO / "results")} - set(SNIPPETS)
    assert not orphans


def test_records_of_the_reference_machine_were_made_from_a_commit() -> None:
    for record in results.load_records(REPO / "results"):
        if record.machine != REFERENCE:
            continue  # a borrowed machine may have the files without git
        assert record.run.git_commit, f"{record.path} does not say from which commit it was made"
        assert record.run.git_dirty is False, f"{record.path} was made from uncommitted code"
