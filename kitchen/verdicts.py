"""Sentences computed from a record: what it says about a question, and no more than it says.

A rule takes one machine's rows and gives sentences as HTML. The words are in labels.toml; the judgement
of each back end (faster, slower, no difference) is the record's own, made by the snippet from its interval and
its A/A pair.
To add a rule: a function here with ``@rule``, its messages in labels.toml, a test that changes a record.
"""

from __future__ import annotations

import inspect
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from kitchen import blocks, data, groups, labels
from kitchen.context import Language, PageError, State, did_you_mean
from kitchen.data import Row
from kitchen.format import DASH, count, decimals, escape, interval, number, quantity, with_unit

#: A rule: rows, language and the page's parameters to sentences; an empty list means there is nothing to judge by.
Rule = Callable[..., list[str]]
RULES: dict[str, Rule] = {}


def rule(function: Rule) -> Rule:
    """Makes a function a rule under its own name."""
    RULES[function.__name__] = function
    return function


def _value(row: Row, column: str) -> float | None:
    return data.numeric(row.get(column)) if data.row_ok(row) else None


def _backends(rows: Sequence[Row]) -> list[Row]:
    """The rows of back ends: neither the model without compiling nor its A/A twin."""
    return [row for row in rows if isinstance(row.get("backend"), str) and not row["backend"].startswith("none")]


def _name(row: Row, language: Language, column: str = "backend") -> str:
    raw = str(row.get(column))
    shown = labels.name_of(column, raw, language)
    # What has a translation is words; what has none is a name as it stands in code.
    return shown if labels.text_value(column, raw, language) != raw else f"<code>{shown}</code>"


def _pair(name: str, detail: str, language: Language) -> str:
    return labels.message("pair", language, name=name, detail=detail)


def _ratio(row: Row, language: Language) -> str:
    """``1.32×, 1.25–1.40×``."""
    value = _value(row, "speedup_ratio")
    assert value is not None
    low, high = _value(row, "speedup_low"), _value(row, "speedup_high")
    shown = quantity(float(value), "ratio")
    if low is None or high is None:
        return shown
    return labels.message(
        "with_interval", language, value=shown, interval=interval(low, high, "ratio", like=float(value))
    )


def _list(parts: list[str], language: Language) -> str:
    # Details in brackets hold commas, so a list of them takes the stronger sign.
    return labels.message("chart_sep", language).join(parts)


def _percent(share: float) -> str:
    """A share as a percentage with two significant digits, rounded up: a bound must not be understated."""
    percent = share * 100
    if percent == 0:
        return "0%"
    places = min(decimals(percent, 2), 3)
    return with_unit(number(math.ceil(percent * 10**places - 1e-9) / 10**places, places), "%")


def _absent(rows: list[Row], language: Language) -> list[str]:
    """One sentence for the back ends that have no numbers, or nothing."""
    lost = [
        _pair(_name(row, language), labels.name_of("status", str(row["status"]), language), language)
        for row in _backends(rows)
        if not data.row_ok(row)
    ]
    return [labels.message("v_not_measured", language, names=_list(lost, language))] if lost else []


@rule
def fastest_step(rows: list[Row], language: Language) -> list[str]:
    """Which back ends make a step faster than not compiling, which slower, which no different."""
    groups: dict[str, list[Row]] = {"faster": [], "slower": [], "no difference": []}
    for row in _backends(rows):
        if _value(row, "speedup_ratio") is not None and row.get("verdict") in groups:
            groups[row["verdict"]].append(row)
    if not any(groups.values()):
        return []
    sentences = []
    for verdict_, key in (("faster", "v_faster"), ("slower", "v_slower"), ("no difference", "v_same")):
        members = sorted(groups[verdict_], key=lambda row: -float(row["speedup_ratio"]))
        names = [_pair(_name(row, language), _ratio(row, language), language) for row in members]
        if names:
            sentences.append(labels.message(key, language, names=_list(names, language)))
        elif verdict_ == "faster":
            sentences.append(labels.message("v_none_faster", language))
    return sentences + _absent(rows, language)


@rule
def noise(rows: list[Row], language: Language) -> list[str]:
    """What difference this machine can't tell from noise: the A/A pair."""
    for row in rows:
        ratio, low, high = (_value(row, name) for name in ("speedup_ratio", "speedup_low", "speedup_high"))
        if row.get("backend") == "none_again" and ratio is not None and low is not None and high is not None:
            # The larger of the two sides, as a factor: 0.98 and 1/0.98 are the same distance.
            bound = max(high, 1 / low, 1.0) - 1
            return [
                labels.message(
                    "v_noise",
                    language,
                    ratio=number(float(ratio), 3),
                    interval=f"{number(float(low), 3)}–{number(float(high), 3)}",
                    percent=_percent(bound),
                )
            ]
    return []


