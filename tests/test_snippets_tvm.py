"""The snippets on TVM: what each route takes, the gradients lost and brought back, and the search for schedules."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kitchen import labels
from kitchen.context import LANGUAGES
from tests.test_snippets import SNIPPETS, STATUSES, load, run_alone

torch = pytest.importorskip("torch")
pytest.importorskip("tvm")

Row = dict[str, Any]
ROUTES, TUNING = "third_party/tvm_routes", "third_party/tvm_tuning"
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return run_alone(ROUTES, {})


@pytest.fixture(scope="module")
def tuned() -> list[Row]:
    return run_alone(TUNING, {"trials_each": 4, "processes": 2, "rounds": 2, "block_ms": 2.0})


def one(rows: list[Row], route: str, case: str, workload: str = "inference") -> Row:
    (row,) = (r for r in rows if (r["route"], r["case"], r["workload"]) == (route, case, workload))
    return row


def documented(name: str) -> str:
    return ast.get_docstring(ast.parse((SNIPPETS / f"{name}.py").read_text("utf-8"))) or ""


def words(column: str, value: str) -> set[str]:
    return {labels.text_value(column, value, language) for language in LANGUAGES}


# ---------------------------------------------------------------- routes


@pytest.mark.slow
def test_rows_share_their_columns_are_documented_and_carry_no_folder(rows: list[Row]) -> None:
    module = load(ROUTES)
    assert [(row["route"], row["case"], row["workload"]) for row in rows] == list(module.JOBS)
    assert len({frozenset(row) for row in rows}) == 1
    for row in rows:
        assert (row["status"], row["note"]) == ("ok", None)
        assert row["package"] == "apache-tvm"
        assert row["package_version"]
        assert row["ffi_version"]
        assert (row["error"] is None) == (row["raised_at"] == "never") == (row["outcome"] != "error")
        assert not any(folder in json.dumps(row) for folder in ("/tmp", "/root", "/home", "site-packages"))
    assert all(column in documented(ROUTES) for column in rows[0])


@pytest.mark.slow
def test_the_name_of_torch_asks_for_relay_or_runs_relax(rows: list[Row]) -> None:
    row = one(rows, "tvm", "mlp")
    if VERSION >= (2, 14):
        assert (row["outcome"], row["executed"]) == ("runs", 1)
        return
    assert (row["outcome"], row["raised_at"], row["error"]) == ("error", "first call", "ImportError")
    assert "https://tvm.apache.org/" in row["message"]
    assert "cannot import name 'relay'" in row["cause"]


@pytest.mark.slow
@pytest.mark.parametrize("route", ["relax_dynamo", "export"])
def test_what_runs_ran_in_tvm(rows: list[Row], route: str) -> None:
    plain = one(rows, route, "mlp")
    assert (plain["outcome"], plain["graphs"], plain["executed"]) == ("runs", 1, 1)
    assert 0 < plain["relative_error"] < 1e-5
    broken = one(rows, route, "graph break")
    assert (broken["outcome"], broken["graphs"], broken["executed"]) == ("runs", 2, 2)
    left = one(rows, route, "LSTM")
    assert (left["outcome"], left["executed"]) == ("runs", 0), "Dynamo keeps it to itself"
    assert one(rows, route, "encoder, fast path")["outcome"] == "error"
    assert "_transformer_encoder_layer_fwd" in one(rows, route, "encoder, fast path")["message"]


@pytest.mark.slow
def test_the_export_route_takes_what_the_other_refuses(rows: list[Row]) -> None:
    for case in ("cnn", "encoder"):
        assert one(rows, "relax_dynamo", case)["outcome"] == "error"
        assert "Unsupported function types" in one(rows, "relax_dynamo", case)["message"]
        assert one(rows, "export", case)["outcome"] == "runs"
        assert one(rows, "export", case)["executed"] == 1
    for argument in ("mode", "options"):
        row = one(rows, "relax_dynamo", argument)
        assert (row["outcome"], row["raised_at"], row["error"]) == ("error", "first call", "TypeError")
        assert f"{argument}=" in row["written"]


@pytest.mark.slow
def test_sizes_that_vary(rows: list[Row]) -> None:
    symbolic = one(rows, "relax_dynamo", "batch sizes")
    assert (symbolic["outcome"], symbolic["graphs"]) == ("runs", 2)
    refused = one(rows, "export", "batch sizes")
    assert (refused["outcome"], refused["raised_at"]) == ("error", "later call")
    assert "dynamic=False" in refused["message"], "it says what to do"
    each = one(rows, "export", "batch sizes, static")
    assert (each["outcome"], each["graphs"]) == ("runs", 4)


@pytest.mark.slow
@pytest.mark.parametrize("route", ["relax_dynamo", "export"])
def test_training_without_autograd_loses_the_gradients(rows: list[Row], route: str) -> None:
    alone = one(rows, route, "mlp", "training")
    assert (alone["gradients"], alone["raised_at"], alone["error"]) == ("lost", "backward", "RuntimeError")
    headed = one(rows, route, "plain head", "training")
    assert (headed["gradients"], headed["raised_at"], headed["outcome"]) == ("lost", "never", "wrong")
    assert headed["relative_error"] < 1e-5, "the output is right, which is why nobody notices"


@pytest.mark.slow
def test_training_through_autograd_brings_them_back(rows: list[Row]) -> None:
    for case in ("mlp", "plain head", "batch norm", "layer norm", "cnn", "encoder"):
        row = one(rows, "aot_autograd", case, "training")
        assert (row["outcome"], row["gradients"], row["executed"]) == ("runs", "equal", 2), case
    pooled = one(rows, "aot_autograd", "cnn, max pool", "training")
    assert (pooled["outcome"], pooled["raised_at"]) == ("error", "backward")
    assert "max_pool2d_with_indices_backward" in pooled["message"]


@pytest.mark.slow
def test_why_the_usual_decompositions_are_not_enough(rows: list[Row]) -> None:
    assert one(rows, "aot_autograd, usual", "mlp", "training")["gradients"] == "equal"
    silent = one(rows, "aot_autograd, usual", "batch norm", "training")
    assert (silent["outcome"], silent["raised_at"], silent["gradients"]) == ("wrong", "never", "wrong")
    for route in ("relax_dynamo", "export"):
        assert one(rows, route, "pool indices")["outcome"] == "wrong"
        assert one(rows, route, "pool indices")["raised_at"] == "never"


def test_a_case_that_takes_the_process_down_is_a_row_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(ROUTES)
    calls: list[list[int]] = []

    def run_child(job: Row, folder: Path, limit_s: float) -> str | None:
        calls.append(job["jobs"])
        for number in job["jobs"]:
            if module.JOBS[number][1] == "plain head":
                return "the process died of signal SIGSEGV"
            row: Row = {"outcome": "runs", "raised_at": "never", "error": None, "message": None, "cause": None}
            row |= {"graphs": 1, "executed": 2, "relative_error": 0.0, "gradients": "equal"}
            with Path(job["answer"]).open("a") as answer:
                answer.write(json.dumps([number, row]) + "\n")
        return None

    monkeypatch.setattr(module, "run_child", run_child)
    rows = module.run(routes=("aot_autograd",))
    status = {row["case"]: row["status"] for row in rows}
    assert status.pop("plain head") == "failed"
    assert set(status.values()) == {"ok"}
    assert len(calls) == 2
    (lost,) = (row for row in rows if row["case"] == "plain head")
    assert (lost["note"], lost["outcome"]) == ("the process died of signal SIGSEGV", None)


def test_messages_lose_folders_and_keep_addresses() -> None:
    module = load(ROUTES)
    said = "cannot import name 'relay' from 'tvm' (/opt/python/lib/site-packages/tvm/__init__.py)"
    assert module.first_line(ImportError(said)) == "cannot import name 'relay' from 'tvm' (__init__.py)"
    address = "See https://tvm.apache.org/docs/install/index.html for instructions."
    assert module.first_line(ImportError(address)) == address
    assert module.first_line(ValueError("")) is None


def test_a_result_that_is_no_number_or_has_another_form_is_far_away() -> None:
    module = load(ROUTES)
    ones = torch.ones(3)
    assert module.distance(ones, ones.double()) == 0
    assert module.distance(ones * 1.5, ones) == pytest.approx(0.5)
    assert module.distance(ones * math.nan, ones) == math.inf
    assert module.distance(torch.ones(2), ones) == math.inf
    assert module.distance((ones, ones), (ones, ones.long())) == math.inf, "floats where indices belong"


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "transposed"),
    [(1, 1, 1, False), (2, 1, 1, False), (3, 0, 1, False), (1, 2, 2, False), (1, 0, 1, True), (2, 1, 1, True)],
)
def test_the_backward_of_a_convolution_is_torchs(stride: int, padding: int, dilation: int, transposed: bool) -> None:
    module = load(ROUTES)
    torch.manual_seed(0)
    x = torch.randn(2, 3, 11, 9, dtype=torch.float64)
    weight = torch.randn(*((3, 4) if transposed else (4, 3)), 3, 2, dtype=torch.float64)
    settings = ([stride] * 2, [padding] * 2, [dilation] * 2, transposed, [0, 0], 1)
    result = torch.ops.aten.convolution(x, weight, None, *settings)
    grad = torch.randn_like(result)
    ours = module.convolution_backward(grad, x, weight, [4], *settings, [True, True, True])
    theirs = torch.ops.aten.convolution_backward(grad, x, weight, [4], *settings, [True, True, True])
    for mine, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, expected)
    assert module.convolution_backward(grad, x, weight, [4], *settings[:-1], 3, [True] * 3) is NotImplemented


def test_the_backward_of_an_embedding_is_torchs() -> None:
    module = load(ROUTES)
    indices = torch.tensor([[1, 5, 1], [0, 6, 5]])
    grad = torch.randn(2, 3, 4, dtype=torch.float64)
    expected = torch.ops.aten.embedding_dense_backward(grad, indices, 7, -1, False)
    torch.testing.assert_close(module.embedding_backward(grad, indices, 7, -1, False), expected)
    assert module.embedding_backward(grad, indices, 7, 0, False) is NotImplemented
    x = torch.randn(3, 5, dtype=torch.float64)
    for mine, theirs in zip(module.var_mean(x, [1], correction=0), torch.var_mean(x, 1, correction=0), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_memory_for_tvm_begins_where_it_wants() -> None:
    module = load(ROUTES)
    whole = torch.arange(64, dtype=torch.float32, requires_grad=True)
    for part in (whole, whole[1:], whole.reshape(8, 8).T):
        given = module.for_tvm(part)
        assert given.data_ptr() % 64 == 0
        assert given.is_contiguous()
        assert not given.requires_grad
        assert torch.equal(given, part)
    assert module.for_tvm(whole).data_ptr() == whole.data_ptr(), "no copy where none is needed"
    assert module.for_torch(None) is None


def test_every_value_of_the_routes_has_words() -> None:
    module = load(ROUTES)
    for _, case, _ in module.JOBS:
        assert case == "LSTM" or len(words("case", case)) == 2, case
    for moment in ("torch.compile()", "first call", "later call", "backward", "never"):
        assert len(words("raised_at", moment)) == 2


# ---------------------------------------------------------------- tuning


@pytest.mark.slow
def test_a_search_beats_plain_loops_and_both_are_right(tuned: list[Row]) -> None:
    variants = {row["backend"]: row for row in tuned if row["kind"] == "variant"}
    assert list(variants) == ["none", "none_again", "inductor", "tvm, untuned", "tvm, tuned"]
    for row in variants.values():
        assert (row["status"], row["note"]) == ("ok", None)
        assert 0 <= row["max_rel_error"] < 1e-5
        assert len(row["samples_us"]) == 4
        assert row["step_q1_us"] <= row["step_us"] <= row["step_q3_us"]
        assert row["package_version"]
        assert all(column in documented(TUNING) for column in row)
    assert len({frozenset(row) for row in variants.values()}) == 1
    plain, best = variants["tvm, untuned"], variants["tvm, tuned"]
    assert (plain["executed"], best["executed"], variants["inductor"]["executed"]) == (1, 1, 0)
    assert best["step_us"] < plain["step_us"] / 2, "untuned is tens of times slower; half is far outside noise"
    assert plain["tuning_s"] is None
    assert best["tuning_s"] > 0


@pytest.mark.slow
def test_every_candidate_is_a_row_and_the_best_never_gets_worse(tuned: list[Row]) -> None:
    trials = [row for row in tuned if row["kind"] == "trial"]
    operators = list(dict.fromkeys(row["operator"] for row in trials))
    assert sorted(operators) == sorted(["512 -> 256", "256 -> 128", "128 -> 10"])
    (row,) = (row for row in tuned if row.get("backend") == "tvm, tuned")
    assert row["trials"] == sum(trial["trial_us"] is not None for trial in trials)
    for operator in operators:
        own = [trial for trial in trials if trial["operator"] == operator]
        assert [trial["trial"] for trial in own] == list(range(1, len(own) + 1))
        known = [trial["trial_us"] for trial in own if trial["trial_us"] is not None]
        assert own[-1]["best_us"] == min(known)
        best = [trial["best_us"] for trial in own if trial["best_us"] is not None]
        assert best == sorted(best, reverse=True)
    assert all(column in documented(TUNING) for column in trials[0])
    for trial in tuned:
        assert trial["status"] in STATUSES


def steps(error: float = 1e-7) -> Row:
    """Return what a process that timed the steps answers, fabricated."""
    variants = ["inductor", "tvm, untuned", "tvm, tuned", "none", "none_again"]
    seconds = {"inductor": 1.0, "tvm, untuned": 10.0, "tvm, tuned": 2.0, "none": 1.5, "none_again": 1.5}
    return {
        "first_s": dict.fromkeys(variants, 3.0),
        "error": dict.fromkeys(variants, 1e-7) | {"tvm, tuned": error},
        "executed": dict.fromkeys(variants, 0) | {"tvm, untuned": 1, "tvm, tuned": 1},
        "blocks": {v: [seconds[v] * 1e-3, seconds[v] * 1.01e-3] for v in variants},
    }


def run_with(monkeypatch: pytest.MonkeyPatch, module: ModuleType, tune: Row, error: float = 1e-7) -> dict[str, Row]:
    """Return the rows of the variants with children that answer as said."""

    def run_child(job: Row, folder: Path, limit_s: float) -> Row:
        if job["task"] == "tune":
            return tune
        answer = steps(error)
        wanted = job["variants"]
        return {key: {v: value[v] for v in sorted(wanted, key=wanted.index)} for key, value in answer.items()}

    monkeypatch.setattr(module, "run_child", run_child)
    return {row["backend"]: row for row in module.run(processes=2) if row["kind"] == "variant"}


def test_a_search_that_crashes_says_what_to_install_and_the_rest_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(TUNING)
    rows = run_with(monkeypatch, module, {"failed": "the process died of signal SIGSEGV"})
    lost = rows.pop("tvm, tuned")
    assert lost["status"] == "failed"
    assert "SIGSEGV" in lost["note"]
    assert "apache-tvm-ffi<0.1.15" in lost["note"]
    assert not any(lost[column] for column in ("step_us", "speedup_ratio", "tuning_s", "first_call_s"))
    assert {row["status"] for row in rows.values()} == {"ok"}
    for language in LANGUAGES:
        assert "SIGSEGV" in labels.note(lost["note"], language)
    assert labels.note(lost["note"], "zh") != lost["note"]


def test_verdicts_follow_the_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(TUNING)
    timed = [["((64, 128), (10, 128), (10,), (64, 10))", 2e-6], ["((64, 128), (10, 128), (10,), (64, 10))", None]]
    rows = run_with(monkeypatch, module, {"tuning_s": 5.0, "timed": timed})
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "none": None,
        "none_again": "no difference",
        "inductor": "faster",
        "tvm, untuned": "slower",
        "tvm, tuned": "slower",
    }
    assert rows["inductor"]["speedup_ratio"] == pytest.approx(1.5)
    assert (rows["tvm, tuned"]["tuning_s"], rows["tvm, tuned"]["trials"]) == (5.0, 1)


def test_a_wrong_variant_has_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(TUNING)
    row = run_with(monkeypatch, module, {"tuning_s": 5.0, "timed": []}, error=0.5)["tvm, tuned"]
    assert row["status"] == "wrong"
    assert "0.5" in row["note"]
    assert (row["step_us"], row["verdict"], row["samples_us"]) == (None, None, [])
    with pytest.raises(ValueError, match="at least two"):
        module.run(processes=1)
