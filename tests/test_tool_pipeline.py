"""The data of the pipeline explorer: what it says agrees with itself, with the record, and with both languages."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kitchen import data
from kitchen.context import LANGUAGES, Language
from kitchen.tools import Payload, pipeline

Json = dict[str, Any]

VIEWS = [view for view in data.views(pipeline.SNIPPET) if view.ok]
recorded = pytest.mark.skipif(not VIEWS, reason="no machine has a record of it")
#: What gives another view of a tensor, or hands it on: nothing is launched.
VIEW = (
    "t",
    "permute",
    "transpose",
    "view",
    "reshape",
    "expand",
    "detach",
    "alias",
    "unsqueeze",
    "squeeze",
    "as_strided",
)
MOST_BYTES = 200_000
EXAMPLES = ["pointwise", "softmax", "layer_norm_gelu", "linear_relu", "training", "graph_break", "dynamic_shape"]


def _built(language: Language) -> Payload:
    return pipeline.build([(view, view.record.rows) for view in VIEWS], language)


def parts(language: Language = "en") -> dict[str, Json]:
    return {name: dict(part) for name, part in _built(language).files.items()}


PARTS = parts()


def targets() -> Iterator[tuple[str, str, Json]]:
    for example, part in PARTS.items():
        for target, found in part["targets"].items():
            yield example, target, found


CASES = [
    pytest.param(target["graphs"][i], id=f"{example}-{name}-{i + 1}")
    for example, name, target in targets()
    for i in range(len(target["graphs"]))
]
each_graph = pytest.mark.parametrize("graph", CASES)


def lines(graph: Json, stage: str) -> list[Json]:
    """The lines of a stage; none where it was not captured."""
    return [line for found in graph["stages"] if found["id"] == stage for line in found["lines"]]


def keys(graph: Json, stage: str) -> set[str]:
    return {key for line in lines(graph, stage) for key in line["keys"]}


def passes(graph: Json) -> list[str]:
    return [name for name in ("fw", "bw") if lines(graph, f"aot_{name}")]


def calls(graph: Json, stage: str) -> list[str]:
    """The operators that a graph's text calls, by their ATen names, without views and picking out of a tuple."""
    texts = "\n".join(line["text"].partition(";")[0] for line in lines(graph, stage))
    found = re.findall(r" = torch\.ops\.\w+\.(\w+)\.", texts)
    return [name for name in found if name not in VIEW]


# ---------------------------------------------------------------- the record


@recorded
def test_all_examples_are_there_for_both_targets() -> None:
    assert list(PARTS) == EXAMPLES
    main = pipeline.payload("en").data
    assert [example["id"] for example in main["examples"]] == EXAMPLES
    for example in main["examples"]:
        assert example["targets"] == ["cpu", "cuda"], "captured where Triton is installed"
        assert example["title"]
        assert example["about"].endswith(".")
    counts = {example: len(part["targets"]["cpu"]["graphs"]) for example, part in PARTS.items()}
    assert counts == dict.fromkeys(EXAMPLES, 1) | {"graph_break": 2, "dynamic_shape": 2}


@recorded
def test_the_record_is_named() -> None:
    record = pipeline.payload("en").data["record"]
    assert record["url"].startswith("results/")
    assert record["url"].endswith("/pipeline/capture.json")
    assert record["torch"].startswith("2.13.")
    assert record["machine"] == VIEWS[0].machine.title
    assert record["date"] == VIEWS[0].record.started[:10]


@recorded
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_part_is_small_and_names_no_folder_of_a_machine(language: Language) -> None:
    for example, part in parts(language).items():
        text = json.dumps(part, ensure_ascii=False, separators=(",", ":"))
        assert len(text.encode()) < MOST_BYTES, example
        assert not re.search(r"/(tmp|home|root|work|usr)/", text), example
        assert "@@" not in text


@recorded
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_guard_and_every_instruction_is_told_in_plain_words(language: Language) -> None:
    for part in parts(language).values():
        for target in part["targets"].values():
            for graph in target["graphs"]:
                for stage in pipeline.WORDED:
                    for line in lines(graph, stage):
                        assert line.get("words") or not line["text"].strip(), line["text"]
                        assert not re.search(r"\{\d\}", line.get("words", ""))