@rule
def break_even(rows: list[Row], language: Language) -> list[str]:
    """After how many steps each back end has earned its compile time back, or never."""
    some: list[tuple[float, str]] = []
    never = []
    for row in _backends(rows):
        if not data.row_ok(row):
            continue
        needed = _value(row, "break_even")
        if needed is not None and needed >= 0:
            words = labels.message(
                "v_break_even_one", language, count=round(needed), name=_name(row, language), steps=count(needed)
            )
            low, high = _value(row, "break_even_low"), _value(row, "break_even_high")
            if low is not None:
                # Without an upper end the saving may be as good as nothing: there is a least count and no greatest.
                least = count(low)
                ends = (
                    labels.message("v_at_least", language, steps=least)
                    if high is None
                    else f"{least}{DASH}{count(high)}"
                )
                words = _pair(words, ends, language)
            some.append((needed, words))
        elif row.get("break_even_text") == "never":
            never.append(_name(row, language))
    if not some and not never:
        return []
    sentences = []
    if some:
        names = labels.listing([words for _, words in sorted(some)], language)
        sentences.append(labels.message("v_break_even", language, names=names))
    else:
        sentences.append(labels.message("v_break_even_none", language))
    if never and some:
        sentences.append(labels.message("v_never", language, names=labels.listing(never, language)))
    return sentences + _absent(rows, language)


@rule
def pays_for(rows: list[Row], language: Language, *, steps: int) -> list[str]:
    """Which back ends pay over ``steps`` steps: R = saved a step × steps / compile time."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise PageError(f"pays_for: steps = {steps!r}: wants a whole number of steps, at least 1")
    pays: list[tuple[float, str]] = []
    short: list[tuple[float, str]] = []
    never = []
    for row in _backends(rows):
        saved, cost = _value(row, "saved_us"), _value(row, "compile_cold_s")
        if saved is None or cost is None or cost <= 0:
            continue
        # A saving inside the noise is none: times N it would look like a fortune.
        if row.get("verdict") != "faster" or saved <= 0:
            never.append(_name(row, language))
            continue
        r = saved * 1e-6 * steps / cost
        words = _pair(_name(row, language), labels.message("v_r", language, r=number(r)), language)
        (pays if r > 1 else short).append((-r, words))
    if not pays and not short and not never:
        return []
    shown = number(steps)
    sentences = []
    if pays:
        names = labels.listing([words for _, words in sorted(pays)], language)
        key = "v_pays" if len(pays) == 1 else "v_pays_many"
        sentences.append(labels.message(key, language, count=steps, steps=shown, names=names))
    else:
        sentences.append(labels.message("v_pays_none", language, count=steps, steps=shown))
    if short:
        names = labels.listing([words for _, words in sorted(short)], language)
        sentences.append(labels.message("v_pays_not", language, names=names))
    if never:
        sentences.append(labels.message("v_pays_never", language, names=labels.listing(never, language)))
    return sentences + _absent(rows, language)


@rule
def crossing(rows: list[Row], language: Language, *, against: str = "none") -> list[str]:
    """At how many steps each back end's total time meets that of ``against``: measured, extrapolated or never."""
    keys = {
        "measured": "v_crossing",
        "extrapolated": "v_crossing_beyond",
        "never": "v_crossing_never",
        "undecided": "v_crossing_undecided",
    }
    sentences = []
    # What holds for several in the same way is one sentence.
    together: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.get("kind") != "crossing" or not data.row_ok(row) or row.get("other") != against:
            continue
        how, at = str(row.get("how")), _value(row, "crossing_steps")
        if how not in keys or (at is None and how in ("measured", "extrapolated")):
            continue
        start, later = row.get("cheaper_at_start"), row.get("cheaper_later")
        if start is None:
            first, second = (_name({"backend": name}, language) for name in (row["other"], row["backend"]))
            if later is None:
                sentences.append(labels.message("v_crossing_unknown", language, first=first, second=second))
            else:
                last = _name({"backend": later}, language)
                sentences.append(labels.message("v_crossing_start", language, first=first, second=second, later=last))
            continue
        # Of the two, the one that is not cheaper at the start.
        later = row["backend"] if start == row["other"] else row["other"]
        first, second = (_name({"backend": name}, language) for name in (start, later))
        if at is None:
            together.setdefault((keys[how], first), []).append(second)
            continue
        steps = count(at)
        low, high = _value(row, "crossing_low_steps"), _value(row, "crossing_high_steps")
        if low is not None and high is not None:
            steps = _pair(steps, f"{count(low)}–{count(high)}", language)
        sentences.append(labels.message(keys[how], language, start=first, later=second, steps=steps))
    for (key, first), others in together.items():
        names = labels.listing(others, language)
        sentences.append(labels.message(key, language, count=len(others), start=first, other=names))
    # A sentence may start with a name that is words.
    sentences = [sentence[:1].upper() + sentence[1:] for sentence in sentences]
    return sentences + (_absent(rows, language) if sentences else [])


