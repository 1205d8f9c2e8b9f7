"""Records of one snippet on several versions of torch, side by side.

Only records of today's text of the snippet are compared: what another text gave says nothing about a version.
"""

from __future__ import annotations

from dataclasses import replace

from kitchen import blocks, data, groups, labels, matrix, results
from kitchen.context import PageError, State, did_you_mean
from kitchen.data import Row, View, Where
from kitchen.problems import by_torch


def views_of(pattern: str) -> dict[str, dict[str, list[View]]]:
    """The records of a snippet, or of a pattern's snippets, by machine and version of torch, oldest version first."""
    names = groups.names(pattern) if groups.is_pattern(pattern) else [data.snippet(pattern).name]
    found: dict[str, dict[str, list[View]]] = {}
    for name in names:
        one = data.snippet(name)
        for machine, versions in by_torch(name).items():
            for torch, record in versions.items():
                if not results.is_stale(record, one):
                    view = View(data.machines()[machine], record, one, stale=False)
                    found.setdefault(machine, {}).setdefault(torch, []).append(view)
    return {
        machine: dict(sorted(found[machine].items(), key=lambda item: results.version_key(item[0])))
        for machine in data.machines()
        if machine in found
    }


def rows_of(versions_: dict[str, list[View]]) -> list[Row]:
    """The rows of all versions, each with its ``torch``, and with its ``model`` where it has none."""
    found: list[Row] = []
    for torch, views in versions_.items():
        for view in views:
            model = {"model": view.snippet.name.rpartition("/")[2]}
            if view.ok:
                found += [model | row | {"torch": torch} for row in view.record.rows]
    return found


def versions(
    state: State, pattern: str, *, rows: str | list[str], cell: str, where: Where | None, caption: str | None
) -> str:
    """See kitchen.page.versions."""
    sides = [rows] if isinstance(rows, str) else rows
    found = views_of(pattern)
    if not found:
        return blocks.not_recorded(state, pattern)
    known: dict[str, None] = {}
    for machine in found.values():
        known.update(dict.fromkeys(column for row in rows_of(machine) for column in row))
    for column in (*sides, cell, *(where or {})):
        if column not in known:
            raise PageError(f"versions: unknown column {column!r} of {pattern!r}{did_you_mean(column, known)}")
    parts = []
    for name, by_version in found.items():
        all_rows = rows_of(by_version)
        side, line = sides[0], None
        if len(sides) > 1:
            # One line a combination, in the words of the page: no column of a record has this name.
            side = " · ".join(sides)
            line = replace(labels.column("subject", state.language), name=side, format="text")
            for row in all_rows:
                words = [labels.text_value(one, str(row[one]), state.language) for one in sides if one in row]
                row[side] = " · ".join(dict.fromkeys(words))
        table = matrix.draw(
            pattern, all_rows, state.language, rows=side, across="torch", cell=cell, where=where, caption=caption,
            line=line,
        )  # fmt: skip
        views = [view for one in by_version.values() for view in one]
        group = groups.Group(data.machines()[name], views, [])
        parts.append((group.machine.title, f"{table}\n\n{groups.provenance(state, pattern, group)}"))
    return "\n" + blocks.tabs(parts)
