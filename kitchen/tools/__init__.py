"""The interactive tools: what each shows is made here from the records, and its page draws it.

A tool is three things of one name: ``kitchen/tools/<name>.py`` with ``payload(language)`` (what the page's script
gets), ``kitchen/tools/<name>.toml`` with its words in both languages, and ``docs/assets/js/tools/<name>/view.js``
with ``mount(element, payload)``. The hook writes each payload to ``<language>/tools/data/<name>.json``; a tool may
add files of its own beside it, which its script fetches when a reader asks for them.
"""

from __future__ import annotations

import importlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from kitchen.context import Language, PageError, State, did_you_mean
from kitchen.format import escape

HERE = Path(__file__).parent
Json = Mapping[str, Any]


@dataclass(frozen=True)
class Payload:
    """``data`` goes into the tool's own file; ``files`` are more, by name without folder or ending."""

    data: Json
    files: Mapping[str, Json] = field(default_factory=dict)


def names() -> list[str]:
    """Every tool that there is."""
    return sorted(path.stem for path in HERE.glob("*.toml"))


@lru_cache(maxsize=16)
def _read_words(path: Path, mtime_ns: int) -> dict[str, dict[str, str]]:
    with path.open("rb") as file:
        found: dict[str, dict[str, str]] = tomllib.load(file)["words"]
    return found


def words(name: str, language: Language) -> dict[str, str]:
    """The words of a tool in one language, by key."""
    path = HERE / f"{name}.toml"
    entries = _read_words(path, path.stat().st_mtime_ns)
    missing = [key for key, entry in entries.items() if language not in entry]
    if missing:
        raise PageError(f"{path.name}: no {language} words for {', '.join(missing)}")
    return {key: entry[language] for key, entry in entries.items()}


def files(name: str, language: Language) -> dict[str, str]:
    """The JSON files of a tool by their names: its own first, with ``words`` and ``language`` added."""
    module = importlib.import_module(f"kitchen.tools.{name}")
    payload: Payload = module.payload(language)
    own = {"language": language, "words": words(name, language), **payload.data}
    parts = {name: own, **{f"{name}-{key}": part for key, part in payload.files.items()}}
    return {
        key: json.dumps(part, ensure_ascii=False, allow_nan=False, separators=(",", ":")) for key, part in parts.items()
    }


def render(state: State, name: str) -> str:
    """The place of a tool on its page: its styles, where its data lies, and what stands there without a script."""
    if name not in names():
        raise PageError(f"unknown tool {name!r}{did_you_mean(name, names())}")
    root = state.root_url
    above = "../" * state.url.removeprefix("tools/").count("/")
    told = words(name, state.language)
    styles = "".join(f'<link rel="stylesheet" href="{root}assets/css/tools/{sheet}.css">' for sheet in ("common", name))
    return (
        f'\n<section class="ck-tool ck-tool--{name}" data-ck-tool="{name}" data-ck-source="{above}data/{name}.json"'
        f' aria-label="{escape(told["title"])}">{styles}'
        f'<p class="ck-tool__waiting">{escape(told["waiting"])}</p>'
        f"<noscript><p>{escape(told['without_script'])}</p></noscript>"
        "</section>\n"
    )
