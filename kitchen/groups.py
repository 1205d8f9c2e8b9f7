"""Records of several snippets shown as one: ``"models/*"`` in place of a snippet's name.

A group holds, for one machine, the newest record of each snippet that the pattern names. A snippet without a record
there, or whose run failed, is a row that says so.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from kitchen import blocks, data, labels
from kitchen.context import PageError, State, did_you_mean
from kitchen.data import Row, View, Where
from kitchen.format import DASH, escape, number
from kitchen.results import Machine, version_key


def is_pattern(name: str) -> bool:
    """True where a name stands for several snippets."""
    return "*" in name


def names(pattern: str) -> list[str]:
    """The snippets of a pattern, most valuable first; PageError where there are none."""
    known = data.snippet_names()
    found = [name for name in known if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        raise PageError(f"no snippet matches {pattern!r}{did_you_mean(pattern, known)}")
    loaded = [data.snippet(name) for name in found]
    return [one.name for one in sorted(loaded, key=lambda one: (-one.value, one.name))]


@dataclass(frozen=True)
class Group:
    """What one machine has of a pattern's snippets."""

    machine: Machine
    views: list[View]
    missing: list[str]

    @property
    def rows(self) -> list[Row]:
        """The rows of all, each with its ``model`` (the last part of the snippet's name where it has none)."""
        found: list[Row] = []
        for view in self.views:
            model = PurePosixPath(view.snippet.name).name
            if view.ok:
                found += [{"model": model} | row for row in view.record.rows]
            else:
                found.append({"model": model, "status": view.record.status, "note": view.record.reason})
        return found


def of(pattern: str) -> list[Group]:
    """One group for each machine that has any record of the pattern's snippets, in the order of the tabs."""
    wanted = names(pattern)
    views = {name: {view.machine.name: view for view in data.views(name)} for name in wanted}
    groups = []
    for key, machine in data.machines().items():
        here = [views[name][key] for name in wanted if key in views[name]]
        if here:
            groups.append(Group(machine, here, [name for name in wanted if key not in views[name]]))
    return groups


def check(pattern: str, groups: list[Group], columns: list[str], where: Where | None) -> None:
    """PageError for a column that no record of the group has, or a ``where`` that matches no row."""
    shown = [view for group in groups for view in group.views]
    if any(view.ok for view in shown):
        data.check_columns(pattern, shown, columns)
        data.check_where(pattern, shown, where)


def _short_name(view: View, views: list[View]) -> str:
    """A record's name in a list of links: the snippet's, with the version of torch where it is there several times."""
    name = PurePosixPath(view.snippet.name).name
    several = sum(other.snippet.name == view.snippet.name for other in views) > 1
    return f"{name} {view.record.run.torch}" if several else name


def provenance(state: State, pattern: str, group: Group) -> str:
    """The line under what a group shows: machine, versions, days, samples, every record, badge, command."""
    language = state.language
    unknown = labels.message("unknown_version", language)

    def span(values: set[str]) -> str:
        ordered = sorted(values, key=lambda value: (version_key(value), value))  # 2.9.1 before 2.13.0
        return escape(DASH.join(dict.fromkeys((ordered[0], ordered[-1]))))

    samples = sum(blocks.sample_count(view) for view in group.views)
    count = samples or len(group.rows)
    links = ", ".join(
        f'<a href="{blocks.json_url(state, view.record.path)}">{escape(_short_name(view, group.views))}</a>'
        for view in group.views
    )
    words = labels.message(
        "provenance",
        language,
        machine=escape(group.machine.title),
        torch=span({view.record.run.environment.get("torch") or unknown for view in group.views}),
        python=span({view.record.run.environment.get("python") or unknown for view in group.views}),
        date=span({view.record.started[:10] for view in group.views}),
        samples=labels.message("samples" if samples else "rows", language, count=count, n=number(count)),
        json=labels.message("records_links", language, links=links),
        command=f"<code>{escape(blocks.command(repr(pattern)))}</code>",
    )
    marks = ""
    if old := [PurePosixPath(view.snippet.name).name for view in group.views if view.stale]:
        words_of = labels.message("stale", language)
        marks = blocks.badge("stale", words_of, f"{labels.message('stale_title', language)} {', '.join(old)}") + " "
    lost = ""
    if group.missing:
        listed = ", ".join(escape(PurePosixPath(name).name) for name in group.missing)
        lost = " " + labels.message("group_missing", language, names=listed)
    return f'<p class="ck-provenance">{marks}{words}{lost}</p>'


def per_machine(
    state: State, pattern: str, groups: list[Group], body: Callable[[Group], str], *, line: bool = True
) -> str:
    """One tab a machine: ``body``, then the provenance line."""
    if not groups:
        return blocks.not_recorded(state, pattern)
    return "\n" + blocks.tabs(
        [
            (group.machine.title, body(group) + (f"\n\n{provenance(state, pattern, group)}" if line else ""))
            for group in groups
        ]
    )
