"""The catalogue of problems: what kitchen/problems/*.toml says of each, and what the records of its snippet show.

A problem has a section on the page of its file, a snippet ``errors/<name>`` that provokes it and shows the fix working
(unless it was not run), and a place in the lists by message, symptom and layer. Whether it is still there, and whether
its fix works, is computed from the record, never written down.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kitchen import blocks, citations, data, excerpts, labels, results, tables
from kitchen.context import Language, PageError, State, did_you_mean
from kitchen.data import Row, View
from kitchen.format import escape, escape_code, number, words_with_code
from kitchen.results import Record, RecordError

FOLDER = Path(__file__).with_name("problems")
SYMPTOMS = ("error", "crash", "hangs", "first-call", "recompiles", "slower", "different", "memory", "nothing")
#: The rungs of the ladder, from the outside in.
LAYERS = (
    "environment", "python", "dynamo", "aot", "inductor", "compiler", "runtime", "other-backend",
)  # fmt: skip
NOT_RUN = ("cuda", "windows", "macos", "several-gpus", "rocm", "other")
COLUMNS = ["step", "call", "happened", "raised_at", "evidence"]
_TEXTS = ("message", "layer", "en", "zh", "cured_in", "not_run")
_LISTS = ("symptoms", "sources")
_KEYS = {*_TEXTS, *_LISTS}
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Problem:
    """One problem. ``message``: the text to search for, empty where it is silent; ``page``: its page below errors/."""

    id: str
    page: str
    message: str
    symptoms: tuple[str, ...]
    layer: str
    words: dict[str, str]
    sources: tuple[str, ...]
    cured_in: str
    not_run: str

    @property
    def snippet(self) -> str:
        """The name of its snippet."""
        return f"errors/{self.id.replace('-', '_')}"

    def url(self, state: State) -> str:
        """Its section, from the page being built."""
        return escape(f"{state.root_url}{state.language}/errors/{self.page}/#{self.id}")


def check_types(where: str, entry: Any, *, texts: Iterable[str], lists: Iterable[str]) -> None:
    """PageError where an entry is no table, or a value of it no text or no list of texts."""
    if not isinstance(entry, dict):
        raise PageError(f"{where}: is no table of its own: put the line below the [name] it belongs to")
    for key in texts:
        if not isinstance(entry.get(key, ""), str):
            raise PageError(f"{where}: {key}: write a text, in quotes, for {entry[key]!r}")
    for key in lists:
        value = entry.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise PageError(f"{where}: {key}: write a list of texts, in square brackets, for {value!r}")


def check_sources(where: str, sources: Iterable[str]) -> None:
    """PageError for a source that is none, with the entry it stands in."""
    for source in sources:
        try:
            citations.address(source)
        except PageError as error:
            raise PageError(f"{where}: {error}") from None


def read_entries(path: Path, place: str) -> dict[str, Any]:
    """The entries of one file. ``place``: what it is called in a message."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PageError(f"{place}: {error}") from error


def _one(path: Path, name: str, entry: dict[str, Any]) -> Problem:
    where = f"kitchen/problems/{path.name}: [{name}]"
    if not _ID.fullmatch(name):
        raise PageError(f"{where}: an id has small letters, digits and hyphens")
    check_types(where, entry, texts=_TEXTS, lists=_LISTS)
    if unknown := sorted(set(entry) - _KEYS):
        raise PageError(f"{where}: unknown key {unknown[0]!r}{did_you_mean(unknown[0], _KEYS)}")
    for key in ("symptoms", "layer", "en", "zh"):
        if not entry.get(key):
            raise PageError(f"{where}: {key} is missing")
    for key, known in (("symptoms", SYMPTOMS), ("layer", LAYERS), ("not_run", NOT_RUN)):
        values = entry.get(key, [])
        for value in [values] if isinstance(values, str) else values:
            if value not in known:
                raise PageError(f"{where}: {key}: {value!r} is not known{did_you_mean(value, known)}")
    check_sources(where, entry.get("sources", []))
    if entry.get("not_run") and not entry.get("sources"):
        raise PageError(f"{where}: what was not run needs a source")
    return Problem(
        id=name,
        page=path.stem,
        message=entry.get("message", ""),
        symptoms=tuple(entry["symptoms"]),
        layer=entry["layer"],
        words={"en": entry["en"], "zh": entry["zh"]},
        sources=tuple(entry.get("sources", ())),
        cured_in=entry.get("cured_in", ""),
        not_run=entry.get("not_run", ""),
    )


