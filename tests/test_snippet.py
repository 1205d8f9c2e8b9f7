"""The snippet contract: a header that breaks it is refused with the file and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitchen import runner, snippet
from kitchen.snippet import SnippetError
from tests.snippet_files import run_body, write_snippet

BODY = run_body("return [{'n': 1}]")


def test_a_good_header(tmp_path: Path) -> None:
    one = write_snippet(
        tmp_path, BODY, needs='["compiler"]', limit_s=12.5, value=7, dependencies='["torch>=2.11", "numpy"]'
    )
    assert one.name == "demo/one"
    assert (one.needs, one.limit_s, one.value) == (("compiler",), 12.5, 7)
    assert one.dependencies == ("torch>=2.11", "numpy")
    assert one.docstring == "A snippet of the tests."


def test_most_valuable_first(tmp_path: Path) -> None:
    for name, value in (("demo/a", 1), ("demo/b", 9), ("other/c", 9)):
        write_snippet(tmp_path, BODY, name=name, value=value)
    assert list(snippet.load_all(tmp_path)) == ["demo/b", "other/c", "demo/a"]


def test_the_hash_does_not_depend_on_line_ends(tmp_path: Path) -> None:
    one = write_snippet(tmp_path, BODY)
    text = one.path.read_bytes()
    one.path.write_bytes(text.replace(b"\n", b"\r\n"))
    assert snippet.load("demo/one", tmp_path).sha256 == one.sha256
    one.path.write_bytes(text + b"# changed\n")
    assert snippet.load("demo/one", tmp_path).sha256 != one.sha256


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("# /// script", "# script", "exactly one '# /// script' header"),
        ("# needs = []", "# needs = ['gpu']", "known needs: cuda"),
        ("# needs = []", "# needs = 3", "known needs"),
        ("# limit_s = 60", "# limit_s = 0", "limit_s"),
        ("# limit_s = 60", "# limit_s = 'long'", "limit_s"),
        ("# limit_s = 60", "# limit_s = true", "limit_s"),
        ("# limit_s = 60\n", "", "limit_s"),
        ("# value = 0", "# value = 1.5", "value"),
        ("# value = 0", "# on_request = 1", "on_request"),
        ("# value = 0", "# arguments = {n = 1}", "beside measured_by"),
        ("# value = 0", "# measured_by = 'demo/one'", "the name of another snippet"),
        ("# value = 0", "# measured_by = 'demo/two'", "there is no file"),
        ("# value = 0", "# measured_by = '../two'", "the name of another snippet"),
        ("# value = 0", "# files = ['demo/two']", "wants a table of keywords"),
        ("# value = 0", "# files = {tool = 'demo/one'}", "not the name of another snippet"),
        ("# value = 0", "# files = {tool = 'demo/two'}", "there is no file"),
        ("# value = 0", "# files = {models = ['demo/two']}", "there is no file"),
        ("# value = 0", "# files = {models = [3]}", "not the name of another snippet"),
        ("# value = 0", "# priority = 1", "unknown keys ['priority']"),
        ("# [tool.kitchen]", "# [tool.other]", "no [tool.kitchen] table"),
        ("# value = 0", "# value = = 0", "not valid TOML"),
        ("# dependencies = []", '# dependencies = ["torch~=2.11"]', "torch~=2.11"),
        ('"""A snippet of the tests."""', "", "no module docstring"),
        ("def run():", "def walk():", "no function run()"),
        ("def run():", "def run(:", "not valid Python"),
    ],
)
def test_a_fault_names_the_file(tmp_path: Path, old: str, new: str, says: str) -> None:
    one = write_snippet(tmp_path, BODY)
    text = one.path.read_text("utf-8")
    assert old in text
    one.path.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(SnippetError) as caught:
        snippet.load("demo/one", tmp_path)
    assert says in str(caught.value)
    assert "one.py" in str(caught.value)


def test_a_subject_is_measured_by_another_snippet(tmp_path: Path) -> None:
    tool = write_snippet(tmp_path, "def run(*, model, n=0):\n    return [{'model': model, 'n': n}]\n", name="demo/tool")
    more = 'measured_by = "demo/tool"\n# arguments = {n = 3}'
    one = write_snippet(tmp_path, "def build():\n    return 1\n", more=more)
    assert one.runs == tool.path
    assert one.arguments == {"model": str(one.path.resolve()), "n": 3}
    assert (tool.runs, tool.arguments) == (tool.path, {})
    before = {one.sha256}
    for path in (tool.path, one.path):
        path.write_text(path.read_text("utf-8") + "# changed\n", "utf-8")
        again = snippet.load("demo/one", tmp_path)
        assert again.sha256 not in before, "the record depends on both files"
        assert again.digest_now() == again.sha256
        before.add(again.sha256)


def test_a_snippet_is_given_the_files_of_others(tmp_path: Path) -> None:
    tool = write_snippet(tmp_path, BODY, name="demo/tool")
    models = [write_snippet(tmp_path, BODY, name=f"demo/{which}") for which in ("mlp", "lstm")]
    more = 'files = {tool = "demo/tool", models = ["demo/mlp", "demo/lstm"]}'
    one = write_snippet(tmp_path, "def run(*, tool, models):\n    return [{'n': len(models)}]\n", more=more)
    paths = [str(model.path.resolve()) for model in models]
    assert one.arguments == {"tool": str(tool.path.resolve()), "models": paths}
    outcome = runner.run(one)
    assert (outcome.status, outcome.rows) == ("ok", [{"n": 2}])
    before = {one.sha256}
    for path in (one.path, tool.path, *(model.path for model in models)):
        path.write_text(path.read_text("utf-8") + "# changed\n", "utf-8")
        again = snippet.load("demo/one", tmp_path)
        assert again.sha256 not in before, "the record depends on all of them"
        assert again.digest_now() == again.sha256
        before.add(again.sha256)


def test_a_subject_of_something_that_measures_nothing(tmp_path: Path) -> None:
    write_snippet(tmp_path, BODY, name="demo/tool").path.write_text("def walk():\n    pass\n", "utf-8")
    with pytest.raises(SnippetError, match="no function run"):
        write_snippet(tmp_path, "", more='measured_by = "demo/tool"')


@pytest.mark.parametrize("name", ["../etc/passwd", "demo", "Demo/One", "demo/../x", "/demo/one", "demo/one.py", ""])
def test_a_name_that_is_no_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(SnippetError, match="not a snippet name"):
        snippet.load(name, tmp_path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SnippetError, match="no snippet 'demo/none'"):
        snippet.load("demo/none", tmp_path)


def test_a_file_name_that_no_page_could_name(tmp_path: Path) -> None:
    one = write_snippet(tmp_path, BODY)
    one.path.rename(one.path.with_name("One-Two.py"))
    with pytest.raises(SnippetError, match="lower case"):
        snippet.load_all(tmp_path)
