"""Mend the theme's search for Chinese: its word splitter never looks at the last character of what is typed.

Material's search worker cuts a query at every place where a prefix of the rest is a known word, but its inner
loop ends one character too early (`o<t.length`), so a word that ends the query is never found whole: a search
for 重编译 (recompilation) finds 重 and 编 instead. Seen in mkdocs-material 9.8.2.
"""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

from kitchen.hooks.common import is_root

_WRONG = "for(let o=s+1;o<t.length;o++)t.slice(s,o)in e"
_RIGHT = "for(let o=s+1;o<=t.length;o++)t.slice(s,o)in e"


def on_post_build(config: MkDocsConfig) -> None:
    """Let the splitter see the whole query.

    Raises:
        PluginError: the worker is not as expected; an upgrade of the theme may have mended or moved the loop.
    """
    if is_root(config):
        return
    workers = list(Path(config.site_dir, "assets/javascripts/workers").glob("search.*.min.js"))
    texts = {path: path.read_text("utf-8") for path in workers}
    if [text.count(_WRONG) for text in texts.values()] != [1]:
        raise PluginError(
            "kitchen/hooks/search.py: the theme's search worker has no such loop any more. Search for 重编译 on the "
            "Chinese site: if it is found without this hook, remove the hook; else mend the new loop."
        )
    for path, text in texts.items():
        path.write_text(text.replace(_WRONG, _RIGHT), "utf-8")
