"""Compiler, caches, processes: a fix left out is seen, counts are counts, and what can't be tried says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kitchen import labels
from tests.error_snippets import load

torch = pytest.importorskip("torch")


def plant_process(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, told: Any, make: Callable[[dict[str, str]], None] | None = None
) -> None:
    """In place of a process: its answer, and the files that it leaves in the folders of its environment."""

    def run(command: list[str], *, env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        if make:
            make(env)
        return subprocess.CompletedProcess(command, 0, f"chatter\n{json.dumps(told)}\n", "")

    monkeypatch.setattr(module.subprocess, "run", run)


def library(env: dict[str, str], name: str = "kernel") -> None:
    folder = Path(env["TORCHINDUCTOR_CACHE_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.main.so").touch()


def test_a_message_keeps_its_reason_and_loses_command_and_folders() -> None:
    shown = load("missing_python_headers").shown
    text = (
        "CppCompileError: C++ compile error\n\nCommand:\ng++ /tmp/x/y.cpp -I/usr/include -o /tmp/x/y.so\n\nOutput:\n"
        "/tmp/x/y.cpp:41:10: fatal error: Python.h: No such file or directory\n\nSet TORCHDYNAMO_VERBOSE=1 for more"
    )
    told = shown(text)
    assert told.startswith("CppCompileError: C++ compile error")
    assert told.endswith("…/y.cpp:41:10: fatal error: Python.h: No such file or directory")
    assert "g++" not in told
    hashed = "c" + "k7" * 25 + "a"
    assert (
        shown(f"OSError: /tmp/cache/k7/{hashed}.main.so: file too short") == "OSError: …/<hash>.main.so: file too short"
    )


def test_a_function_that_fails_in_its_process_is_no_row() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)no_such_function ended with 1: .*KeyError"):
        load("torchvision_nms").child("no_such_function")


def test_a_compiler_that_is_named_and_not_there_is_an_error_still() -> None:
    seen = load("no_compiler").child("attempt", CXX="planted-compiler")
    assert (seen["happened"], seen["raised_at"], seen["evidence"]) == ("error", "first call", "libraries=0")
    assert "planted-compiler" in seen["message"]


@pytest.mark.parametrize("name", ["missing_python_headers", "missing_openmp"])
def test_what_the_wrapper_takes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    module = load(name)
    kept: dict[str, str] = {}

    def child(function: str, **environment: str) -> dict[str, str]:
        kept["text"] = Path(environment["CXX"]).read_text("utf-8")
        arguments = [f"-I{module.sysconfig.get_paths()['include']}"] if name == "missing_python_headers" else []
        done = subprocess.run(
            [environment["CXX"], "-E", "-x", "c++", *arguments, "-I/elsewhere", "-v", os.devnull],
            capture_output=True,
            text=True,
            check=False,
        )
        kept["said"] = done.stderr
        return {"happened": "error"}

    monkeypatch.setattr(module, "child", child)
    assert module.problem(os.environ.get("CXX", "g++"), tmp_path)["happened"] == "error"
    assert '"/elsewhere"' in kept["said"], "what it does not take away it hands on"
    if name == "missing_python_headers":
        assert module.sysconfig.get_paths()["include"] in kept["text"]
        assert f"-I {module.sysconfig.get_paths()['include']}" not in kept["said"]
    else:
        assert "-nostdinc" in kept["text"]


def test_root_too_is_kept_out_of_a_folder(tmp_path: Path) -> None:
    module = load("cache_folder_not_writable")
    (tmp_path / "shared").mkdir(mode=0o555)
    code = f"open({str(tmp_path / 'shared' / 'file')!r}, 'w')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=module.as_an_ordinary_user,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "PermissionError" in done.stderr


def test_a_mount_without_execution_is_found_and_without_one_the_row_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("cache_folder_noexec")
    mounts = [
        "proc /proc proc rw,noexec 0 0",
        f"tmpfs {tmp_path} tmpfs rw,nosuid 0 0",
        f"tmpfs {tmp_path / 'missing'} tmpfs rw,noexec 0 0",
    ]
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "\n".join(mounts))
    assert module.mounted_noexec() == ""
    mounts.append(f"tmpfs {tmp_path} tmpfs rw,nosuid,noexec,relatime 0 0")
    assert module.mounted_noexec() == str(tmp_path)
    monkeypatch.setattr(module, "mounted_noexec", lambda: "")
    monkeypatch.setattr(module, "can_mount", lambda _: False)
    row = module.problem(tmp_path)
    assert (row["status"], row["happened"]) == ("not measured", "")
    assert labels.note(row["note"], "zh") != row["note"]


def test_without_landlock_the_row_says_so_and_the_fix_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("no_temporary_directory")
    plant_process(monkeypatch, module, {"happened": "fine", "evidence": "libraries=1"})
    monkeypatch.setattr(module, "landlock_version", lambda: 0)
    problem, fix = module.run()
    assert (problem["status"], fix["happened"]) == ("not measured", "fine")
    assert labels.note(problem["note"], "zh") != problem["note"]


def test_landlock_leaves_one_folder_only(tmp_path: Path) -> None:
    module = load("no_temporary_directory")
    if not module.landlock_version():
        pytest.skip("this kernel has no Landlock")
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        code = f"open({str(folder / 'file')!r}, 'w')"
        subprocess.run(
            [sys.executable, "-c", code],
            preexec_fn=module.write_only_below(inside),
            capture_output=True,
            check=False,
        )
    assert [(folder / "file").exists() for folder in (inside, outside)] == [True, False]


@pytest.mark.slow
def test_a_damaged_cache_stays_damaged_until_it_is_deleted(tmp_path: Path) -> None:
    module = load("cache_file_damaged")
    cache = tmp_path / "cache"
    assert module.problem(cache)["error"] == "BackendCompilerFailed"
    again = module.child("attempt", TORCHINDUCTOR_CACHE_DIR=str(cache))
    assert again["happened"] == "error", "a restart is no fix"


@pytest.mark.parametrize(
    ("built", "same", "happened", "evidence"),
    [
        (("header.h.gch",), True, "fine", "headers=1, libraries=1"),
        (("header.pch", "other.gch"), True, "fine", "headers=2, libraries=1"),
        ((), True, "not compiled", "headers=0, libraries=1"),
        (("header.gch",), False, "wrong", "headers=1, libraries=1"),
    ],
)
def test_headers_that_were_there_before_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: tuple[str, ...], same: bool, happened: str, evidence: str
) -> None:
    module = load("new_cache_folder_is_not_cold")
    (tmp_path / "old.gch").touch()

    def make(env: dict[str, str]) -> None:
        library(env)
        for name in built:
            (Path(env["TMPDIR"]) / name).touch()

    plant_process(monkeypatch, module, same, make)
    assert module.cold(tmp_path / "cache", tmp_path) == {"happened": happened, "evidence": evidence}


@pytest.mark.parametrize(
    ("hits", "built", "same", "happened"),
    [(1, "", True, "fine"), (1, "new", True, "costly"), (0, "", True, "costly"), (1, "", False, "wrong")],
)
def test_libraries_that_were_carried_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hits: int, built: str, same: bool, happened: str
) -> None:
    module = load("artifacts_without_libraries")
    library({"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}, "carried")
    make = (lambda env: library(env, built)) if built else None
    plant_process(monkeypatch, module, {"same": same, "hits": hits}, make)
    seen = module.machine(tmp_path, "load")
    assert seen == {"happened": happened, "evidence": f"hits={hits}, libraries={int(bool(built))}"}


def test_a_first_start_with_freezing_is_costly_too(tmp_path: Path) -> None:
    seen = load("freezing_bypasses_cache").child("unpacked", str(tmp_path))
    assert seen == {"happened": "costly", "evidence": "hit=0, miss=1, bypass=0"}


def test_a_worker_that_hangs_is_not_waited_for_and_a_wrong_answer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("fork_after_first_call")
    monkeypatch.setattr(module, "PATIENCE_S", {"fork": 2})
    monkeypatch.setattr(module, "X", torch.ones(4))
    for compiled, happened in ((module.f, "fine"), (torch.neg, "wrong"), (lambda _: time.sleep(60), "error")):
        monkeypatch.setattr(module, "compiled", compiled)
        assert module.in_worker("fork")["happened"] == happened


def test_the_end_of_a_script_is_read_from_what_it_says() -> None:
    child = load("no_main_guard").child
    assert child("print('same: True')", "subprocess") == {"happened": "fine", "evidence": "exit=0"}
    assert child("print('same: False')", "subprocess")["happened"] == "wrong"
    seen = child("raise ValueError('planted')", "subprocess")
    assert (seen["error"], seen["message"], seen["evidence"]) == ("ValueError", "planted", "exit=1")


def test_boxes_that_cover_each_other_are_dropped_by_score() -> None:
    module = load("torchvision_nms")
    assert module.nms(module.BOXES, module.SCORES, 0.5).tolist() == [0, 2]
    assert module.nms(module.BOXES, module.SCORES, 0.99).tolist() == [0, 1, 2]
    assert module.nms(module.BOXES, module.SCORES.flip(0), 0.5).tolist() == [2, 1]


def test_a_worker_of_a_pool_tells_what_it_met(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("daemonic_processes")

    def refuse() -> None:
        raise AssertionError("daemonic processes are not allowed to have children")

    monkeypatch.setattr(module.AsyncCompile, "warm_pool", refuse)
    seen = module.compile_in_worker(0)
    assert (seen["happened"], seen["error"], seen["raised_at"]) == ("error", "AssertionError", "first call")
