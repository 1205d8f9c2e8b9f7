"""Tell the page functions which page is being built, and turn their errors into a failed build."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from jinja2 import Environment
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from kitchen.format import breakable
from kitchen.hooks.common import is_root, language

log = logging.getLogger("mkdocs.kitchen")
_errors: list[str] = []
_serving = False
_SEARCH_DIALOG = re.compile(r'(<div class="md-search" data-md-component="search" role="dialog")(?=>)')
_PREFORMATTED = re.compile(r"(<(?:pre|svg|textarea)\b.*?</(?:pre|svg|textarea)>)", re.DOTALL)
_HAN = r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef\u2014\u2018-\u201d\u2026]"
_ID = re.compile(r'<[^>]*\sid="([^"]+)"')
_INLINE = r"(?:</?(?:strong|em|a|span|mark)\b[^>]*>)*"
_CHINESE_BREAK = re.compile(rf"({_HAN}{_INLINE})\n[ \t]*({_INLINE}{_HAN})")
_FORMULA = r'<span class="arithmatex">[^<]*</span>'
#: A browser may break a line beside a formula, whatever sign follows it: it takes the formula for a picture.
_BESIDE_FORMULA = re.compile(rf"([（“‘「『《(\[]*)({_FORMULA})([。，、；：？！…）”’」』》.,;:?!)\]%]*)")
_CELL = re.compile(r"<td\b[^>]*>.*?</td>", re.DOTALL)
_CODE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")
_SEARCH_LABEL = {"en": "Search", "zh": "搜索"}


def on_startup(command: str, dirty: bool) -> None:
    """Remember whether this is `mkdocs serve`."""
    global _serving
    _serving = command == "serve"


def on_pre_build(config: MkDocsConfig) -> None:
    """Forget the errors and the files of an earlier build (under `mkdocs serve`)."""
    from kitchen import data, live, memory

    memory.on = _serving and not live.enabled()
    _errors.clear()
    data.hold(not is_root(config) and not live.enabled())


def on_post_build(config: MkDocsConfig) -> None:
    """Look at the files anew from now on."""
    from kitchen import data

    data.hold(False)


def on_build_error(error: Exception) -> None:
    """The same where the build fails."""
    from kitchen import data

    data.hold(False)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Set the state that `kitchen.page` reads; the home page is shown without side columns."""
    if is_root(config):
        return markdown
    from kitchen.page import state

    state.begin(
        language=language(config),
        source=Path(page.file.abs_src_path or page.file.src_uri),
        url=page.url,
        markdown=markdown,
    )
    if page.is_homepage:
        page.meta.setdefault("hide", ["navigation", "toc"])
    return markdown


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Collect what the page functions found wrong on this page."""
    if is_root(config):
        return html
    collect_errors()
    if page.present_anchor_ids is not None:
        # MkDocs does not see what page functions wrote: links to a term of the glossary would be called broken.
        page.present_anchor_ids |= set(_ID.findall(html))
    html = break_code_in_cells(keep_formulas_together(html))
    return join_chinese_lines(html) if language(config) == "zh" else html


def break_code_in_cells(html: str) -> str:
    """Let a long name in a table be broken at the signs inside it, not in the middle of a word."""
    return _CELL.sub(lambda cell: _CODE.sub(lambda code: breakable(code.group()), cell.group()), html)


def keep_formulas_together(html: str) -> str:
    """Bind an inline formula to the bracket before it and to the punctuation after it."""

    def bound(match: re.Match[str]) -> str:
        before, _, after = match.groups()
        return f'<span class="ck-together">{match.group()}</span>' if before or after else match.group()

    parts = _PREFORMATTED.split(html)
    parts[::2] = [_BESIDE_FORMULA.sub(bound, part) for part in parts[::2]]
    return "".join(parts)


def join_chinese_lines(html: str) -> str:
    """Take out line breaks between Chinese characters, where the browser would show a space."""
    parts = _PREFORMATTED.split(html)
    parts[::2] = [_CHINESE_BREAK.sub(r"\1\2", part) for part in parts[::2]]
    return "".join(parts)


def collect_errors() -> bool:
    """Take over the errors the page functions left, and say whether there were any."""
    from kitchen.page import state

    found = list(dict.fromkeys(state.errors))
    state.errors.clear()
    _errors.extend(found)
    return bool(found)


def on_env(env: Environment, config: MkDocsConfig, files: Files) -> Environment:
    """All pages are read: fail with every error at once, in plain builds as in strict ones.

    Under `mkdocs serve` a failed build leaves the browser waiting, so there the page shows the error instead.
    """
    if _errors and not _serving:
        raise PluginError("\n".join(_errors))
    for error in _errors:
        log.error("%s", error)
    return env


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Name the theme's search dialog for screen readers; the theme leaves it without a label."""
    if is_root(config):
        return output
    return _SEARCH_DIALOG.sub(rf'\1 aria-label="{_SEARCH_LABEL[language(config)]}"', output, count=1)