@lru_cache(maxsize=4)
def _load(files: tuple[tuple[Path, int], ...]) -> dict[str, Problem]:
    found: dict[str, Problem] = {}
    for path, _ in files:
        for name, entry in read_entries(path, f"kitchen/problems/{path.name}").items():
            if name in found:
                raise PageError(f"kitchen/problems/{path.name}: [{name}] stands in {found[name].page}.toml too")
            found[name] = _one(path, name, entry)
    return found


def load() -> dict[str, Problem]:
    """All problems by id. Raises PageError naming file, entry and key of what is wrong."""
    return _load(tuple((path, path.stat().st_mtime_ns) for path in sorted(FOLDER.glob("*.toml"))))


# ---- what a record says ---------------------------------------------------------------------------------------------


def _happened(rows: list[Row], step: str) -> list[str]:
    """What happened in the rows of a step; a row that doesn't say so was not tried."""
    tried = (row.get("happened") for row in rows if row.get("step") == step and data.row_ok(row))
    return [happened for happened in tried if happened and isinstance(happened, str)]


def occurs(rows: list[Row]) -> bool | None:
    """Whether the problem shows in these rows; None where it was not tried."""
    seen = _happened(rows, "problem")
    return any(happened != "fine" for happened in seen) if seen else None


def mended(rows: list[Row]) -> bool | None:
    """Whether every fix works; None where none was tried."""
    seen = _happened(rows, "fix")
    return all(happened == "fine" for happened in seen) if seen else None


def verdict(record: Record) -> str:
    """``provoked`` (and the fix works), ``unfixed``, ``gone``, ``unknown`` or the status of a record that is not ok."""
    if record.status != "ok":
        return record.status
    there, fixed = occurs(record.rows), mended(record.rows)
    if there is None:
        return "unknown"
    if not there:
        return "gone"
    if fixed is None:
        return "unknown"
    return "provoked" if fixed else "unfixed"


_BADGE = {"provoked": "ok", "gone": "ok", "unfixed": "failed", "failed": "failed", "timeout": "failed"}


def _state(view: View, others: dict[str, Record], language: Language) -> str:
    """The line above a problem's table: what this torch does, and what the others do."""
    found = verdict(view.record)
    torch = escape(view.record.run.torch)
    mark = blocks.badge(_BADGE.get(found, "unavailable"), labels.message(f"p_badge_{found}", language))
    sentence = labels.message(f"p_{found}", language, torch=torch)
    parts: dict[str, list[str]] = {}
    for version, record in others.items():
        # What another text of the snippet gave says nothing about this one.
        if version != view.record.run.torch and record.sha256 == view.record.sha256:
            parts.setdefault(verdict(record), []).append(version)
    told = [
        labels.message(
            "p_same" if key == found else f"p_other_{key}",
            language,
            torch=labels.listing([escape(version) for version in versions], language),
        )
        for key, versions in parts.items()
    ]
    whole = labels.message("join", language).join([sentence, *told])
    return f'<p class="ck-verdict" data-problem="{found}">{mark} {whole}</p>'


def _message(rows: list[Row], message: str, state: State) -> str:
    said = [str(row["message"]) for row in rows if row.get("step") == "problem" and row.get("message")]
    said.sort(key=lambda text: message not in text)
    return excerpts.code_block(state, said[0], "text") if said else ""


def sources_line(sources: Iterable[str], language: Language) -> str:
    """The line of links below a problem or a claim; nothing without sources."""
    links = ", ".join(citations.link(source) for source in sources)
    if not links:
        return ""
    return f'<p class="ck-provenance">{labels.message("p_sources", language, links=links)}</p>'


