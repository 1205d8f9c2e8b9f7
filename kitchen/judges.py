"""Claims that the records of other snippets decide: each judge makes cases of their rows.

A case is one thing that was tried: what the claim predicts there, and what came out. Which verdict follows from the
cases is the same for all claims (kitchen/claims.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kitchen.data import Row


@dataclass(frozen=True)
class Case:
    """``agrees``: whether what was seen is what was said; None where it could not be tried."""

    tried: str
    said: str
    seen: str
    agrees: bool | None

    def row(self) -> Row:
        """As a row of a table."""
        return {"tried": self.tried, "said": self.said, "seen": self.seen, "agrees": self.agrees, "status": "ok"}


Judge = Callable[[list[Row]], list[Case]]
JUDGES: dict[str, Judge] = {}


def judge(function: Judge) -> Judge:
    """Makes a function a judge under its own name."""
    JUDGES[function.__name__] = function
    return function
