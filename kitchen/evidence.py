"""What the records say about a rule of the chooser: rows of a snippet, who won, which strategy takes least time.

Who won over N steps is decided as the comparison tool decides its own pick: a variant must have been judged faster, and
where the totals are too close to call, not compiling is simpler.
"""

from __future__ import annotations

import html
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kitchen import chooser, data, groups, labels, results, tables
from kitchen.chooser import Json, When
from kitchen.context import ROOT, Language
from kitchen.data import Row, View
from kitchen.format import DASH, count, decimals, number, one_line, quantity, scale_of, with_unit

#: A compile that was timed once is given this spread, as compare_backends does.
SINGLE_COMPILE_SPREAD = 0.1
PLAIN, AGAIN = "eager", "eager again"


def page_link(target: str, language: Language) -> Json:
    """A place on the site: its address below the language, and its heading as the words of a link."""
    path, _, anchor = target.partition("#")
    url = re.sub(r"(^|/)index\.md$", r"\1", path).replace(".md", "/")
    file = Path(ROOT, "docs", language, path)
    text = file.read_text("utf-8") if file.is_file() else ""
    patterns = [r"^# +(.+?) *(?:\{#.*)?$", *([rf"^##+ +(.+?) *\{{#{re.escape(anchor)}\}}"] if anchor else [])]
    found = [match.group(1) for pattern in patterns if (match := re.search(pattern, text, re.MULTILINE))]
    heading = " › ".join(re.sub(r"\[([^\]]*)\]\([^)]*\)|[*`]", r"\1", one) for one in found) or target
    return {"url": url + (f"#{anchor}" if anchor else ""), "title": heading}


def device_of(view: View) -> str:
    """``cuda`` or ``cpu``: what the rows of a record ran on."""
    for row in view.record.rows:
        if isinstance(row.get("device"), str):
            return str(row["device"]).partition(":")[0]
    return "cuda" if view.machine.gpu else "cpu"


def source_of(view: View) -> Json:
    """Who measured it, and when: the machine, the version, the day, the address of the record below the site's root."""
    return {
        "name": view.machine.name,
        "machine": one_line(view.machine.title),
        "device": device_of(view),
        "torch": one_line(view.record.run.environment.get("torch") or ""),
        "date": view.record.started[:10],
        "record": f"results/{view.record.path.relative_to(results.RESULTS).as_posix()}",
        "stale": view.stale,
    }


# ---- rows -------------------------------------------------------------------------------------------------------


def cell(snippet: str, name: str, row: Row, language: Language) -> Json:
    """A value of a row with its unit, and its interval where it has one."""
    column = labels.column(name, language, snippet)
    value = data.numeric(row.get(name))
    if value is None:
        raw = row.get(name)
        if raw is None and name.startswith("break_even") and row.get("break_even_text"):
            name, raw = "break_even_text", row["break_even_text"]
        if raw is None:
            return {"value": DASH}
        return {
            "value": ("✓" if raw else "✗") if isinstance(raw, bool) else labels.text_value(name, str(raw), language)
        }
    shown = {"value": tables.format_number(column, value, None)}
    low, high = (data.numeric(row.get(end)) for end in column.spread) if column.spread else (None, None)
    if low is None or column.format in ("integer", "scientific") or low == high:
        return shown
    if high is None:  # only a break-even count may be open upwards
        return shown | ({"interval": f"{count(low)}{DASH}∞"} if name.startswith("break_even") else {})
    if column.format == "count":
        return shown | {"interval": f"{count(low)}{DASH}{count(high)}"}
    scale = scale_of(value, column.unit)
    places = decimals(value * scale.factor)
    ends = f"{number(low * scale.factor, places)}{DASH}{number(high * scale.factor, places)}"
    return shown | {"interval": with_unit(ends, scale.symbol)}


def rows_of(entry: Json, device: str | None, language: Language) -> Json:
    """The rows that an entry names, on each machine that has them."""
    snippet, columns = entry["snippet"], entry["columns"]
    found = []
    for view in data.views(snippet):
        if not view.ok or (device and device_of(view) != device):
            continue
        rows = []
        for row in data.select(view.record.rows, entry["where"]):
            name = ", ".join(labels.text_value(column, str(row.get(column)), language) for column in entry["name"])
            if data.row_ok(row):
                rows.append({"name": name, "cells": [cell(snippet, column, row, language) for column in columns]})
            else:
                note = labels.note(str(row.get("note") or row["status"]), language)
                rows.append({"name": name, "cells": [], "note": one_line(note)})
        if rows:
            found.append(source_of(view) | {"rows": rows})
    heads = [labels.column(column, language, snippet) for column in columns]
    return {
        "kind": "rows",
        "say": entry["say"][language],
        "page": page_link(entry["page"], language),
        "columns": [{"label": head.label, "meaning": head.meaning} for head in heads],
        "machines": found,
    }


