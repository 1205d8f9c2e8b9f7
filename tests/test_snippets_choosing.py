"""choosing/recompiles: K compiles counted, and the sum that they go into. The verdict rules of both chapters."""

from __future__ import annotations

import ast
import functools
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from kitchen import verdicts
from kitchen.context import Language, PageError
from tests.page_tree import four_backends, parse
from tests.test_snippets import STATUSES, TIME_SUFFIXES, header, load, run_alone

pytest.importorskip("torch")

Row = dict[str, Any]

NAME = "choosing/recompiles"
FILE = Path(__file__).parents[1] / "snippets" / f"{NAME}.py"
BUDGET: Row = {"sizes": (16, 12, 8), "repeats": 1, "processes": 2, "rounds": 2, "block_ms": 2.0, "steps": 1000}


@functools.cache
def rows() -> list[Row]:
    """Return the rows of a short run."""
    return run_alone(NAME, BUDGET)


def wholes(found: list[Row]) -> dict[str, Row]:
    """Return the rows of the strategies by name."""
    return {row["strategy"]: row for row in found if row["kind"] == "strategy"}


# ---------------------------------------------------------------- the snippet


def test_header_and_documentation() -> None:
    kitchen = header(NAME)["tool"]["kitchen"]
    assert kitchen["needs"] == ["compiler"]
    assert 0 < kitchen["limit_s"] <= 600
    functions = [node for node in ast.parse(FILE.read_text()).body if isinstance(node, ast.FunctionDef)]
    assert all(ast.get_docstring(function) for function in functions)


@pytest.mark.slow
def test_rows_keep_the_contract() -> None:
    documented = ast.get_docstring(ast.parse(FILE.read_text())) or ""
    columns: dict[str, set[str]] = {}
    for row in rows():
        assert row["status"] in STATUSES
        assert set(row) <= set(re.findall(r"\w+", documented)), row
        for column, value in row.items():
            if column.startswith("samples_"):
                assert all(math.isfinite(sample) for sample in value)
            else:
                assert value is None or isinstance(value, str | int | float)
        assert columns.setdefault(row["kind"], set(row)) == set(row)
    assert json.loads(json.dumps(rows(), allow_nan=False)) == rows()


@pytest.mark.slow
def test_every_size_compiles_once_or_the_second_becomes_a_symbol() -> None:
    found = wholes(rows())
    assert {name: row["compiles"] for name, row in found.items() if row["compiles"] is not None} == {
        "none": 0,
        "static": 3,
        "default": 2,
        "padded": 1,
    }
    compiles = [(row["strategy"], row["k"], row["batch"]) for row in rows() if row["kind"] == "compile"]
    assert compiles == [
        ("static", 1, 16), ("static", 2, 12), ("static", 3, 8), ("default", 1, 16), ("default", 2, 12),
        ("padded", 1, 16),
    ]  # fmt: skip


@pytest.mark.slow
def test_the_sum_has_every_compile_in_it() -> None:
    for name, row in wholes(rows()).items():
        assert row["status"] == "ok", row["note"]
        if name in ("none", "none again"):
            continue
        prices = [r["compile_s"] for r in rows() if r["kind"] == "compile" and r["strategy"] == name]
        assert row["compile_all_s"] == pytest.approx(sum(prices))
        assert row["first_compile_s"] == prices[0]
        assert (row["recompile_s"] is None) == (len(prices) == 1)
        assert row["total_s"] == pytest.approx(row["compile_all_s"] + 1000 * row["step_us"] * 1e-6)
        assert (row["break_even"] is None) == (row["break_even_text"] == "never")


@pytest.mark.slow
def test_past_the_limit_nothing_more_is_compiled() -> None:
    limit = [row for row in rows() if row["kind"] == "limit"]
    static = [row["compiles"] for row in limit if row["strategy"] == "static"]
    assert static == [1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8]
    assert max(row["compiles"] for row in limit if row["strategy"] == "default") == 2


