"""The usual recipe, repeated: its sums on made-up runs, and once for real (measuring/usual_recipe)."""

from __future__ import annotations

from typing import Any

import pytest

from kitchen import child
from snippets.measuring import usual_recipe as recipe

RUNS: list[dict[str, Any]] = [
    {"none": 1.0e-3, "eager": 1.1e-3, "aot_eager": 1.2e-3, "inductor": 0.8e-3},
    {"none": 1.0e-3, "eager": 0.9e-3, "aot_eager": 1.2e-3, "inductor": 1.25e-3},
    {"failed": "the process ended with code 1: no output"},
]


def test_each_run_names_its_winner() -> None:
    rows = recipe.rows_of("mlp", RUNS, 1)
    assert child.row_fault(rows) is None
    assert len(rows) == len(RUNS) * len(recipe.BACKENDS)
    assert [(row["repeat"], row["backend"]) for row in rows if row["winner"]] == [(1, "inductor"), (2, "eager")]
    inductor = [row for row in rows if row["backend"] == "inductor"]
    assert [row["winners"] for row in inductor] == [2, 2, 2]
    assert inductor[0]["speedup_ratio"] == pytest.approx(1.25)
    assert inductor[0]["speedup_least_ratio"] == pytest.approx(0.8)
    assert inductor[0]["speedup_greatest_ratio"] == pytest.approx(1.25)


def test_a_failed_run_is_rows_without_times() -> None:
    failed = [row for row in recipe.rows_of("mlp", RUNS, 1) if row["status"] == "failed"]
    assert len(failed) == len(recipe.BACKENDS)
    assert all(row["step_us"] is None for row in failed)
    assert failed[0]["note"] == RUNS[2]["failed"]


def test_all_failed() -> None:
    rows = recipe.rows_of("mlp", [RUNS[2]], 1)
    assert rows[0]["winners"] is None


@pytest.mark.slow
def test_for_real() -> None:
    rows = recipe.run(models=("mlp",), repeats=1, min_run_time_s=0.05)
    assert child.row_fault(rows) is None
    assert [row["status"] for row in rows] == ["ok"] * len(recipe.BACKENDS)
    assert sum(bool(row["winner"]) for row in rows) == 1


def test_no_answer_in_time_is_a_failure(tmp_path: object) -> None:
    job = {"model": "mlp", "threads": 1, "min_run_time_s": 0.05}
    assert "no answer within" in recipe.in_fresh_process(job, str(tmp_path), 0.1)["failed"]
