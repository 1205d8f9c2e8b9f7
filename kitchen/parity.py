"""Compare the English and the Chinese tree of pages, and hold both to the glossary.

Two languages drift apart silently: a heading added in one, a table one row short, a link that points
elsewhere. This module compares what must be equal (files, heading levels and ids, fences, links, tables,
admonitions, formulas, notebook cells, front matter keys, navigation) and leaves the prose alone. It also
checks words against `docs/terms.toml` and, in Chinese, punctuation and the space between Chinese and Latin
characters.

Run `python -m kitchen.parity`: it prints one finding a line (`docs/zh/menu.md:12: …`) and exits 1 if there
are any.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mkdocs.utils.yaml import yaml_load

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = ("en", "zh")

# Keyword arguments of page functions whose value is text for the reader, and so differs by language.
READER_TEXT = {"caption", "title", "label", "alt", "x_title", "y_title"}

HEADING = re.compile(r"^(#{1,6})\s+(.*?)(?:\s*\{:?\s*([^}]*)\})?\s*$")
FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*(.*?)\s*$")
ADMONITION = re.compile(r"^\s*(!!!|\?\?\?\+?|===\+?!?)\s*([\w -]*)")
BLOCK = re.compile(r"^\s*/{3,}\s*([\w-]+)")
LINK = re.compile(r"(!?)\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^\s)>]+)>?[^)]*\)")
REFERENCE = re.compile(r"^\s*\[[^\]^]+\]:\s*(\S+)")
HTML_TARGET = re.compile(r"""\b(href|src)\s*=\s*["']([^"']*)["']""")
HTML_ID = re.compile(r"""\bid\s*=\s*["']([^"']+)["']""")
HTML_CLASS = re.compile(r"""\b(?:class|data-kitchen)\s*=\s*["']([^"']*)["']""")
ATTRIBUTE_CLASS = re.compile(r"\{:?[^}\n]*?((?:\s*\.[\w-]+)+)[^}\n]*\}")
MATH = re.compile(r"(?<![\\$])(\$\$?)(?!\s)(.+?)(?<!\s)\1(?!\$)|\\\((.+?)\\\)|\\\[(.+?)\\\]")
TABLE_RULE = re.compile(r"^\s*\|?\s*:?-{3,}:?\s*(\|\s*:?-{3,}:?\s*)*\|?\s*$")

CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
HALF_PUNCTUATION = re.compile(rf"[{CJK}][,;:!?](?=[\s{CJK}]|$)|[{CJK}]\.(?=[\s{CJK}]|$)|[\]`][,;:!?]\s*(?=[{CJK}])")
HALF_BRACKET = re.compile(rf"[{CJK}]\s?\([^()]*[{CJK}]|\([^()]*[{CJK}][^()]*\)")
NO_SPACE = re.compile(rf"[{CJK}][A-Za-z0-9`]|[A-Za-z0-9%`][{CJK}]")
# U+2502 stands for the edge of a table cell, where spaces are right.
SPACE_AT_FULL_WIDTH = re.compile(r"[，。；：！？、）》][ \t]+(?=[^\s\u2502])|[^\s\u2502][ \t]+[，。；：！？、）》]")


@dataclass(frozen=True)
class Part:
    """One thing that both languages must have: what it is in words, and the line it stands on (from 1)."""

    what: str
    line: int


@dataclass
class Page:
    """What a page is made of, prose left out. Lists are in reading order; links are by section."""

    front: list[str] = field(default_factory=list)
    headings: list[Part] = field(default_factory=list)
    fences: list[Part] = field(default_factory=list)
    tables: list[Part] = field(default_factory=list)
    blocks: list[Part] = field(default_factory=list)
    html: list[Part] = field(default_factory=list)
    cells: list[Part] = field(default_factory=list)
    links: dict[str, list[Part]] = field(default_factory=dict)
    math: list[Part] = field(default_factory=list)
    prose: list[Part] = field(default_factory=list)
    faults: list[Part] = field(default_factory=list)


@dataclass(frozen=True)
class Term:
    """One entry of the glossary: the preferred term and the words to avoid, by language."""

    id: str
    preferred: dict[str, str]
    avoid: dict[str, tuple[str, ...]]


def load_terms(path: Path) -> list[Term]:
    """Read the glossary.

    Raises:
        ValueError: a term lacks a field or an id stands twice; the message names it.
    """
    terms = []
    seen: set[str] = set()
    for entry in tomllib.loads(path.read_text("utf-8")).get("term", []):
        name = entry.get("id", "?")
        missing = [key for key in ("id", "en", "zh", "en_text", "zh_text") if not entry.get(key)]
        if missing:
            raise ValueError(f"{path.name}: term {name!r} lacks {', '.join(missing)}")
        if name in seen:
            raise ValueError(f"{path.name}: term {name!r} stands twice")
        seen.add(name)
        terms.append(
            Term(
                name,
                {language: entry[language] for language in LANGUAGES},
                {language: tuple(entry.get(f"avoid_{language}", ())) for language in LANGUAGES},
            )
        )
    return terms


def code_key(info: str, body: str) -> str:
    """Reduce a fence to what must be equal: info string, and code without comments and reader's text."""
    language = info.split()[0].strip("{}.") if info else ""
    if language in {"python", "py", "pycon"}:
        try:
            tree = ast.parse(body)
        except SyntaxError:
            pass
        else:
            for node in ast.walk(tree):
                if isinstance(node, ast.keyword) and node.arg in READER_TEXT:
                    node.value = ast.Constant("…")
            return f"{info}\n{ast.unparse(tree)}"
    lines = (re.sub(r"(^|\s)#.*$", "", line).rstrip() for line in body.splitlines())
    return info + "\n" + "\n".join(line for line in lines if line)


