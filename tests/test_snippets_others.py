"""zentorch, OpenXLA, TorchScript: the traps that the page names are there, with the control or the mend beside."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.test_snippets import load, run_alone

torch = pytest.importorskip("torch")

ZENTORCH, OPENXLA, TORCHSCRIPT = "third_party/zentorch_ops", "third_party/openxla", "third_party/torchscript"
Row = dict[str, Any]
needs_zentorch = pytest.mark.skipif(importlib.util.find_spec("zentorch") is None, reason="zentorch is not installed")
has_xla = importlib.util.find_spec("torch_xla") is not None
wide = "AVX512" in torch.backends.cpu.get_cpu_capability()


def one(rows: list[Row], **where: Any) -> Row:
    (row,) = (row for row in rows if all(row[column] == value for column, value in where.items()))
    return row


# ---------------------------------------------------------------- zentorch


@pytest.fixture(scope="module")
def zentorch_rows() -> list[Row]:
    return run_alone(ZENTORCH, {"cases": ["mlp", "attention"], "processes": 2})


@pytest.mark.slow
@needs_zentorch
def test_zentorch_operators_are_counted_where_they_ran(zentorch_rows: list[Row]) -> None:
    assert len({frozenset(row) for row in zentorch_rows}) == 1
    for row in zentorch_rows:
        assert row["package_version"].startswith(".".join(row["torch_version"].split(".")[:2]))
        if row["kind"] == "case":
            assert row["status"] == "ok", row
            assert row["executed"] > 0, row
            assert row["executed"] == sum(int(n.split()[1]) if " " in n else 1 for n in row["operators"].split(", "))
    assert "zentorch_sdpa" in one(zentorch_rows, case="attention", mode="inference", setting="as it comes")["operators"]


@pytest.mark.slow
@needs_zentorch
@pytest.mark.skipif(not wide, reason="seen on CPUs with AVX-512 only")
def test_zentorch_overwrites_weights_unless_told_not_to(zentorch_rows: list[Row]) -> None:
    off = "ZENDNNL_MATMUL_WEIGHT_CACHE=0"
    lost = one(zentorch_rows, case="mlp", mode="inference", setting="as it comes")
    kept = one(zentorch_rows, case="mlp", mode="inference", setting=off)
    assert (lost["outcome"], lost["weights"]) == ("runs", "overwritten")
    assert lost["afterwards_error"] > 0.1 > 1e-5 > lost["relative_error"]
    assert (kept["outcome"], kept["weights"]) == ("runs", "kept")
    assert kept["afterwards_error"] < 1e-5
    assert one(zentorch_rows, case="mlp", mode="training", setting="as it comes")["gradients"] == "wrong"
    assert one(zentorch_rows, case="mlp", mode="training", setting=off)["gradients"] == "equal"
    assert one(zentorch_rows, case="attention", mode="training", setting=off)["gradients"] == "wrong"
    control = one(zentorch_rows, kind="weights", case="inductor")
    assert (control["overwritten"], control["processes"]) == (0, 2)
    assert one(zentorch_rows, kind="weights", case="zentorch", setting="as it comes")["overwritten"] > 0
    assert one(zentorch_rows, kind="weights", case="zentorch", setting=off)["overwritten"] == 0
    assert one(zentorch_rows, case="second model", setting="as it comes")["outcome"] == "wrong"
    assert one(zentorch_rows, case="second model", setting=off)["outcome"] == "runs"
    on = "ZENDNNL_MATMUL_WEIGHT_CACHE=1"
    assert one(zentorch_rows, kind="weights", case="zentorch", setting=on)["overwritten"] == 0
    assert one(zentorch_rows, case="second model", setting=on)["outcome"] == "wrong", "kept elsewhere, found by address"


@pytest.mark.slow
@needs_zentorch
def test_zentorch_stays_in_inductor_and_checks_its_torch(zentorch_rows: list[Row]) -> None:
    assert one(zentorch_rows, case="inductor afterwards")["executed"] > 0
    name = one(zentorch_rows, case="without import")
    assert (name["error"], name["raised_at"]) == ("InvalidBackend", "torch.compile()")
    mode = one(zentorch_rows, case="a mode")
    assert (mode["error"], mode["raised_at"]) == ("TypeError", "first call")
    other = one(zentorch_rows, case="another torch")
    assert (other["error"], other["raised_at"]) == ("ImportError", "import")
    assert load(ZENTORCH).pretended_version() in other["message"]


@needs_zentorch
def test_zentorch_a_case_that_dies_is_tried_again_and_then_a_failed_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = load(ZENTORCH)
    calls: list[Any] = []

    def run_child(job: Row, folder: Path, setting: str, limit_s: float) -> str | None:
        calls.append(job["tries"])
        if len(calls) < 2:
            return "the process died of signal SIGSEGV"
        Path(job["answer"]).write_text(json.dumps({"try": job["tries"][0], "found": {"outcome": "runs"}}) + "\n{")
        return None

    monkeypatch.setattr(module, "run_child", run_child)
    (row,) = module.try_all([("case", "mlp", "inference")], tmp_path, "as it comes", 1.0, 3)
    assert row == {"outcome": "runs", "status": "ok", "note": None, "died": 1}
    calls.clear()
    (row,) = module.try_all([("case", "mlp", "inference")], tmp_path, "as it comes", 1.0, 1)
    assert row == {"status": "failed", "note": "the process died of signal SIGSEGV", "died": 1}


@needs_zentorch
def test_zentorch_a_setting_reaches_the_child_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = load(ZENTORCH)
    seen: list[str | None] = []

    class Popen:
        def __init__(self, command: Any, env: dict[str, str], **keywords: Any) -> None:
            seen.append(env.get("ZENDNNL_MATMUL_WEIGHT_CACHE"))

        def wait(self, limit_s: float) -> int:
            return 0

    monkeypatch.setenv("ZENDNNL_MATMUL_WEIGHT_CACHE", "2")
    monkeypatch.setattr(module.subprocess, "Popen", Popen)
    monkeypatch.setattr(module, "end_group", lambda process: None)
    for setting in module.SETTINGS:
        module.run_child({"answer": "x"}, tmp_path, setting, 1.0)
    assert seen == [None, "0", "1"]


# ---------------------------------------------------------------- OpenXLA


@pytest.mark.slow
def test_openxla_says_what_is_missing_or_runs() -> None:
    rows = run_alone(OPENXLA, {"cases": ["mlp"]})
    assert len({frozenset(row) for row in rows}) == 1
    name, inference, training = rows
    assert name["status"] == "ok"
    if not has_xla:
        assert (name["outcome"], name["raised_at"], name["error"]) == ("error", "first call", "ImportError")
        for row in (inference, training):
            assert (row["status"], row["package_version"], row["outcome"]) == ("unavailable", None, None)
            assert "pip install torch==2.9.1 torch_xla==2.9.0" in row["note"]
    else:
        assert (inference["outcome"], training["gradients"]) == ("runs", "equal")
        assert inference["executed"] > 0


def test_openxla_a_try_that_dies_is_a_failed_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = load(OPENXLA)
    waits = iter((-11, 3))

    class Popen:
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            assert keywords["env"]["PJRT_DEVICE"] == "CPU"

        def wait(self, limit_s: float) -> int:
            return next(waits)

    monkeypatch.setattr(module.subprocess, "Popen", Popen)
    monkeypatch.setattr(module, "end_group", lambda process: None)
    row = module.run_child({"kind": "name"}, tmp_path, 1.0)
    assert row == {"status": "failed", "note": "the process died of signal SIGSEGV"}
    assert module.run_child({"kind": "name"}, tmp_path, 1.0)["note"] == "the process ended with code 3"


def test_openxla_message_keeps_the_address_and_drops_folders() -> None:
    message = load(OPENXLA).first_line(ImportError("see https://github.com/pytorch/xla#x, not /some/deep/file.py"))
    assert message == "see https://github.com/pytorch/xla#x, not file.py"


# ---------------------------------------------------------------- TorchScript


def test_versions_are_plain_text_for_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    openxla, torchscript = load(OPENXLA), load(TORCHSCRIPT)
    monkeypatch.setattr(openxla, "run_child", lambda job, folder, limit_s: {"status": "ok", "note": None})
    monkeypatch.setattr(torchscript, "through_compile", lambda backend, case, mode: {})
    monkeypatch.setattr(torchscript, "alone", lambda case: {})
    for row in (*openxla.run(), *torchscript.run()):
        assert type(row["torch_version"]) is str, "torch's own class is no JSON"


@pytest.fixture(scope="module")
def torchscript_rows() -> list[Row]:
    return run_alone(TORCHSCRIPT, {})


@pytest.mark.slow
def test_torchscript_the_mend_runs_where_the_names_may_not(torchscript_rows: list[Row]) -> None:
    assert len({frozenset(row) for row in torchscript_rows}) == 1
    names = [row for row in torchscript_rows if row["backend"] in ("ts", "aot_ts")]
    assert len(names) == 8
    for row in names:
        if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14):
            assert (row["error"], row["raised_at"]) == ("RuntimeError", "first call")
            assert row["message"] == "method cannot be used as a value:"
    mended = [row for row in torchscript_rows if row["backend"] == "scripted"]
    assert [(row["outcome"], row["executed"], row["gradients"]) for row in mended] == [
        ("runs", 1, "not wanted"),
        ("runs", 1, "equal"),
    ] * 2


@pytest.mark.slow
def test_torchscript_alone_keeps_loses_or_refuses_the_branch(torchscript_rows: list[Row]) -> None:
    alone = {row["case"]: row for row in torchscript_rows if row["kind"] == "alone"}
    assert {case: row["branch"] for case, row in alone.items()} == {
        "trace": "lost",
        "script": "kept",
        "export": "refused",
    }
    assert all(row["saved"] == "yes" for row in alone.values())
    assert "deprecated" in alone["trace"]["warning"]
    assert alone["export"]["warning"] is None


def test_torchscript_the_example_of_the_branch_tells_the_ways_apart() -> None:
    module: ModuleType = load(TORCHSCRIPT)
    up, down = torch.ones(4), torch.full((4,), -3.0)
    assert not torch.equal(module.branching(down), down * 2), "else a trace that forgets would look right"
    assert torch.equal(module.branching(up), up * 2)


def test_torchscript_counting_leaves_torch_as_it_was() -> None:
    module = load(TORCHSCRIPT)
    before = torch.jit.script
    with module.counted() as calls, module.quiet():
        function = torch.jit.script(module.function)
        function(torch.ones(2))
        function(torch.ones(2))
        assert calls == [2]
    assert torch.jit.script is before
