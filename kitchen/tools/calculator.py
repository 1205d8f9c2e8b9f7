"""The data of the break-even calculator: what each record says of compile time, step time and speed-up."""

from __future__ import annotations

import re
from typing import Any

from kitchen import data, labels, results
from kitchen.context import Language
from kitchen.data import Row, View
from kitchen.tools import Payload

#: The plain model against four back ends, by a snippet of its own; all others are rows of the comparison tool.
OVERVIEW = "overview/four_backends"
TOOL = "measuring/compare_backends"

TIMES = tuple(f"compile_{start}{end}_s" for start in ("cold", "warm") for end in ("", "_low", "_high"))
NUMBERS = ("step_us", "speedup_ratio", "speedup_low", "speedup_high", *TIMES)


def sources() -> list[str]:
    """The snippets whose records can be chosen, in the order in which a reader meets them."""
    names = data.snippet_names()
    return [name for name in (OVERVIEW, *(n for n in names if n.startswith("models/")), TOOL) if name in names]


def payload(language: Language) -> Payload:
    """The newest record of each model on each machine, one case for each of its models and workloads."""
    found = [case for name in sources() for view in data.views(name) for case in _cases(view, language)]
    machines = {case["machine"]: title for case, title in found}
    models = {case["model"]: case["model_title"] for case, _ in found}
    works = {case["work"]: case["work_title"] for case, _ in found}
    order = [name for name in data.machines() if name in machines]
    return Payload(
        {
            "machines": [[name, machines[name]] for name in order],
            "models": sorted(([key, title] for key, title in models.items()), key=lambda pair: pair[1] or ""),
            "works": [[key, title] for key, title in works.items()],
            "cases": [case for case, _ in found],
            "verdicts": {
                key: labels.text_value("verdict", key, language) for key in ("faster", "slower", "no difference")
            },
            "statuses": {
                key: labels.text_value("status", key, language) for key in ("ok", "failed", "wrong", "not measured")
            },
            "failures": {key: words[language] for key, words in labels.data()["values"]["failure"].items()},
            "plain": labels.text_value("variant", "eager", language),
        }
    )


def slug(text: str) -> str:
    """A name for the address: ``resnet18:build`` is ``resnet18``, ``mlp:build_wide`` would be ``mlp-wide``."""
    short = re.sub(r":build(_(?=\w))?", lambda match: "-" if match.group(1) else "", text)
    return re.sub(r"[^\w.-]+", "-", short).strip("-")


def _about(view: View) -> dict[str, Any]:
    """Where the numbers of a case come from."""
    return {
        "machine": view.machine.name,
        "torch": view.record.run.environment.get("torch"),
        "date": view.record.started[:10],
        "record": view.record.path.relative_to(results.RESULTS).as_posix(),
        "stale": view.stale,
    }


def _without_rows(view: View, language: Language) -> dict[str, Any]:
    """The case of a record that has no rows: its status and reason stand in place of the numbers."""
    name = view.snippet.name.rpartition("/")[2]
    record = view.record
    status = labels.text_value("status", "not measured" if record.status == "ok" else record.status, language)
    return _about(view) | {
        "model": "demo_mlp" if view.snippet.name == TOOL else name,
        "model_title": None if view.snippet.name == OVERVIEW else labels.text_value("model", f"{name}:build", language),
        "work": "inference",
        "work_title": labels.text_value("workload", "inference", language),
        "failed": f"{status}: {labels.note(record.reason, language)}" if record.reason else status,
        "method": "paired",
        "rows": [],
    }


def _cases(view: View, language: Language) -> list[tuple[dict[str, Any], str]]:
    """The cases of a record with the title of its machine."""
    if not view.ok:
        return [(_without_rows(view, language), view.machine.title)]
    groups: dict[tuple[str, str], list[Row]] = {}
    overview = view.snippet.name == OVERVIEW
    for row in view.record.rows:
        if overview:
            groups.setdefault((OVERVIEW, "inference"), []).append(_overview_row(row))
        elif row.get("variant") is not None:
            groups.setdefault((str(row.get("model")), str(row.get("workload"))), []).append(row)
    cases = []
    for (model, work), rows in groups.items():
        again = next((row for row in rows if row["variant"] == "eager again"), None)
        case = _about(view) | {
            "model": "four_backends" if overview else slug(model),
            # The words of the tool name the model of the overview: no column of the record does.
            "model_title": None if overview else labels.text_value("model", model, language),
            "work": slug(work),
            "work_title": labels.text_value("workload", work, language),
            "method": "medians" if overview else "paired",
            "device": rows[0].get("device"),
            "threads": rows[0].get("threads"),
            "warnings": next((row["warnings"] for row in rows if row.get("warnings")), None),
            "again": _kept(again, language) if again and data.row_ok(again) else None,
            "rows": [_kept(row, language) for row in rows if row is not again],
        }
        cases.append((case, view.machine.title))
    return cases


def _overview_row(row: Row) -> Row:
    """A row of the overview's record as the comparison tool would name it."""
    backend = str(row.get("backend"))
    names = {"none": "eager", "none_again": "eager again", "eager": "compile:eager"}
    return row | {"variant": names.get(backend, backend), "backend": backend}


def _kept(row: Row, language: Language) -> dict[str, Any]:
    """What the calculator needs of a row; texts in the page's language."""
    plain = row["variant"] == "eager"
    kept: dict[str, Any] = {"variant": row["variant"], "status": row.get("status", "ok")}
    kept |= {name: data.numeric(row.get(name)) for name in NUMBERS}
    kept["verdict"] = row.get("verdict")
    if plain:
        kept["plain"] = True
    for name in ("note", "ran"):
        if row.get(name):
            kept[name] = row[name]
            kept[f"{name}_words"] = labels.note(str(row[name]), language)
    if row.get("failure"):
        kept["failure"] = row["failure"]
    return kept
