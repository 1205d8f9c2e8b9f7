"""Faults of a page: what they say, and that they name the line of the call."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from kitchen import context, live, page
from tests.page_tree import Tree, four_backends, use

NAME = "overview/four_backends"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    made = Tree(tmp_path)
    use(made, monkeypatch)
    made.record(NAME, four_backends())
    return made


def fail(call: str) -> str:
    """Runs a call that must fail and gives its message."""
    page.state.errors.clear()
    with pytest.raises(page.PageError) as caught:
        eval(call, vars(page))  # noqa: S307 - the calls stand in this file
    assert page.state.errors == [str(caught.value)]
    return str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            'table("overview/four_backend")',
            "unknown snippet 'overview/four_backend': did you mean 'overview/four_backends'?",
        ),
        ('table("../secrets")', "unknown snippet '../secrets'"),
        (
            f'table("{NAME}", columns=["step_uss"])',
            "unknown column 'step_uss' of 'overview/four_backends': did you mean 'step_us'?",
        ),
        (f'table("{NAME}", columns=["zzz"])', "(columns: backend, call,"),
        (f'table("{NAME}", sort="-zzz")', "unknown column 'zzz'"),
        (f'table("{NAME}", where={{"backend": "tvm"}})', 'there are backend: "none", "none_again", "eager"'),
        (f'table("{NAME}", where={{"backends": "tvm"}})', "did you mean 'backend'?"),
        (f'chart("{NAME}", "bar", x="backend", y="step_us")', "unknown chart kind 'bar': did you mean 'bars'?"),
        (f'chart("{NAME}", "bars", x="backend", y="step")', "unknown column 'step'"),
        (f'chart("{NAME}", "bars", x="backend", y="step_us", low="step_q1_us")', "both low and high"),
        (f'verdict("{NAME}", "fastest")', "did you mean 'fastest_step'?"),
        (f'verdict("{NAME}", "pays_for")', "missing a required argument: 'steps'"),
        (f'verdict("{NAME}", "pays_for", step=3)', "unknown parameter 'step': did you mean 'steps'?"),
        (f'verdict("{NAME}", "pays_for", steps=0)', "at least 1"),
        ('terms("totaltime")', "unknown formula 'totaltime': did you mean 'total_time'?"),
        ('formula("x")', "unknown formula 'x'; there are: "),
        (f'source("{NAME}", "helpr")', "has no function 'helpr': did you mean 'helper'?"),
        (f'text("{NAME}", "call", language="klingon")', "no highlighter"),
        (f'value("{NAME}", "stepus")', "did you mean 'step_us'?"),
        ('call("tabel overview/x")', "unknown page function 'tabel': did you mean 'table'?"),
        (f'call("table {NAME} colums=a,b")', "unexpected keyword argument"),
        ('call("")', "an empty call"),
        ('call("table \'x")', "cannot read the call"),
    ],
)
def test_the_message_says_what_to_write(tree: Tree, call: str, message: str) -> None:
    assert message in fail(call)


def test_an_unknown_column_is_found_before_anything_is_recorded(tree: Tree) -> None:
    tree.snippet("overview/fresh")
    page.table("overview/fresh", columns=["backend", "step_us"])
    assert "its source never names it" in fail('table("overview/fresh", columns=["stp_us"])')


def test_a_broken_record_is_an_error_that_names_the_file(tree: Tree) -> None:
    path = tree.record(NAME, four_backends())
    path.write_text('{"format": "compile-kitchen/record"}', "utf-8")
    assert "four_backends.json" in fail(f'table("{NAME}")')


PAGE = """---
title: A page
---

# Title

```python exec="on"
from kitchen.page import table
print(table("overview/four_backends"))
```

- a list

    ```python exec="on"
    from kitchen.page import table

    print(
        table("overview/four_backend")
    )
    ```

```python exec="on"
from kitchen.page import verdict
print(verdict("overview/four_backends", "wrong"))
```

```python exec="on"
from kitchen.page import verdict
print(verdict("overview/four_backends", "wrong"))
```
"""


def convert(text: str) -> None:
    """The page through Markdown with markdown-exec, as a build does it."""
    import markdown
    from markdown_exec import formatter, validator

    fence = {"name": "python", "class": "python", "validator": validator, "format": formatter}
    extensions = ["pymdownx.superfences", "pymdownx.blocks.tab", "md_in_html", "tables", "toc"]
    markdown.markdown(
        text, extensions=extensions, extension_configs={"pymdownx.superfences": {"custom_fences": [fence]}}
    )


def test_the_line_is_the_line_of_the_call_in_the_file(tree: Tree) -> None:
    file = tree.root / "page.md"
    file.write_text(PAGE, "utf-8")
    body = PAGE.split("---\n", 2)[2]  # MkDocs takes the front matter off before the page is converted
    page.state.begin(language="en", source=file, url="", markdown=body)
    page.state.errors.clear()
    convert(body)
    lines = PAGE.splitlines()
    wanted = [n for n, line in enumerate(lines, 1) if 'four_backend"' in line or '"wrong"' in line]
    shown = file.as_posix()
    assert [error.split(": ")[0] for error in page.state.errors] == [f"{shown}:{n}" for n in wanted]
    assert len(wanted) == 3


def test_paths_are_relative_to_the_repository(tree: Tree) -> None:
    page.state.source = context.ROOT / "docs" / "en" / "index.md"
    assert fail("formula('x')").startswith("docs/en/index.md: unknown formula")


def test_live_runs_a_snippet_once_for_both_languages(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def measure(names: list[str], *, force: bool) -> None:
        print("progress")
        calls.append((names, force))

    module = ModuleType("kitchen.measure")
    module.measure = measure  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kitchen.measure", module)
    monkeypatch.setattr("kitchen.measure", module, raising=False)
    monkeypatch.setattr(live, "_done", set())
    page.table(NAME)
    assert calls == []
    monkeypatch.setenv("KITCHEN_LIVE", "1")
    for language in ("en", "zh"):
        page.state.begin(language=language, source=tree.root / "page.md", url="", markdown="")
        page.table(NAME)
        page.terms("payoff")
    assert calls == [([NAME], True)]
    assert "unknown snippet" in fail('table("overview/nothing")')


def test_live_progress_goes_to_stderr(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = ModuleType("kitchen.measure")
    module.measure = lambda names, force: print("working")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kitchen.measure", module)
    monkeypatch.setattr("kitchen.measure", module, raising=False)
    monkeypatch.setattr(live, "_done", set())
    monkeypatch.setenv("KITCHEN_LIVE", "1")
    page.table(NAME)
    out, err = capsys.readouterr()
    assert out == ""
    assert "working" in err


def test_the_page_half_never_imports_torch() -> None:
    import subprocess

    code = "import sys, kitchen.page; sys.exit('torch' in sys.modules or 'kitchen.measure' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=context.ROOT, check=False).returncode == 0
