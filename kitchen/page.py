"""What the pages call. Each function returns Markdown in the page's language, made from the records.

In a page, a fence calls one function and prints what it returns::

    ```python exec="on"
    from kitchen.page import table
    print(table("overview/four_backends", columns=["backend", "step_us"]))
    ```

In a notebook, where fences do not run, a Markdown cell holds ``<div data-kitchen='table overview/python_demo'></div>``
and the site's hook puts ``render_html(call("table overview/python_demo"))`` in its place.

An unknown snippet, column, row, rule or formula raises :class:`PageError` and adds one line,
``docs/en/overview/index.md:42: …``, to ``state.errors``; the hook fails the build on it. With ``KITCHEN_LIVE=1``
a snippet is run here once before it is first shown.

Source of the layout (content tabs): https://facelessuser.github.io/pymdown-extensions/extensions/blocks/plugins/tab/
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from kitchen import (
    blocks,
    calls,
    charts,
    excerpts,
    formulas,
    groups,
    inventory,
    live,
    locate,
    memory,
    tables,
    tools,
    verdicts,
)
from kitchen import chooser as chooser_data
from kitchen import claims as facts
from kitchen import glossary as glossary_data
from kitchen import matrix as matrices
from kitchen import problems as catalogue
from kitchen import verdicts_mixing as _  # noqa: F401  (importing it adds its rules)
from kitchen import versions as version_tables
from kitchen.context import PageError, State, state

__all__ = [
    "PageError",
    "State",
    "call",
    "chart",
    "claim",
    "claims",
    "example",
    "formula",
    "glossary",
    "machines",
    "matrix",
    "problem",
    "problems",
    "provenance",
    "render_html",
    "rules",
    "source",
    "state",
    "table",
    "terms",
    "text",
    "tool",
    "value",
    "verdict",
    "versions",
]

Where = dict[str, Any]
P = ParamSpec("P")
FUNCTIONS: dict[str, Callable[..., str]] = {}


def _page_function(function: Callable[P, str]) -> Callable[P, str]:
    """Makes a fault name the page and line of the call, and offers the function to ``call``."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> str:
        locate.note(state)
        try:
            if memory.on and function.__name__ in memory.FUNCTIONS:
                return memory.recall(state, function, args, kwargs)
            return function(*args, **kwargs)
        except PageError as error:
            if error.placed:  # an inner page function, called through call(), has named the place
                raise
            message = locate.prefixed(state, str(error))
            state.errors.append(message)
            raise PageError(message, placed=True) from None

    FUNCTIONS[function.__name__] = wrapped
    return wrapped


def _ensure(name: str) -> None:
    for one in groups.names(name) if groups.is_pattern(name) else [name]:
        live.ensure(one)


@_page_function
def table(
    snippet: str,
    *,
    columns: list[str] | None = None,
    where: Where | None = None,
    sort: str | None = None,
    caption: str | None = None,
) -> str:
    """A table of a snippet's rows, in content tabs, one a machine, each with its provenance line.

    ``columns``: which, in this order (default: every column but samples and the ends of spreads). The first is the
    row header. A column that has a spread in labels.toml shows it under the number.
    ``snippet`` may be a pattern, ``"models/*"``: then the rows of all its snippets stand in one table.
    ``where={"kind": "point", "n": [1, 10]}`` keeps the rows with these values. ``sort="step_us"`` ascending,
    ``sort="-step_us"`` descending. ``caption``: a sentence above the table, in the page's language. Rows that are
    not ok keep their place and say why.
    """
    _ensure(snippet)
    return tables.table(state, snippet, columns=columns, where=where, sort=sort, caption=caption)


@_page_function
def chart(
    snippet: str,
    kind: str,
    *,
    x: str,
    y: str,
    by: str | None = None,
    low: str | None = None,
    high: str | None = None,
    where: Where | None = None,
    title: str | None = None,
    log: bool = False,
    crossings: str | None = None,
    fit: tuple[str, str] | None = None,
    reference: float | None = None,
) -> str:
    """An inline SVG in content tabs, one a machine, with its values as a table to open below it.

    ``kind``:

    - ``"bars"``: horizontal bars; ``x`` the category column, ``y`` the number, whiskers from ``low`` to ``high``
      (default: the spread of ``y`` in labels.toml); ``log=True`` for dots on a logarithmic axis, where bars would
      have no zero; ``reference=1`` draws a line at that value.
    - ``"lines"`` / ``"loglog"``: ``x`` and ``y`` numbers, one line for each value of ``by``, a band from ``low`` to
      ``high``; ``crossings="crossing_steps"`` marks where lines cross (a column of the rows with ``kind`` crossing).
    - ``"fit"``: points with whiskers and a straight line for each value of ``by``; ``fit=("slope_us",
      "intercept_us")`` names the columns of the rows with ``kind`` fit.

    - ``"totals"``: for a record of the comparison tool, the total time of each variant over 1 to 10 million steps, as
      ``"loglog"``; ``x="steps"``, ``y="total_cold_s"`` or ``"total_warm_s"``, ``by="variant"``; break-even marked.

    ``title``: the caption, in the page's language (default: made from the labels).
    """
    live.ensure(snippet)
    return charts.chart(
        state, snippet, kind, x=x, y=y, by=by, low=low, high=high, where=where, title=title, log=log,
        crossings=crossings, fit=fit, reference=reference,
    )  # fmt: skip


