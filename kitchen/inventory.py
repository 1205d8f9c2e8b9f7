"""The page *Machines and results*: what was measured on, with what, when, and where the JSON is."""

from __future__ import annotations

from collections import Counter

from kitchen import blocks, data, labels
from kitchen.context import State
from kitchen.format import escape, number, quantity, with_unit
from kitchen.results import Machine, Record, Run


def _pairs_table(rows: list[tuple[str, str]], region: str, heads: tuple[str, str]) -> str:
    lines = [
        f'<div class="ck-scroll" tabindex="0" role="region" aria-label="{escape(region)}">',
        '<table class="ck-table">',
        "<thead>",
        f'<tr><th scope="col">{heads[0]}</th><th scope="col">{heads[1]}</th></tr>',
        "</thead>",
        "<tbody>",
        *(f'<tr><th scope="row">{name}</th><td>{value}</td></tr>' for name, value in rows),
        "</tbody>",
        "</table>",
        "</div>",
    ]
    return "\n".join(lines)


def _environment(state: State, machine: Machine, newest: Run | None) -> str:
    language = state.language

    def word(key: str) -> str:
        return labels.message(key, language)

    unknown = f'<span class="muted">{word("unknown_version")}</span>'
    caches = ", ".join(
        f"{escape(level.removesuffix('_kib'))} {quantity(size, 'kib')}" for level, size in machine.caches.items()
    )
    gpu = word("m_no_gpu")
    if machine.gpu:
        gpu = escape(machine.gpu.get("name", ""))
        if memory := data.numeric(machine.gpu.get("memory_gib")):
            gpu += ", " + with_unit(number(float(memory)), "GiB")
        if (count := machine.gpu.get("count", 1)) != 1:
            gpu += f" × {escape(count)}"
    rows = [
        (word("m_cpu"), escape(machine.cpu)),
        (word("m_cores"), number(machine.cores)),
        (
            word("m_memory"),
            with_unit(number(float(machine.memory_gib)), "GiB") if machine.memory_gib is not None else unknown,
        ),
        (word("m_caches"), caches or unknown),
        (word("m_gpu"), gpu),
    ]
    if newest is not None:
        environment = newest.environment
        for key, field in (
            ("m_torch", "torch"),
            ("m_python", "python"),
            ("m_triton", "triton"),
            ("m_cuda", "cuda"),
            ("m_driver", "driver"),
            ("m_cxx", "cxx"),
            ("m_os", "os"),
            ("m_threads", "threads"),
        ):
            if environment.get(field) is not None:
                rows.append((word(key), escape(environment[field])))
    file = f'<a href="{blocks.json_url(state, machine.path)}">machine.json</a>'
    rows.append((word("m_file"), file))
    return _pairs_table(rows, f"{machine.title}: {word('m_environment')}", (word("m_property"), word("m_value")))


def _counts(state: State, records: list[Record]) -> str:
    counted = Counter(record.status for record in records)
    return "<br>".join(
        labels.message("m_count", state.language, status=labels.name_of("status", status, state.language), n=number(n))
        for status, n in sorted(counted.items(), key=lambda item: (item[0] != "ok", item[0]))
    )


def _commit(state: State, run: Run) -> str:
    if not run.git_commit:
        return blocks.missing(state.language)
    short = f"<code>{escape(run.git_commit[:8])}</code>"
    return labels.message("m_dirty", state.language, commit=short) if run.git_dirty else short


def _links(state: State, members: list[Record], run: Run) -> str:
    """The files of a run, chapter by chapter: a run may have a hundred."""
    chapters: dict[str, list[str]] = {}
    for record in sorted(members, key=lambda r: r.snippet):
        chapter, _, name = record.snippet.rpartition("/")
        link = f'<a href="{blocks.json_url(state, record.path)}">{escape(name)}</a>'
        chapters.setdefault(chapter, []).append(link)
    parts = [f"<b>{escape(chapter)}</b> " + ", ".join(links) for chapter, links in chapters.items()]
    return "<br>".join([*parts, f'<a href="{blocks.json_url(state, run.path)}">run.json</a>'])


def _runs(state: State, machine: Machine, records: list[Record]) -> str:
    language = state.language
    by_run: dict[str, list[Record]] = {}
    for record in records:
        by_run.setdefault(record.run.path.as_posix(), []).append(record)
    heads = ("m_started", "m_status", "m_load", "m_commit")
    region = f"{machine.title}: {labels.message('m_runs', language)}"
    lines = [
        f'<div class="ck-scroll" tabindex="0" role="region" aria-label="{escape(region)}">',
        '<table class="ck-table">',
        "<thead>",
        "<tr>" + "".join(f'<th scope="col">{labels.message(h, language)}</th>' for h in heads) + "</tr>",
        "</thead>",
        "<tbody>",
    ]
    for members in sorted(by_run.values(), key=lambda found: found[0].run.started, reverse=True):
        run = members[0].run
        known = ("complete", "interrupted", "running")
        status = labels.message(f"m_{run.status}", language) if run.status in known else escape(run.status)
        if run.reason:
            status += f"<br><small>{escape(labels.note(run.reason, language))}</small>"
        load = ", ".join(number(float(v), 2) for v in run.load_start) if run.load_start else blocks.missing(language)
        links = _links(state, members, run)
        started = escape(run.started.replace("T", " ").removesuffix("Z"))
        torch = escape(run.environment.get("torch") or labels.message("unknown_version", language))
        lines.append(
            f'<tr><th scope="row" rowspan="2">{started}<br><small class="ck-spread">PyTorch {torch}</small></th>'
            f"<td>{status}<br>{_counts(state, members)}</td><td>{load}</td><td>{_commit(state, run)}</td></tr>"
        )
        lines.append(f'<tr class="ck-below"><td colspan="3">{links}</td></tr>')
    return "\n".join([*lines, "</tbody>", "</table>", "</div>"])


def machines(state: State) -> str:
    """See kitchen.page.machines. Sections, not tabs: the page is where all machines stand side by side."""
    language = state.language
    found = data.machines()
    if not found:
        command = "<code>python -m kitchen measure</code>"
        title = labels.message("missing_title", language)
        words = labels.message("m_none", language, command=command)
        return f'\n<div class="admonition note"><p class="admonition-title">{title}</p><p>{words}</p></div>\n'
    records = data.records()
    parts = []
    for machine in found.values():
        own = [record for record in records if record.machine == machine.name]
        newest = max((record.run for record in own), key=lambda run: run.started, default=None)
        block = [
            '<div class="ck-machines">',
            f'<h3 id="{escape(machine.name)}">{escape(machine.title)}</h3>',
            _environment(state, machine, newest),
        ]
        if own:
            block += [f"<p>{labels.message('m_runs', language)}</p>", _runs(state, machine, own)]
        parts.append("\n".join([*block, "</div>"]))
    return "\n" + "\n\n".join(parts) + "\n"