@rule
def launch_cost(rows: list[Row], language: Language, *, clock: str | None = None) -> list[str]:
    """What one more operator in a chain costs: the slope of the line. ``clock``: only that one."""
    fits = [row for row in rows if row.get("kind") == "fit" and _value(row, "slope_us") is not None]
    clocks = {row.get("clock") for row in fits}
    sentences = []
    for row in fits:
        if clock is not None and row.get("clock") != clock:
            continue
        slope = float(row["slope_us"])
        low, high = _value(row, "slope_low_us"), _value(row, "slope_high_us")
        op, cost = _name(row, language, "op"), quantity(slope, "us")
        if len(clocks) > 1:
            op = _pair(op, labels.name_of("clock", row.get("clock"), language), language)
        if low is None or high is None:
            sentences.append(labels.message("v_launch_plain", language, op=op, slope=cost))
        else:
            ends = interval(low, high, "us", like=slope)
            sentences.append(labels.message("v_launch", language, op=op, slope=cost, interval=ends))
    return sentences


@rule
def fusion_speedup(rows: list[Row], language: Language, *, n: int | None = None, place: str | None = None) -> list[str]:
    """How much faster the fused chain is, for ``n`` operators (default: the most measured) and where the data lies."""
    measured = [row for row in rows if _value(row, "speedup_ratio") is not None and _value(row, "n") is not None]
    if not measured:
        return []
    for name, wanted in (("n", n), ("place", place)):
        # Numbers in their order, words in theirs.
        known = sorted(
            {row[name] for row in measured if row.get(name) is not None}, key=lambda v: (isinstance(v, str), v)
        )
        if wanted is not None and wanted not in known:
            raise PageError(f"fusion_speedup: no measured row has {name} = {wanted!r}; there are {known}")
    most = n if n is not None else max(row["n"] for row in measured)
    sentences = []
    for row in measured:
        if row["n"] != most or (place is not None and row.get("place") != place):
            continue
        verdicts = {"faster": "v_fusion_faster", "slower": "v_fusion_slower", "no difference": "v_fusion_same"}
        key = verdicts.get(str(row.get("verdict")))
        low, high = _value(row, "speedup_low"), _value(row, "speedup_high")
        if key is None or low is None or high is None:
            continue
        ratio = float(row["speedup_ratio"])
        size = _value(row, "tensor_kib")
        sentences.append(
            labels.message(
                key,
                language,
                n=number(row["n"]),
                size=quantity(float(size), "kib") if size is not None else "–",
                place=labels.name_of("place", row.get("place"), language),
                ratio=quantity(ratio, "ratio"),
                interval=interval(low, high, "ratio", like=ratio),
            )
        )
    return sentences


@rule
def does_formula_hold(rows: list[Row], language: Language) -> list[str]:
    """How far the total time by the formula, with the terms of the other repeats, lies from the measured one."""
    off: list[float] = []
    worst = 0.0
    inside = 0
    for row in rows:
        total, predicted = _value(row, "total_s"), _value(row, "predicted_s")
        if row.get("kind") != "point" or total is None or predicted is None or total <= 0:
            continue
        off.append(abs(predicted / total - 1))
        # Each repeat has a prediction of its own: the worst of them is the bound, not their median.
        ends = (_value(row, name) for name in ("prediction_low_ratio", "prediction_high_ratio"))
        worst = max(worst, off[-1], *(abs(end - 1) for end in ends if end is not None))
        low, high = _value(row, "total_low_s"), _value(row, "total_high_s")
        inside += low is not None and high is not None and low <= predicted <= high
    if not off:
        return []
    return [
        labels.message(
            "v_formula",
            language,
            count=len(off),
            percent=_percent(worst),
            median=_percent(statistics.median(off)),
            points=number(len(off)),
            inside=number(inside),
        )
    ]


