"""Judges of the pages on stale statements and quoted numbers: cases made of the records of other chapters."""

from __future__ import annotations

from kitchen.data import Row
from kitchen.judges import Case, judge

#: What the published launches take, with a margin (docs, numbers.md: 4 to 6 µs).
LAUNCH_US = 6.0


def _misconception(name: str, rows: list[Row]) -> list[Case]:
    """The cases of one claim of misconceptions/claims."""
    return [
        Case(str(row["case"]), str(row["said"]), str(row["seen"]), row["agrees"])
        for row in rows
        if row.get("kind") == "case" and row.get("claim") == name
    ]


@judge
def cuda_graphs_by_default(rows: list[Row]) -> list[Case]:
    """CUDA graphs are on by default: the chapter on misconceptions tried it."""
    return _misconception("cuda_graphs_by_default", rows)


@judge
def state_dict_is_the_same(rows: list[Row]) -> list[Case]:
    """A compiled model saves and loads like the model: the chapter on misconceptions tried it."""
    return _misconception("state_dict_is_the_same", rows)


@judge
def gpu_launch_takes_five_us(rows: list[Row]) -> list[Case]:
    """A further small operator in eager mode costs a launch of about 5 µs: the slopes of eager/launch_overhead on CUDA.

    Rows of a CPU say nothing about a launch on a GPU and make no case.
    """
    return [
        Case(f"{row['op']}: slope_us  # {row['clock']}", f"≤ {LAUNCH_US:g}", f"{row['slope_us']:.1f}", agrees)
        for row in rows
        if row.get("kind") == "fit" and row.get("device") == "cuda" and row.get("slope_us") is not None
        for agrees in [row["slope_us"] <= LAUNCH_US]
    ]
