"""The capture of the pipeline: the common contract on a short run, and that its links are right.

pipeline/capture.
"""

from __future__ import annotations

import dis
import functools
import importlib.util
import json
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from kitchen import labels
from kitchen.context import LANGUAGES
from tests import test_snippets as contract

torch = pytest.importorskip("torch")

Row = dict[str, Any]

NAME = "pipeline/capture"
# One with a reduction, one with a backward; the others are held to their records by test_tool_pipeline.
BUDGETS: dict[str, Row] = {NAME: {"examples": ("softmax", "training")}}
contract.BUDGETS.update(BUDGETS)

CHECKS: list[Callable[[str], None]] = [
    contract.test_rows_keep_the_contract,
    contract.test_rows_of_a_kind_share_their_columns,
    contract.test_docstring_names_every_column,
]
needs_our_torch = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="the hooks are written for torch 2.13"
)


@functools.cache
def snippet() -> ModuleType:
    """The snippet as a module that its dataclasses find."""
    spec = importlib.util.spec_from_file_location("pipeline_capture", contract.SNIPPETS / f"{NAME}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def stages(example: str, target: str = "cpu") -> dict[str, list[tuple[str, set[str]]]]:
    """The stages of an example: each line with its operators, and "@name" for the kernel it is part of."""
    return {
        row["stage"]: [
            (text, set(links.split()))
            for text, links in zip(row["text"].split("\n"), json.loads(row["links"]), strict=True)
        ]
        for row in contract.of_kind(contract.rows_of(NAME), "stage")
        if row["example"] == example and row["target"] == target
    }


def operators(lines: list[tuple[str, set[str]]], pattern: str) -> list[set[str]]:
    """The operators of the lines that a pattern is found in."""
    return [{key for key in keys if key[0] != "@"} for text, keys in lines if re.search(pattern, text)]


# ---------------------------------------------------------------- contract


@pytest.mark.slow
@needs_our_torch
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("test_"))
def test_contract(check: Callable[[str], None]) -> None:
    check(NAME)


def test_header_docstrings_and_imports() -> None:
    contract.test_header_declares_what_the_snippet_needs(NAME)
    contract.test_snippet_imports_only_the_standard_library_torch_and_what_it_declares(NAME)
    contract.test_snippet_is_documented_and_takes_its_budget_by_keyword(NAME)


