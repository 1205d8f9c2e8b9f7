"""Makes snippets on disk for the tests of the machinery. Their code is what a careless author might write."""

from __future__ import annotations

import textwrap
from pathlib import Path

from kitchen import snippet
from kitchen.snippet import Snippet


def write_snippet(
    root: Path,
    body: str,
    *,
    name: str = "demo/one",
    needs: str = "[]",
    limit_s: float = 60,
    value: int = 0,
    dependencies: str = "[]",
    more: str = "",
) -> Snippet:
    """Writes ``body`` (the code after the header) as snippet ``name`` below ``root`` and loads it.

    ``more`` is a line more of its ``[tool.kitchen]`` table.
    """
    path = root / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    header = textwrap.dedent(
        f'''\
        # /// script
        # requires-python = ">=3.11"
        # dependencies = {dependencies}
        #
        # [tool.kitchen]
        # needs = {needs}
        # limit_s = {limit_s}
        # value = {value}
        # MORE
        # ///
        """A snippet of the tests."""

        '''
    )
    path.write_text(header.replace("# MORE", f"# {more}") + textwrap.dedent(body), "utf-8")
    return snippet.load(name, root)


def run_body(code: str) -> str:
    """``code`` as the body of run()."""
    return "def run():\n" + textwrap.indent(textwrap.dedent(code).strip("\n"), "    ") + "\n"
