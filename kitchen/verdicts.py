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
    return f"<code>{shown}</code>" if labels.is_name(column, raw, language) else shown


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


# ---- chapter: inductor ------------------------------------------------------------------------------------------


def _interval_of(row: Row, low: str, high: str, unit: str, like: float) -> str:
    """The interval of a row, or a dash where it has none."""
    ends = _value(row, low), _value(row, high)
    return DASH if ends[0] is None or ends[1] is None else interval(ends[0], ends[1], unit, like=like)


@rule
def memory_floor(rows: list[Row], language: Language) -> list[str]:
    """How many times the time of a plain copy the chains take on the largest tensor."""
    known = [row for row in rows if _value(row, "floor_ratio") is not None and _value(row, "tensor_kib") is not None]
    if not known:
        return []
    largest = max(float(row["tensor_kib"]) for row in known)
    sentences = []
    for row in known:
        if row["tensor_kib"] != largest:
            continue
        ratio = float(row["floor_ratio"])
        sentences.append(
            labels.message(
                "v_floor",
                language,
                fused=labels.name_of("series", row.get("series"), language),
                size=quantity(largest, "kib"),
                place=labels.name_of("place", row.get("place"), language),
                ratio=quantity(ratio, "ratio"),
                interval=_interval_of(row, "floor_low", "floor_high", "ratio", ratio),
            )
        )
    return sentences


@rule
def compile_phases(rows: list[Row], language: Language) -> list[str]:
    """Which phase takes most of each start, and what a warm start saves."""
    sentences, totals = [], {}
    for total in rows:
        whole = _value(total, "total_s")
        if total.get("kind") != "compile_total" or whole is None:
            continue
        start = total.get("start")
        totals[start] = whole
        phases = [
            row
            for row in rows
            if row.get("kind") == "compile_phase" and row.get("start") == start and _value(row, "share") is not None
        ]
        if not phases:
            continue
        most = max(phases, key=lambda row: float(row["share"]))
        sentences.append(
            labels.message(
                "v_phase_most",
                language,
                start=_name(total, language, "start"),
                total=quantity(whole, "s"),
                phase=_name(most, language, "phase"),
                share=quantity(float(most["share"]), "share"),
            )
        )
    if "cold" in totals and "warm" in totals and totals["cold"] > 0:
        share = quantity(totals["warm"] / totals["cold"], "share")
        sentences.append(labels.message("v_phase_saved", language, ratio=share))
    return [sentence[:1].upper() + sentence[1:] for sentence in sentences]


@rule
def kernel_counter(rows: list[Row], language: Language, *, setting: str = "default") -> list[str]:
    """Where torch's counter of generated kernels is not the number of kernels in the code."""
    sentences = []
    for row in rows:
        counter, kernels, loops = (_value(row, name) for name in ("generated_counter", "kernels", "loop_nests"))
        if row.get("setting") != setting or counter is None or kernels is None or loops is None or counter == kernels:
            continue
        sentences.append(
            labels.message(
                "v_counter",
                language,
                case=_name(row, language, "case"),
                counter=number(counter),
                kernels=labels.message("v_counter_kernels", language, count=round(kernels), n=number(kernels)),
                loops=labels.message("v_counter_loops", language, count=round(loops), n=number(loops)),
            )
        )
    return sentences


@rule
def fusion_worth(rows: list[Row], language: Language) -> list[str]:
    """What inlining and fusion are each worth: the speed-up of every setting, one sentence a function."""
    cases: dict[str, list[str]] = {}
    for row in rows:
        if row.get("kind") == "kernel_time" and row.get("verdict") and _value(row, "speedup_ratio") is not None:
            words = _pair(_name(row, language, "setting"), _ratio(row, language), language)
            cases.setdefault(_name(row, language, "case"), []).append(words)
    return [
        labels.message("v_setting", language, case=case, names=_list(names, language)) for case, names in cases.items()
    ]


