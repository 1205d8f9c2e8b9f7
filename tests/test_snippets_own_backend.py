"""Write your own back end: the snippet's rows, the lesson on the page as typed, and the package, installed for real."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.test_snippets import STATUSES, load, run_alone

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

Row = dict[str, Any]

REPO = Path(__file__).parents[1]
SNIPPET = REPO / "snippets" / "third_party" / "own_backend.py"
PACKAGE = REPO / "examples" / "kitchen-numpy-backend"
PAGES = [REPO / "docs" / language / "third-party" / "own.md" for language in ("en", "zh")]


@functools.cache
def rows() -> list[Row]:
    return run_alone("third_party/own_backend", {})


def of(kind: str, **where: Any) -> list[Row]:
    return [row for row in rows() if row["kind"] == kind and all(row[k] == v for k, v in where.items())]


@pytest.fixture(name="own")
def fixture_own() -> ModuleType:
    torch.compiler.reset()
    return load("third_party/own_backend")


# ---------------------------------------------------------------- rows


@pytest.mark.slow
def test_rows_are_flat_and_documented() -> None:
    assert json.loads(json.dumps(rows(), allow_nan=False)) == rows()
    documented = ast.get_docstring(ast.parse(SNIPPET.read_text("utf-8"))) or ""
    for row in rows():
        assert row["status"] in STATUSES
        assert row["status"] == "ok", row["note"]
        assert row["package"] == "numpy"
        assert re.match(r"\d+\.\d+", row["package_version"])
        for column, value in row.items():
            assert value is None or isinstance(value, str | int | float), column
            assert column in documented, column
        assert not any(folder in json.dumps(row) for folder in ("/tmp", str(REPO), "0x7f"))


@pytest.mark.slow
def test_operators_are_run_where_the_row_says_and_the_results_are_right() -> None:
    assert {row["case"] for row in of("level")} == {"mlp", "attention", "cnn"}
    for row in of("level"):
        assert row["relative_error"] <= max(1e-6, 4 * row["eager_error"])
        assert (row["left_to_torch"] is None) == (row["fell_back"] == 0)
    for row in of("level", backend="numpy_forward"):
        assert row["executed"] + row["fell_back"] == row["operators"]
        assert row["executed"] > 0
    for row in of("level", backend="kitchen_numpy"):
        assert row["executed"] + row["fell_back"] == row["aten_operators"]
        assert row["aten_graphs"] == (2 if row["workload"] == "training" else 1)
    for workload in ("inference", "training"):
        (everything,) = of("level", backend="kitchen_numpy", case="mlp", workload=workload)
        assert everything["fell_back"] == 0
        (convolution,) = of("level", backend="kitchen_numpy", case="cnn", workload=workload)
        assert "aten.convolution" in convolution["left_to_torch"]


@pytest.mark.slow
def test_only_the_back_end_behind_aotautograd_trains() -> None:
    assert {row["gradients"] for row in of("level", workload="inference")} == {"not wanted"}
    assert {row["gradients"] for row in of("level", backend="kitchen_numpy", workload="training")} == {"equal"}
    assert {row["gradients"] for row in of("level", backend="count_operators", workload="training")} == {"equal"}
    for row in of("level", backend="numpy_forward", workload="training"):
        assert (row["gradients"], row["raised_at"], row["error"]) == ("lost", "backward", "RuntimeError")


@pytest.mark.slow
def test_graphs_change_their_vocabulary_on_the_way() -> None:
    dynamo, forward, backward = of("graph")
    assert "torch.relu" in dynamo["code"]
    assert "aten" not in dynamo["code"]
    assert "torch.ops.aten.mm.default" in forward["code"]
    assert "return (None," in backward["code"]
    assert (dynamo["inputs"], forward["inputs"]) == ("Tensor", "FakeTensor")


@pytest.mark.slow
def test_min_cut_keeps_less_and_computes_more() -> None:
    min_cut, default = of("partition")
    assert (min_cut["case"], default["case"]) == ("min_cut", "default")
    assert min_cut["saved_kib"] < default["saved_kib"]
    assert min_cut["backward_operators"] > default["backward_operators"]
    assert min_cut["gradients"] == default["gradients"] == "equal"


@pytest.mark.slow
def test_back_end_is_called_again_when_it_must_be_and_no_oftener() -> None:
    found = {row["call"]: row for row in of("shapes")}
    compiles = [row["compiles"] for row in found.values()]
    new = [after - before for before, after in zip([0, *compiles], compiles, strict=False)]
    assert dict(zip(found, new, strict=True)) == {
        "8 rows": 1,
        "8 rows again": 0,
        "16 rows": 1,
        "24 rows": 0,
        "1 row": 1,
        "24 rows, with gradients": 1,
        "compile(), same back end": 0,
        "compile(), new back end object": 1,
        "after torch.compiler.reset()": 1,
    }
    assert (found["8 rows"]["seen"], found["8 rows"]["symbols"]) == ("(8, 32)", 0)
    assert found["16 rows"]["symbols"] == 1
    assert re.fullmatch(r"\(s\d+, 32\)", found["16 rows"]["seen"])


@pytest.mark.slow
def test_options_are_checked_and_a_plain_function_takes_none() -> None:
    found = {row["case"]: row for row in of("options", backend="kitchen_numpy")}
    assert [case for case, row in found.items() if row["outcome"] == "right"] == ["none", "one option", "mode default"]
    assert "did you mean 'partitioner'?" in found["misspelt"]["message"]
    assert (found["wrong value"]["error"], found["misspelt"]["error"]) == ("TypeError", "ValueError")
    assert "aten.native_layer_norm" in found["no fallback"]["message"]
    assert "has no modes" in found["a mode"]["message"]
    assert {row["raised_at"] for row in found.values()} == {"never", "first call", "torch.compile()"}
    assert {row["error"] for row in of("options", backend="numpy_forward")} == {"TypeError"}


@pytest.mark.slow
def test_broken_entry_points_are_listed_and_fail_when_they_are_asked_for() -> None:
    found = {row["case"]: row for row in of("entry")}
    assert found["works"]["outcome"] == "right"
    for name, error in (
        ("not_there", "AttributeError"),
        ("import_fails", "ModuleNotFoundError"),
        ("no_such_module", "ModuleNotFoundError"),
    ):
        row = found[name]
        assert (row["listed"], row["raised_at"], row["error"]) == ("yes", "torch.compile()", error)
    assert (found["work"]["listed"], found["work"]["error"]) == ("no", "InvalidBackend")
    assert "duplicate name" in found["works, registered again"]["message"]


@pytest.mark.slow
def test_each_check_finds_its_mistake_and_the_finished_back_end_passes_all() -> None:
    assert {row["numpy_outcome"] for row in of("check")} == {"right"}
    assert all(row["outcome"] in ("wrong", "error") and row["message"] for row in of("check"))
    functions = {node.name for node in ast.parse(SNIPPET.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)}
    checks = {name for name in functions if name.startswith("check_")} - {"check_rows"}
    assert {row["case"] for row in of("check")} == checks


@pytest.mark.slow
def test_minifier_finds_the_operator_that_the_back_end_refuses() -> None:
    captured, minified = of("minified")
    assert captured["operators"] == 6
    assert minified["operators"] == 1
    assert "torch.tanh" in minified["code"]


@pytest.mark.slow
def test_every_name_that_the_snippet_needs_is_in_this_torch() -> None:
    assert {row["found"] for row in of("surface")} == {"yes"}
    for row in of("surface"):
        underscore = any(part.startswith("_") for part in row["name"].split("."))
        assert row["standing"] != "public" or not underscore


# ---------------------------------------------------------------- the table of operators, one by one


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_table_does_what_torch_does(own: ModuleType, dtype: str) -> None:
    kind = getattr(torch, dtype)
    aten = torch.ops.aten
    torch.manual_seed(0)

    def some(*shape: int) -> Any:
        return (torch.randn(*shape) * 4).to(kind)

    x, y = some(3, 4), some(3, 4)
    calls: dict[Any, list[tuple[tuple, dict]]] = {
        aten.add.Tensor: [((x, y), {}), ((x, 2), {"alpha": 3}), ((x, some(4)), {})],
        aten.sub.Tensor: [((x, y), {}), ((x, y), {"alpha": 3})],
        aten.mul.Tensor: [((x, y), {}), ((x, 2), {})],
        aten.mul.Scalar: [((x, 3), {})],
        aten.div.Tensor: [((x, y.abs() + 1), {})],
        aten.div.Scalar: [((x, 3), {})],
        aten.neg.default: [((x,), {})],
        aten.le.Scalar: [((x, 0), {})],
        aten.eq.Scalar: [((x, 0), {})],
        aten.logical_not.default: [((x,), {})],
        aten.where.self: [((x > 0, x, y), {})],
        aten.relu.default: [((x,), {})],
        aten.mm.default: [((x, some(4, 2)), {})],
        aten.bmm.default: [((some(2, 3, 4), some(2, 4, 5)), {})],
        aten.addmm.default: [((some(2), x, some(4, 2)), {}), ((some(3, 2), x, some(4, 2)), {"beta": 2, "alpha": 3})],
        aten.sum.dim_IntList: [
            ((x, [0]), {}),
            ((x, [-1], True), {}),
            ((x, [0, 1]), {}),
            ((x, []), {}),
            ((x, None), {}),
        ],
        aten.permute.default: [((some(2, 3, 4), [2, 0, 1]), {})],
        aten.view.default: [((x, [4, 3]), {}), ((x, [-1]), {})],
        aten.unsqueeze.default: [((x, 0), {}), ((x, -1), {})],
        aten.squeeze.dims: [((some(1, 3, 1), [0, 1]), {}), ((some(1, 3, 1), [-1]), {})],
        aten.expand.default: [((some(3, 1), [2, 3, 4]), {}), ((some(3, 1), [-1, 4]), {})],
        aten.select.int: [((x, 1, -1), {}), ((x, -2, 0), {})],
        aten.alias.default: [((x,), {})],
        aten.clone.default: [((x,), {}), ((x,), {"memory_format": torch.contiguous_format})],
        aten.full.default: [(([2, 3], 7), {"dtype": kind, "device": torch.device("cpu"), "pin_memory": False})],
        aten.scalar_tensor.default: [((5,), {"dtype": kind, "layout": torch.strided, "device": torch.device("cpu")})],
    }
    real = {
        aten.exp.default: [((x,), {})],
        aten.sin.default: [((x,), {})],
        aten.cos.default: [((x,), {})],
        aten.tanh.default: [((x,), {})],
        aten.sigmoid.default: [((x * 30,), {})],
        aten._softmax.default: [((x * 30, -1, False), {}), ((x, 0, False), {})],
        aten.mean.dim: [((x, [0]), {}), ((x, [-1, 0], True), {})],
    }
    if dtype != "int64":
        calls |= real
    assert set(own.ATEN) == set(calls) | set(real), "each line of the table is tried"
    for target, tries in calls.items():
        for args, kwargs in tries:
            graph = torch.fx.Graph()
            places = iter([graph.placeholder(f"x{n}") for n in range(sum(isinstance(a, torch.Tensor) for a in args))])
            node = graph.call_function(
                target, tuple(next(places) if isinstance(a, torch.Tensor) else a for a in args), kwargs
            )
            expected = target(*args, **kwargs)
            node.meta["val"] = expected
            graph.output((node,))
            own.EXECUTED.clear()
            interpreter = own.NumpyInterpreter(torch.fx.GraphModule({}, graph), own.ATEN)
            (found,) = interpreter.run(*(a for a in args if isinstance(a, torch.Tensor)))
            torch.testing.assert_close(found, expected, msg=lambda text, t=target: f"{t}: {text}")
            assert own.EXECUTED.total() == own.EXECUTED["numpy", own.name_of(target)] == 1


def test_what_numpy_has_no_type_for_is_left_to_torch(own: ModuleType) -> None:
    x = torch.linspace(-1, 1, 6, dtype=torch.bfloat16)
    with torch.no_grad():
        found = torch.compile(torch.tanh, backend=own.kitchen_numpy)(x)
    torch.testing.assert_close(found, torch.tanh(x))
    assert dict(own.EXECUTED) == {("torch", "aten.tanh"): 1}


def test_plain_function_behind_aotautograd_works_with_a_warning() -> None:
    from torch._dynamo.backends.common import aot_autograd

    torch.compiler.reset()
    x = torch.ones(3, requires_grad=True)
    plain = aot_autograd(fw_compiler=lambda graph, inputs: graph.forward)
    with pytest.warns(UserWarning, match="make_boxed_func"):
        torch.compile(lambda x: (x * x).sin().sum(), backend=plain)(x).backward()
    torch.testing.assert_close(x.grad, 2 * x.detach() * torch.cos(x.detach() ** 2))


def test_reset_of_a_back_end_is_called_by_torch() -> None:
    class Backend:
        calls = 0

        def __call__(self, graph: Any, example_inputs: Any) -> Any:
            return graph.forward

        def reset(self) -> None:
            Backend.calls += 1

    torch.compiler.reset()
    torch.compile(torch.sin, backend=Backend())(torch.ones(2))
    torch.compiler.reset()
    assert Backend.calls >= 1


# ---------------------------------------------------------------- the lesson


def fences(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=["en", "zh"])
def test_lesson_as_typed_prints_what_the_page_says(page: Path, own: ModuleType, tmp_path: Path) -> None:
    (typed,) = fences(page, "python")
    (printed,) = fences(page, "text")
    file = tmp_path / "counter.py"
    more = "\ncompiled(torch.randn(16, 32))\nprint('--')\ncompiled(torch.randn(20, 32))\n"
    more += """
