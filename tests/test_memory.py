"""While serving, a page function is asked again only where something that its answer rests on has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kitchen import memory, results
from kitchen.context import State


def test_an_answer_is_kept_until_a_record_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(memory, "FRESH_S", 0.0)
    monkeypatch.setattr(memory, "_answers", {})
    state = State(url="one/")
    asked = []

    def table(name: str) -> str:
        asked.append(name)
        state._ids += 1
        return f"{name} {len(asked)}"

    def recall(name: str) -> str:
        state._ids = 0
        return memory.recall(state, table, (name,), {})

    assert [recall("a"), recall("a"), recall("b")] == ["a 1", "a 1", "b 2"]
    assert state._ids == 1, "ids go on as if it had been asked"
    state.url = "two/"
    assert recall("a") == "a 3"
    (tmp_path / "record.json").write_text("{}")
    assert recall("a") == "a 4"


def test_it_is_off_unless_the_site_is_served() -> None:
    assert memory.on is False