def problem(state: State, name: str) -> str:
    """See kitchen.page.problem."""
    known = load()
    if name not in known:
        raise PageError(f"unknown problem {name!r}{did_you_mean(name, known)}")
    one, language = known[name], state.language
    sources = sources_line(one.sources, language)
    if one.not_run:
        words = labels.message(f"p_not_run_{one.not_run}", language)
        mark = blocks.badge("unavailable", labels.message("p_badge_not_run", language))
        return f'\n<p class="ck-verdict" data-problem="not_run">{mark} {words}</p>\n\n{sources}\n'
    shown = data.views(one.snippet)
    versions = by_torch(one.snippet)

    def body(view: View) -> str:
        rows = view.record.rows
        return "\n\n".join(
            part
            for part in (
                _state(view, versions.get(view.machine.name, {}), language),
                _message(rows, one.message, state),
                tables.html_table(one.snippet, COLUMNS, rows, language),
            )
            if part
        )

    code = excerpts.code_block(state, heart(shown_source(one.snippet)), "python")
    summary = labels.message("p_code", language, file=f"<code>{escape_code(one.snippet)}.py</code>")
    link = labels.message("source_link", language, file=f"<code>{escape_code(one.snippet)}.py</code>")
    download = f'<a href="{blocks.snippet_url(state, one.snippet)}" download>{link}</a>'
    fold = (
        f'<details class="example"><summary>{summary}</summary>\n{code}\n'
        f'<p class="ck-provenance">{download}</p>\n</details>'
    )
    table = blocks.per_machine(state, one.snippet, shown, body)
    return f"\n{table}\n\n{fold}\n\n{sources}\n"


def shown_source(name: str) -> str:
    """A snippet's text without its header, which is for the machinery."""
    return data.snippet(name).path.read_text("utf-8").partition("# ///\n")[2].lstrip("\n")


#: What the functions that provoke and fix a problem are called.
_HEART = ("problem", "provoke", "fix")


def heart(code: str) -> str:
    """What provokes and fixes, of a snippet's text: the functions so named and all at its top that they use.

    What runs, counts and prints them is left out: the file has it. Without such functions it is the whole text.
    """
    tree = ast.parse(code)
    lines = code.splitlines()
    places: dict[str, ast.stmt] = {name: node for node in tree.body for name in excerpts.names_of(node)}
    wanted = [name for name in places if name.startswith(_HEART)]
    taken: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in taken:
            taken.add(name)
            used = {node.id for node in ast.walk(places[name]) if isinstance(node, ast.Name)}
            wanted += [other for other in places if other in used]
    if not taken:
        return code
    chosen = [node for node in tree.body if taken & set(excerpts.names_of(node))]
    parts = []
    for node in chosen:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        parts.append("\n".join(lines[first - 1 : node.end_lineno]))
    return "\n\n\n".join(parts)


def by_torch(name: str) -> dict[str, dict[str, Record]]:
    """The newest record of a snippet by machine and torch, read once for a state of the files."""
    root = results.RESULTS
    try:
        return _by_torch(root, name, data.signature(root, ".json"))
    except RecordError as error:
        raise PageError(data.relative(str(error))) from error


@lru_cache(maxsize=1024)
def _by_torch(root: Path, name: str, _signature: data.Signature) -> dict[str, dict[str, Record]]:
    return results.by_torch(root, name)


# ---- the ways in ----------------------------------------------------------------------------------------------------


def _words(one: Problem, language: Language) -> str:
    return words_with_code(one.words[language])


def _entry(one: Problem, state: State, *, message_first: bool) -> str:
    words = _words(one, state.language)
    url = one.url(state)
    message = f"<code>{escape_code(one.message)}</code>" if one.message else ""
    if message_first:
        return f'<li><a href="{url}">{message}</a><br>{words}</li>'
    return f'<li><a href="{url}">{words}</a>{f"<br>{message}" if message else ""}</li>'


def _cured(one: Problem) -> bool:
    return bool(one.cured_in)


