"""A snippet's rows as an HTML table in the page's language."""

from __future__ import annotations

import html
import math
import re
from typing import Any

from kitchen import blocks, data, groups, labels
from kitchen.context import Language, State
from kitchen.data import Row, Where
from kitchen.format import (
    DASH,
    Scale,
    count,
    decimals,
    escape,
    escape_code,
    number,
    scale_of,
    scientific,
    shared_scale,
    text_em,
    with_unit,
)
from kitchen.labels import Column

#: A text longer than this is no table cell; the default columns leave such a column out.
LONG = 200
#: A word among others that is longer than this is broken at the signs inside it.
LONG_WORD = 24

#: Widths in rem, as the style sheet has them: what the article holds between the side columns at 1280 px, the padding
#: of a cell, and the size of a text, of a head (bold) and of a spread.
ROOM, PADDING, TEXT, HEAD, SMALL = 36.6, 0.75, 0.7, 0.66, 0.58
#: How much wider bold text runs.
BOLD = 1.08
#: The least width of a text column, the same for sentences, and from which width on its texts are sentences.
PHRASE, SENTENCE, PROSE = 6.6, 9.0, 16.0
#: From this many columns on a table is set dense: what is set in it needs so much less, and so does a phrase.
MANY, DENSE, DENSE_PHRASE = 8, 0.9, 3.7


def default_columns(name: str, rows: list[Row], language: Language) -> list[str]:
    """Every column worth a place: no samples, no ends of a spread, nothing that is empty or long in all rows."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    present = set(names)
    kinds = {row.get("kind") for row in rows}
    chosen = []
    for column in names:
        values = [row.get(column) for row in rows]
        if column.startswith("samples_") or labels.is_spread_end(column, name, present):
            continue
        if column == "kind" and len(kinds) == 1:
            continue
        # Where all is well, the status says nothing; where not, the row carries a badge and its reason.
        if column in ("status", "note") or all(value is None for value in values):
            continue
        if any(isinstance(v, str) and (len(v) > LONG or "\n" in v) for v in values):
            continue
        chosen.append(column)
    return chosen


def sorted_rows(rows: list[Row], sort: str | None) -> list[Row]:
    """By one column, ``-`` before it for descending; rows without the value keep their order at the end."""
    if not sort:
        return rows
    name, descending = sort.removeprefix("-"), sort.startswith("-")
    with_value = [row for row in rows if row.get(name) is not None and data.row_ok(row)]
    without = [row for row in rows if not (row.get(name) is not None and data.row_ok(row))]
    numbers = all(data.numeric(row[name]) is not None for row in with_value)
    ordered = sorted(with_value, key=lambda row: row[name] if numbers else str(row[name]), reverse=descending)
    return ordered + without


def _ends(column: Column, row: Row) -> tuple[float, float] | None:
    if column.spread is None:
        return None
    low, high = (data.numeric(row.get(name)) for name in column.spread)
    if column.name.startswith("break_even") and low is not None and high is None:
        # A saving that may be as good as nothing may take any number of steps: the interval is open upwards.
        return low, math.inf
    return None if low is None or high is None else (low, high)


def best_row(column: Column, rows: list[Row]) -> int | None:
    """The row with the best value, or None where its spread overlaps another's: then nothing is best."""
    known, compared = [], 0
    for index, row in enumerate(rows):
        value = data.numeric(row.get(column.name)) if data.row_ok(row) else None
        if value is None:
            continue
        compared += 1
        if row.get("verdict") in ("slower", "no difference"):
            continue  # what the measurement itself calls no better is never praised
        low, high = _ends(column, row) or (value, value)
        known.append((low, high, index) if column.best == "min" else (-high, -low, index))
    if not column.best or not known or compared < 2:
        return None
    known.sort()
    end, index = known[0][1:]
    return index if len(known) == 1 or end < known[1][0] else None


def best_rows(column: Column, rows: list[Row]) -> set[int]:
    """The best row of each model and workload: a step of one says nothing about a step of another."""
    groups_: dict[tuple[Any, Any], list[int]] = {}
    for index, row in enumerate(rows):
        groups_.setdefault((row.get("model"), row.get("workload")), []).append(index)
    found = set()
    for members in groups_.values():
        best = best_row(column, [rows[index] for index in members])
        if best is not None:
            found.add(members[best])
    return found


