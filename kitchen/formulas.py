"""The formulas and their terms, from formulas.toml, with each term's value on each machine."""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

from kitchen import blocks, data, excerpts, labels
from kitchen.context import Language, PageError, State, did_you_mean
from kitchen.data import Row, View
from kitchen.format import escape, escape_words

FORMULAS = Path(__file__).with_name("formulas.toml")
_TERM = re.compile(r"@([a-z]+)")


@lru_cache(maxsize=2)
def _read(path: Path, mtime_ns: int) -> dict[str, Any]:
    with path.open("rb") as file:
        return tomllib.load(file)


def get(name: str) -> dict[str, Any]:
    """One formula's entry; PageError with a suggestion where there is none."""
    found = _read(FORMULAS, FORMULAS.stat().st_mtime_ns)
    if name not in found:
        raise PageError(f"unknown formula {name!r}{did_you_mean(name, found)}")
    entry: dict[str, Any] = found[name]
    return entry


def names() -> list[str]:
    """Every formula."""
    return list(_read(FORMULAS, FORMULAS.stat().st_mtime_ns))


def snippets_of(name: str) -> list[str]:
    """The snippets that measure a formula's terms."""
    return list(dict.fromkeys(term["snippet"] for term in get(name)["term"] if "snippet" in term))


def tex(name: str) -> str:
    r"""The formula, each symbol in ``\class{term-…}{…}`` so that a script can light it up."""
    entry = get(name)
    symbols = {term["id"]: term["symbol"] for term in entry["term"]}

    def symbol(match: re.Match[str]) -> str:
        if match.group(1) not in symbols:
            raise PageError(f"formulas.toml: {name}: @{match.group(1)} is no term of it")
        return rf"\class{{term-{match.group(1)}}}{{{symbols[match.group(1)]}}}"

    return _TERM.sub(symbol, entry["tex"])


def formula(state: State, name: str) -> str:
    """See kitchen.page.formula."""
    return f'\n<div class="arithmatex" data-formula="{escape(name)}">\\[{escape(tex(name))}\\]</div>\n'


def _row_of(term: dict[str, Any], rows: list[Row]) -> Row | None:
    """The row with the term's value: the first that matches (or the last, where the term says so) and has it."""
    column = term["column"]
    found = [
        row
        for row in data.select(rows, term.get("where"))
        if data.row_ok(row) and data.numeric(row.get(column)) is not None
    ]
    if not found:
        return None
    return found[-1] if term.get("pick") == "last" else found[0]


def _value(term: dict[str, Any], view: View | None, language: Language) -> str:
    not_recorded = f'<span class="muted">{labels.message("t_not_recorded", language)}</span>'
    if "snippet" not in term or view is None:
        return not_recorded
    if not view.ok:
        return blocks.status_badge(view.record.status, language)
    row = _row_of(term, view.record.rows)
    if row is None:
        # "Never" and "unavailable" are answers too, and say more than "no record".
        for candidate in data.select(view.record.rows, term.get("where")):
            if not data.row_ok(candidate):
                return blocks.status_badge(str(candidate["status"]), language)
            if term["column"] == "break_even" and candidate.get("break_even_text"):
                return labels.name_of("break_even_text", candidate["break_even_text"], language)
            if term["column"] == "payoff_r" and candidate.get("verdict") == "no difference":
                return labels.name_of("verdict", candidate["verdict"], language)
        return not_recorded
    value = data.numeric(row[term["column"]])
    assert value is not None
    return excerpts.inline_number(labels.column(term["column"], language, term["snippet"]), value)


def _measured_in(state: State, term: dict[str, Any]) -> str:
    language = state.language
    words = escape_words(term.get(f"where_{language}", ""))
    if "snippet" not in term:
        return f'<span class="muted">{labels.message("t_not_recorded", language)}</span>'
    link = f'<a href="{blocks.snippet_url(state, term["snippet"])}"><code>{escape(term["snippet"])}</code></a>'
    return f"{link}<br><small>{words}</small>" if words else link


def terms(state: State, name: str) -> str:
    """See kitchen.page.terms."""
    entry = get(name)
    language = state.language
    shown = {snippet: {v.machine.name: v for v in data.views(snippet)} for snippet in snippets_of(name)}
    for snippet, views in shown.items():
        wanted = [term["column"] for term in entry["term"] if term.get("snippet") == snippet]
        data.check_columns(snippet, list(views.values()), wanted)
    rooms = [m for m in data.machines().values() if any(m.name in views for views in shown.values())]

    def table(machine: str | None) -> str:
        region = labels.message("t_region", language)
        heads = [labels.message(f"t_{key}", language) for key in ("symbol", "meaning", "value", "measured")]
        columns_css = ("", "", ' class="num"', "")
        lines = [
            f'<div class="ck-scroll" tabindex="0" role="region" aria-label="{escape(region)}">',
            f'<table class="ck-table ck-terms" data-formula="{escape(name)}">',
            "<thead>",
            "<tr>"
            + "".join(f'<th scope="col"{css}>{escape(head)}</th>' for head, css in zip(heads, columns_css, strict=True))
            + "</tr>",
            "</thead>",
            "<tbody>",
        ]
        for term in entry["term"]:
            view = shown[term["snippet"]].get(machine) if machine and "snippet" in term else None
            lines.append(
                f'<tr data-term="term-{escape(term["id"])}" tabindex="0">'
                f'<th scope="row"><span class="arithmatex">\\({escape(term["symbol"])}\\)</span></th>'
                f"<td>{escape_words(term[language])}</td>"
                f'<td class="num">{_value(term, view, language)}</td>'
                f"<td>{_measured_in(state, term)}</td></tr>"
            )
        return "\n".join([*lines, "</tbody>", "</table>", "</div>"])

    if not rooms:
        missing = "".join(blocks.not_recorded(state, snippet) for snippet in snippets_of(name))
        return f"\n{table(None)}\n{missing}"
    parts = []
    for room in rooms:
        lines = [blocks.provenance(state, views[room.name]) for views in shown.values() if room.name in views]
        parts.append((room.title, "\n\n".join([table(room.name), *lines])))
    return "\n" + blocks.tabs(parts)
