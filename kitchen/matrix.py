"""One value of many rows as a matrix: a line for each model, a column for each back end.

The cell is the value with its spread; where the rows carry a verdict, a mark and a colour say it. What has no value
says why.
"""

from __future__ import annotations

from kitchen import blocks, data, groups, labels, tables
from kitchen.context import Language, PageError, State
from kitchen.data import Row, Where
from kitchen.format import escape
from kitchen.labels import Column

#: A verdict's mark: the sign does what the colour does, for those who don't see it.
MARKS = {"faster": ("faster", "▲"), "slower": ("slower", "▼"), "no difference": ("same", "=")}


def _cell(column: Column, row: Row | None, language: Language) -> str:
    if row is None:
        return f'<td class="num muted">{blocks.missing(language)}</td>'
    if not data.row_ok(row):
        why = labels.note(str(row.get("note") or labels.message("no_reason", language)), language)
        words = labels.text_value("status", str(row["status"]), language)
        return f'<td class="num">{blocks.badge(blocks.badge_kind(str(row["status"])), words, why)}</td>'
    cell = tables.cell(column, row, None, False, language)
    kind, sign = MARKS.get(str(row.get("verdict")), ("", ""))
    if not kind or data.numeric(row.get(column.name)) is None:
        return cell
    told = labels.text_value("verdict", str(row["verdict"]), language)
    mark = f'<span class="ck-mark" role="img" aria-label="{escape(told)}" title="{escape(told)}">{sign}</span> '
    return cell.replace('<td class="num">', f'<td class="num ck-is-{kind}">{mark}', 1)


def matrix(
    state: State,
    pattern: str,
    *,
    rows: str,
    across: str,
    cell: str,
    where: Where | None,
    leave_out: tuple[str, ...],
    caption: str | None,
) -> str:
    """See kitchen.page.matrix."""
    found = groups.of(pattern)
    groups.check(pattern, found, [rows, across, cell], where)

    def body(group: groups.Group) -> str:
        return draw(
            pattern, group.rows, state.language, rows=rows, across=across, cell=cell, where=where,
            leave_out=leave_out, caption=caption,
        )  # fmt: skip

    return groups.per_machine(state, pattern, found, body)


def draw(
    pattern: str,
    all_rows: list[Row],
    language: Language,
    *,
    rows: str,
    across: str,
    cell: str,
    where: Where | None,
    leave_out: tuple[str, ...] = (),
    caption: str | None = None,
    line: Column | None = None,
) -> str:
    """The matrix of these rows as HTML. ``line``: how the column ``rows`` is shown, where it is none of a snippet's.

    Raises PageError where two rows claim one cell, or a row has no ``rows``.
    """
    broken = [row for row in all_rows if across not in row]
    chosen = data.select(all_rows, where)
    chosen = [row for row in chosen if across in row and row[across] not in leave_out]
    if not chosen and not broken:
        return f'<p class="ck-missing">{labels.message("no_such_row", language)}</p>'
    if any(rows not in row for row in (*chosen, *broken)):
        raise PageError(f"matrix: a row of {pattern!r} has no column {rows!r}: add to where")
    heads = list(dict.fromkeys(str(row[across]) for row in chosen))
    lines = list(dict.fromkeys(str(row[rows]) for row in chosen))
    place: dict[tuple[str, str], Row] = {}
    for row in chosen:
        key = (str(row[rows]), str(row[across]))
        if key in place:
            raise PageError(
                f"matrix: two rows of {pattern!r} have {rows}={key[0]!r} and {across}={key[1]!r}: add to where"
            )
        place[key] = row
    side, top, shown = (labels.column(name, language, pattern) for name in (rows, across, cell))
    side = line or side
    region = caption or f"{shown.label}: {side.label} × {top.label}"
    # Numbers stand right, and so do their heads.
    aligned = "" if any(isinstance(row.get(cell), str) for row in chosen) else ' class="num"'
    out = [
        *([f'<p class="ck-caption">{escape(caption)}</p>\n'] if caption else []),
        f'<div class="ck-scroll" tabindex="0" role="region" '
        f'aria-label="{labels.message("table_region", language, name=escape(region))}">',
        '<table class="ck-table ck-matrix">',
        "<thead>",
        f'<tr><th scope="col">{escape(side.label)}</th>'
        + "".join(f'<th scope="col"{aligned}>{tables.text_cell(top, head, language)}</th>' for head in heads)
        + "</tr>",
        "</thead>",
        "<tbody>",
    ]
    for name in lines:
        cells = "".join(_cell(shown, place.get((name, head)), language) for head in heads)
        out.append(f'<tr><th scope="row">{tables.text_cell(side, name, language)}</th>{cells}</tr>')
    for row in broken:
        why = labels.note(str(row.get("note") or labels.message("no_reason", language)), language)
        badge = blocks.status_badge(str(row["status"]), language)
        out.append(
            f'<tr><th scope="row">{tables.text_cell(side, str(row[rows]), language)}</th>'
            f'<td class="muted" colspan="{max(1, len(heads))}">{badge} {escape(why)}</td></tr>'
        )
    return "\n".join([*out, "</tbody>", "</table>", "</div>"])