def _scale(column: Column, rows: list[Row]) -> Scale | None:
    numbers: list[float] = []
    for row in rows:
        value = data.numeric(row.get(column.name))
        if value is not None and data.row_ok(row):
            numbers.append(value)
    if column.per_cell:
        return None
    return shared_scale(numbers, column.unit)


def format_number(column: Column, value: float, scale: Scale | None) -> str:
    """A value of a column, without its unit where the column shares one."""
    if column.format == "scientific":
        return scientific(value)
    if column.format == "count":
        return count(value)
    if column.format == "integer" or (isinstance(value, int) and column.unit == ""):
        return number(round(value))
    own = scale or scale_of(value, column.unit)
    shown = number(float(value) * own.factor)
    # A ratio carries its sign in each cell: a bare 1.32 reads as anything.
    return shown if scale and own.symbol != "×" else with_unit(shown, own.symbol)


def number_cell(column: Column, row: Row, scale: Scale | None) -> str:
    """A number with its spread, low–high, in small print under it."""
    value = data.numeric(row.get(column.name))
    assert value is not None
    shown = format_number(column, value, scale)
    ends = _ends(column, row)
    if ends is None or column.format in ("integer", "scientific"):
        return shown
    own = scale or scale_of(value, column.unit)
    if ends == (value, value):
        return shown
    places = decimals(value * own.factor)
    whole = column.format == "count"
    low, high = ("∞" if math.isinf(end) else count(end) if whole else number(end * own.factor, places) for end in ends)
    return f'{shown}<br><small class="ck-spread">{low}{DASH}{high}</small>'


def text_cell(column: Column, value: Any, language: Language) -> str:
    """A text or truth value. Names of back ends and calls are code; a value with a translation is words."""
    if isinstance(value, bool):
        return "✓" if value else "✗"
    if isinstance(value, list):
        return escape(", ".join(str(v) for v in value[:8]) + (" …" if len(value) > 8 else ""))
    if not str(value).strip():
        return ""  # no frame for code around nothing
    shown = labels.text_value(column.name, str(value), language)
    named = column.format == "code" and labels.is_name(column.name, str(value), language)
    if named:
        return f"<code>{escape_code(shown)}</code>"
    # A name among words is broken at its signs too.
    return escape_code(shown) if max(map(len, shown.split()), default=0) > LONG_WORD else escape(shown)


def cell(column: Column, row: Row, scale: Scale | None, best: bool, language: Language) -> str:
    """One data cell of a row that is ok."""
    value = row.get(column.name)
    if column.name == "status" and isinstance(value, str):
        return f"<td>{blocks.status_badge(value, language)}</td>"
    if value is None and column.name.startswith("break_even") and row.get("break_even_text"):
        # No count is not a gap in the measurement: the record says "never".
        return f'<td class="num words">{labels.name_of("break_even_text", row["break_even_text"], language)}</td>'
    if value is None and column.name.startswith("payoff_") and row.get("verdict") == "no difference":
        # It was measured: the saving is inside the noise, and noise times N is no payoff.
        return f'<td class="num words">{labels.name_of("verdict", row["verdict"], language)}</td>'
    if value is None:
        css = "muted" if column.format in ("text", "code") else "num muted"
        return f'<td class="{css}">{blocks.missing(language)}</td>'
    if data.numeric(value) is not None:
        css = "num best" if best else "num"
        return f'<td class="{css}">{number_cell(column, row, scale)}</td>'
    return f"<td>{text_cell(column, value, language)}</td>"


def _row_header(column: Column, row: Row, scale: Scale | None, language: Language, *, rows: int = 1) -> str:
    value = row.get(column.name)
    if value is None:
        shown = blocks.missing(language)
    elif data.numeric(value) is not None:
        shown = number_cell(column, row, scale)
    else:
        shown = text_cell(column, value, language)
    mark = f' data-backend="{escape(value)}"' if column.name in ("backend", "other", "variant") else ""
    span = f' rowspan="{rows}"' if rows > 1 else ""
    return f'<th scope="row"{span}{mark}>{shown}</th>'


