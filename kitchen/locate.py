"""The line of a call in a page's file, so that a fault names where to look.

markdown-exec compiles a fence under the file name ``<code block: …>``, with line numbers that start at the
fence. The text of the block, which it keeps, finds the fence in the file; of two fences with equal text the
one that is reached second is taken for the second in the file.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from textwrap import dedent
from types import FrameType

from kitchen.context import State

_FENCE = re.compile(r"^(?P<indent>[ \t>]*)(?P<marks>`{3,}|~{3,})[^\n]*\bexec\b[^\n]*$")


@dataclass(frozen=True)
class _Call:
    block: str
    line: int
    code: str


def _caller() -> _Call | None:
    """The innermost frame that runs a fence of a page, with the text of that fence."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<code block: "):
            return _Call(name, frame.f_lineno, _code_of(name))
        frame = frame.f_back
    return None


def _code_of(name: str) -> str:
    # Only the page half in a build has markdown-exec; this table of it is not public, so ask for it softly:
    # without it a fault still names the page.
    module = sys.modules.get("markdown_exec._internal.formatters.python")
    lines: list[str] = getattr(module, "_code_blocks", {}).get(name, [])
    return "\n".join(lines)


def _normal(code: str) -> str:
    return "\n".join(line.rstrip() for line in dedent(code).strip("\n").splitlines())


def note(state: State) -> None:
    """Remembers that the calling fence was reached, in order."""
    call = _caller()
    if call is not None:
        seen = state.blocks.setdefault(_normal(call.code), [])
        if call.block not in seen:
            seen.append(call.block)


def fences(text: str) -> list[tuple[int, str]]:
    """Every fence with ``exec`` in its first line: the line number of its first line of code, and the code."""
    lines = text.splitlines()
    found = []
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if not opening:
            at += 1
            continue
        start = at + 1
        at = start
        closing = re.compile(rf"^[ \t>]*{re.escape(opening['marks'][0])}{{{len(opening['marks'])},}}\s*$")
        while at < len(lines) and not closing.match(lines[at]):
            at += 1
        found.append((start + 1, "\n".join(lines[start:at])))
        at += 1
    return found


def line_of_call(state: State) -> int | None:
    """The line of the call in the page's file, or None where it can't be told."""
    call = _caller()
    if call is None:
        return None
    try:
        text = state.source.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        text = state.markdown
    wanted = _normal(call.code)
    same = [(first, code) for first, code in fences(text) if _normal(code) == wanted]
    if not same:
        return None
    seen = state.blocks.get(wanted, [call.block])
    nth = seen.index(call.block) if call.block in seen else 0
    first, code = same[min(nth, len(same) - 1)]
    # Blank lines at the head of the fence are in the file and in the block alike.
    blank = len(code) - len(code.lstrip("\n"))
    return first + blank + call.line - 1 - (len(call.code) - len(call.code.lstrip("\n")))


def line_of_text(state: State, wanted: str) -> int | None:
    """The first line of the page's file that has ``wanted``, as it is or as JSON writes it (a notebook)."""
    try:
        lines = state.source.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    forms = (wanted, json.dumps(wanted)[1:-1], json.dumps(wanted, ensure_ascii=False)[1:-1])
    return next((at for at, line in enumerate(lines, 1) if any(form in line for form in forms)), None)


def prefixed(state: State, message: str) -> str:
    """``docs/en/overview/index.md:42: message``; without the line where it can't be told."""
    line = line_of_text(state, state.spec) if state.spec else line_of_call(state)
    place = state.shown_source()
    return f"{place}:{line}: {message}" if line else f"{place}: {message}"
