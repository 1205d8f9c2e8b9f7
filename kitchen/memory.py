"""What page functions returned, kept while serving: a save builds the whole site, and most calls have the same answer.

An answer is kept for one state of the files that it may rest on: records, snippets, example packages, our own words. It
is used only under ``mkdocs serve``, and never where snippets are run while building.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kitchen import results, snippet
from kitchen.context import ROOT, State

#: Set by the hook when the site is served.
on = False
#: Their answers depend on the page's language and address, on the ids given before on the page, and on files only.
FUNCTIONS = frozenset(
    {"table", "matrix", "versions", "chart", "text", "source", "example", "verdict"}
    | {"problem", "problems", "claim", "claims"}
)
#: The files are looked at again after so many seconds.
FRESH_S = 0.25

_answers: dict[Any, tuple[str, int]] = {}
_answers_of: list[Any] = [None]
_seen: tuple[float, Any] = (0.0, None)


def recall(state: State, function: Callable[..., str], args: Any, kwargs: Any) -> str:
    """The answer of a call, from memory where nothing that it rests on has changed."""
    files = stamp()
    if files != _answers_of[0]:
        _answers.clear()
        _answers_of[0] = files
    key = (function.__name__, repr(args), repr(kwargs), state.language, state.url, state._ids)
    if key not in _answers:
        answer = function(*args, **kwargs)
        _answers[key] = (answer, state._ids)
    answer, state._ids = _answers[key]
    return answer


def stamp() -> Any:
    """What the files that answers may rest on look like now; equal as long as nothing has changed."""
    global _seen
    now = time.monotonic()
    if now - _seen[0] > FRESH_S:
        _seen = (now, tuple(_stamps()))
    return _seen[1]


def _stamps() -> Iterator[tuple[str, int, int]]:
    folders = (results.RESULTS, snippet.SNIPPETS, ROOT / "examples", ROOT / "kitchen")
    paths = [path for folder in folders for path in _files(folder)]
    for path in (*paths, str(ROOT / "docs" / "terms.toml")):
        try:
            status = os.stat(path)  # noqa: PTH116 - hundreds of files, four times a second
        except OSError:
            continue
        yield (str(path), status.st_mtime_ns, status.st_size)


def _files(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        if "__pycache__" not in place:
            yield from (os.path.join(place, name) for name in sorted(names))  # noqa: PTH118 - half the time of Path
