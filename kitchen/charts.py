"""Charts of a record: a Vega-Lite specification, drawn to SVG at build time and inlined.

The SVG takes its colours from CSS variables (``--ck-inductor`` …) and its text from ``currentColor``, so it
follows light and dark. It is drawn about as wide as a phone and scaled up, so that its text stays readable at
390 px. Drawing is the slow part (about a second for the first), so drawings are kept by the hash of their
specification; a folder that cannot be written costs time and nothing else.

Source: https://vega.github.io/vega-lite/docs/ (specification), the vl-convert-python package.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import re
import tempfile
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kitchen import blocks, data, labels, placing, tables
from kitchen.context import ROOT, Language, PageError, State, did_you_mean
from kitchen.data import Row, View, Where
from kitchen.format import (
    THIN,
    Scale,
    count,
    escape,
    number,
    one_line,
    quantity,
    scale_of,
    shared_scale,
    text_em,
    with_unit,
)
from kitchen.labels import Column

KINDS = ("bars", "lines", "loglog", "fit", "totals")
#: Where the lines of total times are computed: numbers of steps.
STEPS = [*(a * 10**e for e in range(7) for a in (1, 3)), 10**7]
CACHE = ROOT / ".cache" / "kitchen-charts"
TIMES = ("ns", "us", "ms", "s")
#: Raise it when the drawing changes in a way that the specification does not show.
DRAWING = 2

#: Pixels: the whole chart, the height of one bar's band, of a plot of lines, and the text.
WIDTH, BAND, HEIGHT, FONT = 345, 32, 230, 13
#: How wide the plot of lines is, beside the numbers of its axis, and the small diamond before a crossing's number.
PLOT, KEY = WIDTH - 70, 12
#: How far a chart is scaled up where there is room, and the least size of its text: below that the figure scrolls.
GROWTH, LEAST_FONT = 1.45, 10.5
#: Names of bars that are wider than this stand above their bar, in as many lines as they need, LINE apart.
BESIDE, LINE = 165, 17

BACKENDS = ("none", "none_again", "eager", "aot_eager", "inductor", "cudagraphs")
#: Series that are not back ends take these in order; a site that sets none falls back to the back ends' colours.
_SERIES = ("inductor", "eager", "cudagraphs", "aot_eager", "none")

Spec = dict[str, Any]


@dataclass(frozen=True)
class Ask:
    """What a page asked for; see kitchen.page.chart."""

    kind: str
    x: str
    y: str
    by: str | None
    low: str | None
    high: str | None
    where: Where | None
    title: str | None
    log: bool
    crossings: str | None
    fit: tuple[str, str] | None
    reference: float | None


# ---- words and colours ---------------------------------------------------------------------------------------


def colour(value: str, position: int) -> str:
    """The colour of a series: fixed for a back end, by position for anything else."""
    if value in BACKENDS:
        return f"var(--ck-{'none' if value == 'none_again' else value})"
    return f"var(--ck-series-{position % 5 + 1}, var(--ck-{_SERIES[position % 5]}))"


def text_width(text: str) -> float:
    """About how wide a text is drawn, in pixels. The drawing side may have no font for Chinese to measure with."""
    return FONT * 1.05 * text_em(text)


def wrapped(text: str, width: float) -> list[str]:
    """A text in lines no wider than ``width`` pixels, broken at blanks and between Chinese characters."""
    lines = [""]
    for piece in re.findall(r"[\u2e80-\uffef]|[^\s\u2e80-\uffef]+\s*|\s+", text):
        if lines[-1] and text_width((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.strip() for line in lines]


def plain(column: str, value: object, language: Language) -> str:
    """A value's name for the drawing: translated, on one line, not escaped (the drawing escapes)."""
    # A control character is not only ugly: the drawing library takes the whole process down over a NUL.
    text = one_line(labels.text_value(column, str(value), language))
    return text if len(text) <= 120 else text[:119] + "…"


def axis_title(column: Column, scale: Scale, language: Language) -> str:
    """``Step time, µs``."""
    if scale.symbol in ("", "×"):
        return column.label
    return labels.message("axis_unit", language, label=column.label, unit=scale.symbol)


