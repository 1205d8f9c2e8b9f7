"""The theme's search index takes apart only pages that have changed; its worker is mended, or the build says so."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mkdocs.exceptions import PluginError

from kitchen.hooks import search


class Index:
    """What the hook knows of the theme's index."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.taken_apart: list[str] = []

    def add_entry_from_context(self, page: Any) -> None:
        self.taken_apart.append(page.url)
        self.entries += [{"location": page.url, "text": word} for word in page.content.split()]


def _build(*pages: tuple[str, str], code: str = "en", meta: dict[str, Any] | None = None) -> Index:
    index = Index()
    search.remember(index, code)
    for url, content in pages:
        index.add_entry_from_context(SimpleNamespace(url=url, content=content, title="t", meta=meta or {}))
    return index


def test_only_a_changed_page_is_taken_apart_and_the_entries_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_kept", {})
    first = _build(("a/", "one two"), ("b/", "three"))
    assert first.taken_apart == ["a/", "b/"]
    first.entries[0]["text"] = "changed later by the theme"
    second = _build(("a/", "one two"), ("b/", "three four"))
    assert second.taken_apart == ["b/"]
    assert [entry["text"] for entry in second.entries] == ["one", "two", "three", "four"]
    assert _build(("a/", "one two"), code="zh").taken_apart == ["a/"]
    assert _build(("a/", "one two"), meta={"search": {"boost": 2}}).taken_apart == ["a/"]


def _built(tmp_path: Path, *mends: search.Mend) -> tuple[Any, dict[str, Path]]:
    """A site with the theme's scripts, in which only what these mend is left."""
    folder = tmp_path / "assets/javascripts"
    (folder / "workers").mkdir(parents=True)
    paths = {mend.script: folder / mend.script.replace("*", "0123") for mend in search.MENDED}
    for script, path in paths.items():
        path.write_text("".join(f"/**/{mend.wrong}" for mend in mends if mend.script == script), "utf-8")
    return SimpleNamespace(site_dir=str(tmp_path), theme={"language": "en"}, extra={}), paths


def test_the_scripts_are_mended_at_every_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "is_root", lambda config: False)
    config, paths = _built(tmp_path, *search.MENDED)
    search.on_post_build(config)
    for script, path in paths.items():
        expected = "".join(f"/**/{mend.right}" for mend in search.MENDED if mend.script == script)
        assert path.read_text("utf-8") == expected


@pytest.mark.parametrize("missing", search.MENDED, ids=lambda mend: mend.seen)
def test_a_script_that_has_changed_stops_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: search.Mend
) -> None:
    monkeypatch.setattr(search, "is_root", lambda config: False)
    config, paths = _built(tmp_path, *(mend for mend in search.MENDED if mend is not missing))
    before = {path: path.read_text("utf-8") for path in paths.values()}
    with pytest.raises(PluginError, match=r"kitchen/hooks/search\.py") as raised:
        search.on_post_build(config)
    assert missing.seen in str(raised.value)
    assert {path: path.read_text("utf-8") for path in paths.values()} == before