def _broken_row(columns: list[Column], row: Row, language: Language) -> str:
    """A row that is not ok: its leading texts, then one wide cell with the badge and the reason."""
    cells = []
    rest = list(columns)
    while rest and rest[0].name not in ("status", "note") and isinstance(row.get(rest[0].name), str):
        cells.append(f"<td>{text_cell(rest[0], row[rest[0].name], language)}</td>")
        rest.pop(0)
    reason = row.get("note") or row.get("reason")
    words = labels.note(str(reason), language) if reason else labels.message("no_reason", language)
    told = f"{blocks.status_badge(str(row['status']), language)} {escape(words)}"
    if rest:
        cells.append(f'<td class="muted" colspan="{len(rest)}">{told}</td>')
    elif cells:
        cells[-1] = cells[-1].replace("</td>", f"<br>{told}</td>")
    return "".join(cells)


def _header(column: Column, scale: Scale | None) -> str:
    label = escape(column.label)
    if column.meaning:
        label = f'<abbr title="{escape(column.meaning)}">{label}</abbr>'
    numeric = column.format not in ("text", "code")
    if scale and scale.symbol not in ("", "×") and numeric:
        label += f' <span class="ck-unit">{escape(scale.symbol)}</span>'
    return label


def _shown(column: Column, row: Row, scale: Scale | None, language: Language) -> str | None:
    """What a cell holds, as HTML; None where it holds no value."""
    value = row.get(column.name)
    if value is None:
        return None
    if data.numeric(value) is not None:
        return number_cell(column, row, scale) if data.row_ok(row) else None
    return text_cell(column, value, language)


def _lines(content: str) -> list[tuple[str, float]]:
    """The lines of a cell as text, each with its size in rem."""
    return [
        (html.unescape(re.sub(r"<[^>]*>", "", line)).strip(), SMALL if "<small" in line else TEXT)
        for line in re.split(r"<br>", content)
    ]


def _has_texts(name: str, rows: list[Row]) -> bool:
    return any(isinstance(row.get(name), str) for row in rows)


def _natural(column: Column, rows: list[Row], scale: Scale | None, language: Language) -> float:
    """How wide a column would be without a line break, in rem."""
    contents = [_shown(column, row, scale, language) for row in rows]
    edge = 0.3 if any(c and "<code>" in c for c in contents) else 0.0  # code stands in a frame
    return max((text_em(text) * size for c in contents if c for text, size in _lines(c)), default=0.0) + edge


def _word(column: Column, rows: list[Row], scale: Scale | None, language: Language) -> float:
    """How wide the longest piece of a column's texts is that is better not cut in two, in rem."""
    contents = [c.replace("<wbr>", " ") for row in rows if (c := _shown(column, row, scale, language))]
    pieces = [(piece, size) for c in contents for text, size in _lines(c) for piece in text.split()]
    edge = 0.45 if any("<code>" in c for c in contents) else 0.0  # its frame, and wider letters than a text's
    return max((text_em(piece) * size for piece, size in pieces if len(piece) <= LONG_WORD), default=0.0) + edge


def _least(natural: float, head: str, numeric: bool, dense: bool, word: float = 0.0) -> float:
    """The width below which a column should not fall: numbers are never broken, texts keep a readable measure.

    ``word``: what a column of texts should hold in one line, where there is room for it.
    """
    words = re.split(r"\s+", _lines(head)[0][0])
    # Chinese breaks anywhere, but a head of single characters is no word any more.
    head_width = max(min(text_em(word), 4.0) if text_em(word) == len(word) else text_em(word) for word in words) * HEAD
    if dense:
        body = natural * DENSE if numeric else min(natural * DENSE, SENTENCE if natural > PROSE else DENSE_PHRASE)
        return max(head_width * DENSE, body, word * DENSE) + PADDING * 0.65
    body = natural if numeric else min(natural, SENTENCE if natural > PROSE else PHRASE)
    return max(head_width, body, word) + PADDING