def _ends(ask: Ask, column: Column) -> tuple[str, str] | None:
    if ask.low and ask.high:
        return ask.low, ask.high
    return column.spread


def _range(ends: tuple[str, str] | None, row: Row, factor: float) -> tuple[float, float] | None:
    if ends is None:
        return None
    low, high = (data.numeric(row.get(name)) for name in ends)
    return None if low is None or high is None else (low * factor, high * factor)


def _scale(values: list[float], unit: str, log: bool) -> Scale:
    # On a logarithmic axis any one unit will do: the one of the middle of the range.
    positive = [v for v in values if v > 0]
    if log and positive:
        return scale_of(math.sqrt(min(positive) * max(positive)), unit)
    return shared_scale(values, unit) or scale_of(max((abs(v) for v in values), default=1.0), unit)


def _line_scale(values: list[float], unit: str, logs: str) -> Scale:
    # The labels of a logarithmic axis of times carry their own units.
    return Scale(1.0, "") if logs == "log" and unit in TIMES else _scale(values, unit, logs == "log")


def _powers(values: list[float]) -> list[float] | None:
    """The powers of ten inside a range, for a logarithmic axis; None where there are fewer than two."""
    low, high = min(values), max(values)
    found = [10.0**e for e in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]
    if len(found) > 7:
        found = found[:: math.ceil(len(found) / 7)]
    return found if len(found) > 1 else None


CONFIG: Spec = {
    "aria": False,
    "background": None,
    "font": "inherit",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "labelFontSize": FONT,
        "titleFontSize": FONT,
        "titleFontWeight": "normal",
        "domainColor": "var(--ck-axis)",
        "tickColor": "var(--ck-axis)",
        "gridColor": "var(--ck-grid)",
        "titlePadding": 8,
        "labelPadding": 6,
    },
}


def _axis_number(scale: str, values: list[float], unit: str = "") -> Spec:
    """Ticks and their labels. ``unit``: where given, a logarithmic axis writes its powers as 10 ms, 1 s …"""
    axis: Spec = {"format": "~s" if max(values, default=0) >= 1e4 else ",~f", "tickCount": 5}
    if scale == "log" and (powers := _powers(values)):
        axis |= {"values": powers}
        if unit:
            words = {str(round(math.log10(power))): _power_words(power, unit) for power in powers}
            axis["labelExpr"] = f"({json.dumps(words, ensure_ascii=False)})[round(log(datum.value) / LN10)]"
    return axis


def _power_words(power: float, unit: str) -> str:
    scale = scale_of(power, unit)
    if scale.symbol in ("min", "h"):  # a power of ten in seconds is no round number of minutes
        scale = scale_of(1.0, "s")
    return with_unit(number(power * scale.factor, 0), scale.symbol).replace(THIN, " ")


# ---- bars ----------------------------------------------------------------------------------------------------