def _strip_inline(text: str) -> str:
    """Blank out what is not prose: inline code, formulas, HTML tags, link targets, attribute lists."""
    text = re.sub(r"(`+)(.+?)\1", "`…`", text)
    text = MATH.sub("`…`", text)
    text = re.sub(r"<!--.*?-->|</?[A-Za-z][^>]*>", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"\{:?[^}\n]*[#.=][^}\n]*\}", "", text)
    return re.sub(r"https?://\S+", "", text)


def _cells(line: str) -> int:
    """Number of cells of a Markdown table row."""
    bare = re.sub(r"`[^`]*`", "", line).replace(r"\|", "").strip()
    return bare.strip("|").count("|") + 1


def parse(text: str, first_line: int = 1, page: Page | None = None, heading: str = "") -> Page:
    """Read the structure of Markdown `text`, whose first line is number `first_line` of its file."""
    page = page or Page()
    lines = text.splitlines()
    index = 0
    if first_line == 1 and lines and lines[0].strip() == "---":
        end = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
        if end is not None:
            page.front = sorted(yaml_load("\n".join(lines[1:end])))
            for i in range(1, end):
                page.prose.append(Part(lines[i].partition(":")[2] or lines[i], first_line + i))
            index = end + 1
    page.links.setdefault(heading, [])
    while index < len(lines):
        line, number = lines[index], first_line + index
        fence = FENCE.match(line)
        if fence:
            indent, mark, info = fence.groups()
            body: list[str] = []
            index += 1
            while index < len(lines) and not re.match(rf"^\s*{mark[0]}{{{len(mark)},}}\s*$", lines[index]):
                body.append(lines[index].removeprefix(indent))
                index += 1
            page.fences.append(Part(code_key(info, "\n".join(body)), number))
            index += 1
            continue
        found = HEADING.match(line)
        if found:
            hashes, words, attributes = found.groups()
            anchor = re.search(r"#([\w-]+)", attributes or "") or HTML_ID.search(words)
            if anchor is None:
                page.faults.append(Part(f"heading {words!r} has no explicit id: add {{#…}}", number))
            heading = anchor[1] if anchor else words
            page.headings.append(Part(f"{hashes} {{#{anchor[1] if anchor else ''}}}", number))
            page.links.setdefault(heading, [])
        if index + 1 < len(lines) and "|" in line and TABLE_RULE.match(lines[index + 1]):
            rows = index
            while rows < len(lines) and "|" in lines[rows]:
                rows += 1
            page.tables.append(Part(f"table of {rows - index - 1} rows × {_cells(line)} columns", number))
            for i in range(index, rows):
                if i != index + 1:
                    _read_line(page, lines[i], first_line + i, heading)
            index = rows
            continue
        _read_line(page, line, number, heading)
        index += 1
    return page


def _read_line(page: Page, line: str, number: int, heading: str) -> None:
    """Collect links, admonitions, HTML classes, formulas and prose of one line outside fences."""
    admonition = ADMONITION.match(line)
    if admonition:
        # A kind may be followed by classes; the title in quotes is the reader's.
        page.blocks.append(Part(f"{admonition[1]} {admonition[2].strip()}".strip(), number))
    block = BLOCK.match(line)
    if block:
        page.blocks.append(Part(f"/// {block[1]}", number))
    bare = re.sub(r"(`+)(.+?)\1", "", line)
    for bang, target in LINK.findall(bare):
        page.links[heading].append(Part(f"{'image' if bang else 'link'} {target}", number))
    for target in REFERENCE.findall(bare):
        page.links[heading].append(Part(f"link {target}", number))
    for kind, target in HTML_TARGET.findall(bare):
        page.links[heading].append(Part(f"{kind} {target}", number))
    page.html += [Part(f"class {value}", number) for value in HTML_CLASS.findall(bare)]
    page.html += [Part(f"id {value}", number) for value in HTML_ID.findall(bare)]
    page.html += [Part(f"class {' '.join(value.split())}", number) for value in ATTRIBUTE_CLASS.findall(bare)]
    for found in MATH.finditer(bare):
        page.math.append(Part(f"formula {found[0]}", number))
    page.prose.append(Part(line, number))


