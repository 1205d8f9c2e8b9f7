"""The glossary page: docs/terms.toml as a list of definitions in the page's language."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from kitchen import labels
from kitchen.context import LANGUAGES, ROOT, PageError, State
from kitchen.format import escape, escape_words

TERMS = ROOT / "docs" / "terms.toml"
_KEYS = ("id", "en", "zh", "en_text", "zh_text")
_TAGS = {"en": "en", "zh": "zh-Hans"}


def load(path: Path | None = None) -> list[dict[str, Any]]:
    """The terms, in the file's order. PageError names the term and key at fault."""
    path = path or TERMS
    try:
        with path.open("rb") as file:
            found = tomllib.load(file).get("term", [])
    except OSError as error:
        raise PageError(f"docs/{path.name} cannot be read: {error.strerror or error}") from error
    except tomllib.TOMLDecodeError as error:
        raise PageError(f"docs/{path.name}: {error}") from error
    seen: set[str] = set()
    for index, term in enumerate(found, 1):
        for key in _KEYS:
            if not isinstance(term.get(key), str) or not term[key].strip():
                raise PageError(f"docs/{path.name}: term {index} ({term.get('id', '?')}): {key} is missing or empty")
        if not re.fullmatch(r"[a-z0-9-]+", term["id"]):
            raise PageError(f"docs/{path.name}: term {index}: id {term['id']!r} wants lower case, digits and hyphens")
        if term["id"] in seen:
            raise PageError(f"docs/{path.name}: id {term['id']!r} stands twice")
        seen.add(term["id"])
    return list(found)


def glossary(state: State) -> str:
    """See kitchen.page.glossary. Sorted by the English term, or by id where the page is Chinese."""
    language = state.language
    other = next(code for code in LANGUAGES if code != language)
    found = load()
    found.sort(key=lambda term: term["en"].casefold() if language == "en" else term["id"])
    lines = ['<dl class="ck-glossary">']
    for term in found:
        translation = f'<span class="muted" lang="{_TAGS[other]}">{escape(term[other])}</span>'
        # Where both languages say it the same way, once is enough.
        shown = "" if term[other] == term[language] else f" {translation}"
        lines.append(f'<dt id="{term["id"]}"><dfn>{escape(term[language])}</dfn>{shown}</dt>')
        avoided = term.get(f"avoid_{language}", [])
        not_these = ""
        if avoided:
            words = escape(labels.message("chart_sep", language).join(avoided))
            not_these = f' <small class="muted">{labels.message("g_avoid", language, words=words)}</small>'
        lines.append(f"<dd>{escape_words(term[f'{language}_text'])}{not_these}</dd>")
    return "\n" + "\n".join([*lines, "</dl>"]) + "\n"