@rule
def modes_against_default(rows: list[Row], language: Language) -> list[str]:
    """Which modes make a call faster than the default mode, which slower, and where CUDA graphs were left out."""
    groups: dict[str, list[str]] = {"faster": [], "slower": [], "no difference": []}
    skipped = []
    for row in rows:
        ratio = _value(row, "against_default_ratio")
        if _value(row, "graph_skips"):
            skipped.append(_name(row, language, "mode"))
        if ratio is None or row.get("verdict_default") not in groups:
            continue
        ends = _interval_of(row, "against_default_low", "against_default_high", "ratio", ratio)
        detail = labels.message("with_interval", language, value=quantity(ratio, "ratio"), interval=ends)
        groups[row["verdict_default"]].append(_pair(_name(row, language, "mode"), detail, language))
    if not any(groups.values()):
        return []
    keys = {"faster": "v_mode_faster", "slower": "v_mode_slower", "no difference": "v_mode_same"}
    sentences = [] if groups["faster"] else [labels.message("v_mode_none", language)]
    for verdict_, names in groups.items():
        if names:
            sentences.append(labels.message(keys[verdict_], language, names=_list(names, language)))
    if skipped:
        sentences.append(labels.message("v_mode_skips", language, names=labels.listing(skipped, language)))
    return sentences


# ---- end of chapter: inductor -----------------------------------------------------------------------------------


# ---- chapter: eager ---------------------------------------------------------------------------------------------


@rule
def launch_matters(rows: list[Row], language: Language) -> list[str]:
    """Where the launch of each operator stops mattering: the sizes at which it is a half and a tenth."""
    sentences = []
    for row in rows:
        if row.get("kind") != "crossing" or not data.row_ok(row) or "half_elements" not in row:
            continue
        op = _name(row, language, "op")
        half, low, high, tenth = (
            _value(row, f"{name}_elements") for name in ("half", "half_low", "half_high", "tenth")
        )
        if half is None or low is None or high is None:
            sentences.append(labels.message("v_no_half", language, op=op))
            continue
        words: dict[str, Any] = {"op": op, "half": count(half), "interval": f"{count(low)}{DASH}{count(high)}"}
        if tenth is None:
            sentences.append(labels.message("v_half", language, **words))
        else:
            sentences.append(labels.message("v_half_tenth", language, tenth=count(tenth), **words))
    return sentences


@rule
def sum_of_terms(rows: list[Row], language: Language) -> list[str]:
    """Whether the operators of a step, each timed alone, add up to the step."""
    sentences = []
    for row in rows:
        step, total, ratio = (_value(row, name) for name in ("step_us", "sum_us", "sum_ratio"))
        low, high = _value(row, "sum_low_ratio"), _value(row, "sum_high_ratio")
        if row.get("kind") != "whole" or step is None or total is None or ratio is None or low is None or high is None:
            continue
        sentences.append(
            labels.message(
                "v_sum",
                language,
                form=labels.name_of("form", row.get("form"), language),
                step=quantity(step, "us"),
                m=number(row["m"]),
                sum=quantity(total, "us"),
                ratio=quantity(ratio, "ratio"),
                interval=interval(low, high, "ratio", like=ratio),
            )
        )
    return sentences


@rule
def profiled_step(rows: list[Row], language: Language) -> list[str]:
    """What of a recorded step lies inside operators and what between them, and the step without the profiler."""
    for row in rows:
        total, inside, between, plain = (
            _value(row, name) for name in ("phase_us", "inside_us", "between_us", "plain_us")
        )
        if total is None or inside is None or between is None or plain is None:
            continue
        return [
            labels.message(
                "v_profile",
                language,
                total=quantity(total, "us"),
                inside=quantity(inside, "us"),
                operators=number(row["operators"]),
                between=quantity(between, "us"),
                plain=quantity(plain, "us"),
            )
        ]
    return []


@rule
def tools_left(rows: list[Row], language: Language) -> list[str]:
    """How many tools of debugging each back end leaves as they are, changes, or takes away."""
    tools = [row for row in rows if row.get("kind") == "debug_tool" and data.row_ok(row)]
    sentences = []
    for backend in ("eager", "aot_eager", "inductor"):
        outcomes = [row.get(f"outcome_{backend}") for row in tools]
        if not tools or None in outcomes:
            continue
        kept, changed = outcomes.count("works"), outcomes.count("splits") + outcomes.count("recompiles")
        sentences.append(
            labels.message(
                "v_tools",
                language,
                name=_name({"backend": backend}, language),
                n=number(len(outcomes)),
                kept=number(kept),
                changed=number(changed),
                lost=number(len(outcomes) - kept - changed),
            )
        )
    return sentences


# ---- chapter: aot_eager -----------------------------------------------------------------------------------------


