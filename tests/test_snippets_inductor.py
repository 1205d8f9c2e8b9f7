"""The snippets of the chapter on Inductor: the common contract on short runs, and that their rows agree.

inductor/stages, inductor/memory_floor, inductor/kernels, inductor/compile_phases, inductor/modes,
inductor/triton_code, inductor/pitfalls.
"""

from __future__ import annotations

import importlib.util
import math
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kitchen import labels, verdicts
from kitchen.context import LANGUAGES
from tests import test_snippets as contract
from tests.page_tree import parse

pytest.importorskip("torch")

Row = dict[str, Any]

BUDGETS: dict[str, Row] = {
    "inductor/stages": {},
    "inductor/memory_floor": {"lengths": (2,), "sizes_kib": (16, 1024), "processes": 2, "rounds": 3, "block_ms": 3.0},
    "inductor/kernels": {
        "cases": ("two_ways", "linear"),
        "timed": ("pointwise",),
        "processes": 2,
        "rounds": 3,
        "block_ms": 3.0,
    },
    "inductor/compile_phases": {"repeats": 1},
    "inductor/modes": {
        "modes": ("default", "reduce-overhead", "lite", "no-such-mode"),
        "processes": 2,
        "rounds": 3,
        "block_ms": 3.0,
    },
    "inductor/triton_code": {"functions": ("softmax",)},
    "inductor/pitfalls": {"mistakes": ("unknown_mode", "no_cxx")},
}
# The contract's own tests, which go through all snippets, find these budgets too.
contract.BUDGETS.update(BUDGETS)

rows_of, of_kind, load, on_cuda = contract.rows_of, contract.of_kind, contract.load, contract.on_cuda

CHECKS: list[Callable[[str], None]] = [
    contract.test_rows_keep_the_contract,
    contract.test_rows_of_a_kind_share_their_columns,
    contract.test_docstring_names_every_column,
]


def words(rule: str, rows: list[Row], language: Any = "en", **params: Any) -> str:
    """The sentences of a verdict rule, without markup."""
    return parse(" ".join(verdicts.RULES[rule](rows, language, **params))).text.replace("\u202f", " ")


# ---------------------------------------------------------------- contract


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("test_"))
@pytest.mark.parametrize("name", BUDGETS)
def test_contract(name: str, check: Callable[[str], None]) -> None:
    check(name)


@pytest.mark.parametrize("name", BUDGETS)
def test_header_docstrings_and_imports(name: str) -> None:
    contract.test_header_declares_what_the_snippet_needs(name)
    contract.test_snippet_imports_only_the_standard_library_torch_and_what_it_declares(name)
    contract.test_snippet_is_documented_and_takes_its_budget_by_keyword(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUDGETS)
