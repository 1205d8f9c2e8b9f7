"""The back end for ONNX Runtime: what ran there is counted, what stayed with PyTorch says why, and wrong is caught."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.test_snippets import load, run_alone

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

NAME = "third_party/onnxruntime_backend"
Row = dict[str, Any]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    cases = ["mlp", "conv + bn", "encoder, fast path", "encoder", "dynamic batch", "changed weights"]
    return run_alone(NAME, {"cases": [*cases, "written buffer", "bfloat16", "export", "export, old", "onnxrt"]})


@pytest.fixture
def module() -> Iterator[ModuleType]:
    """The snippet with an empty tally and a clean Dynamo."""
    found = load(NAME)
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield found
    torch._dynamo.reset()


def one(rows: list[Row], case: str, mode: str | None = "inference") -> Row:
    (row,) = (row for row in rows if (row["case"], row["mode"]) == (case, mode))
    return row


@pytest.mark.slow
def test_rows_share_their_columns_and_name_the_package(rows: list[Row]) -> None:
    assert len({frozenset(row) for row in rows}) == 1
    for row in rows:
        assert (row["status"], row["note"]) == ("ok", None)
        assert row["package"] == "onnxruntime"
        assert row["package_version"]
        assert row["exporter_version"]
        assert (row["error"] is None) == (row["raised_at"] == "never")
        assert "\x1b" not in (row["message"] or "")
        assert "/site-packages/" not in (row["message"] or "")


@pytest.mark.slow
def test_what_runs_ran_in_a_session_or_says_why_not(rows: list[Row]) -> None:
    for row in rows:
        if row["kind"] == "case":
            assert row["outcome"] == "runs", row
            assert bool(row["left"]) == (row["message"] is not None), row
            assert row["executed"] + row["left"] > 0, row
            assert row["relative_error"] < (2e-2 if row["case"] == "bfloat16" else 1e-5)
    assert [one(rows, case)["executed"] for case in ("mlp", "conv + bn", "encoder")] == [1, 1, 1]
    assert "Gemm 3" in one(rows, "mlp")["onnx_operators"]
    assert "BatchNormalization" not in one(rows, "conv + bn")["onnx_operators"], "folded into the convolution"
    for case, why in (
        ("encoder, fast path", "_transformer_encoder_layer_fwd"),
        ("written buffer", "writes into 1 of its inputs"),
        ("bfloat16", "torch.bfloat16"),
    ):
        row = one(rows, case)
        assert (row["executed"], row["sessions"], row["left"]) == (0, 0, 1), case
        assert why in row["message"]


@pytest.mark.slow
def test_training_runs_both_graphs_there_where_it_can(rows: list[Row]) -> None:
    for case in ("mlp", "encoder", "dynamic batch"):
        row = one(rows, case, "training")
        assert (row["gradients"], row["executed"], row["left"]) == ("equal", 2, 0), case
    row = one(rows, "conv + bn", "training")
    assert (row["gradients"], row["executed"], row["left"]) == ("equal", 1, 1)
    assert "convolution_backward" in row["message"]


@pytest.mark.slow
def test_other_sizes_take_two_sessions_and_changed_weights_one_more(rows: list[Row]) -> None:
    assert (one(rows, "dynamic batch")["sessions"], one(rows, "dynamic batch")["rebuilt"]) == (2, 0)
    assert (one(rows, "changed weights")["sessions"], one(rows, "changed weights")["rebuilt"]) == (2, 1)
    assert one(rows, "mlp")["sessions"] == 1


@pytest.mark.slow
def test_without_torch_compile_and_by_the_old_name(rows: list[Row]) -> None:
    for case in ("export", "export, old"):
        assert (one(rows, case)["outcome"], one(rows, case)["kind"]) == ("runs", "ahead")
    old = one(rows, "onnxrt", None)
    if "onnxrt" not in torch._dynamo.list_backends(exclude_tags=()):
        assert (old["error"], old["raised_at"]) == ("InvalidBackend", "torch.compile()")


@pytest.mark.slow
def test_random_numbers_do_not_pass_the_comparison(module: ModuleType) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Dropout(0.5)).train()
    compiled = torch.compile(model, backend=module.through_onnxruntime)
    with torch.no_grad():
        compiled(torch.randn(8, 16))
    assert module.TALLY.executed == 0
    assert module.TALLY.left


@pytest.mark.slow
def test_a_session_that_computes_something_else_is_refused(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong:
        def __init__(self, session: Any) -> None:
            self.session = session

        def get_inputs(self) -> Any:
            return self.session.get_inputs()

        def run(self, names: Any, given: Any) -> list[Any]:
            return [array + 0.1 for array in self.session.run(names, given)]

    right = module.open_session
    monkeypatch.setattr(module, "open_session", lambda model, threads: Wrong(right(model, threads)))
    model, x = module.mlp().eval(), torch.randn(8, 16)
    with torch.no_grad():
        result = torch.compile(model, backend=module.through_onnxruntime)(x)
        assert torch.equal(result, model(x)), "PyTorch ran it"
    assert module.TALLY.left == ["result 0 differs from PyTorch's on a trial input"]


@pytest.mark.slow
def test_a_write_through_data_is_not_seen_as_the_page_says(module: ModuleType) -> None:
    model, x = module.mlp().eval(), torch.randn(8, 16)
    compiled = torch.compile(model, backend=module.through_onnxruntime)
    with torch.no_grad():
        before = compiled(x)
        model[4].bias.data += 1
        assert torch.equal(compiled(x), before)
        model[4].bias += 1
        torch.testing.assert_close(compiled(x), before + 2)
    assert module.TALLY.rebuilt == 1


@pytest.mark.slow
def test_an_optimizer_is_followed_step_by_step(module: ModuleType) -> None:
    model = module.mlp()
    plain, x = copy.deepcopy(model), torch.randn(8, 16)
    compiled = torch.compile(model, backend=module.through_onnxruntime)
    for _, (each, called) in itertools.product(range(3), ((model, compiled), (plain, plain))):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1)
        optimizer.zero_grad()
        called(x).square().sum().backward()
        optimizer.step()
    torch.testing.assert_close(dict(model.named_parameters()), dict(plain.named_parameters()))
    assert (module.TALLY.executed, module.TALLY.sessions, module.TALLY.left) == (6, 2, [])


@pytest.mark.slow
def test_a_result_may_be_an_argument_or_nothing(module: ModuleType) -> None:
    def function(x: Any, y: Any) -> Any:
        return x * 2, x, None, y + 1

    x, y = torch.randn(3), torch.randn(3)
    with torch.no_grad():
        double, same, nothing, more = torch.compile(function, backend=module.through_onnxruntime)(x, y)
    torch.testing.assert_close((double, more), (x * 2, y + 1))
    assert same is x
    assert nothing is None
    assert (module.TALLY.executed, module.TALLY.left) == (1, [])


@pytest.mark.slow
def test_the_export_adds_no_guards_to_the_compile(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    here, export = threading.get_ident(), torch.onnx.export
    there: list[int] = []

    def noting(*arguments: Any, **keywords: Any) -> Any:
        there.append(threading.get_ident())
        return export(*arguments, **keywords)

    monkeypatch.setattr(torch.onnx, "export", noting)
    compiled = torch.compile(module.mlp().eval(), backend=module.through_onnxruntime)
    with torch.no_grad():
        for batch in (8, 6, 5):
            assert compiled(torch.randn(batch, 16)).shape == (batch, 4)
    assert len(there) == 2
    assert here not in there


def test_an_option_that_does_not_exist_is_named(module: ModuleType) -> None:
    compiled = torch.compile(module.mlp(), backend=module.through_onnxruntime, options={"thread": 1})
    with pytest.raises(Exception, match="no option thread: it knows threads and bake"):
        compiled(torch.randn(8, 16))


def test_a_process_that_dies_is_a_row_and_the_others_go_on(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[Any]] = []

    def run_child(job: Row, folder: Any, limit_s: float) -> str | None:
        asked.append(job["jobs"])
        kind, case, mode = job["jobs"][0]
        if case == "mlp":
            return "the process died of signal SIGFPE"
        with Path(job["answer"]).open("a") as answer:
            answer.write(f'{{"job": ["{kind}", "{case}", "{mode}"], "found": {{"outcome": "runs"}}}}\n')
        return None

    monkeypatch.setattr(module, "run_child", run_child)
    monkeypatch.setattr(module, "JOBS", [("mlp", "inference"), ("encoder", "inference")])
    mlp, encoder = module.run(cases=["mlp", "encoder"])
    assert (mlp["status"], mlp["note"], mlp["died"]) == ("failed", "the process died of signal SIGFPE", 2)
    assert (encoder["status"], encoder["outcome"], encoder["died"]) == ("ok", "runs", 0)
    assert [jobs[0][1] for jobs in asked] == ["mlp", "mlp", "encoder"]


def test_messages_carry_no_colours_and_no_folders(module: ModuleType) -> None:
    error = RuntimeError("\n\x1b[96mcan't read /some/where/deep/model.onnx\x1b[0m\nmore")
    assert module.first_line(error) == "can't read model.onnx"
    outer = RuntimeError("outer")
    outer.__cause__ = module.NotForOnnx("inner reason")
    assert module.reason(outer) == "inner reason"
