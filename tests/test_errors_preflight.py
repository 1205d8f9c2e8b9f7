"""The preflight: machines with something planted that breaks compiling, and each is found; nothing makes it crash."""

from __future__ import annotations

import ast
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kitchen import labels
from kitchen.context import LANGUAGES, ROOT
from tests.error_snippets import FOLDER, load

pytest.importorskip("torch")
FILE = FOLDER / "preflight.py"
MODULE = load("preflight")
GPU = {"name": "A GPU", "capability": "8.0", "has_code": True}
FACTS: dict[str, Any] = {
    "torch": "2.13.0+cpu",
    "cuda": None,
    "hip": None,
    "threads": 2,
    "workers": 2,
    "worker_start": "subprocess",
    "capability": "AVX2",
    "vectors": "avx2",
    "supported": True,
    "unsupported": "",
    "no_gpu": "",
    "gpus": [],
    "pool": "ready",
}


def facts(**changes: Any) -> dict[str, Any]:
    return FACTS | changes


def judged(name: str, **changes: Any) -> tuple[str, str]:
    """Outcome and advice of one check, for facts with changes."""
    _, outcome, advice = MODULE.CHECKS[name](facts(**changes))
    return outcome, advice


def preflight(**environment: str) -> tuple[int, dict[str, dict[str, str]]]:
    """The whole of it in a process of its own: exit status and rows by check."""
    done = subprocess.run(
        [sys.executable, str(FILE), "--json"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert not done.stderr, done.stderr
    rows = json.loads(done.stdout)
    assert [row["check"] for row in rows] == list(MODULE.CHECKS)
    for row in rows:
        assert list(row) == ["check", "found", "outcome", "advice", "status", "note"]
        assert row["outcome"] in MODULE.MARKS
        assert (row["advice"] in MODULE.ADVICE) == (row["outcome"] in ("look", "breaks")), row
    return done.returncode, {row["check"]: row for row in rows}


# ---------------------------------------------------------------- whole machines


@pytest.mark.slow
def test_a_machine_with_everything_is_cleared(tmp_path: Path) -> None:
    status, rows = preflight(TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert status == 0, rows
    for name in ("torch", "python", "switches", "compiler", "python-headers", "openmp", "cache-folder", "compile-cpu"):
        assert rows[name]["outcome"] == "fine", rows[name]
    assert rows["compile-cpu"]["found"] == "graphs=1, kernels=2"
    assert not list(tmp_path.iterdir()), "the cache folder of the user stays as it was"


@pytest.mark.slow
def test_no_compiler_is_found_by_name_and_for_real() -> None:
    status, rows = preflight(CXX="no-such-compiler")
    assert status == 1
    assert rows["compiler"] | {"status": ""} == {
        "check": "compiler",
        "found": "no-such-compiler=missing",
        "outcome": "breaks",
        "advice": "install-compiler",
        "status": "",
        "note": "",
    }
    assert rows["openmp"]["outcome"] == "not here"
    assert "No working C++ compiler found" in rows["compile-cpu"]["found"]
    assert rows["compile-cpu"]["advice"] == "read-the-message"


@pytest.mark.slow
def test_a_compiler_without_headers_is_found(tmp_path: Path) -> None:
    wrapper = tmp_path / "c++"
    wrapper.write_text(f'#!/bin/sh\nexec {os.environ.get("CXX", "g++")} -nostdinc "$@"\n')
    wrapper.chmod(0o755)
    status, rows = preflight(CXX=str(wrapper))
    assert status == 1
    assert rows["compiler"]["outcome"] == "fine"
    for name in ("openmp", "compile-cpu"):
        assert rows[name]["outcome"] == "breaks"
        assert "omp.h" in rows[name]["found"], "the compiler says it in its own words"
        assert str(tmp_path) not in rows[name]["found"]


@pytest.mark.slow
def test_a_variable_that_switches_compiling_off_is_found_by_name_and_for_real() -> None:
    status, rows = preflight(TORCH_COMPILE_DISABLE="1")
    assert status == 1
    assert rows["switches"]["found"] == "TORCH_COMPILE_DISABLE=1"
    assert rows["switches"]["advice"] == "switch-on"
    assert rows["compile-cpu"]["found"] == "graphs=0, kernels=0"
    assert rows["compile-cpu"]["advice"] == "nothing-compiled"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise ImportError('libplanted.so: cannot open')", "ImportError: libplanted.so: cannot open"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended with -11"),
    ],
)
def test_a_torch_that_fails_or_crashes_is_a_finding(tmp_path: Path, body: str, said: str) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(body)
    status, rows = preflight(PYTHONPATH=str(tmp_path))
    assert status == 1
    assert said in rows["torch"]["found"]
    assert rows["torch"]["advice"] == "repair-torch"
    for name in ("python", "threads", "vectors", "gpu", "torchvision", "compile-cpu", "compile-gpu"):
        assert rows[name]["outcome"] == "not here"
    assert rows["compiler"]["outcome"] == "fine", "what needs no torch is looked at all the same"


