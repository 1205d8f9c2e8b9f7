# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11", "apache-tvm>=0.27", "psutil>=7"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 900
# value = 28
# ///
"""TVM tuned and untuned beside Inductor and no compiling: what does a search for better schedules bring, and cost?

A back end of a dozen lines (``through_tvm``) takes the graph that torch.compile captured through torch.export into
TVM. Untuned it stops there: every operator is a plain loop nest. Tuned, MetaSchedule, TVM's tuner, first tries other
schedules of each fused operator (tiles, order, vectors, unrolling) on this machine and keeps the best of each.

The model is an MLP, 512-256-128-10 with ReLU between, batch 64, float32, inference; all on one thread.

TVM's own builder and runner start worker processes, which need the package cloudpickle and must answer within 30 s
each. Here both are a few lines that build and time in the tuning process itself, a child: a schedule that crashes takes
the child down, and the row says so. Candidates are drawn at random (``replay-trace``); TVM's default, an evolution
led by a learned cost model, needs the package xgboost. How: ``trials_each`` candidates for each operator, each
timed by TVM's evaluator over at least 10 ms, the mean counts.

Steps: the variants are interleaved in fresh processes, in a new random order each round, in blocks of
``torch.utils.benchmark.Timer``. The speed-up is paired within a round; its 95 % interval is the t interval of the
processes' medians (after Kalibera and Jones, ISMM 2013). A difference within that of the A/A pair (the plain model
twice) is "no difference". Each process compiles one variant first, in a fresh cache folder: that is its first call.

Columns, ``kind`` "variant"
    backend, call      the variant, and how it is written
    status, note       "ok", or "failed", "wrong" with the reason in note; then times are None
    package, package_version, ffi_version   what compiles, and its version; apache-tvm-ffi is the layer under TVM
    device, threads    "cpu"; CPU threads of torch and of TVM
    max_rel_error      greatest absolute error over the greatest absolute value, against float64
    executed           calls that reached TVM's virtual machine in one step
    tuning_s           the search, all operators; None where nothing is tuned
    trials             candidates that were timed, all operators
    first_call_s       torch.compile() and the first call, in a fresh process that compiles nothing before (tuned: the
                       schedules are known, the search is not in it)
    step_us            median of a step; step_q1_us and step_q3_us are the quartiles over all blocks
    speedup_ratio      time of none / time of this; speedup_low and speedup_high bound its 95 % interval
    verdict            "faster", "slower" or "no difference"
    processes, rounds  how many processes timed the steps, and how many rounds each
    samples_us         every block of every process: mean of a step
Columns, ``kind`` "trial" (status and note as above)
    operator           the linear layer with what was fused into it: "inputs -> outputs"
    trial              how many candidates of it had been timed
    trial_us           time of this candidate; None where it did not run
    best_us            the best up to here
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import itertools
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.benchmark import Timer

try:
    import tvm
    from tvm import relax
    from tvm.ir.utils import derived_object
    from tvm.relax.frontend.torch import from_exported_program
    from tvm.relax.frontend.torch.dynamo import llvm_target
    from tvm.s_tir import meta_schedule
    from tvm.s_tir.meta_schedule.builder import BuilderResult, PyBuilder
    from tvm.s_tir.meta_schedule.builder.local_builder import default_build
    from tvm.s_tir.meta_schedule.runner import PyRunner, PyRunnerFuture, RunnerResult
except ImportError:
    raise SystemExit("this snippet needs TVM: pip install 'apache-tvm>=0.27' 'apache-tvm-ffi<0.1.15' psutil") from None
if importlib.util.find_spec("psutil") is None:
    raise SystemExit("TVM's tuner asks psutil how many cores there are: pip install psutil")

Row = dict[str, Any]

TOLERANCE = 1e-4
WIDTHS, BATCH = (512, 256, 128, 10), 64
UNTUNED, TUNED = "tvm, untuned", "tvm, tuned"
WRITTEN = {
    "none": "model",
    "none_again": "model",
    "inductor": 'torch.compile(model, backend="inductor")',
    UNTUNED: "torch.compile(model, backend=through_tvm())",
    TUNED: "torch.compile(model, backend=through_tvm(records))",
}
# Student's t, quantile 0.975, for 1, 2, 3 ... degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
OLD_FFI = "; apache-tvm-ffi 0.1.15 does this to TVM 0.27: pip install 'apache-tvm-ffi<0.1.15'"


# ---------------------------------------------------------------- the back end


def target() -> Any:
    """Return this CPU as TVM's target; the tuner wants the number of cores said."""
    kind = llvm_target()
    return tvm.target.Target({**({"kind": kind} if isinstance(kind, str) else kind), "num-cores": 1})