@pytest.mark.slow
@needs_our_torch
def test_main_prints_every_stage(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = contract.rows_of(NAME)
    monkeypatch.setattr(snippet(), "run", lambda examples: rows)
    snippet().main(["softmax", "training"])
    printed = capsys.readouterr().out
    for row in contract.of_kind(rows, "stage"):
        assert f"{row['example']}, {row['target']}, graph 1, {row['position']}. {row['stage']}" in printed
    assert "softmax, cpu: inductor runs 6 operators in 1 launches" in printed


@pytest.mark.slow
@needs_our_torch
def test_every_column_and_word_has_its_label() -> None:
    for row in contract.rows_of(NAME):
        for column, value in row.items():
            assert labels.column(column, "en", NAME).labelled, column
            if column in ("kind", "example", "target", "stage", "origin") and value is not None:
                assert value in labels.data()["values"][column], (column, value)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_note_of_its_own_is_known(language: Any) -> None:
    module = snippet()
    for note in (module.OTHER_TORCH.format("2.13", "2.14.0"), module.NO_TRITON, module.NO_GRAPH):
        assert (labels.note(note, language) == note) == (language == "en"), note


# ---------------------------------------------------------------- what is captured


@pytest.mark.slow
@needs_our_torch
def test_every_stage_is_there_in_order_and_holds_what_its_name_says() -> None:
    both = ["source", "bytecode", "guards", "dynamo", "rewritten", "eager"]
    inductor = ["aot", "post", "ir_pre", "ir_post", "kernel", "wrapper"]
    there = stages("training")
    assert list(there) == [
        *both,
        *(f"{name}_{part}" for name in ("aot_eager", "cudagraphs") for part in ("fw", "bw")),
        *(f"{name}_{part}" for part in ("fw", "bw") for name in inductor),
    ]
    assert list(stages("softmax")) == [*both, "aot_eager_fw", "cudagraphs_fw", *(f"{name}_fw" for name in inductor)]
    for stage, sign in {
        "source": "loss.backward()",
        "guards": "TENSOR_MATCH",
        "rewritten": "__compiled_fn",
        "eager": "aten.addmm.default",
        "aot_eager_bw": "aten.threshold_backward",
        "aot_bw": "aten.where",
        "ir_pre_fw": "ops.load(",
        "ir_post_bw": "ops.store(",
        "kernel_bw": "void  kernel(",
        "wrapper_fw": "extern_kernels.addmm(",
    }.items():
        assert any(sign in text for text, _ in there[stage]), stage
    assert not any('"""' in text for text, _ in there["source"])


@pytest.mark.slow
@needs_our_torch
def test_no_text_has_a_mark_of_ours_or_a_folder_of_this_machine() -> None:
    for row in contract.of_kind(contract.rows_of(NAME), "stage"):
        assert "@@" not in row["text"]
        assert not re.search(r"/(tmp|home|root|usr|work)\b|\b0x[0-9a-f]{6}", row["text"]), row["stage"]


@pytest.mark.slow
@needs_our_torch
def test_the_compiled_result_is_right_and_the_hooks_change_no_code() -> None:
    graphs = [row for row in contract.of_kind(contract.rows_of(NAME), "graph") if row["target"] == "cpu"]
    assert [row["status"] for row in graphs] == ["ok", "ok"]
    for row in graphs:
        assert row["same_code"] is True
        assert 0 < row["max_rel_error"] < 1e-5


@pytest.mark.slow
@needs_our_torch
def test_one_operator_is_followed_from_the_source_to_the_kernel() -> None:
    there = stages("softmax")
    assert operators(there["source"], "mask$|scores \\+ mask") == [{"fw:add"}]
    assert operators(there["bytecode"], "BINARY_OP") == [{"fw:add"}]
    assert operators(there["dynamo"], r"= l_scores_ \+ l_mask_") == [{"fw:add"}]
    assert operators(there["eager"], r"aten\.add") == [{"fw:add"}]
    assert operators(there["aot_fw"], r"aten\.amax") == [{"fw:amax"}]
    assert operators(there["ir_pre_fw"], r"ops\.exp\(") == [{"fw:exp"}]
    assert {"fw:exp"} in operators(there["kernel_fw"], r"\.exp\(\)|exp_u20\(\)")
    (softmax,) = operators(there["dynamo"], r" = torch\.softmax\(")
    assert softmax == {"fw:amax", "fw:sub", "fw:exp", "fw:sum_1", "fw:div"}
    assert operators(there["eager"], r"aten\._softmax") == [softmax]
    (kernel,) = operators(there["wrapper_fw"], r"^    cpp_fused\w+\(")
    assert kernel == softmax | {"fw:add"}


@pytest.mark.slow
@needs_our_torch
def test_every_line_of_a_kernel_that_computes_has_an_operator() -> None:
    computes = re.compile(r"\btmp\w* = |\.store\(|\w+_ptr\d+\[")
    for example in ("softmax", "training"):
        for stage, lines in stages(example).items():
            if stage.startswith("kernel"):
                found = operators(lines, computes.pattern)
                assert len(found) > 8
                assert all(found), stage


@pytest.mark.slow
@needs_our_torch
def test_a_line_of_a_training_step_has_its_forward_and_its_backward() -> None:
    there = stages("training")
    (layer,) = operators(there["source"], r"functional\.linear\(")
    assert {"fw:addmm", "fw:relu", "bw:mm", "bw:where"} <= layer
    (forward,) = operators(there["source"], r"loss = function\(")
    (backward,) = operators(there["source"], r"loss\.backward\(\)")
    assert {key[:3] for key in forward} == {"fw:"}
    assert {key[:3] for key in backward} == {"bw:"}
    linear = operators(there["bytecode"], "LOAD_ATTR +linear")[0]
    assert "fw:addmm" in linear
    assert "fw:relu" not in linear, "a call inside another has only its own operators"
    assert operators(there["eager"], r"aten\.threshold_backward")[0] >= {"bw:where"}
    assert "bw:mm" in operators(there["eager"], r"aten\.mm\.default")[0]
    assert "bw:where" in operators(there["aot_eager_bw"], r"aten\.threshold_backward")[0]


@pytest.mark.slow
@needs_our_torch
def test_launches_are_counted_in_what_each_back_end_runs() -> None:
    rows = [row for row in contract.of_kind(contract.rows_of(NAME), "backend") if row["target"] == "cpu"]
    launches = {(row["example"], row["backend"]): (row["operators_run"], row["launches"]) for row in rows}
    assert launches["softmax", "eager"] == (2, 2)
    assert launches["softmax", "inductor"] == (6, 1)
    for backend in ("eager", "aot_eager", "cudagraphs"):
        ran, launched = launches["training", backend]
        assert ran == launched > 10
    ran, launched = launches["training", "inductor"]
    assert 1 < launched < ran


@pytest.mark.slow
@needs_our_torch
def test_without_triton_the_gpu_is_a_row_that_says_so() -> None:
    if importlib.util.find_spec("triton") is not None:
        pytest.skip("Triton is installed")
    rows = [row for row in contract.rows_of(NAME) if row["target"] == "cuda"]
    assert [(row["kind"], row["status"]) for row in rows] == [("graph", "unavailable")] * 2
    assert rows[0]["note"] == snippet().NO_TRITON


def test_with_another_torch_every_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snippet(), "WRITTEN_FOR", "1.99")
    monkeypatch.setattr(snippet(), "capture", lambda *_: pytest.fail("was captured all the same"))
    rows = snippet().run(targets=("cpu",))
    assert {row["example"] for row in rows} == set(snippet().EXAMPLES)
    assert {row["status"] for row in rows} == {"unavailable"}
    assert rows[0]["note"] == f"Not captured: the hooks are written for torch 1.99, this is torch {torch.__version__}."


