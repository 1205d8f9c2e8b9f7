"""The data of the pipeline explorer: the stages of each example from the record of pipeline/capture.

One file lists the examples; each example has a file of its own with the lines of every stage. A line has the text
and the keys of its operators ("fw:exp"): lines that share a key show the same operator.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from kitchen import data, labels, results
from kitchen.context import Language
from kitchen.data import Row, View
from kitchen.tools import Payload

SNIPPET = "pipeline/capture"
PLAIN = Path(__file__).parent / "plain" / "pipeline.toml"
TARGETS = ("cpu", "cuda")

#: The stages that a back end goes through, in order; {} is the pass.
THROUGH = {
    "eager": ["source", "bytecode", "eager"],
    "aot_eager": ["source", "bytecode", "dynamo", "guards", "rewritten", "aot_eager_{}"],
    "cudagraphs": ["source", "bytecode", "dynamo", "guards", "rewritten", "cudagraphs_{}"],
    "inductor": [
        *("source", "bytecode", "dynamo", "guards", "rewritten"),
        *("aot_{}", "post_{}", "ir_pre_{}", "ir_post_{}", "kernel_{}", "wrapper_{}"),
    ],
}
WORDED = {"guards": "guards", "bytecode": "bytecode", "rewritten": "bytecode"}

Found = tuple[View, list[Row]]
Json = dict[str, Any]


def payload(language: Language) -> Payload:
    """The examples, and a part for each."""
    shown = [view for view in data.views(SNIPPET) if view.ok]
    return build([(view, view.record.rows) for view in shown], language)


def build(found: list[Found], language: Language) -> Payload:
    """The payload of the rows of each machine, the one that is shown first in front."""
    if not found:
        return Payload({"examples": [], "record": None})
    words = Words(language)
    ids = list(dict.fromkeys(row["example"] for _, rows in found for row in rows))
    listed: list[Json] = []
    parts: dict[str, Json] = {}
    for example in ids:
        told = {key: words.of("examples", example, key) for key in ("title", "about")}
        targets = {target: _target(found, example, target, words) for target in TARGETS}
        there = [target for target, part in targets.items() if part["graphs"]]
        listed.append({"id": example, **told, "part": example, "targets": there})
        source = {"url": f"snippets/{SNIPPET}.py"}
        parts[example] = {"id": example, **told, "source": source, "targets": targets}
    return Payload({"examples": listed, "record": _record(found[0][0])}, parts)


def _record(view: View) -> Json:
    """Where the rows of a machine come from."""
    path, environment = view.record.path, view.record.run.environment
    below = path.relative_to(results.RESULTS).as_posix() if path.is_relative_to(results.RESULTS) else path.name
    return {
        "url": f"results/{below}",
        "machine": view.machine.title,
        "torch": environment.get("torch"),
        "triton": environment.get("triton"),
        "date": view.record.started[:10],
        "stale": view.stale,
    }


def _target(found: list[Found], example: str, target: str, words: Words) -> Json:
    """One example for one target, from the machine that ran it; else from the first that generated it."""
    chosen: tuple[View, list[Row]] | None = None
    reasons: list[str] = []
    for view, rows in found:
        mine = [row for row in rows if row["example"] == example and row["target"] == target]
        good = [row for row in mine if data.row_ok(row)]
        reasons += [row["note"] for row in mine if not data.row_ok(row)]
        graphs = [row for row in good if row["kind"] == "graph"]
        if not graphs or len(good) != len(mine):
            continue
        if chosen is None or _ran(graphs[0]) > _ran(chosen[1][0]):
            chosen = view, sorted(good, key=lambda row: row["kind"] != "graph")
    if chosen is None:
        reason = labels.note(reasons[0], words.language) if reasons else None
        return {"generated_only": target == "cuda", "graphs": [], "backends": {}, "notes": [], "reason": reason}
    view, rows = chosen
    graphs = [row for row in rows if row["kind"] == "graph"]
    stages = [row for row in rows if row["kind"] == "stage"]
    generated = not _ran(graphs[0])
    names = [stage["stage"] for stage in stages]
    return {
        "generated_only": generated,
        "graphs": [_graph(row, graphs, [s for s in stages if s["graph"] == row["graph"]], words) for row in graphs],
        "backends": {row["backend"]: _backend(row, target, names, words) for row in rows if row["kind"] == "backend"},
        "notes": _notes(graphs, stages, generated, words),
        "device": graphs[0]["device"],
        "record": _record(view),
    }


def _ran(row: Row) -> bool:
    return bool(row["origin"] == "compiled and run")


def _graph(row: Row, graphs: list[Row], stages: list[Row], words: Words) -> Json:
    """One graph: its stages line by line, its operators, its kernels."""
    operators: dict[str, Json] = json.loads(row["operators"])
    keys = {key: {**told, "label": _label(key, told)} for key, told in operators.items()}
    kernels = json.loads(row["kernels"])
    for kernel in kernels:
        kernel["keys"] = kernel.pop("operators")
        code = [line for s in stages for line in _lines(s) if line.get("block") == kernel["name"] and _kernel(s)]
        kernel["lines"] = len(code)
        kernel["label"] = ", ".join(dict.fromkeys(keys[key]["label"] for key in kernel["keys"] if key in keys))
    nodes = json.loads(row["nodes"])
    for node in nodes:
        node["keys"] = node.pop("operators")
    symbols = sorted(set(re.findall(r"\bs\d+\b", " ".join(s["text"] for s in stages if s["stage"] == "dynamo"))))
    return {
        "id": f"g{row['graph']}",
        "title": words.fill("notes", "graph", number=row["graph"], count=len(graphs)),
        "function": row["title"],
        "note": _about_graph(row, graphs, symbols, words),
        "stages": [_stage(stage, words) for stage in sorted(stages, key=lambda s: s["position"])],
        "keys": keys,
        "kernels": kernels,
        "nodes": nodes,
        "counts": {
            "python_ops": row["torch_calls"],
            "dynamo": row["torch_calls"],
            "aot": row["aten_operators"],
            "ir_nodes_before": row["loop_nodes"],
            "ir_nodes_after": row["fused_nodes"],
            "kernels": row["launches"],
        },
    }


def _kernel(stage: Row) -> bool:
    return str(stage["stage"]).startswith("kernel")


def _lines(stage: Row) -> list[Json]:
    """The lines of a stage with their keys and the kernel they belong to."""
    lines: list[Json] = []
    for text, links in zip(stage["text"].split("\n"), json.loads(stage["links"]), strict=True):
        parts = links.split()
        line: Json = {"text": text, "keys": [part for part in parts if not part.startswith("@")]}
        blocks = [part[1:] for part in parts if part.startswith("@")]
        lines.append(line | ({"block": blocks[0]} if blocks else {}))
    return lines


def _stage(stage: Row, words: Words) -> Json:
    lines = _lines(stage)
    if stage["stage"] in WORDED:
        for line in lines:
            told = words.of_line(WORDED[stage["stage"]], line["text"])
            if told:
                line["words"] = told
    return {"id": stage["stage"], "language": stage["language"], "lines": lines}


def _label(key: str, told: Mapping[str, Any]) -> str:
    """A short name of an operator: "mul" for aten.mul.Tensor; an input has the name that it has in Python."""
    if told["op"] == "placeholder":
        return told["input"] or key.partition(":")[2]
    name = re.search(r"\b(?:aten|prims|inductor_prims|prim)\.(\w+)|built-in function (\w+)", told["target"])
    return (name[1] or name[2]) if name else told["target"]


def _about_graph(row: Row, graphs: list[Row], symbols: list[str], words: Words) -> str | None:
    """Why there is more than one graph, and which this is."""
    if len(graphs) == 1:
        return None
    if any(other["title"].startswith("torch_dynamo_resume") for other in graphs):
        return words.fill("notes", "break_after" if row["title"].startswith("torch_dynamo_resume") else "break_before")
    return words.fill("notes", "symbolic", symbol=", ".join(symbols)) if symbols else words.fill("notes", "fixed")


def _backend(row: Row, target: str, stages: Iterable[str], words: Words) -> Json:
    """What one call of the function is to a back end."""
    name = row["backend"]
    there = list(dict.fromkeys(stages))
    through = [stage.format(step) for step in ("fw", "bw") for stage in THROUGH[name]]
    told = f"cudagraphs_{target}" if name == "cudagraphs" else name
    return {
        "stages": [stage for stage in dict.fromkeys(through) if stage in there],
        "launches": row["launches"],
        "operators": row["operators_run"],
        "what": words.of("backends", told),
    }


def _notes(graphs: list[Row], stages: list[Row], generated: bool, words: Words) -> list[str]:
    """What the links leave open, and how a target that is not there was captured."""
    notes = []
    if generated:
        fake = any("FakeTensor" in stage["text"] for stage in stages if stage["stage"] == "guards")
        notes += [words.fill("notes", "generated"), words.fill("notes", "fake" if fake else "moved")]
    for row in graphs:
        for note in json.loads(row["approximate"]):
            node, _, rest = note.partition(": ")
            how, _, what = rest.partition(" ")
            kinds = {"from": "borrowed", "to": "followed", "nothing": "lost"}
            notes.append(words.fill("notes", kinds[how], node=node, **{how: what}))
    return list(dict.fromkeys(notes))


@lru_cache(maxsize=4)
def _read(path: Path, mtime_ns: int) -> Json:
    with path.open("rb") as file:
        return tomllib.load(file)


class Words:
    """The plain words in one language."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.found = _read(PLAIN, PLAIN.stat().st_mtime_ns)

    def of(self, *place: str) -> str:
        """The words at a place; the last part of it where there are none (an example of a newer snippet)."""
        entry: Any = self.found
        for part in place:
            entry = entry.get(part) if isinstance(entry, dict) else None
        return str(entry[self.language]) if entry else place[-2] if place[-1] == "title" else ""

    def fill(self, *place: str, **values: object) -> str:
        """The words at a place with values filled in."""
        return self.of(*place).format_map(values)

    def of_line(self, table: str, text: str) -> str | None:
        """The words for a line of guards or bytecode: those of the first pattern found in it, without comments."""
        return _words_of_line(PLAIN, PLAIN.stat().st_mtime_ns, table, text.partition("  #")[0], self.language)


@lru_cache(maxsize=4096)
def _words_of_line(path: Path, mtime_ns: int, table: str, text: str, language: Language) -> str | None:
    entries = _read(path, mtime_ns)[table]
    return next(
        (labels.filled(entry[language], m) for entry in entries if (m := re.search(entry["pattern"], text))), None
    )
