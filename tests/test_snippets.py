"""Every snippet, copied alone into an empty folder, run on a small budget in a process of its own.

Contract: flat rows of scalars that survive JSON, a status and a note, no times in a row that is not ok, nothing
imported but the standard library and torch. Behaviour: the numbers of a row agree with each other.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import itertools
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kitchen import labels

pytest.importorskip("torch")

Row = dict[str, Any]

SNIPPETS = Path(__file__).parents[1] / "snippets"
EVERY = sorted(str(path.relative_to(SNIPPETS).with_suffix("")) for path in SNIPPETS.rglob("*.py"))
STATUSES = {"ok", "failed", "unavailable", "wrong", "not measured"}
TIME_SUFFIXES = ("_s", "_ms", "_us", "_gbs", "_ratio")
LIMIT_S = 240

# Two of torch's own back ends fail at the first call or at torch.compile(); four more are planted.
PLANTED = """
import os, signal

def wrong(graph, inputs):
    return lambda *values: tuple(value + 1 for value in graph.forward(*values))

def nan(graph, inputs):
    return lambda *values: tuple(value * float("nan") for value in graph.forward(*values))

def crash(graph, inputs):
    os.kill(os.getpid(), signal.SIGSEGV)

def hang(graph, inputs):
    import time
    time.sleep(600)
"""
FAILING = ("no_such_backend", "aot_eager_decomp_partition_with_mode")
BUDGETS: dict[str, Row] = {
    "overview/four_backends": {
        "backends": ("eager", "inductor", "cudagraphs", *FAILING, "planted_wrong", "planted_nan", "planted_crash"),
        "repeats": 1,
        "processes": 2,
        "rounds": 4,
        "block_ms": 3.0,
        "steps": 1000,
    },
    "overview/total_time": {
        "backends": ("eager", "inductor", "cudagraphs", *FAILING, "planted_crash"),
        "repeats": 2,
        "seconds": 0.3,
    },
    "overview/backend_list": {
        "backends": ("eager", "inductor", *FAILING, "planted_wrong", "planted_nan", "planted_crash"),
    },
    "overview/python_demo": {
        "backends": ("none", "eager", "no_such_backend", "inductor", "cudagraphs"),
        "iterations": 5,
    },
    "eager/launch_overhead": {"processes": 2, "rounds": 3, "block_ms": 2.0, "lengths": (1, 4, 16, 64)},
    "inductor/fusion": {
        "lengths": (1, 8),
        "places": ("L2", "memory"),
        "processes": 2,
        "rounds": 3,
        "block_ms": 3.0,
    },
}
#: Packages of other projects, with the modules that they bring.
THIRD_PARTY = {
    "apache-tvm": ("tvm",),
    "psutil": ("psutil",),
    "openvino": ("openvino",),
    "iree-turbine": ("iree",),
    "iree-base-compiler": ("iree",),
    "iree-base-runtime": ("iree",),
    "onnxruntime": ("onnxruntime",),
    "onnxscript": ("onnxscript", "onnx"),
    "numpy": ("numpy",),
    "torchao": ("torchao",),
    "zentorch": ("zentorch",),
    "lightning-thunder": ("thunder",),
    "nvfuser-cu128-torch210": ("nvfuser_direct",),
    "torch-tensorrt": ("torch_tensorrt",),
    "torch-xla": ("torch_xla",),
}
#: Lightning Thunder does not import on the torch of the other snippets, and nvFuser's wheels are built for one torch:
#: these run in an environment of their own, environments/thunder.txt.
FOR_THUNDER = {"third_party/thunder_cpu", "third_party/nvfuser_gpu"}
#: torch_xla is built for one torch, and its newest is older than ours: environments/openxla.txt.
FOR_XLA = {"third_party/openxla"}
#: Those whose rows are tried here: the overview and what it rests on. The chapters have files of their own.
NAMES = sorted(BUDGETS)
RUN = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("copy", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
rows = module.run(**json.loads(sys.argv[2]))
with open(sys.argv[3], "w") as file:
    json.dump(rows, file, allow_nan=False)
"""