def test_what_fails_is_a_row_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, target: str, common: Row) -> list[Row]:
        if name == "softmax":
            raise RuntimeError("raised:\nno such hook\n\nmuch advice")
        return [{"kind": "graph", "example": name, "target": target, **common, "status": "ok", "note": None}]

    monkeypatch.setattr(snippet(), "WRITTEN_FOR", torch.__version__[:4])
    monkeypatch.setattr(snippet(), "capture", broken)
    rows = snippet().run(examples=("softmax", "training"), targets=("cpu",))
    assert [(row["status"], row["note"]) for row in rows] == [
        ("failed", "RuntimeError: raised: no such hook"),
        ("ok", None),
    ]


@pytest.mark.slow
@needs_our_torch
def test_torch_is_as_it_was_also_where_compiling_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo import convert_frame
    from torch._inductor import compile_fx, config, debug, ir, loop_body
    from torch._inductor.utils import IndentedBuffer

    def hooked() -> list[Any]:
        return [
            IndentedBuffer.writeline,
            ir.Loops.__post_init__,
            ir.ComputedBuffer.get_store_function,
            loop_body.LightTracer.create_node,
            debug.set_kernel_post_grad_provenance_tracing,
            len(convert_frame._bytecode_hooks),
            config._pre_fusion_custom_pass,
            config.trace.provenance_tracking_level,
        ]

    before = hooked()
    during: list[list[Any]] = []

    def fail(*_: Any, **__: Any) -> None:
        during.append(hooked())
        raise RuntimeError("planted")

    monkeypatch.setattr(compile_fx, "compile_fx_inner", fail)
    (row,) = snippet().run(examples=("pointwise",), targets=("cpu",))
    assert row["status"] == "failed"
    assert "planted" in row["note"]
    assert all(was != now for was, now in zip(before, during[0], strict=True)), "every hook was in place"
    assert hooked() == before
    assert snippet().LOWERED == []