def test_without_a_temporary_folder_it_says_so_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    monkeypatch.setattr(MODULE, "call", lambda *_, **__: subprocess.CompletedProcess([], 0, json.dumps(FACTS), ""))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    rows = {row["check"]: row for row in MODULE.run()}
    assert rows["temporary-folder"]["outcome"] == "breaks"
    assert "No usable temporary directory" in rows["temporary-folder"]["found"]
    assert len(rows) == len(MODULE.CHECKS)


def test_a_check_that_fails_is_a_finding_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Any) -> Any:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(MODULE, "CHECKS", {"torch": broken, "switches": MODULE.switches})
    monkeypatch.setattr(MODULE, "child", lambda *_, **__: FACTS)
    first, second = MODULE.run()
    assert (first["found"], first["outcome"], first["advice"]) == (
        "ZeroDivisionError: planted", "look", "look-yourself",
    )  # fmt: skip
    assert second["check"] == "switches"


def test_torch_is_not_imported_by_the_list_itself() -> None:
    top = ast.parse(FILE.read_text("utf-8")).body
    named = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "" for node in top if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in named} <= sys.stdlib_module_names


# ---------------------------------------------------------------- one check each


@pytest.mark.parametrize(
    ("name", "value", "outcome"),
    [
        ("TORCHDYNAMO_DISABLE", "1", "breaks"),
        ("TORCHDYNAMO_DISABLE", "0", "fine"),
        ("TORCHDYNAMO_SUPPRESS_ERRORS", "0", "look"),  # torch takes any text for yes
        ("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1", "look"),
        ("TORCHINDUCTOR_MAX_AUTOTUNE", "0", "fine"),
    ],
)
def test_variables(monkeypatch: pytest.MonkeyPatch, name: str, value: str, outcome: str) -> None:
    monkeypatch.setenv(name, value)
    assert judged("switches")[0] == outcome


def test_what_torch_does_with_these_variables_is_what_the_check_says() -> None:
    code = "import torch._dynamo.config as c; print(c.disable, c.suppress_errors)"
    for name, said in (("TORCH_COMPILE_DISABLE", "True False"), ("TORCHDYNAMO_SUPPRESS_ERRORS", "False True")):
        value = "1" if said.startswith("True") else "0"
        done = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {name: value}, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == said


@pytest.mark.parametrize(
    ("python", "torch", "outcome"),
    [
        ((3, 12), "2.3.1", "breaks"),
        ((3, 12), "2.4.0", "fine"),
        ((3, 14), "2.9.1", "breaks"),
        ((3, 15), "2.14.1", "breaks"),
    ],
)
def test_python_pairs(monkeypatch: pytest.MonkeyPatch, python: tuple[int, int], torch: str, outcome: str) -> None:
    monkeypatch.setattr(sys, "version_info", (*python, 0))
    assert judged("python", torch=torch)[0] == outcome


