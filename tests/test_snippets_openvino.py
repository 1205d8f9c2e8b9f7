"""The snippet on OpenVINO: what it ran, what it left to torch, and the wrong gradients, proved with the mend beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.test_snippets import load, run_alone

pytest.importorskip("torch")
pytest.importorskip("openvino")

NAME = "third_party/openvino_coverage"
Row = dict[str, Any]
ALL: Row = {
    "cases": ["mlp", "convolution, ReLU", "encoder, fast path", "one operator"],
    "training_cases": ["mlp", "one graph, several calls"],
    "precisions": ["nothing", "INFERENCE_PRECISION_HINT=f32"],
    "behaviours": ["mode", "unknown device", "output kept", "threads", "options of an earlier call"],
}
NONE: Row = {"cases": [], "training_cases": [], "precisions": [], "behaviours": []}


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return run_alone(NAME, ALL)


def one(rows: list[Row], kind: str, case: str, way: str = "default") -> Row:
    (row,) = (row for row in rows if (row["kind"], row["case"], row["way"]) == (kind, case, way))
    return row


@pytest.mark.slow
def test_rows_share_their_columns_and_name_the_package(rows: list[Row]) -> None:
    assert len(rows) == 4 * 3 + 2 * 3 + 2 + 5
    assert len({frozenset(row) for row in rows}) == 1
    for row in rows:
        assert (row["status"], row["note"]) == ("ok", None)
        assert row["package"] == "openvino"
        assert row["package_version"]
        assert (row["error"] is None) == (row["raised_at"] == "never")
        assert "/" not in (row["message"] or "").partition(".cpp")[0]


@pytest.mark.slow
def test_what_openvino_ran_and_what_torch_ran_are_told_apart(rows: list[Row]) -> None:
    for way in ("default", "aot_autograd", "convert_model"):
        row = one(rows, "inference", "mlp", way)
        assert (row["outcome"], row["ran_in"], row["executed"], row["torch_operators"]) == ("runs", "OpenVINO", 1, 0)
        assert row["eager_operators"] >= 3
        assert 0 < row["relative_error"] < 1e-5, "float32 was asked for"
    assert one(rows, "inference", "mlp", "convert_model")["handed_over"] == 1
    for case in ("encoder, fast path", "one operator"):
        row = one(rows, "inference", case)
        assert (row["outcome"], row["ran_in"], row["executed"]) == ("runs", "torch", 0)
        assert row["torch_operators"] == row["eager_operators"] > 0
        assert one(rows, "inference", case, "convert_model")["ran_in"] == "OpenVINO"


@pytest.mark.slow
def test_the_convolution_that_the_default_refuses_runs_by_the_other_roads(rows: list[Row]) -> None:
    refused = one(rows, "inference", "convolution, ReLU")
    assert (refused["outcome"], refused["raised_at"]) == ("error", "first call")
    for way in ("aot_autograd", "convert_model"):
        assert one(rows, "inference", "convolution, ReLU", way)["ran_in"] == "OpenVINO"


@pytest.mark.slow
def test_gradients_are_lost_kept_wrong_and_mended(rows: list[Row]) -> None:
    for case in ("mlp", "one graph, several calls"):
        assert one(rows, "training", case)["gradients"] == "lost"
    assert one(rows, "training", "mlp", "aot_autograd")["gradients"] == "equal"
    wrong = one(rows, "training", "one graph, several calls", "aot_autograd")
    assert (wrong["gradients"], wrong["outcome"]) == ("wrong", "wrong")
    mended = one(rows, "training", "one graph, several calls", "aot_autograd, outputs copied")
    assert (mended["gradients"], mended["outcome"]) == ("equal", "runs")
    assert wrong["executed"] == mended["executed"] > 3, "the same calls, but for the copies"


@pytest.mark.slow
def test_precision_is_read_from_the_compiled_model(rows: list[Row]) -> None:
    asked = one(rows, "precision", "INFERENCE_PRECISION_HINT=f32")
    assert (asked["used"], asked["executed"]) == ("f32", 1)
    assert asked["relative_error"] < 1e-5
    chosen = one(rows, "precision", "nothing")
    assert (chosen["used"] == "f32") == (chosen["relative_error"] < 1e-5), "the error shows what was used"


@pytest.mark.slow
def test_surprises(rows: list[Row]) -> None:
    assert one(rows, "behaviour", "mode")["error"] == "TypeError"
    device = one(rows, "behaviour", "unknown device")
    assert (device["outcome"], device["raised_at"], device["used"]) == ("runs", "swallowed", "torch")
    kept = one(rows, "behaviour", "output kept")
    assert (kept["used"], kept["outcome"]) == ("overwritten", "wrong")
    assert one(rows, "behaviour", "threads")["used"] == "1"
    assert one(rows, "behaviour", "options of an earlier call")["used"] == "Inductor"


def test_a_process_that_dies_is_a_failed_row_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(NAME)

    def child(job: Row, folder: object, limit_s: float) -> str | None:
        with Path(job["answer"]).open("a") as answer:
            for number, (_, case, _) in job["left"]:
                if case == "LSTM":
                    return "the process died of signal 11"
                answer.write(f'[{number}, {{"outcome": "runs", "relative_error": 0.0}}]\n')
        return None

    monkeypatch.setattr(module, "run_child", child)
    rows = module.run(**NONE | {"cases": ["mlp", "LSTM", "embedding"]})
    assert [row["status"] for row in rows] == ["ok"] * 3 + ["failed"] * 3 + ["ok"] * 3
    assert {row["note"] for row in rows} == {None, "the process died of signal 11"}
    assert len({frozenset(row) for row in rows}) == 1


def test_messages_lose_paths_and_say_the_cause() -> None:
    module = load(NAME)
    error = RuntimeError("Check 'is_number(name)' failed at src/x.cpp:4:\nFrontEnd API failed:\nTensor name: relu:0\n")
    assert module.first_line(error) == "Tensor name: relu:0"
    assert module.first_line(OSError("no file /home/me/venv/lib/thing.so here")) == "no file thing.so here"
    assert module.first_line(AssertionError()) == ""