# ---------------------------------------------------------------- its parts, without compiling


def test_what_differs_from_run_to_run_is_left_out() -> None:
    clean = snippet().clean
    assert clean("# File: /home/me/x-1/capture.py:12 in f") == "# File: capture.py:12 in f"
    assert clean("h  # me/snippets/capture.py:12 in f") == "h  # capture.py:12 in f"
    assert clean("NULL + __compiled_fn_12_b136eb9c_c98b_4b3b_a44f_f512293491c6") == "NULL + __compiled_fn"
    assert (
        clean("___check_obj_id(G['torch'].sin, 140151071889968), type") == "___check_obj_id(G['torch'].sin, ...), type"
    )
    assert clean("<function f at 0x7f0a1b2c3d4e>") == "<function f at 0x...>"
    assert clean("#include <torch/csrc/inductor/cpp_prefix.h>") == "#include <torch/csrc/inductor/cpp_prefix.h>"


def test_a_mark_stands_only_where_a_comment_may() -> None:
    marked = snippet().marked
    assert marked("auto tmp0 = 1;", " /*@@mul*/") == "auto tmp0 = 1; /*@@mul*/"
    for line in ("", "  ", "{", "    }", "#define X \\", "a\nb"):
        assert marked(line, " /*@@mul*/") == line
    assert snippet().plain_code("x = 1  #@@mul\n# a comment\ny /*@@add*/") == "x = 1\ny"


def test_reads_and_writes_are_those_of_the_arguments() -> None:
    cpp = 'extern "C"  void  kernel(float* in_out_ptr0,\n const float* in_ptr0,\n float* out_ptr1)\n{ in_ptr7'
    assert snippet().arguments_of(cpp) == (2, 2)
    assert snippet().arguments_of("def triton_poi_0(in_ptr0, in_ptr1, out_ptr0, xnumel):\n out_ptr3") == (2, 1)


def test_equal_guards_are_counted_and_the_rest_is_kept() -> None:
    module = snippet()
    marking = "| | +- DIMENSION_DYNAMIC_MARKING_GUARD: hasattr(L['x'], '_dynamo_{}') == False  # code"
    text = "\n".join(
        [
            "+- RootGuardManager",
            "| +- GuardManager: source=L['x'], accessed_by=Frame(key='x', i=0), type=<class 'T'>, tag_safe=(1, 0)",
            *(marking.format(name) for name in ("a", "b", "c")),
            '| +- GLOBAL_STATE: ___check_global_state() against {"a":{"b":1}}',
        ]
    )
    lines = [line.text for line in module.guard_lines(text, module.Graph({}, "", 0))]
    assert lines == [
        "+- RootGuardManager",
        "| +- GuardManager: source=L['x'], type=<class 'T'>",
        marking.format("a"),
        "| | +- ... and 2 more of DIMENSION_DYNAMIC_MARKING_GUARD",
        "| +- GLOBAL_STATE: ___check_global_state() against {...}",
    ]


def test_a_call_within_a_call_has_its_own_place() -> None:
    module = snippet()
    code = compile("x = f(a + b)", "x.py", "exec")
    places = {i.opname: module.place_of(i) for i in dis.get_instructions(code)}
    assert module.within(places["BINARY_OP"], places["CALL"])
    assert not module.within(places["CALL"], places["BINARY_OP"])


def test_an_operator_of_the_cpu_alone_is_refused_for_a_gpu() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, (x, x, x)))
    module = torch.fx.GraphModule({}, graph)
    with pytest.raises(ValueError, match=r"_for_cpu.* would mislead"):
        snippet().refuse_cpu_operators(module)
