"""Scan a built site for what MkDocs lets through.

MkDocs checks links between Markdown sources. It does not see what came out: a traceback printed into a page, an
empty table, markup that was never rendered, a link inside generated HTML that leads nowhere, or a request to another
host. Run as the last hook of every build, and by hand::

    python -m kitchen.sitecheck site

Exit status 0 without findings, 1 with findings, 2 when there is no site to scan.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_VOID = frozenset(
    [
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
    ]
)
_CODE = frozenset({"pre", "code", "kbd", "samp", "textarea"})
_SILENT = frozenset({"script", "style", "template"})
# Made by kitchen.page from records: text in there is data, whatever it looks like.
_DATA_CLASSES = frozenset({"ck-table", "ck-reason", "ck-verdict", "ck-provenance"})
_FORMULA_CLASSES = frozenset({"arithmatex", "jp-RenderedMarkdown", "jp-RenderedLatex"})

# Attributes that make the browser fetch something, by element.
_FETCHED: dict[str, tuple[str, ...]] = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "frame": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "track": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "input": ("src",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
    "feimage": ("href", "xlink:href"),
    "body": ("background",),
}
# <link rel> values that name something without fetching it.
_NAMING_RELS = frozenset({"canonical", "alternate", "prev", "next", "author", "license", "help", "search", "me"})

_EXTERNAL = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_NO_TARGET = re.compile(r"^(?:javascript|mailto|tel|data|blob|about):", re.IGNORECASE)
_CSS_URL = re.compile(r"""url\(\s*(["']?)(.*?)\1\s*\)|@import\s+(["'])(.*?)\3""", re.IGNORECASE | re.DOTALL)
_CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SCRIPT_CALL = re.compile(
    r"""(?:\bfetch|\bimport|\bimportScripts|\bsendBeacon|new\s+(?:Worker|EventSource|WebSocket))\s*\(\s*(["'`])((?:https?:|wss?:)?//.*?)\1"""
    r"""|\b(?:import|from)\s*(["'])((?:https?:)?//.*?)\3|\.open\(\s*["'][A-Z]+["']\s*,\s*(["'])((?:https?:)?//.*?)\5"""
    r"""|\.src\s*=\s*(["'`])((?:https?:)?//.*?)\7"""
)

# Markup left as text: pattern, what it is, what to do. Looked for in text outside code.
_LEFTOVERS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        re.compile(r"Traceback \(most recent call last\)"),
        "a Python traceback",
        "fix the code that the page runs",
    ),
    (re.compile(r"```|~~~"), "a code fence left as text", "check the fence's options and indentation"),
    (re.compile(r"""\bexec=["']?\w"""), 'an unrendered marker "exec="', "check the options of that fence"),
    (re.compile(r"--8<--"), 'an unrendered marker "--8<--"', "check the snippet's path and indentation"),
    (
        re.compile(r"(?:^|\n)\s*///+(?:\s|$)"),
        "an unrendered block (///)",
        "put blank lines around /// lines, starting in column 0",
    ),
    (
        re.compile(r"\{#[\w:.-]+\s*\}"),
        "a heading id left as text ({#…})",
        "write it at the very end of the heading line",
    ),
    (
        re.compile(r"\{:\s*[.#\w]"),
        "an attribute list left as text ({: …})",
        "put it directly after its element",
    ),
    (
        re.compile(r"(?:^|\n)\s*(?:!!!|\?\?\?\+?)\s+\w"),
        "an unrendered admonition",
        "indent its text by four spaces",
    ),
    (re.compile(r"\[\^[\w-]+\]"), "an unrendered footnote", "define the footnote on the same page"),
    (
        re.compile(r"(?<![\w*)])\*\*[^\s*]"),
        "bold left as text (**)",
        "put a space or punctuation outside the asterisks",
    ),
    (
        re.compile(r"\]\([^)\s]+\)"),
        "a link left as text ([…](…))",
        "check brackets; Markdown is not read inside raw HTML",
    ),
)
_FORMULA = re.compile(r"\\\(|\\\[|\$\$")
# A fence with wrong options becomes inline code that starts with its info string.
_FENCE_AS_CODE = re.compile(r"""^\s*\w+ (?:\w+=["'].*?["'] )*exec=""")
# In a code block a traceback may be a sample; these come only from code that the build itself ran.
_OWN_TRACEBACK = re.compile(r'File "<code block: |/markdown_exec/')


@dataclass(frozen=True, order=True)
class Finding:
    """One fault: the file (relative to the site), its line where known, what is wrong, and what to do."""

    file: str
    line: int
    problem: str
    advice: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.problem}: {self.advice}"