def test_a_python_that_torch_refuses_breaks() -> None:
    assert judged("python", supported=False, unsupported="not supported on Python 9") == ("breaks", "other-python")


def test_missing_headers_of_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert judged("python-headers")[0] == "fine"
    monkeypatch.setattr(MODULE.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    assert judged("python-headers") == ("breaks", "install-headers")


def test_a_compiler_that_does_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    assert judged("compiler") == ("breaks", "install-compiler")


def test_cache_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    new, file = tmp_path / "one" / "two", tmp_path / "file"
    file.touch()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(new))
    assert judged("cache-folder") == ("fine", "")
    assert not new.parent.exists(), "a folder that it made goes again"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(file))
    assert judged("cache-folder") == ("breaks", "set-cache-folder")
    assert file.exists()


def test_room(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = collections.namedtuple("usage", "free")
    for mib, outcome in ((10, "breaks"), (600, "look"), (5000, "fine")):
        monkeypatch.setattr(MODULE.shutil, "disk_usage", lambda _, mib=mib: usage(mib << 20))
        assert judged("temporary-folder")[0] == outcome
        assert judged("cache-folder")[0] == outcome


def test_a_temporary_folder_that_is_not_the_one_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    assert judged("temporary-folder") == ("look", "set-tmpdir")


def test_a_file_system_that_runs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "not" / "yet"))
    assert judged("cache-exec") == ("fine", "")
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC | os.ST_NOSUID))
    assert judged("cache-exec") == ("breaks", "leave-noexec")


def test_a_cache_that_goes_with_its_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    assert judged("cache-lasts") == ("look", "keep-the-cache")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/volume")
    assert judged("cache-lasts") == ("fine", "")


@pytest.mark.parametrize(("torch", "outcome"), [("2.12.1", "breaks"), ("2.13.0", "look")])
def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch, torch: str, outcome: str) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(MODULE.getpass, "getuser", nobody)
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    assert judged("user-name", torch=torch) == (outcome, "name-the-user")
    assert MODULE.cache_place().name == f"torchinductor_uid_{os.getuid()}"


@pytest.mark.parametrize(
    ("threads", "cpus", "advice"), [(4, 2, "fewer-threads"), (1, 2, "more-threads"), (2, 2, ""), (1, 1, ""), (2, 8, "")]
)
def test_threads(monkeypatch: pytest.MonkeyPatch, threads: int, cpus: int, advice: str) -> None:
    monkeypatch.setattr(MODULE, "usable_cpus", lambda: cpus)
    assert judged("threads", threads=threads)[1] == advice


def test_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "usable_cpus", lambda: 2)
    assert judged("workers", workers=32) == ("look", "fewer-workers")
    assert judged("workers", worker_start="fork") == ("look", "default-workers")
    assert judged("worker-start", pool="BrokenProcessPool: planted") == ("breaks", "no-workers")


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": "250000 100000"}, 3),
        ({"cpu.max": "10000 100000"}, 1),
        ({"cpu.cfs_quota_us": "200000", "cpu.cfs_period_us": "100000"}, 2),
        ({"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, 8),
        ({}, 8),
    ],
)
def test_the_quota_of_a_control_group_counts(monkeypatch: pytest.MonkeyPatch, files: dict[str, str], cpus: int) -> None:
    def read(path: Path, *_: Any, **__: Any) -> str:
        if path.name not in files:
            raise FileNotFoundError(path)
        return files[path.name]

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(Path, "read_text", read)
    assert MODULE.usable_cpus() == cpus


def test_no_vector_instructions() -> None:
    assert judged("vectors", vectors="") == ("look", "newer-compiler")
    assert judged("vectors") == ("fine", "")


# ---------------------------------------------------------------- GPUs


