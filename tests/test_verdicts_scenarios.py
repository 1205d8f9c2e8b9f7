"""The verdicts of the chapters Scenarios and Misconceptions follow the record, in both languages."""

from __future__ import annotations

from typing import Any

import pytest

from kitchen import verdicts
from kitchen.context import Language, PageError
from tests.page_tree import parse

Row = dict[str, Any]


def words(rule: str, rows: list[Row], language: Language = "en", **params: Any) -> str:
    """The sentences of a rule, without markup."""
    return parse(" ".join(verdicts.RULES[rule](rows, language, **params))).text.replace("\u202f", " ")


def claim_row(name: str, cases: int, as_said: int, **changes: Any) -> Row:
    """A row of misconceptions/claims as the snippet writes it."""
    holds = "no" if as_said == 0 else "yes" if as_said == cases else "in part"
    row = {"kind": "claim", "claim": name, "status": "ok", "note": None}
    return row | {"cases": cases, "as_said": as_said, "holds": holds} | changes


CLAIMS = [claim_row("one_graph", 3, 1), claim_row("old_names", 5, 0), claim_row("x", 2, 2), {"kind": "case"}]


def test_a_claim_holds_as_far_as_its_cases_do() -> None:
    assert words("claim", CLAIMS, claim="one_graph") == "Holds only in part: of 3 cases, 1 came out as said."
    assert words("claim", CLAIMS, claim="old_names").startswith("Does not hold here")
    assert words("claim", CLAIMS, claim="x").startswith("Holds here")
    assert words("claim", CLAIMS, "zh", claim="old_names") == "在这里不成立：试了 5 例，没有一例与说法相符。"
    lost = [claim_row("one_graph", 0, 0, status="failed", note="no answer within 300 s", holds=None)]
    assert words("claim", lost, "zh", claim="one_graph") == "在这里没能试成：300 s 内没有结果"
    # A record of another machine may be older than the claim.
    assert words("claim", CLAIMS, claim="not_yet_tried") == ""


def test_claims_are_counted_by_how_they_hold() -> None:
    assert words("claims", CLAIMS) == "Of 3 claims tried here, 1 don't hold, 1 hold in part, 1 hold."
    assert words("claims", [{"kind": "case"}]) == ""


def order(variant: str, **changes: Any) -> Row:
    """A row of measuring/compare_backends as the tool writes it."""
    row: Row = {"variant": variant, "model": "resnet18:build", "workload": "inference", "status": "ok"}
    row |= {"saved_us": 100.0, "verdict": "faster", "compile_cold_s": 10.0, "compile_warm_s": 1.0}
    return row | changes


def test_an_order_is_summed_from_an_empty_and_from_a_filled_cache() -> None:
    rows = [
        order("eager", saved_us=None),
        order("eager again", saved_us=0.1, verdict="no difference"),
        order("aot_eager", saved_us=-5.0, verdict="slower"),
        order("inductor"),
        order("inductor", workload="training", saved_us=1e6),
        order("inductor", model="resnet18:other", saved_us=1e6),
    ]
    text = words("order_pays", rows, steps=50_000, model="resnet18:build")
    assert text.startswith("50,000 steps from an empty cache: aot_eager never pays")
    assert "inductor does not pay (R = 0.500). From a filled one" in text
    assert text.endswith("inductor pays (R = 5.00).")
    assert "not faster" in words("order_pays", [order("inductor", verdict="no difference")], steps=10**9)
    assert "划算（R = 5.00）" in words("order_pays", rows, "zh", steps=50_000, model="resnet18:build")
    assert words("order_pays", [order("inductor", status="failed")], steps=10) == ""
    with pytest.raises(PageError, match="whole number"):
        words("order_pays", rows, steps=0)


def start(name: str, ready_s: float | None, status: str = "ok") -> Row:
    """A row of scenarios/container_start."""
    return {"start": name, "status": status, "ready_s": ready_s}


def test_a_container_is_told_by_its_three_starts() -> None:
    rows = [start("uncompiled", 2.0), start("empty", 16.0), start("cache", 5.0), start("header", 9.0)]
    assert words("container_start", rows) == (
        "An empty start takes 16.0 s to its first answer; with the cache folder in the image it takes 5.00 s, "
        "and without torch.compile 2.00 s."
    )
    assert "9.00 s" in words("container_start", rows, kept="header")
    assert words("container_start", rows, "zh").startswith(
        "空手启动，到首个回答要 16.0 s；镜像里带上缓存目录，要 5.00 s"
    )
    assert words("container_start", [*rows[:2], start("cache", None, "failed")]) == ""
    with pytest.raises(PageError, match="no start 'disk'"):
        words("container_start", rows, kept="disk")
