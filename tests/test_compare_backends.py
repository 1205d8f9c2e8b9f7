"""The comparison tool (measuring/compare_backends): statistics on made-up samples, and each failure for real."""

from __future__ import annotations

import csv
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from kitchen import child
from snippets.measuring import compare_backends as tool
from snippets.measuring.compare_backends import AGAIN, Row, Settings, UsageError, Variant

TOOL = Path(tool.__file__)
MODELS = Path(__file__).with_name("compare_models.py")
SCHEMA = json.loads(Path(__file__).with_name("compare_report.schema.json").read_text("utf-8"))
SHORT = ("--seconds", "0.2", "--processes", "2")


def named(*names: str) -> str:
    """A --variants value of callables in the file of test models."""
    return ",".join(f"{MODELS}:{name}" for name in names)


def line_of(text: str, path: Path = MODELS) -> str:
    """``file.py:line`` of the only line of a file that holds a text."""
    (number,) = (n for n, line in enumerate(path.read_text("utf-8").splitlines(), 1) if text in line)
    return f"{path.name}:{number}"


def run_tool(*arguments: str, timeout: float = 400, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), *arguments]
    environ = os.environ | {"PYTHONWARNINGS": "ignore"} | environment
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environ, check=False)


def report_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(report, SCHEMA)
    return report


def rows_of(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {row["variant"]: row for row in report_of(done)["rows"]}


# ================================================================ arguments


@pytest.mark.parametrize(
    ("text", "kind", "target", "mode"),
    [
        ("eager", "plain", "", None),
        ("inductor", "backend", "inductor", None),
        ("inductor:max-autotune", "backend", "inductor", "max-autotune"),
        ("inductor:default", "backend", "inductor", "default"),
        ("inductor:nosuch", "backend", "inductor", "nosuch"),
        ("aot_eager", "backend", "aot_eager", None),
        ("compile:eager", "backend", "eager", None),
        ("compile:inductor:lite", "backend", "inductor", "lite"),
        ("openvino:reduce-overhead", "backend", "openvino", "reduce-overhead"),
        ("mine.py:backend", "custom", "mine.py:backend", None),
        ("/some/where/mine.py:backend", "custom", "/some/where/mine.py:backend", None),
        ("package.module:backend", "custom", "package.module:backend", None),
        ("wrap:mine.py:change", "wrap", "mine.py:change", None),
    ],
)
def test_variant_forms(text: str, kind: str, target: str, mode: str | None) -> None:
    variant = tool.parse_variant(text, {})
    assert (variant.kind, variant.target, variant.mode) == (kind, target, mode)
    assert "/" not in variant.label


def test_options_go_to_those_that_take_them() -> None:
    common = {"freezing": True}
    assert tool.parse_variant("inductor", common).options == common
    assert tool.parse_variant("inductor+freezing=false+max_autotune=true", common).options == {
        "freezing": False,
        "max_autotune": True,
    }
    # These would ignore them with a warning.
    assert tool.parse_variant("aot_eager", common).options == {}
    assert tool.parse_variant("compile:eager", common).options == {}


@pytest.mark.parametrize("text", ["", "+a=1", "inductor+a", "eager+a=1"])
def test_variants_that_mean_nothing(text: str) -> None:
    with pytest.raises(UsageError):
        tool.parse_variant(text, {})


def test_eager_is_first_and_twice_and_names_are_unique() -> None:
    variants = tool.parse_variants(["inductor", "eager", "inductor", "eager"], Settings(), "cpu")
    assert [v.label for v in variants] == ["eager", AGAIN, "inductor", "inductor#2", "eager#2"]


def test_default_variants_depend_on_the_device() -> None:
    assert "cudagraphs" not in [v.label for v in tool.parse_variants([], Settings(), "cpu")]
    assert "cudagraphs" in [v.label for v in tool.parse_variants([], Settings(), "cuda:0")]


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("None", None), ("3", 3), ("0.5", 0.5), ("1e-3", 1e-3), ("max", "max")]
)
def test_values(text: str, value: Any) -> None:
    found = tool.parse_value(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"processes": 0},
        {"seconds": 0.0},
        {"timeout": -1.0},
        {"dtype": "float8"},
        {"autocast": "int8"},
        {"threads": -1},
        {"margin": -1.0},
        {"margin": math.nan},
        {"margin": math.inf},
        {"seed": -1},
        {"batches": (0,)},
        {"optimizer": "Nosuch"},
        {"optimizer": "lr_scheduler"},
        {"optimizer": "Optimizer"},
        {"optimizer": "LBFGS"},
        {"device": "toaster"},
        {"device": "meta"},
        {"device": "cuda:99"},
        {"device": ""},
        {"threads": 100_000},
        {"threads": 10**12},
        {"model": "nothing"},
        {"model": "nosuch.py:build"},
        {"training": True, "inference_mode": True},
        {"variants": ("eager+a=1",)},
    ],
)
def test_wrong_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        tool.measure(Settings(**wrong))


def test_more_threads_than_can_be_meant_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "usable_cores", lambda: 4)
    tool.check_threads(4 * tool.THREADS_PER_CORE)
    with pytest.raises(UsageError, match=r"--threads 33; there are 4 core\(s\) to use here: wants 32 or fewer"):
        tool.check_threads(33)
    tool.check_threads(0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 5000)
    with pytest.raises(UsageError, match="torch takes 5000, see OMP_NUM_THREADS"):
        tool.check_threads(0)


def test_as_many_threads_as_are_allowed_do_start() -> None:
    """The bound is below what the system gives: all of them come up and work."""
    most = tool.THREADS_PER_CORE * tool.usable_cores()
    code = f"import torch; torch.set_num_threads({most}); print(torch.ones(4_000_000).add(1).relu().sum().item())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "8000000.0", done.stderr


@pytest.mark.parametrize(("threads", "said"), [(2, True), (1, False)])
def test_more_threads_than_cores_are_a_warning(monkeypatch: pytest.MonkeyPatch, threads: int, said: bool) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tool, "usable_cores", lambda: 1)
    monkeypatch.setattr(tool.Comparison, "alone", interrupt)
    heard: list[str] = []
    report = tool.measure(Settings(threads=threads), heard.append)
    assert ("2 threads on 1 core(s): they have to take turns" in report.warnings) is said
    assert any("2 threads on 1 core(s)" in text for text in heard) is said


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: torch.device("cuda"))


