"""The data of the results explorer: one entry for each row of each record of the comparison tool.

Entries carry the numbers as they were recorded. The newest record of a snippet is taken for each machine and each
version of torch, so an older version stays beside the newer one. What failed is an entry with its reason.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from kitchen import data, labels, results
from kitchen.blocks import command
from kitchen.context import Language
from kitchen.results import Record
from kitchen.tools import Payload

#: The snippets whose rows are those of the comparison tool.
SNIPPETS = ("models/", "measuring/compare_backends")
#: Columns of a row that the page shows or sorts by; other columns stay in the record.
NUMBERS = (
    "speedup_ratio",
    "step_us",
    "compile_cold_s",
    "compile_warm_s",
    "break_even_cold",
    "break_even_warm",
    "peak_mib",
    "max_rel_error",
)
ENDS = (
    "speedup_low",
    "speedup_high",
    "step_q1_us",
    "step_q3_us",
    "break_even_cold_low",
    "break_even_cold_high",
    "break_even_warm_low",
    "break_even_warm_high",
)
FACTS = ("threads", "graphs", "graph_breaks", "recompiles", "operators", "processes", "rounds", "tolerance")
#: Where a checkout lay on the machine that measured, before the part of a path that is the same everywhere.
_ELSEWHERE = re.compile(r"[^\s\"'(]*/(?=snippets/)")
#: The A/A pair shows the noise; it is no back end.
AGAIN = "eager again"


def newest() -> list[Record]:
    """The newest record of each snippet by machine and version of torch, oldest first."""
    found: dict[tuple[str, str, str], Record] = {}
    for record in data.records():
        if record.snippet.startswith(SNIPPETS):
            found[record.machine, str(record.run.environment.get("torch")), record.snippet] = record
    return list(found.values())


def payload(language: Language) -> Payload:
    """Every entry, and the words for what their columns hold."""
    records = newest()
    known = set(data.snippet_names())
    entries: list[dict[str, Any]] = []
    for index, record in enumerate(records):
        entries += [{"record": index} | entry for entry in _entries(record, language)]
    rooms = data.machines()
    names = {
        column: sorted({str(entry[column]) for entry in entries if entry.get(column)})
        for column in ("model", "variant", "workload", "status", "verdict", "ran")
    }
    return Payload(
        {
            "records": [
                {
                    "snippet": record.snippet,
                    "machine": record.machine,
                    "torch": str(record.run.environment.get("torch") or ""),
                    "date": record.started[:10],
                    "url": _url(record.path),
                    "run": _url(record.run.path / "run.json" if record.run.path.is_dir() else record.run.path),
                    "command": command(record.snippet),
                    "stale": record.snippet not in known or results.is_stale(record, data.snippet(record.snippet)),
                }
                for record in records
            ],
            "machines": {name: machine.title for name, machine in rooms.items()},
            "entries": entries,
            "names": {
                column: {value: labels.text_value(column, value, language) for value in values}
                for column, values in names.items()
            },
            "columns": {
                name: {
                    "label": shown.label,
                    "unit": shown.unit,
                    "format": shown.format,
                    "meaning": shown.meaning,
                    "best": shown.best,
                }
                for name in (*NUMBERS, *FACTS)
                if (shown := labels.column(name, language))
            },
        }
    )


def _url(path: Any) -> str:
    return f"results/{path.relative_to(results.RESULTS).as_posix()}"


def _entries(record: Record, language: Language) -> list[dict[str, Any]]:
    fallback = PurePosixPath(record.snippet).name
    if record.status != "ok" or not record.rows:
        reason = labels.note(record.reason, language) if record.reason else ""
        return [{"model": fallback, "variant": "", "workload": "", "status": record.status, "note": reason}]
    found = []
    for index, row in enumerate(record.rows):
        if row.get("variant") == AGAIN:
            continue
        entry: dict[str, Any] = {
            "row": index,
            "model": str(row.get("model", fallback)),
            "variant": str(row.get("variant", "")),
            "workload": str(row.get("workload") or ""),
            "device": str(row.get("device") or ""),
            "status": str(row.get("status", "ok")),
            "verdict": row.get("verdict"),
            "ran": row.get("ran"),
            "never": row.get("break_even_text") == "never",
            "call": str(row.get("call") or ""),
        }
        for column in (*NUMBERS, *ENDS, *FACTS):
            value = data.numeric(row.get(column))
            if value is not None:
                # Six digits are more than a page shows or a chart resolves.
                entry[column] = value if isinstance(value, int) else float(f"{value:.6g}")
        for column in ("note", "breaks", "recompile_reasons", "warnings"):
            if row.get(column):
                entry[column] = labels.note(_ELSEWHERE.sub("", str(row[column])), language)
        found.append(entry)
    return found
