"""Verdicts: each follows the record, in both languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kitchen import page, verdicts
from kitchen.context import LANGUAGES, Language
from tests.page_tree import Tree, backend_row, four_backends, parse, render, tabs, total_time, use

NAME = "overview/four_backends"


def words(rule: str, rows: list[dict[str, Any]], language: Language = "en", **params: Any) -> str:
    """The sentences of a rule, without markup."""
    return parse(" ".join(verdicts.RULES[rule](rows, language, **params))).text.replace("\u202f", " ")


def changed(backend: str, **changes: Any) -> list[dict[str, Any]]:
    return [row | changes if row["backend"] == backend else row for row in four_backends()]


def test_fastest_step_sorts_the_back_ends_by_the_records_own_judgement() -> None:
    assert words("fastest_step", four_backends()) == (
        "Faster than not compiling: inductor (1.25×, 1.22–1.29×). Slower: eager (0.909×, 0.890–0.930×). "
        "Without numbers: cudagraphs (not measured)."
    )
    same = words("fastest_step", changed("inductor", verdict="no difference"))
    assert same.startswith("No back end is faster than not compiling.")
    assert "No difference beyond the noise: inductor" in same
    assert words("fastest_step", four_backends(), "zh").startswith("比不编译更快：inductor（1.25×，1.22–1.29×）。")


def test_noise_takes_the_wider_side_of_the_interval() -> None:
    assert "up to 1.2%" in words("noise", four_backends())
    # 1 / 0.95 is further from 1 than 1.012 is.
    assert "up to 5.3%" in words("noise", changed("none_again", speedup_low=0.95))
    assert words("noise", [backend_row("none")]) == ""


def test_break_even_says_never_and_never_a_negative_count() -> None:
    text = words("break_even", four_backends())
    assert "inductor after 100,000 steps" in text
    assert "Never breaks even, because a step is not faster: eager." in text
    nobody = words("break_even", changed("inductor", break_even=None, break_even_text="never"))
    assert nobody.startswith("No back end breaks even here")
    assert "-" not in nobody.replace("–", "")
    assert "after 1 step" in words("break_even", changed("inductor", break_even=1))
    assert "after 1 steps" not in words("break_even", changed("inductor", break_even=1))


def test_pays_for_counts_r_and_gives_noise_no_credit() -> None:
    assert words("pays_for", four_backends(), steps=1_000_000).startswith(
        "Over 1,000,000 steps, inductor (R = 10.0) earns back"
    )
    few = words("pays_for", four_backends(), steps=10_000)
    assert few.startswith("Over 10,000 steps, no back end earns back")
    assert "Too few steps to pay for compiling: inductor (R = 0.100)." in few
    # A saving inside the noise, however many steps: no payoff.
    noise = words("pays_for", changed("inductor", verdict="no difference"), steps=10**9)
    assert "Never, because a step is not faster: eager and inductor." in noise
    two = [
        row | {"verdict": "faster", "saved_us": 10.0} if row["backend"] == "eager" else row for row in four_backends()
    ]
    assert "inductor (R = 10.0) and eager (R = 5.00) earn back" in words("pays_for", two, steps=1_000_000)
    assert "都多于" in words("pays_for", two, "zh", steps=1_000_000)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "Up to 100,000 steps the model without compiling takes less time in all; beyond that inductor."),
        ({"how": "extrapolated"}, "by the formula"),
        ({"how": "never", "crossing_steps": None}, "the model without compiling takes less time in all than inductor"),
        (
            {"how": "undecided", "crossing_steps": None},
            "The model without compiling takes less time at first; from these whole jobs alone, each in its own "
            "process, it can't be told whether inductor overtakes it: the interleaved table above decides.",
        ),
        (
            {"how": "undecided", "crossing_steps": None, "cheaper_at_start": None, "cheaper_later": "inductor"},
            "Which takes less time at first, the model without compiling or inductor, can't be told from these "
            "whole jobs; later inductor does.",
        ),
        (
            {"how": "undecided", "crossing_steps": None, "cheaper_at_start": None, "cheaper_later": None},
            "Which takes less time, the model without compiling or inductor, can't be told from these whole jobs",
        ),
    ],
)
def test_crossing_says_how_it_is_known(changes: dict[str, Any], expected: str) -> None:
    rows = [
        row | changes if row.get("kind") == "crossing" and row["backend"] == "inductor" else row for row in total_time()
    ]
    text = words("crossing", rows)
    assert expected in text
    assert "None" not in text + words("crossing", rows, "zh")


def test_several_undecided_crossings_are_one_sentence_in_the_plural() -> None:
    open_ = {"how": "undecided", "crossing_steps": None, "cheaper_later": None}
    rows = [row | open_ if row.get("kind") == "crossing" else row for row in total_time()]
    assert "it can't be told whether inductor and eager overtake it" in words("crossing", rows)
    assert "分不出 inductor 和 eager 会不会反超" in words("crossing", rows, "zh")


def test_break_even_gives_its_interval_and_an_open_end() -> None:
    both = words("break_even", changed("inductor", break_even_low=80_000, break_even_high=130_000))
    assert "inductor after 100,000 steps (80,000–130,000)" in both
    half = changed("inductor", break_even_low=80_000, break_even_high=None)
    assert "inductor after 100,000 steps (at least 80,000)" in words("break_even", half)
    assert "（至少 80,000）" in words("break_even", half, "zh")


def test_crossings_that_never_come_are_one_sentence_and_a_range_is_shown() -> None:
    never = {"how": "never", "crossing_steps": None}
    rows = [row | never if row.get("kind") == "crossing" else row for row in total_time()]
    assert "takes less time in all than inductor and eager." in words("crossing", rows)
    beyond = {"how": "extrapolated", "crossing_low_steps": 80_000.0, "crossing_high_steps": 131_234.0}
    rows = [row | beyond if row.get("backend") == "inductor" else row for row in total_time()]
    assert "Up to 100,000 (80,000–131,000) steps" in words("crossing", rows)


def test_launch_cost_gives_the_slope_with_its_interval() -> None:
    fit = {"kind": "fit", "op": "relu", "clock": "complete", "status": "ok", "slope_us": 2.5}
    assert words("launch_cost", [fit]) == "Each further operator relu in the chain costs 2.50 µs."
    wide = fit | {"slope_low_us": 2.4, "slope_high_us": 2.61}
    assert "2.50 µs (95% interval 2.40–2.61 µs)" in words("launch_cost", [wide])
    assert words("launch_cost", [fit | {"status": "failed", "slope_us": None}]) == ""
    both = words("launch_cost", [wide, wide | {"clock": "enqueue", "slope_us": 1.0}])
    assert "relu (until the device is done)" in both
    assert "handing over only" not in words("launch_cost", [wide, wide | {"clock": "enqueue"}], clock="complete")


def fusion(**changes: Any) -> dict[str, Any]:
    row = {"status": "ok", "n": 10, "place": "L2", "tensor_kib": 64.0, "speedup_ratio": 1.9, "speedup_low": 1.8}
    return {**row, "speedup_high": 2.0, "verdict": "faster", **changes}


def test_fusion_speedup_tells_cache_from_memory() -> None:
    rows = [
        fusion(n=2),
        fusion(),
        fusion(place="memory", tensor_kib=65536.0, speedup_ratio=4.2, speedup_low=4.0, speedup_high=4.4),
    ]
    text = words("fusion_speedup", rows)
    assert "10 operators on 64.0 KiB in the L2 cache: the fused kernel is 1.90× as fast (1.80–2.00×)." in text
    assert "10 operators on 64.0 MiB in memory" in text
    assert "2 operators" not in text
    assert "memory" not in words("fusion_speedup", rows, n=10, place="L2")
    slow = words("fusion_speedup", [fusion(verdict="slower", speedup_ratio=0.8, speedup_low=0.7, speedup_high=0.9)])
    assert "slower" in slow
    assert "no difference" in words("fusion_speedup", [fusion(verdict="no difference")])
    with pytest.raises(page.PageError, match=r"n = 3; there are \[2, 10\]"):
        words("fusion_speedup", rows, n=3)


def test_does_formula_hold_gives_the_worst_case() -> None:
    assert "lies within 1.0% (median 1.0%)" in words("does_formula_hold", total_time())
    rows = [row | {"predicted_s": row["total_s"] * 1.3} if row.get("steps") == 1 else row for row in total_time()]
    text = words("does_formula_hold", rows)
    assert text.startswith("Predicted from the other repeats")
    assert "lies within 30%" in text
    assert "at 9 of them it lies inside" in text
    rows = [row | {"predicted_s": None} if row.get("steps") == 1 else row for row in total_time()]
    rows = [row | {"prediction_low_ratio": 0.9, "prediction_high_ratio": 1.02} for row in rows]
    assert "lies within 10% (median 1.0%) of the measured one at 9 points" in words("does_formula_hold", rows)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("rule", sorted(verdicts.RULES))
def test_every_rule_speaks_both_languages_and_survives_rows_without_numbers(rule: str, language: Language) -> None:
    wanted: dict[str, dict[str, Any]] = {
        "pays_for": {"steps": 10},
        "order_pays": {"steps": 10},
        "claim": {"claim": "x"},
    }
    params = wanted.get(rule, {})
    empty = [
        backend_row("inductor", status="failed", note="x", **dict.fromkeys(("step_us", "compile_cold_s", "saved_us")))
    ]
    assert verdicts.RULES[rule](empty, language, **params) == []
    assert verdicts.RULES[rule]([{}], language, **params) == []


def test_one_sentence_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(tmp_path)
    use(tree, monkeypatch)
    tree.record(NAME, four_backends())
    tree.record(NAME, changed("inductor", verdict="slower"), machine="toy-other")
    tree.record(NAME, [backend_row("none")], machine="toy-third")
    html = render(page.verdict(NAME, "fastest_step"))
    assert tabs(html) == ["Toy Cpu", "Toy Other", "Toy Third"]
    first, second, third = (p.text for p in html.all("p", "ck-verdict"))
    assert first.startswith("Faster than not compiling: inductor")
    assert second.startswith("No back end is faster")
    assert third == "No verdict: this machine has no numbers for it."


def test_chinese_sentences_have_no_blank_between_chinese_characters() -> None:
    import re

    for rule, rows, params in (
        ("fastest_step", four_backends(), {}),
        ("break_even", four_backends(), {}),
        ("pays_for", four_backends(), {"steps": 10**6}),
        ("crossing", total_time(), {}),
        ("does_formula_hold", total_time(), {}),
    ):
        text = parse("".join(verdicts.RULES[rule](rows, "zh", **params))).text
        assert not re.search(r"[\u4e00-\u9fff，。：；（）] +[\u4e00-\u9fff，。：；（）]", text), text


def test_several_rules_share_one_set_of_tabs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(tmp_path)
    use(tree, monkeypatch)
    tree.record(NAME, four_backends())
    html = render(page.verdict(NAME, "noise", "pays_for", steps=1_000_000))
    assert [p.attributes["data-rule"] for p in html.all("p", "ck-verdict")] == ["noise", "pays_for"]
    assert len(html.all("p", "ck-provenance")) == 1
    with pytest.raises(page.PageError, match="unknown parameter 'steps'"):
        page.verdict(NAME, "noise", "fastest_step", steps=1)
