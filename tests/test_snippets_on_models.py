"""third_party/on_models: back ends of other projects through the comparison tool, on a small budget."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kitchen import snippet
from tests.test_snippets import header, load

pytest.importorskip("torch")

NAME = "third_party/on_models"
SNIPPETS = Path(__file__).parents[1] / "snippets"
FILES = header(NAME)["tool"]["kitchen"]["files"]
Row = dict[str, Any]


@pytest.fixture
def module() -> ModuleType:
    found = load(NAME)
    sys.modules[found.__name__] = found
    return found


def paths(*models: str) -> Row:
    """The keywords of run() that kitchen gives it, for some models."""
    given = {key: str(SNIPPETS / f"{name}.py") for key, name in FILES.items() if isinstance(name, str)}
    return given | {"models": [str(SNIPPETS / f"models/{name}.py") for name in models]}


def run(module: ModuleType, *models: str, **more: Any) -> list[Row]:
    rows: list[Row] = module.run(**paths(*models), seconds=0.2, processes=2, **more)
    return rows


def test_it_is_given_at_least_four_models_and_all_files_exist() -> None:
    one = snippet.load(NAME)
    assert len(one.arguments["models"]) >= 4
    assert all(path.is_file() for path in one.others)
    assert one.arguments["tool"].endswith("compare_backends.py")


def test_a_package_that_is_absent_says_what_to_install(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    original = importlib.metadata.version

    def version(name: str) -> str:
        if name in ("apache-tvm", "iree-turbine"):
            raise importlib.metadata.PackageNotFoundError(name)
        return original(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    rows = run(module, "mlp", back_ends=("tvm", "iree"), training=())
    missing = {row["variant"]: row for row in rows if row["status"] == "unavailable"}
    assert set(missing) == {"tvm", "iree"}
    assert "pip install 'apache-tvm>=" in missing["tvm"]["note"]
    for row in missing.values():
        assert (row["model"], row["workload"]) == ("mlp:build", "inference")
        assert row["step_us"] is None
    assert {row["variant"] for row in rows if row["status"] == "ok"} == {"eager", "eager again", "inductor"}


def test_an_unknown_back_end_is_refused(module: ModuleType) -> None:
    with pytest.raises(ValueError, match="'nvfuser'"):
        run(module, "mlp", back_ends=("nvfuser",))


@pytest.mark.slow
def test_back_ends_are_right_and_leave_no_operator_of_the_mlp_to_torch(module: ModuleType) -> None:
    """OpenVINO is timed apart, the others together; TVM in training too."""
    for needed in ("tvm", "openvino", "onnxruntime"):
        pytest.importorskip(needed)
    rows = run(module, "mlp", back_ends=("tvm", "openvino", "onnxruntime"), training=("mlp",))
    inference = {row["variant"]: row for row in rows if row["workload"] == "inference"}
    training = {row["variant"]: row for row in rows if row["workload"] == "training"}
    assert list(inference) == ["eager", "eager again", "inductor", "tvm", "onnxruntime", "openvino"]
    assert list(training) == list(inference)
    for name in ("tvm", "openvino", "onnxruntime"):
        row = inference[name]
        assert row["status"] == "ok", row["note"]
        assert row["max_rel_error"] < 1e-4
        assert row["speedup_ratio"] > 0
        assert row["operators"] == 0 < inference["eager"]["operators"]
        package = module.BACK_ENDS[name].package
        assert row["package"] == f"{package} {importlib.metadata.version(package)}"
        assert training[name]["status"] == "ok", training[name]["note"]
        assert training[name]["reference"] == "float64"


def test_a_back_end_has_its_surroundings_and_leaves_none(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "ZENDNNL_MATMUL_WEIGHT_CACHE"
    for before in (None, "3"):
        if before:
            monkeypatch.setenv(name, before)
        else:
            monkeypatch.delenv(name, raising=False)
        with module.surroundings({"zentorch": "x"}):
            assert os.environ[name] == "0"
        assert os.environ.get(name) == before
        with module.surroundings({"inductor": "inductor", "tvm": "x"}):
            assert os.environ.get(name) == before


def test_openvino_is_not_allowed_to_hand_a_graph_to_inductor(module: ModuleType) -> None:
    pytest.importorskip("openvino")
    torch = pytest.importorskip("torch")

    def refused(x: Any) -> Any:
        return torch.linalg.matrix_exp(x)

    from openvino.frontend.pytorch.torchdynamo import backend

    original, partition = backend.compile_fx, backend.Partitioner.make_partitions
    inlines = torch._dynamo.config.inline_inbuilt_nn_modules
    try:
        backend.Partitioner.make_partitions = lambda *_: 1 / 0
        with torch.no_grad(), pytest.raises(Exception, match=r"hand it to Inductor: division by zero"):
            module.openvino(refused)(torch.eye(3))
    finally:
        backend.compile_fx, backend.Partitioner.make_partitions = original, partition
        torch._dynamo.config.inline_inbuilt_nn_modules = inlines
        torch._dynamo.reset()


def test_alone_in_a_folder_it_says_what_it_needs(tmp_path: Path) -> None:
    copy = Path(shutil.copy(SNIPPETS / f"{NAME}.py", tmp_path))
    model = Path(shutil.copy(SNIPPETS / "models/mlp.py", tmp_path))
    for arguments, says in (
        ([], "usage:"),
        ([str(tmp_path / "none.py")], "there is no file"),
        ([str(model)], "compare_backends.py is needed in the folder"),
    ):
        done = subprocess.run(
            [sys.executable, str(copy), *arguments], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 1
        assert says in done.stderr
        assert "Traceback" not in done.stderr