@recorded
def test_the_languages_differ_in_words_alone() -> None:
    def without_words(value: Any) -> Any:
        if isinstance(value, dict):
            told = ("words", "title", "about", "what", "note", "notes", "reason")
            return {key: without_words(inner) for key, inner in value.items() if key not in told}
        return [without_words(inner) for inner in value] if isinstance(value, list) else value

    assert without_words(parts("zh")) == without_words(PARTS)
    chinese = re.compile("[\u4e00-\u9fff]")
    assert not chinese.search(json.dumps(PARTS, ensure_ascii=False))
    for target in parts("zh")["dynamic_shape"]["targets"].values():
        assert all(chinese.search(backend["what"]) for backend in target["backends"].values())
        assert all(chinese.search(note) for note in target["notes"])


# ---------------------------------------------------------------- links


@recorded
@each_graph
def test_every_key_of_a_line_or_a_kernel_is_an_operator_of_the_graph(graph: Json) -> None:
    for stage in graph["stages"]:
        assert {key for line in stage["lines"] for key in line["keys"]} <= set(graph["keys"]), stage["id"]
    for thing in graph["kernels"] + graph["nodes"]:
        assert thing["keys"]
        assert set(thing["keys"]) <= set(graph["keys"])


@recorded
@each_graph
def test_every_operator_stands_in_two_stages_or_more(graph: Json) -> None:
    stages = Counter(key for stage in graph["stages"] for key in {k for line in stage["lines"] for k in line["keys"]})
    assert [key for key in graph["keys"] if stages[key] < 2] == []


@recorded
@each_graph
def test_every_operator_that_computes_is_in_the_source_the_graphs_and_a_kernel(graph: Json) -> None:
    computing = {
        key
        for key, told in graph["keys"].items()
        if told["op"] == "call_function" and told["label"] not in (*VIEW, "getitem")
    }
    assert computing
    for stage in ("source", "bytecode", "dynamo"):
        assert computing <= keys(graph, stage), stage
    for name in passes(graph):
        mine = {key for key in computing if key.startswith(name)}
        for stage in ("aot", "post"):
            assert mine <= keys(graph, f"{stage}_{name}")
        assert mine <= {key for kernel in graph["kernels"] for key in kernel["keys"]}
        assert mine <= keys(graph, f"ir_pre_{name}")
        assert mine <= keys(graph, f"kernel_{name}") | keys(graph, f"wrapper_{name}")


@recorded
@each_graph
def test_the_operators_of_a_fused_kernel_are_found_in_the_aten_graph(graph: Json) -> None:
    for kernel in graph["kernels"]:
        name = kernel["pass"]
        assert set(kernel["keys"]) <= keys(graph, f"aot_{name}")
        assert set(kernel["keys"]) <= keys(graph, f"post_{name}")
        if kernel["kind"] == "fused":
            code = [line for line in lines(graph, f"kernel_{name}") if line.get("block") == kernel["name"]]
            written = {key for line in code for key in line["keys"]}
            assert written <= set(kernel["keys"]) | {key for key in graph["keys"] if not graph["keys"][key]["op"]}
            assert kernel["lines"] == len(code) > 3
            assert kernel["reads"] > 0
            assert kernel["writes"] > 0


@recorded
@each_graph
def test_a_line_of_a_kernel_that_computes_has_an_operator(graph: Json) -> None:
    for name in passes(graph):
        for line in lines(graph, f"kernel_{name}"):
            if re.search(r"\btmp\w* = |\.store\(|tl\.(load|store)\(", line["text"]):
                assert line["keys"], line["text"]


@recorded
@each_graph
def test_loop_nodes_go_into_fused_nodes_and_those_into_kernels(graph: Json) -> None:
    for name in passes(graph):
        nodes = {node["name"]: node for node in graph["nodes"] if node["pass"] == name}
        kernels = [kernel for kernel in graph["kernels"] if kernel["pass"] == name]
        assert sorted(node for kernel in kernels for node in kernel["nodes"]) == sorted(nodes)
        for kernel in kernels:
            held = {key for node in kernel["nodes"] for key in nodes[node]["keys"]}
            assert held <= set(kernel["keys"]) or kernel["kind"] == "extern"
        for fused in {node["fused"] for node in nodes.values()}:
            inside = {node for node in nodes if nodes[node]["fused"] == fused}
            assert any(inside <= set(kernel["nodes"]) for kernel in kernels), "a fused node is never split"
            assert f"{fused}: " in "\n".join(line["text"] for line in lines(graph, f"ir_post_{name}"))