def run_alone(name: str, budget: Row, **environment: str) -> list[Row]:
    """Return the rows of a snippet that lies alone in an empty folder, run with a budget."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        copy = Path(shutil.copy(SNIPPETS / f"{name}.py", folder))
        site = Path(folder, "site")
        (site / "planted-1.dist-info").mkdir(parents=True)
        (site / "planted.py").write_text(PLANTED)
        (site / "planted-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1\n")
        entries = "\n".join(f"planted_{which} = planted:{which}" for which in ("wrong", "nan", "crash", "hang"))
        (site / "planted-1.dist-info" / "entry_points.txt").write_text(f"[torch_dynamo_backends]\n{entries}\n")
        answer = Path(folder, "rows.json")
        process = subprocess.run(
            [sys.executable, "-c", RUN, str(copy), json.dumps(budget), str(answer)],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(site)} | environment,
            timeout=LIMIT_S,
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stderr[-2000:]
        rows: list[Row] = json.loads(answer.read_text())
    return rows


@functools.cache
def rows_of(name: str) -> list[Row]:
    """Return the rows of a snippet, run once for all tests."""
    return run_alone(name, BUDGETS[name])


def of_kind(rows: list[Row], kind: str) -> list[Row]:
    """Return the rows of one kind."""
    return [row for row in rows if row["kind"] == kind]


def load(name: str) -> ModuleType:
    """Return a snippet as a module of this process."""
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), SNIPPETS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_cuda() -> bool:
    """Tell whether this machine has a CUDA device."""
    import torch

    return bool(torch.cuda.is_available())


def header(name: str) -> Row:
    """Return the PEP 723 table of a snippet."""
    lines = (SNIPPETS / f"{name}.py").read_text().splitlines()
    assert lines[0] == "# /// script"
    table = [line.removeprefix("#").removeprefix(" ") for line in lines[1 : lines.index("# ///")]]
    return tomllib.loads("\n".join(table))


def distribution(dependency: str) -> str:
    """Return the name of the package in "name>=version"."""
    return dependency.partition(">=")[0].strip()


def allowed(name: str) -> set[str]:
    """Return the packages that a snippet may use: only the chapter on back ends of others uses any."""
    return set(THIRD_PARTY) if name.startswith("third_party/") else set()


# ---------------------------------------------------------------- contract


@pytest.mark.parametrize("name", EVERY)
def test_header_declares_what_the_snippet_needs(name: str) -> None:
    table = header(name)
    assert table["requires-python"] == ">=3.11"
    oldest = "2.10" if name in FOR_THUNDER else "2.9" if name in FOR_XLA else "2.11"
    assert table["dependencies"][0] == f"torch>={oldest}"
    assert {distribution(text) for text in table["dependencies"][1:]} <= allowed(name)
    kitchen = table["tool"]["kitchen"]
    assert set(kitchen.get("needs", [])) <= {"cuda", "compiler", "triton", "redis-server"}
    assert 0 < kitchen["limit_s"] <= (3600 if kitchen.get("on_request") else 900)
    assert isinstance(kitchen["value"], int)


@pytest.mark.parametrize("name", EVERY)
def test_snippet_imports_only_the_standard_library_torch_and_what_it_declares(name: str) -> None:
    tree = ast.parse((SNIPPETS / f"{name}.py").read_text())
    usual = set(sys.stdlib_module_names) | {"torch", "functorch"}  # functorch lies in torch's own wheel
    declared = {distribution(text) for text in header(name)["dependencies"]}
    # What is imported with the file has to be declared; a function may try a package that is not there.
    inside = [part for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for part in ast.walk(node)]
    assert imported(set(ast.walk(tree)) - set(inside)) <= usual | modules_of(declared & set(THIRD_PARTY))
    assert imported(inside) <= usual | modules_of(allowed(name))


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the packages that the import statements among the nodes name."""
    roots = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            roots |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import does not survive copying"
            roots.add((node.module or "").partition(".")[0])
    return roots


def modules_of(packages: set[str]) -> set[str]:
    """Return the modules that packages of others bring."""
    return {module for package in packages for module in THIRD_PARTY[package]}


