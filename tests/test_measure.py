"""The measure command: order, freshness, budget, interruption, places that can't be written."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kitchen import bundle, machine, measure, results, snippet
from kitchen.__main__ import main
from kitchen.measure import MeasureError, Report
from tests.processes import heed_interrupts
from tests.snippet_files import run_body, write_snippet

REPO = Path(__file__).resolve().parent.parent
PROBED = {
    "torch": "2.13.0+cpu",
    "triton": None,
    "cuda": None,
    "driver": None,
    "cxx": "g++ 12",
    "threads": 2,
    "interop_threads": 2,
    "gpu": None,
}
Measure = Callable[..., tuple[Report, str]]


@pytest.fixture
def kitchen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """measure() on a made-up machine with the snippets that the test wrote, without the seconds torch takes."""
    monkeypatch.setattr(machine, "probe", lambda: PROBED)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # a lock of the test's own

    def call(**options: Any) -> tuple[Report, str]:
        out = io.StringIO()
        report = measure.measure(root=tmp_path / "results", snippets=tmp_path / "snippets", out=out, **options)
        return report, out.getvalue()

    return call


def add(tmp_path: Path, name: str, code: str = "return [{'n': 1}]", **options: Any) -> Path:
    return write_snippet(tmp_path / "snippets", run_body(code), name=name, **options).path


def test_measures_all_then_nothing_then_what_was_edited(tmp_path: Path, kitchen: Measure) -> None:
    for name in ("demo/a", "demo/b", "demo/c"):
        path = add(tmp_path, name)
    report, said = kitchen()
    assert report.recorded == {"demo/a": "ok", "demo/b": "ok", "demo/c": "ok"}
    assert report.exit_code == 0
    assert "[1/3] demo/a" in said
    assert "3 to measure, 0 fresh" in said
    folders = sorted((tmp_path / "results").rglob("run.json"))
    report, said = kitchen()
    assert (report.recorded, report.folder) == ({}, None)
    assert "Nothing to measure" in said
    assert sorted((tmp_path / "results").rglob("run.json")) == folders, "a run that measures nothing leaves nothing"
    path.write_text(path.read_text("utf-8") + "# edited\n", "utf-8")
    report, _ = kitchen()
    assert report.recorded == {"demo/c": "ok"}
    assert len(results.load_records(tmp_path / "results")) == 4, "the old record stays"


def test_a_long_one_is_measured_when_it_is_named(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/short")
    add(tmp_path, "demo/long", more="on_request = true")
    report, said = kitchen()
    assert list(report.recorded) == ["demo/short"]
    assert "Long ones, measured when --only names them: demo/long" in said
    report, said = kitchen(only=["demo/*"])
    assert list(report.recorded) == ["demo/long"]
    assert "Long ones" not in said


def test_only_long_ones(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/long", more="on_request = true")
    with pytest.raises(MeasureError, match="on request only"):
        kitchen()


def test_a_subject_is_recorded_under_its_own_name(tmp_path: Path, kitchen: Measure) -> None:
    root = tmp_path / "snippets"
    body = "def run(*, model, n=0):\n    return [{'lines': len(open(model).readlines()), 'n': n}]\n"
    tool = write_snippet(
        root, body.replace("model,", "model='',").replace("open(model)", "open(model or __file__)"), name="demo/tool"
    )
    one = write_snippet(root, "SIZE = 1\n", name="demo/one", more='measured_by = "demo/tool"\n# arguments = {n = 3}')
    report, _ = kitchen()
    assert report.recorded == {"demo/one": "ok", "demo/tool": "ok"}
    [record] = results.newest(tmp_path / "results", "demo/one").values()
    assert record.rows == [{"lines": len(one.path.read_text("utf-8").splitlines()), "n": 3}]
    tool.path.write_text(tool.path.read_text("utf-8") + "# edited\n", "utf-8")
    report, _ = kitchen()
    assert set(report.recorded) == {"demo/one", "demo/tool"}, "what measures it has changed"


def test_an_edit_before_its_turn_counts_and_one_while_it_runs_spoils_it(tmp_path: Path, kitchen: Measure) -> None:
    later = add(tmp_path, "demo/b", value=1)
    edit = f"path = {str(later)!r}\ntext = open(path).read()\nopen(path, 'w').write(text + '# edited\\n')\n"
    add(tmp_path, "demo/a", edit + "return [{'n': 1}]", value=2)
    own = "text = open(__file__).read()\nopen(__file__, 'w').write(text + '# edited\\n')\nreturn [{'n': 1}]"
    add(tmp_path, "demo/c", own)
    report, _ = kitchen()
    assert report.recorded == {"demo/a": "ok", "demo/b": "ok", "demo/c": "failed"}
    records = {r.snippet: r for r in results.load_records(tmp_path / "results")}
    assert not results.is_stale(records["demo/b"], snippet.load("demo/b", tmp_path / "snippets"))
    assert (records["demo/c"].rows, records["demo/c"].reason) == ([], "its file was changed while it ran")


def test_a_folder_without_snippets(tmp_path: Path, kitchen: Measure) -> None:
    (tmp_path / "snippets").mkdir()
    with pytest.raises(MeasureError, match="no snippets"):
        kitchen()


def test_another_torch_is_not_fresh(tmp_path: Path, kitchen: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    add(tmp_path, "demo/a")
    kitchen()
    monkeypatch.setattr(machine, "probe", lambda: PROBED | {"torch": "2.14.0"})
    assert kitchen()[0].recorded == {"demo/a": "ok"}


def test_beside_the_machines_own_torch(tmp_path: Path, kitchen: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    add(tmp_path, "demo/a")
    kitchen()
    monkeypatch.setattr(machine, "probe", lambda: PROBED | {"torch": "2.14.0+cpu"})
    assert kitchen(beside=True)[0].recorded == {"demo/a": "ok"}
    assert kitchen(beside=True)[0].fresh == ["demo/a"], "fresh is a matter of this torch alone"
    monkeypatch.setattr(machine, "probe", lambda: PROBED)
    assert kitchen()[0].fresh == ["demo/a"], "a run beside is not the machine's newest"
    both = results.by_torch(tmp_path / "results", "demo/a")
    ((own, other),) = (versions.values() for versions in both.values())
    assert (own.run.beside, other.run.beside) == (False, True)


def test_force_measures_what_is_fresh(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/a")
    kitchen()
    assert kitchen(force=True)[0].recorded == {"demo/a": "ok"}


def test_failures_are_records_the_others_go_on_and_they_are_tried_again(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/a", "raise RuntimeError('broken')", value=9)
    add(tmp_path, "demo/b", "import time\ntime.sleep(60)", limit_s=0.7, value=8)
    add(tmp_path, "demo/c", value=7)
    report, said = kitchen()
    assert report.recorded == {"demo/a": "failed", "demo/b": "timeout", "demo/c": "ok"}
    assert report.exit_code == 1
    assert "RuntimeError: broken" in said
    record = next(iter(results.newest(tmp_path / "results", "demo/a").values()))
    assert record.status == "failed"
    assert "RuntimeError: broken" in (record.reason or "")
    assert list(kitchen()[0].recorded) == ["demo/a", "demo/b"]


def test_what_stays_unavailable_is_recorded_once(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/a", dependencies='["no-such-package-anywhere"]')
    assert kitchen()[0].recorded == {"demo/a": "unavailable"}
    report, said = kitchen()
    assert (report.recorded, report.unavailable, report.exit_code) == ({}, ["demo/a"], 0)
    assert "pip install 'no-such-package-anywhere'" in said


def test_a_record_of_another_environment_is_not_covered_up(
    tmp_path: Path, kitchen: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that is in another environment only: there it is measured, here its record stays."""
    package = tmp_path / "other" / "only_there-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: only-there\nVersion: 1\n")
    path = add(tmp_path, "demo/a", dependencies='["only-there"]')
    with monkeypatch.context() as there:
        there.setenv("PYTHONPATH", str(package.parent))
        there.setattr(machine, "probe", lambda: PROBED | {"torch": "2.10.0"})
        assert kitchen()[0].recorded == {"demo/a": "ok"}
    report, said = kitchen(force=True)
    assert (report.recorded, report.unavailable, report.exit_code) == ({}, ["demo/a"], 0)
    assert "its record of torch 2.10.0 stays" in said
    [record] = results.newest(tmp_path / "results", "demo/a").values()
    assert record.status == "ok"
    path.write_text(path.read_text("utf-8") + "# edited\n", "utf-8")
    assert kitchen()[0].recorded == {"demo/a": "unavailable"}, "an old record says nothing about a new snippet"