@pytest.mark.usefixtures("two_gpus")
def test_devices_that_are_there() -> None:
    assert tool.usable_devices() == ["cpu", "cuda:0", "cuda:1"]
    for name in ("cpu", "cpu:0", "cuda", "cuda:0", "cuda:1"):
        tool.check_device(name)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cuda:2", "there is no device of this number"),
        ("xpu", "there is no xpu device here"),
        ("meta", "its tensors hold no values"),
        ("gpu", "torch knows no such device"),
    ],
)
def test_devices_that_are_not_there(name: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        tool.check_device(name)
    assert str(caught.value) == f"--device {name}: {reason}; usable here: cpu, cuda:0, cuda:1"


def test_an_accelerator_that_is_not_cuda_is_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: torch.device("xpu"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    assert tool.usable_devices() == ["cpu", "xpu:0"]
    tool.check_device("xpu")
    with pytest.raises(UsageError, match="there is no cuda device here; usable here: cpu, xpu:0"):
        tool.check_device("cuda")


def test_a_factory_must_be_importable() -> None:
    assert tool.spec_of(tool.demo_mlp).endswith("compare_backends.py:demo_mlp")
    assert tool.spec_of("a.py:b") == "a.py:b"
    with pytest.raises(UsageError):
        tool.spec_of(lambda: None)


@pytest.mark.parametrize(
    ("value", "args", "kwargs"),
    [
        (1, (1,), {}),
        ((1, 2), (1, 2), {}),
        ([1], (1,), {}),
        ({"a": 1}, (), {"a": 1}),
        (((1, 2), {"a": 3}), (1, 2), {"a": 3}),
        ((1, {"a": 3}), (1, {"a": 3}), {}),
    ],
)
def test_example_inputs(value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    inputs = tool.as_inputs(value)
    assert (inputs.args, inputs.kwargs) == (args, kwargs)


def test_rebatch_cuts_and_repeats_what_has_the_batch() -> None:
    inputs = tool.Inputs((torch.arange(6.0).view(3, 2),), {"scale": torch.ones(7), "mask": [torch.arange(3)]})
    more, less = tool.rebatch(inputs, 5), tool.rebatch(inputs, 1)
    assert more.args[0].shape == (5, 2)
    assert torch.equal(more.kwargs["mask"][0], torch.tensor([0, 1, 2, 0, 1]))
    assert more.kwargs["scale"].shape == (7,)
    assert less.args[0].shape == (1, 2)


# ================================================================ right or wrong


def test_relative_error() -> None:
    wanted = {"output": torch.tensor([1.0, -4.0], dtype=torch.float64)}
    assert tool.relative_errors({"output": torch.tensor([1.0, -4.0])}, wanted) == 0
    assert tool.relative_errors({"output": torch.tensor([1.4, -4.0])}, wanted) == pytest.approx(0.1)
    assert tool.relative_errors({}, wanted) == math.inf
    assert tool.relative_errors({"output": torch.tensor([1.0])}, wanted) == math.inf
    assert tool.relative_errors({"output": torch.tensor([math.nan, -4.0])}, wanted) == math.inf


def test_what_is_not_finite_in_both_is_equal() -> None:
    odd = {"output": torch.tensor([math.nan, math.inf, 2.0])}
    assert tool.relative_errors(odd, odd) == 0
    assert tool.relative_errors({"output": torch.tensor([math.nan, -math.inf, 2.0])}, odd) == math.inf


@pytest.mark.parametrize("also", [{}, {"scores": torch.tensor([0.5, 4.0])}])
@pytest.mark.parametrize(
    ("found", "wanted", "error"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], 0.0),
        ([1, 2, 3, 5], [1, 2, 3, 4], 0.25),
        ([True, False], [True, True], 0.5),
        ([], [], 0.0),
        ([1, 2, 3], [1, 2], math.inf),
    ],
)
def test_whole_numbers_and_booleans_count_by_the_share_that_differs(
    found: list[int], wanted: list[int], error: float, also: dict[str, torch.Tensor]
) -> None:
    """Beside floating-point outputs too: right scores do not excuse a wrong choice."""
    kind = torch.bool if wanted and wanted[0] is True else torch.int64
    first, second = (also | {"choice": torch.tensor(values, dtype=kind)} for values in (found, wanted))
    assert tool.relative_errors(first, second) == error
    assert tool.relative_errors(also, second) == math.inf


def test_a_gradient_of_rounding_noise_is_not_wrong() -> None:
    # The gradient of a bias before a batch norm is zero, but for rounding.
    wanted = {"gradient of w": torch.tensor([10.0]), "gradient of b": torch.tensor([1e-9])}
    found = {"gradient of w": torch.tensor([10.0]), "gradient of b": torch.tensor([3e-9])}
    assert tool.relative_errors(found, wanted) < 1e-5
    assert tool.relative_errors(found | {"gradient of b": torch.tensor([1.0])}, wanted) > 1


def checked(*outputs: torch.Tensor, training: bool = False) -> dict[str, Any]:
    """What check_plain() says of a model with these outputs."""

    class Gives(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(()))

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [tensor.to(x.dtype) * self.weight for tensor in outputs]

    workload = tool.Workload(Settings(training=training, device="cpu"))
    workload.factory = lambda: (Gives(), torch.ones(1))
    return tool.check_plain(workload)


@pytest.mark.parametrize("training", [False, True])
def test_where_every_output_is_empty_nothing_was_compared(training: bool) -> None:
    """In training too: the gradients of nothing are zeros, right or wrong."""
    with pytest.raises(tool.NothingToCompare):
        checked(torch.ones(0, 3), torch.ones(0), training=training)
    assert checked(torch.ones(0, 3), torch.ones(1), training=training)["reference"] == "float64"


def test_no_batch_is_made_from_an_empty_one() -> None:
    with pytest.raises(UsageError, match="empty batch"):
        tool.rebatch(tool.Inputs((torch.ones(0, 3),)), 2)


# ================================================================ what failed, and where


def failure_of(call: Callable[[], Any], phase: str = "model") -> dict[str, str]:
    """What is said of what a call raises; our own frame is not the user's."""
    try:
        call()
    except Exception as error:
        ours = error.__traceback__
        return tool.describe_failure(error.with_traceback(ours and ours.tb_next), phase)
    raise AssertionError("it raised nothing")


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Writes a file of Python; what is imported in the test is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


Write = Callable[[str, str], Path]


def test_a_failure_names_the_line_of_the_user(written: Write) -> None:
    """Of the frames the innermost one that is the user's: not the tool's, not torch's, not that of Python's library."""
    written("place_helper.py", "import json\ndef read():\n    return json.loads('{')\n")
    path = written(
        "place_model.py",
        "import torch\nfrom place_helper import read\n"
        "def shapes():\n    x = torch.nn.Linear(4, 4)\n    return x(torch.ones(3))\n"
        "def library():\n    return read()\n"
        "def own():\n    raise ValueError('one\\ntwo')\n",
    )
    notes = {name: failure_of(tool.load_object(f"{path}:{name}"))["note"] for name in ("shapes", "library", "own")}
    assert notes["shapes"].endswith(" (place_model.py:5)")
    assert notes["library"].endswith(" (place_helper.py:3)")
    assert notes["own"] == "ValueError: one (place_model.py:9)"


def test_a_failure_at_import_names_the_line(written: Write) -> None:
    path = written("place_import.py", "x = 1\ny = x / 0\n")
    assert failure_of(lambda: tool.load_object(f"{path}:build"))["note"] == (
        "ZeroDivisionError: division by zero (place_import.py:2)"
    )
    path = written("place_syntax.py", "x = 1\ny = = 2\n")  # it tells its place itself: once is enough
    assert failure_of(lambda: tool.load_object(f"{path}:build"))["note"] == (
        "SyntaxError: invalid syntax (place_syntax.py, line 2)"
    )


def test_what_an_installed_package_raises_has_its_line_there(written: Write) -> None:
    """Below a frame of the user's, that one is named; without one, the package's; never torch's."""
    written("site-packages/place_package.py", "def fail():\n    raise ValueError('no')\n")
    path = written("place_user.py", "def call(f):\n    f()\n")
    fail = tool.load_object(f"{path.parent}/site-packages/place_package.py:fail")
    assert failure_of(fail)["note"] == "ValueError: no (place_package.py:2)"
    assert failure_of(partial(tool.load_object(f"{path}:call"), fail))["note"] == "ValueError: no (place_user.py:2)"
    assert failure_of(partial(tool.parse_pairs, "x"))["note"] == "UsageError: 'x': wants KEY=VALUE"
    bad = partial(torch.nn.Linear(4, 4), torch.ones(3))
    assert failure_of(bad)["note"].startswith("RuntimeError: ")
    assert ".py" not in failure_of(bad)["note"]


def test_a_relative_import_in_a_file_is_no_missing_package(written: Write) -> None:
    written("place_pack/__init__.py", "")
    written("place_pack/layers.py", "WIDTH = 3\n")
    at_import = written("place_pack/model.py", "from .layers import WIDTH\ndef build():\n    return WIDTH\n")
    inside = written("place_pack/late.py", "def build():\n    from .layers import WIDTH\n    return WIDTH\n")
    said = (
        "ImportError: attempted relative import with no known parent package ({}); "
        "a file that is loaded by its path has no package: use package.module:factory instead"
    )
    failure = failure_of(lambda: tool.load_object(f"{at_import}:build"))
    assert failure == {"kind": "error", "phase": "model", "note": said.format("model.py:1")}
    assert failure_of(lambda: tool.load_object(f"{inside}:build")())["note"] == said.format("late.py:2")
    # As it says: so it works.
    assert tool.load_object("place_pack.model:build")() == tool.load_object("place_pack.late:build")() == 3


def test_which_import_errors_are_missing_packages(written: Write) -> None:
    kinds = {}
    for name, text in {
        "place_none": "import no_such_package_at_all",
        "place_typing": "from json import no_such_name",
        "place_beyond": "from ...layers import x",
    }.items():
        written(f"place_kinds/{name}.py", text)
        kinds[name] = failure_of(lambda name=name: tool.load_object(f"place_kinds.{name}:build"))["kind"]  # type: ignore[misc]
    assert kinds == {"place_none": "missing package", "place_typing": "error", "place_beyond": "error"}


# ================================================================ statistics on made-up samples


def process(
    source: random.Random, bias: float, noise: float, effects: dict[str, float], rounds: int = 20
) -> tool.Blocks:
    """Blocks of one process: each copy has a bias of its own in it, and each block its noise; effects are factors."""
    offsets = {name: source.gauss(0, bias) for name in ("eager", AGAIN, *effects)}
    factors = {"eager": 1.0, AGAIN: 1.0} | effects
    return {
        name: [1e-3 * factor * math.exp(offsets[name] + source.gauss(0, noise)) for _ in range(rounds)]
        for name, factor in factors.items()
    }


def adaptive(source: random.Random, effect: float, bias: float) -> str | None:
    """The verdict on one variant as the tool comes to it: processes until it is clear."""
    runs: list[tool.Blocks] = []
    for number in range(1, Settings.processes + 1):
        runs.append(process(source, bias, 0.05, {"x": effect}))
        if number >= tool.LEAST_PROCESSES and tool.judge(runs, "x", Settings.margin).clear:
            break
    return tool.judge(runs, "x", Settings.margin).verdict


@pytest.mark.parametrize("bias", [0.003, 0.01, 0.03])
def test_the_same_thing_twice_is_rarely_called_different(bias: float) -> None:
    source = random.Random(1)
    verdicts = [adaptive(source, 1.0, bias) for _ in range(400)]
    assert sum(v != "no difference" for v in verdicts) <= 20  # 5 %


@pytest.mark.parametrize("bias", [0.003, 0.01, 0.03])
def test_a_tenth_is_found(bias: float) -> None:
    source = random.Random(2)
    assert sum(adaptive(source, 1.1, bias) == "slower" for _ in range(200)) >= 190
    assert sum(adaptive(source, 1 / 1.1, bias) == "faster" for _ in range(200)) >= 190


def test_the_interval_covers_the_truth() -> None:
    source, held = random.Random(3), 0
    for _ in range(400):
        runs = [process(source, 0.02, 0.05, {"x": 1.25}) for _ in range(4)]
        interval = tool.judge(runs, "x", 0.02).interval
        held += interval.low <= -math.log(1.25) <= interval.high
    assert held >= 0.95 * 400 - 10


def test_one_process_gives_no_verdict() -> None:
    judged = tool.judge([process(random.Random(0), 0.0, 0.0, {"x": 2.0})], "x", 0.02)
    assert judged.verdict is None
    ratio, low, high = judged.interval.ratios
    assert ratio == pytest.approx(0.5)
    assert low is high is None


def test_an_effect_below_the_margin_is_no_difference() -> None:
    runs = [process(random.Random(n), 0.0, 0.0, {"x": 1.015}) for n in range(4)]
    judged = tool.judge(runs, "x", 0.02)
    assert judged.verdict == "no difference"
    assert judged.resolved
    assert judged.clear
    assert tool.judge(runs, "x", 0.01).verdict == "slower"


def test_a_pair_that_differs_raises_the_bar() -> None:
    """Where eager seems 8 % apart from itself, 6 % is no difference."""
    runs = [process(random.Random(n), 0.0, 0.0, {"x": 1.06}) for n in range(5)]
    for run in runs:
        run[AGAIN] = [value * 1.08 for value in run[AGAIN]]
    assert tool.judge(runs, AGAIN, 0.02).verdict == "slower"
    assert tool.judge(runs, "x", 0.02).verdict == "no difference"


def test_the_spread_of_the_pair_is_the_least_of_any_row() -> None:
    """Four processes that agree by luck are not trusted more than the A/A pair allows."""
    runs = [process(random.Random(n), 0.0, 0.0, {"x": 1.05}) for n in range(4)]
    for sign, run in zip((1, -1, 1, -1), runs, strict=True):
        run["eager"] = [v * math.exp(0.05 * sign) for v in run["eager"]]
        run[AGAIN] = [v * math.exp(-0.05 * sign) for v in run[AGAIN]]
    assert tool.judge(runs, "x", 0.02).verdict == "no difference"


def test_drift_hits_all_alike() -> None:
    """Blocks are paired within a round: a machine that slows down by half changes no ratio."""
    runs = []
    for n in range(4):
        run = process(random.Random(n), 0.0, 0.001, {"x": 1.25})
        runs.append({name: [v * (1 + i / len(b)) for i, v in enumerate(b)] for name, b in run.items()})
    assert math.exp(tool.judge(runs, "x", 0.02).interval.center) == pytest.approx(0.8, rel=0.01)


def test_isolated_runs_need_not_have_as_many_rounds() -> None:
    runs = [{"eager": [1.0] * 5, AGAIN: [1.0] * 7, "x": [2.0] * 6} for _ in range(3)]
    assert tool.judge(runs, "x", 0.02, paired=False).verdict == "slower"


def test_t_tables_begin_at_two_samples() -> None:
    assert tool.student([0.0, 1.0]).high - 0.5 == pytest.approx(12.706 * 0.5, rel=1e-3)
    assert tool.student([0.0, 1.0, 2.0]).high - 1 == pytest.approx(4.303 / math.sqrt(3), rel=1e-3)


# ================================================================ the sum and the pick


def timed(name: str, step_us: float, compile_s: float, verdict: str | None = None, **more: Any) -> Row:
    """A row with times; eager takes 1000 us."""
    ratio = 1000 / step_us
    row = Row(name, name, step_us=step_us, speedup_ratio=ratio, verdict=verdict, **more)
    row.speedup_low, row.speedup_high = 0.98 * ratio, 1.02 * ratio
    tool.set_compile(row, "cold", [compile_s])
    tool.set_compile(row, "warm", [compile_s / 10])
    return row


def summed(*rows: Row, steps: int) -> list[Row]:
    answer = [timed("eager", 1000, 0.0), *rows]
    tool.add_sums(answer, steps)
    return answer


def test_the_sum() -> None:
    _, fast = summed(timed("fast", 500, 10.0, "faster"), steps=100_000)
    assert fast.saved_us == pytest.approx(500)
    assert fast.total_cold_s == pytest.approx(10 + 50)
    assert fast.payoff_cold_r == pytest.approx(5)
    assert fast.break_even_cold == 20_000
    assert fast.break_even_warm == 2_000
    assert fast.break_even_cold_low is not None
    assert fast.break_even_cold_high is not None
    assert fast.break_even_cold_low < 20_000 < fast.break_even_cold_high


@pytest.mark.parametrize("verdict", ["slower", "no difference"])
def test_never(verdict: str) -> None:
    _, row = summed(timed("x", 990, 10.0, verdict), steps=100_000)
    assert row.break_even_cold is None
    assert row.break_even_text == "never"


def test_no_upper_bound_where_the_interval_reaches_one() -> None:
    row = timed("x", 900, 10.0, "faster")
    row.speedup_low = 0.999
    summed(row, steps=100_000)
    assert row.break_even_cold_low is not None
    assert row.break_even_cold_high is None
    assert "-)" in tool.n_star(row, "cold")


def picked(rows: Sequence[Row], start: str = "cold") -> tuple[str, str]:
    row, text = tool.pick(rows, start)
    assert row is not None
    return row.variant, text


def test_pick_depends_on_the_steps_and_on_the_start() -> None:
    fast = ("fast", 500, 10.0, "faster")
    assert picked(summed(timed(*fast), steps=100_000))[0] == "fast"
    few = summed(timed(*fast), steps=5_000)
    name, text = picked(few)
    assert name == "eager"
    assert "20,000 steps" in text
    assert picked(few, "warm")[0] == "fast"


def test_too_close_to_call_is_eager() -> None:
    name, text = picked(summed(timed("fast", 500, 10.0, "faster"), steps=20_500))
    assert name == "eager"
    assert "too close" in text


def test_of_two_alike_the_one_that_compiles_sooner() -> None:
    slow_to_compile, quick = timed("long", 495, 20.0, "faster"), timed("quick", 500, 5.0, "faster")
    name, text = picked(summed(slow_to_compile, quick, steps=10_000_000))
    assert name == "quick"
    assert "long is too close to call" in text


def test_never_picked() -> None:
    rows = summed(
        timed("wrong", 100, 1.0, "faster", status="wrong"),
        timed("did not run", 100, 1.0, "faster", ran="no: fell back"),
        timed("noise", 900, 0.0, "no difference"),
        timed(AGAIN, 500, 0.0, "faster"),
        steps=1_000_000,
    )
    name, text = picked(rows)
    assert name == "eager"
    assert "no compiled variant is measurably faster" in text


def test_nothing_to_pick() -> None:
    assert tool.pick([Row("eager", "model(...)")], "cold")[0] is None


# ================================================================ small parts


def test_side_by_side_compilers_count_once() -> None:
    compilers = tool.Compilers()
    compilers.spans = [(0.0, 2.0), (1.0, 3.0), (5.0, 6.0), (5.2, 5.4)]
    assert compilers.busy_s == pytest.approx(4.0)


def test_compilers_are_seen_whatever_calls_them() -> None:
    compilers = tool.Compilers()
    original = subprocess.run
    with compilers.watched():
        subprocess.check_output([sys.executable, "-c", "import time; time.sleep(0.05)"])
    assert subprocess.run is original
    assert compilers.busy_s >= 0.05


def test_failing_takes_the_times_away_and_leaves_the_rest() -> None:
    row = timed("x", 500, 10.0, "faster")
    row.samples_us, row.max_rel_error, row.peak_mib = [1.0], 0.5, 100.0
    row.fail("wrong", "why", "wrong", "check")
    assert row.step_us is None
    assert row.samples_us == []
    assert row.compile_cold_s is None
    assert row.speedup_ratio is None
    assert (row.max_rel_error, row.peak_mib) == (0.5, 100.0)


def test_caches_come_together_under_one_path(tmp_path: Path) -> None:
    kitchen = tool.Kitchen(tmp_path, Settings(), tool.Clock())
    for name in ("a", "b"):
        (kitchen.cache / "tmp" / name).mkdir(parents=True)
        (kitchen.cache / "tmp" / name / "file").write_text(name)
        (kitchen.cache / "both").write_text(name)
        kitchen.keep_cache()
        assert not kitchen.cache.exists()
    kitchen.merge_caches()
    assert (kitchen.cache / "tmp/a/file").read_text() == "a"
    assert (kitchen.cache / "tmp/b/file").read_text() == "b"
    assert (kitchen.cache / "both").read_text() == "a"
    assert list(tmp_path.glob("kept-*")) == []


def test_cuda_graphs_are_said_to_run_only_where_they_did() -> None:
    assert tool.cuda_graphs_of("cpu", 0, None) == "no: the device is cpu"
    assert tool.cuda_graphs_of("cuda", 0, 3) == "replayed"
    assert tool.cuda_graphs_of("cuda", 2, 0) == "no: skipped 2 time(s)"
    assert tool.cuda_graphs_of("cuda", 0, 0) == "no: none was replayed"
    assert tool.cuda_graphs_of("cuda", 4, 1) == "in part: 1 replay(s) a step, 4 graph(s) skipped"
    assert tool.cuda_graphs_of("cuda", 4, 6, sizes=3) == "in part: 2 replay(s) a step, 4 graph(s) skipped"
    assert Variant("x", "backend", "inductor", "reduce-overhead").wants_cuda_graphs
    assert Variant("x", "backend", "inductor", None, {"triton.cudagraphs": True}).wants_cuda_graphs
    assert not Variant("x", "backend", "inductor", "max-autotune-no-cudagraphs").wants_cuda_graphs


def test_a_step_is_timed_as_torch_times_it() -> None:
    """Taken in turn on the same callable, our blocks are those of torch.utils.benchmark.Timer.

    The median of paired ratios, because this machine may be busy; the trials hold the medians to 3 % in a quiet hour.
    """
    torch.set_num_threads(1)
    model, x = tool.demo_mlp()
    ratios = []
    with torch.no_grad():
        reference = torch.utils.benchmark.Timer("model(x)", globals={"model": model, "x": x}, num_threads=1)
        for _ in range(40):
            ours = tool.time_steps(lambda: model(x), 5e-4, 0.02, tool.PARTS)
            ratios.append(ours / reference.blocked_autorange(min_run_time=0.02).median)
    assert 0.9 < statistics.median(ratios) < 1.1


def test_whether_it_ran_is_told_by_the_operators() -> None:
    comparison = tool.Comparison(Settings(), lambda text: None)
    comparison.plain_operators = {"aten::addmm": 2, "aten::relu": 1}
    comparison.report.environment = {"device": "cpu"}

    def ran(variant: Variant, operators: dict[str, int], graphs: int = 1) -> str:
        inside = {"graphs": graphs, "graph_skips": 0}
        return comparison.really_ran(variant, {"inside": inside, "operators": operators, "replays": None})

    fewer, same = {"aten::addmm": 2}, {"aten::addmm": 2, "aten::relu": 1}
    for variant in (Variant("w", "wrap", "w.py:w"), Variant("i", "backend", "inductor")):
        assert ran(variant, fewer) == "yes"
        assert ran(variant, same).startswith("yes, but it replaced no operator")
    custom = Variant("c", "custom", "c.py:c")
    assert ran(custom, fewer) == "yes"
    assert ran(custom, same).startswith("no: fell back")
    assert ran(custom, fewer, graphs=0).startswith("no: Dynamo captured no graph")
    assert ran(Variant("aot_eager", "backend", "aot_eager"), same) == "yes"


def burn(seconds: float) -> None:
    """Keep this process at work for so much processor time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_the_work_of_another_program_is_seen() -> None:
    """However busy this machine is: half a second of another process counts, half a second of ours does not."""
    other = "import time\nwhile time.process_time() < 0.5: pass"
    before = tool.machine_state()
    subprocess.run([sys.executable, "-S", "-c", other], check=True)
    burn(0.5)
    after = tool.machine_state()
    if "busy_s" not in after:
        pytest.skip("this system does not count processor time in /proc/stat")
    assert after["own_s"] - before["own_s"] == pytest.approx(0.5, abs=0.2)
    assert after["busy_s"] - before["busy_s"] > 0.9  # of both; ticks are coarse
    others = tool.others_at_work(before, after)
    assert others is not None
    assert others * (after["clock_s"] - before["clock_s"]) > 0.4


def test_without_counters_nothing_is_said_of_others() -> None:
    assert tool.others_at_work({"clock_s": 0.0, "own_s": 0.0}, {"clock_s": 1.0, "own_s": 0.5}) is None
    quiet = {"clock_s": 0.0, "own_s": 0.0, "busy_s": 100.0}
    assert tool.others_at_work(quiet, {"clock_s": 10.0, "own_s": 9.0, "busy_s": 114.0}) == pytest.approx(0.5)
    # Ticks are coarse: less than our own is none.
    assert tool.others_at_work(quiet, {"clock_s": 10.0, "own_s": 9.0, "busy_s": 108.0}) == 0.0


@pytest.mark.parametrize(("others", "said"), [([], False), ([0.1, 0.05], False), ([0.1, 0.7], True)])
def test_a_busy_machine_is_a_warning(others: list[float], said: bool) -> None:
    comparison = tool.Comparison(Settings(), lambda text: None)
    comparison.others, comparison.report.rows = others, [Row("eager", "model(...)")]
    comparison.finish({"load": 0.0})
    assert any("busy" in text for text in comparison.report.warnings) is said
    assert comparison.report.environment["machine"]["others_cores"] == others


def test_tables_have_a_cell_for_every_row() -> None:
    report = tool.Report(Settings(), summed(timed("fast", 500, 10.0, "faster", ran="yes"), steps=100))
    report.rows[1].breaks = "a.py:3 print | so"
    text, markdown = tool.as_text(report), tool.as_markdown(report)
    assert "fast" in text
    assert "graph breaks: a.py:3" in text
    for line in markdown.splitlines():
        if line.startswith("|"):
            assert line.count(" |") in (len(tool.STEP_COLUMNS), len(tool.INSIDE_COLUMNS))


# ================================================================ for real: failures are rows


@pytest.fixture(scope="module")
def failures() -> subprocess.CompletedProcess[str]:
    variants = ["nosuch", "inductor:nosuch", "nosuch.py:backend", "wrap:no.such.module:change"]
    variants += named(
        "wants_a_package", "raises", "out_of_memory", "crashes", "hangs", "wrong", "nan", "hands_back"
    ).split(",")
    return run_tool(
        f"{MODELS}:small", *SHORT, "--timeout", "30", "--variants", ",".join(variants), "--json", "-"
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "failure", "phase", "reason"),
    [
        ("nosuch", "unknown back end", "torch.compile", "Invalid backend: 'nosuch'"),
        ("nosuch.py:backend", "unknown back end", "torch.compile", "there is no file nosuch.py"),
        ("wrap:no.such.module:change", "unknown back end", "model", "No module named 'no'"),
        ("inductor:nosuch", "compile error", "torch.compile", "Unrecognized mode=nosuch"),
        ("compare_models.py:wants_a_package", "missing package", "first call", "No module named 'no_such_package'"),
        (
            "compare_models.py:raises",
            "compile error",
            "first call",
            "ValueError: cannot do this (" + line_of('raise ValueError("cannot do') + ")",
        ),
        ("compare_models.py:out_of_memory", "out of memory", "first call", "can't allocate memory"),
        ("compare_models.py:crashes", "crash", "first call", "SIGSEGV"),
        ("compare_models.py:hangs", "hang", "first call", "no answer within 30 s"),
    ],
)
def test_a_failure_is_a_row(
    failures: subprocess.CompletedProcess[str], variant: str, failure: str, phase: str, reason: str
) -> None:
    row = rows_of(failures)[variant]
    assert (row["status"], row["failure"], row["phase"]) == ("failed", failure, phase)
    assert reason in row["note"]
    assert "\n" not in row["note"]
    assert row["step_us"] is None


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["compare_models.py:wrong", "compare_models.py:nan"])
def test_a_wrong_row_has_no_times(failures: subprocess.CompletedProcess[str], variant: str) -> None:
    row = rows_of(failures)[variant]
    assert row["status"] == "wrong"
    assert row["step_us"] is row["compile_cold_s"] is row["verdict"] is None
    assert row["samples_us"] == []
    assert not row["pick_cold"]


@pytest.mark.slow
def test_the_others_go_on(failures: subprocess.CompletedProcess[str]) -> None:
    assert failures.returncode == 0
    rows = rows_of(failures)
    assert rows["eager"]["step_us"] > 0
    assert rows["compare_models.py:hands_back"]["step_us"] > 0
    assert rows["compare_models.py:hands_back"]["processes"] == 2
    assert len(rows["eager"]["samples_us"]) == len(rows["eager"]["samples_process"]) >= 10
    assert "SIGSEGV" in failures.stderr  # said while it works


@pytest.mark.slow
def test_a_silent_fall_back_is_said(failures: subprocess.CompletedProcess[str]) -> None:
    row = rows_of(failures)["compare_models.py:hands_back"]
    assert row["ran"].startswith("no: fell back")
    assert row["status"] == "ok"


@pytest.mark.slow
def test_a_missing_compiler() -> None:
    done = run_tool(
        f"{MODELS}:small", *SHORT, "--variants", "inductor", "--json", "-", CXX="/nonexistent/g++"
    )  # fmt: skip
    row = rows_of(done)["inductor"]
    assert (row["failure"], row["phase"]) == ("missing compiler", "first call")
    assert done.returncode == 0


@pytest.mark.slow
def test_gradients_are_held_to_the_reference() -> None:
    variants = named("drops_gradients", "wrong_gradients") + ",compile:eager,aot_eager"
    done = run_tool(f"{MODELS}:small", *SHORT, "--training", "--variants", variants, "--json", "-")
    rows = rows_of(done)
    lost, wrong = rows["compare_models.py:drops_gradients"], rows["compare_models.py:wrong_gradients"]
    assert (lost["status"], lost["failure"], lost["phase"]) == ("failed", "gradients lost", "backward")
    assert wrong["status"] == "wrong"
    assert wrong["max_rel_error"] == pytest.approx(1.0, rel=0.01)
    for name in ("compile:eager", "aot_eager"):
        assert rows[name]["status"] == "ok"
        assert rows[name]["reference"] == "float64"
        assert rows[name]["max_rel_error"] < 1e-5


@pytest.mark.slow
def test_randomness_is_seeded() -> None:
    arguments = (*SHORT, "--training", "--optimizer", "SGD", "--variants", "aot_eager,inductor", "--json", "-")
    rows = rows_of(run_tool(f"{MODELS}:with_dropout", *arguments))
    assert rows["aot_eager"]["reference"] == "eager with the same seed"
    assert rows["aot_eager"]["max_rel_error"] < 1e-5
    assert rows["inductor"]["reference"].endswith("fallback_random")
    assert rows["inductor"]["max_rel_error"] < 1e-4
    assert rows["inductor"]["status"] == "ok"
    assert rows["inductor"]["workload"] == "training + SGD"


@pytest.mark.slow
def test_a_crash_among_others_takes_one_out(tmp_path: Path) -> None:
    done = run_tool(
        f"{MODELS}:small", *SHORT, "--variants", named("crashes_second_time") + ",compile:eager", "--json", "-",
        COMPARE_TEST_MARKER=str(tmp_path / "marker"),
    )  # fmt: skip
    rows = rows_of(done)
    assert (rows["compare_models.py:crashes_second_time"]["failure"]) == "crash"
    assert rows["compare_models.py:crashes_second_time"]["phase"] == "timing"
    assert rows["compile:eager"]["step_us"] > 0
    assert rows["compile:eager"]["processes"] == 2


@pytest.mark.slow
def test_what_does_not_fit_together_is_timed_apart(tmp_path: Path) -> None:
    """Out of memory among others only: all move into processes of their own; who fails there too falls out."""
    done = run_tool(
        f"{MODELS}:small", *SHORT, "--variants", named("no_memory_second_time") + ",compile:eager", "--json", "-",
        COMPARE_TEST_MARKER=str(tmp_path / "marker"),
    )  # fmt: skip
    report, rows = report_of(done), rows_of(done)
    assert report["settings"]["isolated"] is True
    assert any("process of its own" in text for text in report["warnings"])
    assert rows["compare_models.py:no_memory_second_time"]["failure"] == "out of memory"
    assert rows["compile:eager"]["processes"] == 2


@pytest.mark.slow
def test_a_variant_that_fails_later_falls_out(tmp_path: Path) -> None:
    done = run_tool(
        f"{MODELS}:small", *SHORT, "--variants", named("fails_later") + ",compile:eager", "--json", "-",
        COMPARE_TEST_MARKER=str(tmp_path / "marker"),
    )  # fmt: skip
    rows = rows_of(done)
    late = rows["compare_models.py:fails_later"]
    place = line_of('raise ValueError("later")')
    assert (late["status"], late["phase"], late["note"]) == ("failed", "timing", f"ValueError: later ({place})")
    assert rows["compile:eager"]["processes"] == 2


def test_a_model_that_does_not_run() -> None:
    done = run_tool(f"{MODELS}:broken", *SHORT, "--json", "-")
    assert done.returncode == 1
    rows = rows_of(done)
    assert rows["eager"]["status"] == "failed"
    assert "cannot be multiplied" in rows["eager"]["note"]
    assert rows["inductor"]["status"] == "not measured"


def test_an_empty_batch_is_not_timed() -> None:
    done = run_tool(f"{MODELS}:small", "--arg", "batch=0", *SHORT, "--json", "-")
    assert done.returncode == 1
    rows = rows_of(done)
    eager = rows["eager"]
    assert (eager["status"], eager["failure"], eager["phase"]) == ("failed", "error", "check")
    assert eager["note"] == tool.EMPTY
    assert eager["compile_cold_s"] is eager["step_us"] is None
    for name in (AGAIN, "aot_eager", "inductor"):
        assert (rows[name]["status"], rows[name]["note"]) == ("not measured", "the plain model could not be checked")


# ================================================================ for real: what it measures


@pytest.mark.slow
def test_compile_cold_and_warm() -> None:
    done = run_tool(
        f"{MODELS}:small", *SHORT, "--variants", "inductor,cudagraphs,wrap:" + named("twice"), "--json", "-"
    )
    rows, report = rows_of(done), report_of(done)
    row = rows["inductor"]
    # Cold runs the C++ compiler, warm does not.
    assert row["compile_cold_s"] > row["compile_warm_s"] > 0
    assert row["compile_native_s"] > 0.3 * row["compile_cold_s"]
    phases = [row[f"compile_{name}_s"] for name in ("dynamo", "aot", "inductor", "native", "rest")]
    assert sum(phases) == pytest.approx(row["compile_cold_s"], rel=0.05)
    assert row["graphs"] == 1
    assert row["peak_mib"] > 100
    assert rows["cudagraphs"]["ran"].startswith("no: the device is cpu")
    assert rows["wrap:compare_models.py:twice"]["speedup_ratio"] < 0.8
    assert report["clock_s"]["total"] > report["clock_s"]["compile"] > row["compile_cold_s"]
    assert report["picks"]["cold"].startswith("eager")


@pytest.mark.slow
def test_breaks_batches_and_keywords() -> None:
    rows = rows_of(run_tool(f"{MODELS}:breaking", *SHORT, "--variants", "compile:eager", "--json", "-"))
    assert rows["compile:eager"]["graph_breaks"] == 2
    assert "compare_models.py:" in rows["compile:eager"]["breaks"]

    batches = ("--batches", "2,8,32")
    one = rows["eager"]
    rows = rows_of(run_tool(f"{MODELS}:breaking", *SHORT, *batches, "--variants", "compile:eager", "--json", "-"))
    assert rows["eager"]["operators"] == one["operators"]  # of a step, not of the three sizes
    rows = rows_of(run_tool(f"{MODELS}:small", *SHORT, *batches, "--variants", "aot_eager", "--json", "-"))
    assert rows["aot_eager"]["recompiles"] == 1
    assert "size mismatch" in rows["aot_eager"]["recompile_reasons"]

    done = run_tool(f"{MODELS}:with_keywords", *SHORT, "--variants", "compile:eager", "--json", "-", "--isolated")
    assert rows_of(done)["compile:eager"]["step_us"] > 0
    assert report_of(done)["settings"]["isolated"] is True


@pytest.mark.slow
def test_where_float64_does_not_run_eager_is_the_reference() -> None:
    rows = rows_of(run_tool(f"{MODELS}:only_float32", *SHORT, "--variants", "aot_eager", "--json", "-"))
    assert rows["aot_eager"]["reference"] == "eager"
    assert rows["aot_eager"]["status"] == "ok"


@pytest.mark.slow
def test_a_choice_is_checked_beside_the_scores() -> None:
    variants = "aot_eager," + named("wrong_choice")
    rows = rows_of(run_tool(f"{MODELS}:with_choice", *SHORT, "--variants", variants, "--json", "-"))
    assert rows["aot_eager"]["status"] == "ok"
    assert rows["compare_models.py:wrong_choice"]["status"] == "wrong"
    assert rows["compare_models.py:wrong_choice"]["max_rel_error"] == 1.0


@pytest.mark.slow
def test_low_precision_has_a_tolerance_of_its_own() -> None:
    arguments = ("--variants", "aot_eager", "--json", "-")
    cast = rows_of(run_tool(f"{MODELS}:small", *SHORT, "--autocast", "bfloat16", *arguments))["aot_eager"]
    whole = rows_of(run_tool(f"{MODELS}:small", *SHORT, "--dtype", "bfloat16", "--inference-mode", *arguments))
    for row in (cast, whole["aot_eager"]):
        assert row["status"] == "ok"
        assert 1e-4 < row["max_rel_error"] < row["tolerance"]
        assert row["tolerance"] >= tool.TOLERANCE["bfloat16"]


@pytest.mark.slow
def test_from_python(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "import sys, torch\n"
        f"sys.path.insert(0, {str(TOOL.parent)!r})\n"
        "from compare_backends import compare\n"
        "def build():\n    return torch.nn.Linear(8, 8), torch.randn(4, 8)\n"
        "if __name__ == '__main__':\n"
        "    rows = compare(build, variants=('compile:eager',), seconds=0.1, processes=2)\n"
        "    print([row.variant for row in rows], rows[0].step_us > 0)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.strip() == f"['eager', '{AGAIN}', 'compile:eager'] True", done.stderr


@pytest.mark.slow
def test_rows_of_run_are_a_record() -> None:
    rows = tool.run(seconds=0.2, processes=2)
    assert child.row_fault(rows) is None
    assert [row["variant"] for row in rows] == ["eager", AGAIN, "aot_eager", "inductor"]
    assert {row["status"] for row in rows} == {"ok"}


def test_a_failed_row_is_a_record() -> None:
    row = Row("x", "x")
    row.fail("failed", "why")
    assert child.row_fault([asdict(row)]) is None


# ================================================================ for real: the command line


@pytest.mark.parametrize(
    "arguments",
    [
        ("--nosuch",),
        ("nosuch.py:build",),
        ("no.such.module:build",),
        (f"{MODELS}:nosuch",),
        (f"{MODELS}:not_a_pair",),
        ("--steps", "many"),
        ("--batches", "1,x"),
        ("--option", "freezing"),
        ("--optimizer", "LBFGS"),
        ("--json", "-", "--csv", "-"),
        ("--json", "one", "--markdown", "one"),
        ("--csv", "no/such/folder/rows.csv"),
        (f"{MODELS}:small", "--json", str(MODELS)),
        ("--csv", "my_backend.py"),
        ("--json", ""),
        ("--variants", "inductor+"),
        ("--threads", "100000"),
        ("--device", "meta"),
    ],
)
def test_bad_arguments_end_with_2(arguments: tuple[str, ...]) -> None:
    done = run_tool(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()


def test_an_error_in_a_factory_is_said_with_its_line(tmp_path: Path) -> None:
    """In the terminal too: in the progress and below the tables."""
    path = tmp_path / "bad_factory.py"
    path.write_text("def build(batch: int = 4):\n    raise KeyError('width')\n")
    done = run_tool(f"{path}:build", *SHORT)
    assert done.returncode == 1
    for said in (done.stdout, done.stderr):
        assert "KeyError: 'width' (bad_factory.py:2)" in said


def test_help_names_every_setting() -> None:
    done = run_tool("--help")
    assert done.returncode == 0
    renamed = {"factory_args": "--arg", "options": "--option", "model": "MODEL"}
    for item in fields(Settings):
        assert renamed.get(item.name, f"--{item.name.replace('_', '-')}") in done.stdout


@pytest.mark.slow
def test_files_and_table(tmp_path: Path) -> None:
    files = {name: tmp_path / f"report.{name}" for name in ("json", "csv", "markdown")}
    outputs = [text for name, path in files.items() for text in (f"--{name}", str(path))]
    done = run_tool(f"{MODELS}:small", *SHORT, "--variants", "compile:eager", *outputs)
    assert done.returncode == 0
    assert "Pick for 10,000 steps from a cold start:" in done.stdout
    report = json.loads(files["json"].read_text())
    jsonschema.validate(report, SCHEMA)
    with files["csv"].open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["variant"] for line in lines] == ["eager", AGAIN, "compile:eager"]
    assert float(lines[0]["step_us"]) == pytest.approx(report["rows"][0]["step_us"])
    assert files["markdown"].read_text().count("| compile:eager |") == 2


def test_a_report_that_cannot_be_written_is_not_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder goes away while it measures: the other files are written, this one lies in the temporary folder."""
    gone, kept = tmp_path / "gone" / "report.json", tmp_path / "rows.csv"
    given = tool.parser().parse_args(["--json", str(gone), "--csv", str(kept)])
    report = tool.Report(Settings(), summed(timed("fast", 500, 10.0, "faster"), steps=100))
    assert tool.emit(report, given) is False
    said = capsys.readouterr().err
    saved = Path(said.rpartition("it is in ")[2].strip())
    assert json.loads(saved.read_text())["rows"][1]["variant"] == "fast"
    saved.unlink()
    assert kept.read_text().startswith("variant,")


def test_a_model_file_that_ends_the_process_says_so(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("import sys\nsys.exit(3)\ndef build():\n    return None\n")
    done = run_tool(f"{tmp_path}/ends.py:build", *SHORT, "--json", "-")
    row = rows_of(done)["eager"]
    assert (row["failure"], row["phase"]) == ("error", "start")
    assert "SystemExit(3)" in row["note"]
    assert row["note"].endswith("(ends.py:2)")
    assert done.returncode == 1


def test_an_optimizer_that_refuses_a_rate_of_0_gets_a_rate_that_changes_nothing() -> None:
    workload = tool.Workload(Settings(training=True, optimizer="SparseAdam"))
    weight = torch.nn.Parameter(torch.ones(4, 2))
    optimizer = workload.make_optimizer([weight])
    weight.grad = torch.ones(4, 2).to_sparse()
    optimizer.step()
    assert torch.equal(weight, torch.ones(4, 2))


@pytest.mark.slow
def test_csv_to_standard_output() -> None:
    done = run_tool(f"{MODELS}:small", *SHORT, "--variants", "compile:eager", "--csv", "-")
    lines = list(csv.DictReader(done.stdout.splitlines()))
    assert [line["variant"] for line in lines] == ["eager", AGAIN, "compile:eager"]


def processes_of(marker: str) -> list[str]:
    """Command lines of living processes that contain a text (Linux)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marker in line:
            found.append(line)
    return found


def mind_ctrl_c() -> None:
    """In a process that is being started: tests that run in the background may have inherited that it is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def start_tool(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the tool with a temporary folder of its own, by which its processes can be found."""
    environ = os.environ | {"TMPDIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(
        [sys.executable, str(TOOL), *arguments], env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=mind_ctrl_c,
    )  # fmt: skip


def wait_until_gone(tmp_path: Path) -> None:
    """A child that was being started when the signal came ends by itself, once its pipe is closed."""
    deadline = time.monotonic() + 20
    while left := processes_of(str(tmp_path)):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"{text!r} was not said")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_ctrl_c_prints_what_is_there(tmp_path: Path) -> None:
    arguments = ("--seconds", "20", "--processes", "8", "--variants", "compile:eager", "--json", "-")
    process = start_tool(tmp_path, f"{MODELS}:small", *arguments)
    wait_for(process, "process 2 of")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    report = json.loads(output)
    jsonschema.validate(report, SCHEMA)
    assert report["interrupted"] is True
    assert report["rows"][2]["processes"] == 2
    assert report["rows"][2]["step_us"] > 0
    assert process.returncode == 0
    wait_until_gone(tmp_path)
    assert list(tmp_path.glob("compare-backends-*")) == []


@pytest.mark.slow
def test_ctrl_c_before_any_step_keeps_the_compile_times(tmp_path: Path) -> None:
    process = start_tool(tmp_path, f"{MODELS}:small", "--variants", "compile:eager," + named("hangs"), "--json", "-")
    wait_for(process, "hangs: alone")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    rows = {row["variant"]: row for row in json.loads(output)["rows"]}
    assert rows["compile:eager"]["compile_cold_s"] > 0
    assert rows["compile:eager"]["step_us"] is None
    assert rows["compare_models.py:hangs"]["status"] == "not measured"
    assert process.returncode == 0


def importing(tmp_path: Path, before: Callable[[], Any]) -> subprocess.Popen[str]:
    """Start the tool with a torch that takes its time to import, and wait until it does."""
    package = tmp_path / "torch" / "__init__.py"
    package.parent.mkdir()
    package.write_text(
        "import sys, time\n"
        "print('importing', file=sys.stderr, flush=True)\n"
        "try:\n    time.sleep(2)\nexcept BaseException:\n    raise ImportError('it took that for its own') from None\n"
        "raise SystemExit(7)\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(TOOL)], env=os.environ | {"PYTHONPATH": str(tmp_path)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=before,
    )  # fmt: skip
    wait_for(process, "importing")
    return process


def test_ctrl_c_while_torch_is_imported_is_one_line(tmp_path: Path) -> None:
    process = importing(tmp_path, mind_ctrl_c)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", f"{tool.INTERRUPTED}\n")
    assert process.returncode == 130


def test_a_signal_that_the_shell_ignores_stays_ignored(tmp_path: Path) -> None:
    """A script that puts the tool in the background does so."""
    process = importing(tmp_path, lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 7


def test_ctrl_c_before_it_measures_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(signal, "signal", lambda *_: None)  # main() sets handlers
    monkeypatch.setattr(tool, "check_settings", interrupt)
    assert tool.main([]) == 130
    assert capsys.readouterr() == ("", f"{tool.INTERRUPTED}\n")


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_ctrl_c_in_the_first_process_is_one_line_and_ends_it(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("import time\ntime.sleep(3600)\n")
    process = start_tool(tmp_path, f"{tmp_path}/waits.py:build", "--json", "-")
    wait_for(process, "eager: alone")
    deadline = time.monotonic() + 60
    while len(processes_of(str(tmp_path))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", f"{tool.INTERRUPTED}\n")
    assert process.returncode == 130
    wait_until_gone(tmp_path)
    assert list(tmp_path.glob("compare-backends-*")) == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_children_end_with_the_parent(tmp_path: Path) -> None:
    process = start_tool(tmp_path, f"{MODELS}:small", "--variants", named("hangs"), "--json", "-")
    wait_for(process, "hangs: alone")
    deadline = time.monotonic() + 60
    while not processes_of(str(tmp_path)):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    time.sleep(3)
    process.kill()
    process.communicate(timeout=30)
    wait_until_gone(tmp_path)
