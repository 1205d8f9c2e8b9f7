"""Records on disk: validated on the way in and out, written in one step, newest chosen per machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kitchen import data, results, snippet
from kitchen.results import RecordError
from tests.record_files import add_run, record_data
from tests.snippet_files import run_body, write_snippet

REPO = Path(__file__).resolve().parent.parent


def test_the_newest_record_of_each_machine(tmp_path: Path) -> None:
    add_run(tmp_path, "b-cpu", [record_data("demo/one", started="2026-01-01T00:00:00Z", wall_s=1)])
    add_run(
        tmp_path,
        "b-cpu",
        [record_data("demo/one", started="2026-02-01T00:00:00Z", wall_s=2)],
        folder="2026-02-01T000000Z-torch2.13.0",
    )
    add_run(tmp_path, "a-cpu", [record_data("demo/two")])
    add_run(tmp_path, "c-gpu", [record_data("demo/one", wall_s=3)], machine_changes={"kind": "cuda"})
    newest = results.newest(tmp_path, "demo/one")
    assert {name: record.wall_s for name, record in newest.items()} == {"c-gpu": 3, "b-cpu": 2}
    assert list(results.load_machines(tmp_path)) == ["c-gpu", "a-cpu", "b-cpu"]
    assert len(results.load_records(tmp_path)) == 4


def test_a_record_knows_its_run_and_machine(tmp_path: Path) -> None:
    add_run(tmp_path, "a-cpu", [record_data("demo/one")])
    record = results.newest(tmp_path, "demo/one")["a-cpu"]
    assert record.machine == "a-cpu"
    assert record.run.environment["torch"] == "2.13.0+cpu"


def test_stale_is_a_matter_of_the_hash(tmp_path: Path) -> None:
    one = write_snippet(tmp_path / "snippets", run_body("return [{'n': 1}]"))
    add_run(tmp_path / "results", "a-cpu", [record_data("demo/one", sha256=one.sha256)])
    record = results.newest(tmp_path / "results", "demo/one")["a-cpu"]
    assert not results.is_stale(record, one)
    one.path.write_text(one.path.read_text("utf-8") + "# changed\n", "utf-8")
    assert results.is_stale(record, snippet.load("demo/one", tmp_path / "snippets"))


def test_an_empty_or_missing_folder_has_no_records(tmp_path: Path) -> None:
    assert results.load_records(tmp_path) == []
    assert results.newest(tmp_path / "none", "demo/one") == {}


@pytest.mark.parametrize(
    ("file", "change", "says"),
    [
        ("demo/one.json", {"wall_s": "fast"}, "wall_s: wants number, has 'fast'"),
        ("demo/one.json", {"rows": [{"a": {"b": 1}}]}, "rows[0].a: wants"),
        ("demo/one.json", {"rows": [{"step_us": "fast"}]}, "rows[0].step_us: wants a number or null, has 'fast'"),
        ("demo/one.json", {"rows": [{"n": [1.0]}]}, "rows[0].n: only a samples_ column holds a list"),
        ("demo/one.json", {"rows": []}, "rows: is empty, but the status is ok"),
        ("demo/one.json", {"status": "fine"}, "status: wants one of ok, failed, timeout, unavailable"),
        ("demo/one.json", {"sha256": None}, "sha256"),
        ("demo/one.json", {"snippet": "demo/two"}, "snippet: is 'demo/two', but its path says 'demo/one'"),
        ("demo/one.json", {"snippet": "../../x"}, "snippet"),
        ("demo/one.json", {"more": 1}, "more: is not a known field"),
        ("run.json", {"machine": "b-cpu"}, "machine: is 'b-cpu', but its folder is 'a-cpu'"),
        ("run.json", {"environment": {}}, "environment.python: is missing"),
        ("../machine.json", {"name": "b-cpu"}, "name: is 'b-cpu', but its folder is 'a-cpu'"),
        ("../machine.json", {"cores": 0}, "cores: 0 is below 1"),
    ],
)
def test_a_bad_file_is_named_with_its_field(tmp_path: Path, file: str, change: dict[str, Any], says: str) -> None:
    path = add_run(tmp_path, "a-cpu", [record_data("demo/one")]) / file
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RecordError) as caught:
        results.load_records(tmp_path)
    assert says in str(caught.value)
    assert path.name in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "null", "[]", "\x00", '{"format": "compile-kitchen/record"', "[" * 100_000])
def test_a_file_that_is_not_a_record(tmp_path: Path, text: str) -> None:
    path = add_run(tmp_path, "a-cpu", [record_data("demo/one")]) / "demo/one.json"
    path.write_text(text)
    with pytest.raises(RecordError, match=r"one\.json"):
        results.load_records(tmp_path)


def test_a_file_too_large_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_run(tmp_path, "a-cpu", [record_data("demo/one")])
    monkeypatch.setattr(results, "MAX_BYTES", 100)
    with pytest.raises(RecordError, match="at most 100"):
        results.load_records(tmp_path)


def test_a_folder_without_run_json_or_of_another_kind(tmp_path: Path) -> None:
    run = add_run(tmp_path, "a-cpu", [record_data("demo/one")])
    (run / "run.json").unlink()
    with pytest.raises(RecordError, match=r"run\.json: cannot be read"):
        results.load_records(tmp_path)
    (tmp_path / "a-cpu" / "notes").mkdir()
    with pytest.raises(RecordError, match="not a run's folder"):
        results.newest(tmp_path, "demo/one")


def test_what_breaks_the_schema_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "demo/one.json"
    results.write_json(path, record_data("demo/one"), "record")
    before = path.read_bytes()
    with pytest.raises(RecordError, match="wall_s"):
        results.write_json(path, record_data("demo/one", wall_s=-1), "record")
    with pytest.raises(RecordError, match="finite"):
        results.write_json(path, record_data("demo/one", rows=[{"x": float("nan")}]), "record")
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_failing_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "one.json"
    results.write_atomically(path, "before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        results.write_atomically(path, "after")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path], "the half-written file is taken away"


def test_never_a_half_written_record_however_often_the_writer_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "demo/one.json"
    program = (
        "from pathlib import Path\nfrom kitchen import results\nfrom tests.record_files import record_data\n"
        "rows = [{'text': 'x' * 100_000, 'n': n} for n in range(20)]\n"
        "while True:\n"
        f"    results.write_json(Path({str(path)!r}), record_data('demo/one', rows=rows), 'record')\n"
    )
    seen = 0
    for attempt in range(6):
        path.unlink(missing_ok=True)
        process = subprocess.Popen([sys.executable, "-c", program], cwd=REPO)
        deadline = time.monotonic() + 20
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05 + 0.013 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(results.read_json(path, "record")["rows"]) == 20
        seen += 1
    assert seen == 6


def test_two_runs_in_one_second_get_two_folders(tmp_path: Path) -> None:
    made = [results.new_run_folder(tmp_path, "a-cpu", "2.13.0+cpu", "2026-11-29T21:30:15Z") for _ in range(3)]
    assert [m.name for m in made] == [
        "2026-11-29T213015Z-torch2.13.0",
        "2026-11-29T213015Z-2-torch2.13.0",
        "2026-11-29T213015Z-3-torch2.13.0",
    ]
    assert all(results.RUN_FOLDER.fullmatch(m.name) for m in made)


def test_files_left_by_a_killed_writer_are_not_read(tmp_path: Path) -> None:
    run = add_run(tmp_path, "a-cpu", [record_data("demo/one")])
    (run / "demo" / ".one.json.abc.tmp").write_text("{")
    (run / "demo" / ".two.json").write_text("{")
    assert len(results.load_records(tmp_path)) == 1


def test_every_record_of_the_repository_is_valid() -> None:
    for record in results.load_records(REPO / "results"):
        assert record.status in ("ok", "failed", "timeout", "unavailable")


def test_no_host_name_or_path_of_ours_in_the_results() -> None:
    here = {os.uname().nodename, str(REPO), str(Path.home())} - {"", "/"}
    for path in (REPO / "results").rglob("*.json"):
        text = path.read_text("utf-8")
        assert not [name for name in here if len(name) > 3 and name in text], path


def test_while_held_files_are_looked_for_once(tmp_path: Path) -> None:
    """A build of one language looks once; after it, what is new is seen."""
    (tmp_path / "one.json").write_text("{}")
    data.hold(True)
    try:
        first = data.signature(tmp_path, ".json")
        (tmp_path / "two.json").write_text("{}")
        assert data.signature(tmp_path, ".json") == first
    finally:
        data.hold(False)
    assert len(data.signature(tmp_path, ".json")) == 2