def parse_notebook(text: str) -> Page:
    """Read a notebook: cell kinds, exact code, no stored outputs, and the Markdown of its cells.

    Line numbers count cells from 1, for a notebook has no useful lines.
    """
    page = Page()
    heading = ""
    for number, cell in enumerate(json.loads(text)["cells"], 1):
        source = "".join(cell["source"])
        kind = cell["cell_type"]
        if kind == "code":
            page.cells.append(Part(f"code cell\n{source}", number))
            if cell.get("outputs") or cell.get("execution_count") is not None:
                page.faults.append(Part("a code cell holds outputs or an execution count: clear it", number))
        else:
            page.cells.append(Part(f"{kind} cell", number))
            part = parse(source, 2)
            for name in ("headings", "fences", "tables", "blocks", "html", "math", "prose"):
                getattr(page, name).extend(Part(item.what, number) for item in getattr(part, name))
            for section, links in part.links.items():
                page.links.setdefault(section or heading, []).extend(Part(i.what, number) for i in links)
            # In a notebook an anchor stands in the heading as HTML.
            page.faults += [Part(item.what, number) for item in part.faults]
            heading = list(part.links)[-1] or heading
    return page


def _ordered(kind: str, left: Sequence[Part], right: Sequence[Part]) -> Iterator[tuple[int, str]]:
    """First difference of two ordered lists, as (line on the right, message); one is enough."""
    for one, other in zip(left, right, strict=False):
        if one.what != other.what:
            mine, theirs = other.what, one.what
            if "\n" in mine + theirs:
                mine, theirs = _first_difference(mine, theirs)
            yield other.line, f"{kind}: {mine!r} here, {theirs!r} in English (line {one.line})"
            return
    if len(left) > len(right):
        missing = left[len(right)]
        yield (
            (right[-1].line if right else 1),
            (f"{kind}: {missing.what.splitlines()[0]!r} of English line {missing.line} is missing"),
        )
    elif len(right) > len(left):
        yield right[len(left)].line, f"{kind}: {right[len(left)].what.splitlines()[0]!r} is not in English"


def _first_difference(mine: str, theirs: str) -> tuple[str, str]:
    """First lines that differ of two texts, so that a message stays short."""
    left, right = mine.splitlines(), theirs.splitlines()
    for one, other in zip(left, right, strict=False):
        if one != other:
            return one, other
    longer = left[len(right) :] or right[len(left) :]
    return (longer[0], "") if len(left) > len(right) else ("", longer[0])


def _unordered(kind: str, left: Sequence[Part], right: Sequence[Part]) -> Iterator[tuple[int, str]]:
    """Differences of two collections whose order is the sentence's business."""
    ours, theirs = Counter(part.what for part in right), Counter(part.what for part in left)
    for what in theirs - ours:
        line = next(part.line for part in left if part.what == what)
        yield (right[0].line if right else 1), f"{kind}: {what!r} of English line {line} is missing"
    for what in ours - theirs:
        line = next(part.line for part in right if part.what == what)
        yield line, f"{kind}: {what!r} is not in English"


def compare(english: Page, chinese: Page) -> list[tuple[int, str]]:
    """All structural differences, as (line of the Chinese page, message)."""
    found: list[tuple[int, str]] = []
    if english.front != chinese.front:
        found.append((1, f"front matter keys: {chinese.front} here, {english.front} in English"))
    ordered: list[tuple[str, Callable[[Page], list[Part]]]] = [
        ("heading", lambda page: page.headings),
        ("fence", lambda page: page.fences),
        ("table", lambda page: page.tables),
        ("block", lambda page: page.blocks),
        ("HTML", lambda page: page.html),
        ("cell", lambda page: page.cells),
    ]
    for kind, get in ordered:
        found += _ordered(kind, get(english), get(chinese))
    for section, links in english.links.items():
        if section in chinese.links:  # a section that is missing is already a finding
            found += _unordered("link", links, chinese.links[section])
    found += _unordered("formula", english.math, chinese.math)
    return found


