"""Sources as they are written in our data, ``pytorch#158551``, as links."""

from __future__ import annotations

import re

from kitchen.context import PageError
from kitchen.format import escape

#: The repository that a bare name means.
REPOSITORIES = {"pytorch": "pytorch/pytorch"}
_THREAD = re.compile(r"(?P<place>[\w.-]+(?:/[\w.-]+)?)#(?P<number>\d+)")
_ADDRESS = re.compile(r"https://(?P<shown>[^\s#?]+)\S*")


def address(source: str) -> str:
    """The address of a source: ``pytorch#105789``, ``owner/repository#12`` or an https address.

    Raises PageError for anything else.
    """
    if match := _THREAD.fullmatch(source):
        place = REPOSITORIES.get(match["place"], match["place"])
        if "/" in place:
            # GitHub leads from issues/N to pull/N where N is a pull request.
            return f"https://github.com/{place}/issues/{match['number']}"
    elif _ADDRESS.fullmatch(source):
        return source
    raise PageError(f"source {source!r}: write pytorch#123, owner/repository#123 or an https:// address")


def link(source: str) -> str:
    """A source as a link, shown as it is written (an address without ``https://``)."""
    match = _ADDRESS.fullmatch(source)
    shown = match["shown"].rstrip("/") if match else source
    return f'<a href="{escape(address(source))}">{escape(shown)}</a>'