def test_main_prints_something_of_every_row(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    contract.test_main_prints_a_table(name, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUDGETS)
def test_every_column_and_word_has_its_label(name: str) -> None:
    for row in rows_of(name):
        for column, value in row.items():
            if column.startswith("samples_"):
                continue
            assert labels.column(column, "en", name).labelled, column
            if column in ("stage", "counted", "setting", "start", "phase", "target", "origin", "mistake", "raised_at",
                          "how_run", "series", "kind", "place") and value is not None:  # fmt: skip
                assert value in labels.data()["values"][column], (column, value)
        if isinstance(row["note"], str) and row["status"] in ("not measured", "unavailable"):
            assert labels.note(row["note"], "zh") != row["note"], row["note"]


@pytest.mark.slow
@pytest.mark.parametrize("name", BUDGETS)
def test_no_text_names_a_folder_of_this_machine(name: str) -> None:
    for row in rows_of(name):
        for column in ("code", "message"):
            text = str(row.get(column) or "")
            assert not any(folder in text for folder in ("/tmp", "/home", "/root", str(Path(__file__).parents[1])))


# ---------------------------------------------------------------- stages


@pytest.mark.slow
def test_every_stage_is_there_and_holds_what_its_name_says() -> None:
    rows = {row["stage"]: row for row in rows_of("inductor/stages")}
    assert [row["status"] for row in rows.values()] == ["ok"] * 8
    assert [row["position"] for row in rows.values()] == list(range(1, 9))
    assert "def head" in rows["python"]["code"]
    assert "torch.softmax" in rows["dynamo"]["code"]
    assert "code: h = x @ w + b" in rows["dynamo"]["code"]
    assert "aten.erf" in rows["aten"]["code"]
    assert "softmax" not in rows["aten"]["code"].replace("torch.softmax(h, dim=-1)", "")
    assert "aten.addmm" in rows["post_grad"]["code"]
    assert "ops.load(" in rows["loop_ir"]["code"]
    assert "def call(" in rows["wrapper"]["code"]
    assert "extern_kernels." in rows["wrapper"]["code"]
    for row in rows.values():
        assert row["lines"] == len(row["code"].splitlines())


@pytest.mark.slow
def test_decomposing_makes_more_pieces_and_fusing_fewer() -> None:
    count = {row["stage"]: row["operations"] for row in rows_of("inductor/stages")}
    assert count["python"] is None
    assert count["dynamo"] < count["aten"]
    assert count["loop_ir"] > count["fused"] >= count["kernel"] == 1
    assert count["wrapper"] == 2  # the product in a library, and the kernel


def test_a_stage_that_breaks_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("inductor/stages")

    def broken(*arguments: Any) -> None:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr(module, "capture", broken)
    rows = module.run()
    assert [row["status"] for row in rows] == ["ok"] + ["failed"] * 7
    assert {row["note"] for row in rows[1:]} == {"RuntimeError: first line"}
    monkeypatch.setattr(module, "capture", lambda function, values: ({}, function(*values)))
    assert {row["status"] for row in module.run()[1:]} == {"not measured"}
    monkeypatch.setattr(module, "capture", lambda function, values: ({"aten": (1, "a")}, function(*values) + 1))
    assert {row["status"] for row in module.run()[1:]} == {"wrong"}


# ---------------------------------------------------------------- memory floor


@pytest.mark.slow
def test_the_floor_is_the_faster_copy_and_ratios_agree_with_times() -> None:
    rows = [row for row in rows_of("inductor/memory_floor") if row["status"] == "ok"]
    assert {row["series"] for row in rows} >= {"copy", "fused_2", "apart_2"}
    for row in rows:
        if row["series"] in ("copy", "memmove"):
            assert row["floor_ratio"] is None
            assert row["floor_us"] <= row["call_us"] * 1.5
            continue
        assert row["floor_low"] <= row["floor_ratio"] <= row["floor_high"]
        trips = row["n"] if row["series"].startswith("apart") else 1
        assert row["bandwidth_gbs"] == pytest.approx(2 * trips * row["tensor_kib"] * 1024 / row["call_us"] / 1e3)
        assert row["floor_gbs"] == pytest.approx(2 * row["tensor_kib"] * 1024 / row["floor_us"] / 1e3)


def test_sizes_reach_past_the_largest_cache() -> None:
    module = load("inductor/memory_floor")
    sizes = module.sizes_for("cpu")
    assert sizes == sorted(sizes)
    assert sizes[0] == module.SMALLEST_KIB * 1024
    last = max(module.cache_bytes("cpu").values(), default=0)
    assert sizes[-1] >= min(2 * last, module.LARGEST_BYTES / 4)
    assert module.place_of(100, {"L1": 1000, "L2": 5000}) == "L1"
    assert module.place_of(1000, {"L1": 1000, "L2": 5000}) == "L2"
    assert module.place_of(5000, {"L1": 1000, "L2": 5000}) == "memory"


def test_memmove_really_moves() -> None:
    import torch

    module = load("inductor/memory_floor")
    origin, target = torch.arange(1000.0), torch.zeros(1000)
    module.move(target, origin)()
    assert torch.equal(target, origin)


def test_the_floor_verdict_speaks_of_the_largest_tensor() -> None:
    row: Row = {"series": "fused_8", "place": "memory", "tensor_kib": 65536.0, "status": "ok"}
    row |= {"floor_ratio": 1.02, "floor_low": 0.98, "floor_high": 1.06}
    rows = [row | {"tensor_kib": 4.0, "floor_ratio": 9.0}, row, row | {"series": "apart_8", "floor_ratio": 8.1}]
    text = words("memory_floor", rows)
    assert text.startswith("8 operators, fused on 64.0 MiB, in memory: 1.02× the time of a plain copy")
    assert "9.0" not in text
    assert "单纯复制的 1.02×" in words("memory_floor", rows, "zh")
    assert words("memory_floor", [row | {"status": "failed", "floor_ratio": None}]) == ""


# ---------------------------------------------------------------- kernels


@pytest.mark.slow
def test_settings_switch_off_what_they_name() -> None:
    rows = {(row["case"], row["setting"]): row for row in of_kind(rows_of("inductor/kernels"), "kernel_count")}
    assert {row["status"] for row in rows.values()} == {"ok"}
    chain = {setting: rows["pointwise", setting] for setting in ("default", "no_fusion", "no_inlining", "neither")}
    # Inlined before the scheduler sees it, so forbidding fusion changes nothing.
    assert [chain[s]["nodes_before"] for s in ("default", "no_fusion")] == [1, 1]
    assert chain["no_inlining"]["nodes_before"] == chain["neither"]["nodes_before"] == chain["neither"]["operators"]
    assert chain["no_inlining"]["nodes_after"] == 1
    assert chain["neither"]["nodes_after"] == chain["neither"]["nodes_before"]
    assert chain["default"]["loop_nests"] == 1
    assert chain["neither"]["loop_nests"] == chain["neither"]["nodes_after"]
    assert rows["linear", "default"]["library_calls"] == 1
    assert rows["two_ways", "default"]["loop_nests"] >= 2
    for row in rows.values():
        assert row["nodes_after"] <= row["nodes_before"]
        assert row["kernel_calls"] >= row["kernels"] >= 1


@pytest.mark.slow
def test_times_of_every_setting_with_their_intervals() -> None:
    rows = of_kind(rows_of("inductor/kernels"), "kernel_time")
    assert [row["setting"] for row in rows] == ["eager", "twin", "default", "no_fusion", "no_inlining", "neither"]
    for row in rows:
        assert row["call_q1_us"] <= row["call_us"] <= row["call_q3_us"]
        assert len(row["samples_us"]) == row["processes"] * row["rounds"]
        if row["setting"] not in ("eager", "twin"):
            assert row["speedup_low"] <= row["speedup_ratio"] <= row["speedup_high"]
            assert row["verdict"] in ("faster", "slower", "no difference")


def test_outermost_loops_are_counted_and_inner_ones_not() -> None:
    module = load("inductor/kernels")
    inner = "        for(int64_t x1=0; x1<8; x1+=1)\n        {\n        }\n"
    nest = "    for(int64_t x0=0; x0<8; x0+=1)\n    {\n" + inner + "    }\n"
    assert module.loop_nests("void kernel()\n{\n" + nest + "}") == 1
    assert module.loop_nests("void kernel()\n{\n    {\n" + nest + "    }\n    {\n" + nest + "    }\n}") == 2
    assert module.loop_nests("void kernel()\n{\n}") == 0
    code = "k = async_compile.cpp_pybinding(['float*'], r'''\nvoid kernel()\n{\n" + nest * 2 + "}\n''')\n"
    code += "class Runner:\n    def call(self, args):\n        extern_kernels.mm(a, b, out=c)\n        cpp_fused_0(c)\n"
    wanted = {"loop_nests": 2, "kernels": 1, "kernel_calls": 1, "library_calls": 1}
    assert module.count_code(code) == wanted


def test_the_counter_verdict_names_only_where_it_misleads() -> None:
    row: Row = {"case": "norm", "setting": "default", "status": "ok"}
    row |= {"generated_counter": 12, "kernels": 1, "loop_nests": 6}
    text = words("kernel_counter", [row, row | {"case": "chain", "generated_counter": 1, "loop_nests": 1}])
    assert text == "The counter says 12 for norm, but the generated code holds 1 kernel and 6 loop nests."
    assert words("kernel_counter", [row], setting="neither") == ""
    assert "1 个内核" in words("kernel_counter", [row], "zh")


def test_the_fusion_worth_verdict_lists_the_settings() -> None:
    row: Row = {"kind": "kernel_time", "case": "norm", "setting": "default", "status": "ok", "verdict": "faster"}
    row |= {"speedup_ratio": 2.0, "speedup_low": 1.9, "speedup_high": 2.1}
    rows = [row, row | {"setting": "neither", "speedup_ratio": 0.5, "speedup_low": 0.4, "speedup_high": 0.6}]
    text = words("fusion_worth", [*rows, row | {"setting": "twin", "verdict": None}])
    assert text == "norm: inlining and fusion (2.00×, 1.90–2.10×); neither one (0.500×, 0.400–0.600×)."


# ---------------------------------------------------------------- compile phases


@pytest.mark.slow
def test_phases_add_up_to_the_whole_of_each_start() -> None:
    rows = rows_of("inductor/compile_phases")
    totals = {row["start"]: row for row in of_kind(rows, "compile_total")}
    assert list(totals) == ["cold", "header", "warm"]
    for start, total in totals.items():
        assert total["status"] == "ok", total["note"]
        phases = [row for row in of_kind(rows, "compile_phase") if row["start"] == start]
        assert sum(row["phase_s"] for row in phases) == pytest.approx(total["total_s"], rel=0.02)
        assert sum(row["share"] for row in phases) == pytest.approx(1, abs=0.02)
        assert all(row["phase_s"] >= 0 for row in phases)
        # The rest is what is left: were a time counted twice, it would be nothing, and the sum above the whole.
        named = [row["phase_s"] for row in phases if row["phase"] != "rest"]
        assert 0.8 * total["total_s"] < sum(named) < total["total_s"]


@pytest.mark.slow
def test_a_warm_start_finds_the_cache_and_starts_no_compiler_for_kernels() -> None:
    rows = rows_of("inductor/compile_phases")
    totals = {row["start"]: row for row in of_kind(rows, "compile_total")}
    phases = {(row["start"], row["phase"]): row["phase_s"] for row in of_kind(rows, "compile_phase")}
    assert totals["warm"]["cache_hits"] >= 1
    assert totals["cold"]["cache_hits"] == totals["header"]["cache_hits"] == 0
    assert totals["warm"]["total_s"] < totals["cold"]["total_s"]
    if not on_cuda():
        assert phases["cold", "header"] > phases["header", "header"]
        assert phases["header", "compiler"] > phases["warm", "compiler"]
        # A warm start asks the compiler a few questions, and their time is not AOTAutograd's.
        assert totals["warm"]["compiler_calls"] > 0
        assert phases["warm", "compiler"] > 0
        assert phases["warm", "inductor"] == 0
        assert phases["warm", "aot_autograd"] < phases["cold", "aot_autograd"]


def test_nested_timers_are_taken_apart() -> None:
    module = load("inductor/compile_phases")
    nested = {"dynamo": 10.0, "aot": 8.0, "backward": 5.0, "inductor": 9.0, "inductor_forward": 6.0, "triton": 0.0}
    phases = module.phases_of(nested, header_s=2.0, compilers_s=7.0)
    assert phases == {"dynamo": 2.0, "aot_autograd": 4.0, "inductor": 2.0, "header": 2.0, "compiler": 5.0}
    # Everything that the timers hold, once: Dynamo with what is in it, and the backward beside it.
    assert sum(phases.values()) == nested["dynamo"] + nested["backward"]
    assert min(module.phases_of(dict.fromkeys(nested, 0.0), 1.0, 1.0).values()) == 0


def test_compilers_of_a_warm_start_are_taken_out_of_aot_autograd() -> None:
    module = load("inductor/compile_phases")
    warm = {"dynamo": 10.0, "aot": 9.0, "backward": 0.0, "inductor": 0.0, "inductor_forward": 0.0, "triton": 0.0}
    phases = module.phases_of(warm, header_s=1.0, compilers_s=7.0)
    assert phases == {"dynamo": 1.0, "aot_autograd": 2.0, "inductor": 0.0, "header": 1.0, "compiler": 6.0}
    # Inductor's own first, the rest out of AOTAutograd's; never more than the two hold.
    both = warm | {"inductor": 4.0, "inductor_forward": 4.0}
    for compilers_s in (0.0, 3.0, 4.0, 6.0, 9.0, 20.0):
        phases = module.phases_of(both, header_s=2.0, compilers_s=compilers_s)
        assert sum(phases.values()) == pytest.approx(10.0)
        assert min(phases.values()) >= 0
        assert phases["header"] + phases["compiler"] == min(compilers_s, 9.0)


def test_compilers_that_overlap_count_once() -> None:
    module = load("inductor/compile_phases")
    compilers = module.Compilers()
    compilers.spans = [(0.0, 2.0, False), (1.0, 3.0, True), (5.0, 6.0, False)]
    assert compilers.busy_s() == 4.0
    assert compilers.busy_s(header=True) == 2.0
    original = subprocess.run
    with compilers.watched():
        subprocess.run(["true"], check=True)
        subprocess.check_output("true")
    assert subprocess.run is original
    assert len(compilers.spans) == 5


def test_the_phases_verdict_names_the_largest() -> None:
    total: Row = {"kind": "compile_total", "start": "cold", "total_s": 10.0, "status": "ok"}
    phase: Row = {"kind": "compile_phase", "start": "cold", "status": "ok"}
    rows = [total, total | {"start": "warm", "total_s": 2.0}]
    rows += [phase | {"phase": "dynamo", "share": 0.1}, phase | {"phase": "compiler", "share": 0.7}]
    text = words("compile_phases", rows)
    assert text == (
        "A cold start: 10.0 s in all, most of it the C++ or Triton compiler (70.0%). "
        "A warm start takes 20.0% of a cold one."
    )
    assert words("compile_phases", [total | {"status": "failed", "total_s": None}]) == ""


# ---------------------------------------------------------------- modes


@pytest.mark.slow
def test_modes_say_what_they_set_and_what_came_of_it() -> None:
    rows = {row["mode"]: row for row in rows_of("inductor/modes")}
    assert list(rows) == ["none", "none_again", "default", "reduce-overhead", "lite", "no-such-mode"]
    assert rows["no-such-mode"]["status"] == "unavailable"
    assert rows["default"]["options"] == "{}"
    assert rows["reduce-overhead"]["options"] == '{"triton.cudagraphs": true}'
    assert rows["default"]["against_default_ratio"] is None
    assert rows["default"]["kernels"] == 1
    for mode in ("default", "reduce-overhead", "lite"):
        assert rows[mode]["status"] == "ok", rows[mode]["note"]
        assert rows[mode]["compile_s"] > 0
    if not on_cuda():
        assert rows["reduce-overhead"]["graph_skips"] >= 1
        assert rows["default"]["graph_skips"] == 0
        assert rows["reduce-overhead"]["same_code"] is True
        assert rows["lite"]["same_code"] is False
        assert rows["lite"]["library_calls"] > rows["default"]["library_calls"]


def test_code_is_compared_without_names_and_asserts() -> None:
    module = load("inductor/modes")
    one = "# AOT ID: 0\nassert_size_stride(a, (1,), (1,))\nx = cpp_fused_gelu_0(a)\n"
    other = "# AOT ID: 1\nx = cpp_fused_gelu_7(a)\n"
    assert module.plain_code(one) == module.plain_code(other)
    assert module.plain_code(one) != module.plain_code("x = cpp_fused_gelu_0(b)")


def test_the_modes_verdict_compares_with_the_default_and_tells_of_skips() -> None:
    row: Row = {"mode": "max-autotune", "status": "ok", "graph_skips": 1, "verdict_default": "faster"}
    row |= {"against_default_ratio": 1.5, "against_default_low": 1.4, "against_default_high": 1.6}
    text = words("modes_against_default", [row, row | {"mode": "lite", "graph_skips": 0, "verdict_default": "slower"}])
    assert text == (
        "Faster than the default mode: max-autotune (1.50×, 1.40–1.60×). "
        "Slower than the default mode: lite (1.50×, 1.40–1.60×). "
        "CUDA graphs were asked for and skipped: max-autotune."
    )
    none = words("modes_against_default", [row | {"verdict_default": "no difference"}])
    assert none.startswith("No mode is faster than the default one here.")


# ---------------------------------------------------------------- C++ and Triton


@pytest.mark.slow
def test_source_cpp_and_triton_are_rows_whatever_is_installed() -> None:
    rows = {row["target"]: row for row in rows_of("inductor/triton_code")}
    assert list(rows) == ["source", "cpp", "triton"]
    assert rows["cpp"]["status"] == "ok", rows["cpp"]["note"]
    assert "void  kernel" in rows["cpp"]["code"] or "void kernel" in rows["cpp"]["code"]
    triton = rows["triton"]
    if importlib.util.find_spec("triton") is None:
        assert triton["status"] == "unavailable"
        assert triton["code"] is None
    else:
        assert triton["status"] == "ok", triton["note"]
        assert triton["code"].startswith("@triton.jit")
        assert "tl.load(" in triton["code"]
        assert triton["origin"] == ("compiled and run" if on_cuda() else "generated, not run")


def test_a_failure_to_generate_is_a_row() -> None:
    module = load("inductor/triton_code")

    def broken() -> str:
        raise ValueError("no GPU\nat all")

    row = module.code_row("softmax", "cpp", "cpu", "compiled and run", broken)
    assert (row["status"], row["note"], row["code"]) == ("failed", "ValueError: no GPU", None)
    row = module.code_row("softmax", "cpp", "cpu", "compiled and run", lambda: "")
    assert row["note"] == module.NO_GRAPH


# ---------------------------------------------------------------- pitfalls


@pytest.mark.slow
def test_mistakes_are_noticed_when_the_page_says() -> None:
    rows = {row["mistake"]: row for row in of_kind(rows_of("inductor/pitfalls"), "mistake")}
    assert rows["unknown_mode"]["raised_at"] == "torch.compile()"
    if not on_cuda():
        assert rows["no_cxx"]["raised_at"] == "first call"
        assert "compiler" in rows["no_cxx"]["message"].lower()


@pytest.mark.slow
def test_bfloat16_is_no_worse_compiled_and_dropout_keeps_its_probability() -> None:
    rows = rows_of("inductor/pitfalls")
    precision = {row["how_run"]: row for row in of_kind(rows, "precision")}
    assert precision["eager"]["differs_share"] == 0
    assert precision["compiled"]["differs_share"] > 0
    assert precision["compiled"]["error_ratio"] <= precision["eager"]["error_ratio"]
    dropout = {row["how_run"]: row for row in of_kind(rows, "dropout")}
    assert dropout["eager_again"]["differs_share"] == dropout["fallback"]["differs_share"] == 0
    assert 0.4 < dropout["compiled"]["differs_share"] < 0.6
    for row in dropout.values():
        assert 0.45 < row["kept_share"] < 0.55


# ---------------------------------------------------------------- what a child may do


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inductor/memory_floor", "inductor/kernels", "inductor/modes"])
def test_a_child_that_takes_too_long_becomes_rows(name: str) -> None:
    start = time.monotonic()
    rows = load(name).run(processes=2, child_limit_s=0.5)
    assert time.monotonic() - start < 60
    lost = [row for row in rows if row["status"] == "failed"]
    assert lost
    assert all("no answer within 0.5 s" in row["note"] for row in lost)
    assert not any(row.get("call_us") for row in rows)


@pytest.mark.parametrize("name", ["inductor/memory_floor", "inductor/kernels", "inductor/modes"])
def test_one_process_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="at least two"):
        load(name).run(processes=1)


def test_intervals_and_judgement_are_those_of_the_other_snippets() -> None:
    fusion = load("inductor/fusion")
    groups = [[1.1, 1.2, 1.15], [1.3, 1.2, 1.25], [1.2, 1.1, 1.0]]
    for name in ("inductor/memory_floor", "inductor/kernels", "inductor/modes"):
        assert load(name).ratio_interval(groups) == fusion.ratio_interval(groups)
    for ratio, low, high, noise in ((1.2, 1.1, 1.3, 0.0), (1.2, 0.9, 1.3, 0.0), (1.2, 1.1, 1.3, math.log(1.25))):
        wanted = fusion.judge(ratio, low, high, noise)
        for name in ("inductor/kernels", "inductor/modes"):
            assert load(name).judge(ratio, low, high, noise) == wanted


@pytest.mark.parametrize("language", LANGUAGES)
def test_rules_are_silent_about_rows_without_numbers(language: Any) -> None:
    for rule in ("memory_floor", "compile_phases", "kernel_counter", "fusion_worth", "modes_against_default"):
        assert words(rule, [{"status": "failed", "note": "why", "kind": "x"}], language) == ""