# ---- winners ----------------------------------------------------------------------------------------------------


def _totals(rows: Sequence[Row], steps: int, start: str) -> Iterator[tuple[Row, float, float, float, float]]:
    """Each row that may win: compile time, total, and what the total may be at least and at most, in seconds."""
    plain = next((row for row in rows if row.get("variant") == PLAIN), None)
    step_us = data.numeric(plain.get("step_us")) if plain and data.row_ok(plain) else None
    if plain is None or step_us is None:
        return
    work = steps * step_us * 1e-6
    yield plain, 0.0, work, work, work
    for row in rows:
        cost, ratio, ratio_low, ratio_high, least, most = (
            data.numeric(row.get(name))
            for name in (
                f"compile_{start}_s", "speedup_ratio", "speedup_low", "speedup_high",
                f"compile_{start}_low_s", f"compile_{start}_high_s",
            )
        )  # fmt: skip
        if row is plain or row.get("variant") == AGAIN or not data.row_ok(row) or row.get("verdict") != "faster":
            continue
        if str(row.get("ran") or "yes").startswith("no") or cost is None or least is None or most is None:
            continue
        if not ratio or not ratio_low or not ratio_high:
            continue
        if least == most:
            least, most = least * (1 - SINGLE_COMPILE_SPREAD), most * (1 + SINGLE_COMPILE_SPREAD)
        yield row, cost, cost + work / ratio, least + work / ratio_high, most + work / ratio_low


def winner(rows: Sequence[Row], steps: int, start: str) -> Row | None:
    """Of the rows of one model and workload the one to take over ``steps`` steps; None where eager was not timed."""
    found = list(_totals(rows, steps, start))
    if not found:
        return None
    best = min(found, key=lambda total: total[2])
    # Simplest first: not compiling, then the least compile time.
    return next(
        row for row, _, _, low, _ in sorted(found, key=lambda total: total[1]) if row is best[0] or low <= best[4]
    )


