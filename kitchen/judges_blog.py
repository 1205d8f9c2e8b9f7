"""Judges of the claims of the blog post that records of other snippets decide (kitchen/claims/blog.toml)."""

from __future__ import annotations

from kitchen.data import Row, numeric, row_ok
from kitchen.judges import Case, judge

#: B1: the least factor between the slowest and the fastest that bears the claim of "3 to 10 times" out.
LEAST_FACTOR = 3.0
#: B5: how much longer compiling is said to take than with Inductor.
COMPILE_FACTOR = (3.0, 5.0)
#: B5: a model that tuning makes less than this much faster was tuned before.
TUNED_ITSELF = 1.1
#: B8: what is said to be left of the memory: 30 to 50 % less.
MEMORY_LEFT = (0.5, 0.7)
#: B9: what a mix is said to gain over the best single back end.
MIX_GAIN = 1.22
#: Not compiled a second time, to know the noise: no choice.
AGAIN = ("eager again", "none_again")
UNTUNED = "tvm"
#: The language models among the models that third-party back ends were measured on.
LANGUAGE_MODELS = ("transformer_encoder", "gpt_decoder")


def _short(model: str) -> str:
    """A model without its factory, where the factory is the usual one: ``mlp:build`` is ``mlp``."""
    return model.removesuffix(":build")


def _steps(rows: list[Row]) -> dict[tuple[str, str], dict[str, float]]:
    """The step of every variant that ran right, by model (with its factory) and workload."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        step = numeric(row.get("step_us")) if row_ok(row) else None
        if step is not None and isinstance(row.get("variant"), str) and row["variant"] not in AGAIN:
            found.setdefault((str(row["model"]), str(row["workload"])), {})[row["variant"]] = step
    return found


@judge
def choice_factor(rows: list[Row]) -> list[Case]:
    """For each model and workload, how many times longer the slowest choice takes than the fastest.

    Once among what torch brings, and once with other packages, where these were measured: in one record, so that both
    times are from the same processes. TVM runs there untuned, which no one would choose, and is left out.
    """
    cases: list[Case] = []
    for scope, chosen in (
        ("", [row for row in rows if "package" not in row]),
        (", third_party", [row for row in rows if "package" in row and row.get("variant") != UNTUNED]),
    ):
        for (model, workload), steps in _steps(chosen).items():
            if len(steps) < 2:
                continue
            slow, fast = max(steps, key=lambda name: steps[name]), min(steps, key=lambda name: steps[name])
            factor = steps[slow] / steps[fast]
            tried = f"factor({_short(model)}, {workload}{scope})"
            cases.append(Case(tried, "3 to 10", f"{factor:.1f}  # {slow} / {fast}", factor >= LEAST_FACTOR))
    return cases


@judge
def nvfuser_names(rows: list[Row]) -> list[Case]:
    """Whether any name of nvFuser is a back end."""
    names = [row for row in rows if "nvfuser" in str(row.get("backend")) and row.get("kind") in ("gone", "never")]
    return [
        Case(
            f"torch.compile(model, backend='{row['backend']}')",
            "runs",
            "runs" if row["outcome"] == "runs" else str(row["error"]),
            row["outcome"] == "runs",
        )
        for row in names
        if row_ok(row)
    ]


@judge
def tvm_as_said(rows: list[Row]) -> list[Case]:
    """TVM: the names, whether it tunes itself, how long compiling takes beside Inductor, whether it comes out ahead."""
    cases: list[Case] = []
    for row in rows:
        if row_ok(row) and row.get("backend") in ("tvmgraph", "tvm") and row.get("kind") in ("never", "built in"):
            runs = row["outcome"] == "runs"
            seen = "runs" if runs else str(row["error"])
            cases.append(Case(f"torch.compile(model, backend='{row['backend']}')", "runs", seen, runs))
    variants = {str(row["backend"]): row for row in rows if row.get("kind") == "variant" and row_ok(row)}
    plain, tuned, inductor = (variants.get(name) for name in ("tvm, untuned", "tvm, tuned", "inductor"))
    if plain and tuned:
        gain = float(plain["step_us"]) / float(tuned["step_us"])
        # Had it tuned itself, there would be nothing left to gain.
        itself = gain <= TUNED_ITSELF
        cases.append(Case("step(through_tvm()) / step(through_tvm(records))", "1.0", f"{gain:.1f}", itself))
    if plain and tuned and inductor:
        base = float(inductor["first_call_s"])
        low, high = COMPILE_FACTOR
        for what, seconds in (
            ("first_call(through_tvm())", float(plain["first_call_s"])),
            ("(tune() + first_call(through_tvm(records)))", float(tuned["tuning_s"]) + float(tuned["first_call_s"])),
        ):
            factor = seconds / base
            tried = f"{what} / first_call(inductor)"
            cases.append(Case(tried, f"{low:g} to {high:g}", f"{factor:.1f}", low <= factor <= high))
    return cases


@judge
def language_inference(rows: list[Row]) -> list[Case]:
    """Inference of the language models: which is fastest, and how much of eager mode's memory is left."""
    low, high = MEMORY_LEFT
    cases: list[Case] = []
    for (model, workload), steps in _steps(rows).items():
        if model.partition(":")[0] not in LANGUAGE_MODELS or workload != "inference" or "tvm" not in steps:
            continue
        order = sorted(steps, key=lambda name: steps[name])
        for place, said in enumerate(("tvm", "inductor")):
            where = f"sorted(step, {model.partition(':')[0]})[{place}]"
            cases.append(Case(where, said, order[place], order[place] == said))
        peaks = {
            str(row["variant"]): peak
            for row in rows
            if (str(row.get("model")), row.get("workload")) == (model, workload)
            and (peak := numeric(row.get("peak_mib")) if row_ok(row) else None) is not None
        }
        for said in ("tvm", "inductor"):
            if said in peaks and "eager" in peaks:
                left = peaks[said] / peaks["eager"]
                where = f"peak_mib({said}) / peak_mib(eager)  # {model.partition(':')[0]}"
                cases.append(Case(where, f"{low:g} to {high:g}", f"{left:.2f}", left <= high))
    return cases


@judge
def mix_gains(rows: list[Row]) -> list[Case]:
    """For each model, what the best mix gains over the best single back end."""
    cases: list[Case] = []
    for row in rows:
        gain = numeric(row.get("gain_ratio")) if row_ok(row) and row.get("kind") == "gain" else None
        low = numeric(row.get("gain_low"))
        if gain is None or low is None:
            continue
        tried = f"{row['model']}: {row['mix']}  # {row['single']}"
        cases.append(Case(tried, f"{MIX_GAIN:g}", f"{gain:.2f}", row["verdict"] == "faster" and low >= MIX_GAIN))
    return cases
