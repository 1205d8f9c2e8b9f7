"""The fact check of the blog post: its snippets can come out either way, and its judges judge what the rows say."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kitchen import claims, judges_blog, page
from kitchen.context import LANGUAGES
from kitchen.data import Row
from kitchen.judges import JUDGES
from tests.test_snippets import SNIPPETS, load

torch = pytest.importorskip("torch")

COLUMNS = {"claim", "tried", "said", "seen", "agrees", "status", "note"}
SPEED = {"speedup_ratio", "speedup_low", "speedup_high"}


@pytest.fixture(scope="module", autouse=True)
def reset() -> Any:
    yield
    torch._dynamo.reset()


# ---------------------------------------------------------------- the claims and their pages


def test_every_claim_of_the_post_is_there_and_its_snippet_names_it() -> None:
    ours = {name: one for name, one in claims.load().items() if one.page == "blog"}
    assert list(ours) == [f"B{number}" for number in range(1, 20)]
    for name, one in ours.items():
        if one.snippet.startswith("fact_check/"):
            text = (SNIPPETS / f"{one.snippet}.py").read_text("utf-8")
            assert f'"{name}"' in text, f"{one.snippet} has no row of {name}"
            for function in one.functions:
                assert f"def {function}(" in text or f"class {function}" in text, f"{one.snippet}: {function}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_verdict_is_written_by_hand(language: str) -> None:
    text = Path("docs", language, "fact-check", "index.md").read_text("utf-8")
    sections = text.split("\n### ")[1:]
    words = {"en": ("verdict",), "zh": ("结论是", "属实", "不实")}[language]
    for section in sections:
        assert not any(word in section for word in words), section.splitlines()[0]


# ---------------------------------------------------------------- options


def test_options_as_they_are_today() -> None:
    rows = load("fact_check/options").run(claims=("B10", "B12", "B16"))
    assert {frozenset(row) for row in rows} == {frozenset(COLUMNS)}
    assert all(row["status"] == "ok" for row in rows)
    assert {(row["claim"], row["agrees"]) for row in rows} == {
        ("B10", False),
        ("B12", True),
        ("B12", False),
        ("B16", False),
    }


def test_options_that_exist_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    options = load("fact_check/options")
    known = torch._inductor.list_options()
    monkeypatch.setattr(torch._inductor, "list_options", lambda: [*known, "optimization_level", "precision"])
    monkeypatch.setattr(torch, "compile", lambda function, **how: function)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "medium")
    monkeypatch.setattr(torch.compiler, "list_backends", lambda exclude_tags=(): ["dynamic_inductor"])
    for name in ("B10", "B14", "B16"):
        assert all(row["agrees"] for row in options.CLAIMS[name]()), name


def test_a_mode_that_is_about_tvm_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    options = load("fact_check/options")
    from torch._dynamo.backends import tvm

    def takes_a_mode(graph: Any, inputs: Any, *, mode: str = "") -> Callable[..., Any]:
        return graph.forward

    monkeypatch.setattr(tvm, "tvm", takes_a_mode)
    monkeypatch.setattr(torch, "compile", lambda function, **how: function)
    monkeypatch.setattr(torch._inductor, "list_mode_options", lambda: {"reduce-overhead": {"tvm.trials": 8}})
    assert all(row["agrees"] for row in options.b11())


def test_dynamic_false_would_agree_if_one_graph_served_all(monkeypatch: pytest.MonkeyPatch) -> None:
    options = load("fact_check/options")
    counted = options.Counting()
    counted.graphs, counted.calls = 1, 12
    monkeypatch.setattr(options, "counted", lambda sizes, **how: counted)
    monkeypatch.setattr(options, "disk_hits", lambda **how: int("dynamic" in how))
    assert all(row["agrees"] for row in options.b12())


def test_fullgraph_would_agree_if_it_changed_code_and_results(monkeypatch: pytest.MonkeyPatch) -> None:
    options = load("fact_check/options")

    def code_of(function: Any, x: Any, **how: Any) -> tuple[list[str], list[Any]]:
        return (["a", "b"], [torch.zeros(2)]) if how else (["a"], [torch.ones(2)])

    monkeypatch.setattr(options, "code_of", code_of)
    assert all(row["agrees"] for row in options.b13())
    assert options.lines_that_differ(["a", "b"], ["a", "c", "d"]) == 2
    assert options.values_that_differ([torch.tensor([1.0, 2.0])], [torch.tensor([1.0, 3.0])]) == 1


def test_options_say_why_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    options = load("fact_check/options")
    (row,) = options.rows_of("B10", {"claim": "B10", "nothing": True})
    assert (row["status"], row["agrees"]) == ("not measured", None)
    assert set(row) == COLUMNS
    monkeypatch.setattr(options, "run_child", lambda job, folder, limit_s: "the process died of signal SIGSEGV")
    assert [(row["status"], row["note"]) for row in options.run(claims=("B10",))] == [
        ("failed", "the process died of signal SIGSEGV")
    ]
    with pytest.raises(ValueError, match="no claim B99 here"):
        options.run(claims=("B99",))


# ---------------------------------------------------------------- stages


def test_the_stages_are_seen_in_their_order() -> None:
    stages = load("fact_check/stages")
    row = stages.try_function(stages.head, gradients=False)
    assert set(row) == COLUMNS
    assert (row["seen"], row["agrees"]) == ("torch, aten, loops, code", False)


def test_the_claimed_order_would_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = load("fact_check/stages")
    monkeypatch.setattr(stages, "stages_of", lambda function, values: ["aten", "torch", "code"])
    assert stages.try_function(stages.head, gradients=True)["agrees"] is True
    monkeypatch.setattr(stages, "stages_of", lambda function, values: [])
    assert stages.try_function(stages.head, gradients=True)["status"] == "not measured"


def test_a_form_is_read_from_the_graph() -> None:
    stages = load("fact_check/stages")

    def split(x: Any) -> Any:
        return x.sin().chunk(2)[0]

    from torch.fx.experimental.proxy_tensor import make_fx

    assert stages.form_of(make_fx(split)(torch.ones(4)).graph) == "aten"
    assert stages.form_of(torch.fx.symbolic_trace(split).graph) == "torch"


# ---------------------------------------------------------------- timer


def test_the_timer_cases_come_out_as_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = load("fact_check/timer")
    monkeypatch.setattr(timer, "TOLERANCE", 0.4)  # other work may run beside the tests
    rows = timer.run(least_s=0.05, rounds=6)
    assert all(row["status"] == "ok" and set(row) == COLUMNS for row in rows)
    by_case = {row["tried"]: row["agrees"] for row in rows}
    told = {key: value for key, value in by_case.items() if "call_ms" not in key}
    assert list(told.values()) == [True, False, False, False]


def test_the_timer_cases_can_come_out_the_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = load("fact_check/timer")
    assert timer.ratio_case("f", 1.5, 1.5)["agrees"] is True
    assert timer.ratio_case("f", 1.5, 2.0)["agrees"] is False
    monkeypatch.setattr(timer, "START_S", 0.0)  # nothing to prepare: the median decides rightly
    assert timer.slow_start(0.02)[0]["agrees"] is True


# ---------------------------------------------------------------- speed


def answers(factor: float, processes: int = 3, **changes: Any) -> list[Row]:
    """Processes in which everything but "none" takes 1 / factor of the time."""
    blocks = {"none": [1.0, 1.0], "none_again": [1.0, 1.01], "aot_eager": [1.0, 1.0], "inductor": [1 / factor] * 2}
    losses = dict.fromkeys(("none", "inductor"), 7.0)
    return [{"blocks": blocks, "losses": losses, "graphs": 1} | changes for _ in range(processes)]


def by_claim(rows: Sequence[Row]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        assert set(row) == COLUMNS | SPEED
        found.setdefault(row["claim"], []).append(row["agrees"])
    return found


@pytest.mark.parametrize(
    ("factor", "device", "expected"),
    [
        (2.4, "cuda", {"B3": [True], "B7": [False, True, True]}),
        (1.4, "cuda", {"B3": [False], "B7": [False, True, False]}),
        (2.4, "cpu", {"B3": [None], "B7": [False, True, True]}),
        (0.8, "cpu", {"B3": [None], "B7": [False, False, False]}),
    ],
)
def test_resnet50_is_judged_by_what_was_measured(factor: float, device: str, expected: Row) -> None:
    assert by_claim(load("fact_check/resnet50").claim_rows(answers(factor), device)) == expected


def test_resnet50_without_numbers_says_why() -> None:
    resnet50 = load("fact_check/resnet50")
    rows = resnet50.claim_rows(answers(2.4, losses={"none": 7.0, "inductor": 9.0}), "cuda")
    assert [row["status"] for row in rows] == ["wrong", "ok", "wrong", "wrong"]
    assert all(row["agrees"] is None for row in rows if row["status"] == "wrong")
    rows = resnet50.claim_rows([{"failed": "no answer within 1 s"}], "cpu")
    assert [row["note"] for row in rows if row["status"] == "failed"] == ["no answer within 1 s"] * 3


def test_resnet50_has_the_layers_of_one() -> None:
    resnet50 = load("fact_check/resnet50")
    model = resnet50.resnet((3, 4, 6, 3), 64)
    assert sum(p.numel() for p in model.parameters()) == 25_557_032
    assert sum(isinstance(layer, torch.nn.Conv2d) for layer in model.modules()) == 53


def test_resnet50_runs_short() -> None:
    rows = load("fact_check/resnet50").run(blocks=(1, 1), processes=2, rounds=2, block_ms=1.0)
    assert [row["status"] for row in rows] == ["ok"] * 4
    ratio = rows[0]["speedup_ratio"]
    assert rows[0]["speedup_low"] <= ratio <= rows[0]["speedup_high"]
    assert math.isfinite(ratio)


def speed_answers(factor: float, error: float = 1e-7) -> list[Row]:
    keys = [f"mlp/inference/{variant}" for variant in ("none", "none_again", "aot_eager")]
    times = ([1.0, 1.0], [1.0, 1.01], [1 / factor] * 2)
    blocks = dict(zip(keys, times, strict=True))
    return [{"blocks": blocks, "errors": dict.fromkeys(keys, error), "graphs": 1} for _ in range(3)]


@pytest.mark.parametrize(("factor", "agrees"), [(1.5, True), (1.4, True), (1.2, False), (0.9, False)])
def test_aot_eager_is_judged_by_what_was_measured(factor: float, agrees: bool) -> None:
    row = load("fact_check/aot_eager").speed_row("mlp", "inference", speed_answers(factor))
    assert set(row) == COLUMNS | SPEED
    assert (row["agrees"], row["seen"]) == (agrees, f"{factor:.2f}")


def test_aot_eager_gives_a_wrong_result_no_verdict() -> None:
    row = load("fact_check/aot_eager").speed_row("mlp", "inference", speed_answers(1.5, error=math.nan))
    assert (row["status"], row["agrees"], row["speedup_ratio"]) == ("wrong", None, None)


def test_aot_eager_debugging_counts_only_what_works_without() -> None:
    aot_eager = load("fact_check/aot_eager")
    answer = {"seen": {how: [True, how == "print"] for how in aot_eager.DEBUG} | {"traceback": [False, False]}}
    rows = [aot_eager.debug_row(how, answer | {"graphs": 1}) for how in aot_eager.DEBUG]
    assert [(row["status"], row["agrees"]) for row in rows] == [("ok", True), ("ok", False), ("failed", None)]


def test_aot_eager_runs_short() -> None:
    rows = load("fact_check/aot_eager").run(models=("norms",), processes=2, rounds=2, block_ms=1.0)
    assert [row["status"] for row in rows] == ["ok"] * 5
    assert [row["agrees"] for row in rows[2:]] == [True, False, False]


# ---------------------------------------------------------------- memory


def test_memory_on_a_cpu_decides_nothing() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    rows = load("fact_check/memory_options").run()
    assert all(set(row) == COLUMNS and row["agrees"] is None for row in rows)
    assert [row["seen"] for row in rows] == [None, None, "runs", "0", "1"]
    assert rows[0]["note"].startswith("needs a CUDA GPU")


NO_OPTIONS: dict[str, Any] = {}


def test_memory_is_measured_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measuring itself, with the CPU in the GPU's place: only the count of bytes is another."""
    memory = load("fact_check/memory_options")
    monkeypatch.setattr(memory, "peak_mib", lambda: 100.0)
    # CUDA graphs are skipped on a CPU; the step runs.
    shared = {"device": "cpu", "width": 17, "least_s": 0.01}
    plain, ours = (memory.child_measure(shared | {"options": options}) for options in (NO_OPTIONS, memory.OPTIONS))
    assert plain["peak_mib"] == ours["peak_mib"]
    assert plain["graphs"] > 0
    rows = memory.measured_rows(plain, ours)
    assert [(row["seen"], row["agrees"]) for row in rows[:1]] == [("1.00", False)]
    rows = memory.measured_rows(plain, ours | {"peak_mib": 70.0, "step_s": plain["step_s"] * 1.01})
    assert [row["agrees"] for row in rows] == [True, True]