@pytest.mark.parametrize("name", EVERY)
def test_snippet_is_documented_and_takes_its_budget_by_keyword(name: str) -> None:
    tree = ast.parse((SNIPPETS / f"{name}.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert ast.get_docstring(tree)
    assert all(ast.get_docstring(function) for function in functions if not function.name.startswith("_"))
    runs = [function for function in functions if function.name == "run"]
    assert len(runs) == (0 if "measured_by" in header(name)["tool"]["kitchen"] else 1)
    for run in runs:
        assert not run.args.args
        bare = {
            argument.arg
            for argument, default in zip(run.args.kwonlyargs, run.args.kw_defaults, strict=True)
            if not default
        }
        # The files of other snippets are given by whoever runs it.
        assert bare == set(header(name)["tool"]["kitchen"].get("files", {}))
    # Nothing but the back ends, the budgets and a device decides what runs: no switch for tests.
    text = (SNIPPETS / f"{name}.py").read_text().lower()
    assert not {"pytest", "environ.get", "getenv", "unittest"} & set(text.replace("(", " ").split())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_rows_keep_the_contract(name: str) -> None:
    rows = rows_of(name)
    assert rows
    for row in rows:
        assert row["status"] in STATUSES, row
        for column, value in row.items():
            if column.startswith("samples_"):
                assert isinstance(value, list), column
                assert all(isinstance(sample, int | float) and math.isfinite(sample) for sample in value), column
            else:
                assert value is None or isinstance(value, str | int | float), column
                assert not isinstance(value, float) or math.isfinite(value), column
        if row["status"] != "ok":
            assert row["note"], row
            times = {column: value for column, value in row.items() if column.endswith(TIME_SUFFIXES)}
            assert not any(times.values()), f"a row without a result carries times: {times}"
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_rows_of_a_kind_share_their_columns(name: str) -> None:
    columns: dict[str, set[str]] = {}
    for row in rows_of(name):
        if row["status"] == "ok":
            assert columns.setdefault(row.get("kind", ""), set(row)) == set(row)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_docstring_names_every_column(name: str) -> None:
    documented = ast.get_docstring(ast.parse((SNIPPETS / f"{name}.py").read_text())) or ""
    for column in {column for row in rows_of(name) for column in row} - {"kind"}:
        assert column in documented, column


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_main_prints_a_table(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = load(name)
    rows = rows_of(name)
    if hasattr(module, "main"):
        module.run = lambda: rows  # type: ignore[attr-defined]
        module.main([])
    else:
        module.print_table(rows)
    printed = capsys.readouterr().out
    for word in {str(row[key]) for row in rows for key in ("backend", "op", "place") if key in row}:
        assert word in printed


@pytest.mark.slow
def test_a_copy_runs_as_a_script(tmp_path: Path) -> None:
    copy = shutil.copy(SNIPPETS / "eager/launch_overhead.py", tmp_path)
    process = subprocess.run(
        [sys.executable, copy], cwd=tmp_path, timeout=LIMIT_S, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr[-2000:]
    assert "slope_us" in process.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["launch_overhead.py"], "left something behind"


# ---------------------------------------------------------------- back ends that do not work


@pytest.mark.slow
@pytest.mark.parametrize("name", ["overview/four_backends", "overview/total_time", "overview/python_demo"])
def test_a_broken_backend_is_a_row_and_the_others_go_on(name: str) -> None:
    status = {row["backend"]: row["status"] for row in rows_of(name) if row.get("kind") in (None, "fit")}
    note = {row["backend"]: row["note"] for row in rows_of(name) if row.get("kind") in (None, "fit")}
    assert status["none"] == status["eager"] == status["inductor"] == "ok"
    assert status["no_such_backend"] == "failed"
    assert "InvalidBackend" in note["no_such_backend"]
    if name == "overview/python_demo":
        return
    assert status["aot_eager_decomp_partition_with_mode"] == status["planted_crash"] == "failed"
    assert "BackendCompilerFailed" in note["aot_eager_decomp_partition_with_mode"]
    assert "SIGSEGV" in note["planted_crash"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["overview/four_backends", "overview/total_time", "overview/python_demo"])
def test_cudagraphs_has_no_time_without_a_cuda_device(name: str) -> None:
    if on_cuda():
        pytest.skip("this machine has a CUDA device")
    rows = [row for row in rows_of(name) if "cudagraphs" in (row.get("backend"), row.get("other"))]
    assert [row["status"] for row in rows] == ["not measured"]
    assert "CUDA" in rows[0]["note"]


@pytest.mark.slow
def test_a_wrong_result_gets_no_time() -> None:
    rows = {row["backend"]: row for row in rows_of("overview/four_backends")}
    assert rows["planted_wrong"]["max_rel_error"] > 0.1
    assert rows["planted_nan"]["max_rel_error"] is None
    for row in (rows["planted_wrong"], rows["planted_nan"]):
        assert row["status"] == "wrong"
        assert row["samples_us"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "budget"),
    [
        ("overview/four_backends", {"backends": ("inductor",), "repeats": 1, "processes": 2, "rounds": 2}),
        ("overview/total_time", {"backends": ("inductor",), "repeats": 1, "seconds": 0.1}),
        ("overview/python_demo", {"backends": ("none", "inductor"), "iterations": 2}),
        ("inductor/fusion", {"lengths": (2,), "places": ("L2", "memory"), "processes": 2, "rounds": 1}),
    ],
)
def test_a_backend_that_compiles_nothing_gets_no_time(name: str, budget: Row) -> None:
    rows = run_alone(name, budget, TORCHDYNAMO_DISABLE="1")
    compiled = [row for row in rows if row.get("backend") == "inductor" or row.get("kind") == "chain"]
    assert compiled
    for row in compiled:
        assert (row["status"], row["note"].split(",")[0]) == ("not measured", "No graph was captured")
        assert not any(
            value for column, value in row.items() if column.endswith(("_us", "_ms", "_gbs", "speedup_ratio"))
        )
    assert [row for row in rows if row["status"] == "ok"], "what needs no compiler is still measured"


@pytest.mark.parametrize("name", ["overview/four_backends", "overview/total_time"])
def test_cuda_graphs_count_only_where_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    module = load(name)

    class Profile:
        """Takes the place of the profiler, which sees no CUDA call on a machine without CUDA."""

        names: tuple[str, ...] = ()

        def __init__(self, **_: Any) -> None: ...
        def __enter__(self) -> Profile:
            return self

        def __exit__(self, *_: object) -> None: ...
        def events(self) -> list[Any]:
            return [types.SimpleNamespace(name=event) for event in self.names]

    def broken(**_: Any) -> None:
        raise RuntimeError("no permission for the counters")

    calls: list[int] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr("torch.profiler.profile", Profile)

    def seen(*names: str) -> float | None:
        Profile.names = names
        return module.count_graph_launches(calls.append, 1)

    steps = module.PROFILED_STEPS
    assert seen(*["cudaGraphLaunch"] * steps, "cudaMemcpyAsync") == 1
    assert seen(*["cudaGraphLaunch_v10000", "cuGraphLaunch"] * steps) == 2
    assert seen(*["cudaLaunchKernel"] * steps) == seen("cuLaunchKernelEx") == 0
    assert seen("aten::relu", "cudaDeviceSynchronize") is None
    assert len(calls) == 5 * steps
    monkeypatch.setattr("torch.profiler.profile", broken)
    assert module.count_graph_launches(calls.append, 1) is None

    answer: Row = {"error": 0.0, "graphs": 1, "graph_skips": 0, "graph_launches": None}
    assert module.trouble("cudagraphs", "cuda", answer) is None
    assert module.trouble("cudagraphs", "cuda", answer | {"graph_launches": 1.0}) is None
    for nothing in ({"graph_launches": 0.0}, {"graph_skips": 2}, {"graphs": 0}):
        status, _ = module.trouble("cudagraphs", "cuda", answer | nothing)
        assert status == "not measured"


@pytest.mark.parametrize("name", ["overview/four_backends", "overview/total_time"])
def test_every_note_of_its_own_has_a_translation(name: str) -> None:
    module = load(name)
    answer: Row = {"error": 0.0, "graphs": 1, "graph_skips": 2, "graph_launches": None}
    cases: list[tuple[str, Row]] = [("cpu", {}), ("cuda", {}), ("cuda", {"graph_skips": 0, "graph_launches": 0.0})]
    cases += [("cpu", {"graphs": 0}), ("cpu", {"error": 0.5}), ("cpu", {"error": math.nan})]
    cases += [("cpu", {"failed": "no answer within 120 s"}), ("cpu", {"failed": "the process died of signal SIGSEGV"})]
    notes = [module.trouble("cudagraphs", device, answer | change)[1] for device, change in cases]
    notes += [load("overview/python_demo").NOT_COMPILED, load("inductor/fusion").NOT_COMPILED]
    notes.append(load("inductor/fusion").NO_KERNEL)
    for note in notes:
        assert labels.note(note, "en") == note
        assert labels.note(note, "zh") != note


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups")
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"overview/python_demo", "overview/backend_list"}))
@pytest.mark.parametrize("ends", ["in time", "too late"])
def test_what_a_child_started_ends_with_it(
    name: str, ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load(name)
    # In place of the snippet: a child that starts a process and leaves it running.
    leaver = tmp_path / "leaver.py"
    leaver.write_text(
        "import json, os, pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
        "job = json.loads(sys.argv[2])\n"
        "pathlib.Path(job['pid']).write_text(str(child.pid))\n"
        "pathlib.Path(job['answer']).write_text('{}')\n"
        "time.sleep(0 if job['ends'] == 'in time' else 300)\n"
        "os._exit(0)\n"
    )
    monkeypatch.setattr(module, "__file__", str(leaver))
    pid = tmp_path / "pid"
    limit_s = 60.0 if ends == "in time" else 5.0
    answer = module.run_child({"pid": str(pid), "ends": ends}, tmp_path, limit_s)
    assert answer == ({} if ends == "in time" else {"failed": "no answer within 5 s"})
    state = Path("/proc", pid.read_text(), "stat")
    deadline = time.monotonic() + 10
    while state.exists() and state.read_text().split()[2] != "Z" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not state.exists() or state.read_text().split()[2] == "Z", "it still runs"


@pytest.mark.slow
def test_a_backend_that_hangs_is_killed_and_the_others_go_on() -> None:
    name = "overview/four_backends"
    budget = {key: value for key, value in BUDGETS[name].items() if key != "backends"}
    rows = run_alone(name, budget | {"backends": ("planted_hang",), "child_limit_s": 40.0})
    status = {row["backend"]: (row["status"], row["note"]) for row in rows if row.get("kind") in (None, "fit")}
    assert status["none"] == ("ok", None)
    assert status["planted_hang"] == ("failed", "no answer within 40 s")


# ---------------------------------------------------------------- overview/backend_list


@pytest.mark.slow
def test_every_name_is_tried_and_what_fails_says_when() -> None:
    rows = {row["backend"]: row for row in rows_of("overview/backend_list")}
    assert rows["inductor"]["listed"] is True
    assert (rows["eager"]["listed"], rows["eager"]["tag"]) == (False, "debug")
    for name in ("eager", "inductor"):
        assert (rows[name]["outcome"], rows[name]["raised_at"]) == ("runs", "never")
    unknown = rows["no_such_backend"]
    assert (unknown["outcome"], unknown["raised_at"], unknown["error"]) == (
        "error",
        "torch.compile()",
        "InvalidBackend",
    )
    assert rows["planted_wrong"]["outcome"] == rows["planted_nan"]["outcome"] == "wrong"
    assert (rows["planted_crash"]["status"], rows["planted_crash"]["outcome"]) == ("failed", None)
    assert "SIGSEGV" in rows["planted_crash"]["note"]


def test_all_names_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    known = load("overview/backend_list").names()
    assert set(known) == set(torch.compiler.list_backends(exclude_tags=()))
    assert [name for name, row in known.items() if row["listed"]] == sorted(torch.compiler.list_backends())


# ---------------------------------------------------------------- overview/four_backends


def measured_backends() -> Iterator[Row]:
    """Yield the compiled rows of four_backends that have times."""
    for row in rows_of("overview/four_backends"):
        if row["status"] == "ok" and not row["backend"].startswith("none"):
            yield row


@pytest.mark.slow
def test_four_backends_numbers_of_a_row_agree() -> None:
    none = rows_of("overview/four_backends")[0]
    assert none["backend"] == "none"
    for row in measured_backends():
        assert row["step_q1_us"] <= row["step_us"] <= row["step_q3_us"]
        assert row["step_us"] == pytest.approx(statistics.median(row["samples_us"]))
        assert len(row["samples_us"]) == row["processes"] * row["rounds"] == 8
        assert row["speedup_low"] <= row["speedup_ratio"] <= row["speedup_high"]
        # From the samples anew: paired by round, a median of each process, their geometric mean.
        pairs = list(zip(none["samples_us"], row["samples_us"], strict=True))
        medians = [
            statistics.median(math.log(n / t) for n, t in pairs[start : start + row["rounds"]])
            for start in range(0, len(pairs), row["rounds"])
        ]
        assert len(medians) == row["processes"]
        assert row["speedup_ratio"] == pytest.approx(math.exp(statistics.fmean(medians)))
        half = 12.706 * statistics.stdev(medians) / math.sqrt(2)
        assert row["speedup_high"] / row["speedup_ratio"] == pytest.approx(math.exp(half))
        assert row["saved_us"] == pytest.approx(none["step_us"] - row["step_us"])
        assert row["total_s"] == pytest.approx(row["compile_cold_s"] + row["steps"] * row["step_us"] * 1e-6)
        r = row["saved_us"] * 1e-6 * row["steps"] / row["compile_cold_s"]
        assert row["payoff_r"] == (None if row["verdict"] == "no difference" else pytest.approx(r))
        assert 0 < row["compile_cold_low_s"] <= row["compile_cold_s"] <= row["compile_cold_high_s"]
        assert row["max_rel_error"] < 1e-4


@pytest.mark.slow
def test_four_backends_cold_compile_costs_more_than_warm() -> None:
    (inductor,) = (row for row in measured_backends() if row["backend"] == "inductor")
    assert inductor["compile_cold_s"] > 1.5 * inductor["compile_warm_s"]


@pytest.mark.slow
def test_four_backends_break_even_is_a_count_or_never() -> None:
    for row in measured_backends():
        if row["verdict"] == "faster":
            assert isinstance(row["break_even"], int)
            assert 0 < row["break_even_low"] <= row["break_even"]
            assert row["break_even_high"] is None or row["break_even"] <= row["break_even_high"]
            assert row["break_even_text"] is None
        else:
            assert row["break_even"] is row["break_even_low"] is row["break_even_high"] is None
            assert row["break_even_text"] == "never"


def test_four_backends_payoff_of_a_faster_and_a_slower_step() -> None:
    module = load("overview/four_backends")
    blank: Row = dict.fromkeys(("payoff_r", "break_even", "break_even_low", "break_even_high", "break_even_text"))
    blank |= {"backend": "b", "compile_cold_s": 2.0, "step_us": 50.0, "steps": 100_000}
    ratios: Row = {"speedup_ratio": 4.0, "speedup_low": 2.0, "speedup_high": 8.0}
    faster = blank | ratios | {"saved_us": 150.0, "verdict": "faster"}
    slower = blank | {"saved_us": -10.0, "verdict": "slower"}
    unsure = blank | ratios | {"saved_us": 150.0, "verdict": "no difference"}
    for row in (faster, slower, unsure):
        module.add_payoff(row)
    assert faster["total_s"] == pytest.approx(7.0)
    assert faster["payoff_r"] == pytest.approx(7.5)
    assert faster["break_even"] == math.ceil(2.0 / 150e-6) == 13_334
    # Not compiled a step takes 200 us; at 8 times as fast it saves 175 us, at twice as fast 100 us.
    assert (faster["break_even_low"], faster["break_even_high"]) == (math.ceil(2.0 / 175e-6), 20_000)
    assert slower["payoff_r"] == pytest.approx(-0.5)
    assert unsure["payoff_r"] is None, "noise times N is no saving"
    for row in (slower, unsure):
        assert row["break_even"] is row["break_even_low"] is row["break_even_high"] is None
        assert row["break_even_text"] == "never"


@pytest.mark.parametrize("name", ["overview/four_backends", "inductor/fusion"])
def test_verdict_needs_an_interval_without_one_and_an_effect_above_the_noise(name: str) -> None:
    judge = load(name).judge
    assert judge(1.3, 1.2, 1.4, 0.02) == "faster"
    assert judge(0.7, 0.6, 0.8, 0.02) == "slower"
    assert judge(1.3, 0.9, 1.6, 0.02) == "no difference"
    assert judge(1.01, 1.005, 1.02, 0.02) == "no difference"
    assert judge(0.99, 0.985, 0.995, 0.02) == "no difference"


@pytest.mark.parametrize("name", ["overview/four_backends", "inductor/fusion"])
def test_interval_is_of_the_process_medians(name: str) -> None:
    ratio_interval = load(name).ratio_interval
    # Two rounds or two hundred: only how much the processes differ counts.
    ratio, low, high = ratio_interval([[1.0, 1.5, 0.5] * 60, [1.0], [1.0]])
    assert (ratio, low, high) == (1, 1, 1)
    # Logarithms -0.1, 0, 0.1: mean 0, standard deviation 0.1, t quantile 4.303 for three processes.
    ratio, low, high = ratio_interval([[math.exp(v)] * 20 for v in (-0.1, 0.0, 0.1)])
    assert ratio == pytest.approx(1)
    assert math.log(high) == pytest.approx(4.303 * 0.1 / math.sqrt(3), rel=1e-4)
    assert low == pytest.approx(1 / high)
    with pytest.raises(ValueError, match="two processes"):
        ratio_interval([[1.0, 1.1]])


@pytest.mark.parametrize("name", ["overview/four_backends", "inductor/fusion", "eager/launch_overhead"])
def test_interval_of_the_same_thing_twice_holds_the_truth_as_often_as_it_says(name: str) -> None:
    t_interval = load(name).t_interval
    source = random.Random(1)
    for processes in (2, 3, 6):
        draws = [t_interval([source.gauss(0.0, 0.01) for _ in range(processes)]) for _ in range(2000)]
        assert sum(low <= 0 <= high for _, low, high in draws) / len(draws) == pytest.approx(0.95, abs=0.015)
    with pytest.raises(ValueError, match="two processes"):
        t_interval([1.0])


@pytest.mark.parametrize("name", ["overview/four_backends", "inductor/fusion", "eager/launch_overhead"])
def test_one_process_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="processes = 1"):
        load(name).run(processes=1)