@pytest.mark.parametrize(
    ("driver", "changes", "outcome", "advice"),
    [
        ("", {}, "not here", ""),
        ("580.1", {}, "look", "cuda-build"),
        ("580.1", {"cuda": "13.0", "no_gpu": "The NVIDIA driver is too old"}, "breaks", "repair-driver"),
        ("580.1", {"cuda": "13.0", "gpus": [GPU]}, "fine", ""),
        ("", {"cuda": "13.0"}, "not here", ""),
    ],
)
def test_gpu(monkeypatch: pytest.MonkeyPatch, driver: str, changes: dict[str, Any], outcome: str, advice: str) -> None:
    monkeypatch.setattr(MODULE, "driver_version", lambda: driver)
    assert judged("gpu", **changes) == (outcome, advice)


@pytest.mark.parametrize(
    ("driver", "cuda", "outcome"),
    [
        ("570.86.15", "13.0", "breaks"),
        ("580.65.06", "13.0", "fine"),
        ("525.60.13", "12.8", "fine"),
        ("470.57", "12.1", "breaks"),
    ],
)
def test_driver(monkeypatch: pytest.MonkeyPatch, driver: str, cuda: str, outcome: str) -> None:
    monkeypatch.setattr(MODULE, "driver_version", lambda: driver)
    assert judged("driver", cuda=cuda)[0] == outcome


def test_the_driver_is_read_from_the_kernel_or_from_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: told)
    assert MODULE.driver_version() == "550.54.15"


def test_old_gpus_and_builds_without_their_code(monkeypatch: pytest.MonkeyPatch) -> None:
    old, foreign = GPU | {"capability": "6.1"}, GPU | {"has_code": False}
    assert judged("capability", gpus=[GPU, old]) == ("breaks", "older-gpu")
    assert judged("capability", gpus=[foreign], architectures=["sm_90"]) == ("breaks", "other-build")
    assert judged("capability", gpus=[GPU]) == ("fine", "")
    assert judged("capability") == ("not here", "")

    torch = pytest.importorskip("torch")
    names: list[str] = []
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: names)
    properties = SimpleNamespace(name="A GPU", major=8, minor=6)
    for built_for, has in (("sm_80", 1), ("sm_90", 0), ("sm_75 compute_75", 1), ("sm_89", 0), ("compute_90", 0)):
        names[:] = built_for.split()
        assert MODULE.gpu_facts(properties)["has_code"] == bool(has), names


@pytest.mark.parametrize(
    ("installed", "gpus", "outcome", "advice"),
    [
        ("", [], "not here", ""),
        ("", [GPU], "breaks", "install-triton"),
        ("3.5.0", [GPU], "breaks", "match-triton"),
        ("3.5.0", [], "look", "match-triton"),
        ("3.6.0", [GPU], "fine", ""),
    ],
)
def test_triton(monkeypatch: pytest.MonkeyPatch, installed: str, gpus: list[Any], outcome: str, advice: str) -> None:
    monkeypatch.setattr(MODULE, "requirements", lambda _: ["filelock", "triton==3.6.0"])
    monkeypatch.setattr(MODULE, "version_of", lambda _: installed)
    assert judged("triton", gpus=gpus) == (outcome, advice)


# ---------------------------------------------------------------- packages beside torch


@pytest.mark.parametrize(
    ("wanted", "body", "outcome", "said"),
    [
        ("torch==2.13.0", "", "fine", ""),
        ("torch==2.11.0", "", "breaks", "wanted=torch==2.11.0"),
        (
            "torch==2.13.0",
            "raise RuntimeError('operator torchvision::nms does not exist')",
            "breaks",
            "torchvision::nms",
        ),
    ],
)
def test_torchvision(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: str, body: str, outcome: str, said: str
) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(body)
    info = tmp_path / "torchvision-0.99.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: torchvision\nVersion: 0.99\nRequires-Dist: {wanted}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found, seen, advice = MODULE.CHECKS["torchvision"](FACTS)
    assert (seen, advice) == (outcome, "match-torch" if outcome == "breaks" else "")
    assert said in found


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("2.13.0+cpu", "torch==2.13.0", True),
        ("2.13.1", "torch==2.13.0", False),
        ("2.13.0", "torch==2.1", False),
        ("3.8.2", "triton~=3.8.0", True),
        ("3.9.0", "triton~=3.8.0", False),
        ("3.8.0", "triton>=3.9", True),  # not judged
        ("1.0", "", True),
    ],
)
def test_versions_that_fit(version: str, wanted: str, fits: bool) -> None:
    assert MODULE.fits(version, wanted) is fits


