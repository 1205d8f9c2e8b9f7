"""The words of the pages: every column, value, note and message in English and Chinese.

They stand in labels.toml and, for a chapter that has many words of its own, in labels/<chapter>.toml; together they are
one list, in which a word stands once.

A column without a label is shown by its own name, with the unit that its name ends in: a record from a newer
snippet still shows. The tests hold the real records to full labels.
"""

from __future__ import annotations

import re
import time
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kitchen.context import Language, PageError, did_you_mean
from kitchen.format import escape

LABELS = Path(__file__).with_name("labels.toml")
#: One file a chapter, with the same tables as labels.toml.
CHAPTERS = Path(__file__).with_name("labels")
#: The files with their times, as one key: a change of any of them is read again.
Files = tuple[tuple[Path, int], ...]

#: Column name endings and the unit they mean (the snippet contract: units in the key).
SUFFIXES = ("ns", "us", "ms", "s", "kib", "mib", "gib", "gbs", "ratio", "percent")

#: A blank that a Chinese sentence keeps beside Latin words has no place between two Chinese characters or signs.
_CHINESE = "\u3000-\u303f\u4e00-\u9fff\uff00-\uffef"
_CHINESE_GAP = re.compile(rf"(?<=[{_CHINESE}]) +(?=[{_CHINESE}])|(?<=[，。：；、）]) +|(?<=\S) +(?=[，。：；、（])")
#: A word of English, not a name such as torch.compile or g++.
_LOWER_WORD = re.compile(r"[a-z]+(?:[ ,:;]|$)")


@dataclass(frozen=True)
class Column:
    """One column: its words in the language asked for, and how its values are shown.

    ``unit`` is one of kitchen.format.LADDERS; ``format`` is number, integer, count, scientific, text or code;
    ``spread`` names the columns of the lower and upper end; ``best`` is ``min``, ``max`` or empty.
    """

    name: str
    label: str
    meaning: str
    unit: str
    format: str
    spread: tuple[str, str] | None
    best: str
    labelled: bool
    per_cell: bool = False


#: The files are looked at again after so many seconds: a page asks for thousands of words.
FRESH_S = 0.2
_looked: tuple[float, Files] = (float("-inf"), ())


def _files() -> Files:
    global _looked
    now = time.monotonic()
    if now - _looked[0] > FRESH_S:
        _looked = now, tuple((path, path.stat().st_mtime_ns) for path in (LABELS, *sorted(CHAPTERS.glob("*.toml"))))
    return _looked[1]


@lru_cache(maxsize=4)
def _read(files: Files) -> dict[str, Any]:
    whole: dict[str, Any] = {"columns": {}, "values": {}, "messages": {}, "notes": []}
    for path, _ in files:
        with path.open("rb") as file:
            part = tomllib.load(file)
        whole["notes"] += part.pop("notes", [])
        # A column's values may be spread over several files, each with words of its own.
        for column, words in part.pop("values", {}).items():
            _add(whole["values"].setdefault(column, {}), words, f"{path.name}: [values.{column}]")
        for group, entries in part.items():
            if group not in whole:
                raise PageError(f"{path.name}: there is no table [{group}]{did_you_mean(group, whole)}")
            _add(whole[group], entries, f"{path.name}: [{group}]")
    return whole


def _add(known: dict[str, Any], more: dict[str, Any], place: str) -> None:
    if twice := sorted(known.keys() & more.keys()):
        raise PageError(f"{place} says again what another file says: {', '.join(twice)}")
    known |= more


@lru_cache(maxsize=4)
def _borrowed(files: Files) -> dict[str, str]:
    """Column names whose values have the words of another column, whichever snippet they stand under."""
    columns = _read(files)["columns"]
    return {key.rpartition(".")[2]: entry["words"] for key, entry in columns.items() if "words" in entry}


def data() -> dict[str, Any]:
    """The labels as they stand now (read again when a file changes, so that serving shows an edit)."""
    return _read(_files())


def _suffix_unit(name: str) -> str:
    for suffix in SUFFIXES:
        if name.endswith(f"_{suffix}"):
            return suffix
    return ""


def column(name: str, language: Language, snippet: str = "") -> Column:
    """The column's words and format. ``"inductor/fusion.n"`` in labels.toml goes before ``n`` for that snippet."""
    columns = data()["columns"]
    entry = columns.get(f"{snippet}.{name}") or columns.get(name)
    if entry is None:
        return Column(name, name, "", _suffix_unit(name), "", None, "", labelled=False)
    spread = entry.get("spread")
    return Column(
        name=name,
        label=entry[language],
        meaning=entry[f"{language}_meaning"],
        unit=entry.get("unit", _suffix_unit(name)),
        format=entry.get("format", ""),
        spread=(spread[0], spread[1]) if spread else None,
        best=entry.get("best", ""),
        labelled=True,
        per_cell=entry.get("per_cell", False),
    )