@_page_function
def matrix(
    snippets: str,
    *,
    rows: str,
    across: str,
    cell: str,
    where: Where | None = None,
    leave_out: tuple[str, ...] = ("eager", "eager again"),
    caption: str | None = None,
) -> str:
    """One value of many records as a matrix, in content tabs, one a machine, with its provenance line.

    ``snippets``: a pattern, ``"models/*"``. A line for each value of the column ``rows``, a column for each value of
    ``across`` but those in ``leave_out``; the cell is the column ``cell`` with its spread and the row's verdict as mark
    and colour. ``where`` must leave one row for each cell.
    """
    _ensure(snippets)
    return matrices.matrix(
        state, snippets, rows=rows, across=across, cell=cell, where=where, leave_out=leave_out, caption=caption
    )


@_page_function
def versions(
    snippets: str,
    *,
    rows: str | list[str],
    cell: str,
    where: Where | None = None,
    caption: str | None = None,
) -> str:
    """One value of a snippet's records on several versions of torch, side by side, in content tabs, one a machine.

    ``snippets``: a name or a pattern. A line for each value of the column or columns ``rows``, a column for each
    version of torch that has a record of today's text of the snippet; ``where`` must leave one row for each cell.
    """
    return version_tables.versions(state, snippets, rows=rows, cell=cell, where=where, caption=caption)


@_page_function
def problem(name: str) -> str:
    """A problem of kitchen/problems/*.toml: whether this torch has it, message, what was run, code, sources."""
    return catalogue.problem(state, name)


@_page_function
def problems(by: str, value: str | None = None) -> str:
    """A list of links to problems: ``problems("message")``, ``problems("symptom", "slower")``,
    ``problems("layer", "dynamo")``; ``problems("tally")`` counts them by version of torch, ``problems("changed")`` is a
    table of those that behave otherwise on another version."""
    return catalogue.problems(state, by, value)


@_page_function
def claim(name: str) -> str:
    """A claim of kitchen/claims/*.toml: the verdict, the cases it follows from, who says so, the code, the sources."""
    return facts.claim(state, name)


@_page_function
def claims(page: str) -> str:
    """The claims of kitchen/claims/<page>.toml as a table: number, claim, verdict."""
    return facts.claims(state, page)


@_page_function
def text(snippet: str, column: str, *, where: Where | None = None, language: str | None = None) -> str:
    """A string of one row (generated code, a graph, an error), highlighted, one tab a machine.

    ``language``: a short name of Pygments (default: what the row's ``language`` says, else ``cpp``).
    """
    live.ensure(snippet)
    return excerpts.text(state, snippet, column, where=where, language=language)


@_page_function
def source(snippet: str, *functions: str) -> str:
    """The source of the named functions, classes and tables of a snippet (none: all of it), with a link to the file."""
    return excerpts.source(state, snippet, functions)


@_page_function
def example(path: str) -> str:
    """A file of a project below examples/, ``"kitchen-numpy-backend/pyproject.toml"``, as it is, with a link to it."""
    return excerpts.example(state, path)


@_page_function
def verdict(snippet: str, *rules: str, **params: Any) -> str:
    """Sentences computed from the record, a paragraph a rule, one tab a machine.

    Rules (``kitchen/verdicts.py``) with their parameters: ``fastest_step``, ``noise``, ``break_even``,
    ``pays_for`` (``steps=10000``), ``crossing``, ``launch_cost``, ``fusion_speedup`` (``n=10``,
    ``place="L2"``; both optional), ``does_formula_hold``; for rows of the comparison tool ``pick`` (``start="warm"``,
    ``workload="inference"``) and ``tally`` (``workload``), which takes a pattern of snippets, ``"models/*"``.
    """
    _ensure(snippet)
    return verdicts.verdict(state, snippet, rules, params)


@_page_function
def value(snippet: str, column: str, *, where: Where | None = None, machine: str | None = None) -> str:
    """One number with its unit, for the middle of a sentence; its tooltip names machine and date.

    ``machine``: its name (default: the first machine of the tabs that has the number). A number that was not
    measured is "not measured", never an error; a row or column that no record has is one.
    """
    live.ensure(snippet)
    return excerpts.value(state, snippet, column, where=where, machine=machine)


@_page_function
def formula(name: str) -> str:
    r"""A formula of kitchen/formulas.toml as a display block ``\[ … \]`` whose terms light up with their rows."""
    return formulas.formula(state, name)


@_page_function
def terms(formula: str) -> str:
    """The terms of a formula: symbol, meaning, unit, where it is measured, and its value on each machine (tabs)."""
    for name in formulas.snippets_of(formula):
        live.ensure(name)
    return formulas.terms(state, formula)


@_page_function
def provenance(snippet: str) -> str:
    """Who measured a snippet, when, with what, and how to repeat it; one tab a machine."""
    live.ensure(snippet)
    return blocks.provenance_block(state, snippet)


@_page_function
def machines() -> str:
    """Every machine recorded: its environment, its runs with their dates, and links to the JSON."""
    return inventory.machines(state)


@_page_function
def tool(name: str) -> str:
    """An interactive tool of kitchen/tools, drawn by the page's script from data made of the records."""
    return tools.render(state, name)


@_page_function
def rules() -> str:
    """The rules of the back end chooser in their order (kitchen/chooser.toml); its script marks the one taken."""
    return chooser_data.rules_list(state)


@_page_function
def glossary() -> str:
    """The terms of docs/terms.toml in the page's language, with the term in the other one."""
    return glossary_data.glossary(state)


@_page_function
def _run_call(spec: str) -> str:
    return calls.run(spec, FUNCTIONS)


def call(spec: str) -> str:
    """One call as text, for a notebook: ``table overview/python_demo columns=backend,step_ms where=kind:step``."""
    state.spec = spec
    try:
        return _run_call(spec)
    finally:
        state.spec = None


def render_html(markdown: str) -> str:
    """What a page function returned, as HTML, for a place where Markdown is not converted (a notebook)."""
    return calls.render_html(markdown, state)
