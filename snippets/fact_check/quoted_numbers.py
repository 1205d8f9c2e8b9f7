# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# limit_s = 60
# value = 54
# ///
"""The speed-ups people quote most, recomputed from the cells they are made of, and the settings behind them.

"2.27x inference, 1.41x training" is the headline of Ansel et al., "PyTorch 2", ASPLOS 2024, doi
10.1145/3620665.3640366; "43 % faster" is the headline of the announcement of PyTorch 2.0, December 2022,
pytorch.org/get-started/pytorch-2.0. Nothing here is measured: the figures below are those two texts', and the settings
are those of the torch that runs this.

The cells of the paper were read from copies of its text, made by character recognition. One cell (float16 inference on
TIMM) stands there as 2.77 and as 2.87; 2.77 is taken, the one that agrees with the headline.

Columns
    claim     number of the statement, "N1"
    tried     what was computed or read, as code
    said      what the statement predicts there
    seen      what came out
    agrees    whether the two are the same
    status    "ok"
    note      None
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Row = dict[str, Any]

SUITES = ("TorchBench", "HuggingFace", "TIMM")
#: Models of each suite (Table 1 of the paper).
MODELS = (80, 46, 62)
#: Speed-up over eager mode on an A100, geometric mean of each suite, and how many models are in it (Table 3).
PAPER = {
    ("inductor", "inference", "float32"): ((2.73, 1.47, 2.48), (74, 44, 62)),
    ("inductor", "inference", "float16"): ((2.59, 1.91, 2.77), (74, 43, 60)),
    ("inductor", "training", "float32"): ((1.38, 1.24, 1.38), (58, 46, 62)),
    ("inductor", "training", "float16"): ((1.50, 1.45, 1.50), (57, 45, 60)),
    ("xla", "inference", "float32"): ((0.80, 1.03, 1.24), (57, 33, 53)),
    ("xla", "inference", "float16"): ((0.82, 1.16, 1.59), (56, 33, 53)),
}
HEADLINE = {"inference": 2.27, "training": 1.41}
#: Faster in training on an A100, in percent, mean over 163 models (announcement).
ANNOUNCED = {"headline": 43, "float32": 21, "amp": 51}
SHARE = {"amp": 0.75, "float32": 0.25}


class Case(NamedTuple):
    """One thing that was computed or read."""

    tried: str
    said: str
    seen: str
    agrees: bool

    def row(self, claim: str) -> Row:
        """As a row."""
        return {"claim": claim, **self._asdict(), "status": "ok", "note": None}


def same(tried: str, said: Any, seen: Any) -> Case:
    """A case that agrees where both are the same text."""
    return Case(tried, str(said), str(seen), str(said) == str(seen))


def geomean(numbers: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def six_cells(backend: str, workload: str) -> list[float]:
    """Return the cells of three suites in float32 and of three in float16."""
    return [cell for precision in ("float32", "float16") for cell in PAPER[backend, workload, precision][0]]


def n1_what_the_mean_is_over() -> list[Case]:
    """The headline is the geometric mean of six cells: three suites, in float32 and in float16, each counted once."""
    return [
        same(
            f"geomean(inductor, {work}, float32 + float16)",
            f"{told:.2f}",
            f"{geomean(six_cells('inductor', work)):.2f}",
        )
        for work, told in HEADLINE.items()
    ]


def n2_one_line_gives_it() -> list[Case]:
    """torch.compile(model) gives it: the settings that were measured are the default."""
    import torch._inductor.config as config

    return [
        same("torch._inductor.config.max_autotune", True, config.max_autotune),
        same("torch._inductor.config.freezing", True, config.freezing),
        same("torch._inductor.config.triton.cudagraphs", True, config.triton.cudagraphs),
    ]


def n3_max_autotune_gives_it() -> list[Case]:
    """mode="max-autotune" gives it: that mode sets all that was set."""
    import torch._inductor

    options = torch._inductor.list_mode_options()["max-autotune"]
    names = ("max_autotune", "triton.cudagraphs", "freezing")
    return [same(f'list_mode_options()["max-autotune"].get("{name}")', True, options.get(name)) for name in names]


def n4_all_models_count() -> list[Case]:
    """All models of the three suites are in the mean."""
    cases = []
    for (backend, workload, precision), (_, counted) in PAPER.items():
        if backend == "inductor":
            cases.append(same(f"sum(models)  # {workload}, {precision}", sum(MODELS), sum(counted)))
    return cases


def n6_how_43_is_made() -> list[Case]:
    """43 % is 0.75 x AMP + 0.25 x float32."""
    mean = sum(SHARE[name] * ANNOUNCED[name] for name in SHARE)
    # Printed without a decimal: 43 stands for anything from 42.5 to 43.5.
    return [Case("0.75 * 51 + 0.25 * 21", f"{ANNOUNCED['headline']} %", f"{mean:g} %", abs(mean - 43) <= 0.5)]


def n7_faster_is_less_time() -> list[Case]:
    """43 % faster is 43 % less time."""
    saved = 1 - 1 / (1 + ANNOUNCED["headline"] / 100)
    return [same("1 - 1 / 1.43", f"{ANNOUNCED['headline']} %", f"{saved * 100:.0f} %")]


def n9_it_is_xla() -> list[Case]:
    """2.27x is XLA's."""
    return [same("geomean(xla, inference, float32 + float16)", "2.27", f"{geomean(six_cells('xla', 'inference')):.2f}")]


def n10_thirty_percent_to_twice() -> list[Case]:
    """Training gets between 30 % and 2 times as fast, on average too."""
    return [
        Case(f"announced[{name!r}]".replace("'", '"'), "≥ 30 %", f"{ANNOUNCED[name]} %", ANNOUNCED[name] >= 30)
        for name in ("float32", "amp")
    ]


#: By number; numbers that are missing here are decided by other records, or by their sources.
CLAIMS: dict[str, Callable[[], list[Case]]] = {
    function.__name__.partition("_")[0].upper(): function
    for function in (
        n1_what_the_mean_is_over,
        n2_one_line_gives_it,
        n3_max_autotune_gives_it,
        n4_all_models_count,
        n6_how_43_is_made,
        n7_faster_is_less_time,
        n9_it_is_xla,
        n10_thirty_percent_to_twice,
    )
}


def run() -> list[Row]:
    """Recompute all (columns: module docstring)."""
    return [case.row(name) for name, function in CLAIMS.items() for case in function()]


if __name__ == "__main__":
    for row in run():
        mark = "as said" if row["agrees"] else "not so"
        print(f"{row['claim']:4} {row['tried']:60} said {row['said']}, seen {row['seen']} ({mark})")