# ---------------------------------------------------------------- overview/total_time


@pytest.mark.slow
def test_total_time_grows_with_the_steps_and_follows_the_formula() -> None:
    rows = rows_of("overview/total_time")
    for fit in of_kind(rows, "fit"):
        points = [row for row in of_kind(rows, "point") if row["backend"] == fit["backend"]]
        if fit["status"] != "ok":
            assert not points
            continue
        assert [row["steps"] for row in points][:4] == [1, 2, 5, 10]
        assert points[-1]["steps"] >= 100
        assert all(a["total_s"] < b["total_s"] for a, b in itertools.pairwise(points))
        for row in points:
            assert row["total_low_s"] <= row["total_s"] <= row["total_high_s"]
            assert row["total_s"] == statistics.median(row["samples_s"])
            assert len(row["samples_s"]) == 2
        told = [row for row in points if row["predicted_s"] is not None]
        # The terms are read at 5 steps and at the last mark; there nothing is predicted.
        assert {1, 2, 10, 20} <= {row["steps"] for row in told}
        assert not {5, points[-1]["steps"]} & {row["steps"] for row in told}
        for row in told:
            assert row["prediction_low_ratio"] <= row["prediction_ratio"] <= row["prediction_high_ratio"]
            # Of two repeats each is predicted from the other.
            assert row["predicted_s"] == pytest.approx(fit["compile_s"] + row["steps"] * fit["step_us"] * 1e-6)


