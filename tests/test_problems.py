"""The catalogue of problems: every one is provoked and fixed here, has a section in both languages, and is found."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kitchen import page, problems, results
from kitchen.context import LANGUAGES, PageError
from kitchen.problems import Problem
from tests.page_tree import Tree, cells, render, use
from tests.test_snippets import RUN, SNIPPETS

Row = dict[str, Any]
KNOWN = problems.load()
PROVOKED = {name: one for name, one in KNOWN.items() if not one.not_run}
LIVE = [name for name, one in PROVOKED.items() if not one.cured_in]
COLUMNS = ["step", "call", "happened", "raised_at", "error", "message", "evidence", "status", "note"]
HAPPENED = {"error", "warning", "wrong", "recompiled", "not compiled", "costly", "fine"}
RAISED_AT = {"torch.compile()", "first call", "later call", "backward", "load", "save", "import", ""}
REFERENCE = "amd-epyc-turin-2vcpu"
#: A path of the machine, or an address in memory: no text for a page, and another one each time.
OF_THE_MACHINE = re.compile(r"/tmp/|/root/|/home/|/work/|site-packages/|0x[0-9a-f]{6,}")


def run_one(one: Problem, folder: Path) -> list[Row]:
    """The rows of a problem's snippet, copied alone into an empty folder and run in a process of its own."""
    copy = folder / f"{one.snippet.rpartition('/')[2]}.py"
    copy.write_bytes((SNIPPETS / f"{one.snippet}.py").read_bytes())
    answer = folder / "rows.json"
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(copy), "{}", str(answer)],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder)},
        timeout=600,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows: list[Row] = json.loads(answer.read_text("utf-8"))
    return rows