def halves(x):
    x = x * 2
    print("between")
    return x + 1

torch.compile(halves, backend=count_operators)(torch.ones(3))
"""
    file.write_text(typed + more)
    assert len(typed.splitlines()) <= 20
    environment = os.environ | {"TORCH_LOGS": "graph_code"}
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, env=environment, timeout=240, check=True
    )
    first, second = "a graph of 1 operators: {'mul': 1}\n", "a graph of 1 operators: {'add': 1}\n"
    assert done.stdout == f"{printed}--\n{printed}{first}between\n{second}"
    assert "def forward(self" in done.stderr
    # The same function as in the snippet, but for the words that a file on its own does not need.
    (function,) = (node for node in ast.parse(typed).body if isinstance(node, ast.FunctionDef))
    original = ast.parse(inspect.getsource(own.count_operators)).body[0]
    assert isinstance(original, ast.FunctionDef)
    assert ast.unparse(ast.Module(original.body[1:], [])) == ast.unparse(ast.Module(function.body, []))


def test_page_shows_all_ten_checks() -> None:
    for page in PAGES:
        shown = page.read_text("utf-8")
        names = set(re.findall(r"^def (check_\w+)\(backend", SNIPPET.read_text("utf-8"), re.M))
        assert len(names) == 10
        assert all(f'"{name}"' in shown for name in names)


# ---------------------------------------------------------------- the package


def definitions(path: Path) -> dict[str, str]:
    """The text of everything that a file defines at its top, by name, with the remark above it."""
    lines = path.read_text("utf-8").splitlines()
    found: dict[str, str] = {}
    for node in ast.parse("\n".join(lines)).body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        names = (
            [node.name]
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            else [t.id for t in targets if isinstance(t, ast.Name)]
        )
        first = node.lineno
        while names and lines[first - 2].startswith("#:"):
            first -= 1
        found |= {name: "\n".join(lines[first - 1 : node.end_lineno]) for name in names}
    return found


def test_package_and_snippet_are_one_text() -> None:
    package = definitions(PACKAGE / "src" / "kitchen_numpy_backend" / "backend.py")
    snippet = definitions(SNIPPET)
    assert {"NumpyInterpreter", "ATEN", "compile_aten", "kitchen_numpy", "checked"} <= set(package)
    for name, text in package.items():
        assert text == snippet.get(name), f"{name} differs between the package and the snippet: change both"


@pytest.fixture(name="installed", scope="module")
def fixture_installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built and installed by pip into a folder of its own, without a network."""
    pytest.importorskip("setuptools")
    place = tmp_path_factory.mktemp("kitchen-numpy")
    unwanted = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    copy = shutil.copytree(PACKAGE, place / "project", ignore=unwanted)
    flags = ["--no-index", "--no-build-isolation", "--no-deps", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *flags, "--target", str(place / "site"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return place


def python(*arguments: str, site: Path, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(site), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=site, timeout=timeout, check=False
    )


@pytest.mark.slow
def test_package_installs_and_its_name_works_without_an_import(installed: Path) -> None:
    code = """
import sys, torch
assert "kitchen_numpy" in torch.compiler.list_backends()
assert not any(name.startswith("kitchen") for name in sys.modules)
print(torch.compile(torch.tanh, backend="kitchen_numpy")(torch.zeros(2)).tolist())
from kitchen_numpy_backend import EXECUTED
print(dict(EXECUTED))
"""
    done = python("-c", code, site=installed / "site")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["[0.0, 0.0]", "{('numpy', 'aten.tanh'): 1}"]


@pytest.mark.slow
def test_package_passes_its_own_tests(installed: Path) -> None:
    tests = installed / "project" / "tests"
    done = python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tests), str(tests), site=installed / "site"
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


@pytest.mark.slow
def test_package_whose_module_does_not_import_says_so_when_it_is_asked_for(installed: Path, tmp_path: Path) -> None:
    site = Path(shutil.copytree(installed / "site", tmp_path / "site"))
    (site / "kitchen_numpy_backend" / "backend.py").write_text("import a_runtime_that_is_not_here\n")
    code = """
import torch
assert "kitchen_numpy" in torch.compiler.list_backends()
torch.compile(torch.tanh, backend="inductor")
torch.compile(torch.tanh, backend="kitchen_numpy")
"""
    done = python("-c", code, site=site)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == "ModuleNotFoundError: No module named 'a_runtime_that_is_not_here'"


def test_readmes_show_the_same_code() -> None:
    english, chinese = (PACKAGE / name for name in ("README.md", "README.zh.md"))
    for language in ("bash", "python"):
        assert fences(english, language) == fences(chinese, language)


# ---------------------------------------------------------------- the comparison tool


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True], ids=["by file", "by name, training"])
def test_comparison_tool_measures_it(training: bool, installed: Path) -> None:
    variant = "kitchen_numpy" if training else f"{SNIPPET}:kitchen_numpy"
    tool = REPO / "snippets" / "measuring" / "compare_backends.py"
    model = REPO / "snippets" / "models" / "mlp.py"
    short = ("--seconds", "0.2", "--processes", "2", "--arg", "size=small")
    more = ["--training"] if training else []
    arguments = [str(tool), f"{model}:build", "--variants", variant, *short, *more, "--quiet", "--json", "-"]
    done = python(*arguments, site=installed / "site", timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    row = json.loads(done.stdout)["rows"][-1]
    assert row["variant"].endswith("kitchen_numpy")
    assert row["status"] == "ok", row
    assert row["ran"] == "yes", "it took the operators over"
    assert row["step_us"] > 0