@dataclass
class _Table:
    line: int
    cells: int = 0
    filled: bool = False
    hidden: bool = False


@dataclass
class _Page:
    """What the scan keeps of one HTML file."""

    ids: Counter[str] = field(default_factory=Counter)
    links: list[tuple[int, str]] = field(default_factory=list)
    fetched: list[tuple[int, str]] = field(default_factory=list)
    findings: list[tuple[int, str, str]] = field(default_factory=list)


class _Scanner(HTMLParser):
    """Reads one HTML file into a `_Page`."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = _Page()
        self._stack: list[tuple[str, frozenset[str]]] = []
        self._tables: list[_Table] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        line = self.getpos()[0]
        if identifier := values.get("id"):
            self.page.ids[identifier] += 1
        elif tag == "a" and values.get("name"):
            self.page.ids[values["name"]] += 1
        if "data-kitchen" in values:
            marker = values["data-kitchen"]
            self._found(f"an unreplaced marker data-kitchen='{marker}'", "notebook pages only: check its spelling")
        if tag in {"a", "area"} and "href" in values:
            self.page.links.append((line, values["href"]))
        self._note_fetches(tag, values, line)
        if "style" in values:
            self._note_css(values["style"], line)
        if tag == "table":
            self._tables.append(_Table(line))
        if self._tables and tag == "td":
            self._tables[-1].cells += 1
        if self._tables and tag in {"img", "svg", "input"}:
            self._tables[-1].filled = True
        if tag not in _VOID:
            self._stack.append((tag, frozenset(values.get("class", "").split())))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        for depth in range(len(self._stack) - 1, -1, -1):
            if self._stack[depth][0] == tag:
                del self._stack[depth:]
                break
        if tag == "table" and self._tables:
            table = self._tables.pop()
            if not table.cells or not table.filled:
                what = "without rows" if not table.cells else "with nothing in its cells"
                self.page.findings.append((table.line, f"a table {what}", "check the filter of the call that makes it"))

    def handle_data(self, data: str) -> None:
        if not data.strip():
            return
        tags = {tag for tag, _ in self._stack}
        line = self.getpos()[0]
        if "script" in tags:
            for match in _SCRIPT_CALL.finditer(data):
                self.page.fetched.append((line, next(part for part in match.groups() if part and "//" in part)))
            return
        if "style" in tags:
            self._note_css(data, line)
            return
        if tags & _SILENT:
            return
        if self._tables and "td" in tags:
            self._tables[-1].filled = True
        if tags & _CODE:
            self._check_code(data, block="pre" in tags)
        elif "title" not in tags or "svg" not in tags:
            self._check_text(data)

    def _check_code(self, data: str, *, block: bool) -> None:
        if block and _OWN_TRACEBACK.search(data):
            self._found("a Python traceback", "fix the code that the page runs")
        elif not block and _FENCE_AS_CODE.search(data):
            self._found('an unrendered marker "exec="', "check the options of that fence")

    def _check_text(self, data: str) -> None:
        classes = {name for _, names in self._stack for name in names}
        if classes & _DATA_CLASSES:
            return
        for pattern, what, advice in _LEFTOVERS:
            if match := pattern.search(data):
                self._found(f"{what} in “{_excerpt(data, match.start())}”", advice)
        if not classes & _FORMULA_CLASSES and (match := _FORMULA.search(data)):
            self._found(f"a formula left as text in “{_excerpt(data, match.start())}”", r"check the \( … \) around it")
        if "arithmatex" not in classes and any(names & {"mermaid"} for _, names in self._stack):
            self._found("a Mermaid diagram", "the theme fetches Mermaid from another host: draw it as SVG")

    def _note_fetches(self, tag: str, values: dict[str, str], line: int) -> None:
        if tag == "link" and "href" in values:
            if not _NAMING_RELS & set(values.get("rel", "").lower().split()):
                self.page.fetched.append((line, values["href"]))
            return
        if tag == "meta" and values.get("http-equiv", "").lower() == "refresh" and "url=" in values.get("content", ""):
            self.page.links.append((line, values["content"].partition("url=")[2].strip()))
        for name in _FETCHED.get(tag, ()):
            if not (value := values.get(name, "").strip()):
                continue
            candidates = value.split(",") if name == "srcset" else [value]
            self.page.fetched.extend((line, candidate.split()[0]) for candidate in candidates if candidate.strip())

    def _note_css(self, css: str, line: int) -> None:
        self.page.fetched.extend((line, url) for url in _css_urls(css))

    def _found(self, problem: str, advice: str) -> None:
        self.page.findings.append((self.getpos()[0], problem, advice))


def _css_urls(css: str) -> Iterator[str]:
    for match in _CSS_URL.finditer(_CSS_COMMENT.sub("", css)):
        url = (match.group(2) if match.group(2) is not None else match.group(4)).strip()
        if url and not url.startswith(("#", "data:")):
            yield url


def _excerpt(text: str, start: int) -> str:
    return " ".join(text[max(0, start - 15) : start + 40].split())


_scanned: dict[Path, tuple[tuple[int, int], int, _Page]] = {}


def _scan(path: Path) -> _Page:
    """Scan one file; what has not changed since the last scan in this process is not taken apart again.

    A build writes every page anew, most of them as they were: then the text tells, where the time can't.
    """
    stat = path.stat()
    key = (stat.st_mtime_ns, stat.st_size)
    known = _scanned.get(path)
    if known and known[0] == key:
        return known[2]
    text = path.read_text(encoding="utf-8")
    page = known[2] if known and known[1] == hash(text) else _scan_text(text)
    _scanned[path] = (key, hash(text), page)
    return page


def _scan_text(text: str) -> _Page:
    scanner = _Scanner()
    scanner.feed(text)
    scanner.close()
    return scanner.page


class _Site:
    """The files of a built site, addressed by URL path below its base."""

    def __init__(self, root: Path, base: str) -> None:
        self.root = root
        self.base = base
        self.files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
        self.pages = {name: _scan(root / name) for name in sorted(self.files) if name.endswith(".html")}

    def resolve(self, page: str, url: str) -> tuple[str | None, str]:
        """The file that a URL on a page leads to (None: there is none) and its fragment."""
        parts = urlsplit(url)
        path = unquote(parts.path)
        if not path:
            return page, unquote(parts.fragment)
        if path.startswith("/"):
            if not (path + "/").startswith(self.base):
                return None, ""
            target = path[len(self.base) :]
        else:
            target = posixpath.join(posixpath.dirname(page), path)
        directory = target.endswith("/") or posixpath.basename(target) in {".", ".."}
        target = posixpath.normpath(target) if target else "."
        if target.startswith(".."):
            return None, ""
        if target == ".":
            target, directory = "", True
        name = posixpath.join(target, "index.html") if directory else target
        if name not in self.files and f"{name}/index.html" in self.files:
            name = f"{name}/index.html"
        return (name if name in self.files else None), unquote(parts.fragment)


def check(site: Path, *, docs: Path | None = None, base: str | None = None) -> list[Finding]:
    """Scan a built site.

    Args:
        site: the folder with the built site (its root, above the languages).
        docs: the folder with the sources, docs/<language>/…: every page there must be in the site.
        base: the path under which the site is published, such as "/" or "/compile-kitchen/". Without it, it is read
            from the root page.

    Returns:
        The findings, sorted by file and line; empty when all is well.

    Raises:
        FileNotFoundError: there is no site in that folder.
    """
    if not (site / "index.html").is_file():
        raise FileNotFoundError(f"{site}: no index.html here; build the site first")
    built = _Site(site, base or _published_base(site))
    found: set[Finding] = set()
    for name, page in built.pages.items():
        found |= {Finding(name, *problem) for problem in page.findings}
        found |= set(_check_links(built, name, page))
        for line, url in page.fetched:
            found |= set(_check_fetch(built, name, line, url))
        for identifier, count in page.ids.items():
            if count > 1:
                found.add(Finding(name, 0, f'the id "{identifier}" occurs {count} times', "give each its own id"))
    for name in sorted(built.files):
        if name.endswith(".css"):
            for url in _css_urls((site / name).read_text(encoding="utf-8")):
                found |= set(_check_fetch(built, name, 0, url))
        elif name.endswith((".js", ".mjs")) and "/javascripts/" not in name and "/mathjax/" not in name:
            for match in _SCRIPT_CALL.finditer((site / name).read_text(encoding="utf-8")):
                url = next(part for part in match.groups() if part and "//" in part)
                found |= set(_check_fetch(built, name, 0, url))
    found |= set(_check_pages(built, docs))
    return sorted(found)


def _published_base(site: Path) -> str:
    text = (site / "index.html").read_text(encoding="utf-8")
    default = re.search(r'hreflang="x-default" href="([^"]+)"', text)
    path = urlsplit(default.group(1)).path if default else "/"
    return path.rstrip("/") + "/"


def _check_links(site: _Site, name: str, page: _Page) -> Iterator[Finding]:
    for line, url in page.links:
        if not url or _EXTERNAL.match(url) or _NO_TARGET.match(url):
            continue
        target, fragment = site.resolve(name, url)
        if target is None:
            yield Finding(
                name,
                line,
                f'a link to "{url}", which is not in the site',
                "correct the link or add its target",
            )
        elif (
            fragment
            and not fragment.startswith((":~:", "__"))
            and target in site.pages
            and fragment not in site.pages[target].ids
        ):
            yield Finding(
                name,
                line,
                f'a link to "{url}": {target} has no id "{fragment}"',
                "correct the anchor or add {#id}",
            )


def _check_fetch(site: _Site, name: str, line: int, url: str) -> Iterator[Finding]:
    if _NO_TARGET.match(url) or url.startswith("#"):
        return
    if _EXTERNAL.match(url):
        yield Finding(name, line, f'a request to another host: "{url}"', "serve the file from the site itself")
    elif site.resolve(name, url)[0] is None:
        yield Finding(name, line, f'it loads "{url}", which is not in the site', "correct the path or add the file")


def _check_pages(site: _Site, docs: Path | None) -> Iterator[Finding]:
    languages = sorted({name.split("/")[0] for name in site.pages if re.match(r"[a-z]{2}/", name)})
    expected: dict[str, set[str]] = {code: {"index.html", "404.html"} for code in languages}
    if docs is not None:
        folders = [path for path in docs.iterdir() if re.fullmatch(r"[a-z]{2}", path.name) and path.is_dir()]
        for folder in sorted(folders):
            expected.setdefault(folder.name, {"index.html", "404.html"}).update(_pages_from(folder))
    for code, pages in expected.items():
        for page in sorted(pages):
            if f"{code}/{page}" not in site.files:
                yield Finding(
                    f"{code}/{page}", 0, "an expected page is missing", f"is its source in mkdocs.{code}.yml?"
                )
    for name in ("404.html", *(f"{code}/search/search_index.json" for code in expected)):
        if name not in site.files:
            yield Finding(name, 0, "an expected file is missing", "did the build end early?")


def _pages_from(folder: Path) -> Iterator[str]:
    """The pages that the sources of one language become, relative to that language."""
    for source in folder.rglob("*"):
        relative = source.relative_to(folder)
        if source.suffix in {".md", ".ipynb"} and not any(part.startswith(".") for part in relative.parts):
            place = relative.parent if relative.stem == "index" else relative.with_suffix("")
            yield (place / "index.html").as_posix()


def main(arguments: list[str] | None = None) -> int:
    """The command line: print the findings and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m kitchen.sitecheck", description="Scan a built site for faults.")
    parser.add_argument("site", type=Path, help="the folder with the built site")
    parser.add_argument("--docs", type=Path, help="the folder with the sources: every page there must be in the site")
    parser.add_argument("--base", help="the path it is published under (default: read from the root page)")
    options = parser.parse_args(arguments)
    try:
        findings = check(options.site, docs=options.docs, base=options.base)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 2
    for finding in findings:
        print(finding)
    print(f"{len(findings)} faults" if findings else "no faults", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