def imported(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Any:
    """Return a captured graph as TVM's module of fused, unscheduled operators.

    Weights are inputs, and a linear layer turns its own round: fused into the product, not an operator of its own.
    """
    example = tuple(torch.empty_strided(x.shape, x.stride(), dtype=x.dtype) for x in inputs)
    with torch.no_grad():
        program = torch.export.export(graph, example).run_decompositions()
    module = relax.transform.FuseTransposeMatmul()(from_exported_program(program))
    with target():
        return relax.get_pipeline("zero")(module)


def through_tvm(records: Any = None) -> Callable[..., Any]:
    """Return a back end for inference; with ``records``, each operator gets the best schedule that was found."""

    def compile_graph(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
        module = imported(graph, inputs)
        if records is not None:
            with target(), records:
                module = relax.transform.MetaScheduleApplyDatabase()(module)
        main = relax.VirtualMachine(relax.build(module, target=target()), tvm.cpu())["main"]

        def call(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
            RUNS[0] += 1
            return tuple(main(*(x.detach() for x in values)))

        return call

    return compile_graph


def tune(module: Any, trials_each: int, folder: str) -> Any:
    """Search schedules for every operator of a module; returns the records, which also lie in ``folder``."""
    operators = meta_schedule.relax_integration.extract_tasks(module, target())
    return meta_schedule.relax_integration.tune_relax(
        mod=module,
        params={},
        target=target(),
        work_dir=folder,
        max_trials_global=trials_each * len(operators),
        max_trials_per_task=trials_each,
        num_trials_per_iter=min(8, trials_each),
        strategy="replay-trace",
        cost_model="random",
        builder=BuildHere(),
        runner=TimeHere(),
        measure_callbacks=[meta_schedule.measure_callback.AddToDatabase()],
        seed=1,
    )


#: Calls that reached TVM's virtual machine; candidates that are built and not yet timed; what each candidate took.
RUNS, BUILT, TIMED = [0], {}, []  # type: ignore[var-annotated]


@derived_object
class BuildHere(PyBuilder):
    """Builds candidates in this process and keeps them in BUILT; TVM's own writes files in worker processes."""

    def build(self, build_inputs: list[Any]) -> list[Any]:
        """Return a name of each built candidate, or why it could not be built."""
        results = []
        for candidate in build_inputs:
            name = f"candidate {len(BUILT)}"
            try:
                BUILT[name] = default_build(candidate.mod, candidate.target, None)
                results.append(BuilderResult(name, None))
            except Exception as error:
                results.append(BuilderResult(None, str(error)))
        return results


@derived_object
class Known(PyRunnerFuture):
    """A result that is there already."""

    def __init__(self, seconds: list[float] | None, error: str | None) -> None:
        super().__init__()
        self.seconds, self.error = seconds, error

    def done(self) -> bool:
        """Nothing is waited for."""
        return True

    def result(self) -> Any:
        """Return the times in seconds, or what went wrong."""
        return RunnerResult(self.seconds, self.error)


@derived_object
class TimeHere(PyRunner):
    """Times candidates in this process."""

    def run(self, runner_inputs: list[Any]) -> list[Any]:
        """Return the results in order."""
        results = []
        for candidate in runner_inputs:
            built = BUILT[str(candidate.artifact_path)]
            shapes = [tuple(map(int, info.as_json()[2])) for info in candidate.args_info]
            values = [tvm.runtime.tensor(torch.rand(shape).numpy()) for shape in shapes]
            try:
                timer = built.time_evaluator("main", tvm.cpu(), number=1, repeat=3, min_repeat_ms=10)
                seconds = [float(value) for value in timer(*values).results]
                TIMED.append((str(shapes), statistics.fmean(seconds)))
                results.append(Known(seconds, None))
            except Exception as error:
                TIMED.append((str(shapes), None))
                results.append(Known(None, str(error)))
        return results


# ---------------------------------------------------------------- in the child processes


def build_model() -> tuple[nn.Module, torch.Tensor]:
    """Return the MLP and its input."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(WIDTHS):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval(), torch.randn(BATCH, WIDTHS[0])


def child_tune(job: Row) -> Row:
    """Capture the model, tune its operators and leave the records in the folder of the job."""
    model, x = build_model()
    modules: list[Any] = []

    def keep(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
        modules.append(imported(graph, inputs))
        return graph.forward

    with torch.no_grad():
        torch.compile(model, backend=keep)(x)
        started = time.perf_counter()
        tune(modules[0], job["trials_each"], job["records"])
    return {"tuning_s": time.perf_counter() - started, "timed": TIMED}


def prepare(model: nn.Module, variant: str, records: str) -> Callable[[torch.Tensor], Any]:
    """Return one variant of the model, not yet called."""
    if variant.startswith("none"):
        return model
    if variant == "inductor":
        return torch.compile(model, backend="inductor")
    found = meta_schedule.database.JSONDatabase(work_dir=records) if variant == TUNED else None
    return torch.compile(model, backend=through_tvm(found))


def block_s(call: Callable[[torch.Tensor], Any], x: torch.Tensor, number: int, threads: int) -> float:
    """Return the mean time of a step over ``number`` steps (s)."""
    return Timer("call(x)", globals={"call": call, "x": x}, num_threads=threads).timeit(number).mean


def child_steps(job: Row) -> Row:
    """Compile the variants in the order of the job, check them, time them in turns."""
    model, x = build_model()
    threads, order = job["threads"], random.Random(job["seed"])
    with torch.no_grad():
        exact = model.double()(x.double())
        model.float()
        model(x)
        calls: dict[str, Callable[[torch.Tensor], Any]] = {}
        answer: Row = {"first_s": {}, "error": {}, "executed": {}}
        for variant in job["variants"]:
            torch.compiler.reset()  # else the graph of the variant before, of the same module, would be found
            started = time.perf_counter()
            calls[variant] = prepare(model, variant, job["records"])
            calls[variant](x)
            answer["first_s"][variant] = time.perf_counter() - started
        for variant, call in calls.items():
            before = RUNS[0]
            error = float((call(x).double() - exact).abs().max() / exact.abs().max())
            answer["error"][variant] = error if math.isfinite(error) else 1e9
            answer["executed"][variant] = RUNS[0] - before
        numbers = {
            v: max(1, math.ceil(job["block_ms"] * 1e-3 / block_s(call, x, 5, threads))) for v, call in calls.items()
        }
        blocks: dict[str, list[float]] = {variant: [] for variant in calls}
        for _ in range(job["rounds"]):
            for variant in order.sample(list(calls), k=len(calls)):
                blocks[variant].append(block_s(calls[variant], x, numbers[variant], threads))
    return answer | {"blocks": blocks}


CHILDREN: dict[str, Callable[[Row], Row]] = {"tune": child_tune, "steps": child_steps}


def child_main(job: Row) -> None:
    """Do one job and write its answer, or what went wrong, into the answer file."""
    torch.set_num_threads(job["threads"])
    try:
        answer = CHILDREN[job["task"]](job)
    except Exception as error:
        answer = {"failed": f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]}
    Path(job["answer"]).write_text(json.dumps(answer, allow_nan=False))
    os._exit(0)


# ---------------------------------------------------------------- in the parent process


def run_child(job: Row, folder: Path, limit_s: float) -> Row:
    """Run one job in a fresh process with its caches below ``folder``; {"failed": reason} where it gave no answer."""
    folder.mkdir(parents=True, exist_ok=True)
    answer, log = folder / "answer.json", folder / "log.txt"
    environment = os.environ | {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    environment["TVM_NUM_THREADS"] = str(job["threads"])
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, __file__, "--child", json.dumps(job | {"answer": str(answer)})],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return {"failed": f"no answer within {limit_s:g} s"}
        finally:
            with contextlib.suppress(ProcessLookupError):
                if hasattr(os, "killpg"):
                    os.killpg(process.pid, signal.SIGKILL)
                else:  # Windows has no process groups of this kind
                    process.kill()
            process.wait()
    if code == 0 and answer.exists():
        result: Row = json.loads(answer.read_text())
        return result
    if code < 0:
        return {"failed": f"the process died of signal {signal.Signals(-code).name}"}
    last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
    return {"failed": f"the process ended with code {code}: {last[:300]}"}


def ratio_interval(groups: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return a ratio and its 95 % interval from the paired ratios of each process (two processes at least)."""
    values = [statistics.median(map(math.log, group)) for group in groups]
    mean = statistics.fmean(values)
    half = T_975[min(len(values) - 1, len(T_975)) - 1] * statistics.stdev(values) / math.sqrt(len(values))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def blank_row(variant: str, threads: int) -> Row:
    """Return a row of kind "variant", nothing measured yet."""
    package = "apache-tvm" if variant.startswith("tvm") else "torch"
    version = importlib.metadata.version(package) if package != "torch" else str(torch.__version__)
    row: Row = {"kind": "variant", "backend": variant, "call": WRITTEN[variant], "status": "ok", "note": None}
    row |= {"package": package, "package_version": version}
    row["ffi_version"] = importlib.metadata.version("apache-tvm-ffi") if package != "torch" else None
    row |= {"device": "cpu", "threads": threads}
    row |= dict.fromkeys(("max_rel_error", "executed", "tuning_s", "trials", "first_call_s"))
    row |= dict.fromkeys(("step_us", "step_q1_us", "step_q3_us", "speedup_ratio", "speedup_low", "speedup_high"))
    return row | {"verdict": None, "processes": 0, "rounds": 0, "samples_us": []}


def trial_rows(tuned: Row) -> list[Row]:
    """Return a row for each candidate that was timed, operator by operator."""
    shapes = list(dict.fromkeys(shape for shape, _ in tuned["timed"]))
    rows: list[Row] = []
    for shape in shapes:
        best = None
        times = [seconds for known, seconds in tuned["timed"] if known == shape]
        for trial, seconds in enumerate(times, 1):
            best = seconds if best is None or (seconds is not None and seconds < best) else best
            row: Row = {"kind": "trial", "operator": operator_name(shape), "trial": trial}
            row |= {"trial_us": seconds and seconds * 1e6, "best_us": best and best * 1e6}
            rows.append(row | {"status": "ok", "note": None})
    return rows


def operator_name(shape: str) -> str:
    """Return "inputs -> outputs" of a fused linear layer from the shapes of its arguments."""
    shapes = json.loads(shape.replace("(", "[").replace(",)", "]").replace(")", "]"))
    return f"{shapes[0][1]} -> {shapes[-1][1]}"


def add_steps(rows: dict[str, Row], runs: Sequence[Row]) -> None:
    """Put times, ratios and verdicts into the rows of the variants that all processes timed."""
    blocks = [run["blocks"] for run in runs]
    ratios = {v: [[n / t for n, t in zip(block["none"], block[v], strict=True)] for block in blocks] for v in blocks[0]}
    noise = max(abs(math.log(bound)) for bound in ratio_interval(ratios["none_again"])[1:])
    for variant in blocks[0]:
        row = rows[variant]
        row["samples_us"] = samples = [seconds * 1e6 for block in blocks for seconds in block[variant]]
        row["step_q1_us"], row["step_us"], row["step_q3_us"] = statistics.quantiles(samples, n=4, method="inclusive")
        row["processes"], row["rounds"] = len(runs), len(blocks[0][variant])
        row["max_rel_error"] = max(run["error"][variant] for run in runs)
        row["executed"] = runs[0]["executed"][variant]
        if not variant.startswith("none"):
            firsts = [run["first_s"][variant] for run in runs if next(iter(run["first_s"])) == variant]
            row["first_call_s"] = statistics.median(firsts) if firsts else None
        if variant != "none":
            ratio, low, high = ratio_interval(ratios[variant])
            row["speedup_ratio"], row["speedup_low"], row["speedup_high"] = ratio, low, high
            within = low <= 1 <= high or abs(math.log(ratio)) <= noise
            row["verdict"] = "no difference" if within else "faster" if ratio > 1 else "slower"


def fail(row: Row, status: str, note: str) -> None:
    """Mark a row, and take its times away."""
    row |= {"status": status, "note": note, "verdict": None, "samples_us": []}
    for column in row:
        if column.endswith(("_us", "_s", "_ratio", "_low", "_high")) and column != "samples_us":
            row[column] = None


def run(
    *,
    trials_each: int = 32,
    processes: int = 6,
    rounds: int = 12,
    block_ms: float = 15.0,
    threads: int = 1,
    child_limit_s: float = 400.0,
) -> list[Row]:
    """Tune, compile, check and time; one row for each variant and each candidate (columns: module docstring).

    ``trials_each``: candidates an operator; ``processes`` (two at least) x ``rounds`` blocks of ``block_ms``
    milliseconds; a child that takes longer than ``child_limit_s`` is killed, and its rows say so.
    """
    if processes < 2:
        raise ValueError(f"processes = {processes}: an interval needs at least two")
    rows = {variant: blank_row(variant, threads) for variant in WRITTEN}
    trials: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="tvm-tuning-", ignore_cleanup_errors=True) as name:
        records = Path(name, "records")
        records.mkdir()
        common: Row = {"threads": threads, "block_ms": block_ms, "rounds": rounds, "records": str(records)}
        tuned = run_child(common | {"task": "tune", "trials_each": trials_each}, Path(name, "tune"), child_limit_s)
        compiled = ["inductor", UNTUNED, TUNED]
        if "failed" in tuned:
            more = OLD_FFI if "SIGSEGV" in tuned["failed"] else ""
            fail(rows[TUNED], "failed", f"tuning: {tuned['failed']}{more}")
            compiled.remove(TUNED)
        else:
            trials = trial_rows(tuned)
            rows[TUNED]["tuning_s"] = tuned["tuning_s"]
            rows[TUNED]["trials"] = sum(row["trial_us"] is not None for row in trials)
        runs: list[Row] = []
        for number in range(processes):
            turned = compiled[number % len(compiled) :] + compiled[: number % len(compiled)]
            job = common | {"task": "steps", "seed": number, "variants": [*turned, "none", "none_again"]}
            runs.append(run_child(job, Path(name, f"steps-{number}"), child_limit_s))
        lost = [run["failed"] for run in runs if "failed" in run]
        if lost:
            for row in rows.values():
                if row["status"] == "ok":
                    fail(row, "failed", lost[0])
        else:
            add_steps(rows, runs)
    for row in rows.values():
        if row["status"] == "ok" and not row["max_rel_error"] <= TOLERANCE:
            fail(row, "wrong", f"relative error {row['max_rel_error']:.2g} against float64 is above {TOLERANCE:g}")
    return [*rows.values(), *trials]


def main(arguments: Sequence[str]) -> None:
    """Measure and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    rows = run()
    for row in rows:
        if row["kind"] == "variant":
            step = f"{row['step_us']:10.1f} us" if row["step_us"] else row["note"]
            ratio = f"{row['speedup_ratio']:7.3f}x {row['verdict']}" if row["speedup_ratio"] else ""
            search = f"  search {row['tuning_s']:.0f} s, {row['trials']} trials" if row["tuning_s"] else ""
            print(f"{row['backend']:13} {step} {ratio}{search}")
    best = {row["operator"]: row["best_us"] for row in rows if row["kind"] == "trial"}
    for operator, best_us in best.items():
        print(f"best of {operator}: {best_us:.1f} us")


if __name__ == "__main__":
    main(sys.argv[1:])
