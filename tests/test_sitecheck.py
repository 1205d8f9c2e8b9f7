"""The scan of the built site: each kind of fault is found, and ordinary pages and code samples raise no alarm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kitchen import sitecheck

CLEAN = r"""
<p>Text with <a href="https://example.org/">a link out</a>, <a href="../other/#part">one in</a>,
<a href="../../snippets/a.py">a file</a>, <a href="#here">one here</a> and
<a href="/zh/page/">the other language</a>.</p>
<h2 id="here">Here</h2>
<pre><code>Traceback (most recent call last):
  File "demo.py", line 1
--8&lt;-- "x"   /// tab | x   ## Title {#id}   exec="on"   \( x \)   ** ```
/// tab
</code></pre>
<p>Write <code>exec="on"</code>, <code>{#id}</code>, <code>--8&lt;--</code> and <code>\(</code>;
<code>2 ** 3</code>.</p>
<p>An amount of $5, 2 ** 3 = 8, a set {1, 2} and a/// slash.</p>
<span class="arithmatex">\(x_1 \lt 2\)</span><div class="arithmatex">\[y\]</div>
<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>
<svg viewBox="0 0 1 1" xmlns="http://www.w3.org/2000/svg"><title>A</title><rect fill="url(#c)"/></svg>
<script>const address = "https://example.org/"; fetch("data.json");</script>
<style>@font-face { src: url(data:font/woff;base64,AA) } /* url(https://example.org/old) */</style>
<a href="mailto:cook@example.org">mail</a>
"""


def page(body: str, head: str = "") -> str:
    return f'<!doctype html><html lang="en"><head><title>T</title>{head}</head><body>{body}</body></html>'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A small site without faults, in two languages."""
    root = tmp_path / "site"
    for name, text in {
        "index.html": page(
            '<a href="en/">en</a>',
            '<link rel="alternate" hreflang="x-default" href="http://127.0.0.1:8000/">',
        ),
        "404.html": page('<a href="/en/">en</a>'),
        "snippets/a.py": "print(1)",
        "assets/a.css": "body { background: url(a.svg) }",
        "assets/a.svg": "<svg/>",
        **{f"{code}/404.html": page("none") for code in ("en", "zh")},
        **{f"{code}/index.html": page('<a href="page/">page</a>') for code in ("en", "zh")},
        **{f"{code}/other/index.html": page('<h2 id="part">part</h2>') for code in ("en", "zh")},
        **{f"{code}/page/index.html": page(CLEAN) for code in ("en", "zh")},
        **{f"{code}/search/search_index.json": "{}" for code in ("en", "zh")},
    }.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root


def add(site: Path, body: str, head: str = "") -> None:
    (site / "en" / "other" / "index.html").write_text(page(f'<h2 id="part">part</h2>{body}', head), encoding="utf-8")


def problems(site: Path) -> list[str]:
    return [f"{finding.file}: {finding.problem}" for finding in sitecheck.check(site)]


def test_a_clean_site_with_code_samples_raises_no_alarm(site: Path) -> None:
    assert problems(site) == []


def test_what_a_record_says_is_data_and_no_slip_of_the_page(site: Path) -> None:
    hostile = "[x](y.md) **b** {#id} ``` Traceback (most recent call last)"
    add(site, f'<table class="ck-table"><tr><th>a</th></tr><tr><td>{hostile}</td></tr></table>')
    assert problems(site) == []
    add(site, f"<p>{hostile}</p>")
    assert problems(site)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("<p>Traceback (most recent call last): KeyError</p>", "a Python traceback"),
        ('<pre><code>  File "&lt;code block: n2&gt;", line 1, in x</code></pre>', "a Python traceback"),
        ("<table><thead><tr><th>a</th></tr></thead><tbody></tbody></table>", "a table without rows"),
        ("<table><tr><td> </td><td></td></tr></table>", "a table with nothing in its cells"),
        ('<p>python exec="on" print(1)</p>', 'an unrendered marker "exec="'),
        ('<p><code>python exec="on" source="sideways"\nprint(1)</code></p>', 'an unrendered marker "exec="'),
        ('<p>--8&lt;-- "a.py"</p>', 'an unrendered marker "--8<--"'),
        ("<p>text\n/// tab | Machine\n</p>", "an unrendered block (///)"),
        ("<h2 id='x'>Title {#title} more</h2>", "a heading id left as text"),
        ("<p>Button {: .md-button }</p>", "an attribute list left as text"),
        ("<p>!!! note\n  text</p>", "an unrendered admonition"),
        ("<p>text[^1]</p>", "an unrendered footnote"),
        ("<p>这是**重点：**后面</p>", "bold left as text"),
        ("<p>See [the page](other.md).</p>", "a link left as text"),
        ("<p>```python</p>", "a code fence left as text"),
        (r"<p>\(T_c\) is compile time</p>", "a formula left as text"),
        ('<div data-kitchen="table a/b"></div>', "an unreplaced marker data-kitchen='table a/b'"),
        ('<a href="../nowhere/">x</a>', 'a link to "../nowhere/", which is not in the site'),
        ('<a href="/elsewhere/">x</a>', 'a link to "/elsewhere/", which is not in the site'),
        ('<a href="../../../outside">x</a>', "which is not in the site"),
        ('<a href="../../results/m/r.json">x</a>', 'a link to "../../results/m/r.json"'),
        ('<a href="../page/#gone">x</a>', 'en/page/index.html has no id "gone"'),
        ('<a href="#gone">x</a>', 'has no id "gone"'),
        ('<p id="twice"></p><p id="twice"></p>', 'the id "twice" occurs 2 times'),
        ('<img src="https://example.org/a.png">', 'a request to another host: "https://example.org/a.png"'),
        (
            '<img src="a.png" srcset="//example.org/b.png 2x">',
            'a request to another host: "//example.org/b.png"',
        ),
        ('<script src="https://example.org/a.js"></script>', "a request to another host"),
        ('<script>fetch("https://example.org/a")</script>', "a request to another host"),
        (
            '<script type="module">import x from "https://example.org/a.js"</script>',
            "a request to another host",
        ),
        (
            '<script type="module">await import("https://example.org/a.js")</script>',
            "a request to another host",
        ),
        ('<iframe src="https://example.org/"></iframe>', "a request to another host"),
        ('<video><source src="https://example.org/a.mp4"></video>', "a request to another host"),
        ('<p style="background: url(https://example.org/a.png)"></p>', "a request to another host"),
        ("<style>@import 'https://example.org/a.css';</style>", "a request to another host"),
        ('<svg><image href="https://example.org/a.png"/></svg>', "a request to another host"),
        (
            '<pre class="mermaid"><code>graph</code></pre><div class="mermaid">graph</div>',
            "a Mermaid diagram",
        ),
        ('<img src="gone.png">', 'it loads "gone.png", which is not in the site'),
    ],
)
def test_each_fault_is_found(site: Path, body: str, words: str) -> None:
    add(site, body)
    found = problems(site)
    assert any(line.startswith("en/other/index.html: ") and words in line for line in found), found


