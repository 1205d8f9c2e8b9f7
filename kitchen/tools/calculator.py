"""The data of the break-even calculator."""

from __future__ import annotations

from kitchen.context import Language
from kitchen.tools import Payload


def payload(language: Language) -> Payload:
    """Nothing yet."""
    return Payload({})
