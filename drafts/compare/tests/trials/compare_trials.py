"""Long statistical trials of the comparison tool, for a quiet hour: not part of the test suite.

    python tests/trials/compare_trials.py aa      --runs 40 --out aa.json        the same thing twice: claims at most 2
    python tests/trials/compare_trials.py planted --runs 10 --out planted.json   10 % slower: found at least 9 times
    python tests/trials/compare_trials.py repeat  --runs 20 --out repeat.json    default run: same result in 19
    python tests/trials/compare_trials.py timer   --runs 1  --out timer.json     steps within 3 % of Timer's median
    python tests/trials/compare_trials.py recipe  --runs 20 --out recipe.json    the usual recipe, for comparison

``--models mlp,cnn,chain`` chooses (default: what the aim names). The file is written anew after each run, so that an
interrupted trial keeps what it has. Exit code 0 where the aim was reached, 1 where it was missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

REPO = Path(__file__).resolve().parents[2]
TOOL = REPO / "snippets/measuring/compare_backends.py"
RECIPE = REPO / "snippets/measuring/usual_recipe.py"
MODELS = {
    "mlp": f"{TOOL}:demo_mlp",
    "cnn": f"{REPO / 'snippets/models/resnet18.py'}:build",
    "chain": f"{REPO / 'snippets/models/pointwise_chain.py'}:build",
}
#: As compare_backends.py --keep-memory does.
KEEP_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "134217728",
}
SHORT = ("--seconds", "2", "--processes", "4")
Result = dict[str, Any]


# ---- what is handed to the tool


def tenth_slower(model: torch.nn.Module) -> Callable[..., Any]:
    """The model, then idle spinning for a tenth of its own step time (measured at the first call)."""
    spin_s = 0.0

    def call(*args: Any) -> Any:
        nonlocal spin_s
        if not spin_s:
            step = torch.utils.benchmark.Timer("model(*args)", globals={"model": model, "args": args})
            spin_s = 0.1 * step.blocked_autorange(min_run_time=0.2).median
        answer = model(*args)
        end = time.perf_counter() + spin_s
        while time.perf_counter() < end:
            pass
        return answer

    return call


# ---- one run


def run_tool(model: str, *arguments: str) -> Result:
    """Run the tool once; returns what the trials look at."""
    start = time.monotonic()
    command = [sys.executable, str(TOOL), MODELS[model], "--quiet", "--json", "-", *arguments]
    environ = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    if done.returncode:
        raise RuntimeError(f"the tool ended with code {done.returncode}: {done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    kept = ("verdict", "speedup_ratio", "speedup_low", "speedup_high", "step_us", "compile_cold_s", "compile_warm_s",
            "status", "processes", "break_even_cold", "resolved")  # fmt: skip
    return {
        "wall_s": time.monotonic() - start,
        "rows": {row["variant"]: {key: row[key] for key in kept} for row in report["rows"]},
        "picks": {s: [r["variant"] for r in report["rows"] if r[f"pick_{s}"]] for s in ("cold", "warm")},
        "noisy": report["noisy"],
        "warnings": report["warnings"],
        "clock_s": report["clock_s"],
        "machine": report["environment"]["machine"],
        "torch": report["environment"]["torch"],
    }


def claims(results: Sequence[Result], variant: str) -> Counter[str]:
    """How often each verdict was given."""
    return Counter(str(result["rows"][variant]["verdict"]) for result in results)


# ---- the trials: each gives (function of one run, summary of all, whether the aim was reached)


def aa_run(model: str) -> Result:
    """eager, its A/A copy, and a third copy that the tool takes for a variant like any other."""
    return run_tool(model, *SHORT, "--variants", "eager,eager")


def aa_summary(results: Sequence[Result]) -> Result:
    """At most 2 of 40 (5 %) may be claimed to differ."""
    wrong = sum(result["rows"]["eager#2"]["verdict"] != "no difference" for result in results)
    ratios = [result["rows"]["eager#2"]["speedup_ratio"] for result in results]
    return {
        "verdicts": claims(results, "eager#2"),
        "pair_verdicts": claims(results, "eager again"),
        "least_ratio": min(ratios),
        "greatest_ratio": max(ratios),
        "reached": wrong <= max(2, 0.05 * len(results)),
    }


def planted_run(model: str) -> Result:
    """A variant that takes a tenth longer than eager."""
    return run_tool(model, *SHORT, "--variants", f"wrap:{Path(__file__).resolve()}:tenth_slower")


def planted_summary(results: Sequence[Result]) -> Result:
    """At least 9 of 10 must be found slower."""
    label = "wrap:compare_trials.py:tenth_slower"
    found = sum(result["rows"][label]["verdict"] == "slower" for result in results)
    ratios = [result["rows"][label]["speedup_ratio"] for result in results]
    return {
        "verdicts": claims(results, label),
        "least_ratio": min(ratios),
        "greatest_ratio": max(ratios),
        "reached": found >= 0.9 * len(results),
    }


def repeat_run(model: str) -> Result:
    """The default run."""
    return run_tool(model)


def repeat_summary(results: Sequence[Result]) -> Result:
    """The same verdict of each row, and the same pick, in at least 19 of 20."""
    names = [name for name in results[0]["rows"] if name != "eager"]
    verdicts = {name: claims(results, name) for name in names}
    picks = {start: Counter(str(result["picks"][start]) for result in results) for start in ("cold", "warm")}
    counts = [*verdicts.values(), *picks.values()]
    walls = [result["wall_s"] for result in results]
    outside = [result["clock_s"]["outside_ratio"] for result in results]
    return {
        "verdicts": verdicts,
        "picks": picks,
        "ratios": {name: sorted(result["rows"][name]["speedup_ratio"] or 0 for result in results) for name in names},
        "wall_s": {"median": statistics.median(walls), "greatest": max(walls)},
        "outside_ratio": {"median": statistics.median(outside), "greatest": max(outside)},
        "reached": all(count.most_common(1)[0][1] >= 0.95 * len(results) for count in counts),
    }


TIMER_CHILD = """
import json, statistics, sys, torch
sys.path.insert(0, sys.argv[1])
import compare_backends as tool
from torch.utils.benchmark import Timer
torch.set_num_threads(1)
workload = tool.Workload(tool.Settings(model=sys.argv[2]))
answer = {}
with torch.no_grad():
    for label in ("eager", "inductor"):
        model, batches = workload.build()
        call = model if label == "eager" else torch.compile(model)
        args = batches[0].args
        cycle = workload.cycle(call, model, batches)
        for _ in range(5):
            cycle()
        step_s = tool.time_block(cycle, 20)
        timer = Timer("call(*args)", globals={"call": call, "args": args}, num_threads=1)
        ours, theirs = [], []
        for _ in range(40):
            ours.append(tool.time_steps(cycle, step_s, 0.1, tool.PARTS))
            theirs.append(timer.blocked_autorange(min_run_time=0.1).median)
        answer[label] = {"ours_us": statistics.median(ours) * 1e6, "timer_us": statistics.median(theirs) * 1e6}