def bars_spec(name: str, ask: Ask, rows: list[Row], language: Language) -> Spec:
    """Horizontal bars (dots where the axis is logarithmic: bars need a zero), whiskers, the number at the end."""
    column = labels.column(ask.y, language, name)
    ends = _ends(ask, column)
    raw = [v for row in rows if (v := data.numeric(row.get(ask.y))) is not None]
    scale = _scale(raw, column.unit, ask.log)
    values: list[Spec] = []
    for row in rows:
        at = float(row[ask.y]) * scale.factor
        low, high = _range(ends, row, scale.factor) or (at, at)
        label = plain(ask.x, row[ask.x], language)
        if ask.by:
            label = f"{label}, {plain(ask.by, row[ask.by], language)}"
        values.append(
            {
                "name": label,
                "value": at,
                "low": low,
                "high": high,
                "far": max(at, high),
                "text": with_unit(number(at), scale.symbol).replace(THIN, " "),
            }
        )
    names = list(dict.fromkeys(v["name"] for v in values))
    key = ask.by if ask.by and ask.by == "backend" else ask.x
    colours = {v["name"]: colour(str(row[key]), i) for i, (v, row) in enumerate(zip(values, rows, strict=True))}
    far = max(v["far"] for v in values)
    numbers = [v["low"] for v in values] + [v["far"] for v in values]
    if ask.reference is not None:
        numbers.append(ask.reference * scale.factor)
    # Room for the number at the end of the longest bar.
    room = max(text_width(v["text"]) for v in values) + 10
    label_width = math.ceil(max(text_width(n) for n in names)) + 8
    above = label_width > BESIDE
    width = WIDTH - (10 if above else label_width)
    words = {n: wrapped(n, width) for n in names} if above else {}
    band = BAND + LINE * max((len(lines) for lines in words.values()), default=0)
    down = (band - BAND) / 2  # from the middle of the band to that of its bar
    share = room / width
    if ask.log:
        positive = [v for v in numbers if v > 0]
        low_end, high_end = min(positive) / 1.3, max(positive)
        span = math.log(high_end / low_end)
        domain = [low_end, high_end * math.exp(span * share / (1 - share))]
    else:
        low_end = min(0.0, *numbers)
        domain = [low_end, low_end + (max(far, *numbers) - low_end) / (1 - share)]
    kind = "log" if ask.log else "linear"
    y_axis = {
        "title": None,
        "labels": not above,
        "labelLimit": 0,
        "minExtent": 0 if above else label_width,
        "ticks": False,
        "domain": False,
    }
    y = {"field": "name", "type": "nominal", "sort": names, "axis": y_axis}
    x = {
        "field": "value",
        "type": "quantitative",
        "title": axis_title(column, scale, language),
        "scale": {"type": kind, "domain": domain, "nice": False},
        "axis": {**_axis_number(kind, [v for v in domain if v > 0] or [1.0]), "grid": True},
    }
    fill = {
        "field": "name",
        "type": "nominal",
        "legend": None,
        "scale": {"domain": names, "range": [colours[n] for n in names]},
    }
    mark: Spec = {"type": "bar", "height": BAND * 0.62}
    if ask.log:
        mark = {"type": "point", "filled": True, "size": 110, "opacity": 1}
    layers: list[Spec] = [{"mark": mark | {"yOffset": down}, "encoding": {"x": x, "y": y, "color": fill}}]
    for line in range(max((len(lines) for lines in words.values()), default=0)):
        layers.append(
            {
                "data": {"values": [{"name": n, "line": words[n][line]} for n in names if line < len(words[n])]},
                "mark": {
                    "type": "text",
                    "align": "left",
                    "baseline": "alphabetic",
                    "dy": -band / 2 + LINE * (line + 1) - 4,
                    "fontSize": FONT,
                    "color": "currentColor",
                },
                "encoding": {"x": {"value": 0}, "y": y, "text": {"field": "line"}},
            }
        )
    if ends is not None:
        whisker = {"type": "rule", "color": "currentColor", "strokeWidth": 1.5, "yOffset": down}
        span_x: Spec = {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}}
        layers.append({"mark": whisker, "encoding": {**span_x, "y": y}})
        tick = {"type": "tick", "color": "currentColor", "thickness": 1.5, "size": 9, "yOffset": down}
        layers += [
            {"mark": tick, "encoding": {"x": {"field": end, "type": "quantitative"}, "y": y}} for end in ("low", "high")
        ]
    if ask.reference is not None:
        layers.append(
            {
                "mark": {"type": "rule", "color": "currentColor", "strokeDash": [4, 3]},
                "encoding": {"x": {"datum": ask.reference * scale.factor, "type": "quantitative"}},
            }
        )
    layers.append(
        {
            "mark": {
                "type": "text",
                "align": "left",
                "dx": 7,
                "yOffset": down,
                "fontSize": FONT,
                "color": "currentColor",
            },
            "encoding": {"x": {"field": "far", "type": "quantitative"}, "y": y, "text": {"field": "text"}},
        }
    )
    if ask.reference is not None:
        # A number that the line would run through stands behind it.
        at_line = ask.reference * scale.factor
        for value in values:
            start, line_at = (fraction(v, domain, ask.log) * width for v in (value["far"], at_line))
            if start - 2 < line_at < start + text_width(value["text"]) + 10:
                value["far"] = at_line
    size = {"width": width, "height": {"step": band}, "usermeta": {"left": 0 if above else label_width}}
    return {"data": {"values": values}, **size, "layer": layers}


