"""The snippets and judges behind the pages on stale statements and quoted numbers.

Each statement is planted the other way round at least once for its kind: a default changed, a name added, an error
taken away, a cell rewritten. So no verdict comes out as it does by itself.
"""

from __future__ import annotations

import functools
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kitchen import claims, judges, judges_stale, labels
from tests.test_snippets import header, load, run_alone

torch = pytest.importorskip("torch")

Row = dict[str, Any]
ROOT = Path(__file__).parents[1]
STALE, NUMBERS = "fact_check/stale_statements", "fact_check/quoted_numbers"
COLUMNS = ["claim", "tried", "said", "seen", "agrees", "status", "note"]


@functools.cache
def rows_of(name: str) -> list[Row]:
    """Return the rows of a snippet, run once for all tests."""
    return run_alone(name, {})


@pytest.fixture
def stale() -> Iterator[ModuleType]:
    """The snippet, in this process."""
    yield load(STALE)
    torch._dynamo.reset()


@pytest.fixture
def numbers() -> ModuleType:
    """The snippet, in this process."""
    return load(NUMBERS)


def agreed(function: Callable[[], list[Any]]) -> list[bool]:
    """Return which cases of a statement came out as said."""
    return [case.said == case.seen if case.agrees is None else case.agrees for case in function()]


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("name", [STALE, NUMBERS])
def test_rows_have_the_columns_of_the_fact_check(name: str) -> None:
    rows = rows_of(name)
    assert header(name)["dependencies"] == ["torch>=2.11"]
    assert all(list(row) == COLUMNS for row in rows)
    assert {row["status"] for row in rows} == {"ok"}
    assert all(isinstance(row["agrees"], bool) for row in rows)
    assert {row["claim"] for row in rows} == set(load(name).CLAIMS)


@pytest.mark.parametrize("name", [STALE, NUMBERS])
def test_words_have_labels_and_codes_need_none(name: str) -> None:
    known = set(labels.data()["values"]["said"])
    for row in rows_of(name):
        for value in (row["said"], row["seen"]):
            code = value[:1].isupper() or value[:1].isdigit() or value[:1] in "≤≥"
            assert code or value in known, f"{value!r} needs a label in [values.said]"


@pytest.mark.parametrize("name", [STALE, NUMBERS])
def test_each_statement_has_its_claim_and_each_claim_its_statement(name: str) -> None:
    own = {one.id for one in claims.load().values() if one.snippet == name and not one.judge}
    assert own == set(load(name).CLAIMS)


def test_a_claim_that_needs_a_gpu_or_a_text_says_where_it_is_from() -> None:
    for page in ("stale", "numbers"):
        for name, entry in tomllib.loads((ROOT / f"kitchen/claims/{page}.toml").read_text("utf-8")).items():
            if entry.get("gpu") or entry.get("by"):
                assert entry["sources"], name


def test_each_document_is_named_with_its_copy_and_the_day() -> None:
    for name, one in claims.load().items():
        if one.page == "stale":
            assert "https://" in one.where["en"], name
            assert "commit" in one.where["en"] or "stored copy" in one.where["en"] or "#" in one.where["en"], name
            assert "30 November 2026" in one.where["en"], name
            assert "2026 年 11 月 30 日" in one.where["zh"], name


# ---------------------------------------------------------------- planted the other way round


def test_a_default_that_is_as_said_agrees(stale: ModuleType) -> None:
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor

    assert agreed(stale.s19_shape_padding_is_off) == [False]
    with inductor.patch(shape_padding=False):
        assert agreed(stale.s19_shape_padding_is_off) == [True]
    with dynamo.patch(recompile_limit=64):
        assert agreed(stale.s15_limit_is_64) == [True, True]
    with dynamo.patch(automatic_dynamic_shapes=False):
        assert agreed(stale.s2_dynamic_shapes_are_off) == [True, True]
    with dynamo.patch(specialize_float=True):
        # One graph a value; the growing tensor adds none, for each of its sizes comes with a value of its own.
        assert agreed(stale.s9_each_number_compiles_again) == [True, True]