def check_terms(page: Page, language: str, terms: Sequence[Term]) -> list[tuple[int, str]]:
    """Words of the prose that the glossary says to avoid."""
    found = []
    for part in page.prose:
        text = _strip_inline(part.what)
        for term in terms:
            for word in term.avoid[language]:
                pattern = re.escape(word) if language == "zh" else rf"(?<![\w-]){re.escape(word)}(?![\w-])"
                if re.search(pattern, text, re.IGNORECASE):
                    found.append((part.line, f"{word!r}: the glossary prefers {term.preferred[language]!r}"))
    return found


def check_chinese(page: Page) -> list[tuple[int, str]]:
    """Punctuation and spacing of Chinese prose."""
    rules = (
        (HALF_PUNCTUATION, "half-width punctuation after Chinese: use full width"),
        (HALF_BRACKET, "half-width brackets around Chinese: use （）"),
        (NO_SPACE, "no space between Chinese and Latin characters"),
        (SPACE_AT_FULL_WIDTH, "a space beside full-width punctuation"),
    )
    found = []
    for part in page.prose:
        text = _strip_inline(part.what)
        text = re.sub(r"^[\s>|#*+-]+|[*_]{1,3}", "", text).replace("|", "\u2502")
        for pattern, message in rules:
            for hit in pattern.finditer(text):
                if "\u2502" in hit[0]:
                    continue  # the edge of a table cell
                around = text[max(0, hit.start() - 8) : hit.end() + 8].strip()
                found.append((part.line, f"{message}: “{around}”"))
    return found


def check_imports(page: Page) -> list[tuple[int, str]]:
    """Fences that run import `kitchen.page` and nothing else, and print what it returns."""
    found = []
    for part in page.fences:
        info, _, body = part.what.partition("\n")
        if "exec=" not in info:
            continue
        tree = ast.parse(body)
        calls = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        if "print" not in calls:
            found.append((part.line, "a fence that runs prints nothing: print(…) what kitchen.page returns"))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            found += [
                (part.line, f"a page imports {name!r}: pages call only kitchen.page")
                for name in names
                if name != "kitchen.page"
            ]
    return found


def nav(path: Path) -> list[str]:
    """Targets of the navigation in order, indented by depth; titles are the language's own."""

    def walk(items: Sequence[Any], depth: int) -> Iterator[str]:
        for item in items:
            value = next(iter(item.values())) if isinstance(item, dict) else item
            if isinstance(value, list):
                yield "  " * depth + "section"
                yield from walk(value, depth + 1)
            else:
                yield "  " * depth + str(value)

    with path.open("rb") as file:  # an open file, so that INHERIT is followed
        return list(walk(yaml_load(file).get("nav") or [], 0))


def _files(folder: Path) -> dict[str, Path]:
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }


def _read(path: Path) -> Page:
    text = path.read_text("utf-8")
    return parse_notebook(text) if path.suffix == ".ipynb" else parse(text)


def findings(root: Path = ROOT) -> list[str]:
    """Every finding about the pages under `root`, as `path:line: message`, sorted by file.

    Raises:
        ValueError: the glossary is not well formed.
    """
    docs = root / "docs"
    terms = load_terms(docs / "terms.toml")
    trees = {language: _files(docs / language) for language in LANGUAGES}
    out: list[str] = []

    def report(language: str, name: str, items: Sequence[tuple[int, str]]) -> None:
        out.extend(f"docs/{language}/{name}:{line}: {message}" for line, message in items)

    for language, other in (LANGUAGES, LANGUAGES[::-1]):
        for name in trees[language].keys() - trees[other].keys():
            report(language, name, [(1, f"there is no docs/{other}/{name}")])
    pages: dict[tuple[str, str], Page] = {}
    for language in LANGUAGES:
        for name, path in trees[language].items():
            if path.suffix in {".md", ".ipynb"}:
                page = pages[language, name] = _read(path)
                report(language, name, [(part.line, part.what) for part in page.faults])
                report(language, name, check_terms(page, language, terms))
                report(language, name, check_imports(page))
                if language == "zh":
                    report(language, name, check_chinese(page))
    for name in trees["en"]:
        if ("en", name) in pages and ("zh", name) in pages:
            report("zh", name, compare(pages["en", name], pages["zh", name]))
    configs = {language: root / f"mkdocs.{language}.yml" for language in LANGUAGES}
    if all(path.exists() for path in configs.values()):
        english, chinese = (nav(configs[language]) for language in LANGUAGES)
        differences = _ordered("nav", [Part(what, 1) for what in english], [Part(what, 1) for what in chinese])
        out += [f"mkdocs.zh.yml:{line}: {message}" for line, message in differences]
    return sorted(out)


def main() -> int:
    """Print the findings; 1 if there are any."""
    found = findings()
    for line in found:
        print(line)
    print(f"{len(found)} finding(s) in docs/en and docs/zh", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
