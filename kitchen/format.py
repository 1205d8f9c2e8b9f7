"""Numbers and strings for a page: sensible digits, a unit that a column can share, and safe HTML.

Strings of a record are written by whatever ran, an exception of a third party for instance, so they are
material to show and never markup: everything goes through :func:`escape` or :func:`escape_inline`.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

#: Numbers outside of these are shown as powers of ten.
LEAST_PLAIN, MOST_PLAIN = 1e-4, 1e9
DASH = "–"
#: Between a number and its unit: no line break, and narrow in both scripts.
THIN = "\u202f"

#: Control and direction characters, and half surrogates, which JSON can carry and UTF-8 can't.
_CONTROL = re.compile(
    r"[\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\u2028\u2029\ufeff\u202a-\u202e\u2066-\u2069]"
)
#: What Markdown or one of its extensions may read as markup inside a paragraph or a tab's title.
_INLINE = re.compile(r"[^\w\s.,;%&]|_", re.ASCII)
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def one_line(value: object) -> str:
    """The text of a value on one line, without control characters (direction overrides among them)."""
    return re.sub(r"\s+", " ", _CONTROL.sub("", str(value))).strip()


def escape(value: object) -> str:
    """One line of text, safe inside a raw HTML block of a Markdown page and inside an attribute.

    Backticks and tildes are escaped too: Markdown looks for fences before it sees that a block is HTML.
    """
    return html.escape(one_line(value)).replace("`", "&#96;").replace("~", "&#126;")


#: Code that is no longer than this is never broken.
SHORT = 16
#: Where a name in code may go on in the next line: after these signs, before a letter.
_BREAK = re.compile(r"(?<=[\w)\]\"'][._/,=:(\[])(?=[A-Za-z_\"'])")


def escape_code(value: object) -> str:
    """One line of code, safe like :func:`escape`, with places where a long one may be broken."""
    text = one_line(value)
    pieces = _BREAK.split(text) if len(text) > SHORT else [text]
    return "<wbr>".join(html.escape(piece).replace("`", "&#96;").replace("~", "&#126;") for piece in pieces)


def words_with_code(text: str) -> str:
    """Words of ours as HTML, with what stands between backticks as code."""
    return re.sub(r"&#96;(.+?)&#96;", lambda match: f"<code>{breakable(match[1])}</code>", escape(text))


def breakable(code: str) -> str:
    """Code that is HTML already (escaped text, perhaps with tags), with the same places."""
    if len(code) <= SHORT:
        return code
    parts = re.split(r"(<[^>]*>|&[#\w]+;)", code)
    return "".join(part if index % 2 else "<wbr>".join(_BREAK.split(part)) for index, part in enumerate(parts))


def text_em(text: str) -> float:
    """About how wide a text is set, in its own font size: a Chinese character is as wide as it is high."""
    return sum(1.0 if unicodedata.east_asian_width(c) in "WF" else 0.55 for c in text)


def escape_words(text: str) -> str:
    """Text of ours, where `code` stands between backticks, as HTML for a raw HTML block."""
    parts = html.escape(_CONTROL.sub("", text)).replace("~", "&#126;").split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner is only a backtick
        parts[-2:] = [f"{parts[-2]}&#96;{parts[-1]}"]
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def escape_lines(value: str) -> str:
    """Text with its line ends, safe inside ``<pre>`` in a raw HTML block (see :func:`escape`)."""
    text = _CONTROL.sub("", value.replace("\r\n", "\n").replace("\r", "\n"))
    return html.escape(text).replace("`", "&#96;").replace("~", "&#126;")


def escape_inline(value: object) -> str:
    """One line of text, safe where Markdown still reads inline markup: prose and tab titles."""

    def entity(match: re.Match[str]) -> str:
        return f"&#{ord(match.group())};"

    return "".join(
        # Letters and signs beyond ASCII (Chinese, µ, ×) mean nothing to Markdown and stay readable.
        char if ord(char) > 127 else ("&amp;" if char == "&" else _INLINE.sub(entity, char))
        for char in one_line(value)
    )


@dataclass(frozen=True)
class Scale:
    """A unit to show numbers in: ``shown = raw * factor``, followed by ``symbol``."""

    factor: float
    symbol: str


#: Each unit that a column's name can carry, with the units that it may be shown in, smallest first.
#: The first number is the least magnitude, in the column's own unit, from which the unit is used.
_SECONDS = (
    (0.0, Scale(1e9, "ns")),
    (1e-6, Scale(1e6, "µs")),
    (1e-3, Scale(1e3, "ms")),
    (1.0, Scale(1.0, "s")),
    (600.0, Scale(1 / 60, "min")),
    (7200.0, Scale(1 / 3600, "h")),
)
_KIB = (
    (0.0, Scale(1.0, "KiB")),
    (1024.0, Scale(1 / 1024, "MiB")),
    (1024.0**2, Scale(1 / 1024**2, "GiB")),
)


def _rebased(ladder: tuple[tuple[float, Scale], ...], size: float) -> tuple[tuple[float, Scale], ...]:
    return tuple((least / size, Scale(scale.factor * size, scale.symbol)) for least, scale in ladder)


LADDERS: dict[str, tuple[tuple[float, Scale], ...]] = {
    "ns": _rebased(_SECONDS, 1e-9),
    "us": _rebased(_SECONDS, 1e-6),
    "ms": _rebased(_SECONDS, 1e-3),
    "s": _SECONDS,
    "kib": _KIB,
    "mib": _rebased(_KIB, 1024),
    "gib": _rebased(_KIB, 1024**2),
    "gbs": ((0.0, Scale(1.0, "GB/s")),),
    "percent": ((0.0, Scale(1.0, "%")),),
    "share": ((0.0, Scale(100.0, "%")),),
    "ratio": ((0.0, Scale(1.0, "×")),),
    "": ((0.0, Scale(1.0, "")),),
}


def scale_of(value: float, unit: str) -> Scale:
    """The unit that suits one number. An unknown unit is shown as it is written."""
    ladder = LADDERS.get(unit, ((0.0, Scale(1.0, unit)),))
    # A hair of slack: 1000.0 written as 999.9999 by a conversion still goes up a unit.
    return [scale for least, scale in ladder if abs(value) * (1 + 1e-9) >= least][-1]


def shared_scale(values: Iterable[float], unit: str) -> Scale | None:
    """The one unit that suits all numbers of a column, or None where they lie too far apart for one."""
    sizes = [abs(v) for v in values if v]
    if not sizes:
        return scale_of(1.0, unit)
    scale = scale_of(max(sizes), unit)
    return scale if min(sizes) * scale.factor >= 0.01 else None


def decimals(value: float, digits: int = 3) -> int:
    """How many places after the point show ``digits`` significant digits of ``value``."""
    if value == 0 or not math.isfinite(value):
        return 0
    places = digits - 1 - math.floor(math.log10(abs(value)))
    # 99.96 rounds up to a number that is a digit longer.
    if places > 0 and round(abs(value), places) >= 10 ** (digits - places):
        places -= 1
    return max(0, places)


def number(value: float, places: int | None = None, *, digits: int = 3) -> str:
    """A number with ``places`` after the point (default: ``digits`` significant), a true minus, and thousands apart."""
    if isinstance(value, int) and places is None:
        return f"{value:,}".replace("-", "−")
    if value != 0 and not LEAST_PLAIN <= abs(value) < MOST_PLAIN and places is None:
        return scientific(value, digits)
    shown = f"{value:,.{decimals(value, digits) if places is None else places}f}"
    if not shown.strip("-0.,"):
        shown = shown.lstrip("-")
    return shown.replace("-", "−")


def count(value: float, digits: int = 3) -> str:
    """A computed number of things: whole, and no more significant digits than its sources have."""
    whole = round(value)
    return number(whole if abs(whole) < 10**digits else int(float(f"{whole:.{digits - 1}e}")))


def scientific(value: float, digits: int = 2) -> str:
    """``2.3×10⁻⁷``."""
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}×10{str(int(exponent)).translate(_SUPERSCRIPT)}".replace("-", "−")


def with_unit(shown: str, symbol: str) -> str:
    """``97.3 µs``, ``1.32×``, ``0.6%``."""
    return shown + symbol if symbol in ("×", "%", "") else shown + THIN + symbol


def quantity(value: float, unit: str, *, digits: int = 3) -> str:
    """One number in the unit that suits it."""
    scale = scale_of(value, unit)
    if scale.factor == 1.0 and isinstance(value, int):
        return with_unit(number(value), scale.symbol)
    return with_unit(number(float(value) * scale.factor, digits=digits), scale.symbol)


def interval(low: float, high: float, unit: str, *, like: float | None = None) -> str:
    """``95.1–99.0 µs``: both ends with the places that ``like`` (default: the upper end) needs.

    Where that would take a row of zeros, powers of ten, as for a single number.
    """
    middle = high if like is None else like
    scale = scale_of(middle, unit)
    scaled = abs(middle * scale.factor)
    if scaled and not LEAST_PLAIN <= scaled < MOST_PLAIN:
        ends = DASH.join(scientific(end * scale.factor, 3) for end in (low, high))
        return with_unit(ends, scale.symbol)
    places = decimals(middle * scale.factor)
    return with_unit(f"{number(low * scale.factor, places)}{DASH}{number(high * scale.factor, places)}", scale.symbol)