# ---------------------------------------------------------------- the judges


def model_row(variant: str, step_us: float, **changes: Any) -> Row:
    row = {"model": "mlp:build", "workload": "inference", "variant": variant, "step_us": step_us, "status": "ok"}
    return row | changes


def agreed(judge: str, rows: list[Row]) -> list[bool | None]:
    return [case.agrees for case in JUDGES[judge](rows)]


def test_the_factor_of_the_choice() -> None:
    slow = [model_row("eager", 10.0), model_row("eager again", 99.0), model_row("inductor", 3.0)]
    assert agreed("choice_factor", slow) == [True]
    assert agreed("choice_factor", [*slow[:2], model_row("inductor", 4.0)]) == [False]
    assert agreed("choice_factor", [*slow[:2], model_row("inductor", 3.0, status="failed")]) == []
    others = [model_row(name, step, package=None) for name, step in (("eager", 10.0), ("tvm", 900.0), ("iree", 5.0))]
    assert agreed("choice_factor", [*slow, *others]) == [True, False]


def test_nvfuser_by_any_name() -> None:
    gone = {"backend": "nvfuser", "kind": "gone", "outcome": "error", "error": "InvalidBackend", "status": "ok"}
    assert agreed("nvfuser_names", [gone, gone | {"backend": "ipex"}]) == [False]
    assert agreed("nvfuser_names", [gone | {"outcome": "runs", "error": None}]) == [True]


