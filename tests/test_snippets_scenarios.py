"""The snippets of the chapters Scenarios and Misconceptions, each copied alone into a folder and run on a small budget.

Contract: as in test_snippets.py. Behaviour: verdicts follow from what ran, counts agree with each other, and what
can't be measured has no numbers. The pages: every claim has its place, every answer its link.
"""

from __future__ import annotations

import ast
import functools
import json
import math
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from kitchen import labels
from tests.test_snippets import SNIPPETS, STATUSES, TIME_SUFFIXES, header, load, run_alone

pytest.importorskip("torch")

Row = dict[str, Any]
DOCS = SNIPPETS.parent / "docs"
CLAIMS, SPEED, RECOMPILES, START = (
    "misconceptions/claims",
    "misconceptions/speed",
    "scenarios/recompiles",
    "scenarios/container_start",
)
NAMES = (CLAIMS, SPEED, RECOMPILES, START)
BUDGETS: dict[str, Row] = {
    CLAIMS: {},
    SPEED: {"processes": 2, "rounds": 2, "block_ms": 2.0},
    RECOMPILES: {"calls": 12},
    START: {"starts": ("uncompiled", "empty", "artifacts", "cache"), "repeats": 1},
}


@functools.cache
def rows_of(name: str) -> list[Row]:
    """Return the rows of a snippet, run once for all tests."""
    # Without the planted back ends: one of the claims calls every back end that is listed.
    return run_alone(name, BUDGETS[name], PYTHONPATH="")


def of_kind(rows: list[Row], kind: str) -> list[Row]:
    """Return the rows of one kind."""
    return [row for row in rows if row["kind"] == kind]


def words(column: str) -> set[str]:
    """Return the values of a column that labels.toml knows."""
    return set(labels.data()["values"][column])


# ---------------------------------------------------------------- contract