@rule
def tally(rows: list[Row], language: Language, *, workload: str | None = None) -> list[str]:
    """For how many models each back end is faster, slower or no different, and from what ratio to what."""
    rows = [row for row in rows if workload is None or row.get("workload") == workload]
    judged = [row for row in rows if row.get("variant") not in (None, "eager", "eager again")]
    sentences = []
    for variant in dict.fromkeys(str(row["variant"]) for row in judged):
        mine = [row for row in judged if row["variant"] == variant]
        ratios = [ratio for row in mine if (ratio := _value(row, "speedup_ratio")) is not None]
        if not ratios:
            continue
        counts = [
            labels.message(f"v_tally_{key}", language, count=n, n=str(n))
            for verdict_, key in (("faster", "faster"), ("slower", "slower"), ("no difference", "same"))
            if (n := sum(data.row_ok(row) and row.get("verdict") == verdict_ for row in mine))
        ]
        if lost := sum(not data.row_ok(row) for row in mine):
            counts.append(labels.message("v_tally_lost", language, count=lost, n=str(lost)))
        sentences.append(
            labels.message(
                "v_tally",
                language,
                name=_name(mine[0], language, "variant"),
                count=len(mine),
                total=str(len(mine)),
                counts=labels.listing(counts, language),
                span=interval(min(ratios), max(ratios), "ratio", like=1.0)
                if len(ratios) > 1
                else quantity(float(ratios[0]), "ratio"),
            )
        )
    return sentences


@rule
def pick(rows: list[Row], language: Language, *, start: str = "warm", workload: str | None = None) -> list[str]:
    """The tool's own pick for its number of steps, from a cold or a warm start, with its reason."""
    sentences = []
    for row in rows:
        if row.get(f"pick_{start}") and row.get("pick_note") and workload in (None, row.get("workload")):
            parts = dict.fromkeys(str(row["pick_note"]).split(" | "))
            # Both starts picked this row for reasons of their own: cold stands first.
            reasons = list(parts)
            reason = reasons[-1 if start == "warm" else 0]
            sentences.append(
                labels.message(
                    f"v_pick_{start}",
                    language,
                    steps=number(int(row["steps"])),
                    reason=escape(labels.note(reason, language)),
                )
            )
    return sentences


def _parameters(rule: Rule) -> list[str]:
    return [p.name for p in inspect.signature(rule).parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]


def verdict(state: State, name: str, rule_names: tuple[str, ...], params: dict[str, Any]) -> str:
    """See kitchen.page.verdict."""
    if not rule_names:
        raise PageError(f"verdict: name a rule: {', '.join(RULES)}")
    for rule_name in rule_names:
        if rule_name not in RULES:
            raise PageError(f"unknown verdict rule {rule_name!r}{did_you_mean(rule_name, RULES)}")
    known = [parameter for rule_name in rule_names for parameter in _parameters(RULES[rule_name])]
    for parameter in params:
        if parameter not in known:
            raise PageError(
                f"verdict {', '.join(rule_names)}: unknown parameter {parameter!r}{did_you_mean(parameter, known)}"
            )
    calls = []
    for rule_name in rule_names:
        wanted = _parameters(RULES[rule_name])
        own = {key: value for key, value in params.items() if key in wanted}
        try:
            inspect.signature(RULES[rule_name]).bind([], state.language, **own)
        except TypeError as error:
            raise PageError(f"verdict {rule_name!r}: {error}") from error
        calls.append((rule_name, RULES[rule_name], own))

    def body(rows: list[Row]) -> str:
        paragraphs = []
        for rule_name, rule, own in calls:
            sentences = rule(rows, state.language, **own)
            if not sentences:
                sentences = [labels.message("v_no_numbers", state.language)]
            joined = labels.message("join", state.language).join(sentences)
            paragraphs.append(f'<p class="ck-verdict" data-rule="{escape(rule_name)}">{joined}</p>')
        return "\n\n".join(paragraphs)

    if groups.is_pattern(name):
        # The matrix or table beside it has the whole line.
        return groups.per_machine(state, name, groups.of(name), lambda group: body(group.rows), line=False)
    return blocks.per_machine(state, name, data.views(name), lambda view: body(view.record.rows), short=True)