def _cases(view: View) -> dict[tuple[str, str], list[Row]]:
    """The rows of a record by model and workload."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in view.record.rows:
        found.setdefault((str(row.get("model")), str(row.get("workload"))), []).append(row)
    return found


def calculator_id(model: str) -> str:
    """The name of a model in an address of the break-even calculator: ``gpt_decoder-decode``."""
    return re.sub(r":build(_(?=\w))?", lambda match: "-" if match.group(1) else "", model)


def _case(view: View, model: str, rows: Sequence[Row], steps: int, start: str, language: Language) -> Json | None:
    won = winner(rows, steps, start)
    compiled = [row for row in rows if row.get("variant") not in (PLAIN, AGAIN, "aot_eager")]
    if won is None or not compiled:
        return None
    shown = won if won.get("variant") != PLAIN else compiled[0]
    saved, cost = data.numeric(shown.get("saved_us")), data.numeric(shown.get(f"compile_{start}_s"))
    payoff = saved * 1e-6 * steps / cost if saved and cost and shown.get("verdict") != "no difference" else None
    snippet = view.snippet.name
    return {
        "id": calculator_id(model),
        "model": labels.text_value("model", model, language),
        "wins": str(won["variant"]),
        "verdict": cell(snippet, "verdict", shown, language)["value"],
        "speedup": cell(snippet, "speedup_ratio", shown, language),
        "break_even": cell(snippet, f"break_even_{start}", shown, language),
        "r": DASH if payoff is None else number(payoff),
        "record": source_of(view)["record"],
        "least": data.numeric(shown.get(f"break_even_{start}")) if shown.get("verdict") == "faster" else None,
    }


def winners_of(entry: Json, device: str | None, workload: str, steps: int, language: Language) -> list[Json]:
    """Who wins over ``steps`` steps of each model, machine by machine."""
    names = groups.names(entry["snippet"]) if groups.is_pattern(entry["snippet"]) else [entry["snippet"]]
    found: dict[str, Json] = {}
    for name in names:
        for view in data.views(name):
            if not view.ok or (device and device_of(view) != device):
                continue
            for (model, of), rows in _cases(view).items():
                case = _case(view, model, rows, steps, entry["start"], language) if of == workload else None
                if case:
                    source = source_of(view)
                    machine = found.setdefault(view.machine.name, source | {"cases": [], "dates": [], "stale": False})
                    machine["cases"].append(case)
                    machine["dates"].append(source["date"])
                    machine["stale"] |= source["stale"]
    for machine in found.values():
        cases = machine["cases"]
        # Those that pay first, then in the order of the back end's gain.
        cases.sort(key=lambda case: (case["wins"] == PLAIN, case["least"] is None, case["least"] or math.inf))
        machine["total"], machine["won"] = len(cases), sum(case["wins"] != PLAIN for case in cases)
        known = [case for case in cases if case["least"] is not None]
        soonest = min(known, key=lambda case: case["least"]) if known else None
        machine["least"] = soonest and {"count": count(soonest["least"]), "model": soonest["model"]}
        for case in cases:
            del case["least"]
        dates = machine.pop("dates")
        if len(cases) > 1:
            # Each case names its own record.
            machine |= {"date": DASH.join(dict.fromkeys((min(dates), max(dates)))), "record": None}
    return [found[name] for name in data.machines() if name in found]


# ---- least total time -------------------------------------------------------------------------------------------


def least_total(entry: Json, device: str | None, steps: int, language: Language) -> list[Json]:
    """The strategies of choosing/recompiles by their total time over ``steps`` steps, least first."""
    found = []
    for view in data.views(entry["snippet"]):
        totals = []
        for row in view.record.rows if view.ok and (not device or device_of(view) == device) else []:
            cost, step = data.numeric(row.get("compile_all_s")), data.numeric(row.get("step_us"))
            if row.get("kind") == "strategy" and data.row_ok(row) and cost is not None and step is not None:
                name = str(row["strategy"])
                # Words for the page's script, which takes text and no markup.
                totals.append(
                    (cost + steps * step * 1e-6, name, html.unescape(labels.name_of("strategy", name, language)))
                )
        if totals:
            totals.sort()
            ranked = [{"id": name, "name": words, "total": quantity(total, "s")} for total, name, words in totals]
            found.append(source_of(view) | {"ranked": ranked})
    return found


# ---- a rule -----------------------------------------------------------------------------------------------------


def _device(rule: Json, entry: Json) -> str | None:
    """Which device an entry is about: its own word, else a CPU where the rule is about nothing else."""
    return entry.get("device") or ("cpu" if rule["when"].get("hardware") == ["cpu"] else None)


def _over(rule: Json, *names: str) -> Iterator[tuple[str, ...]]:
    """Every combination of answers to these questions with which a rule may be taken."""
    reachable = {tuple(full[name] for name in names) for full, taken in chooser.outcomes() if taken == rule["id"]}
    for values in itertools.product(*(chooser.questions()[name] for name in names)):
        if values in reachable:
            yield values


def resolve(rule: Json, language: Language) -> list[Json]:
    """The evidence of a rule from the records; ``when`` says for which answers an item stands."""
    found = []
    for entry in rule.get("evidence", []):
        device = _device(rule, entry)
        if entry["kind"] == "rows":
            found.append(rows_of(entry, device, language) | {"device": device})
            continue
        page = page_link(entry["page"], language)
        if entry["kind"] == "winners":
            for workload, steps in _over(rule, "workload", "steps"):
                n = chooser.steps_of(steps)
                when: When = {"workload": [workload], "steps": [steps]}
                machines = winners_of(entry, device, workload, n, language)
                found.append(
                    {"kind": "winners", "when": when, "device": device, "start": entry["start"], "n": n}
                    | {"steps": number(n), "workload": workload, "page": page, "machines": machines}
                )
        else:
            for (steps,) in _over(rule, "steps"):
                n = chooser.steps_of(steps)
                when = {"steps": [steps]}
                machines = least_total(entry, device, n, language)
                found.append(
                    {"kind": "least_total", "when": when, "device": device, "n": n, "steps": number(n)}
                    | {"page": page, "machines": machines}
                )
    return found


def why_not(rule: Json, evidence: Sequence[Json], language: Language) -> list[Json]:
    """The rule's sentence about records that do not all agree, with their numbers, for each set of answers."""
    if "why_not" not in rule:
        return []
    found: list[Json] = []
    for item in evidence:
        if item["kind"] == "rows" or not item["machines"] or any(known["when"] == item["when"] for known in found):
            continue
        first, values = item["machines"][0], {"steps": item["steps"]}
        if item["kind"] == "winners":
            least = first["least"] or {"count": DASH, "model": DASH}
            values |= {
                "won": str(first["won"]),
                "total": str(first["total"]),
                "least": least["count"],
                "model": least["model"],
            }
        else:
            best = first["ranked"][0]
            values["best"] = labels.message("pair", language, name=best["name"], detail=best["total"])
        found.append({"when": item["when"], "text": rule["why_not"][language].format(**values)})
    return found