@pytest.mark.slow
def test_total_time_has_a_crossing_for_every_pair() -> None:
    rows = rows_of("overview/total_time")
    alive = [row["backend"] for row in of_kind(rows, "fit") if row["status"] == "ok"]
    pairs = {frozenset((row["backend"], row["other"])) for row in of_kind(rows, "crossing")}
    assert pairs == {frozenset(pair) for pair in itertools.combinations(alive, 2)}
    for row in of_kind(rows, "crossing"):
        assert (row["crossing_steps"] is None) == (row["how"] in ("never", "undecided"))
    starts = {row["backend"]: row["cheaper_at_start"] for row in of_kind(rows, "crossing") if row["other"] == "none"}
    assert starts == {"eager": "none", "inductor": "none"}


def curves(module: ModuleType, terms: dict[str, list[tuple[float, float]]]) -> list[Row]:
    """Return the rows of jobs that keep to the formula: (T_compile, T_step) in seconds of each repeat."""
    marks = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    rows: list[Row] = []
    for backend, repeats in terms.items():
        rows += module.curve_rows(backend, [{n: c + n * s for n in marks} for c, s in repeats], 0.0)
    return rows


def test_total_time_predicts_a_repeat_from_the_others_only() -> None:
    module = load("overview/total_time")
    terms = [(1.0, 1e-3), (2.0, 2e-3), (6.0, 3e-3)]
    assert module.predict(terms, 100) == pytest.approx([4.0 + 0.25, 3.5 + 0.2, 1.5 + 0.15])
    points = of_kind(curves(module, {"b": terms}), "point")
    (row,) = (row for row in points if row["steps"] == 100)
    assert row["samples_s"] == pytest.approx([1.1, 2.2, 6.3])
    assert row["predicted_s"] == pytest.approx(3.7)
    assert row["prediction_ratio"] == pytest.approx(3.7 / 2.2)
    assert row["prediction_low_ratio"] == pytest.approx(1.65 / 6.3)
    assert row["prediction_high_ratio"] == pytest.approx(4.25 / 1.1)
    assert [row["steps"] for row in points if row["predicted_s"] is None] == [5, 1000]


