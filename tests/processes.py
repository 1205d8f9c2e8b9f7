"""Starting processes that a test will interrupt."""

from __future__ import annotations

import signal


def heed_interrupts() -> None:
    """For ``preexec_fn``: what a shell starts in the background ignores SIGINT, and so would all that we start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
