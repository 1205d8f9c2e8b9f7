"""A bundle carries a run from one machine's results to another's, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kitchen import bundle, results
from kitchen.__main__ import main
from kitchen.results import RecordError
from tests.record_files import add_run, record_data

FOLDER = "2026-11-29T213015Z-torch2.13.0"


def make(tmp_path: Path, **changes: Any) -> Path:
    run = add_run(tmp_path / "there", "b-gpu", [record_data("demo/one"), record_data("demo/two")], **changes)
    target = tmp_path / "run.bundle.json"
    bundle.write([run], target)
    return target


def tree(root: Path) -> dict[str, str]:
    return {p.relative_to(root).as_posix(): p.read_text() for p in sorted(root.rglob("*")) if p.is_file()}


def test_a_round_trip_is_the_same(tmp_path: Path) -> None:
    source = make(tmp_path)
    folders, count = bundle.merge(source, tmp_path / "here")
    assert (folders, count) == ([tmp_path / "here" / "b-gpu" / FOLDER], 2)
    there, here = ({k: json.loads(v) for k, v in tree(tmp_path / root).items()} for root in ("there", "here"))
    assert there == here


def test_again_changes_nothing(tmp_path: Path) -> None:
    source = make(tmp_path)
    bundle.merge(source, tmp_path / "here")
    before = tree(tmp_path / "here")
    assert bundle.merge(source, tmp_path / "here")[1] == 0
    assert tree(tmp_path / "here") == before


def test_a_run_that_went_on_adds_what_is_new(tmp_path: Path) -> None:
    source = make(tmp_path)
    early = json.loads(source.read_text())
    early["runs"][0]["records"] = early["runs"][0]["records"][:1]
    early["runs"][0]["run"] |= {"status": "running", "finished": None, "load_end": None, "steal_end": None}
    first = tmp_path / "early.json"
    first.write_text(json.dumps(early))
    assert bundle.merge(first, tmp_path / "here")[1] == 1
    assert bundle.merge(source, tmp_path / "here")[1] == 1
    assert results.load_run(tmp_path / "here" / "b-gpu" / FOLDER).status == "complete"
    # The early state never takes back what came later.
    assert bundle.merge(first, tmp_path / "here")[1] == 0
    assert results.load_run(tmp_path / "here" / "b-gpu" / FOLDER).status == "complete"


def test_several_runs_travel_together(tmp_path: Path) -> None:
    first = add_run(tmp_path / "there", "b-gpu", [record_data("demo/one")])
    second = add_run(tmp_path / "there", "b-gpu", [record_data("demo/two")], folder="2026-12-01T000000Z-torch2.13.0")
    target = tmp_path / "both.json"
    bundle.write([second, first], target)
    folders, count = bundle.merge(target, tmp_path / "here")
    assert [folder.name for folder in folders] == [first.name, second.name]
    assert count == 2
    assert {k: json.loads(v) for k, v in tree(tmp_path / "here").items()} == {
        k: json.loads(v) for k, v in tree(tmp_path / "there").items()
    }


def test_two_machines_merge_without_conflict(tmp_path: Path) -> None:
    source = make(tmp_path)
    add_run(tmp_path / "here", "a-cpu", [record_data("demo/one")])
    bundle.merge(source, tmp_path / "here")
    assert list(results.newest(tmp_path / "here", "demo/one")) == ["a-cpu", "b-gpu"]


def test_a_conflict_writes_nothing(tmp_path: Path) -> None:
    source = make(tmp_path)
    bundle.merge(source, tmp_path / "here")
    other = json.loads(source.read_text())
    other["runs"][0]["records"][0]["wall_s"] = 99
    other["runs"][0]["records"].append(record_data("demo/three"))
    other["runs"].append(other["runs"][0] | {"run_folder": "2026-01-01T000000Z-torch2.13.0"})
    source.write_text(json.dumps(other))
    before = tree(tmp_path / "here")
    with pytest.raises(RecordError, match="differs"):
        bundle.merge(source, tmp_path / "here")
    assert tree(tmp_path / "here") == before


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("", "run_folder", "../../outside"),
        ("", "run_folder", "/tmp/outside"),
        ("", "run_folder", FOLDER + "/../../x"),
        ("", "run_folder", FOLDER + "\n"),
        ("machine", "name", "../outside"),
        ("machine", "name", "a/b"),
        ("machine", "name", ".."),
        ("machine", "name", ""),
        ("machine", "title", 3),
        ("run", "machine", "another-cpu"),
        ("run", "environment", None),
        ("record", "snippet", "../../../outside"),
        ("record", "snippet", "/etc/cron"),
        ("record", "snippet", "demo"),
        ("record", "snippet", "demo/two"),
        ("record", "rows", [{"x": {"y": 1}}]),
        ("record", "rows", [{"step_us": "fast"}]),
        ("record", "rows", []),
        ("record", "status", "splendid"),
    ],
)
def test_a_hostile_or_broken_part_writes_nothing(tmp_path: Path, part: str, key: str, value: Any) -> None:
    source = make(tmp_path)
    data = json.loads(source.read_text())
    run = data["runs"][0]
    place = {"": run, "machine": data["machine"], "run": run["run"], "record": run["records"][0]}[part]
    place[key] = value
    source.write_text(json.dumps(data))
    here = tmp_path / "a" / "b" / "here"
    with pytest.raises(RecordError) as caught:
        bundle.merge(source, here)
    assert source.name in str(caught.value)
    assert not here.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.bundle.json", "there"]


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "PK\x03\x04", "{" * 50, "[" * 200_000])
def test_what_is_no_bundle(tmp_path: Path, text: str) -> None:
    source = tmp_path / "x.json"
    source.write_text(text)
    with pytest.raises(RecordError, match="not a bundle"):
        bundle.merge(source, tmp_path / "here")


def test_too_large_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make(tmp_path)
    monkeypatch.setattr(bundle, "MAX_BYTES", 10)
    with pytest.raises(RecordError, match="at most 10"):
        bundle.merge(source, tmp_path / "here")


@pytest.mark.parametrize("link", ["machine", "run", "chapter", "record"])
def test_a_link_on_the_way_is_not_followed(tmp_path: Path, link: str) -> None:
    source = make(tmp_path)
    here, outside = tmp_path / "here", tmp_path / "outside"
    outside.mkdir()
    run = here / "b-gpu" / FOLDER
    if link == "machine":
        here.mkdir()
        (here / "b-gpu").symlink_to(outside)
    elif link == "run":
        (here / "b-gpu").mkdir(parents=True)
        run.symlink_to(outside)
    else:
        bundle.merge(source, here)
        if link == "record":
            (run / "demo/one.json").unlink()
            (run / "demo/one.json").symlink_to(outside / "x.json")
        else:
            for path in (run / "demo").iterdir():
                path.unlink()
            (run / "demo").rmdir()
            (run / "demo").symlink_to(outside)
    with pytest.raises(RecordError, match="is a link"):
        bundle.merge(source, here)
    assert list(outside.iterdir()) == []


def test_the_command_says_what_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = make(tmp_path)
    assert main(["import", str(source), "--results", str(tmp_path / "here")]) == 0
    assert "2 new records" in capsys.readouterr().out
    assert main(["import", str(tmp_path / "none.json"), "--results", str(tmp_path / "here")]) == 1
    assert "none.json: cannot be read" in capsys.readouterr().err