def test_total_time_check_of_the_formula_can_fail() -> None:
    module = load("overview/total_time")
    marks = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]

    def ratios(clock: Callable[[int], float]) -> list[float]:
        rows = module.curve_rows("b", [{n: clock(n) for n in marks}] * 3, 0.0)
        return [row["prediction_ratio"] for row in of_kind(rows, "point") if row["prediction_ratio"] is not None]

    assert ratios(lambda n: 0.5 + n * 1e-3) == pytest.approx([1.0] * 8)
    # Later steps slower than early ones, as where a machine throttles: the clock bends, the formula misses.
    assert max(ratios(lambda n: 0.5 + n * 1e-3 + n * n * 1e-5)) > 1.5
    # The same job, but a repeat does not say what the next one takes.
    rows = curves(module, {"b": [(0.5, 1e-3), (1.5, 1e-3)]})
    assert all(row["prediction_high_ratio"] > 1.5 for row in of_kind(rows, "point") if row["predicted_s"])
    # One repeat says nothing about another.
    assert not any(row["predicted_s"] for row in of_kind(curves(module, {"b": [(0.5, 1e-3)]}), "point"))


@pytest.mark.parametrize(
    ("repeats", "how", "steps", "later"),
    [
        ([(0.5, 1e-3), (0.52, 1e-3)], "measured", 510, "fast"),
        ([(5.0, 1e-3), (5.2, 1e-3)], "extrapolated", 5100, "fast"),
        ([(0.5, 3e-3), (0.5, 3e-3)], "never", None, "none"),
        ([(5.0, 1.9e-3), (5.0, 2.1e-3)], "undecided", None, None),
        ([(-0.1, 3e-3), (0.1, 3e-3)], "undecided", None, "none"),
    ],
)
def test_crossing_is_where_the_lines_meet(
    repeats: list[tuple[float, float]], how: str, steps: float | None, later: str | None
) -> None:
    module = load("overview/total_time")
    rows = curves(module, {"none": [(0.0, 2e-3), (0.0, 2e-3)], "fast": repeats})
    row = module.crossing_row("fast", "none", rows)
    assert (row["how"], row["cheaper_later"]) == (how, later)
    assert row["cheaper_at_start"] == (None if repeats[0][0] < 0 else "none")
    assert row["crossing_steps"] == (None if steps is None else pytest.approx(steps, rel=0.02))
    if how == "extrapolated":
        assert row["crossing_low_steps"] <= row["crossing_steps"] <= row["crossing_high_steps"]