@pytest.mark.slow
def test_a_strategy_that_compiles_nothing_gets_no_time() -> None:
    found = run_alone(NAME, BUDGET | {"strategies": ("static",)}, TORCHDYNAMO_DISABLE="1")
    row = wholes(found)["static"]
    assert (row["status"], row["note"].split(",")[0]) == ("not measured", "No graph was captured")
    assert not any(value for column, value in row.items() if column.endswith(TIME_SUFFIXES))
    assert wholes(found)["none"]["step_us"] > 0


def whole(strategy: str, **changes: Any) -> Row:
    """Return a strategy's row before the sum is done."""
    module = load(NAME)
    row: Row = {"kind": "strategy", "strategy": strategy, "status": "ok", "steps": 10_000}
    return row | dict.fromkeys(module.WHOLE) | {"processes": 0, "rounds": 0, "samples_us": []} | changes


def test_break_even_counts_all_compiles() -> None:
    module = load(NAME)
    row = whole("static")
    module.add_compiles(row, [{"compiles": [(64, 20.0), (48, 4.0), (32, 6.0)], "error": 0.0}])
    assert (row["compiles"], row["first_compile_s"], row["recompile_s"]) == (3, 20.0, 5.0)
    table = {"none": whole("none", compile_all_s=0.0), "none again": whole("none again"), "static": row}
    times = {"none": 3e-3, "none again": 3e-3, "static": 2e-3}
    runs = [{name: [t * s] * 2 for name, t in times.items()} for s in (0.99, 1.0, 1.01)]
    module.add_steps(table, runs)
    module.add_payoff(row)
    assert row["verdict"] == "faster"
    assert row["break_even"] == 30_000
    assert row["payoff_r"] == pytest.approx(1 / 3)
    assert row["total_s"] == pytest.approx(50.0)
    slower = whole("padded", compile_all_s=20.0, step_us=4000.0, saved_us=-1000.0, verdict="slower")
    module.add_payoff(slower)
    assert (slower["break_even"], slower["break_even_text"]) == (None, "never")


# ---------------------------------------------------------------- choosing/traps


def test_choices_without_effect_are_counted() -> None:
    found = {row["case"]: row for row in load("choosing/traps").run()}
    assert {row["status"] for row in found.values()} == {"ok"}
    alone, under = found["parts alone"], found["parts under an outer compile"]
    assert (alone["inner_graphs"], alone["outer_graphs"]) == (2, 0)
    assert (under["inner_graphs"], under["outer_graphs"]) == (0, 1)
    assert found["built-in in place"]["inner_graphs"] == 0
    assert found["built-in wrapped"]["inner_graphs"] == 1
    assert found["fast path"]["operators"] == 1
    assert found["no fast path"]["operators"] > 10
    assert all(row["max_rel_error"] < 1e-5 for row in found.values())


# ---------------------------------------------------------------- the rules


def words(rule: str, found: list[Row], language: Language = "en", **params: Any) -> str:
    """The sentences of a rule, without markup."""
    return parse(" ".join(verdicts.RULES[rule](found, language, **params))).text.replace("\u202f", " ")


def order(**changes: Any) -> list[Row]:
    """Rows of the comparison tool: eager and a faster inductor."""
    common = {"model": "resnet18:build", "workload": "inference", "status": "ok"}
    eager = common | {"variant": "eager", "step_us": 3000.0}
    inductor = common | {"variant": "inductor", "step_us": 2000.0, "saved_us": 1000.0, "compile_cold_s": 30.0}
    inductor |= {"compile_warm_s": 5.0, "speedup_ratio": 1.5, "speedup_low": 1.4, "speedup_high": 1.6}
    return [eager, inductor | {"verdict": "faster"} | changes]


def test_a_compile_is_told_in_steps() -> None:
    # 2 s over 100 us a step.
    assert "as long as 20,000 steps" in words("compile_in_steps", four_backends())
    assert "20,000 步" in words("compile_in_steps", four_backends(), "zh")


def test_a_worked_order_does_the_sum() -> None:
    text = words("worked_order", order(), steps=20_000)
    assert text == (
        "The ResNet-18, inference, 20,000 steps, cold cache: compiling costs 30.0 s; a step takes 2.00 ms instead of "
        "3.00 ms and saves 1.00 ms. R = 1.00 ms × 20,000 / 30.0 s = 0.667 and N* = 30,000. It does not pay."
    )
    assert words("worked_order", order(), steps=10_000, start="warm").endswith("It pays.")
    assert words("worked_order", order(), "zh", steps=10_000, start="warm").endswith("划算。")


