"""Numbers and strings for a page (kitchen.format)."""

from __future__ import annotations

import math

import pytest

from kitchen import format as fmt


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (97.31, "us", "97.3 µs"),
        (0.25, "us", "250 ns"),
        (1234.0, "us", "1.23 ms"),
        (999.9999999999, "us", "1.00 ms"),
        (2_500_000.0, "us", "2.50 s"),
        (0.0021, "s", "2.10 ms"),
        (300.0, "s", "300 s"),
        (1200.0, "s", "20.0 min"),
        (1.316, "ratio", "1.32×"),
        (0.0123, "share", "1.23%"),
        (2048.0, "kib", "2.00 MiB"),
        (0, "us", "0 ns"),
        (1.0, "furlongs", "1.00 furlongs"),
    ],
)
def test_one_number_takes_the_unit_that_suits_it(value: float, unit: str, shown: str) -> None:
    assert fmt.quantity(value, unit).replace(fmt.THIN, " ") == shown


def test_a_column_shares_a_unit_unless_its_numbers_lie_far_apart() -> None:
    shared = fmt.shared_scale([97.0, 1500.0], "us")
    assert shared is not None
    assert shared.symbol == "ms"
    assert fmt.shared_scale([97.0, 15_000_000.0], "us") is None
    nothing = fmt.shared_scale([], "s")
    assert nothing is not None
    assert nothing.symbol == "s"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (99.96, "100"),
        (9.996, "10.0"),
        (1234567.0, "1,234,567"),
        (-0.5, "−0.500"),
        (-0.0, "0"),
        (12345, "12,345"),
        (2.34e-7, "2.34×10⁻⁷"),
    ],
)
def test_three_significant_digits_and_never_fewer_than_the_whole_part(value: float, shown: str) -> None:
    assert fmt.number(value) == shown


def test_a_computed_count_claims_no_more_digits_than_it_has() -> None:
    assert fmt.count(123_456) == "123,000"
    assert fmt.count(99.6) == "100"
    assert fmt.count(0) == "0"


def test_both_ends_of_an_interval_have_the_digits_of_the_value() -> None:
    assert fmt.interval(1.2211, 1.2899, "ratio", like=1.25) == "1.22–1.29×"
    assert fmt.interval(0.9, 1.1, "us", like=1.0).replace(fmt.THIN, " ") == "0.90–1.10 µs"
    assert fmt.interval(1e-300, 2e-300, "") == "1.00×10⁻³⁰⁰–2.00×10⁻³⁰⁰"
    assert fmt.interval(0, 4e12, "ratio", like=2e12) == "0–4.00×10¹²×"


def test_escaping_leaves_nothing_that_html_or_markdown_reads() -> None:
    hostile = '<script>`~~~ "x" \'&\n\x00\x1b[0m\u202e'
    shown = fmt.escape(hostile)
    for bad in ("<", ">", "`", "~", '"', "'", "\n", "\x00", "\x1b", "\u202e"):
        assert bad not in shown
    inline = fmt.escape_inline("**b** _i_ `c` [l](u) {#x} | $a$ <br> &lt;")
    assert not set("*_`[](){}|$<>") & set(inline)
    assert fmt.escape_inline("AMD EPYC, 2 µs 中文") == "AMD EPYC, 2 µs 中文"


def test_code_words_keep_a_lone_backtick() -> None:
    assert fmt.escape_words("a `b` <c>") == "a <code>b</code> &lt;c&gt;"
    assert fmt.escape_words("a ` b") == "a &#96; b"


def test_decimals_of_odd_numbers() -> None:
    assert fmt.decimals(0.0) == 0
    assert fmt.decimals(math.inf) == 0