# ---------------------------------------------------------------- overview/python_demo


@pytest.mark.slow
def test_demo_times_every_step() -> None:
    for row in rows_of("overview/python_demo"):
        if row["status"] == "ok":
            assert len(row["samples_ms"]) == row["iterations"] == 5
            assert row["mean_ms"] == pytest.approx(statistics.mean(row["samples_ms"]))
            assert row["median_ms"] == statistics.median(row["samples_ms"])
            assert row["first_call_s"] > 0


# ---------------------------------------------------------------- eager/launch_overhead


@pytest.mark.slow
def test_launch_overhead_is_a_line_in_the_number_of_operators() -> None:
    rows = rows_of("eager/launch_overhead")
    for fit in of_kind(rows, "fit"):
        points = [row for row in of_kind(rows, "point") if (row["op"], row["clock"]) == (fit["op"], fit["clock"])]
        assert [row["m"] for row in points] == [1, 4, 16, 64]
        assert fit["slope_low_us"] <= fit["slope_us"] <= fit["slope_high_us"]
        # 64 operators take longer than one, however noisy the machine.
        assert fit["slope_us"] > 0
        assert points[-1]["chain_us"] > points[0]["chain_us"]
        for row in points:
            assert row["chain_q1_us"] <= row["chain_us"] <= row["chain_q3_us"]
            assert row["chain_us"] == statistics.median(row["samples_us"])
            line = fit["intercept_us"] + fit["slope_us"] * row["m"]
            assert abs(line - row["chain_us"]) <= fit["fit_error_ratio"] * row["chain_us"] * (1 + 1e-9)


