"""While serving, a page is converted again only where it, the records or the site's files have changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from kitchen import memory
from kitchen.hooks import repeat
from kitchen.page import state


class Page:
    """What the hook knows of a page: converting it gives its Markdown in capitals."""

    def __init__(self, markdown: str) -> None:
        self.markdown, self.url = markdown, "one/"
        self.content: str | None = None
        self.toc: list[str] = []
        self._title_from_render = ""
        self.present_anchor_ids: set[str] = set()
        self.links_to_anchors: dict[Any, dict[str, str]] | None = None
        self.converted = 0

    def convert(self) -> None:
        self.converted += 1
        self.content, self.toc, self._title_from_render = self.markdown.upper(), ["a"], "T"
        self.present_anchor_ids, self.links_to_anchors = {"x"}, {FILES.file: {"x": "two.md#x"}}


@dataclass(frozen=True)
class File:
    """A file by its path."""

    src_uri: str


class Files(list[Any]):
    """Two files; the same ones by their path."""

    file = File("two.md")

    def get_file_from_path(self, path: str) -> Any:
        return next((file for file in self if file.src_uri == path), None)


FILES = Files([Files.file, File("one.md")])


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeat, "_kept", {})
    monkeypatch.setattr(memory, "stamp", lambda: "files as they are")
    state.errors.clear()


def build(markdown: str, files: Files = FILES, code: str = "en") -> Page:
    page = Page(markdown)
    repeat.repeat(code, page, files, page.convert)  # type: ignore[arg-type]
    return page


def test_an_unchanged_page_is_what_it_was() -> None:
    first, second = build("text"), build("text")
    assert (first.converted, second.converted) == (1, 0)
    for name in ("content", "toc", "_title_from_render", "present_anchor_ids", "links_to_anchors"):
        assert getattr(second, name) == getattr(first, name)
    second.present_anchor_ids.add("added by a later hook")
    assert build("text").present_anchor_ids == {"x"}


@pytest.mark.parametrize("changed", ["markdown", "files", "records", "language"])
def test_what_has_changed_is_converted(changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build("text")
    if changed == "records":
        monkeypatch.setattr(memory, "stamp", lambda: "a new record")
    more = Files([*FILES, File("three.md")]) if changed == "files" else FILES
    page = build("other" if changed == "markdown" else "text", more, "zh" if changed == "language" else "en")
    assert page.converted == 1


def test_an_error_is_told_again() -> None:
    state.errors.append("docs/en/one.md:1: wrong")
    assert build("text").converted == 1
    assert build("text").converted == 1
    state.errors.clear()
    assert (build("text").converted, build("text").converted) == (1, 0)
