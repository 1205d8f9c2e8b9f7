# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 3600
# value = 10
# on_request = true
# ///
"""The usual benchmark recipe and compare_backends.py, each repeated on the same model: do they agree with themselves?

The usual recipe, as one finds it everywhere: one process; for each back end in turn compile the model, call it once,
take ``torch.utils.benchmark.Timer(...).blocked_autorange().median``, and call the smallest the winner. Nothing in it
is wrong, but back ends are timed one after another (whatever the machine does meanwhile hits one of them), each in
one place in memory, and once. The tool is run as ``python compare_backends.py MODEL``, with its defaults.

Both take turns, each time in fresh processes, on the same model on the same machine: all that changes from one run to
the next is chance. Wants ``compare_backends.py`` beside it, and ``../models/resnet18.py``. Takes most of an hour.

Columns
    kind               "run": one back end in one run; "summary": one back end over all runs of its method
    model              "demo MLP" (512-256-128-10, batch 64) or "ResNet-18" (a quarter as wide, 96 x 96 pixels, batch 2;
                       on a GPU the full one, 224 x 224, batch 64)
    method             "usual recipe" or "compare_backends"
    run                number of the run, from 1
    backend            "none" (not compiled), "aot_eager", "inductor"; on CUDA also "cudagraphs" and others
    status, note       "ok", or "failed" with the reason in note
    device, threads    "cpu" or "cuda"; CPU threads of torch
    wall_s             the whole run, in seconds
    outside_ratio      share of the tool's run that was neither compiling nor stepping
    step_us            the recipe: median that blocked_autorange gives; the tool: median of its blocks
    speedup_ratio      time of none / time of this, in the same run: above 1 is faster
    verdict            of the tool: "faster", "slower", "no difference"
    chosen             whether this run names it: the recipe's winner; the tool's pick from a warm start
    chosen_cold        the same for the tool's pick from a cold start; the recipe knows no compile time
    In a summary: runs (that came out), times_chosen and times_chosen_cold; speedup_least_ratio, speedup_ratio (median),
    speedup_greatest_ratio; times_faster, times_slower, times_no_difference; same_verdict (runs that gave the most
    frequent verdict); choices (how many different back ends the method named, over its runs); method_version of the
    tool
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.benchmark import Timer

Row = dict[str, Any]

HERE = Path(__file__).resolve().parent
TOOL = HERE / "compare_backends.py"
MODELS = {"demo MLP": (TOOL, "demo_mlp"), "ResNet-18": (HERE.parent / "models" / "resnet18.py", "build")}
METHODS = ("usual recipe", "compare_backends")
NONE = "none"
VERDICTS = ("faster", "slower", "no difference")


def backends() -> tuple[str, ...]:
    """Return what the tool compares on this device by default: NAME or NAME:MODE."""
    more = ("inductor:reduce-overhead", "cudagraphs") if torch.cuda.is_available() else ()
    return (NONE, "aot_eager", "inductor", *more)


# ---------------------------------------------------------------- the usual recipe


def load(path: Path, factory: str) -> tuple[nn.Module, tuple[Any, ...]]:
    """Return a model and its inputs from a factory in a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[path.stem] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model, inputs = getattr(module, factory)()
    return model, inputs if isinstance(inputs, tuple) else (inputs,)


@torch.no_grad()
def recipe(path: Path, factory: str, threads: int) -> dict[str, float]:
    """Time each back end in turn, as it is usually done; returns seconds a step."""
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, inputs = load(path, factory)
    model, inputs = model.eval().to(device), tuple(tensor.to(device) for tensor in inputs)
    medians: dict[str, float] = {}
    for backend in backends():
        torch._dynamo.reset()
        name, _, mode = backend.partition(":")
        call = model if backend == NONE else torch.compile(model, backend=name, mode=mode or None)
        call(*inputs)
        timer = Timer("call(*inputs)", globals={"call": call, "inputs": inputs}, num_threads=threads)
        medians[backend] = timer.blocked_autorange().median
    return medians


# ---------------------------------------------------------------- one run


def ended(command: list[str], environment: dict[str, str], limit_s: float) -> tuple[str | None, str]:
    """Run a command; returns why it failed (None where it did not) and its output."""
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer within {limit_s:g} s", ""
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return f"the process ended with code {done.returncode}: {last[:300]}", ""
    return None, done.stdout


def by_recipe(model: str, cache: str, limit_s: float) -> list[Row]:
    """Run the usual recipe once in a fresh process on a warm cache; one row a back end."""
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": cache, "TMPDIR": cache}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        answer = Path(folder, "answer.json")
        failure, _ = ended([sys.executable, __file__, "--recipe", model, str(answer)], environment, limit_s)
        if failure:
            return [{"backend": name, "status": "failed", "note": failure} for name in backends()]
        steps: dict[str, float] = json.loads(answer.read_text())
    winner = min(steps, key=lambda name: steps[name])
    return [
        {
            "backend": name,
            "step_us": step_s * 1e6,
            "speedup_ratio": steps[NONE] / step_s,
            "chosen": name == winner,
        }
        for name, step_s in steps.items()
    ]


