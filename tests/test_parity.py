"""The two languages are equal where they must be, and the check that says so can fail."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path

import nbclient
import nbformat
import pytest

from kitchen import parity

EN = """---
description: A page.
---

# Soup {#soup}

Start with [the menu](menu.md), then the [stock](#stock).

```python exec="on"
from kitchen.page import table
print(table("overview/four_backends", caption="The soup"))
```

!!! note "Hot"
    Careful: $T = N$.

| pan | size |
|---|---|
| small | 1 |
| large | 2 |

## Stock {#stock}

<div class="ck-cards">Bones</div>

```bash
make measure   # everything
```
"""

ZH = """---
description: 一个页面。
---

# 汤 {#soup}

先看[菜单](menu.md)，再看[高汤](#stock)。

```python exec="on"
from kitchen.page import table
print(table("overview/four_backends", caption="汤"))  # 标题不同
```

!!! note "烫"
    小心：$T = N$。

| 锅 | 大小 |
|---|---|
| 小 | 1 |
| 大 | 2 |

## 高汤 {#stock}

<div class="ck-cards">骨头</div>

```bash
make measure   # 全部
```
"""

TERMS = """
[[term]]
id = "back-end"
en = "back end"
zh = "后端"
en_text = "What compiles."
zh_text = "编译的东西。"
avoid_en = ["backend"]
avoid_zh = ["后台"]
"""

NAV = "nav:\n  - {home}: index.md\n  - {soup}:\n      - {one}: soup.md\n"


def notebook(markdown: str, code: str = "print(1)", **cell: object) -> str:
    """A notebook of one Markdown and one code cell."""
    return json.dumps(
        {
            "cells": [
                {"cell_type": "markdown", "metadata": {}, "source": [markdown]},
                {
                    "cell_type": "code",
                    "metadata": {},
                    "source": [code],
                    "outputs": [],
                    "execution_count": None,
                    **cell,
                },
            ],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small site without faults."""
    for language, page, title in (("en", EN, "Demo"), ("zh", ZH, "演示")):
        folder = tmp_path / "docs" / language
        folder.mkdir(parents=True)
        (folder / "soup.md").write_text(page, "utf-8")
        (folder / "demo.ipynb").write_text(notebook(f'# <a id="demo"></a>{title}'), "utf-8")
    (tmp_path / "docs" / "terms.toml").write_text(TERMS, "utf-8")
    (tmp_path / "mkdocs.en.yml").write_text(NAV.format(home="Home", soup="Soup", one="One"), "utf-8")
    (tmp_path / "mkdocs.zh.yml").write_text(NAV.format(home="首页", soup="汤", one="一"), "utf-8")
    return tmp_path


def test_real_pages_have_no_findings() -> None:
    assert parity.findings() == []


def test_small_tree_has_no_findings(tree: Path) -> None:
    assert parity.findings(tree) == []


FAULTS: list[tuple[str, str, str, str]] = [
    ("heading id", "## 高汤 {#stock}", "## 高汤 {#broth}", "docs/zh/soup.md:22: heading"),
    ("heading level", "## 高汤 {#stock}", "### 高汤 {#stock}", "docs/zh/soup.md:22: heading"),
    ("heading without id", "## 高汤 {#stock}", "## 高汤", "docs/zh/soup.md:22: heading '高汤' has no explicit id"),
    ("fence options", 'python exec="on"', 'python exec="off"', "docs/zh/soup.md:9: fence"),
    ("fence code", "four_backends", "total_time", "docs/zh/soup.md:9: fence"),
    ("fence command", "make measure", "make serve", "docs/zh/soup.md:26: fence"),
    ("fence missing", "```bash\nmake measure   # 全部\n```\n", "", "docs/zh/soup.md:9: fence: 'bash'"),
    ("link target", "(menu.md)", "(index.md)", "docs/zh/soup.md:7: link: 'link index.md' is not in English"),
    ("link missing", "[高汤](#stock)", "高汤", "link: 'link #stock' of English line 7 is missing"),
    ("table rows", "| 大 | 2 |\n", "", "docs/zh/soup.md:17: table"),
    ("table columns", "| 锅 | 大小 |\n|---|---|", "| 锅 | 大小 | 柄 |\n|---|---|---|", "docs/zh/soup.md:17: table"),
    ("admonition kind", "!!! note", "!!! warning", "docs/zh/soup.md:14: block"),
    ("folded admonition", "!!! note", "??? note", "docs/zh/soup.md:14: block"),
    ("component", "ck-cards", "ck-card", "docs/zh/soup.md:24: HTML"),
    ("formula", "$T = N$", "$T = M$", "docs/zh/soup.md:15: formula"),
    ("front matter", "description: 一个页面。", "title: 一个页面。", "docs/zh/soup.md:1: front matter keys"),
    ("word to avoid", "小心", "后台", "docs/zh/soup.md:15: '后台': the glossary prefers '后端'"),
    ("half-width comma", "，再看", ",再看", "docs/zh/soup.md:7: half-width punctuation"),
    ("half-width stop", "(#stock)。", "(#stock).\n\n再看.", "docs/zh/soup.md:9: half-width punctuation"),
    ("half-width brackets", "小心", "小心 (烫手)", "docs/zh/soup.md:15: half-width brackets"),
    ("no space", "小心：", "小心GPU：", "docs/zh/soup.md:15: no space between Chinese and Latin"),
    ("no space at code", "小心：", "用`f`小心：", "docs/zh/soup.md:15: no space between Chinese and Latin"),
    ("space at full width", "，再看", "， 再看", "docs/zh/soup.md:7: a space beside full-width"),
    ("import", "from kitchen.page import table", "from kitchen.results import newest", "pages call only kitchen.page"),
]


@pytest.mark.parametrize(("old", "new", "expected"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_fault_in_chinese_page_is_found(tree: Path, old: str, new: str, expected: str) -> None:
    assert old in ZH
    (tree / "docs/zh/soup.md").write_text(ZH.replace(old, new), "utf-8")
    found = parity.findings(tree)
    assert any(expected in line for line in found), found


def test_word_to_avoid_in_english_is_found_outside_code_only(tree: Path) -> None:
    page = tree / "docs/en/soup.md"
    page.write_text(EN.replace("Careful", "A `backend` and `torch/_dynamo/backends`"), "utf-8")
    assert parity.findings(tree) == []
    page.write_text(EN.replace("Careful", "Backend"), "utf-8")
    assert parity.findings(tree) == ["docs/en/soup.md:15: 'backend': the glossary prefers 'back end'"]


def _missing_page(root: Path) -> None:
    (root / "docs/zh/soup.md").unlink()


def _extra_page(root: Path) -> None:
    (root / "docs/zh/new.md").write_text("# 新 {#new}\n", "utf-8")


def _notebook_code(root: Path) -> None:
    (root / "docs/zh/demo.ipynb").write_text(notebook('# <a id="demo"></a>演示', "print(2)"), "utf-8")


def _notebook_outputs(root: Path) -> None:
    (root / "docs/en/demo.ipynb").write_text(notebook('# <a id="demo"></a>Demo', execution_count=3), "utf-8")


def _notebook_anchor(root: Path) -> None:
    (root / "docs/zh/demo.ipynb").write_text(notebook('# <a id="other"></a>演示'), "utf-8")


def _notebook_marker(root: Path) -> None:
    text = '# <a id="demo"></a>演示\n<div data-kitchen="table overview/python_demo"></div>'
    (root / "docs/zh/demo.ipynb").write_text(notebook(text), "utf-8")


def _nav_order(root: Path) -> None:
    (root / "mkdocs.zh.yml").write_text("nav:\n  - 汤:\n      - 一: soup.md\n  - 首页: index.md\n", "utf-8")


@pytest.mark.parametrize(
    ("break_it", "expected"),
    [
        (_missing_page, "docs/en/soup.md:1: there is no docs/zh/soup.md"),
        (_extra_page, "docs/zh/new.md:1: there is no docs/en/new.md"),
        (_notebook_code, "docs/zh/demo.ipynb:2: cell: 'print(2)' here, 'print(1)' in English"),
        (_notebook_outputs, "docs/en/demo.ipynb:2: a code cell holds outputs"),
        (_notebook_anchor, "docs/zh/demo.ipynb:1: heading"),
        (_notebook_marker, "docs/zh/demo.ipynb:1: HTML: 'class table overview/python_demo' is not in English"),
        (_nav_order, "mkdocs.zh.yml:1: nav"),
    ],
)
def test_fault_in_files_is_found(tree: Path, break_it: Callable[[Path], None], expected: str) -> None:
    break_it(tree)
    found = parity.findings(tree)
    assert any(expected in line for line in found), found


@pytest.mark.parametrize(
    "sentence",
    [
        "用 `torch.compile` 编译 3 次，比 1 大。",
        "守卫（guard）不成立，就重编译。",
        "见[方法](a.md)。**粗体**，*斜体*。",
        "95% 的区间；`a,b`，版本 2.13.0。",
        "- 一项：`make measure`",
        "算式 $a, b$，图 <span class='x'>标记</span>。",
    ],
)
def test_good_chinese_passes(sentence: str) -> None:
    assert parity.check_chinese(parity.parse(sentence)) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('zh = "后端"\n', ""), "term 'back-end' lacks zh"),
        (lambda text: text * 2, "term 'back-end' stands twice"),
    ],
)
def test_bad_glossary_is_named(tree: Path, change: Callable[[str], str], message: str) -> None:
    (tree / "docs/terms.toml").write_text(change(TERMS), "utf-8")
    with pytest.raises(ValueError, match=message):
        parity.findings(tree)


def test_glossary_is_large_enough() -> None:
    assert len(parity.load_terms(parity.ROOT / "docs/terms.toml")) >= 40


def statements(code: str) -> list[str]:
    """Source of each top-level statement, letter for letter, decorators included."""
    lines = code.splitlines()
    out = []
    for node in ast.parse(code).body:
        first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", []))])
        out.append("\n".join(lines[first - 1 : node.end_lineno]))
    return out


@pytest.mark.parametrize("language", parity.LANGUAGES)
def test_notebook_code_is_the_snippets(language: str) -> None:
    """Every statement of the notebook stands in the snippet, letter for letter; only the call at the end is new."""
    theirs = statements((parity.ROOT / "snippets/overview/python_demo.py").read_text("utf-8"))
    text = (parity.ROOT / f"docs/{language}/overview/python-demo.ipynb").read_text("utf-8")
    cells = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    ours = [statement for cell in cells for statement in statements(cell)]
    assert [statement for statement in ours if statement not in theirs] == ["rows = run()", "print_table(rows)"]
    assert {s for s in theirs if s.startswith(("def", "@"))} <= set(ours), "a function is missing in the notebook"


@pytest.mark.parametrize("name", ["README", "CONTRIBUTING"])
def test_documents_of_the_repository_have_the_same_shape(name: str) -> None:
    """Headings' levels, commands and tables are equal; links lead to the language's own files."""
    english, chinese = (
        parity.parse((parity.ROOT / f"{name}{ending}").read_text("utf-8")) for ending in (".md", ".zh.md")
    )
    assert [part.what.split()[0] for part in english.headings] == [part.what.split()[0] for part in chinese.headings]
    assert [part.what for part in english.tables] == [part.what for part in chinese.tables]
    assert [part.what for part in english.fences] == [part.what for part in chinese.fences]
    assert parity.check_chinese(chinese) == []
    terms = parity.load_terms(parity.ROOT / "docs/terms.toml")
    assert parity.check_terms(english, "en", terms) == []
    assert parity.check_terms(chinese, "zh", terms) == []


@pytest.mark.slow
def test_notebook_runs(tmp_path: Path) -> None:
    """The cells run from top to bottom and print a row for each way (both languages have the same cells)."""
    book = nbformat.read(parity.ROOT / "docs/en/overview/python-demo.ipynb", as_version=4)
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(
        output.text for cell in book.cells for output in cell.get("outputs", []) if output.get("name") == "stdout"
    )
    for name in ("none", "eager", "aot_eager", "inductor", "cudagraphs"):
        assert any(line.split()[:1] == [name] for line in printed.splitlines()), printed


def test_a_fence_that_prints_nothing_is_found() -> None:
    fence = '```python exec="on"\nfrom kitchen.page import table\n{}table("a/b"){}\n```\n'
    found = parity.check_imports(
        parity.parse("# T {#t}\n\n" + fence.format("", "") + "\n" + fence.format("print(", ")"))
    )
    assert [line for line, _ in found] == [3]
    assert "prints nothing" in found[0][1]
