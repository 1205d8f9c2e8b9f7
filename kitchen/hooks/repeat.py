"""While serving, a page that has not changed is not converted again: a save builds the whole site, and edits one page.

What a page is made from is its Markdown, the files that its page functions may rest on (kitchen/memory.py), and which
files the site has, for its links. A page with an error is converted anew each time, so that the error is told again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from kitchen import memory
from kitchen.hooks.common import is_root, language

#: By language and address of a page: what it was made from, and what came of it.
_kept: dict[tuple[str, str], tuple[Any, dict[str, Any]]] = {}


@event_priority(-100)  # when all other hooks have seen the Markdown
def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the page be converted only if it has changed."""
    if memory.on and not is_root(config) and page.file.src_uri.endswith(".md"):
        convert = page.render
        code = language(config)
        page.render = lambda config, files: repeat(code, page, files, lambda: convert(config, files))  # type: ignore[method-assign]
    return markdown


def repeat(code: str, page: Page, files: Files, convert: Callable[[], None]) -> None:
    """Give ``page`` what it was converted to the last time, if that is still so; else convert it."""
    from kitchen.page import state

    made_from = (page.markdown, memory.stamp(), sorted(file.src_uri for file in files))
    known = _kept.get((code, page.url))
    if known is not None and known[0] == made_from:
        result = copy.deepcopy(known[1])
        page.content, page.toc, page._title_from_render = result["content"], result["toc"], result["title"]
        page.present_anchor_ids = result["ids"]
        found = {files.get_file_from_path(uri): links for uri, links in result["links"].items()}
        page.links_to_anchors = {file: links for file, links in found.items() if file is not None}
        return
    convert()
    _kept.pop((code, page.url), None)
    if not state.errors:
        result = {
            "content": page.content,
            "toc": page.toc,
            "title": page._title_from_render,
            "ids": page.present_anchor_ids,
            "links": {file.src_uri: links for file, links in (page.links_to_anchors or {}).items()},
        }
        _kept[code, page.url] = (made_from, copy.deepcopy(result))