@rule
def setup_cost(rows: list[Row], language: Language, *, case: str | None = None) -> list[str]:
    """T_setup of each back end, in every case or in one; none where its interval holds 0."""
    sentences = []
    for row in rows:
        setup, low, high = (_value(row, name) for name in ("setup_us", "setup_low_us", "setup_high_us"))
        if row.get("kind") != "fit" or setup is None or low is None or high is None:
            continue
        if case is not None and row.get("case") != case:
            continue
        sentences.append(
            labels.message(
                "v_setup" if low > 0 else "v_setup_none",
                language,
                name=_name(row, language),
                case=labels.name_of("case", row.get("case"), language),
                setup=quantity(setup, "us"),
                interval=interval(low, high, "us", like=setup),
            )
        )
    return sentences


@rule
def ladder(rows: list[Row], language: Language) -> list[str]:
    """In how many trials the first broken rung named the layer with the fault, and in which it did not."""
    trials = [row for row in rows if row.get("kind") == "found" and data.row_ok(row)]
    if not trials:
        return []
    wrong = [labels.name_of("fault", row.get("fault"), language) for row in trials if not row.get("agrees")]
    right = number(len(trials) - len(wrong))
    sentences = [labels.message("v_ladder", language, count=len(trials), right=right, n=number(len(trials)))]
    if wrong:
        sentences.append(labels.message("v_ladder_wrong", language, names=labels.listing(wrong, language)))
    return sentences


@rule
def case_steps(rows: list[Row], language: Language, *, case: str | None = None) -> list[str]:
    """``fastest_step`` for the rows of one case."""
    return fastest_step([row for row in rows if case is None or row.get("case") == case], language)


# ---- chapters: cudagraphs, choosing ----


@rule
def compile_in_steps(rows: list[Row], language: Language, *, backend: str = "inductor") -> list[str]:
    """How many steps of the model without compiling one compile takes as long as: what a compile costs, in steps."""
    plain = next((row for row in rows if row.get("backend") == "none"), {})
    chosen = next((row for row in rows if row.get("backend") == backend), {})
    step_us, cold_s, warm_s = (
        _value(row, name) if row else None
        for row, name in ((plain, "step_us"), (chosen, "compile_cold_s"), (chosen, "compile_warm_s"))
    )
    if not step_us or not cold_s:
        return []
    name, cold = _name(chosen, language), count(cold_s * 1e6 / step_us)
    if not warm_s:
        return [labels.message("v_compile_steps_cold", language, name=name, cold=cold)]
    warm = count(warm_s * 1e6 / step_us)
    return [labels.message("v_compile_steps", language, name=name, cold=cold, warm=warm)]


@rule
def worked_order(
    rows: list[Row],
    language: Language,
    *,
    steps: int = 10_000,
    start: str = "cold",
    workload: str = "inference",
    variant: str = "inductor",
    model: str | None = None,
) -> list[str]:
    """One order done as a sum: compile time, what a step saves, R and N*, for ``steps`` steps from a ``start`` cache.

    Of the rows of compare_backends those of ``workload`` (and of ``model``, where a file has several): ``variant``
    against "eager", which there is the model without compiling.
    """
    if start not in ("cold", "warm"):
        raise PageError(f"worked_order: start = {start!r}: wants cold or warm")
    fitting = [
        row for row in rows if str(row.get("workload", "")).startswith(workload) and model in (None, row.get("model"))
    ]
    plain = next((row for row in fitting if row.get("variant") == "eager"), {})
    chosen = next((row for row in fitting if row.get("variant") == variant), {})
    eager_us, saved_us, cost_s, ratio = (
        _value(row, name) if row else None
        for row, name in (
            (plain, "step_us"),
            (chosen, "saved_us"),
            (chosen, f"compile_{start}_s"),
            (chosen, "speedup_ratio"),
        )
    )
    if eager_us is None or saved_us is None or ratio is None or not cost_s:
        return []
    head = labels.message(
        "v_order_head",
        language,
        model=labels.name_of("model", chosen["model"], language),
        workload=labels.name_of("workload", chosen["workload"], language),
        steps=number(steps),
        start=labels.message({"cold": "v_order_cold", "warm": "v_order_warm"}[start], language),
    )
    head = head[:1].upper() + head[1:]
    if chosen.get("verdict") != "faster" or saved_us <= 0:
        slower = chosen.get("verdict") == "slower"
        verdict_ = labels.message("v_order_word_slower" if slower else "v_order_word_same", language)
        return [head, labels.message("v_order_never", language, verdict=verdict_, ratio=_ratio(chosen, language))]
    # By the paired ratio, as the saving: the medians of the two rows need not differ by it.
    compiled_us = eager_us - saved_us
    cost, saved = quantity(cost_s, "s"), quantity(saved_us, "us")
    r = saved_us * 1e-6 * steps / cost_s
    done = labels.message(
        "v_order_sum",
        language,
        cost=cost,
        step=quantity(compiled_us, "us"),
        eager=quantity(eager_us, "us"),
        saved=saved,
    )
    n = count(math.ceil(cost_s * 1e6 / saved_us))
    result = labels.message("v_order_r", language, saved=saved, steps=number(steps), cost=cost, r=number(r), n=n)
    return [head, done, result, labels.message("v_order_pays" if r > 1 else "v_order_not", language)]