def by_tool(model: str, limit_s: float, options: Sequence[str]) -> list[Row]:
    """Run the tool once; one row a back end."""
    path, factory = MODELS[model]
    command = [sys.executable, str(TOOL), f"{path}:{factory}", "--quiet", "--json", "-", *options]
    failure, output = ended(command, dict(os.environ), limit_s)
    if failure:
        return [{"backend": name, "status": "failed", "note": failure} for name in backends()]
    report = json.loads(output)
    rows: list[Row] = []
    for found in report["rows"]:
        if found["variant"] == "eager again":
            continue
        row = {key: found[key] for key in ("status", "note", "step_us", "speedup_ratio", "verdict")}
        row |= {"backend": NONE if found["variant"] == "eager" else found["variant"], "chosen": found["pick_warm"]}
        row |= {"chosen_cold": found["pick_cold"], "outside_ratio": report["clock_s"]["outside_ratio"]}
        rows.append(row | {"method_version": report["method"]})
    return rows


# ---------------------------------------------------------------- over all runs


EMPTY: Row = dict.fromkeys(
    (
        "note", "step_us", "speedup_ratio", "verdict", "chosen", "chosen_cold", "outside_ratio", "method_version",
        "runs", "times_chosen", "times_chosen_cold", "speedup_least_ratio", "speedup_greatest_ratio", "times_faster",
        "times_slower", "times_no_difference", "same_verdict", "choices", "run", "wall_s",
    )
)  # fmt: skip


def summary(rows: Sequence[Row]) -> list[Row]:
    """Return a row per back end over the runs of one model and method (columns: module docstring)."""
    answer: list[Row] = []
    chosen = {row["backend"] for row in rows if row["chosen"]}
    for backend in dict.fromkeys(row["backend"] for row in rows):
        mine = [row for row in rows if row["backend"] == backend]
        good = [row for row in mine if row["status"] == "ok"]
        line = mine[0] | EMPTY | {"kind": "summary", "runs": len(good), "method_version": mine[0]["method_version"]}
        if not good:
            answer.append(line | {"status": "failed", "note": mine[0]["note"]})
            continue
        verdicts = Counter(row["verdict"] for row in good if row["verdict"])
        ratios = [row["speedup_ratio"] for row in good]
        walls = [row["wall_s"] for row in good]
        outside = [row["outside_ratio"] for row in good if row["outside_ratio"] is not None]
        line |= {
            "status": "ok",
            "times_chosen": sum(row["chosen"] for row in good),
            "choices": len(chosen),
            "speedup_least_ratio": min(ratios),
            "speedup_ratio": statistics.median(ratios),
            "speedup_greatest_ratio": max(ratios),
            "step_us": statistics.median(row["step_us"] for row in good),
            "wall_s": statistics.median(walls),
            "outside_ratio": statistics.median(outside) if outside else None,
        }
        if verdicts:
            line |= {
                f"times_{name.replace(' ', '_')}": verdicts[name] for name in ("faster", "slower", "no difference")
            }
            line["same_verdict"] = max(verdicts.values())
        if good[0]["chosen_cold"] is not None:
            line["times_chosen_cold"] = sum(row["chosen_cold"] for row in good)
        answer.append(line)
    return answer


def run(
    *,
    models: Sequence[str] = tuple(MODELS),
    repeats: int = 20,
    budget_s: float = 3300.0,
    limit_s: float = 600.0,
    options: Sequence[str] = (),
) -> list[Row]:
    """Repeat both methods in turn and return a row per run and back end, and the summaries.

    ``budget_s``: no run is started after so many seconds, so that a slow machine ends with fewer runs; ``limit_s`` is
    for one run; ``options`` go to the tool (for a short try; the defaults are what is to be tested).
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    began = time.monotonic()
    found: dict[tuple[str, str], list[Row]] = {(model, method): [] for model in models for method in METHODS}
    with tempfile.TemporaryDirectory(prefix="repeated-runs-", ignore_cleanup_errors=True) as cache:
        # Models take turns too: a slow machine then has the same number of runs of each.
        for number in range(1, repeats + 1):
            for model, method in found:
                start = time.monotonic()
                if start - began > budget_s:
                    break
                # The runner's own limit must not be met: it would take all rows with it.
                left_s = min(limit_s, max(30.0, budget_s + 200 - (start - began)))
                rows = by_recipe(model, cache, left_s) if method == METHODS[0] else by_tool(model, left_s, options)
                common = {"kind": "run", "model": model, "method": method, "device": device, "threads": 1}
                common |= {"status": "ok", "run": number, "wall_s": time.monotonic() - start}
                found[model, method] += [EMPTY | common | row for row in rows]
                print(number, model, method, [row["backend"] for row in rows if row.get("chosen")], flush=True)
    return [row for rows in found.values() for row in summary(rows)] + [row for rows in found.values() for row in rows]


def main(arguments: Sequence[str]) -> None:
    """Repeat and print; with ``--recipe MODEL FILE`` do the recipe once for the parent process."""
    if arguments[:1] == ["--recipe"]:
        path, factory = MODELS[arguments[1]]
        torch.set_num_threads(1)
        Path(arguments[2]).write_text(json.dumps(recipe(path, factory, 1)))
        return
    for row in run():
        if row["kind"] == "summary":
            span = "".join(f"{row[f'speedup{part}_ratio'] or 0:8.3f}" for part in ("_least", "", "_greatest"))
            named = f"named {row['times_chosen']} of {row['runs']}"
            print(f"{row['model']:10} {row['method']:17} {row['backend']:12} {span}  {named}")


if __name__ == "__main__":
    main(sys.argv[1:])
