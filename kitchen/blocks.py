"""The pieces that every page function is put together from: tabs, badges, provenance, "not recorded yet".

Raw HTML blocks start in column 0 and hold no blank line, so that Markdown passes them through untouched; what
stands in them is escaped by kitchen.format.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

from kitchen import data, labels, results
from kitchen.context import Language, State
from kitchen.data import View
from kitchen.format import escape, escape_inline, number

#: How a record's or a row's status is coloured.
_BADGES = {"ok": "ok", "failed": "failed", "timeout": "failed", "wrong": "failed"}


def badge(kind: str, words: str, title: str = "") -> str:
    """A badge. ``kind``: ok, stale, failed or unavailable; ``words`` and ``title`` are escaped here."""
    tip = f' title="{escape(title)}"' if title else ""
    return f'<span class="ck-badge ck-badge--{kind}"{tip}>{escape(words)}</span>'


def badge_kind(status: str) -> str:
    """The kind of badge that a record's or a row's status wears."""
    return _BADGES.get(status, "unavailable")


def status_badge(status: str, language: Language) -> str:
    """The badge of a record's or a row's status."""
    return badge(badge_kind(status), labels.text_value("status", status, language))


def missing(language: Language) -> str:
    """What stands where there is no number."""
    return f'<span title="{escape(labels.message("not_measured", language))}">–</span>'


def command(name: str) -> str:
    """How a reader repeats the measurement of a snippet."""
    return f"python -m kitchen measure --only {name}"


def json_url(state: State, path: Any) -> str:
    """The address of a file below results/, from this page."""
    return html.escape(f"{state.root_url}results/{path.relative_to(results.RESULTS).as_posix()}")


def snippet_url(state: State, name: str) -> str:
    """The address of a snippet's file, from this page."""
    return html.escape(f"{state.root_url}snippets/{name}.py")


def date_of(view: View) -> str:
    """The day of the measurement."""
    return escape(view.record.started[:10])


def sample_count(view: View) -> int:
    """How many samples the rows of a record keep."""
    return sum(
        len(v) for row in view.record.rows for k, v in row.items() if k.startswith("samples_") and isinstance(v, list)
    )


def provenance(state: State, view: View) -> str:
    """The line under everything measured: machine, versions, date, samples, record, badge, command."""
    language = state.language
    unknown = labels.message("unknown_version", language)
    environment = view.record.run.environment
    samples = sample_count(view)
    count = samples or len(view.record.rows)
    words = labels.message(
        "provenance",
        language,
        machine=escape(view.machine.title),
        torch=escape(environment.get("torch") or unknown),
        python=escape(environment.get("python") or unknown),
        date=date_of(view),
        samples=labels.message("samples" if samples else "rows", language, count=count, n=number(count)),
        json=f'<a href="{json_url(state, view.record.path)}">{labels.message("record_link", language)}</a>',
        command=f"<code>{escape(command(view.snippet.name))}</code>",
    )
    stale = ""
    if view.stale:
        stale = badge("stale", labels.message("stale", language), labels.message("stale_title", language)) + " "
    return f'<p class="ck-provenance">{stale}{words}</p>'


def short_provenance(state: State, view: View) -> str:
    """The line under a sentence: machine, date, record; the table beside it has the whole line."""
    language = state.language
    stale = ""
    if view.stale:
        stale = badge("stale", labels.message("stale", language), labels.message("stale_title", language)) + " "
    link = f'<a href="{json_url(state, view.record.path)}">{labels.message("record_link", language)}</a>'
    words = labels.message(
        "provenance_short", language, machine=escape(view.machine.title), date=date_of(view), json=link
    )
    return f'<p class="ck-provenance">{stale}{words}</p>'


def tabs(parts: list[tuple[str, str]]) -> str:
    """Content tabs: (title, Markdown) each. Titles are escaped here; the same titles are linked over the site."""
    blocks = []
    for index, (title, body) in enumerate(parts):
        # Without "new", tabs of two calls in one fence would grow together.
        option = "    new: true\n" if index == 0 else ""
        blocks.append(f"/// tab | {escape_inline(title)}\n{option}\n{body.strip()}\n\n///\n")
    return "\n".join(blocks)


def no_numbers(state: State, view: View) -> str:
    """Why a record has nothing to show: its badge, a sentence and the reason that the runner wrote."""
    language = state.language
    record = view.record
    if record.status == "ok":
        sentence = labels.message("record_empty", language)
        mark = badge("unavailable", labels.message("not_measured", language))
    else:
        status = labels.name_of("status", record.status, language)
        sentence = labels.message("record_failed", language, status=status)
        mark = status_badge(record.status, language)
    reason = labels.note(record.reason, language) if record.reason else labels.message("no_reason", language)
    told = escape(labels.sentence(reason, language))
    gap = " " if language == "en" else ""
    return f'<p class="ck-missing">{mark} {sentence}{gap}<span class="ck-reason">{told}</span></p>'


def not_recorded(state: State, name: str) -> str:
    """What stands where no machine has a record: not a failure, and how to make one."""
    language = state.language
    words = labels.message(
        "missing",
        language,
        snippet=f"<code>{escape(name)}</code>",
        command=f"<code>{escape(command(name))}</code>",
    )
    title = labels.message("missing_title", language)
    return f'\n<div class="admonition note ck-missing"><p class="admonition-title">{title}</p><p>{words}</p></div>\n'


def per_machine(state: State, name: str, shown: list[View], body: Callable[[View], str], *, short: bool = False) -> str:
    """One tab a machine: ``body`` where there are rows, else why there are none; then the provenance line."""
    if not shown:
        return not_recorded(state, name)
    parts = []
    for view in shown:
        content = body(view) if view.ok else no_numbers(state, view)
        line = short_provenance(state, view) if short else provenance(state, view)
        parts.append((view.machine.title, f"{content}\n\n{line}"))
    return "\n" + tabs(parts)


def provenance_block(state: State, name: str) -> str:
    """The provenance lines alone."""
    shown = data.views(name)
    if not shown:
        return not_recorded(state, name)
    return "\n" + tabs([(view.machine.title, provenance(state, view)) for view in shown])