# ---------------------------------------------------------------- the trial


@pytest.mark.parametrize(
    ("seen", "outcome", "advice"),
    [
        ({"error": "InductorError: planted"}, "breaks", "read-the-message"),
        ({"same": False, "graphs": 1, "kernels": 2}, "breaks", "report-it"),
        ({"same": True, "graphs": 0, "kernels": 0}, "breaks", "nothing-compiled"),
        ({"same": True, "graphs": 1, "kernels": 2}, "fine", ""),
    ],
)
def test_the_trial(monkeypatch: pytest.MonkeyPatch, seen: dict[str, Any], outcome: str, advice: str) -> None:
    monkeypatch.setattr(MODULE, "child", lambda *_, **__: seen)
    assert judged("compile-cpu") == (outcome, advice)
    assert judged("compile-gpu") == ("not here", "")
    assert judged("compile-gpu", gpus=[GPU]) == (outcome, advice)


def test_the_reason_is_taken_out_of_a_message() -> None:
    text = "CppCompileError: C++ compile error\n\nCommand:\ng++ x\n\nOutput:\n/a/c.h:1: fatal error: omp.h: No file\n"
    assert MODULE.first_error(text) == "/a/c.h:1: fatal error: omp.h: No file"
    assert MODULE.first_error("\nInvalidCxxCompiler: none\nmore") == "InvalidCxxCompiler: none"


def test_nothing_of_the_machine_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    told = MODULE.hidden(f"{tmp_path}/torchinductor_ada/x.so, {Path.home()}/y, /opt/secret/project/z.h: error")
    assert told == "$TMPDIR/torchinductor_$USER/x.so, ~/y, …/z.h: error"


# ---------------------------------------------------------------- words and page


def test_every_advice_is_given_by_a_check_and_has_words_in_both_languages() -> None:
    text = FILE.read_text("utf-8").partition("ADVICE = {")[2]
    checks = text.partition("\n}\n")[2]
    words = labels.data()["values"]["advice"]
    for name, sentence in MODULE.ADVICE.items():
        assert f'"{name}"' in checks, f"no check gives {name}"
        assert words[name]["en"] == sentence
        assert re.search("[\u4e00-\u9fff]", words[name]["zh"])
    assert set(MODULE.ADVICE) <= set(words)


def test_every_check_and_outcome_has_words_and_every_check_a_section() -> None:
    values = labels.data()["values"]
    assert set(MODULE.CHECKS) <= set(values["check"])
    assert set(MODULE.MARKS) <= set(values["outcome"])
    for language in LANGUAGES:
        page = (ROOT / "docs" / language / "errors" / "preflight.md").read_text("utf-8")
        assert sorted(re.findall(r"\{#check-([\w-]+)\}", page)) == sorted(MODULE.CHECKS)


def test_the_terminal_shows_the_answers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"check": "compiler", "found": "g++=missing", "outcome": "breaks", "advice": "install-compiler"}
    monkeypatch.setattr(MODULE, "run", lambda: [row])
    monkeypatch.setattr(sys, "argv", ["preflight.py"])
    assert MODULE.main() == 1
    shown = capsys.readouterr().out
    assert "BREAKS  compiler" in shown
    assert MODULE.ADVICE["install-compiler"] in shown
    monkeypatch.setattr(MODULE, "run", lambda: [row | {"outcome": "look"}])
    assert MODULE.main() == 0
