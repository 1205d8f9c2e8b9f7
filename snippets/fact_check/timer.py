# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 200
# value = 46
# ///
"""``Timer(...).blocked_autorange().median`` is the way to compare, says a blog post. What does it tell, and what not?

The median is a good number for one thing: how long a steady call takes. Each case here asks it something that a
comparison of back ends needs, where the right answer is known beforehand, because the callable is made so:

    waits          calls that wait 2 ms and 3 ms: is the ratio of the medians the ratio of the calls?
    slow start     a callable whose first call takes START_S and whose later calls are the faster ones: over TEN calls,
                   does the smaller median also take less time?
    half way       the same callable timed twice, on a machine that becomes slower by half in between (the wait itself
                   does, so that it happens every time): is the ratio of the medians 1? And of blocks in turns?
    threads        does it time with as many threads as the program uses?
    block size     a compiled function that was never called before: does it, as for a warm one, take many calls into a
                   block, so that the clock's own cost is spread over them?

Columns
    claim         B18
    tried         the case, as code; names without a module are those of this file
    said, seen    what the claim predicts, and what came out
    agrees        whether the two are the same; of ratios: whether they are within TOLERANCE of each other
    status, note  "ok"; "failed" with the error, or "not measured" where nothing gets compiled here
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.benchmark import Timer

Row = dict[str, Any]

#: Ratios this near to each other count as the same.
TOLERANCE = 0.15
#: What the first call of the callable with a slow start takes, in seconds.
START_S = 0.5
TEN = 10
NOTHING_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)


class Waiting:
    """A callable whose calls take a known time, and no processor: what else runs here hardly changes it."""

    def __init__(self, call_ms: float, first_s: float = 0.0) -> None:
        self.call_ms, self.left_s = call_ms, first_s

    def __call__(self) -> None:
        """Wait; the first call waits longer."""
        time.sleep(self.left_s + self.call_ms / 1e3)
        self.left_s = 0.0


def median_ms(call: Callable[[], Any], least_s: float) -> float:
    """Return what the blog post compares: the median of blocked_autorange, in milliseconds."""
    return Timer("call()", globals={"call": call}).blocked_autorange(min_run_time=least_s).median * 1e3


def ratio_case(tried: str, said: float, seen: float) -> Row:
    """Return a case about a ratio."""
    agrees = abs(seen / said - 1) <= TOLERANCE
    return {"claim": "B18", "tried": tried, "said": f"{said:.1f}", "seen": f"{seen:.1f}", "agrees": agrees}


def value_case(tried: str, said: object, seen: object) -> Row:
    """Return a case about a value."""
    return {"claim": "B18", "tried": tried, "said": str(said), "seen": str(seen), "agrees": str(said) == str(seen)}


def waits(least_s: float) -> list[Row]:
    """Two steady callables: the number is right."""
    seen = median_ms(Waiting(3), least_s) / median_ms(Waiting(2), least_s)
    return [ratio_case("median_ms(Waiting(3)) / median_ms(Waiting(2))", 1.5, seen)]


def slow_start(least_s: float) -> list[Row]:
    """A faster callable that has to be prepared: the median does not hold what the preparation took."""
    makers = {"plain": lambda: Waiting(3), "prepared": lambda: Waiting(2, START_S)}
    medians = {name: median_ms(make(), least_s) for name, make in makers.items()}
    totals = {}
    for name, make in makers.items():
        call = make()
        start = time.perf_counter()
        for _ in range(TEN):
            call()
        totals[name] = time.perf_counter() - start
    said, seen = (min(times, key=lambda name: times[name]) for times in (medians, totals))
    return [
        value_case(f"min(plain=Waiting(3), prepared=Waiting(2, {START_S})): for _ in range({TEN}): call()", said, seen)
    ]


def half_way(least_s: float, rounds: int) -> list[Row]:
    """The same callable twice; the machine becomes slower in between."""
    call = Waiting(2)
    first = median_ms(call, least_s)
    call.call_ms *= 1.5
    apart = median_ms(call, least_s) / first
    # In turns both are hit alike.
    one, other = Waiting(2), Waiting(2)
    blocks: dict[str, list[float]] = {"one": [], "other": []}
    for index in range(rounds):
        if index == rounds // 2:
            one.call_ms *= 1.5
            other.call_ms *= 1.5
        for name, callable_ in (("one", one), ("other", other)):
            blocks[name].append(Timer("call()", globals={"call": callable_}).timeit(10).mean)
    ratios = sorted(b / a for a, b in zip(blocks["one"], blocks["other"], strict=True))
    return [
        ratio_case("median_ms(call); call.call_ms *= 1.5; median_ms(call)", 1.0, apart),
        ratio_case(
            "timeit(10), timeit(10), …; call.call_ms *= 1.5; timeit(10), timeit(10), …", 1.0, ratios[rounds // 2]
        ),
    ]


def threads() -> list[Row]:
    """The Timer's own number of threads is 1."""
    before = torch.get_num_threads()
    seen: list[int] = []
    try:
        torch.set_num_threads(2)
        Timer("seen.append(get())", globals={"seen": seen, "get": torch.get_num_threads}).blocked_autorange(
            min_run_time=0.01
        )
    finally:
        torch.set_num_threads(before)
    return [value_case("torch.set_num_threads(2); Timer('get_num_threads()').blocked_autorange()", 2, seen[-1])]


def block_size(least_s: float) -> list[Row]:
    """The size of a block is found with the first call, and the first call compiles."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    x = torch.ones(8)
    compiled = torch.compile(lambda x: torch.relu(x) + 1, backend="aot_eager")
    cold = Timer("f(x)", globals={"f": compiled, "x": x}).blocked_autorange(min_run_time=least_s)
    if counters["stats"]["unique_graphs"] == 0:
        empty = dict.fromkeys(("tried", "said", "seen", "agrees"))
        return [empty | {"claim": "B18", "status": "not measured", "note": NOTHING_COMPILED}]
    warm = Timer("f(x)", globals={"f": compiled, "x": x}).blocked_autorange(min_run_time=least_s)
    said, seen = warm.number_per_run > 1, cold.number_per_run > 1
    return [value_case("c = torch.compile(f); Timer('c(x)').blocked_autorange().number_per_run > 1", said, seen)]


def run(*, least_s: float = 0.5, rounds: int = 20) -> list[Row]:
    """Try the cases and return a row each (columns: module docstring).

    ``least_s``: how long each blocked_autorange measures at least; ``rounds``: of blocks in turns.
    """
    cases: Sequence[Callable[[], list[Row]]] = (
        lambda: waits(least_s),
        lambda: slow_start(least_s),
        lambda: half_way(least_s, rounds),
        threads,
        lambda: block_size(least_s),
    )
    rows: list[Row] = []
    for attempt in cases:
        try:
            rows += [{"status": "ok", "note": None} | row for row in attempt()]
        except Exception as error:
            note = f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
            empty: Row = dict.fromkeys(("tried", "said", "seen", "agrees"))
            rows.append(empty | {"claim": "B18", "status": "failed", "note": note})
    return rows


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="timer-", ignore_cleanup_errors=True) as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        for row in run():
            print(f"said {row['said']}, seen {row['seen']}: {row['tried']} {row['note'] or ''}")