def fraction(value: float, domain: list[float], log: bool) -> float:
    """Where a value lies on an axis: 0 at its beginning, 1 at its end."""
    low, high = domain
    if log:
        return math.log(max(value, 1e-300) / low) / math.log(high / low) if high > low else 0.0
    return (value - low) / (high - low) if high > low else 0.0


# ---- lines ---------------------------------------------------------------------------------------------------


def _series(name: str, ask: Ask, rows: list[Row], language: Language) -> tuple[list[str], list[str]]:
    if ask.by is None:
        return [labels.column(ask.y, language, name).label], [colour("", 0)]
    found = list(dict.fromkeys(str(row[ask.by]) for row in rows))
    # The comparison tool calls the model without compiling "eager", and the back end of that name "compile:eager".
    own = {"eager": "none", "eager again": "none_again", "compile:eager": "eager"} if ask.by == "variant" else {}
    return [plain(ask.by, v, language) for v in found], [colour(own.get(v, v), i) for i, v in enumerate(found)]


def _series_name(name: str, ask: Ask, row: Row, language: Language) -> str:
    if ask.by is None:
        return labels.column(ask.y, language, name).label
    return plain(ask.by, row.get(ask.by), language)


def _height_at(points: list[tuple[float, float]], at: float) -> float | None:
    """The value of a line at ``at``, straight between its neighbours; None outside its points."""
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if x0 <= at <= x1:
            return y0 if x0 == x1 else y0 + (y1 - y0) * (at - x0) / (x1 - x0)
    return None