print(json.dumps(answer))
"""


def timer_run(model: str) -> Result:
    """Our blocks and Timer.blocked_autorange in turn on the same callable.

    The C allocator is told to keep its memory: else the chain's steps vary by half with the page faults they take,
    whoever times them.
    """
    command = [sys.executable, "-W", "ignore", "-c", TIMER_CHILD, str(TOOL.parent), MODELS[model]]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | KEEP_MEMORY)
    answer: Result = json.loads(done.stdout.splitlines()[-1])
    return answer


def timer_summary(results: Sequence[Result]) -> Result:
    """Within 3 %."""
    ratios = {label: [r[label]["ours_us"] / r[label]["timer_us"] for r in results] for label in results[0]}
    return {"ratios": ratios, "reached": all(abs(r - 1) <= 0.03 for values in ratios.values() for r in values)}


def recipe_run(model: str) -> Result:
    """The usual recipe once, in a fresh process (its own small CNN)."""
    job = {"model": model, "threads": 1, "min_run_time_s": 0.2}
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        command = [sys.executable, "-W", "ignore", str(RECIPE), "--child", json.dumps(job | {"answer": str(answer)})]
        subprocess.run(command, capture_output=True, check=True)
        medians: Result = json.loads(answer.read_text())
    return {"step_us": {k: v * 1e6 for k, v in medians.items()}, "winner": min(medians, key=lambda k: medians[k])}


def recipe_summary(results: Sequence[Result]) -> Result:
    """Which winners it names, and how far its ratios are apart. There is no aim."""
    names = list(results[0]["step_us"])
    ratios = {name: sorted(r["step_us"]["none"] / r["step_us"][name] for r in results) for name in names}
    return {"winners": Counter(r["winner"] for r in results), "ratios": ratios, "reached": True}


TRIALS: dict[str, tuple[Callable[[str], Result], Callable[[Sequence[Result]], Result], int, tuple[str, ...]]] = {
    "aa": (aa_run, aa_summary, 40, ("mlp",)),
    "planted": (planted_run, planted_summary, 10, ("mlp", "cnn")),
    "repeat": (repeat_run, repeat_summary, 20, ("mlp", "cnn")),
    "timer": (timer_run, timer_summary, 1, ("mlp", "cnn", "chain")),
    "recipe": (recipe_run, recipe_summary, 20, ("mlp", "cnn")),
}


def write(path: Path, data: Result) -> None:
    """Write the file in one go."""
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", "utf-8")
    beside.replace(path)


def main() -> int:
    """Run one trial."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trial", choices=TRIALS)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--models", help="comma-separated: " + ", ".join(MODELS))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    one, summary, runs, models = TRIALS[given.trial]
    data: Result = {"format": "compare-backends/trial", "version": 1, "trial": given.trial}
    data |= {"started": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "models": {}}
    for model in given.models.split(",") if given.models else models:
        results: list[Result] = []
        for number in range(given.runs or runs):
            results.append(one(model))
            data["models"][model] = {"summary": summary(results), "runs": results}
            write(given.out, data)
            print(f"{given.trial} {model} {number + 1}: {json.dumps(summary(results))}", flush=True)
    return 0 if all(found["summary"]["reached"] for found in data["models"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