@pytest.mark.parametrize("name", NAMES)
def test_header_imports_and_docstrings_keep_the_contract(name: str) -> None:
    table = header(name)
    assert table["requires-python"] == ">=3.11"
    assert table["dependencies"] == ["torch>=2.11"]
    assert set(table["tool"]["kitchen"]["needs"]) <= {"compiler"}
    text = (SNIPPETS / f"{name}.py").read_text()
    tree = ast.parse(text)
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in imported} <= set(sys.stdlib_module_names) | {"torch", "functorch"}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert all(ast.get_docstring(function) for function in functions)
    (run,) = (function for function in functions if function.name == "run")
    assert not run.args.args
    assert all(default is not None for default in run.args.kw_defaults)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_rows_keep_the_contract(name: str) -> None:
    documented = ast.get_docstring(ast.parse((SNIPPETS / f"{name}.py").read_text())) or ""
    columns: dict[str, set[str]] = {}
    for row in rows_of(name):
        assert row["status"] in STATUSES, row
        assert columns.setdefault(row.get("kind", ""), set(row)) == set(row)
        for column, value in row.items():
            assert column in documented, column
            assert labels.column(column, "zh", name).labelled or column.startswith("samples_"), column
            if column.startswith("samples_"):
                assert all(isinstance(sample, int | float) and math.isfinite(sample) for sample in value)
            else:
                assert value is None or isinstance(value, str | int | float), column
                assert not isinstance(value, float) or math.isfinite(value), column
        if row["status"] != "ok":
            assert row["note"], row
            assert not any(value for column, value in row.items() if column.endswith(TIME_SUFFIXES))
    assert [row for row in rows_of(name) if row["status"] == "ok"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_main_prints_what_was_found(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module, rows = load(name), rows_of(name)
    module.run = lambda: rows  # type: ignore[attr-defined]
    module.main(*([] if name == RECOMPILES else [[]]))
    printed = capsys.readouterr().out
    for column in ("claim", "scenario", "start"):
        for word in {row[column] for row in rows if column in row}:
            assert word in printed


# ---------------------------------------------------------------- claims


@pytest.mark.slow
def test_every_claim_is_tried_and_its_verdict_follows_from_its_cases() -> None:
    rows = rows_of(CLAIMS)
    claims = {row["claim"]: row for row in of_kind(rows, "claim")}
    assert list(claims) == list(load(CLAIMS).CLAIMS)
    for name, row in claims.items():
        assert row["status"] == "ok", (name, row["note"])
        cases = [case for case in of_kind(rows, "case") if case["claim"] == name]
        assert row["cases"] == len(cases) > 0
        assert row["as_said"] == sum(case["agrees"] for case in cases)
        assert row["holds"] == {0: "no", len(cases): "yes"}.get(row["as_said"], "in part")
        for case in cases:
            if not case["said"].startswith(">") and case["said"] != "an error":
                assert case["agrees"] == (case["said"] == case["seen"]), case
        assert {case["measure"] for case in cases} <= words("measure")


@pytest.mark.slow
def test_the_claims_come_out_as_this_version_of_torch_behaves() -> None:
    seen: dict[str, list[str]] = {}
    for row in of_kind(rows_of(CLAIMS), "case"):
        seen.setdefault(row["claim"], []).append(row["seen"])
    assert seen["compiles_at_once"][0] == "0"
    assert seen["mode_is_backend"] == ["InvalidBackend"] * 2
    assert seen["try_catches"] == ["torch.compile()"] * 2 + ["first call"] * 2 + ["backward()"]
    assert seen["every_shape_recompiles"][0] == "2"
    assert seen["dynamic_false_caches"] == ["6", "8"]
    assert seen["limit_raises"] == ["runs", "FailOnRecompileLimitHit"]
    assert seen["ran_so_recorded"] == ["1", "1"]
    assert seen["inner_stays"] == ["1", "0"]
    assert seen["fullgraph_optimises"] == ["0"]
    assert seen["timer_uses_all_threads"] == ["1"]


@pytest.mark.slow
def test_where_nothing_is_compiled_no_claim_is_judged() -> None:
    rows = run_alone(CLAIMS, {"claims": ("one_graph", "limit_raises")}, TORCHDYNAMO_DISABLE="1")
    assert [(row["kind"], row["status"], row["holds"]) for row in rows] == [("claim", "not measured", None)] * 2
    for row in rows:
        assert labels.note(row["note"], "zh") != row["note"]


def test_a_claim_that_takes_the_process_down_is_a_failed_row_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = load(CLAIMS)
    case = {"case": "f(x)", "measure": "outcome", "said": "runs", "seen": "runs", "agrees": True}

    def child(job: Row, folder: Path, limit_s: float) -> str | None:
        for name in job["claims"]:
            if name == "one_graph":
                return "the process died of signal SIGSEGV"
            with Path(job["answer"]).open("a") as answer:
                answer.write(json.dumps({"claim": name, "cases": [case]}) + "\n")
        return None

    monkeypatch.setattr(module, "run_child", child)
    rows = module.run(claims=("old_names", "one_graph", "limit_raises"))
    claims = {row["claim"]: row for row in of_kind(rows, "claim")}
    assert {name: row["status"] for name, row in claims.items()} == {
        "old_names": "ok",
        "one_graph": "failed",
        "limit_raises": "ok",
    }
    assert "SIGSEGV" in claims["one_graph"]["note"]
    assert claims["one_graph"]["holds"] is None
    monkeypatch.setattr(module, "run_child", lambda *_: None)
    silent = module.run(claims=("one_graph",))
    assert [row["status"] for row in silent] == ["failed"]
    with pytest.raises(ValueError, match="no claim named nothing_of_the_kind"):
        module.run(claims=("nothing_of_the_kind",))


def test_a_case_is_judged_by_what_was_seen() -> None:
    case = load(CLAIMS).Case
    assert case("f(x)", "graphs compiled", "1", "1").row()["agrees"] is True
    assert case("f(x)", "graphs compiled", "1", "2").row()["agrees"] is False
    assert case("f(x)", "lines that differ", "> 0", "3", True).row()["agrees"] is True


# ---------------------------------------------------------------- speed


@pytest.mark.slow
def test_speed_claims_are_judged_by_interval_and_a_a_pair() -> None:
    rows = rows_of(SPEED)
    module = load(SPEED)
    assert {row["claim"] for row in rows} == {*module.PREDICTIONS, module.GAINS_MOST, module.FIRST}
    for row in of_kind(rows, "case"):
        assert row["speedup_low"] <= row["speedup_ratio"] <= row["speedup_high"]
        assert row["agrees"] == (row["said"] == row["verdict"])
        if row["speedup_low"] <= 1 <= row["speedup_high"]:
            assert row["verdict"] == "no difference"
        assert len(row["samples_us"]) == row["processes"] * row["rounds"] == 4
        assert row["subject"] in words("subject")
    gains = {(row["subject"], row["against"]): row for row in of_kind(rows, "gain")}
    assert list(gains) == list(module.GAINS)
    assert {subject for pair in gains for subject in pair} <= words("subject")
    assert {subject for subject, _ in gains} == {"product", "product_half"}, "the verdict rests on two sizes"
    (first,) = of_kind(rows, "first")
    assert first["first_ratio"] > 2
    assert first["agrees"] is False
    for row in of_kind(rows, "claim"):
        cases = [case for case in rows if case["claim"] == row["claim"] and case["kind"] != "claim"]
        assert (row["cases"], row["as_said"]) == (len(cases), sum(case["agrees"] for case in cases))
        named = {value for case in cases for value in (case["said"], case["verdict"])}
        assert named <= words("said") | words("verdict")


def test_a_gain_sets_the_product_of_its_row_against_the_other() -> None:
    module = load(SPEED)
    shared: Row = {"claim": module.GAINS_MOST, "status": "ok", "note": None}
    times = {"product": 1.0, "product_half": 0.5, "chain": 0.25}  # of a compiled step; a plain one takes 1
    blocks = {f"{subject}/inductor": [time] * 2 for subject, time in times.items()}
    blocks |= {f"{subject}/{plain}": [1.0] * 2 for subject in times for plain in ("none", "none_again")}
    answers = [{"blocks": blocks, "graphs": 3}] * 2
    row = module.gain_row(shared, "product", "product_half", answers)
    assert (row["gain_ratio"], row["verdict"], row["agrees"]) == (pytest.approx(0.5), "less", False)
    row = module.gain_row(shared, "product_half", "product", answers)
    assert (row["gain_ratio"], row["verdict"], row["agrees"]) == (pytest.approx(2.0), "more", True)
    row = module.gain_row(shared, "product_half", "chain", answers)
    assert (row["subject"], row["against"], row["gain_ratio"]) == ("product_half", "chain", pytest.approx(0.5))


def test_the_two_products_are_compiled_for_their_own_sizes() -> None:
    """One code object with two sizes would be compiled for sizes that change: not what is to be compared."""
    torch = pytest.importorskip("torch")
    module = load(SPEED)
    sizes: list[list[Any]] = []

    def backend(graph: Any, inputs: Any) -> Any:
        sizes.append([size for tensor in inputs for size in tensor.shape])
        return graph.forward

    torch._dynamo.reset()
    for subject in ("product", "product_half"):
        model, x = module.build(subject, "cpu")
        torch.compile(model, backend=backend)(x)
    torch._dynamo.reset()
    assert [type(size) for found in sizes for size in found] == [int] * sum(map(len, sizes))
    assert len(sizes) == 2


def test_judge_takes_noise_for_no_difference() -> None:
    judge = load(SPEED).judge
    assert judge(0.2, 0.1, 0.3, 0.01) == "faster"
    assert judge(-0.2, -0.3, -0.1, 0.01) == "slower"
    assert judge(0.2, -0.1, 0.5, 0.01) == "no difference"
    assert judge(0.02, 0.01, 0.03, 0.05) == "no difference"


def test_a_claim_without_its_numbers_is_not_judged() -> None:
    module = load(SPEED)
    shared: Row = {"claim": "compiled_is_faster", "status": "ok", "note": None}
    lost = [{"failed": "the process died of signal SIGSEGV"}]
    case = module.case_row(shared, "mlp", "inductor", "faster", lost)
    assert (case["status"], case["speedup_ratio"], case["agrees"]) == ("failed", None, None)
    assert module.gain_row(shared, "product", "mlp", lost)["status"] == "failed"
    assert module.first_row(shared, {"graphs": 0})["status"] == "not measured"
    claim = module.claim_row(shared, [case])
    assert (claim["status"], claim["holds"]) == ("failed", None)
    fine = {"status": "ok", "agrees": True}
    held = [module.claim_row(shared, [fine, fine | {"agrees": second}])["holds"] for second in (True, False)]
    assert held == ["yes", "in part"]
    assert module.claim_row(shared, [fine | {"agrees": False}])["holds"] == "no"
    # A wrong result has no time and no verdict.
    blocks = {f"mlp/{variant}": [1.0, 1.0] for variant in ("none", "none_again", "inductor")}
    wrong = [{"blocks": blocks, "errors": {"mlp/inductor": math.nan}, "graphs": 1}] * 2
    row = module.case_row(shared, "mlp", "inductor", "faster", wrong)
    assert (row["status"], row["step_us"], row["max_rel_error"]) == ("wrong", None, None)
    with pytest.raises(ValueError, match="at least two"):
        module.run(processes=1)


# ---------------------------------------------------------------- scenarios


@pytest.mark.slow
def test_streams_are_counted() -> None:
    rows = rows_of(RECOMPILES)
    assert all(row["status"] == "ok" for row in rows), [row["note"] for row in rows]
    assert all(row["calls"] == 12 for row in rows)
    found = {(row["scenario"], row["stream"], row["setting"]): row for row in rows}
    assert found["decode", "fixed", "self.keys.index_copy_(2, at, token)"]["graphs"] == 1
    assert found["images", "one size", "torch.compile(model)"]["graphs"] == 1
    assert found["training", "no last batch", "DataLoader(drop_last=True)"]["graphs"] == 1
    for scenario, stream in (("decode", "growing"), ("images", "many sizes"), ("ids", "many lengths")):
        fixed = found[scenario, stream, "dynamic=False"]
        assert (fixed["graphs"], fixed["uncompiled"]) == (8, 4)
        other = next(row for key, row in found.items() if key[:2] == (scenario, stream) and key[2] != "dynamic=False")
        assert other["graphs"] <= 3
        assert other["uncompiled"] == 0
    assert found["notebook", "call run again", "fast(x)"]["graphs"] == 1
    again = next(row for row in rows if row["stream"] == "cell run again")
    assert again["graphs"] == again["calls"]
    assert {row["scenario"] for row in rows} == words("scenario")
    assert {row["stream"] for row in rows} == words("stream")


@pytest.mark.slow
def test_a_stream_that_is_not_compiled_is_not_counted() -> None:
    rows = run_alone(RECOMPILES, {"calls": 3}, TORCHDYNAMO_DISABLE="1")
    assert {(row["status"], row["graphs"]) for row in rows} == {("not measured", None)}
    assert labels.note(rows[0]["note"], "zh") != rows[0]["note"]


def test_a_stream_that_fails_is_a_row() -> None:
    module = load(RECOMPILES)

    def broken(compile_: Any, calls: int) -> Any:
        yield
        raise RuntimeError("no such shape")

    row = module.count("decode", "growing", "setting", broken, {}, 3)
    assert (row["status"], row["note"], row["graphs"]) == ("failed", "RuntimeError: no such shape", None)


def test_a_decode_stream_with_another_result_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load(RECOMPILES)
    row = module.count("decode", "fixed", "setting", module.fixed_cache, {}, 3)
    assert (row["status"], row["graphs"], row["calls"]) == ("ok", 1, 3)

    class Scaled(module.Compile):  # type: ignore[name-defined]
        def __call__(self, function: Any) -> Any:
            compiled = super().__call__(function)
            return lambda *values: compiled(*values) * 1.01

    class Lost(module.Compile):  # type: ignore[name-defined]
        def __call__(self, function: Any) -> Any:
            compiled = super().__call__(function)

            def call(*values: Any) -> Any:
                found = compiled(*values)
                if hasattr(function, "keys"):
                    function.keys = function.keys.clone()
                return found

            return call

    monkeypatch.setattr(module, "Compile", Scaled)
    row = module.count("decode", "fixed", "setting", module.fixed_cache, {}, 3)
    assert (row["status"], row["graphs"]) == ("wrong", None)
    assert "relative error 0.01 against" in row["note"]
    assert labels.note(row["note"], "zh") != row["note"]
    monkeypatch.setattr(module, "Compile", Lost)
    row = module.count("decode", "fixed", "setting", module.fixed_cache, {}, 3)
    assert (row["status"], row["note"]) == ("wrong", "the cache was not written in place")
    assert labels.note(row["note"], "zh") != row["note"]


@pytest.mark.slow
def test_a_start_finds_what_the_image_holds() -> None:
    rows = {row["start"]: row for row in rows_of(START)}
    assert {row["status"] for row in rows.values()} == {"ok"}, [row["note"] for row in rows.values()]
    assert set(rows) <= words("start")
    assert (rows["empty"]["cache_hits"], rows["uncompiled"]["cache_hits"]) == (0, 0)
    assert rows["cache"]["cache_hits"] >= 1
    assert rows["artifacts"]["cache_hits"] >= 1
    assert rows["cache"]["built"] <= rows["empty"]["built"]
    assert rows["empty"]["shipped_mib"] == rows["uncompiled"]["shipped_mib"] == 0
    assert rows["cache"]["shipped_mib"] > 0
    for row in rows.values():
        assert row["ready_s"] == pytest.approx(row["boot_s"] + row["first_call_s"])
        assert row["ready_low_s"] <= row["ready_s"] <= row["ready_high_s"]
    assert rows["empty"]["first_call_s"] > rows["uncompiled"]["first_call_s"]


def test_an_image_is_put_back_as_it_was(tmp_path: Path) -> None:
    module = load(START)
    image, box = tmp_path / "image", tmp_path / "box"
    (image / "cache").mkdir(parents=True)
    (image / "cache" / "a.so").write_bytes(b"x" * 2**20)
    (image / "artifacts.bin").write_bytes(b"")
    box.mkdir()
    (box / "left over").write_text("")
    module.put_back(box, image, ("cache",))
    assert [path.name for path in box.iterdir()] == ["cache"]
    assert (box / "cache" / "a.so").stat().st_mtime == (image / "cache" / "a.so").stat().st_mtime
    assert module.size_mib(image, ("cache",)) == 1
    assert module.size_mib(image, ()) == 0


def test_a_start_that_went_wrong_has_no_time() -> None:
    module = load(START)
    shared: Row = {"device": "cpu", "threads": 1}
    good: Row = {"error": 0.0, "graphs": 1, "hits": 0, "built": 1, "boot_s": 1.0, "first_call_s": 2.0}
    assert module.start_row("empty", shared, [good], 0.0)["ready_s"] == 3.0
    for bad, status in (
        ({"failed": "no answer within 150 s"}, "failed"),
        (good | {"error": math.nan}, "wrong"),
        (good | {"graphs": 0}, "not measured"),
    ):
        row = module.start_row("empty", shared, [good, bad], 0.0)
        assert (row["status"], row["ready_s"], row["samples_ready_s"]) == (status, None, [])
        assert labels.note(row["note"], "zh") != row["note"]
    nothing = module.start_row("cache", shared, [], 0.0)
    assert nothing["status"] == "failed"
    assert labels.note(nothing["note"], "zh") != nothing["note"]


@pytest.mark.slow
def test_a_copy_leaves_nothing_behind(tmp_path: Path) -> None:
    copy = Path(shutil.copy(SNIPPETS / f"{RECOMPILES}.py", tmp_path))
    rows = run_alone(RECOMPILES, {"calls": 2})
    assert rows
    assert [path.name for path in tmp_path.iterdir()] == [copy.name]


# ---------------------------------------------------------------- the pages


def test_every_claim_has_words_a_heading_and_its_cases_on_both_pages() -> None:
    speed = load(SPEED)
    counted = set(load(CLAIMS).CLAIMS)
    timed = {*speed.PREDICTIONS, speed.GAINS_MOST, speed.FIRST}
    assert words("claim") == counted | timed
    assert len(counted | timed) >= 20
    assert words("topic") == set(load(CLAIMS).TOPICS)
    for language in ("en", "zh"):
        page = (DOCS / language / "misconceptions" / "index.md").read_text("utf-8")
        for name in counted | timed:
            assert f"{{#{name.replace('_', '-')}}}" in page, f"{language}: {name}"
            assert f'"claim": "{name}"' in page, f"{language}: {name}"
        for name in counted:
            assert f'source("{CLAIMS}", "{name}")' in page, f"{language}: {name}"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_there_are_questions_in_three_grades_and_every_answer_leads_somewhere(language: str) -> None:
    page = (DOCS / language / "interview" / "index.md").read_text("utf-8")
    grades = re.split(r"^## ", page, flags=re.MULTILINE)[1:4]
    assert [re.search(r"\{#([a-z]+)\}", grade)[1] for grade in grades] == ["beginner", "practitioner", "engineer"]  # type: ignore[index]
    answers = [answer for grade in grades for answer in grade.split("\n??? question ")[1:]]
    assert len(answers) >= 30
    shown = set(re.findall(r'"claim", claim="(\w+)"', page))
    assert shown
    assert shown <= set(load(CLAIMS).CLAIMS)
    for answer in answers:
        assert re.search(r"\]\(\.\./[a-z/-]+\.md", answer), answer[:80]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_scenario_of_the_table_has_its_section_and_a_number(language: str) -> None:
    page = (DOCS / language / "scenarios" / "index.md").read_text("utf-8")
    sections = {m[1]: m[2] for m in re.finditer(r"^## .*?\{#([a-z-]+)\}\n(.*?)(?=^## |\Z)", page, re.M | re.S)}
    listed = re.findall(r"^\| \[[^\]]+\]\(#([a-z-]+)\)", page, flags=re.MULTILINE)
    assert len(listed) == 8
    for name in listed:
        assert re.search(r"print\((table|verdict)\(", sections[name]), name