# ---------------------------------------------------------------- counts


@recorded
@each_graph
def test_the_counts_are_those_of_the_texts(graph: Json) -> None:
    counts = graph["counts"]
    body = "\n".join(line["text"] for line in lines(graph, "dynamo"))
    assigned = [line for line in body.splitlines() if re.match(r"\s+\w+(: *\"[^\"]*\")? = ", line)]
    assert counts["dynamo"] == len([line for line in assigned if not re.search(r" = L_\w+$", line)])
    assert counts["aot"] == sum(len(calls(graph, f"aot_{name}")) for name in passes(graph))
    heads = {
        stage: sum(
            bool(re.match(r"\w+: \w+Node\(", line["text"]))
            for name in passes(graph)
            for line in lines(graph, f"{stage}_{name}")
        )
        for stage in ("ir_pre", "ir_post")
    }
    assert counts["ir_nodes_before"] == heads["ir_pre"] == len(graph["nodes"])
    assert counts["ir_nodes_after"] == heads["ir_post"] == len({(n["pass"], n["fused"]) for n in graph["nodes"]})
    wrapper = [line for name in passes(graph) for line in lines(graph, f"wrapper_{name}") if line.get("block")]
    assert counts["kernels"] == len(graph["kernels"]) == len(wrapper)
    assert counts["kernels"] <= counts["ir_nodes_after"]


@recorded
@pytest.mark.parametrize(("example", "target", "found"), [pytest.param(*t, id=f"{t[0]}-{t[1]}") for t in targets()])
def test_launches_follow_from_the_graphs(example: str, target: str, found: Json) -> None:
    # Where the shape changes, one call goes through one of the graphs.
    graphs = found["graphs"][-1:] if example == "dynamic_shape" else found["graphs"]
    launches = {name: backend["launches"] for name, backend in found["backends"].items()}
    assert list(launches) == ["eager", "aot_eager", "inductor", "cudagraphs"]
    assert launches["inductor"] == sum(len(graph["kernels"]) for graph in graphs)
    eager = [line["text"].partition("(")[0].split(".")[1] for line in lines(graphs[0], "eager")]
    # What Python asks for, and the gradient that a backward starts with, belong to no call of the function.
    outside = ("_local_scalar_dense", "clone", "ones_like")
    assert launches["eager"] == len([name for name in eager if name not in (*VIEW, *outside)])
    for backend in ("aot_eager", "cudagraphs"):
        ran = sum(len(calls(graph, f"{backend}_{part}")) for graph in graphs for part in ("fw", "bw"))
        assert found["backends"][backend]["operators"] == ran
        replayed = backend == "cudagraphs" and target == "cuda"
        assert launches[backend] == (sum(len(passes(graph)) for graph in graphs) if replayed else ran)
    assert launches["inductor"] <= min(launches["eager"], launches["aot_eager"])


@recorded
def test_the_stages_of_a_back_end_were_captured() -> None:
    for _, _, target in targets():
        there = {stage["id"] for graph in target["graphs"] for stage in graph["stages"]}
        told = {name: set(backend["stages"]) for name, backend in target["backends"].items()}
        assert set().union(*told.values()) == there
        assert told["eager"] == {"source", "bytecode", "eager"}


# ---------------------------------------------------------------- what the examples are there to show