def test_a_name_that_is_there_agrees(stale: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._dynamo.utils

    monkeypatch.setattr(torch.compile, "allow_in_graph", torch.compiler.allow_in_graph, raising=False)
    assert agreed(stale.s7_allow_in_graph) == [True]
    keep = type("CompileProfiler", (), {"__call__": lambda self, graph, inputs: graph.forward})
    monkeypatch.setattr(torch._dynamo.utils, "CompileProfiler", keep, raising=False)
    assert agreed(stale.s17_compile_profiler) == [True]
    compile_ = torch.compile
    monkeypatch.setattr(torch, "grad", torch.func.grad, raising=False)
    monkeypatch.setattr(torch, "compile", lambda f, **how: compile_(f, **(how | {"backend": "eager"})))
    assert agreed(stale.s21_names_of_back_ends) == [True, True, True]
    # A matrix has no gradient, whatever the name.
    assert agreed(stale.s3_transform_of_a_compiled_function) == [False, False, True]


def test_a_call_that_works_or_fails_is_seen(stale: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agreed(stale.s12_saving_is_an_error) == [False, False]

    def refuse(*args: Any) -> None:
        raise TypeError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", refuse)
        assert agreed(stale.s12_saving_is_an_error) == [True, True]  # nothing was written, so loading fails too
    assert agreed(stale.s13_writing_to_a_weight) == [False, True]
    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.Linear, "weight", torch.zeros(8, 8), raising=False)
        patch.setattr(torch.nn, "Linear", lambda *sizes: torch.nn.Identity())
        patch.setattr(torch.nn.Identity, "weight", torch.zeros(8, 8), raising=False)
        assert agreed(stale.s13_writing_to_a_weight) == [True, True]  # weights that need no gradient


def test_an_argument_that_does_the_reverse_agrees(stale: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_ = torch.compile
    assert agreed(stale.s16_fullgraph_allows_breaks) == [False, False]
    monkeypatch.setattr(torch, "compile", lambda f, *, fullgraph, **how: compile_(f, fullgraph=not fullgraph, **how))
    assert agreed(stale.s16_fullgraph_allows_breaks) == [True, True]


def test_a_back_end_of_torchscript_that_runs_agrees(stale: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agreed(stale.s4_torchscript_as_a_back_end) == [False, False]
    script, optimize = torch.jit.script, torch.jit.optimize_for_inference

    def plain(thing: Any, *args: Any, **how: Any) -> Any:
        """Script a graph as a plain one; what that calls itself goes through as it is."""
        return script(torch.fx.GraphModule(thing, thing.graph) if hasattr(thing, "graph") else thing, *args, **how)

    def as_function(module: Any) -> Callable[..., Any]:
        optimised = optimize(module)
        return lambda *inputs: optimised(*inputs)

    # The two changes that the page names.
    monkeypatch.setattr(torch.jit, "script", plain)
    monkeypatch.setattr(torch.jit, "optimize_for_inference", as_function)
    assert agreed(stale.s4_torchscript_as_a_back_end) == [True, True]


@pytest.mark.parametrize(
    ("code", "out", "err", "expected"),
    [
        (0, "C++\n", "", [False, False]),
        (0, "TRITON\n", "", [False, True]),
        (1, "", "Traceback\nImportError: no module named triton\n", [True, False]),
    ],
)
def test_whether_triton_is_needed_follows_from_the_process_without_it(
    stale: ModuleType, monkeypatch: pytest.MonkeyPatch, code: int, out: str, err: str, expected: list[bool]
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, code, out, err))
    assert agreed(stale.s8_triton_writes_cpp) == expected


def test_a_table_that_keeps_below_thirty_percent_agrees(stale: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agreed(stale.s22_up_to_thirty_percent) == [False, False]
    monkeypatch.setattr(stale, "PRINTED_MS", {"ViT": (10.0, 8.0), "BeiT": (10.0, 10.5)})
    assert agreed(stale.s22_up_to_thirty_percent) == [True, True]
    # Between the two readings: 1.33 times as fast is a quarter less time.
    monkeypatch.setattr(stale, "PRINTED_MS", {"ViT": (10.0, 7.5)})
    assert agreed(stale.s22_up_to_thirty_percent) == [False, True]


def test_what_can_not_be_tried_is_no_verdict(stale: ModuleType) -> None:
    nothing = run_alone(STALE, {"claims": ["S7"]}, TORCHDYNAMO_DISABLE="1")
    assert [(row["status"], row["agrees"]) for row in nothing] == [("not measured", None)]
    assert stale.rows_of("S7", {"failed": "RuntimeError: planted"})[0]["note"] == "RuntimeError: planted"
    assert stale.rows_of("S7", {"failed": "RuntimeError: planted"})[0]["agrees"] is None
    with pytest.raises(ValueError, match="no statement S1"):
        stale.run(claims=["S1"])


def test_a_process_that_dies_costs_one_statement(
    stale: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jobs: list[list[str]] = []

    def die_at_first(job: Row, folder: Path, limit_s: float) -> str | None:
        jobs.append(job["claims"])
        if len(jobs) == 1:
            return "the process died of signal SIGSEGV"
        with Path(job["answer"]).open("a") as answer:
            for name in job["claims"]:
                answer.write(
                    f'{{"claim": "{name}", "cases": [{{"tried": "f", "said": "1", "seen": "1", "agrees": true}}]}}\n'
                )
        return None

    monkeypatch.setattr(stale, "run_child", die_at_first)
    rows = stale.run(claims=["S2", "S3"])
    assert jobs == [["S2", "S3"], ["S3"]]
    assert [(row["claim"], row["status"]) for row in rows] == [("S2", "failed"), ("S3", "ok")]
    assert "SIGSEGV" in rows[0]["note"]


# ---------------------------------------------------------------- the quoted numbers


def test_the_headline_rests_on_its_cells(numbers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agreed(numbers.n1_what_the_mean_is_over) == [True, True]
    cells = dict(numbers.PAPER)
    cells["inductor", "inference", "float16"] = ((2.59, 1.91, 2.87), (74, 43, 60))
    monkeypatch.setattr(numbers, "PAPER", cells)
    assert agreed(numbers.n1_what_the_mean_is_over) == [False, True]  # the other reading of the doubtful cell
    assert agreed(numbers.n9_it_is_xla) == [False]
    cells["xla", "inference", "float32"] = cells["xla", "inference", "float16"] = ((2.27, 2.27, 2.27), (1, 1, 1))
    assert agreed(numbers.n9_it_is_xla) == [True]
    whole = {key: (means, numbers.MODELS) for key, (means, _) in cells.items()}
    assert not any(agreed(numbers.n4_all_models_count))
    monkeypatch.setattr(numbers, "PAPER", whole)
    assert all(agreed(numbers.n4_all_models_count))


def test_the_settings_of_the_paper_are_compared_with_this_torch(
    numbers: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch._inductor
    import torch._inductor.config as config

    assert agreed(numbers.n2_one_line_gives_it) == [False, False, False]
    with config.patch({"max_autotune": True, "freezing": True, "triton.cudagraphs": True}):
        assert agreed(numbers.n2_one_line_gives_it) == [True, True, True]
    assert agreed(numbers.n3_max_autotune_gives_it) == [True, True, False]
    every = {"max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "freezing": True}}
    monkeypatch.setattr(torch._inductor, "list_mode_options", lambda: every)
    assert agreed(numbers.n3_max_autotune_gives_it) == [True, True, True]


def test_the_sums_of_the_announcement(numbers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agreed(numbers.n6_how_43_is_made) == [True]
    assert agreed(numbers.n7_faster_is_less_time) == [False]
    assert agreed(numbers.n10_thirty_percent_to_twice) == [False, True]
    monkeypatch.setattr(numbers, "ANNOUNCED", {"headline": 43, "float32": 31, "amp": 51})
    assert agreed(numbers.n6_how_43_is_made) == [False]
    assert agreed(numbers.n10_thirty_percent_to_twice) == [True, True]
    monkeypatch.setattr(numbers, "ANNOUNCED", {"headline": 0, "float32": 0, "amp": 0})
    assert agreed(numbers.n7_faster_is_less_time) == [True]


# ---------------------------------------------------------------- judges


def test_judges_take_the_cases_of_their_misconception_only() -> None:
    row = {"kind": "case", "claim": "state_dict_is_the_same", "case": "f()", "said": "0", "seen": "1", "agrees": False}
    rows = [row, row | {"claim": "cuda_graphs_by_default", "agrees": True}, row | {"kind": "claim"}]
    assert [case.agrees for case in judges_stale.state_dict_is_the_same(rows)] == [False]
    assert [case.agrees for case in judges_stale.cuda_graphs_by_default(rows)] == [True]
    assert judges.JUDGES["state_dict_is_the_same"] is judges_stale.state_dict_is_the_same


def test_only_a_gpu_says_what_a_launch_on_one_costs() -> None:
    row = {"kind": "fit", "op": "relu", "clock": "complete", "device": "cuda", "slope_us": 5.0}
    slow = row | {"slope_us": 21.0}
    assert [case.agrees for case in judges_stale.gpu_launch_takes_five_us([row, slow])] == [True, False]
    others = [row | {"device": "cpu"}, row | {"kind": "point"}, row | {"slope_us": None}]
    assert judges_stale.gpu_launch_takes_five_us(others) == []