def test_only(tmp_path: Path, kitchen: Measure) -> None:
    for name in ("demo/a", "demo/b", "other/c"):
        add(tmp_path, name)
    assert set(kitchen(only=["demo/*"], force=True)[0].recorded) == {"demo/a", "demo/b"}
    assert set(kitchen(only=["other/c.py"], force=True)[0].recorded) == {"other/c"}
    assert set(kitchen(only=["snippets/other/c.py"], force=True)[0].recorded) == {"other/c"}
    with pytest.raises(MeasureError, match="there are: demo/a, demo/b, other/c"):
        kitchen(only=["nothing*"])


def test_most_valuable_first(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/a", value=1)
    add(tmp_path, "demo/b", value=5)
    assert list(kitchen()[0].recorded) == ["demo/b", "demo/a"]


def test_a_budget_starts_nothing_that_may_not_end(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/a", value=3, limit_s=5)
    add(tmp_path, "demo/b", value=2, limit_s=3000)
    add(tmp_path, "demo/c", value=1, limit_s=5)
    report, said = kitchen(budget_s=60)
    assert set(report.recorded) == {"demo/a", "demo/c"}
    assert report.left_out == ["demo/b"]
    assert "Left out for want of time: demo/b" in said


def test_a_budget_goes_by_how_long_it_took_here(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/a", limit_s=3000)
    kitchen()
    # Known to take well under a second, although its limit is larger than the budget.
    assert kitchen(force=True, budget_s=30)[0].recorded == {"demo/a": "ok"}


def test_what_the_budget_cuts_is_not_called_a_timeout(tmp_path: Path, kitchen: Measure) -> None:
    path = add(tmp_path, "demo/a", limit_s=3000)
    kitchen()
    path.write_text(path.read_text("utf-8").replace("return", "import time; time.sleep(60)\n    return"), "utf-8")
    report, said = kitchen(budget_s=7)
    assert (report.recorded, report.left_out) == ({}, ["demo/a"])
    assert "the budget ended before it did" in said


def test_what_is_too_large_to_keep_is_a_failure_not_a_trap(
    tmp_path: Path, kitchen: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path, "demo/a", "return [{'text': 'x' * 50_000}]", value=1)
    add(tmp_path, "demo/b")
    monkeypatch.setattr(results, "MAX_BYTES", 20_000)
    report, said = kitchen()
    assert report.recorded == {"demo/a": "failed", "demo/b": "ok"}
    assert "at most 20000" in said
    assert len(results.load_records(tmp_path / "results")) == 2


def test_text_that_is_not_unicode_stops_nothing(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/a", "return [{'text': chr(0xD800)}]", value=2)
    add(tmp_path, "demo/b", "raise ValueError(chr(0xDFFF))", value=1)
    add(tmp_path, "demo/c")
    report, _ = kitchen()
    assert report.recorded == {"demo/a": "failed", "demo/b": "failed", "demo/c": "ok"}
    reasons = [r.reason or "" for r in results.load_records(tmp_path / "results")]
    assert any("not valid Unicode" in reason for reason in reasons)
    assert any("ValueError" in reason for reason in reasons)


def test_a_full_disk_is_said_and_what_was_recorded_is_kept(
    tmp_path: Path, kitchen: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path, "demo/a", value=1)
    add(tmp_path, "demo/b")
    real = results.write_atomically

    def full(path: Path, text: str) -> None:
        if path.name == "b.json":
            raise OSError(28, "No space left on device", str(path))
        real(path, text)

    monkeypatch.setattr(results, "write_atomically", full)
    with pytest.raises(OSError, match="No space left"):
        kitchen()
    records = results.load_records(tmp_path / "results")
    assert [r.snippet for r in records] == ["demo/a"]
    assert records[0].run.status == "interrupted"
    assert "No space left" in (records[0].run.reason or "")


def test_nobodys_secret_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NVIDIA_API_KEY", "TORCHINDUCTOR_REDIS_URL", "TRITON_TOKEN", "CUDA_SECRET", "MKL_PASSWORD"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("CXX", "/home/hunter2/bin/g++-12")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    recorded = machine.environment(PROBED)
    assert "hunter2" not in json.dumps(recorded)
    assert (recorded["env"]["CXX"], recorded["env"]["OMP_NUM_THREADS"]) == ("g++-12", "1")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_killed_measure_takes_its_snippet_with_it(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    note = tmp_path / "pid"
    add(tmp_path, "demo/a", f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(300)")
    process = subprocess.Popen(
        command(tmp_path), cwd=REPO, env=environment(tmp_path), stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    stat = Path(f"/proc/{note.read_text()}/stat")
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline, "the snippet outlived the measure command"
        time.sleep(0.05)


def test_the_bundle_holds_the_run(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/a")
    add(tmp_path, "demo/b", "raise ValueError")
    target = tmp_path / "out.bundle.json"
    report, said = kitchen(bundle_file=target)
    assert str(target) in said
    assert report.folder is not None
    folders, count = bundle.merge(target, tmp_path / "elsewhere")
    assert count == 2
    assert json.loads((folders[0] / "run.json").read_text()) == json.loads((report.folder / "run.json").read_text())


def test_a_bundle_of_what_is_fresh(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/a")
    kitchen()
    target = tmp_path / "out.bundle.json"
    report, said = kitchen(bundle_file=target)
    assert report.recorded == {}
    assert "the newest recorded" in said
    assert [r["snippet"] for run in bundle.read(target)["runs"] for r in run["records"]] == ["demo/a"]


def test_the_run_says_how_to_repeat_it(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/a")
    report, _ = kitchen(command="python -m kitchen measure --only demo/a")
    assert report.folder is not None
    run = results.load_run(report.folder)
    assert run.command == "python -m kitchen measure --only demo/a"
    assert run.status == "complete"
    assert run.environment["torch"] == "2.13.0+cpu"


def test_two_at_once_are_refused(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/a")
    kitchen()
    with measure._only_one(), pytest.raises(MeasureError, match="another measure is running"):
        kitchen(force=True)
    assert kitchen(force=True)[0].recorded == {"demo/a": "ok"}


def test_a_results_folder_that_is_a_file(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/a")
    (tmp_path / "results").write_text("")
    with pytest.raises(MeasureError, match="--results"):
        kitchen()


def test_a_bundle_place_that_does_not_exist_is_found_before_measuring(tmp_path: Path, kitchen: Measure) -> None:
    add(tmp_path, "demo/a", f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\nreturn [{{'n': 1}}]")
    with pytest.raises(MeasureError, match="--bundle"):
        kitchen(bundle_file=tmp_path / "none" / "x.json")
    assert not (tmp_path / "none").exists()
    assert not (tmp_path / "ran").exists()


def command(tmp_path: Path, *options: str) -> list[str]:
    """The real command in a process of its own, with the snippets and results of the test."""
    return [sys.executable, "-m", "kitchen", "measure", "--results", str(tmp_path / "results"), *options]


def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"KITCHEN_SNIPPETS": str(tmp_path / "snippets"), "TMPDIR": str(tmp_path)}


@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv to give up root's right to write anywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    add(tmp_path, "demo/a", f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\nreturn [{{'n': 1}}]")
    folder = tmp_path / "results"
    folder.mkdir(mode=0o555)
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
    prefix = drop if os.geteuid() == 0 else []
    done = subprocess.run(
        [*prefix, *command(tmp_path)], cwd=REPO, env=environment(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "cannot be written (Permission denied): choose another with --results" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "ran").exists(), "nothing is measured whose result could not be kept"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "terminate"])
def test_interrupted_half_way_it_keeps_what_is_there_and_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    pytest.importorskip("torch")
    add(tmp_path, "demo/a", value=3)
    slow = add(tmp_path, "demo/b", "import time\nprint('slow', flush=True)\ntime.sleep(100)", value=2)
    add(tmp_path, "demo/c", value=1)
    target = tmp_path / "x.bundle.json"
    process = subprocess.Popen(
        command(tmp_path, "--bundle", str(target)),
        cwd=REPO,
        env=environment(tmp_path),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    assert process.stderr is not None
    said = ""
    while "[2/3] demo/b" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    time.sleep(0.5)
    process.send_signal(number)
    said += process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "Traceback" not in said
    assert "1 of 3 recorded" in said
    records = results.load_records(tmp_path / "results")
    assert [(r.snippet, r.status) for r in records] == [("demo/a", "ok")]
    assert records[0].run.status == "interrupted"
    assert "demo/b" in (records[0].run.reason or "")
    assert [len(run["records"]) for run in bundle.read(target)["runs"]] == [1]

    slow.write_text(slow.read_text("utf-8").replace("time.sleep(100)", "return [{'n': 2}]"), "utf-8")
    again = command(tmp_path, "--bundle", str(target))
    done = subprocess.run(again, cwd=REPO, env=environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "2 to measure, 1 fresh" in done.stderr
    assert [len(run["records"]) for run in bundle.read(target)["runs"]] == [1, 2], "the bundle holds both halves"


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="POSIX signals")
def test_what_the_caller_ignores_stays_ignored() -> None:
    """Under nohup a run goes on when the terminal closes."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with measure._terminated_as_interrupt():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) not in (signal.SIG_IGN, signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_without_torch_it_says_what_to_install(tmp_path: Path) -> None:
    add(tmp_path, "demo/a")
    blocker = tmp_path / "block"
    blocker.mkdir()
    (blocker / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")")
    done = subprocess.run(
        command(tmp_path),
        cwd=REPO,
        env=environment(tmp_path) | {"PYTHONPATH": str(blocker)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "pip install torch" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "argv",
    [["measure", "--budget", "soon"], ["measure", "--budget", "-1"], ["measure", "--budget", "nan"], ["cook"], []],
)
def test_bad_arguments(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2


def test_the_measuring_half_needs_only_the_standard_library() -> None:
    """In an isolated Python, every module but the standard library's is refused."""
    program = (
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] not in sys.stdlib_module_names | {'kitchen'}:\n"
        "            raise ImportError('not in the standard library: ' + name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        f"sys.path.insert(0, {str(REPO)!r})\n"
        "import kitchen.__main__, kitchen.child, kitchen.bundle, kitchen.measure\n"
        "kitchen.__main__.main(['status'])\n"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def cpuinfo(**changes: object) -> str:
    fields = {"vendor_id": "AuthenticAMD", "cpu family": 26, "model": 2, "model name": "AMD EPYC", "flags": "fpu"}
    fields |= {key.replace("_", " "): value for key, value in changes.items() if key != "vendor_id"}
    fields["vendor_id"] = changes.get("vendor_id", fields["vendor_id"])
    return "".join(f"{key}\t: {value}\n" for key, value in fields.items())


def test_names_of_machines() -> None:
    assert machine.cpu_info(cpuinfo(flags="fpu hypervisor")) == {
        "short": "AMD EPYC turin",
        "title": "AMD EPYC (Turin)",
        "virtual": True,
    }
    milan = cpuinfo(cpu_family=25, model=1, model_name="AMD EPYC 7763 64-Core Processor")
    assert machine.cpu_info(milan)["title"] == "AMD EPYC (Milan)"
    core = cpuinfo(
        vendor_id="GenuineIntel",
        cpu_family=6,
        model=140,
        model_name="11th Gen Intel(R) Core(TM) i7-1165G7 CPU @ 2.80GHz",
    )
    assert machine.cpu_info(core)["title"] == "11th Gen Intel Core i7-1165G7"
    gpu = {"name": "NVIDIA H200", "memory_gib": 139.8, "count": 1}
    assert machine.describe(PROBED | {"gpu": gpu})["name"] == "nvidia-h200"
    assert machine.describe(PROBED | {"gpu": gpu | {"count": 8}})["name"] == "8x-nvidia-h200"
    assert machine.slug("  ") == "unknown"
