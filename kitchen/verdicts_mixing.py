"""Sentences about mixing back ends by submodule, computed from the records of third_party/mixing_*.

The words are in labels.toml; the judgement of each pair (faster, slower, no difference) is the record's own.
"""

from __future__ import annotations

import statistics

from kitchen import data, labels
from kitchen.context import Language
from kitchen.data import Row
from kitchen.format import escape_code, interval, number, quantity
from kitchen.verdicts import _name, _percent, _value, rule

#: What the blog post of the source brief claims (B9): a mix beats any single back end by 22 %.
CLAIMED = 1.22


@rule
def mix_gain(rows: list[Row], language: Language) -> list[str]:
    """For each model, the best mix against the best single back end, and what remains of the claim."""
    words = {"faster": "v_mix_faster", "slower": "v_mix_slower", "no difference": "v_mix_same"}
    sentences: list[str] = []
    won = much = models = 0
    for row in rows:
        ratio, low, high = (_value(row, name) for name in ("gain_ratio", "gain_low", "gain_high"))
        if row.get("kind") != "gain" or ratio is None or low is None or high is None or row.get("verdict") not in words:
            continue
        models += 1
        won += row["verdict"] == "faster"
        much += row["verdict"] == "faster" and low >= CLAIMED
        shown = labels.message(
            "with_interval",
            language,
            value=quantity(float(ratio), "ratio"),
            interval=interval(float(low), float(high), "ratio", like=float(ratio)),
        )
        sentences.append(
            labels.message(
                "v_mix_gain",
                language,
                model=labels.name_of("model", row["model"], language),
                single=_name({"single": row["single"]}, language, "single"),
                mix=f"<code>{escape_code(str(row['mix']))}</code>",
                ratio=shown,
                verdict=labels.message(words[row["verdict"]], language),
            )
        )
    if not models:
        return []
    claimed = _percent(round(CLAIMED - 1, 2))
    sentences.append(
        labels.message(
            "v_mix_claim", language, won=number(won), models=number(models), claimed=claimed, much=number(much)
        )
    )
    key = "v_mix_holds" if much == models else "v_mix_general"
    return [*sentences, labels.message(key, language, claimed=claimed)]


@rule
def mix_parts(rows: list[Row], language: Language) -> list[str]:
    """How far the two parts, each timed alone and added up, lie from the mix."""
    off = []
    for row in rows:
        step, parts = _value(row, "step_us"), _value(row, "parts_us")
        if row.get("kind") == "whole" and step is not None and parts is not None and step > 0:
            off.append(abs(parts / step - 1))
    if not off:
        return []
    worst, median = _percent(max(off)), _percent(statistics.median(off))
    return [labels.message("v_mix_parts", language, percent=worst, median=median, mixes=number(len(off)))]


@rule
def mix_right(rows: list[Row], language: Language, *, kind: str = "lost") -> list[str]:
    """In how many cases of a kind the output is right, whoever compiled what."""
    known = [
        bool(row["right"])
        for row in rows
        if row.get("kind") == kind and data.row_ok(row) and row.get("right") is not None
    ]
    if not known:
        return []
    return [labels.message("v_mix_right", language, right=number(sum(known)), cases=number(len(known)))]
