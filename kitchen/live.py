"""``KITCHEN_LIVE=1``: run a snippet on this machine before a page shows it, once for both languages."""

from __future__ import annotations

import contextlib
import os
import sys

from kitchen import data
from kitchen.context import PageError

#: What this process has run. A set and not a cache: a rebuild under `mkdocs serve` must not measure again.
_done: set[str] = set()


def enabled() -> bool:
    """True where the environment asks for a live build."""
    return os.environ.get("KITCHEN_LIVE", "0") not in ("", "0")


def ensure(name: str) -> None:
    """Runs the snippet here once in this process when the build is live; otherwise does nothing.

    Raises PageError where there is no such snippet or it cannot be measured at all. A snippet that fails is not
    an error: its record says so, and the page shows that.
    """
    if not enabled() or name in _done:
        return
    data.snippet(name)
    _done.add(name)
    # Only now: an ordinary build never loads the measuring half.
    from kitchen.measure import measure

    print(f"kitchen: live build, measuring {name}", file=sys.stderr, flush=True)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            measure([name], force=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise PageError(f"KITCHEN_LIVE: {name!r} could not be measured: {error}") from error
