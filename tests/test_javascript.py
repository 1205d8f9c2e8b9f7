"""The site's own JavaScript: its pure parts under ``node --test``, and its numbers held to those of the pages."""

from __future__ import annotations

from pathlib import Path

from kitchen import format
from tests import node

ROOT = Path(__file__).resolve().parent.parent
JS = ROOT / "docs" / "assets" / "js"


def test_the_pure_modules_pass_their_own_tests() -> None:
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "js").glob("*.test.js"))
    assert files
    node.run("--test", *files)


def test_every_tool_has_its_logic_tested() -> None:
    tools = {path.parent.name for path in JS.glob("tools/*/logic.js")}
    assert tools == {path.parent.name for path in JS.glob("tools/*/view.js")}
    assert tools <= {path.name.removesuffix(".test.js") for path in (ROOT / "tests" / "js").glob("*.test.js")}


VALUES = [
    0.0,
    1.0,
    -1.5,
    0.00123,
    12.345,
    99.96,
    999.6,
    1234.5,
    20917.0,
    123456.7,
    7.5e-5,
    -2.34e-7,
    2.5e9,
    599.0,
    7201.0,
]


def test_numbers_are_shown_as_on_the_pages() -> None:
    cases = [(value, unit) for value in VALUES for unit in format.LADDERS]
    shown = node.answer(
        "given.map(([v, u]) => [f.quantity(v, u), f.number(v), f.count(v)])", cases, f="common/format.js"
    )
    expected = [[format.quantity(v, u), format.number(v), format.count(v)] for v, u in cases]
    differing = [(case, got, want) for case, got, want in zip(cases, shown, expected, strict=True) if got != want]
    assert differing == []


def test_intervals_are_shown_as_on_the_pages() -> None:
    cases = [(v * 0.9, v * 1.2, unit, v) for v in [*VALUES, 3e-300, 4e14] if v > 0 for unit in format.LADDERS]
    shown = node.answer("given.map((one) => f.interval(...one))", cases, f="common/format.js")
    expected = [format.interval(low, high, unit, like=like) for low, high, unit, like in cases]
    differing = [(case, got, want) for case, got, want in zip(cases, shown, expected, strict=True) if got != want]
    assert differing == []
