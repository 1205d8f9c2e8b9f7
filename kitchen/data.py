"""The records a page shows: the newest of one snippet on each machine, and the choice of rows and columns.

Reading is cached by the paths, sizes and times of the files, so a record that is written while the site is
served shows at the next build.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kitchen import results
from kitchen import snippet as snippets
from kitchen.context import ROOT, PageError, did_you_mean
from kitchen.results import Machine, Record, RecordError
from kitchen.snippet import Snippet, SnippetError

Row = dict[str, Any]
Where = dict[str, Any]


@dataclass(frozen=True)
class View:
    """One machine's newest record of a snippet, as a page shows it."""

    machine: Machine
    record: Record
    snippet: Snippet
    stale: bool

    @property
    def ok(self) -> bool:
        """True where there are rows to show."""
        return self.record.status == "ok" and bool(self.record.rows)


Signature = tuple[tuple[str, int, int], ...]


_held: dict[tuple[Path, str], Signature] | None = None


def hold(on: bool) -> None:
    """While on, files are looked for once: within a build of one language nothing changes."""
    global _held
    _held = {} if on else None


def signature(root: Path, suffix: str) -> Signature:
    """What the files below ``root`` look like now: changes when one is written, added or removed."""
    if _held is not None and (root, suffix) in _held:
        return _held[root, suffix]
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        for name in files:
            if name.endswith(suffix) and not name.startswith("."):
                path = Path(folder, name)
                status = path.stat()
                found.append((str(path), status.st_mtime_ns, status.st_size))
    seen = tuple(sorted(found))
    if _held is not None:
        _held[root, suffix] = seen
    return seen


def relative(text: str) -> str:
    """A message without the place of the repository on this machine."""
    return text.replace(f"{ROOT}{os.sep}", "")


@lru_cache(maxsize=256)
def _newest(root: Path, name: str, _signature: Signature) -> dict[str, Record]:
    return results.newest(root, name)


@lru_cache(maxsize=4)
def _machines(root: Path, _signature: Signature) -> dict[str, Machine]:
    return results.load_machines(root)


@lru_cache(maxsize=4)
def _records(root: Path, _signature: Signature) -> list[Record]:
    return results.load_records(root)


def machines() -> dict[str, Machine]:
    """All machines, in the order of the tabs."""
    root = results.RESULTS
    try:
        return _machines(root, signature(root, ".json"))
    except RecordError as error:
        raise PageError(relative(str(error))) from error


def records() -> list[Record]:
    """All records, oldest first."""
    root = results.RESULTS
    try:
        return _records(root, signature(root, ".json"))
    except RecordError as error:
        raise PageError(relative(str(error))) from error


def snippet_names() -> list[str]:
    """The name of every snippet file."""
    root = snippets.SNIPPETS
    return list(_snippet_names(root, signature(root, ".py")))


@lru_cache(maxsize=4)
def _snippet_names(root: Path, files: Signature) -> list[str]:
    found = [Path(name) for name, _, _ in files]
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in found if path.parent != root)


@lru_cache(maxsize=256)
def _snippet(root: Path, name: str, _signature: Signature) -> Snippet:
    return snippets.load(name, root)


def snippet(name: str) -> Snippet:
    """The snippet of a name; PageError with a suggestion where there is no such file."""
    root = snippets.SNIPPETS
    if not (root / f"{name}.py").is_file() or ".." in name:
        raise PageError(f"unknown snippet {name!r}{did_you_mean(name, snippet_names())}")
    try:
        return _snippet(root, name, signature(root, ".py"))
    except SnippetError as error:
        raise PageError(relative(str(error))) from error


def views(name: str) -> list[View]:
    """The newest record of a snippet for each machine that has one, in the order of the tabs."""
    found = snippet(name)
    root = results.RESULTS
    try:
        newest = _newest(root, name, signature(root, ".json"))
    except RecordError as error:
        raise PageError(relative(str(error))) from error
    rooms = machines()
    return [
        View(rooms[machine], newest[machine], found, results.is_stale(newest[machine], found))
        for machine in rooms
        if machine in newest
    ]


def column_names(shown: Iterable[View]) -> list[str]:
    """Every column of the records, in the order in which it first stands in a row."""
    names: dict[str, None] = {}
    for view in shown:
        if view.ok:
            for row in view.record.rows:
                names.update(dict.fromkeys(row))
    return list(names)


def _strings_in(path: Path) -> frozenset[str]:
    """Every string constant, keyword and field of a snippet: its columns are among them, recorded or not."""
    return _strings_of(path.read_text("utf-8"))


@lru_cache(maxsize=256)
def _strings_of(code: str) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        elif isinstance(node, ast.Call):
            found |= {keyword.arg for keyword in node.keywords if keyword.arg}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return frozenset(found)


def check_columns(name: str, shown: list[View], wanted: Iterable[str]) -> None:
    """PageError where a wanted column is in no record, with the columns that there are."""
    known = column_names(shown)
    unproven = not known
    if unproven:
        found = snippet(name)
        # The columns of a subject are those of what measures it; one that is given files may have theirs.
        known = sorted(frozenset().union(*map(_strings_in, {found.runs or found.path, *found.others})))
    for column in wanted:
        if column not in known:
            if unproven:
                raise PageError(f"unknown column {column!r} of {name!r}: its source never names it")
            raise PageError(
                f"unknown column {column!r} of {name!r}{did_you_mean(column, known)} (columns: {', '.join(known)})"
            )


def _matches(row: Row, where: Where) -> bool:
    return all(
        row.get(key) in wanted if isinstance(wanted, list | tuple) else row.get(key) == wanted
        for key, wanted in where.items()
    )


def select(rows: list[Row], where: Where | None) -> list[Row]:
    """The rows that have every value of ``where``; a list there means any of its values."""
    return [row for row in rows if _matches(row, where or {})]


def check_where(name: str, shown: list[View], where: Where | None) -> None:
    """PageError where ``where`` names an unknown column or matches no row on any machine, with what there is."""
    if not where:
        return
    check_columns(name, shown, where)
    with_rows = [view for view in shown if view.ok]
    if not with_rows or any(select(view.record.rows, where) for view in with_rows):
        return
    parts = []
    for key in where:
        values: dict[str, None] = {}
        for view in with_rows:
            for row in view.record.rows:
                if key in row:
                    values[json.dumps(row[key], ensure_ascii=False)] = None
        parts.append(f"{key}: {', '.join(list(values)[:20])}")
    raise PageError(
        f"no row of {name!r} has {json.dumps(where, ensure_ascii=False)} on any machine; there are {'; '.join(parts)}"
    )


def row_ok(row: Row) -> bool:
    """True where the row has its numbers. A row without a status is taken to have them."""
    return bool(row.get("status", "ok") == "ok")


def numeric(value: object) -> float | None:
    """A number of a row, or None for anything else (a truth value is no number)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value