@recorded
def test_what_each_example_shows_is_in_its_record() -> None:
    def graph(example: str, target: str = "cpu", number: int = 0) -> Json:
        found: Json = PARTS[example]["targets"][target]["graphs"][number]
        return found

    def texts(graph: Json, stage: str) -> str:
        return "\n".join(line["text"] for line in lines(graph, stage))

    for target in ("cpu", "cuda"):
        for example in ("pointwise", "softmax", "layer_norm_gelu"):
            assert [kernel["kind"] for kernel in graph(example, target)["kernels"]] == ["fused"], example
        assert [kernel["kind"] for kernel in graph("linear_relu", target)["kernels"]] == ["extern", "fused"]
        assert {kernel["pass"] for kernel in graph("training", target)["kernels"]} == {"fw", "bw"}
        first, rest = PARTS["graph_break"]["targets"][target]["graphs"]
        assert "POP_JUMP" in texts(first, "rewritten")
        assert "__resume_at" in texts(first, "rewritten")
        assert rest["function"].startswith("torch_dynamo_resume_in_graph_break")
        assert first["note"] != rest["note"]
        fixed, symbolic = PARTS["dynamic_shape"]["targets"][target]["graphs"]
        assert not re.search(r"\bs\d+\b", texts(fixed, "dynamo"))
        (symbol,) = set(re.findall(r"\bs\d+\b", texts(symbolic, "dynamo")))
        assert symbol in symbolic["note"]
        assert "LAMBDA_GUARD: 2 <= L['x'].size()[0]" in texts(symbolic, "guards")
        assert f"{symbol} = arg" in texts(symbolic, "wrapper_fw")
        size = "const int64_t ks0" if target == "cpu" else "r0_numel"
        assert size in texts(symbolic, "kernel_fw")
        assert "r0_numel = " not in texts(symbolic, "kernel_fw"), "the number of rows is no constant"
    assert "void  kernel(" in texts(graph("softmax"), "kernel_fw")
    assert "@triton.jit" in texts(graph("softmax", "cuda"), "kernel_fw")


@recorded
def test_what_was_only_generated_says_so_and_shows_no_operator_of_the_cpu() -> None:
    for example, name, target in targets():
        if name == "cpu":
            assert target["generated_only"] is False
            assert target["notes"] == [], example
        elif target["generated_only"]:
            assert target["device"] == "pretended H100"
            assert any("H100 that is not there" in note for note in target["notes"])
            told = json.dumps([graph["keys"] for graph in target["graphs"]])
            assert not re.search("_for_cpu|mkldnn|onednn", told)


# ---------------------------------------------------------------- other records


def test_without_a_record_there_is_an_empty_payload() -> None:
    payload = pipeline.build([], "en")
    assert payload.data == {"examples": [], "record": None}
    assert payload.files == {}


@recorded
def test_a_target_that_was_not_captured_says_why() -> None:
    note = "Triton is not installed, and without it no Triton code is generated (pip install triton)."
    common = {"device": "pretended H100", "threads": 1, "status": "unavailable", "note": note}
    rows = [row for row in VIEWS[0].record.rows if row["example"] == "softmax" and row["target"] == "cpu"]
    rows.append({"kind": "graph", "example": "softmax", "target": "cuda", "graph": 1, **common})
    payload = pipeline.build([(VIEWS[0], rows)], "zh")
    (listed,) = payload.data["examples"]
    assert listed["targets"] == ["cpu"]
    cuda = payload.files["softmax"]["targets"]["cuda"]
    assert cuda["graphs"] == []
    assert cuda["reason"].startswith("没有安装 Triton")


@recorded
def test_a_wrong_capture_is_not_shown() -> None:
    rows = copy.deepcopy([row for row in VIEWS[0].record.rows if row["example"] == "softmax"])
    for row in rows:
        row |= {
            "status": "wrong",
            "note": "The generated code is not that of a plain compile: the hooks have changed it.",
        }
    payload = pipeline.build([(VIEWS[0], rows)], "en")
    assert payload.data["examples"][0]["targets"] == []
    assert "not that of a plain compile" in payload.files["softmax"]["targets"]["cpu"]["reason"]


@recorded
def test_code_that_ran_on_a_gpu_goes_before_generated_code() -> None:
    rows = copy.deepcopy([row for row in VIEWS[0].record.rows if row["example"] == "softmax"])
    for row in rows:
        if row["target"] == "cuda":
            row["device"] = "a GPU that is there"
            if row["kind"] == "graph":
                row["origin"] = "compiled and run"
    other = dataclasses.replace(VIEWS[0], machine=dataclasses.replace(VIEWS[0].machine, title="Another machine"))
    both = [(VIEWS[0], VIEWS[0].record.rows), (other, rows)]
    payload = pipeline.build(both, "en")
    assert payload.data["record"]["machine"] == VIEWS[0].machine.title
    cuda = payload.files["softmax"]["targets"]["cuda"]
    assert (cuda["generated_only"], cuda["device"]) == (False, "a GPU that is there")
    assert cuda["record"]["machine"] == "Another machine"
    assert payload.files["softmax"]["targets"]["cpu"]["record"]["machine"] == VIEWS[0].machine.title
    assert payload.files["training"]["targets"]["cuda"]["generated_only"] is True
