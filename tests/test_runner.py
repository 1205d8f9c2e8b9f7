"""What the runner must survive: each fault is provoked for real and ends as a status with a reason."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from kitchen import runner
from tests.processes import heed_interrupts
from tests.snippet_files import run_body, write_snippet

REPO = Path(__file__).resolve().parent.parent


def outcome(tmp_path: Path, code: str, *, limit_s: float = 60, env: dict[str, str] | None = None) -> runner.Outcome:
    return runner.run(write_snippet(tmp_path, run_body(code)), limit_s=limit_s, env=env)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    rows = [{"name": "größer 编译", "n": 3, "step_us": 1.5, "yes": True, "none": None, "samples_us": [1, 2.5]}]
    result = outcome(tmp_path, f"return {rows!r}")
    assert (result.status, result.reason, result.rows) == ("ok", None, rows)
    assert result.wall_s > 0


def test_arguments_reach_run(tmp_path: Path) -> None:
    one = write_snippet(tmp_path, "def run(*, seconds=10.0):\n    return [{'seconds': seconds}]\n")
    assert runner.run(one, {"seconds": 0.5}).rows == [{"seconds": 0.5}]


def test_an_exception_names_the_line(tmp_path: Path) -> None:
    result = outcome(tmp_path, "raise ValueError('no such thing')")
    assert result.status == "failed"
    assert result.rows == []
    assert result.reason is not None
    assert "ValueError: no such thing (one.py:" in result.reason
    assert "Traceback" in result.stderr_tail


def test_an_exception_while_importing(tmp_path: Path) -> None:
    result = runner.run(write_snippet(tmp_path, "import a_module_nobody_has\n\n\ndef run():\n    return []\n"))
    assert result.status == "failed"
    assert "a_module_nobody_has" in (result.reason or "")


@pytest.mark.parametrize("code", ["import sys\nsys.exit(0)", "import sys\nsys.exit('done')", "raise SystemExit"])
def test_sys_exit_is_a_failure_even_with_0(tmp_path: Path, code: str) -> None:
    result = outcome(tmp_path, code)
    assert result.status == "failed"
    assert "sys.exit(" in (result.reason or "")


def test_os_exit_is_a_failure(tmp_path: Path) -> None:
    result = outcome(tmp_path, "import os\nos._exit(0)")
    assert (result.status, result.rows) == ("failed", [])
    assert "exit code 0 without returning rows" in (result.reason or "")


def test_a_segmentation_fault(tmp_path: Path) -> None:
    result = outcome(tmp_path, "import ctypes\nctypes.string_at(0)")
    assert result.status == "failed"
    assert "SIGSEGV" in (result.reason or "")
    assert "Segmentation fault" in result.stderr_tail, "faulthandler tells where it crashed"


def test_a_crash_at_exit_after_the_rows_is_not_ok(tmp_path: Path) -> None:
    result = outcome(tmp_path, "import atexit, os\natexit.register(os.abort)\nreturn [{'n': 1}]")
    assert (result.status, result.rows) == ("failed", [])
    assert "SIGABRT" in (result.reason or "")


def test_a_hang_is_stopped_at_the_limit(tmp_path: Path) -> None:
    began = time.monotonic()
    result = outcome(tmp_path, "import time\nprint('began', flush=True)\ntime.sleep(600)", limit_s=6)
    assert result.status == "timeout"
    assert "6 s" in (result.reason or "")
    assert "began" in result.stdout_tail
    assert time.monotonic() - began < 60


def test_a_hang_that_ignores_signals(tmp_path: Path) -> None:
    code = """
    import signal, time
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass
    """
    assert outcome(tmp_path, code, limit_s=1).status == "timeout"


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds strays through /proc")
@pytest.mark.parametrize("session", [False, True], ids=["in the group", "in a session of its own"])
def test_a_child_left_behind_is_stopped_and_told(tmp_path: Path, session: bool) -> None:
    code = f"""
    import subprocess
    child = subprocess.Popen(["sleep", "300"], start_new_session={session})
    return [{{"pid": child.pid}}]
    """
    result = outcome(tmp_path, code)
    assert result.status == "ok"
    assert "left 1 process behind" in (result.reason or "")
    assert "sleep 300" in (result.reason or "")
    assert not alive(result.rows[0]["pid"])


@pytest.mark.skipif(sys.platform != "linux", reason="adopts orphans as Linux allows")
def test_a_daemon_that_hides_is_found_and_told(tmp_path: Path) -> None:
    daemon = tmp_path / "daemon.py"
    daemon.write_text(
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n"
        "        os.close(1)\n"
        "        time.sleep(300)\n"
        "    os._exit(0)\n"
    )
    code = f"""
    import subprocess, sys
    command = [sys.executable, {str(daemon)!r}]
    out = subprocess.run(command, env={{}}, stdout=subprocess.PIPE, text=True).stdout
    return [{{"pid": int(out)}}]
    """
    result = outcome(tmp_path, code)
    assert result.status == "ok", result.reason
    assert "left 1 process behind" in (result.reason or "")
    assert not alive(result.rows[0]["pid"])


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds strays through /proc")
def test_a_hang_takes_its_children_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"""
    import subprocess, time, pathlib
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    pathlib.Path({str(note)!r}).write_text(str(child.pid))
    time.sleep(300)
    """
    assert outcome(tmp_path, code, limit_s=8).status == "timeout"
    assert not alive(int(note.read_text()))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("float('nan')", "nan is not a finite number"),
        ("float('inf')", "inf is not a finite number"),
        ("[1, 2]", "list is not a JSON scalar"),
        ("{'a': 1}", "dict is not a JSON scalar"),
        ("object()", "object is not a JSON scalar"),
        ("b'x'", "bytes is not a JSON scalar"),
        ("chr(0xD800)", "the text is not valid Unicode"),
        ("type('Tensor', (), {})()", "Tensor is not a JSON scalar"),
    ],
)
def test_a_value_that_is_not_json_names_row_and_column(tmp_path: Path, value: str, says: str) -> None:
    result = outcome(tmp_path, f"return [{{'a': 1}}, {{'step_us': {value}}}]")
    assert (result.status, result.rows) == ("failed", [])
    assert f"row 1, column 'step_us': {says}" in (result.reason or "")


def test_a_tensor_is_told_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    result = outcome(tmp_path, "import torch\nreturn [{'x': torch.ones(())}]")
    assert "Tensor is not a JSON scalar: convert it (for a tensor: .item())" in (result.reason or "")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("return []", "no rows"),
        ("return None", "returned NoneType"),
        ("return {'a': 1}", "returned dict"),
        ("yield {'a': 1}", "returned generator"),
        ("return [[1]]", "row 0 is list"),
        ("return [{}]", "row 0 is empty"),
        ("return [{1: 2}]", "not a string"),
        ("return [{'samples_us': 3.0}]", "wants a list of numbers"),
        ("return [{'samples_us': [1.0, float('nan')]}]", "wants a finite number"),
    ],
)
def test_what_is_not_rows(tmp_path: Path, code: str, says: str) -> None:
    result = outcome(tmp_path, code)
    assert (result.status, result.rows) == ("failed", [])
    assert says in (result.reason or "")


def test_megabytes_of_output_keep_their_tail(tmp_path: Path) -> None:
    code = """
    import sys
    for index in range(20_000):
        print("x" * 200)
        print("y" * 200, file=sys.stderr)
    print("the last line")
    return [{"n": 1}]
    """
    result = outcome(tmp_path, code)
    assert result.status == "ok"
    assert len(result.stdout_tail) < 5000
    assert result.stdout_tail.rstrip().endswith("the last line")
    assert len(result.stderr_tail) < 5000


def test_output_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "MAX_OUTPUT_BYTES", 4 * 2**20)
    result = outcome(tmp_path, "while True:\n    print('x' * 10_000)", limit_s=60)
    assert result.status == "failed"
    assert "more than 4 MiB of output" in (result.reason or "")
    assert result.wall_s < 30


def test_output_that_is_not_text(tmp_path: Path) -> None:
    result = outcome(tmp_path, "import os\nos.write(1, b'\\xff\\xfe\\x00ok')\nreturn [{'n': 1}]")
    assert result.status == "ok"
    assert "ok" in result.stdout_tail


def test_a_missing_dependency_says_what_to_install(tmp_path: Path) -> None:
    one = write_snippet(tmp_path, run_body("return [{'n': 1}]"), dependencies='["no-such-package-anywhere>=1.2"]')
    result = runner.run(one)
    assert (result.status, result.rows) == ("unavailable", [])
    assert "pip install 'no-such-package-anywhere>=1.2'" in (result.reason or "")


def test_an_old_dependency_says_so(tmp_path: Path) -> None:
    one = write_snippet(tmp_path, run_body("return [{'n': 1}]"), dependencies='["pytest>=999"]')
    result = runner.run(one)
    assert result.status == "unavailable"
    assert "999 or newer is needed" in (result.reason or "")


def test_a_need_that_is_not_met(tmp_path: Path) -> None:
    one = write_snippet(tmp_path, run_body("return [{'n': 1}]"), needs='["redis-server"]')
    result = runner.run(one, env={"PATH": str(tmp_path)})
    assert result.status == "unavailable"
    assert "redis-server" in (result.reason or "")


def test_cuda_is_not_met_without_a_gpu(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    result = runner.run(write_snippet(tmp_path, run_body("return [{'n': 1}]"), needs='["cuda"]'))
    assert result.status == "unavailable"
    assert "needs a CUDA GPU" in (result.reason or "")


def test_a_gpu_is_asked_for_before_packages_that_are_of_no_use_without_one(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    dependencies = '["torch>=2.0", "no-such-package-anywhere>=1.2"]'
    one = write_snippet(tmp_path, run_body("return [{'n': 1}]"), needs='["cuda"]', dependencies=dependencies)
    reason = runner.run(one).reason or ""
    assert ("no-such-package-anywhere" in reason) if torch.cuda.is_available() else ("needs a CUDA GPU" in reason)
    newer = write_snippet(tmp_path, run_body("return [{'n': 1}]"), needs='["cuda"]', dependencies='["torch>=999"]')
    assert "pip install 'torch>=999'" in (runner.run(newer).reason or ""), "torch itself comes first: it tells of GPUs"
    other = write_snippet(
        tmp_path, run_body("return [{'n': 1}]"), needs='["redis-server"]', dependencies='["no-such-package-anywhere"]'
    )
    assert "no-such-package-anywhere" in (runner.run(other, env={"PATH": str(tmp_path)}).reason or "")


@pytest.mark.parametrize("env", [{"PATH": "/nonexistent"}, {"CXX": "/nonexistent/g++"}], ids=["no PATH", "bad CXX"])
def test_no_compiler(tmp_path: Path, env: dict[str, str]) -> None:
    one = write_snippet(tmp_path, run_body("return [{'n': 1}]"), needs='["compiler"]')
    drop = {"CXX": ""} | env
    result = runner.run(one, env=drop)
    assert result.status == "unavailable"
    assert "needs a C++ compiler" in (result.reason or "")
    assert "CXX" in (result.reason or "")


def test_check_only_runs_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    one = write_snippet(tmp_path, run_body(f"open({str(trace)!r}, 'w').close()\nreturn [{{'n': 1}}]"))
    assert runner.run(one, check_only=True).status == "ok"
    assert not trace.exists()


def test_the_snippet_works_in_a_folder_of_its_own(tmp_path: Path) -> None:
    result = outcome(tmp_path, "import os, pathlib\npathlib.Path('x').touch()\nreturn [{'cwd': os.getcwd()}]")
    assert result.status == "ok"
    assert not Path(result.rows[0]["cwd"]).exists(), "it is removed afterwards"


def test_what_a_killed_snippet_left_in_the_temporary_folder_is_removed(tmp_path: Path) -> None:
    note = tmp_path / "where"
    code = f"""
    import tempfile, time
    with open({str(note)!r}, "w") as file:
        file.write(tempfile.mkdtemp())
    time.sleep(300)
    """
    assert outcome(tmp_path, code, limit_s=8).status == "timeout"
    assert note.read_text()
    assert not Path(note.read_text()).exists()


def test_it_sees_neither_our_code_nor_our_arguments(tmp_path: Path) -> None:
    code = (
        "import sys\nreturn [{'argv': ' '.join(sys.argv), 'ours': any(m.startswith('kitchen') for m in sys.modules)}]"
    )
    row = outcome(tmp_path, code).rows[0]
    assert row == {"argv": str(tmp_path / "demo/one.py"), "ours": False}


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_stops_the_snippet_and_reaches_the_caller(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    write_snippet(
        tmp_path,
        run_body(
            f"import os, time\nwith open({str(note)!r}, 'w') as f:\n    f.write(str(os.getpid()))\ntime.sleep(300)"
        ),
    )
    program = (
        "from pathlib import Path\nfrom kitchen import runner, snippet\n"
        f"runner.run(snippet.load('demo/one', Path({str(tmp_path)!r})))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=REPO, stderr=subprocess.PIPE, preexec_fn=heed_interrupts
    )
    deadline = time.monotonic() + 60
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert b"KeyboardInterrupt" in errors
    assert not alive(int(note.read_text()))


def test_what_is_kept_of_the_output_does_not_say_where_the_repository_lies() -> None:
    here = Path(runner.__file__).resolve()
    assert runner.placeless(f'File "{here}", line 3') == f'File "kitchen{os.sep}runner.py", line 3'


def test_what_is_kept_of_the_output_does_not_say_where_libraries_and_temporary_files_lie() -> None:
    for path in (pytest.__file__, os.__file__, str(Path(tempfile.gettempdir(), "kitchen-run-1", "job.json"))):
        kept = runner.placeless(f"File {path}, line 3")
        assert kept != f"File {path}, line 3"
        assert not kept.startswith(f"File {os.sep}")
        assert kept.endswith(f"{Path(path).name}, line 3")