@pytest.mark.parametrize("rel", ["stylesheet", "icon", "preload", "preconnect", "modulepreload", "dns-prefetch"])
def test_links_in_the_head_that_fetch_are_requests(site: Path, rel: str) -> None:
    add(site, "", f'<link rel="{rel}" href="https://example.org/a">')
    assert any("a request to another host" in line for line in problems(site))


@pytest.mark.parametrize("rel", ["canonical", "alternate", "alternate translation", "prev", "license"])
def test_links_in_the_head_that_only_name_are_not(site: Path, rel: str) -> None:
    add(site, "", f'<link rel="{rel}" href="https://example.org/a">')
    assert problems(site) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("assets/b.css", "@import url('https://example.org/b.css');"),
        ("assets/b.css", "p { background: url(//example.org/b.png) }"),
        ("assets/b.css", "p { background: url(gone.png) }"),
        ("assets/b.js", 'import "https://example.org/b.js";'),
        ("assets/b.js", "fetch(`https://example.org/`)"),
    ],
)
def test_style_sheets_and_scripts_are_read_too(site: Path, name: str, text: str) -> None:
    (site / name).write_text(text, encoding="utf-8")
    assert [line for line in problems(site) if line.startswith(name)]


def test_a_missing_page_is_found_from_the_sources(site: Path, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    for name in (
        "en/index.md",
        "en/page.md",
        "en/demo/run.ipynb",
        "zh/index.md",
        "assets/a.css",
        "terms.toml",
    ):
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text("", encoding="utf-8")
    found = sitecheck.check(site, docs=docs)
    assert [finding.file for finding in found] == ["en/demo/run/index.html"]
    assert "mkdocs.en.yml" in found[0].advice


def test_a_missing_search_index_or_404_is_found(site: Path) -> None:
    (site / "404.html").unlink()
    (site / "zh" / "search" / "search_index.json").unlink()
    assert problems(site) == [
        "404.html: an expected file is missing",
        "zh/search/search_index.json: an expected file is missing",
    ]


def test_the_base_path_counts(site: Path) -> None:
    (site / "404.html").write_text(page('<a href="/kitchen/en/">en</a>'), encoding="utf-8")
    for code in ("en", "zh"):
        (site / code / "page" / "index.html").write_text(page("ok"), encoding="utf-8")
    assert sitecheck.check(site, base="/kitchen/") == []
    assert [finding.file for finding in sitecheck.check(site, base="/")] == ["404.html"]


def test_a_finding_says_where_what_and_what_to_do(site: Path) -> None:
    add(site, '\n\n<a href="../nowhere/">x</a>')
    (finding,) = sitecheck.check(site)
    assert str(finding) == (
        'en/other/index.html:3: a link to "../nowhere/", which is not in the site: correct the link or add its target'
    )


def test_the_command_line(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sitecheck.main([str(site)]) == 0
    add(site, '<img src="gone.png">')
    assert sitecheck.main([str(site)]) == 1
    assert 'it loads "gone.png"' in capsys.readouterr().out
    assert sitecheck.main([str(site / "nothing")]) == 2


def test_a_page_that_changed_is_read_again(site: Path) -> None:
    assert problems(site) == []
    add(site, "<p>--8&lt;-- gone</p>")
    assert len(problems(site)) == 1


def test_a_page_written_anew_is_taken_apart_only_where_its_text_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, taken = tmp_path / "index.html", []
    scan = sitecheck._scan_text
    monkeypatch.setattr(sitecheck, "_scan_text", lambda text: taken.append(text) or scan(text))  # type: ignore[func-returns-value]
    for nanoseconds, text in ((1, "<p id='a'>"), (2, "<p id='a'>"), (3, "<p id='b'>"), (3, "<p id='b'>")):
        page.write_text(text, "utf-8")
        os.utime(page, ns=(nanoseconds, nanoseconds))
        seen = sitecheck._scan(page)
        assert text[7] in str(seen.__dict__)
    assert taken == ["<p id='a'>", "<p id='b'>"]