def is_spread_end(name: str, snippet: str, columns: set[str]) -> bool:
    """True where ``name`` is the lower or upper end of another column in ``columns``."""
    return any(name in spread for other in columns if (spread := column(other, "en", snippet).spread) and other != name)


def text_value(column_name: str, value: str, language: Language) -> str:
    """A text value of a record in the page's words, or as it is. Not yet escaped."""
    found = data()
    words = _borrowed(_files()).get(column_name, column_name)
    values = found["values"]
    # Its own words go first: "outcome" of one snippet borrows, that of another may not.
    entry = values.get(column_name, {}).get(value) or values.get(words, {}).get(value)
    if entry is not None:
        return str(entry[language])
    return note(value, language)


def is_name(column_name: str, value: str, language: Language) -> bool:
    """True where a text value stands in code: it has no words of ours, or ours are a name too (``code = true``)."""
    if text_value(column_name, value, language) == value:
        return True
    return bool(data()["values"].get(column_name, {}).get(value, {}).get("code"))


def note(value: str, language: Language) -> str:
    """A note of a record in the page's words where we know it, else as it is; a list of notes part by part.

    Not yet escaped.
    """
    if (whole := _known_note(value, language)) is not None:
        return whole
    for separator, chinese in ((" | ", " | "), ("; ", "；")):
        parts = value.split(separator)
        words = [_known_note(part, language) for part in parts]
        if len(parts) > 1 and any(word is not None for word in words):
            joined = [word or part for word, part in zip(words, parts, strict=True)]
            return (chinese if language == "zh" else separator).join(joined)
    return value


def _known_note(value: str, language: Language) -> str | None:
    return _note_of(value, language, _files())


@lru_cache(maxsize=4096)
def _note_of(value: str, language: Language, files: Files) -> str | None:
    notes = _read(files)["notes"]
    return next((filled(entry[language], m) for entry in notes if (m := _whole(entry["pattern"], value))), None)


def _whole(pattern: str, value: str) -> re.Match[str] | None:
    return re.fullmatch(pattern, value, re.DOTALL)


def filled(words: str, match: re.Match[str]) -> str:
    """Words with ``{1}``, ``{2}`` … replaced by the groups of a match."""
    for index, group in enumerate(match.groups(), start=1):
        words = words.replace(f"{{{index}}}", group or "")
    return words


def sentence(words: str, language: Language) -> str:
    """A note made to stand as a sentence of its own: a capital letter where it begins with a word, and a full stop.

    A name at the beginning (``torch.compile``, ``g++``) is left as it is written.
    """
    if _LOWER_WORD.match(words):
        words = words[0].upper() + words[1:]
    if not words or words[-1] in ".!?…。！？":
        return words
    return words + ("。" if language == "zh" and re.search(f"[{_CHINESE}]", words) else ".")


def message(key: str, language: Language, *, count: int | None = None, **params: str) -> str:
    """A sentence of ours with ``params`` filled in.

    ``params`` stand in the page as they are: escape what comes from a record. ``count`` == 1 takes the
    singular where the language has one.
    """
    messages = data()["messages"]
    if key not in messages:
        raise PageError(f"labels.toml has no message {key!r}{did_you_mean(key, messages)}")
    entry = messages[key]
    words: str = entry.get(f"{language}_one", entry[language]) if count == 1 else entry[language]
    filled = words.format(**params)
    return _CHINESE_GAP.sub("", filled) if language == "zh" else filled


def listing(items: list[str], language: Language) -> str:
    """``a, b and c``; ``a、b 和 c``."""
    if len(items) < 2:
        return "".join(items)
    comma, last = (", ", " and ") if language == "en" else ("、", " 和 " if items[-1].endswith(">") else "和")
    return comma.join(items[:-1]) + last + items[-1]


def name_of(column_name: str, value: object, language: Language) -> str:
    """A value of a record as a name in a sentence: translated and escaped."""
    found = data()
    words = found["columns"].get(column_name, {}).get("words", column_name)
    entry = found["values"].get(words, {}).get(str(value), {})
    name = entry.get(f"{language}_name")
    return escape(name if name is not None else text_value(column_name, str(value), language))
