"""The data of the pipeline explorer."""

from __future__ import annotations

from kitchen.context import Language
from kitchen.tools import Payload


def payload(language: Language) -> Payload:
    """Nothing yet."""
    return Payload({})
