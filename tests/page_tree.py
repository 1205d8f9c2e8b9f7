"""A small results tree for the tests of the page half, and the HTML that a page makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import markdown

from kitchen import page, results, snippet
from kitchen.snippet import digest
from tests.record_files import machine_data, record_data, run_data

Row = dict[str, Any]

SNIPPET = '''# /// script
# requires-python = ">=3.11"
# dependencies = []
#
# [tool.kitchen]
# needs = []
# limit_s = 60
# value = 1
# ///
"""A snippet for tests: columns backend, step_us, code."""


def helper() -> int:
    """Two backticks `` and a fence:

    ```
    """
    return 1


def run():
    return [{"backend": "none", "step_us": 1.0, "code": ""}]
'''

#: The Markdown extensions of the site that look at a page function's output.
EXTENSIONS: list[Any] = [
    "abbr",
    "admonition",
    "attr_list",
    "def_list",
    "footnotes",
    "md_in_html",
    "tables",
    "toc",
    "pymdownx.arithmatex",
    "pymdownx.blocks.tab",
    "pymdownx.details",
    "pymdownx.highlight",
    "pymdownx.inlinehilite",
    "pymdownx.snippets",
    "pymdownx.superfences",
]
CONFIG: dict[str, Any] = {
    "pymdownx.arithmatex": {"generic": True},
    "pymdownx.blocks.tab": {"alternate_style": True},
    "pymdownx.snippets": {"check_paths": True},
}


def backend_row(name: str, **changes: Any) -> Row:
    """A row of overview/four_backends as the snippet writes it, measured and not compiled unless changed."""
    row: Row = {
        "backend": name,
        "call": "model(x)" if name.startswith("none") else f'torch.compile(model, backend="{name}")(x)',
        "status": "ok",
        "note": None,
        "step_us": 100.0,
        "step_q1_us": 99.0,
        "step_q3_us": 101.5,
        "compile_cold_s": 0.0 if name == "none" else 2.0,
        "compile_cold_low_s": 0.0 if name == "none" else 1.9,
        "compile_cold_high_s": 0.0 if name == "none" else 2.25,
        "speedup_ratio": None,
        "speedup_low": None,
        "speedup_high": None,
        "verdict": None,
        "saved_us": None,
        "steps": 10_000,
        "payoff_r": None,
        "break_even": None,
        "break_even_text": None,
        "samples_us": [99.0, 100.0, 101.5],
    }
    return row | changes


def four_backends() -> list[Row]:
    """Rows with a faster, a slower, an equal and an absent back end."""
    nothing = dict.fromkeys(("step_us", "step_q1_us", "step_q3_us", "compile_cold_s"))
    return [
        backend_row("none"),
        backend_row(
            "none_again",
            speedup_ratio=1.002,
            speedup_low=0.99,
            speedup_high=1.012,
            verdict="no difference",
            saved_us=-0.2,
        ),
        backend_row(
            "eager",
            step_us=110.0,
            step_q1_us=108.0,
            step_q3_us=112.0,
            speedup_ratio=0.909,
            speedup_low=0.89,
            speedup_high=0.93,
            verdict="slower",
            saved_us=-10.0,
            payoff_r=-0.05,
            break_even_text="never",
        ),
        backend_row(
            "inductor",
            step_us=80.0,
            step_q1_us=79.0,
            step_q3_us=81.0,
            speedup_ratio=1.25,
            speedup_low=1.22,
            speedup_high=1.29,
            verdict="faster",
            saved_us=20.0,
            payoff_r=0.1,
            break_even=100_000,
        ),
        backend_row("cudagraphs", status="not measured", note="it needs a CUDA device", samples_us=[], **nothing),
    ]


def total_time() -> list[Row]:
    """Points, fits and crossings of two back ends, exactly as the formula has them."""
    rows: list[Row] = []
    for name, compile_s, step_us in (("none", 0.0, 100.0), ("inductor", 2.0, 80.0), ("eager", 0.1, 110.0)):
        rows.append(
            {"kind": "fit", "backend": name, "status": "ok", "note": None, "compile_s": compile_s, "step_us": step_us}
        )
        for steps in (1, 100, 10_000, 1_000_000):
            total = compile_s + steps * step_us * 1e-6
            rows.append(
                {
                    "kind": "point",
                    "backend": name,
                    "status": "ok",
                    "note": None,
                    "steps": steps,
                    "total_s": total,
                    "total_low_s": total * 0.98,
                    "total_high_s": total * 1.02,
                    "predicted_s": total * 1.01,
                }
            )
    ends = {"cheaper_at_start": "none", "status": "ok", "note": None, "kind": "crossing", "other": "none"}
    rows.append(
        {**ends, "backend": "inductor", "crossing_steps": 100_000.4, "how": "measured", "cheaper_later": "inductor"}
    )
    rows.append({**ends, "backend": "eager", "crossing_steps": None, "how": "never", "cheaper_later": "none"})
    rows.append({"kind": "fit", "backend": "cudagraphs", "status": "not measured", "note": "no CUDA"})
    return rows


@dataclass
class Tree:
    """Folders of records and snippets below a test's own folder."""

    root: Path
    runs: dict[str, int] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def snippets(self) -> Path:
        return self.root / "snippets"

    def snippet(self, name: str, text: str = SNIPPET) -> None:
        path = self.snippets / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def machine(self, name: str = "toy-cpu", *, title: str = "Toy CPU", kind: str = "cpu") -> None:
        gpu = {"name": "Toy GPU", "memory_gib": 16.0, "count": 1} if kind == "cuda" else None
        self.write(
            self.results / name / "machine.json",
            machine_data(
                name,
                title=title,
                kind=kind,
                cpu="Toy <b>CPU</b>",
                caches={"L1d_kib": 48, "L3_kib": 32768},
                gpu=gpu,
            ),
        )

    def record(
        self,
        name: str,
        rows: list[Row],
        *,
        machine: str = "toy-cpu",
        status: str = "ok",
        reason: str | None = None,
        day: str = "2026-11-29",
        stale: bool = False,
        torch: str = "2.13.0",
        beside: bool = False,
    ) -> Path:
        """Writes a record (and its run, its machine and its snippet where they are not there yet)."""
        if not (self.results / machine / "machine.json").exists():
            self.machine(machine, title=machine.replace("-", " ").title())
        if not (self.snippets / f"{name}.py").exists():
            self.snippet(name)
        folder = self.results / machine / f"{day}T101112Z-torch{torch.partition('+')[0]}"
        started = f"{day}T10:11:12Z"
        run = run_data(machine, started=started, finished=started, git_commit="0" * 40)
        if torch != "2.13.0":
            run["environment"] |= {"torch": torch}
        self.write(folder / "run.json", run | ({"beside": True} if beside else {}))
        path = folder / f"{name}.json"
        self.write(
            path,
            record_data(
                name,
                sha256="0" * 64 if stale else digest((self.snippets / f"{name}.py").read_bytes()),
                status=status,
                reason=reason,
                started=started,
                rows=rows,
            ),
        )
        return path

    @staticmethod
    def write(path: Path, content: dict[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), "utf-8")


def use(tree: Tree, monkeypatch: Any, *, language: str = "en", url: str = "overview/") -> None:
    """Points the page functions at the tree and starts a page."""
    monkeypatch.setattr(results, "RESULTS", tree.results)
    monkeypatch.setattr(snippet, "SNIPPETS", tree.snippets)
    monkeypatch.delenv("KITCHEN_LIVE", raising=False)
    tree.snippets.mkdir(parents=True, exist_ok=True)
    page.state.errors.clear()
    page.state.begin(language=language, source=tree.root / "page.md", url=url, markdown="")


# ---- reading the HTML ----------------------------------------------------------------------------------------

_VOID = {"br", "wbr", "img", "input", "hr", "meta", "link", "path", "line"}


@dataclass
class Element:
    """An HTML element with its children and texts in order."""

    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def walk(self) -> Iterator[Element]:
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child.walk()

    def all(self, tag: str, css: str | None = None) -> list[Element]:
        """Every descendant with this tag (and class)."""
        return [
            e for e in self.walk() if e.tag == tag and (css is None or css in e.attributes.get("class", "").split())
        ]

    def one(self, tag: str, css: str | None = None) -> Element:
        found = self.all(tag, css)
        assert len(found) == 1, f"{len(found)} elements {tag}.{css}"
        return found[0]


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.stack = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {key: value or "" for key, value in attrs})
        self.stack[-1].children.append(element)
        if tag not in _VOID:
            self.stack.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.stack[-1].children.append(Element(tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        assert self.stack[-1].tag == tag, f"</{tag}> closes <{self.stack[-1].tag}>"
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        self.stack[-1].children.append(data)


def parse(html: str) -> Element:
    """The HTML as a tree; an element that is not closed in order is a failure."""
    builder = _Builder()
    builder.feed(html)
    builder.close()
    assert len(builder.stack) == 1, f"never closed: {[e.tag for e in builder.stack[1:]]}"
    return builder.stack[0]


def render(text: str) -> Element:
    """A page function's Markdown, between two paragraphs of prose, through the site's extensions."""
    html = markdown.markdown(f"Before.\n\n{text}\n\nAfter.", extensions=EXTENSIONS, extension_configs=CONFIG)
    tree = parse(html)
    paragraphs = [p.text for p in tree.all("p")]
    assert paragraphs[0] == "Before."
    assert paragraphs[-1] == "After.", "the output ran into what follows it"
    return tree


def tabs(tree: Element) -> list[str]:
    """The titles of the content tabs."""
    return [label.text for box in tree.all("div", "tabbed-labels") for label in box.all("label")]


def cells(table: Element) -> list[list[str]]:
    """The texts of a table's body, row by row."""
    return [[cell.text for cell in row.children if isinstance(cell, Element)] for row in table.one("tbody").all("tr")]