def variants(**seconds: float) -> list[Row]:
    shared = {"kind": "variant", "status": "ok"}
    return [
        shared | {"backend": "inductor", "first_call_s": 10.0, "step_us": 100.0},
        shared | {"backend": "tvm, untuned", "first_call_s": seconds["plain"], "step_us": 1000.0},
        shared | {"backend": "tvm, tuned", "first_call_s": 1.0, "tuning_s": seconds["tuning"], "step_us": 100.0},
    ]


def test_tvm_is_judged_by_what_was_measured() -> None:
    name = {"backend": "tvmgraph", "kind": "never", "outcome": "error", "error": "InvalidBackend", "status": "ok"}
    assert agreed("tvm_as_said", [name, *variants(plain=1.0, tuning=39.0)]) == [False, False, False, True]
    assert agreed("tvm_as_said", [name, *variants(plain=30.0, tuning=99.0)]) == [False, False, True, False]
    same = variants(plain=1.0, tuning=1.0)
    same[1]["step_us"] = 101.0
    assert agreed("tvm_as_said", [name | {"outcome": "runs"}, *same]) == [True, True, False, False]


def test_language_models_are_judged_by_rank_and_peak() -> None:
    def rows(order: Sequence[str], left: float) -> list[Row]:
        return [
            model_row(name, float(place), model="gpt_decoder:build", peak_mib=100.0 * (1 if name == "eager" else left))
            for place, name in enumerate(order)
        ]

    assert agreed("language_inference", rows(("tvm", "inductor", "eager"), 0.6)) == [True] * 4
    assert agreed("language_inference", rows(("eager", "tvm", "inductor"), 1.5)) == [False] * 4
    assert agreed("language_inference", [model_row("tvm", 1.0)]) == []


def test_a_mix_has_to_gain_what_was_said() -> None:
    gain = {"kind": "gain", "model": "translator", "mix": "a | b", "single": "a", "status": "ok", "verdict": "faster"}
    wide = gain | {"gain_ratio": 1.5, "gain_low": 1.4}
    assert agreed("mix_gains", [wide]) == [True]
    assert agreed("mix_gains", [wide | {"gain_low": 1.1}]) == [False]
    assert agreed("mix_gains", [wide | {"verdict": "slower", "gain_ratio": 0.8, "gain_low": 0.7}]) == [False]
    assert agreed("mix_gains", [wide | {"gain_ratio": None, "gain_low": None}]) == []


def test_the_judges_are_known_to_the_pages() -> None:
    assert page is not None
    for name in ("choice_factor", "nvfuser_names", "tvm_as_said", "language_inference", "mix_gains"):
        assert JUDGES[name] is getattr(judges_blog, name)