def lines_spec(name: str, ask: Ask, rows: list[Row], others: list[Row], language: Language) -> Spec:
    """Lines with bands and points, or points with a straight line; ``others`` are the rows with crossings and fits."""
    logs = "log" if ask.kind == "loglog" else "linear"
    column_x, column_y = labels.column(ask.x, language, name), labels.column(ask.y, language, name)
    ends = _ends(ask, column_y)
    raw_x = [v for row in rows if (v := data.numeric(row.get(ask.x))) is not None]
    raw_y = [v for row in rows if (v := data.numeric(row.get(ask.y))) is not None]
    sx, sy = _line_scale(raw_x, column_x.unit, logs), _line_scale(raw_y, column_y.unit, logs)
    names, colours = _series(name, ask, rows, language)
    points: list[Spec] = []
    for row in rows:
        across, up = float(row[ask.x]) * sx.factor, float(row[ask.y]) * sy.factor
        if logs == "log" and (across <= 0 or up <= 0):
            continue
        low, high = _range(ends, row, sy.factor) or (up, up)
        if logs == "log" and low <= 0:
            low = up
        series = _series_name(name, ask, row, language)
        points.append({"x": across, "y": up, "low": low, "high": high, "series": series})
    xs, ys = [p["x"] for p in points], [v for p in points for v in (p["low"], p["high"])]
    unit_x, unit_y = (c.unit if c.unit in TIMES else "" for c in (column_x, column_y))
    if logs == "log":
        # Powers of ten keep the column's own unit, so that their labels can name a unit each.
        x_axis, y_axis = _axis_number(logs, xs, unit_x), _axis_number(logs, ys, unit_y)
    else:
        x_axis, y_axis = _axis_number(logs, xs), _axis_number(logs, ys)
    x: Spec = {
        "field": "x",
        "type": "quantitative",
        "title": axis_title(column_x, sx, language),
        "scale": {"type": logs, "nice": False, "zero": logs == "linear"},
        "axis": x_axis,
    }
    # The y title stands flat above the plot, in the chart's own title: turned by 90° it is hard to read in Chinese.
    y: Spec = {
        "field": "y",
        "type": "quantitative",
        "title": None,
        "scale": {"type": logs, "zero": logs == "linear"},
        "axis": y_axis,
    }
    hue: Spec = {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": names, "range": colours},
        "legend": None,  # it stands above the drawing, where long names wrap: see _legend
    }
    layers: list[Spec] = []
    if ends is not None and ask.kind != "fit":
        layers.append(
            {
                "mark": {"type": "area", "opacity": 0.18},
                "encoding": {
                    "x": x,
                    "y": {**y, "field": "low"},
                    "y2": {"field": "high"},
                    "color": hue,
                },
            }
        )
    if ask.kind == "fit":
        layers += _fit_layers(name, ask, points, others, sx, sy, x, y, hue, language)
        if ends is not None:
            layers.append(
                {
                    "mark": {"type": "rule", "strokeWidth": 1.5},
                    "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": hue},
                }
            )
    else:
        layers.append({"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"x": x, "y": y, "color": hue}})
    layers.append(
        {
            "mark": {"type": "point", "filled": True, "size": 40, "opacity": 1},
            "encoding": {"x": x, "y": y, "color": hue},
        }
    )
    crossings = _crossings(name, ask, rows, points, others, sx, language)
    if crossings:
        x["scale"]["domain"] = domain_x = _domain(xs, logs == "log", nice=False)
        y["scale"] |= {"domain": (domain_y := _domain(ys, logs == "log", nice=True)), "nice": False}
        layers += _crossing_layers(crossings, points, (domain_x, domain_y), logs == "log", x, y, hue)
    title = {
        "text": axis_title(column_y, sy, language),
        "anchor": "start",
        "fontSize": FONT,
        "fontWeight": "normal",
        "color": "currentColor",
        "frame": "bounds",
    }
    return {"data": {"values": points}, "title": title, "width": PLOT, "height": HEIGHT, "layer": layers}


def _domain(values: list[float], log: bool, *, nice: bool) -> list[float]:
    """The ends of an axis; ``nice``: at a power of ten, or a round number above a zero."""
    low, high = min(values), max(values)
    if log:
        if nice:
            low, high = (
                10.0 ** f(math.log10(v) + e) for f, v, e in ((math.floor, low, 1e-9), (math.ceil, high, -1e-9))
            )
        return [low, high if high > low else low * 10]
    low = min(0.0, low)
    if nice and high > low:
        step = 10.0 ** math.floor(math.log10((high - low) / 5))
        step = next(step * m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= 5)
        low, high = math.floor(low / step) * step, math.ceil(high / step - 1e-9) * step
    return [low, high if high > low else low + 1]


def _crossing_layers(
    crossings: list[Spec],
    points: list[Spec],
    domains: tuple[list[float], list[float]],
    log: bool,
    x: Spec,
    y: Spec,
    hue: Spec,
) -> list[Spec]:
    """A diamond in the colour of its line at each crossing, and its number beside it, off the lines."""

    def pixel(point: Spec) -> placing.Point:
        return fraction(point["x"], domains[0], log) * PLOT, (1 - fraction(point["y"], domains[1], log)) * HEIGHT

    lines: dict[str, list[placing.Point]] = {}
    for point in sorted(points, key=lambda point: float(point["x"])):
        lines.setdefault(point["series"], []).append(pixel(point))
    marks = [pixel(crossing) for crossing in crossings]
    # Where two diamonds all but cover each other, a small one before each number says whose it is.
    close = any(math.dist(a, b) < 2 * placing.REACH for a, b in itertools.combinations(marks, 2))
    lead = KEY if close else 0
    widths = [text_width(crossing["text"]) + lead for crossing in crossings]
    places = placing.place(marks, widths, list(lines.values()), (PLOT, HEIGHT), FONT)
    diamond: Spec = {"type": "point", "shape": "diamond", "size": 150, "filled": False, "strokeWidth": 2}
    layers: list[Spec] = [
        {
            "data": {"values": crossings},
            "mark": diamond,
            "encoding": {"x": x, "y": y, "color": hue},
        }
    ]
    for crossing, spot in zip(crossings, places, strict=True):
        own: Spec = {"data": {"values": [crossing]}}
        at: Spec = {"x": x, "y": y}
        middle = spot.dy - FONT * 0.36
        if spot.leader:
            # From the mark to the nearest place of its label.
            room = spot.box((0.0, 0.0), text_width(crossing["text"]) + lead, FONT)
            to_x, to_y = min(max(0.0, room.left), room.right), min(max(0.0, room.top), room.bottom)
            rule = {"type": "rule", "strokeWidth": 1, "x2Offset": to_x, "y2Offset": to_y}
            ends: Spec = {"x2": {"field": "x"}, "y2": {"field": "y"}}
            layers.append(own | {"mark": rule, "encoding": {**at, **ends, "color": hue}})
        if close:
            small = {**diamond, "size": 50, "filled": True, "opacity": 1}
            small |= {"xOffset": spot.dx + KEY / 2 - 2, "yOffset": middle}
            layers.append(own | {"mark": small, "encoding": {**at, "color": hue}})
        words = {"type": "text", "align": "left", "baseline": "alphabetic", "fontSize": FONT, "color": "currentColor"}
        words |= {"dx": spot.dx + lead, "dy": spot.dy}
        layers.append(own | {"mark": words, "encoding": {**at, "text": {"field": "text"}}})
    return layers


def _fit_layers(
    name: str,
    ask: Ask,
    points: list[Spec],
    others: list[Row],
    sx: Scale,
    sy: Scale,
    x: Spec,
    y: Spec,
    hue: Spec,
    language: Language,
) -> list[Spec]:
    if not ask.fit or not points:
        return []
    slope_name, intercept_name = ask.fit
    ends: list[Spec] = []
    for row in others:
        slope, intercept = data.numeric(row.get(slope_name)), data.numeric(row.get(intercept_name))
        series = _series_name(name, ask, row, language)
        at = [p["x"] for p in points if p["series"] == series]
        if slope is None or intercept is None or not at:
            continue
        # Slope and intercept are in the units of the columns, the axes in those that the chart shows.
        ends += [
            {"x": end, "y": (intercept + slope * end / sx.factor) * sy.factor, "series": series}
            for end in (0.0 if ask.kind == "fit" else min(at), max(at))
        ]
    if not ends:
        return []
    line = {"type": "line", "strokeWidth": 2, "strokeDash": [6, 4]}
    return [{"data": {"values": ends}, "mark": line, "encoding": {"x": x, "y": y, "color": hue}}]


def _crossings(
    name: str, ask: Ask, rows: list[Row], points: list[Spec], others: list[Row], sx: Scale, language: Language
) -> list[Spec]:
    found: list[Spec] = []
    first = next((row.get(ask.by) for row in rows), None) if ask.by else None
    for row in others if ask.crossings else []:
        at = data.numeric(row.get(ask.crossings or ""))
        # Only against the first series: every pair would bury the picture.
        if at is None or row.get("other") not in (None, first):
            continue
        series = _series_name(name, ask, row, language)
        line = sorted((p["x"], p["y"]) for p in points if p["series"] == series)
        height = _height_at(line, at * sx.factor)
        if height is not None:
            found.append({"x": at * sx.factor, "y": height, "text": count(at), "series": series})
    return found


# ---- drawing -------------------------------------------------------------------------------------------------


def draw(spec: Spec) -> str:
    """The SVG of a specification, from the cache where it has been drawn before."""
    import vl_convert  # half a second to load: only where a chart has to be drawn

    full = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", **spec, "config": CONFIG}
    key = json.dumps([DRAWING, version("vl-convert-python"), full], sort_keys=True, ensure_ascii=False)
    path = CACHE / f"{hashlib.sha256(key.encode()).hexdigest()}.svg"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        kept = path.read_text("utf-8")
        if kept.startswith("<svg") and kept.rstrip().endswith("</svg>"):
            return kept
    svg: str = vl_convert.vegalite_to_svg(full)
    with contextlib.suppress(OSError):
        CACHE.mkdir(parents=True, exist_ok=True)
        # Written beside and renamed: two builds at once must not read half a drawing.
        handle, name = tempfile.mkstemp(dir=CACHE, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(svg)
        Path(name).replace(path)
    return svg


def inline(svg: str, prefix: str, label: str, description: str, left: float | None = None) -> str:
    """The drawing made fit to stand in a page: its own ids, a name, no fixed width, no foreign address.

    ``left``: how much room there has to be left of the plot. The drawing side measures Chinese names without a font and
    may leave far more than they need; that is cut off.
    """
    svg = re.sub(r'\s(?:xmlns:xlink|aria-roledescription|aria-hidden|role|aria-label)="[^"]*"', "", svg)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r"url\((['\"]?)#([^)'\"]+)\1\)", rf"url(#{prefix}-\2)", svg)
    svg = re.sub(r'(?:xlink:)?href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    opening = re.match(r"<svg[^>]*>", svg)
    if not opening:
        raise PageError("the chart could not be drawn: vl_convert returned no <svg>")
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', opening.group())
    if not box:
        raise PageError("the chart could not be drawn: its <svg> has no viewBox")
    plot = re.search(r'<g[^>]*transform="translate\(([\d.]+),', svg)
    spare = 0 if left is None or not plot else max(0, math.floor(float(plot.group(1)) - left - 6))
    width = float(box.group(1)) - spare
    most, least = round(width * GROWTH), math.ceil(width * LEAST_FONT / FONT)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{spare} 0 {width:g} {box.group(2)}" width="100%" '
        f'style="min-width:{least}px;max-width:{most}px;height:auto" role="img" aria-label="{escape(label)}" '
        f'aria-describedby="{prefix}-desc"><desc id="{prefix}-desc">{escape(description)}</desc>'
    )
    body = svg[opening.end() :].replace("`", "&#96;").replace("~", "&#126;")
    return re.sub(r"\s*\n\s*", " ", head + body)


# ---- the figure ----------------------------------------------------------------------------------------------


def _legend(name: str, ask: Ask, rows: list[Row], language: Language) -> list[str]:
    """The names of the lines above the drawing, as HTML: a long one wraps and is never cut."""
    names, colours = _series(name, ask, rows, language)
    if ask.kind == "bars" or len(names) < 2:
        return []
    items = "".join(
        f'<li><i style="color:{hue}"></i>{escape(one)}</li>' for one, hue in zip(names, colours, strict=True)
    )
    return [f'<ul class="ck-legend">{items}</ul>']


def _described(name: str, ask: Ask, rows: list[Row], language: Language) -> str:
    """What the chart shows, in words: each bar's number, or where each line begins and ends."""
    column = labels.column(ask.y, language, name)
    parts: list[str] = []
    if ask.kind == "bars":
        for row in rows:
            label = plain(ask.x, row[ask.x], language)
            if ask.by:
                label = f"{label}, {plain(ask.by, row[ask.by], language)}"
            value = quantity(float(row[ask.y]), column.unit)
            parts.append(labels.message("chart_point", language, name=label, value=value))
    else:
        groups: dict[str, list[Row]] = {}
        for row in rows:
            groups.setdefault(_series_name(name, ask, row, language), []).append(row)
        for label, members in groups.items():
            members.sort(key=lambda row: float(row[ask.x]))
            first, last = (quantity(float(row[ask.y]), column.unit) for row in (members[0], members[-1]))
            parts.append(labels.message("chart_range", language, name=label, first=first, last=last))
    return labels.message("chart_sep", language).join(parts)


def total_rows(rows: list[Row], start: str) -> tuple[list[Row], list[Row]]:
    """Total time over the number of steps, computed from a record of the comparison tool, and where lines cross.

    The step of a variant is that without compiling less what the record says it saves: paired, so that drift between
    processes cancels. The second list holds a row with ``break_even_<start>`` for each variant that has one.
    """
    plain = next((row for row in rows if row.get("variant") == "eager" and data.row_ok(row)), None)
    eager_us = data.numeric(plain.get("step_us")) if plain else None
    points: list[Row] = []
    crossings: list[Row] = []
    for row in rows:
        compile_s, saved_us = data.numeric(row.get(f"compile_{start}_s")), data.numeric(row.get("saved_us"))
        if eager_us is None or row.get("variant") == "eager again" or not data.row_ok(row) or compile_s is None:
            continue
        step_us = eager_us if row is plain else None if saved_us is None else eager_us - saved_us
        if step_us is None:
            continue
        same = {"variant": row["variant"], "status": "ok", "note": None}
        points += [same | {"steps": n, f"total_{start}_s": compile_s + n * step_us * 1e-6} for n in STEPS]
        if row.get(f"break_even_{start}") is not None:
            crossings.append(same | {"kind": "crossing", f"break_even_{start}": row[f"break_even_{start}"]})
    return points, crossings


def _figure(state: State, name: str, ask: Ask, view: View) -> str:
    language = state.language
    selected = data.select(view.record.rows, ask.where)
    # Rows of a fit or a crossing are drawn as what they are, whatever rows the chart was asked for.
    rest = {key: value for key, value in (ask.where or {}).items() if key != "kind"}
    same = [row for row in view.record.rows if data.select([row], {k: v for k, v in rest.items() if k in row})]
    others = [row for row in same if row.get("kind") in ("fit", "crossing") and data.row_ok(row)]
    if ask.kind == "totals":
        start = ask.y.removeprefix("total_").removesuffix("_s")
        selected, others = total_rows(selected, start)
        ask = replace(ask, kind="loglog", crossings=f"break_even_{start}")
    needed = (ask.y,) if ask.kind == "bars" else (ask.x, ask.y)
    rows = [
        row
        for row in selected
        if data.row_ok(row) and all(data.numeric(row.get(column)) is not None for column in needed)
    ]
    # A back end that failed has no points, but its reason stands in another kind of row.
    category = ask.x if ask.kind == "bars" else (ask.by or ask.x)
    lost = [row for row in same if not data.row_ok(row) and row.get(category) is not None]
    if not rows:
        return f'<p class="ck-missing">{labels.message("chart_empty", language)}</p>'
    spec = bars_spec(name, ask, rows, language) if ask.kind == "bars" else lines_spec(name, ask, rows, others, language)
    y, x = labels.column(ask.y, language, name).label, labels.column(ask.x, language, name).label
    if x[1:2].islower():  # inside a sentence, but not an abbreviation
        x = x[0].lower() + x[1:]
    key = "chart_title" if ask.kind == "bars" else "chart_xy_title"
    title = ask.title or labels.message(key, language, y=y, x=x)
    left = spec.get("usermeta", {}).get("left")
    svg = inline(draw(spec), state.next_id("chart"), title, _described(name, ask, rows, language), left)
    caption = escape(title)
    if lost:
        names = {
            labels.message(
                "pair",
                language,
                name=labels.name_of(category, row.get(category), language),
                detail=labels.name_of("status", row["status"], language),
            ): None
            for row in lost
        }
        missing = labels.message("chart_missing", language, names=labels.listing(list(names), language))
        caption += f'<br><small class="muted">{missing}</small>'
    columns = list(dict.fromkeys([ask.x, *([ask.by] if ask.by else []), ask.y]))
    if ask.by and ask.kind != "bars":
        columns = [ask.by, ask.x, ask.y]
    numbers = tables.html_table(name, columns, selected, language, region=title)
    return "\n".join(
        [
            '<figure class="ck-chart">',
            *_legend(name, ask, rows, language),
            svg,
            f"<figcaption>{caption}</figcaption>",
            f'<details class="ck-chart-data"><summary>{labels.message("chart_data", language)}</summary>',
            numbers,
            "</details>",
            "</figure>",
        ]
    )


def chart(
    state: State,
    name: str,
    kind: str,
    *,
    x: str,
    y: str,
    by: str | None,
    low: str | None,
    high: str | None,
    where: Where | None,
    title: str | None,
    log: bool,
    crossings: str | None,
    fit: tuple[str, str] | None,
    reference: float | None,
) -> str:
    """See kitchen.page.chart."""
    if kind not in KINDS:
        raise PageError(f"unknown chart kind {kind!r}{did_you_mean(kind, KINDS)}")
    if (low is None) != (high is None):
        raise PageError("chart: give both low and high, or neither")
    totals = x == "steps" and y in ("total_cold_s", "total_warm_s") and by == "variant"
    if kind == "totals" and not totals:
        raise PageError('chart: totals wants x="steps", by="variant", and y="total_cold_s" or y="total_warm_s"')
    shown = data.views(name)
    wanted = [c for c in (x, y, by, low, high, crossings, *(fit or ())) if c]
    data.check_columns(name, shown, wanted)
    data.check_where(name, shown, where)
    line = None
    if fit is not None:
        if len(fit) != 2:
            raise PageError("chart: fit wants two columns, the slope's and the intercept's")
        line = (fit[0], fit[1])
    ask = Ask(kind, x, y, by, low, high, where, title, log, crossings, line, reference)
    return blocks.per_machine(state, name, shown, lambda view: _figure(state, name, ask, view))