def problems(state: State, by: str, value: str | None) -> str:
    """See kitchen.page.problems."""
    known = load()
    lists = {"symptom": SYMPTOMS, "layer": LAYERS}
    if by in lists:
        if value not in lists[by]:
            raise PageError(f"problems({by!r}): unknown {by} {value!r}{did_you_mean(str(value), lists[by])}")
        chosen = [
            one
            for one in known.values()
            if not _cured(one) and (value in one.symptoms if by == "symptom" else one.layer == value)
        ]
    elif by == "message":
        chosen = sorted((one for one in known.values() if one.message), key=lambda one: one.message.lower())
    elif by == "tally":
        return _tally(state, list(known.values()))
    elif by == "changed":
        return _changed(state, list(known.values()))
    else:
        raise PageError(f"problems: unknown way {by!r}{did_you_mean(by, [*lists, 'message', 'tally', 'changed'])}")
    if not chosen:
        return f'\n<p class="ck-missing">{labels.message("p_none", state.language)}</p>\n'
    items = "\n".join(_entry(one, state, message_first=by == "message") for one in chosen)
    # A search for a message leads to its entry, not to this list.
    return f'\n<ul class="ck-problems" data-search-exclude>\n{items}\n</ul>\n'


def _tally(state: State, known: list[Problem]) -> str:
    """How many problems there are, how many were provoked, and in how many of these the fix works, by version."""
    language = state.language
    run = [one for one in known if not one.not_run]
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for one in run:
        for machine, versions in by_torch(one.snippet).items():
            for version, record in versions.items():
                if not results.is_stale(record, data.snippet(one.snippet)):
                    of = counts.setdefault((machine, version), {})
                    key = verdict(record)
                    of[key] = of.get(key, 0) + 1
    parts = [
        labels.message(
            "p_tally",
            language,
            torch=escape(version),
            machine=escape(data.machines()[machine].title),
            provoked=number(of.get("provoked", 0) + of.get("unfixed", 0)),
            fixed=number(of.get("provoked", 0)),
            gone=number(of.get("gone", 0)),
        )
        for (machine, version), of in sorted(counts.items(), key=lambda item: results.version_key(item[0][1]))
    ]
    head = labels.message(
        "p_tally_all",
        language,
        problems=number(len(known)),
        run=number(len(run)),
        not_run=number(len(known) - len(run)),
    )
    items = "".join(f"<li>{part}</li>" for part in parts)
    return f'\n<p class="ck-verdict">{head}</p>\n' + (f"<ul>{items}</ul>\n" if parts else "")


def _changed(state: State, known: list[Problem]) -> str:
    """The problems that behave otherwise on another version of torch, as a table: a line each, a column a version."""
    language = state.language
    # Each machine for itself: what differs between a CPU and a GPU is no matter of the version.
    found: list[tuple[Problem, str, dict[str, str]]] = []
    for one in known:
        for machine, records in by_torch(one.snippet).items() if not one.not_run else ():
            fresh = {t: r for t, r in records.items() if not results.is_stale(r, data.snippet(one.snippet))}
            found.append((one, machine, {torch: verdict(record) for torch, record in fresh.items()}))
    versions = sorted({torch for *_, states in found for torch in states}, key=results.version_key)
    differing = [entry for entry in found if len(set(entry[2].values())) > 1]
    several = len({machine for _, machine, _ in found}) > 1
    if not differing:
        return f'\n<p class="ck-missing">{labels.message("p_changed_none", language)}</p>\n'
    head = labels.message("p_changed_head", language)
    region = labels.message("p_changed_region", language)
    lines = [
        f'<div class="ck-scroll" tabindex="0" role="region" aria-label="{region}">',
        '<table class="ck-table ck-wide-heads">',
        "<thead>",
        f'<tr><th scope="col">{head}</th>'
        + "".join(f'<th scope="col"><code>{escape(torch)}</code></th>' for torch in versions)
        + "</tr>",
        "</thead>",
        "<tbody>",
    ]
    for one, machine, states in differing:
        cells = []
        for torch in versions:
            state_there = states.get(torch)
            shown = (
                blocks.badge(_BADGE.get(state_there, "unavailable"), labels.message(f"p_badge_{state_there}", language))
                if state_there
                else blocks.missing(language)
            )
            cells.append(f"<td>{shown}</td>")
        place = f"<br>{escape(data.machines()[machine].title)}" if several else ""
        link = f'<a href="{one.url(state)}">{_words(one, language)}</a>{place}'
        lines.append(f'<tr><th scope="row">{link}</th>{"".join(cells)}</tr>')
    return "\n" + "\n".join([*lines, "</tbody>", "</table>", "</div>"]) + "\n"
