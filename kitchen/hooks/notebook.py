"""Notebook pages: lighter, without foreign scripts, with our heading ids and our page functions.

mkdocs-jupyter puts the whole JupyterLab style sheet (600 KB), a MathJax 2 call, a Mermaid import from a CDN and a
copy widget into each page. None is needed: docs/assets/css/notebook.css draws the cells, Material's copy button works
on ordinary code blocks, and docs/assets/js/math.js sets the formulas.
"""

from __future__ import annotations

import html as html_escapes
import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import mkdocs_jupyter.plugin
from markdown import Markdown
from markdown.extensions.toc import TocExtension
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page
from nbconvert.filters.markdown_mistune import IPythonRenderer
from pymdownx.slugs import slugify

from kitchen.hooks.common import ROOT, is_root, language

_slug = slugify(case="lower")

_JUNK = re.compile(
    r"<script\b.*?</script>|<style\b.*?</style>|<!--.*?-->"
    r'|<div class="zeroclipboard-container">.*?</clipboard-copy>\s*</div>'
    r'|<div class="clipboard-copy-txt"[^>]*>.*?</div>'
    r'|<div class="jp-Collapser[^"]*">\s*</div>',
    re.DOTALL,
)
_CODE = re.compile(r'<div class="highlight-ipynb hl-(\w+)[^"]*"><pre>(?:<span></span>)?(.*?)\n?</pre></div>', re.DOTALL)
_FOCUS = re.compile(r'(<div class="jp-Cell-inputWrapper") tabindex="0"')
_EXPLICIT_ID = re.compile(r"\s*\{#([\w-]+)\}\s*$")
_ID_IN_SOURCE = re.compile(r"^(#+ .*?)\s*\{#[\w-]+\}[ \t]*$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_MARKER = re.compile(r"""<div data-kitchen=(["'])(.*?)\1>\s*</div>""", re.DOTALL)
_HEADING = re.compile(r"</h1>")
_DOWNLOAD = {"en": "Download this notebook", "zh": "下载这份 notebook"}
_PERMALINK = {"en": "Permanent link", "zh": "永久链接"}


def _heading(self: IPythonRenderer, text: str, level: int, **attrs: Any) -> str:
    """A heading with an id: the explicit one of `## Title {#id}`, else a slug that keeps Chinese."""
    explicit = _EXPLICIT_ID.search(text)
    label = _EXPLICIT_ID.sub("", text)
    plain = html_escapes.unescape(re.sub(r"<[^>]+>", "", label))
    anchor = explicit.group(1) if explicit else _slug(plain, "-")
    return f'<h{level} id="{anchor}">{label}<a class="headerlink" href="#{anchor}">¶</a></h{level}>\n'


def _markdown_toc(markdown_source: str, toc_depth: int) -> list[dict[str, Any]]:
    """The headings of a notebook for the table of contents, with the ids that `_heading` gives."""
    converter = Markdown(extensions=["attr_list", TocExtension(toc_depth=toc_depth, slugify=_slug)])
    converter.convert(markdown_source)
    tokens: list[dict[str, Any]] = converter.toc_tokens  # type: ignore[attr-defined]
    return tokens


# mkdocs-jupyter keeps only ASCII letters in ids: a Chinese heading gets an empty one. It has no setting for this.
IPythonRenderer.heading = _heading  # type: ignore[method-assign]
mkdocs_jupyter.plugin._get_markdown_toc = _markdown_toc


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """One cache for each language (a build evicts what it did not use); run the cells in a live build only."""
    plugin = config.plugins.get("mkdocs-jupyter")
    if plugin is not None:
        name = "root" if is_root(config) else language(config)
        plugin.config["cache_dir"] = str(ROOT / ".cache" / "notebooks" / name)
        live = os.environ.get("KITCHEN_LIVE") == "1"
        plugin.config["execute"] = live
        plugin.config["cache"] = not live  # A live build runs the cells, it does not show an earlier run.
    return config


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Clean a notebook's HTML and put the page functions' output in place of its markers."""
    if is_root(config) or not page.file.src_uri.endswith(".ipynb"):
        return html
    code = language(config)
    name = page.file.src_uri.rpartition("/")[2]
    html = _JUNK.sub("", html)
    html = _CODE.sub(r'<div class="language-\1 highlight"><pre><span></span><code>\2\n</code></pre></div>', html)
    html = _FOCUS.sub(r"\1", html)
    html = html.replace('<a class="headerlink"', f'<a class="headerlink" title="{_PERMALINK[code]}"')
    html = _HEADING.sub(
        f'</h1>\n<p class="ck-download"><a href="{name}" download>{_DOWNLOAD[code]}</a></p>', html, count=1
    )
    return _MARKER.sub(lambda marker: _shown(marker.group(2), page), html)


def _shown(call: str, page: Page) -> str:
    """The HTML of one page-function call, such as `table overview/python_demo`."""
    from kitchen import page as functions
    from kitchen.hooks.pages import collect_errors

    try:
        return functions.render_html(functions.call(html_escapes.unescape(call)))
    except Exception as error:
        if collect_errors():  # Reported with all others once every page is read.
            return ""
        raise PluginError(f"{page.file.src_uri}: data-kitchen='{call}': {error}") from error


def on_post_build(config: MkDocsConfig) -> None:
    """Take the site's own marks out of the notebooks that readers download: Jupyter would show them as text."""
    if is_root(config):
        return
    for path in Path(config.site_dir).rglob("*.ipynb"):
        page_url = f"{config.site_url or ''}{path.parent.relative_to(config.site_dir).as_posix()}/"
        cleaned = for_readers(json.loads(path.read_text("utf-8")), page_url)
        path.write_text(json.dumps(cleaned, ensure_ascii=False, indent=1) + "\n", "utf-8")


def for_readers(notebook: dict[str, Any], page_url: str) -> dict[str, Any]:
    """A notebook without heading ids and the places where only the site can show something, its links made whole."""
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            source = _MARKER.sub("", _ID_IN_SOURCE.sub(r"\1", "".join(cell["source"]))).strip()
            source = _LINK.sub(lambda link: f"]({urljoin(page_url, link.group(1))})", source)
            if not source:
                continue
            cell = cell | {"source": source.splitlines(keepends=True)}
        cells.append(cell)
    return notebook | {"cells": cells}