def test_launch_overhead_fit_finds_a_planted_line() -> None:
    module = load("eager/launch_overhead")
    slope, intercept = module.fit_line({m: 3.0 + 0.5 * m for m in (1, 2, 4, 256)})
    assert (slope, intercept) == (pytest.approx(0.5), pytest.approx(3.0))


def test_launch_overhead_slope_is_the_mean_of_the_processes() -> None:
    module = load("eager/launch_overhead")
    runs = [{m: [1.0 + slope * m] * 3 for m in (1, 2, 4, 8)} for slope in (0.4, 0.5, 0.6)]
    *_, fit = module.chain_rows("relu", "complete", runs, 0.0)
    assert fit["slope_us"] == pytest.approx(0.5)
    assert fit["slope_high_us"] - fit["slope_us"] == pytest.approx(4.303 * 0.1 / math.sqrt(3), rel=1e-4)
    assert fit["intercept_us"] == pytest.approx(fit["intercept_low_us"]) == pytest.approx(1.0)


# ---------------------------------------------------------------- inductor/fusion


@pytest.mark.slow
def test_fusion_makes_one_kernel_of_the_chain() -> None:
    rows = rows_of("inductor/fusion")
    assert {(row["place"], row["n"]) for row in of_kind(rows, "chain")} >= {("memory", 1), ("memory", 8)}
    for row in of_kind(rows, "chain"):
        assert (row["status"], row["kernels"]) == ("ok", 1)
    source, kernel = of_kind(rows, "code")
    assert (source["part"], kernel["part"]) == ("source", "kernel")
    assert source["code"].count("torch.") == source["n"] == 8
    # mul, add, relu ... of the chain stand in this one kernel: three each of mul and add, two of relu.
    assert kernel["language"] == ("python" if on_cuda() else "cpp")
    assert kernel["code"].count(" * ") >= 3


@pytest.mark.slow
def test_fusion_numbers_of_a_row_agree() -> None:
    for row in of_kind(rows_of("inductor/fusion"), "chain"):
        assert row["elements"] * 4 == row["tensor_kib"] * 1024
        # On a noisy machine the call of a small chain may seem shorter than its launch: then there is no rest to give.
        if row["fused_kernel_us"] is None:
            assert row["compiled_call_us"] <= row["launch_us"]
        else:
            assert row["fused_kernel_us"] + row["launch_us"] == pytest.approx(row["compiled_call_us"])
        assert row["speedup_low"] <= row["speedup_ratio"] <= row["speedup_high"]
        assert len(row["samples_us"]) == len(row["samples_apart_us"]) == len(row["samples_chain_us"]) == 6
        tensor_bytes = row["tensor_kib"] * 1024
        moved = row["fused_bandwidth_gbs"] * row["compiled_call_us"] * 1e3
        assert moved == pytest.approx(2 * tensor_bytes)
        assert row["eager_bandwidth_gbs"] * row["eager_chain_us"] * 1e3 == pytest.approx(2 * row["n"] * tensor_bytes)
        assert row["noise_ratio"] >= 1
        assert row["max_rel_error"] < 1e-5


@pytest.mark.slow
def test_fusion_of_eight_operators_beyond_the_cache_is_faster() -> None:
    (row,) = (r for r in of_kind(rows_of("inductor/fusion"), "chain") if (r["place"], r["n"]) == ("memory", 8))
    assert row["speedup_ratio"] > 2


def test_fusion_counts_kernels_of_generated_code() -> None:
    module = load("inductor/fusion")
    cpp = "a = async_compile.cpp_pybinding(['float*'], r'''\nKERNEL A\n''')\nasync_compile.wait(globals())\n"
    triton = "b = async_compile.triton('b', '''\nimport triton\n@triton.jit\ndef b(): pass\n''', device_str='cuda')\n"
    assert module.count_kernels(cpp) == module.count_kernels(triton) == 1
    assert module.count_kernels(cpp + triton) == 2
    assert module.kernel_text(cpp) == "KERNEL A"
    assert module.kernel_text(triton) == "@triton.jit\ndef b(): pass"
    with pytest.raises(ValueError, match="no kernel"):
        module.kernel_text("pass")
