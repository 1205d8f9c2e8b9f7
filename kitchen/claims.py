"""The fact check: the claims of kitchen/claims/*.toml, with a verdict that is computed from records.

A claim is decided by cases: rows of its own snippet (``claim = "B10"``), or what a judge makes of another snippet's
rows. All cases as said: true; some: half true; none: false, or true until a version where sources show that it once
was; nothing tried: not shown here. A claim about a text alone may be decided by its sources, and the page says so.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

# Importing them adds their judges: whoever reads the claims needs all of them.
from kitchen import (
    blocks,
    data,
    excerpts,
    groups,
    judges_blog,  # noqa: F401
    judges_stale,  # noqa: F401
    judges_versions,  # noqa: F401
    labels,
    tables,
    versions,
)
from kitchen.context import LANGUAGES, Language, PageError, State, did_you_mean
from kitchen.data import Row
from kitchen.format import escape, escape_code, number, words_with_code
from kitchen.judges import JUDGES, Case
from kitchen.problems import check_sources, check_types, read_entries, shown_source, sources_line

FOLDER = Path(__file__).with_name("claims")
COLUMNS = ["tried", "said", "seen", "agrees"]
VERDICTS = ("true", "half", "until", "false", "not_shown")
_TEXTS = ("en", "zh", "snippet", "judge", "verdict", "by")
_ID = re.compile(r"[A-Z][0-9]+")
_KEYS = {"en", "zh", "snippet", "judge", "versions", "until", "where", "sources", "source", "verdict", "by"}
_BADGES = {"true": "ok", "half": "stale", "until": "stale", "false": "failed", "not_shown": "unavailable"}


@dataclass(frozen=True)
class Claim:
    """One claim. ``page``: the name of its file; ``functions``: what of its snippet the page shows."""

    id: str
    page: str
    words: dict[str, str]
    snippet: str
    judge: str
    versions: bool
    until: str
    where: dict[str, str]
    sources: tuple[str, ...]
    functions: tuple[str, ...]
    by_source: str

    @property
    def anchor(self) -> str:
        """The id of its section."""
        return self.id.lower()


def _one(path: Path, name: str, entry: dict[str, Any]) -> Claim:
    where = f"kitchen/claims/{path.name}: [{name}]"
    if not _ID.fullmatch(name):
        raise PageError(f"{where}: a claim is numbered with a capital letter and digits")
    check_types(where, entry, texts=_TEXTS, lists=("sources", "source"))
    if unknown := sorted(set(entry) - _KEYS):
        raise PageError(f"{where}: unknown key {unknown[0]!r}{did_you_mean(unknown[0], _KEYS)}")
    for key in ("en", "zh", "where"):
        if not entry.get(key):
            raise PageError(f"{where}: {key} is missing")
    if not isinstance(entry["where"], dict) or any(not isinstance(entry["where"].get(key), str) for key in LANGUAGES):
        raise PageError(f'{where}: where: write {{en = "…", zh = "…"}}')
    if (judge := entry.get("judge", "")) and judge not in JUDGES:
        raise PageError(f"{where}: no judge {judge!r}{did_you_mean(judge, JUDGES)}")
    check_sources(where, entry.get("sources", []))
    by_source = ""
    if entry.get("by") == "source":
        by_source = {"half true": "half", "was true until": "until", "not shown here": "not_shown"}.get(
            entry.get("verdict", ""), entry.get("verdict", "")
        )
        if by_source not in VERDICTS or not entry.get("sources"):
            raise PageError(f"{where}: a verdict by source needs sources and one of {', '.join(VERDICTS)}")
    elif "verdict" in entry or "by" in entry:
        raise PageError(f'{where}: a verdict stands here only with by = "source"; all others are computed')
    if not entry.get("snippet") and not entry.get("sources"):
        raise PageError(f"{where}: needs a snippet or a source")
    return Claim(
        id=name,
        page=path.stem,
        words={"en": entry["en"], "zh": entry["zh"]},
        snippet=entry.get("snippet", ""),
        judge=judge,
        versions=entry.get("versions", False),
        until=str(entry.get("until", "")),
        where=dict(entry["where"]),
        sources=tuple(entry.get("sources", ())),
        functions=tuple(entry.get("source", ())),
        by_source=by_source,
    )


@lru_cache(maxsize=4)
def _load(files: tuple[tuple[Path, int], ...]) -> dict[str, Claim]:
    found: dict[str, Claim] = {}
    for path, _ in files:
        for name, entry in read_entries(path, f"kitchen/claims/{path.name}").items():
            if name in found:
                raise PageError(f"kitchen/claims/{path.name}: [{name}] stands in {found[name].page}.toml too")
            found[name] = _one(path, name, entry)
    return found


def load() -> dict[str, Claim]:
    """All claims by number. Raises PageError naming file, entry and key of what is wrong."""
    return _load(tuple((path, path.stat().st_mtime_ns) for path in sorted(FOLDER.glob("*.toml"))))


# ---- judging --------------------------------------------------------------------------------------------------------


def cases_of(one: Claim, rows: list[Row]) -> list[Row]:
    """The cases that decide a claim, as rows; those that could not be tried keep their place."""
    if one.judge:
        try:
            return [case.row() for case in JUDGES[one.judge](rows)]
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise PageError(
                f"claim {one.id}: its judge {one.judge} can't read the records of {one.snippet!r} "
                f"({type(error).__name__}: {error}): mend the judge, or measure the snippet anew"
            ) from error
    return [row for row in rows if row.get("claim") == one.id]


def _agreed(cases: list[Row]) -> list[bool]:
    """Whether it was as said, of each case that was tried. Anything but a truth value decides nothing."""
    said = (row.get("agrees") for row in cases if data.row_ok(row))
    return [one for one in said if isinstance(one, bool)]


def verdict_of(one: Claim, cases: list[Row]) -> str:
    """One of VERDICTS, from the cases alone; a claim by source has no cases."""
    if one.by_source:
        return one.by_source
    agreed = _agreed(cases)
    if not agreed:
        return "not_shown"
    if all(agreed):
        return "true"
    if any(agreed):
        return "half"
    return "until" if one.until else "false"


def rows_by_machine(one: Claim) -> dict[str, list[Row]]:
    """The rows that a claim rests on, by machine; with ``versions``, of every torch, each row with its ``torch``."""
    if not one.snippet:
        return {}
    if one.versions:
        return {machine: versions.rows_of(views) for machine, views in versions.views_of(one.snippet).items()}
    names = groups.names(one.snippet) if groups.is_pattern(one.snippet) else [one.snippet]
    found: dict[str, list[Row]] = {}
    for name in names:
        model = {"model": name.rpartition("/")[2]}
        for view in data.views(name):
            rows = view.record.rows if view.ok else []
            found.setdefault(view.machine.name, []).extend(model | row for row in rows)
    return {machine: found[machine] for machine in data.machines() if machine in found}


def verdicts(one: Claim) -> dict[str, str]:
    """The verdict on each machine; ``{"": …}`` where no record is asked, or none is there."""
    if one.by_source:
        return {"": one.by_source}
    return {machine: verdict_of(one, cases_of(one, rows)) for machine, rows in rows_by_machine(one).items()} or {
        "": "not_shown"
    }


def chosen_verdict(one: Claim) -> tuple[str, str]:
    """The machine whose verdict stands in a list, and the verdict: the first on which it could be tried."""
    found = verdicts(one)
    return next(((m, v) for m, v in found.items() if v != "not_shown"), next(iter(found.items())))


# ---- drawing --------------------------------------------------------------------------------------------------------


def _badge(one: Claim, verdict: str, language: Language) -> str:
    words = labels.message("c_until", language, version=escape(one.until)) if verdict == "until" else ""
    words = words or _verdict_name(verdict, language)
    return blocks.badge(_BADGES[verdict], words)


def _verdict_name(verdict: str, language: Language) -> str:
    if verdict == "until":
        return labels.message("c_until", language, version="…")
    return labels.message(f"c_{verdict}", language)


def _linked(text: str) -> str:
    """Words with ``[text](https://…)`` links."""
    return re.sub(r"\[([^\]]+)\]\((https://[^)\s]+)\)", lambda m: f'<a href="{m[2]}">{m[1]}</a>', words_with_code(text))


def claim(state: State, name: str) -> str:
    """See kitchen.page.claim."""
    known = load()
    if name not in known:
        raise PageError(f"unknown claim {name!r}{did_you_mean(name, known)}")
    one, language = known[name], state.language
    said = f'<p class="ck-claim">{labels.message("c_said_by", language, where=_linked(one.where[language]))}</p>'
    sources = sources_line(one.sources, language)
    if one.by_source:
        told = labels.message("c_by_source", language)
        return f'\n<p class="ck-verdict">{_badge(one, one.by_source, language)} {told}</p>\n\n{said}\n\n{sources}\n'
    if not one.snippet:
        told = labels.message("c_nothing", language)
        return f'\n<p class="ck-verdict">{_badge(one, "not_shown", language)} {told}</p>\n\n{said}\n\n{sources}\n'
    return f"\n{_evidence(state, one)}\n\n{said}\n\n{_code(state, one)}\n\n{sources}\n"


def _evidence(state: State, one: Claim) -> str:
    """Verdict and cases, one tab a machine, with the provenance of the records."""
    language = state.language
    rows = rows_by_machine(one)

    def body(machine: str) -> str:
        cases = cases_of(one, rows.get(machine, []))
        verdict = verdict_of(one, cases)
        tried = _agreed(cases)
        counted = labels.message("c_by_record", language, agree=number(sum(tried)), cases=number(len(tried)))
        told = counted if tried else labels.message("c_nothing", language)
        line = f'<p class="ck-verdict" data-verdict="{verdict}">{_badge(one, verdict, language)} {told}</p>'
        if not cases:
            return line
        speed = any(row.get("speedup_ratio") is not None for row in cases)
        columns = [*COLUMNS[:3], *(["speedup_ratio"] if speed else []), COLUMNS[3]]
        return line + "\n\n" + tables.html_table(one.snippet, columns, cases, language, region=one.id)

    if groups.is_pattern(one.snippet):
        return groups.per_machine(state, one.snippet, groups.of(one.snippet), lambda group: body(group.machine.name))
    shown = data.views(one.snippet)
    return blocks.per_machine(state, one.snippet, shown, lambda view: body(view.machine.name))


def _code(state: State, one: Claim) -> str:
    if groups.is_pattern(one.snippet) or (one.judge and not one.functions):
        return ""
    if one.functions:
        block = excerpts.source(state, one.snippet, one.functions).strip()
    else:
        block = excerpts.code_block(state, shown_source(one.snippet), "python")
        link = labels.message("source_link", state.language, file=f"<code>{escape_code(one.snippet)}.py</code>")
        url = blocks.snippet_url(state, one.snippet)
        block += f'\n<p class="ck-provenance"><a href="{url}" download>{link}</a></p>'
    summary = labels.message("c_code", state.language, file=f"<code>{escape_code(one.snippet)}.py</code>")
    block = re.sub(r"\n\s*\n", "\n", block)
    return f'<details class="example"><summary>{summary}</summary>\n{block}\n</details>'


def claims(state: State, page: str) -> str:
    """See kitchen.page.claims."""
    known = [one for one in load().values() if one.page == page]
    if not known:
        raise PageError(
            f"no claims in kitchen/claims/{page}.toml{did_you_mean(page, {c.page for c in load().values()})}"
        )
    language = state.language
    heads = [labels.message(f"c_{key}", language) for key in ("number", "claim", "verdict")]
    region = labels.message("table_region", language, name=escape(page))
    counted: Counter[str] = Counter()
    lines = []
    for one in known:
        machine, verdict = chosen_verdict(one)
        counted[verdict] += 1
        title = f' title="{escape(data.machines()[machine].title)}"' if machine else ""
        lines.append(
            f'<tr><th scope="row"><a href="#{escape(one.anchor)}">{escape(one.id)}</a></th>'
            f"<td>{words_with_code(one.words[language])}</td><td{title}>{_badge(one, verdict, language)}</td></tr>"
        )
    counts = labels.listing(
        [
            labels.message("pair", language, name=_verdict_name(v, language), detail=number(counted[v]))
            for v in VERDICTS
            if counted[v]
        ],
        language,
    )
    tally = labels.message("c_tally", language, claims=number(len(known)), counts=counts)
    table = "\n".join(
        [
            f'<div class="ck-scroll" tabindex="0" role="region" aria-label="{region}">',
            '<table class="ck-table ck-claims">',
            "<thead>",
            "<tr>" + "".join(f'<th scope="col">{head}</th>' for head in heads) + "</tr>",
            "</thead>",
            "<tbody>",
            *lines,
            "</tbody>",
            "</table>",
            "</div>",
        ]
    )
    return f'\n<p class="ck-verdict">{tally}</p>\n\n{table}\n'


__all__ = ["Case", "Claim", "cases_of", "claim", "claims", "load", "verdict_of", "verdicts"]