def _strategies(rows: Sequence[Row]) -> list[Row]:
    """The wholes of the strategies against changing sizes that compile something."""
    found = [row for row in rows if row.get("kind") == "strategy" and _value(row, "compile_all_s")]
    return [row for row in found if row.get("compiles")]


@rule
def recompile_cost(rows: list[Row], language: Language) -> list[str]:
    """How often each strategy compiles, and what that costs together."""
    sentences = []
    for row in _strategies(rows):
        name, everything = _name(row, language, "strategy"), quantity(float(row["compile_all_s"]), "s")
        later = _value(row, "recompile_s")
        if later is None:
            words = labels.message("v_recompiles_one", language, name=name, all=everything)
        else:
            words = labels.message(
                "v_recompiles",
                language,
                name=name,
                k=number(int(row["compiles"])),
                all=everything,
                first=quantity(float(row["first_compile_s"]), "s"),
                later=quantity(later, "s"),
            )
        sentences.append(words[:1].upper() + words[1:])
    return sentences


@rule
def recompile_total(rows: list[Row], language: Language, *, steps: int = 10_000) -> list[str]:
    """Which strategy has the least total time over ``steps`` steps, all its compiles counted."""
    totals = []
    for row in rows:
        compile_s, step_us = _value(row, "compile_all_s"), _value(row, "step_us")
        if row.get("kind") == "strategy" and compile_s is not None and step_us is not None:
            totals.append((compile_s + steps * step_us * 1e-6, _name(row, language, "strategy")))
    if len(totals) < 2:
        return []
    (best, name), *rest = sorted(totals)
    first = labels.message("v_total_best", language, steps=number(steps), name=name, total=quantity(best, "s"))
    others = _list([_pair(other, quantity(total, "s"), language) for total, other in rest], language)
    return [first, labels.message("v_total_rest", language, names=others)]


@rule
def recompile_limit(rows: list[Row], language: Language) -> list[str]:
    """How many graphs a function keeps when sizes keep coming, static and by default."""
    most: dict[str, tuple[float, float]] = {}
    for row in rows:
        seen, compiles = _value(row, "sizes_seen"), _value(row, "compiles")
        if row.get("kind") == "limit" and seen is not None and compiles is not None:
            most[str(row["strategy"])] = max(most.get(str(row["strategy"]), (0.0, 0.0)), (seen, compiles))
    if not {"static", "default"} <= set(most):
        return []
    sizes, static, default = (number(round(n)) for n in (*most["static"], most["default"][1]))
    return [labels.message("v_limit", language, sizes=sizes, static=static, default=default)]


@rule
def nothing_recorded(rows: list[Row], language: Language) -> list[str]:
    """What asking for CUDA graphs did on CPU tensors: how many ways said nothing, warned, raised."""
    asked = [row for row in rows if "cudagraph_skips" in row and data.row_ok(row)]
    raised = [row for row in asked if row.get("error") != "nothing raised"]
    warned = [row for row in asked if row not in raised and row.get("warning") != "nothing logged"]
    silent = [row for row in asked if row not in raised and row not in warned]
    # A way that neither raised nor skipped has recorded something: then this sentence would be false.
    if not asked or any(not row.get("cudagraph_skips") for row in (*warned, *silent)):
        return []
    ways, quiet, loud, broken = (number(len(group)) for group in (asked, silent, warned, raised))
    return [labels.message("v_on_cpu", language, ways=ways, silent=quiet, warned=loud, raised=broken)]


