"""The theme's search index takes apart only pages that have changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

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