def check(one: Problem, rows: list[Row]) -> None:
    """What has to be so of the rows of any problem."""
    for row in rows:
        assert list(row) == COLUMNS
        assert row["step"] in ("problem", "fix")
        assert row["call"]
        assert "\n" not in row["call"]
        assert row["happened"] in HAPPENED or row["status"] != "ok"
        assert row["raised_at"] in RAISED_AT
        assert not OF_THE_MACHINE.search(row["message"] + row["evidence"]), row
        assert len(row["message"]) <= 1500
        if row["happened"] == "error":
            assert row["error"], "an error has a name"
    assert {row["step"] for row in rows} == {"problem", "fix"}
    tried = [row for row in rows if row["status"] == "ok"]
    assert tried, rows
    assert problems.mended(rows), [row for row in rows if row["step"] == "fix"]
    assert problems.occurs(rows) is not bool(one.cured_in), rows
    if one.message and not one.cured_in:
        assert any(one.message in row["message"] for row in rows if row["step"] == "problem"), rows


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The rows of every problem that is to be tried, two at a time: they count, and few of them look at a clock."""
    asking = [item for item in request.session.items if "runs" in getattr(item, "fixturenames", ())]
    names = [getattr(item, "callspec").params["name"] for item in asking]  # noqa: B009 - functions alone have one
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield {name: pool.submit(run_one, KNOWN[name], tmp_path_factory.mktemp(name)) for name in names}
        pool.shutdown(cancel_futures=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # the first waits for its turn
@pytest.mark.parametrize("name", sorted(PROVOKED))
def test_it_is_provoked_and_the_fix_works(name: str, runs: dict[str, Any]) -> None:
    rows = runs[name].result()
    untried = [row["note"] for row in rows if row["step"] == "problem" and row["status"] == "not measured"]
    if len(untried) == sum(row["step"] == "problem" for row in rows):
        # A kernel without Landlock, a torch without gloo: then the record of the reference machine has to do.
        assert all(untried), "what was not tried says why"
        pytest.skip(f"cannot be provoked here: {untried[0]}")
    check(KNOWN[name], rows)


def test_there_are_as_many_as_promised() -> None:
    assert len(LIVE) >= 45
    assert len([one for one in KNOWN.values() if one.message]) >= 30


@pytest.mark.parametrize("name", sorted(PROVOKED))
def test_the_record_says_the_same(name: str) -> None:
    one = KNOWN[name]
    record = results.newest(Path(__file__).parents[1] / "results", one.snippet)[REFERENCE]
    assert record.status == "ok", record.reason
    check(one, record.rows)


def test_every_snippet_of_the_folder_is_a_problem_and_the_other_way_round() -> None:
    files = {f"errors/{path.stem}" for path in (SNIPPETS / "errors").glob("*.py")} - {"errors/preflight"}
    assert files == {one.snippet for one in PROVOKED.values()}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_problem_has_its_section_and_shows_its_record_there(name: str, language: str) -> None:
    one = KNOWN[name]
    path = Path(__file__).parents[1] / "docs" / language / "errors" / f"{one.page}.md"
    sections = re.split(r"^(?=#{2,4} )", path.read_text("utf-8"), flags=re.MULTILINE)
    (own,) = (text for text in sections if re.match(rf"#{{2,4}} .*\{{#{name}\}}$", text.partition("\n")[0]))
    assert f'problem("{name}")' in own
    if one.message:
        assert one.message in own.partition("\n")[0] or one.message in own, "the message is on the page"


def test_every_section_with_a_record_is_a_problem() -> None:
    for language in LANGUAGES:
        for path in (Path(__file__).parents[1] / "docs" / language / "errors").glob("*.md"):
            shown = set(re.findall(r'problem\("([^"]+)"\)', path.read_text("utf-8")))
            assert shown == {name for name, one in KNOWN.items() if one.page == path.stem}, path


@pytest.mark.parametrize("name", sorted(PROVOKED))
def test_problem_and_fix_are_functions_that_a_page_can_show(name: str) -> None:
    tree = ast.parse((SNIPPETS / f"{KNOWN[name].snippet}.py").read_text("utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "run" in names
    assert len(names) >= 3


# ---------------------------------------------------------------- a changed record changes what the page says


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    made = Tree(tmp_path)
    use(made, monkeypatch, url="errors/capture/")
    folder = tmp_path / "problems"
    folder.mkdir()
    (folder / "capture.toml").write_text(
        '[planted-error]\nmessage = "a planted <error>"\nsymptoms = ["error", "slower"]\nlayer = "dynamo"\n'
        'en = "it is `planted`"\nzh = "种下的"\nsources = ["pytorch#1", "some/where#2", "https://example.org/a"]\n'
        '\n[far-away]\nsymptoms = ["crash"]\nlayer = "runtime"\nen = "far"\nzh = "远"\n'
        'sources = ["pytorch#3"]\nnot_run = "cuda"\n'
    )
    monkeypatch.setattr(problems, "FOLDER", folder)
    return made


def row(step: str, happened: str, **changes: Any) -> Row:
    values = dict.fromkeys(COLUMNS, "") | {"step": step, "call": "f(x)", "happened": happened, "status": "ok"}
    return values | changes


NAME = "errors/planted_error"
BOTH = [row("problem", "error", error="E", message="here is a planted <error> ```\nin two lines"), row("fix", "fine")]


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        (BOTH, "provoked"),
        ([BOTH[0], row("fix", "wrong")], "unfixed"),
        ([BOTH[0], row("fix", "fine"), row("fix", "error")], "unfixed"),
        ([row("problem", "fine"), row("fix", "fine")], "gone"),
        ([row("problem", "fine", status="not measured"), row("fix", "fine")], "unknown"),
        ([BOTH[0], row("fix", "", status="not measured", note="no compiler")], "unknown"),
    ],
)
def test_the_state_follows_from_the_record(tree: Tree, rows: list[Row], state: str) -> None:
    tree.record(NAME, rows)
    html = render(page.problem("planted-error"))
    (line,) = html.all("p", "ck-verdict")
    assert line.attributes["data-problem"] == state
    assert "2.13.0" in line.text


@pytest.mark.parametrize("missing", ["happened", "step", "message", "evidence", "call"])
def test_a_row_that_lacks_a_column_decides_nothing_and_is_shown(tree: Tree, missing: str) -> None:
    lacking = [{key: value for key, value in each.items() if key != missing} for each in BOTH]
    tree.record(NAME, [*lacking, BOTH[1]])
    html = render(page.problem("planted-error"))
    found = html.one("p", "ck-verdict").attributes["data-problem"]
    assert found == ("unknown" if missing in ("happened", "step") else "provoked")
    assert len(cells(html.one("table"))) == 3


@pytest.mark.parametrize("status", ["failed", "timeout", "unavailable"])
def test_a_record_that_is_not_ok_tells_why(tree: Tree, status: str) -> None:
    tree.record(NAME, [], status=status, reason="it <broke>")
    assert "t <broke>" in render(page.problem("planted-error")).text
    tree.record(NAME, BOTH, day="2026-11-30")
    tree.record(NAME, [], status=status, reason="it broke", day="2026-11-30", torch="2.15.0a0", beside=True)
    told = render(page.problem("planted-error")).one("p", "ck-verdict")
    assert told.attributes["data-problem"] == "provoked"
    assert "2.15.0a0" in told.text


def test_message_code_and_sources_are_shown(tree: Tree) -> None:
    tree.record(NAME, BOTH)
    html = render(page.problem("planted-error"))
    assert "here is a planted <error> ```\nin two lines" in html.text
    assert "def run" in html.one("details").text
    assert "requires-python" not in html.one("details").text
    links = [a.attributes["href"] for a in html.all("a")]
    assert "https://github.com/pytorch/pytorch/issues/1" in links
    assert "https://github.com/some/where/issues/2" in links
    assert "https://example.org/a" in links
    assert "../../../snippets/errors/planted_error.py" in links


def test_the_code_shown_is_what_provokes_and_fixes_and_what_that_uses() -> None:
    code = (
        "import torch\n\nX = 1\nY = 2\n\n\ndef run():\n    return [look(problem), look(fix_it)]\n\n\n"
        "def look(f):\n    return f(Y)\n\n\n@torch.no_grad\ndef problem(a):\n    return helper(X)\n\n\n"
        "def helper(x):\n    return x\n\n\ndef fix_it(a):\n    return 0\n"
    )
    shown = problems.heart(code)
    for part in ("X = 1", "@torch.no_grad\ndef problem", "def helper", "def fix_it"):
        assert part in shown
    for part in ("def run", "def look", "Y = 2", "import torch"):
        assert part not in shown
    assert problems.heart("print(1)\n") == "print(1)\n"


def test_versions_stand_side_by_side_where_the_snippet_is_the_same(tree: Tree) -> None:
    tree.record(NAME, BOTH, day="2026-11-28")
    gone = [row("problem", "fine"), row("fix", "fine")]
    tree.record(NAME, gone, day="2026-11-29", torch="2.14.1", beside=True)
    tree.record(NAME, BOTH, day="2026-11-29", torch="2.9.0", beside=True)
    tree.record(NAME, gone, day="2026-11-27", torch="2.8.0", beside=True, stale=True)
    told = render(page.problem("planted-error")).one("p", "ck-verdict").text
    assert "On torch 2.13.0 the problem shows" in told
    assert "The outcome is the same on 2.9.0." in told
    assert "On 2.14.1 it does not happen." in told
    assert "2.8.0" not in told


def test_what_was_not_run_says_so(tree: Tree) -> None:
    html = render(page.problem("far-away"))
    assert html.one("p", "ck-verdict").attributes["data-problem"] == "not_run"
    assert "not run here" in html.text
    assert not html.all("table")


def test_the_ways_in(tree: Tree) -> None:
    links = {
        way: [a.attributes["href"] for a in render(page.problems(*way)).all("a")]
        for way in (("message",), ("symptom", "slower"), ("symptom", "crash"), ("layer", "dynamo"), ("layer", "aot"))
    }
    planted, far = (f"../../../en/errors/capture/#{name}" for name in ("planted-error", "far-away"))
    assert list(links.values()) == [[planted], [planted], [far], [planted], []]
    for wrong in (("symptom", "slow"), ("layer", None), ("colour", "red")):
        with pytest.raises(PageError):
            page.problems(*wrong)


def test_the_tally_counts_by_version(tree: Tree) -> None:
    tree.record(NAME, BOTH, day="2026-11-28")
    tree.record(NAME, [BOTH[0], row("fix", "wrong")], torch="2.14.1", beside=True)
    html = render(page.problems("tally"))
    assert "2 problems" in html.text
    items = [item.text for item in html.all("li")]
    assert ["1 provoked, the fix works in 1" in item for item in items] == [True, False]
    assert "1 provoked, the fix works in 0" in items[1]


def test_what_changed_between_versions_is_a_table_of_its_own(tree: Tree) -> None:
    tree.record(NAME, BOTH, day="2026-11-28")
    tree.record(NAME, BOTH, day="2026-11-27", torch="2.11.0", beside=True)
    assert "behaves otherwise" in render(page.problems("changed")).text
    tree.record(NAME, [row("problem", "fine"), row("fix", "fine")], torch="2.14.1", beside=True)
    ((name, *states),) = cells(render(page.problems("changed")).one("table"))
    assert (name, states) == ("it is planted", ["provoked, fixed", "provoked, fixed", "does not happen"])


def test_two_machines_are_not_taken_for_two_versions(tree: Tree) -> None:
    gone = [row("problem", "fine"), row("fix", "fine")]
    for machine, rows in (("toy-cpu", BOTH), ("other-cpu", gone)):
        tree.record(NAME, rows, machine=machine, day="2026-11-28")
    tree.record(NAME, BOTH, day="2026-11-29", torch="2.14.1", beside=True)
    assert "behaves otherwise" in render(page.problems("changed")).text
    tree.record(NAME, BOTH, machine="other-cpu", day="2026-11-29", torch="2.14.1", beside=True)
    ((name, *states),) = cells(render(page.problems("changed")).one("table"))
    assert name.endswith("Other Cpu")
    assert states == ["does not happen", "provoked, fixed"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[Bad_Id]\nsymptoms = ["error"]\nlayer = "aot"\nen = "a"\nzh = "b"', "an id has"),
        ('[x]\nlayer = "aot"\nen = "a"\nzh = "b"', "symptoms is missing"),
        ('[x]\nsymptoms = ["slow"]\nlayer = "aot"\nen = "a"\nzh = "b"', "slower"),
        ('[x]\nsymptoms = ["error"]\nlayer = "dyn"\nen = "a"\nzh = "b"', "did you mean 'dynamo'"),
        ('[x]\nsymptoms = ["error"]\nlayer = "aot"\nen = "a"\nzh = "b"\nsources = ["issue 7"]', "source 'issue 7'"),
        ('[x]\nsymptoms = ["error"]\nlayer = "aot"\nen = "a"\nzh = "b"\nnot_run = "cuda"', "needs a source"),
        ('[x]\nsymptoms = ["error"]\nlayer = "aot"\nen = "a"\nzh = "b"\nmesage = "c"', "did you mean 'message'"),
        ('[x]\nsymptoms = "error"\nlayer = "aot"\nen = "a"\nzh = "b"', "[x]: symptoms: write a list"),
        ('[x]\nsymptoms = [1]\nlayer = "aot"\nen = "a"\nzh = "b"', "[x]: symptoms: write a list"),
        ('[x]\nsymptoms = ["error"]\nlayer = ["aot"]\nen = "a"\nzh = "b"', "layer: write a text, in quotes"),
        ('[x]\nsymptoms = ["error"]\nlayer = "aot"\nen = "a"\nzh = "b"\ncured_in = 2.4', "cured_in: write a text"),
        ('[x]\nsymptoms = ["error"]\nlayer = "aot"\nen = "a"\nzh = "b"\nsources = ["x y"]', "[x]: source 'x y'"),
        ('layer = "aot"\n', "[layer]: is no table of its own"),
        ("[x\n", "capture.toml"),
    ],
)
def test_wrong_data_is_named(tree: Tree, text: str, said: str) -> None:
    (problems.FOLDER / "capture.toml").write_text(text)
    with pytest.raises(PageError, match=re.escape(said)):
        problems.load()


def test_an_unknown_problem_is_told_with_a_near_one(tree: Tree) -> None:
    with pytest.raises(PageError, match="did you mean 'planted-error'"):
        page.problem("planted-eror")