@rule
def graph_gain(rows: list[Row], language: Language) -> list[str]:
    """What one launch instead of m saves, for the longest chain of each amount of work."""
    sentences = []
    parts = [row for row in rows if row.get("kind") == "parts" and _value(row, "speedup_ratio") is not None]
    for work in dict.fromkeys(row.get("work") for row in parts):
        row = max((row for row in parts if row.get("work") == work), key=lambda row: float(row["m"]))
        chains = {
            point.get("way"): _value(point, "chain_us")
            for point in rows
            if point.get("kind") == "point"
            and (point.get("work"), point.get("m"), point.get("clock")) == (work, row["m"], "complete")
        }
        one, graph, low, high = (
            *(chains.get(way) for way in ("one by one", "one graph")),
            *(_value(row, name) for name in ("speedup_low", "speedup_high")),
        )
        if one is None or graph is None or low is None or high is None:
            continue
        ratio = float(row["speedup_ratio"])
        sentences.append(
            labels.message(
                "v_graph",
                language,
                m=number(row["m"]),
                work=labels.name_of("work", work, language),
                one=quantity(one, "us"),
                graph=quantity(graph, "us"),
                ratio=quantity(ratio, "ratio"),
                interval=interval(low, high, "ratio", like=ratio),
            )
        )
    return sentences


# ---- end of chapters: cudagraphs, choosing ----


# ---- chapters: scenarios, misconceptions ----


@rule
def claim(rows: list[Row], language: Language, *, claim: str) -> list[str]:
    """Whether a claim holds, by how many of its cases came out as it says."""
    found = [row for row in rows if row.get("kind") == "claim" and row.get("claim") == claim]
    if not found:
        return []  # a record from before this claim was tried
    row = found[0]
    if not data.row_ok(row):
        reason = escape(labels.note(str(row.get("note") or ""), language))
        return [labels.message("v_claim_lost", language, reason=reason)]
    keys = {"no": "v_claim_no", "in part": "v_claim_part", "yes": "v_claim_yes"}
    cases, as_said = int(row["cases"]), int(row["as_said"])
    return [labels.message(keys[str(row["holds"])], language, cases=number(cases), as_said=number(as_said))]


@rule
def claims(rows: list[Row], language: Language) -> list[str]:
    """How many of the claims that were tried hold, hold in part, and do not."""
    held = [str(row["holds"]) for row in rows if row.get("kind") == "claim" and data.row_ok(row)]
    if not held:
        return []
    no, part, yes = (number(held.count(value)) for value in ("no", "in part", "yes"))
    return [labels.message("v_claims", language, claims=number(len(held)), no=no, part=part, yes=yes)]


@rule
def order_pays(
    rows: list[Row], language: Language, *, steps: int, workload: str = "inference", model: str | None = None
) -> list[str]:
    """Whether compiling pays over ``steps`` steps of a model, from an empty and from a filled cache."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise PageError(f"order_pays: steps = {steps!r}: wants a whole number of steps, at least 1")
    sums: dict[str, list[str]] = {"compile_cold_s": [], "compile_warm_s": []}
    for row in rows:
        saved = _value(row, "saved_us")
        if row.get("workload") != workload or model not in (None, row.get("model")) or saved is None:
            continue
        if row.get("variant") in ("eager", "eager again") or any(_value(row, column) is None for column in sums):
            continue
        name = _name(row, language, "variant")
        for column, parts in sums.items():
            # A saving inside the noise is none: times N it would look like a fortune.
            if row.get("verdict") != "faster" or saved <= 0 or not row[column] > 0:
                parts.append(labels.message("v_orders_never", language, name=name))
                continue
            r = saved * 1e-6 * steps / float(row[column])
            key = "v_orders_pays" if r > 1 else "v_orders_short"
            parts.append(labels.message(key, language, name=name, r=number(r)))
    cold, warm = (_list(parts, language) for parts in sums.values())
    if not cold:
        return []
    return [labels.message("v_orders", language, steps=number(steps), cold=cold, warm=warm)]


@rule
def container_start(rows: list[Row], language: Language, *, kept: str = "cache") -> list[str]:
    """How long a start takes to its first answer: with nothing, with what is ``kept``, and without compiling."""
    ready = {str(row["start"]): _value(row, "ready_s") for row in rows if row.get("start")}
    if not ready:
        return []
    if kept not in ready:
        raise PageError(f"container_start: no start {kept!r} in the record{did_you_mean(kept, list(ready))}")
    times = [ready.get(start) for start in ("empty", kept, "uncompiled")]
    if any(time is None for time in times):
        return []
    empty, best, uncompiled = (quantity(float(time), "s") for time in times if time is not None)
    what = labels.message("v_start_kept", language, what=labels.name_of("start", kept, language))
    return [labels.message("v_start", language, empty=empty, kept=what, best=best, uncompiled=uncompiled)]


# ---- end of chapters: scenarios, misconceptions ----


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
