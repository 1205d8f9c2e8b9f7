"""Where the page functions stand: which page is being built, in which language, and what went wrong on it.

The site's hook calls :meth:`State.begin` before a page's Markdown is converted and reads :attr:`State.errors`
after it. Everything that a page function needs to know about the page is here; nothing else is global.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")

#: The repository. Paths in messages are given relative to it.
ROOT = Path(__file__).resolve().parent.parent


class PageError(ValueError):
    """A page asked for something that is not there. The message says what to write.

    ``placed``: the message already starts with ``file:line:``.
    """

    def __init__(self, message: str, *, placed: bool = False) -> None:
        super().__init__(message)
        self.placed = placed


def language_of(code: str) -> Language:
    """``"zh-Hans"`` and the like to one of ours; PageError where we have no such language."""
    short = code.lower().replace("_", "-").split("-")[0]
    for language in LANGUAGES:
        if language == short:
            return language
    raise PageError(f"no language {code!r}: the labels are in {', '.join(LANGUAGES)}")


@dataclass
class State:
    """The page being built.

    ``source`` is the page's file; ``url`` its address relative to the language's site (``"overview/"``);
    ``markdown`` its text as the hook got it; ``errors`` one line for each fault, ``file:line: message``.
    """

    language: Language = "en"
    source: Path = field(default_factory=Path)
    url: str = ""
    markdown: str = ""
    errors: list[str] = field(default_factory=list)
    #: The ids of code blocks seen on this page, by their text: tells the second of two equal fences.
    blocks: dict[str, list[str]] = field(default_factory=dict)
    #: The text of the call that is being run for a notebook: it finds the line where no fence does.
    spec: str | None = None
    _ids: int = 0

    def begin(self, *, language: str, source: Path, url: str, markdown: str) -> None:
        """Starts a page. Errors of earlier pages stay, so that one build names them all."""
        self.language = language_of(language)
        self.source = source
        self.url = url
        self.markdown = markdown
        self.blocks = {}
        self._ids = 0

    @property
    def root_url(self) -> str:
        """From this page to the root of the site, above the languages: ``"../../"`` for ``overview/``."""
        return "../" * (self.url.count("/") + 1)

    def next_id(self, stem: str) -> str:
        """An id that no other element of this page has: ``ck-chart-3``."""
        self._ids += 1
        return f"ck-{stem}-{self._ids}"

    def shown_source(self) -> str:
        """The page's file for a message, relative to the repository where it is in it."""
        try:
            return self.source.resolve().relative_to(ROOT).as_posix()
        except ValueError:
            return self.source.as_posix()


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """``": did you mean 'x'?"`` where something is near, else a list of what there is."""
    names = sorted(set(known))
    near = difflib.get_close_matches(wrong, names, n=1, cutoff=0.6)
    if near:
        return f": did you mean {near[0]!r}?"
    return f"; there are: {', '.join(names)}" if names else "; there are none"


state = State()
