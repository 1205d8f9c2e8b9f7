"""Pieces of a record or a snippet that stand in a page as they are: generated code, source text, one number."""

from __future__ import annotations

import ast
from functools import lru_cache

from pygments import highlight  # type: ignore[import-untyped,unused-ignore]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped,unused-ignore]
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped,unused-ignore]
from pygments.util import ClassNotFound  # type: ignore[import-untyped,unused-ignore]

from kitchen import blocks, data, labels
from kitchen.context import ROOT, PageError, State, did_you_mean
from kitchen.data import Row, View, Where
from kitchen.format import count, escape, escape_inline, number, quantity, scientific, with_unit

#: A text longer than this is cut, with a word about it: the record has the rest.
MAX_CHARACTERS = 60_000
#: Whole projects that pages show: each is a folder that a reader can copy.
EXAMPLES = ROOT / "examples"
#: A listing of more lines than this scrolls in a box of its own, so that the page stays readable.
LONG_LINES = 40


def code_block(state: State, code: str, language: str) -> str:
    """Highlighted code as one raw HTML block; a long one is a region that scrolls, by keyboard too.

    Not a Markdown fence: code of a record may hold a fence of any length, a tab's ``///`` or an include mark,
    and as HTML none of them is looked at. PageError where Pygments does not know ``language``.
    """
    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        raise PageError(f"no highlighter for language {language!r}; there are cpp, python, text and more") from None
    marked: str = highlight(code.strip("\n") + "\n", lexer, HtmlFormatter(nowrap=True))
    # Markdown looks for fences and includes before it sees that a block is HTML.
    marked = marked.rstrip("\n").replace("`", "&#96;").replace("~", "&#126;").replace("--8", "-&#45;8")
    # A span that crosses lines would be cut by a reader that goes line by line; blank lines are kept by an entity.
    lines = [line if line.strip() else "&#8203;" for line in marked.split("\n")]
    body = "\n".join(lines)
    long, region = "", ""
    if len(lines) > LONG_LINES:
        words = labels.message("long_code", state.language, lines=str(len(lines)))
        long, region = " ck-long", f' tabindex="0" role="region" aria-label="{escape(words)}"'
    opening = f'<div class="language-{escape(language)} highlight{long}"><pre{region}>'
    return f"{opening}<span></span><code>{body}\n</code></pre></div>"


def text(state: State, name: str, column: str, *, where: Where | None, language: str | None) -> str:
    """See kitchen.page.text."""
    shown = data.views(name)
    data.check_columns(name, shown, [column])
    data.check_where(name, shown, where)

    def body(view: View) -> str:
        rows = data.select(view.record.rows, where)
        found: Row | None = next((row for row in rows if isinstance(row.get(column), str)), None)
        if found is None:
            lost = next((row for row in rows if not data.row_ok(row)), None)
            if lost is None:
                return f'<p class="ck-missing">{labels.message("no_such_row", state.language)}</p>'
            reason = labels.sentence(labels.note(str(lost.get("note") or ""), state.language), state.language)
            return (
                f'<p class="ck-missing">{blocks.status_badge(str(lost["status"]), state.language)} {escape(reason)}</p>'
            )
        code = str(found[column])
        cut = len(code) > MAX_CHARACTERS
        block = code_block(state, code[:MAX_CHARACTERS], language or str(found.get("language") or "cpp"))
        return block + (f'\n\n<p class="muted">{labels.message("text_cut", state.language)}</p>' if cut else "")

    return blocks.per_machine(state, name, shown, body)


@lru_cache(maxsize=64)
def _parsed(code: str) -> ast.Module:
    return ast.parse(code)


def source(state: State, name: str, functions: tuple[str, ...]) -> str:
    """See kitchen.page.source."""
    found = data.snippet(name)
    code = found.path.read_text("utf-8")
    if functions:
        tree = _parsed(code)
        nodes: dict[str, ast.stmt] = {name: node for node in tree.body for name in names_of(node)}
        parts = []
        lines = code.splitlines()
        for function in functions:
            if function not in nodes:
                raise PageError(f"{name!r} has no function {function!r}{did_you_mean(function, nodes)}")
            node = nodes[function]
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *(d.lineno for d in decorators)])
            while not decorators and lines[first - 2].startswith("#: "):  # what a table says about itself
                first -= 1
            parts.append("\n".join(lines[first - 1 : node.end_lineno]))
        code = "\n\n\n".join(parts)
    file = f"{name}.py"
    words = labels.message("source_link", state.language, file=f"<code>{escape(file)}</code>")
    link = f'<p class="ck-provenance"><a href="{blocks.snippet_url(state, name)}" download>{words}</a></p>'
    return f"\n{code_block(state, code, 'python')}\n\n{link}\n"


def names_of(node: ast.stmt) -> list[str]:
    """What a statement at the top of a file defines: a function, a class, or a name that is given a value."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def example(state: State, name: str) -> str:
    """See kitchen.page.example."""
    files = {path.relative_to(EXAMPLES).as_posix(): path for path in EXAMPLES.rglob("*") if path.is_file()}
    if name not in files:
        raise PageError(f"examples/ has no file {name!r}{did_you_mean(name, files)}")
    path = files[name]
    language = {".py": "python", ".md": "markdown"}.get(path.suffix) or path.suffix[1:]
    words = labels.message("source_link", state.language, file=f"<code>{escape(name)}</code>")
    link = f'<p class="ck-provenance"><a href="{state.root_url}examples/{escape(name)}" download>{words}</a></p>'
    return f"\n{code_block(state, path.read_text('utf-8'), language)}\n\n{link}\n"


def inline_number(column: labels.Column, value: float) -> str:
    """One number with its unit."""
    if column.format == "scientific":
        return scientific(value)
    if column.format == "count":
        return with_unit(count(value), column.unit)
    if column.format == "integer":
        return with_unit(number(round(value)), column.unit)
    return quantity(value if isinstance(value, int) else float(value), column.unit)


def value(state: State, name: str, column: str, *, where: Where | None, machine: str | None) -> str:
    """See kitchen.page.value."""
    shown = data.views(name)
    data.check_columns(name, shown, [column])
    data.check_where(name, shown, where)
    if machine is not None:
        known = data.machines()
        if machine not in known:
            raise PageError(f"unknown machine {machine!r}{did_you_mean(machine, known)}")
        shown = [view for view in shown if view.machine.name == machine]
    words = labels.column(column, state.language, name)
    for view in shown:
        for row in data.select(view.record.rows, where) if view.ok else []:
            got = row.get(column)
            if got is None or not data.row_ok(row):
                continue
            numeric = data.numeric(got)
            if numeric is not None:
                content = escape_inline(inline_number(words, numeric))
            elif isinstance(got, str):
                content = escape_inline(labels.text_value(column, got, state.language))
            else:
                raise PageError(f"column {column!r} of {name!r} has no single value to show")
            title = labels.message(
                "value_title", state.language, machine=escape_inline(view.machine.title), date=blocks.date_of(view)
            )
            return f'<span class="ck-value" title="{title}">{content}</span>'
    return f'<span class="ck-value muted">{labels.message("not_measured", state.language)}</span>'