def html_table(name: str, columns: list[str], rows: list[Row], language: Language, *, region: str = "") -> str:
    """The table in its scroll box. ``columns[0]`` is the header of each row.

    A text column has a least width that goes by its longest text, so that it becomes no tower of single words and does
    not push the numbers out of view. Where the columns don't fit beside each other all the same, the long texts of a
    row go into a line of their own below it.
    """
    shown = [labels.column(column, language, name) for column in columns]
    scales = {column.name: _scale(column, rows) for column in shown}
    heads = {column.name: _header(column, scales[column.name]) for column in shown}
    naturals = {c.name: _natural(c, rows, scales[c.name], language) for c in shown}
    naturals[shown[0].name] *= BOLD  # the header of each row
    numeric = {c.name: c.format not in ("text", "code") and not _has_texts(c.name, rows) for c in shown}

    def leasts(words: dict[str, float]) -> dict[str, float]:
        dense = len(shown) >= MANY
        return {
            c.name: _least(naturals[c.name], heads[c.name], numeric[c.name], dense, words.get(c.name, 0.0))
            for c in shown
        }

    least, below = leasts({}), list[Column]()
    if sum(least.values()) > ROOM:
        below = [c for c in shown[1:] if not numeric[c.name] and naturals[c.name] > PROSE]
        shown = [c for c in shown if c not in below]
        least = leasts({})
    # A name is cut in two only where there is no room for it.
    whole = leasts({c.name: _word(c, rows, scales[c.name], language) for c in shown if not numeric[c.name]})
    if sum(whole.values()) <= ROOM:
        least = whole
    bests = [best_rows(column, rows) for column in shown]
    label = labels.message("table_region", language, name=escape(region or name))
    lines = [
        f'<div class="ck-scroll" tabindex="0" role="region" aria-label="{label}">',
        f'<table class="ck-table ck-sized{" ck-dense" if len(shown) >= MANY else ""}">',
        "<thead>",
        "<tr>",
    ]
    for index, column in enumerate(shown):
        # A column of numbers that happens to say "never" in every row is still one, but not the header of a row.
        css = ' class="num"' if index and numeric[column.name] else ""
        width = "" if numeric[column.name] else f' style="--least:{least[column.name]:.1f}rem"'
        lines[-1] += f'<th scope="col"{css}{width}>{heads[column.name]}</th>'
    lines[-1] += "</tr>"
    lines += ["</thead>", "<tbody>"]
    for index, row in enumerate(rows):
        details = [_below(column, row, language) for column in below if row.get(column.name) not in (None, "")]
        first = _row_header(shown[0], row, scales[shown[0].name], language, rows=2 if details else 1)
        if data.row_ok(row):
            cells = "".join(
                cell(column, row, scales[column.name], index in best, language)
                for column, best in list(zip(shown, bests, strict=True))[1:]
            )
        elif len(shown) > 1:
            cells = _broken_row(shown[1:], row, language)
        else:
            first = first.replace("</th>", f" {blocks.status_badge(str(row['status']), language)}</th>")
            cells = ""
        lines.append(f"<tr>{first}{cells}</tr>")
        if details:
            lines.append(
                f'<tr class="ck-below"><td colspan="{max(1, len(shown) - 1)}">{"<br>".join(details)}</td></tr>'
            )
    return "\n".join([*lines, "</tbody>", "</table>", "</div>"])


def _below(column: Column, row: Row, language: Language) -> str:
    value = text_cell(column, row[column.name], language)
    return labels.message("cell_below", language, label=escape(column.label), value=value)


def table(
    state: State,
    name: str,
    *,
    columns: list[str] | None,
    where: Where | None,
    sort: str | None,
    caption: str | None,
) -> str:
    """See kitchen.page.table."""
    wanted = [*(columns or []), *([sort.removeprefix("-")] if sort else [])]

    def of_rows(found: list[Row], title: str) -> str:
        rows = sorted_rows(data.select(found, where), sort)
        if not rows:
            return f'<p class="ck-missing">{labels.message("no_such_row", state.language)}</p>'
        chosen = columns or default_columns(name, rows, state.language)
        head = f'<p class="ck-caption">{escape(caption)}</p>\n\n' if caption else ""
        return head + html_table(name, chosen, rows, state.language, region=caption or f"{name}, {title}")

    if groups.is_pattern(name):
        several = groups.of(name)
        groups.check(name, several, wanted, where)
        return groups.per_machine(state, name, several, lambda group: of_rows(group.rows, group.machine.title))
    shown = data.views(name)
    data.check_columns(name, shown, wanted)
    data.check_where(name, shown, where)
    return blocks.per_machine(state, name, shown, lambda view: of_rows(view.record.rows, view.machine.title))
