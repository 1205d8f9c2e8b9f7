"""The data of the results explorer, held to the records, and its sums, held to Python's."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from kitchen import data, results, tools
from kitchen.tools import explorer
from tests import node


@pytest.fixture(scope="module")
def payload() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tools.files("explorer", "en")["explorer"])
    return found


def test_each_entry_is_a_row_of_its_record(payload: dict[str, Any]) -> None:
    assert len(payload["entries"]) >= 60
    for entry in payload["entries"]:
        about = payload["records"][entry["record"]]
        record = json.loads((results.RESULTS.parent / about["url"]).read_text("utf-8"))
        assert record["snippet"] == about["snippet"]
        row = record["rows"][entry["row"]]
        assert row["variant"] == entry["variant"]
        for column in (*explorer.NUMBERS, *explorer.ENDS):
            assert (row.get(column) is None) == (column not in entry), (about["url"], column)
            if column in entry:
                assert entry[column] == pytest.approx(row[column], rel=1e-5)
        assert (results.RESULTS.parent / about["run"]).name == "run.json"
        assert (results.RESULTS.parent / about["run"]).is_file()


def test_the_newest_record_of_each_version_is_taken(payload: dict[str, Any]) -> None:
    keys = [(one["machine"], one["torch"], one["snippet"]) for one in payload["records"]]
    assert len(keys) == len(set(keys))
    for one in payload["records"]:
        same = [
            record
            for record in data.records()
            if (record.machine, str(record.run.environment["torch"]), record.snippet)
            == (one["machine"], one["torch"], one["snippet"])
        ]
        assert one["url"].endswith(max(same, key=lambda r: r.started).path.relative_to(results.RESULTS).as_posix())


def test_the_mean_counts_failures(payload: dict[str, Any]) -> None:
    sums = node.answer(
        "logic.summarize(logic.choose(logic.join(given), {workload: 'inference'}))", payload, logic="explorer/logic.js"
    )
    assert sums
    for line in sums:
        own = [e for e in payload["entries"] if (e["variant"], e["workload"]) == (line["variant"], "inference")]
        ratios = [e["speedup_ratio"] if e["status"] == "ok" else 1.0 for e in own]
        assert line["tried"] == len(own)
        assert line["mean"] == pytest.approx(math.exp(sum(map(math.log, ratios)) / len(ratios)))


def test_no_records_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "records", list)
    monkeypatch.setattr(data, "machines", dict)
    assert json.loads(tools.files("explorer", "zh")["explorer"])["entries"] == []


def test_a_failed_record_is_an_entry_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [record for record in data.records() if record.snippet == "models/mlp"][-1]
    from dataclasses import replace

    failed = replace(found, status="timeout", reason="ran past its limit", rows=[], started="2999-01-01T00:00:00Z")
    monkeypatch.setattr(data, "records", lambda: [found, failed])
    entries = json.loads(tools.files("explorer", "en")["explorer"])["entries"]
    assert [(e["model"], e["status"], e["note"]) for e in entries] == [("mlp", "timeout", "ran past its limit")]


def test_a_path_of_the_machine_that_measured_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    found = [record for record in data.records() if record.snippet == "models/mlp"][-1]
    reason = "3/0: x == 4  # home/me/checkout/snippets/models/mlp.py:53 in t; /srv/snippets/models/mlp.py:9"
    told = replace(found, rows=[{**found.rows[0], "recompile_reasons": reason}])
    monkeypatch.setattr(data, "records", lambda: [told])
    (entry,) = json.loads(tools.files("explorer", "en")["explorer"])["entries"]
    assert entry["recompile_reasons"] == "3/0: x == 4  # snippets/models/mlp.py:53 in t; snippets/models/mlp.py:9"