def test_a_worked_order_without_a_saving_has_no_break_even() -> None:
    slower = order(verdict="slower", saved_us=-100.0, speedup_ratio=0.9, speedup_low=0.85, speedup_high=0.95)
    text = words("worked_order", slower, steps=10**9)
    assert "slower when compiled (0.900×, 0.850–0.950×)" in text
    assert "R =" not in text
    same = words("worked_order", order(verdict="no difference"), steps=10**9)
    assert "no different when compiled" in same
    assert verdicts.RULES["worked_order"](order(), "en", workload="training") == []
    with pytest.raises(PageError, match="cold or warm"):
        verdicts.RULES["worked_order"](order(), "en", start="hot")


def strategies() -> list[Row]:
    """Rows of choosing/recompiles: every size compiled, the default, not compiled."""
    static = {"kind": "strategy", "strategy": "static", "compiles": 5, "first_compile_s": 8.0, "recompile_s": 3.0}
    default = {"kind": "strategy", "strategy": "default", "compiles": 2, "first_compile_s": 8.0, "recompile_s": 3.5}
    found = [static | {"compile_all_s": 20.0, "step_us": 100.0}, default | {"compile_all_s": 11.5, "step_us": 110.0}]
    found.append({"kind": "strategy", "strategy": "none", "compiles": 0, "compile_all_s": 0.0, "step_us": 400.0})
    limits = {"static": (8, 8), "default": (2, 2)}
    found += [
        {"kind": "limit", "strategy": name, "sizes_seen": seen, "compiles": min(seen, most[0])}
        for name, most in limits.items()
        for seen in range(1, 13)
    ]
    return found


def test_recompiles_are_told_and_summed() -> None:
    text = words("recompile_cost", strategies())
    assert "One compile for every size: 5 compiles, 20.0 s in all (the first 8.00 s, each later one 3.00 s)." in text
    few = words("recompile_total", strategies(), steps=1000)
    assert few.startswith("Over 1,000 steps the least total time has the model without compiling (400 ms).")
    many = words("recompile_total", strategies(), steps=10**7)
    assert many.startswith("Over 10,000,000 steps the least total time has one compile for every size")
    assert words("recompile_limit", strategies()).startswith("Of 12 sizes, dynamic=False compiled 8")


def test_nothing_recorded_says_so_only_where_it_is_so() -> None:
    row = {"cudagraph_skips": 1, "error": "nothing raised", "warning": "nothing logged", "status": "ok"}
    asked = [row, row | {"warning": "skipping"}, row | {"cudagraph_skips": None, "error": "RuntimeError: no"}]
    assert words("nothing_recorded", asked) == (
        "Asked for in 3 ways, recorded in none: 1 said nothing, 1 logged a warning, 1 raised an error."
    )
    assert words("nothing_recorded", [*asked, row | {"cudagraph_skips": 0}]) == ""


def test_graph_gain_takes_the_longest_chain() -> None:
    parts = {"kind": "parts", "work": "tiny", "speedup_ratio": 20.0, "speedup_low": 19.0, "speedup_high": 21.0}
    point = {"kind": "point", "work": "tiny", "clock": "complete"}
    found = [parts | {"m": 4}, parts | {"m": 64}]
    found += [point | {"m": 64, "way": way, "chain_us": t} for way, t in (("one by one", 200.0), ("one graph", 10.0))]
    assert words("graph_gain", found) == (
        "64 tiny operators: 200 µs one by one, 10.0 µs as one graph (20.0×, 19.0–21.0×)."
    )


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    "rule",
    [
        "compile_in_steps", "worked_order", "recompile_cost", "recompile_total", "recompile_limit", "nothing_recorded",
        "graph_gain",
    ],
)  # fmt: skip
def test_a_rule_without_numbers_says_nothing(rule: str, language: Language) -> None:
    assert verdicts.RULES[rule]([], language) == []
    assert verdicts.RULES[rule]([{}], language) == []
