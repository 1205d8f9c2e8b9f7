"""The snippet on IREE: what it ran, what raised and where, the mended training, and the two traps of float64."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.test_snippets import load, run_alone

pytest.importorskip("torch")
pytest.importorskip("iree.turbine")

NAME = "third_party/iree_coverage"
Row = dict[str, Any]
ALL: Row = {
    "cases": ["mlp", "encoder, fast path", "LSTM"],
    "names": ["iree_turbine", "iree_boo"],
    "named": ["mlp"],
    "trained": ["mlp"],
    "settings": ["nothing", "--task_topology_group_count=1"],
    "behaviours": [
        *("other batch sizes", "other batch sizes, dynamic=False", "output kept"),
        *("number that changes", "number that changes, float64 kept", "float64, kept"),
    ],
}
NONE: Row = {key: [] for key in ALL}


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return run_alone(NAME, ALL)


def one(rows: list[Row], kind: str, case: str, way: str = "torch.compile") -> Row:
    (row,) = (row for row in rows if (row["kind"], row["case"], row["way"]) == (kind, case, way))
    return row


@pytest.mark.slow
def test_rows_share_their_columns_and_name_the_package(rows: list[Row]) -> None:
    assert len(rows) == 3 * 2 + 2 + 3 + 2 + 6
    assert len({frozenset(row) for row in rows}) == 1
    for row in rows:
        assert (row["status"], row["note"]) == ("ok", None)
        assert row["package"] == "iree-turbine"
        assert row["package_version"]
        assert (row["error"] is None) == (row["raised_at"] == "never")


@pytest.mark.slow
def test_what_iree_ran_what_torch_ran_and_what_raised(rows: list[Row]) -> None:
    for way in ("torch.compile", "export"):
        row = one(rows, "inference", "mlp", way)
        assert (row["outcome"], row["ran_in"], row["executed"], row["torch_operators"]) == ("runs", "IREE", 1, 0)
        assert 0 < row["relative_error"] < 1e-5
    left = one(rows, "inference", "LSTM")
    assert (left["outcome"], left["ran_in"], left["executed"]) == ("runs", "torch", 0)
    assert left["torch_operators"] == left["eager_operators"] > 0
    refused = one(rows, "inference", "encoder, fast path")
    assert (refused["outcome"], refused["raised_at"]) == ("error", "first call")
    assert "_transformer_encoder_layer_fwd" in refused["message"], "the compiler's cause, not only that it failed"


@pytest.mark.slow
def test_names_that_hand_nothing_over_are_seen(rows: list[Row]) -> None:
    executed = {row["backend"]: row["executed"] for row in rows if row["kind"] == "name"}
    assert executed == {"iree_turbine": 1, "iree_boo": 0}


@pytest.mark.slow
def test_training_raises_and_is_mended(rows: list[Row]) -> None:
    plain = one(rows, "training", "mlp")
    assert (plain["gradients"], plain["raised_at"]) == ("error", "backward")
    assert "!torch.none" in plain["message"]
    for way in ("input with gradient", "mended"):
        row = one(rows, "training", "mlp", way)
        assert (row["gradients"], row["outcome"], row["executed"]) == ("equal", "runs", 2)


@pytest.mark.slow
def test_surprises(rows: list[Row]) -> None:
    sizes = one(rows, "behaviour", "other batch sizes")
    assert (sizes["outcome"], sizes["error"]) == ("error", "AttributeError")
    static = one(rows, "behaviour", "other batch sizes, dynamic=False")
    assert (static["outcome"], static["used"], static["executed"]) == ("runs", "4 graphs", 4)
    assert one(rows, "behaviour", "output kept")["used"] == "kept"
    number = one(rows, "behaviour", "number that changes")
    assert number["raised_at"] == "never", "nothing is raised,"
    assert number["outcome"] == "wrong", "and the result is wrong"
    assert number["executed"] > 0
    assert 1e-4 < number["relative_error"] <= 1
    mended = one(rows, "behaviour", "number that changes, float64 kept")
    assert (mended["outcome"], mended["raised_at"]) == ("runs", "never")
    assert mended["relative_error"] < 1e-5
    exact = one(rows, "behaviour", "float64, kept")
    assert (exact["outcome"], exact["executed"]) == ("runs", 1)
    assert exact["relative_error"] < 1e-12, "float64 all the way"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_the_flag_leaves_one_worker(rows: list[Row]) -> None:
    threads = {row["asked"]: row["threads"] for row in rows if row["kind"] == "threads"}
    assert threads["--task_topology_group_count=1"] == 1
    assert threads["nothing"] >= 1


@pytest.mark.slow
def test_a_float64_model_leaves_the_process_without_iree() -> None:
    (row,) = run_alone(NAME, NONE | {"behaviours": ["after a float64 model"]})
    assert row["status"] == "ok"
    if row["outcome"] == "error":
        assert "semaphore" in row["message"]
    else:
        assert row["used"] == "IREE"


def test_a_process_that_dies_is_a_failed_row_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(NAME)

    def child(job: Row, folder: object, limit_s: float) -> str | None:
        with Path(job["answer"]).open("a") as answer:
            for number, (_, case, way, _) in job["left"]:
                if (case, way) == ("LSTM", "export"):
                    return "no answer within 200 s"
                answer.write(f'[{number}, {{"outcome": "runs", "relative_error": 0.0}}]\n')
        return None

    monkeypatch.setattr(module, "run_child", child)
    rows = module.run(**NONE | {"cases": ["mlp", "LSTM", "embedding"]})
    assert [row["status"] for row in rows] == ["ok", "ok", "ok", "failed", "ok", "ok"]
    assert {row["note"] for row in rows} == {None, "no answer within 200 s"}


def test_a_compiler_error_is_read_from_its_diagnostics(tmp_path: Path) -> None:
    module = load(NAME)
    log = tmp_path / "log.txt"
    log.write_text('source.mlir:1:1: error: failed to legalize: %1 = "torch.operator"() <{name = "torch.aten.foo"}>\n')
    row = module.failure(RuntimeError("JIT compilation failed. See diagnostics."), "first call", log)
    assert row["message"] == "failed to legalize: torch.aten.foo"
    row = module.failure(
        RuntimeError("Failed for kernel fused_op_mm_" + "0" * 40 + "_64xfloat32. If"), "first call", log
    )
    assert row["message"] == "Failed for kernel fused_op_mm…. If"


def test_none_goes_round_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    module = load(NAME)
    seen: list[int] = []

    def compiler(graph: Any, inputs: Any) -> Any:
        (output,) = (node for node in graph.graph.nodes if node.op == "output")
        assert None not in output.args[0]
        seen.append(len(output.args[0]))
        return lambda arguments: list(graph(*arguments))

    monkeypatch.setattr(module.base, "_backend", compiler)
    model, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    torch._dynamo.reset()
    torch.compile(model, backend=module.mended)(x).sum().backward()
    assert model.weight.grad is not None
    assert torch.allclose(model.weight.grad, x.sum(0).expand(2, 3))
    assert len(seen) == 2, "forward and backward"
    assert module.off(torch.tensor([float("nan")]), torch.ones(1)) == 1.0
    assert "iree" in sys.modules
