# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11", "zentorch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 600
# value = 30
# ///
"""zentorch (AMD) behind torch.compile: what it replaces, whether it is right, and what it does to the weights.

zentorch is Inductor with a pass of its own: it puts zentorch operators in the place of some ATen operators. How many of
them ran in one step is counted by the profiler. Results are compared with a copy of the model in float64 (bfloat16: in
float32), made before compiling; "right" is a difference below 1e-4 (bfloat16: 3e-2) of the largest value, for the
gradients as a whole too.

Each setting is run in child processes. ``ZENDNNL_MATMUL_WEIGHT_CACHE`` tells the library underneath, ZenDNN, what to do
with weights that it has put into the order it likes; it is read once, when a process starts. A process that dies says
little about zentorch on its own, so plain Inductor is run the same number of times beside it.

Columns
    kind               "case": a model with one setting; "weights": one linear layer in fresh processes, again and
                       again; "around": what holds for the process and the installation. "second model": other weights
                       at the addresses of the first; "inductor afterwards": Inductor after a compile with zentorch;
                       "another torch": zentorch's check of the version, told that torch is a minor version newer
    case, mode         what is run; "inference" (eval mode, no gradients) or "training" (forward and backward)
    setting            environment variable of the child, or "as it comes"
    outcome            "runs"; "wrong"; "error"
    executed           zentorch operators that ran in one step, backward included
    operators          their names
    relative_error, eager_error    difference from float64: compiled, and the model without compiling (before)
    gradients          "equal", "wrong", "lost", "not wanted"
    weights            "kept" or "overwritten": the model's own parameters after the calls
    afterwards_error   difference from float64 of the model *without* compiling, after the calls
    overwritten, died, processes   in how many of so many processes the weights were overwritten; how many died
    raised_at, error, message      where an error came, its name, its first line
    capability         what torch says of the CPU: "AVX2", "AVX512"
    package, package_version, torch_version
    status, note       "ok" (also for an error that was caught: that is the finding), "failed" where the process died
"""

from __future__ import annotations

import collections
import contextlib
import copy
import importlib.metadata
import importlib.util
import itertools
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

if importlib.util.find_spec("zentorch") is None:
    matching = ".".join(torch.__version__.split(".")[:2])
    raise SystemExit(f"this snippet needs zentorch, built for this torch: pip install 'zentorch=={matching}.*'")

Row = dict[str, Any]
#: The weight cache as it comes, and the settings that the library takes.
SETTINGS = ("as it comes", "ZENDNNL_MATMUL_WEIGHT_CACHE=0", "ZENDNNL_MATMUL_WEIGHT_CACHE=1")


class Attention(nn.Module):
    """Self-attention over (2, 16, 64)."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (2, 16, 64) to the same shape."""
        query, key, value = self.qkv(x).view(2, 16, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(2, 16, 64))


def mlp() -> nn.Module:
    """Return two linear layers with ReLU between."""
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))


#: Name: how model and input are made.
CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "mlp": (mlp, lambda: torch.randn(8, 64)),
    "norm + gelu": (lambda: nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU()), lambda: torch.randn(8, 64)),
    "attention": (Attention, lambda: torch.randn(2, 16, 64)),
    "embedding bag": (
        lambda: nn.Sequential(nn.EmbeddingBag(100, 64, mode="sum"), nn.Linear(64, 64)),
        lambda: torch.randint(100, (8, 5)),
    ),
    "conv + bn": (
        lambda: nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU()),
        lambda: torch.randn(2, 3, 16, 16),
    ),
    "bfloat16": (lambda: mlp().bfloat16(), lambda: torch.randn(8, 64).bfloat16()),
}
#: What is tried around the models, and with which setting.
AROUND = (
    ("second model", SETTINGS[0]),
    ("second model", SETTINGS[1]),
    ("second model", SETTINGS[2]),
    ("inductor afterwards", SETTINGS[0]),
    ("without import", SETTINGS[0]),
    ("a mode", SETTINGS[0]),
    ("another torch", SETTINGS[0]),
)


def difference(value: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest difference over the largest value."""
    return float((value.double() - expected.double()).abs().max() / expected.double().abs().max())


def ran(call: Callable[[], Any]) -> collections.Counter[str]:
    """Call once under the profiler and return the zentorch operators that ran."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    return collections.Counter(e.name.removeprefix("zentorch::") for e in profile.events() if "zentorch::" in e.name)


def attempt(case: str, mode: str) -> Row:
    """Compile a model with zentorch, run it, and compare everything with a copy from before."""
    import zentorch  # noqa: F401  registers the name

    torch.manual_seed(0)
    torch._dynamo.reset()
    make, given = CASES[case]
    model, x = make().train(mode == "training"), given()
    low = x.dtype == torch.bfloat16
    dtype, bound = (torch.float32, 3e-2) if low else (torch.float64, 1e-4)
    untouched, reference = copy.deepcopy(model), copy.deepcopy(model).to(dtype)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    wide = x.to(dtype) if x.is_floating_point() else x

    def step(each: nn.Module, value: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(mode == "training"):
            each.zero_grad()
            result: torch.Tensor = each(value)
            if mode == "training":
                result.float().square().sum().backward()
        return result.detach()

    compiled = torch.compile(model, backend="zentorch")
    try:
        step(compiled, x)
        operators = ran(lambda: step(compiled, x))
        result = step(compiled, x)
    except Exception as error:
        return failed(error, "first call")
    expected, plain = step(reference, wide), step(untouched, x)
    gradients = "not wanted"
    if mode == "training":
        pairs = list(zip(model.parameters(), reference.parameters(), strict=True))
        lost = any(a.grad is None for a, _ in pairs)
        largest = max(float(b.grad.abs().max()) for _, b in pairs)
        worst = 0.0 if lost else max(float((a.grad.double() - b.grad).abs().max()) for a, b in pairs) / largest
        gradients = "lost" if lost else "equal" if worst < bound else "wrong"
    kept = all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    right = difference(result, expected) < bound and gradients in ("equal", "not wanted")
    return {
        "outcome": "runs" if right else "wrong",
        "raised_at": "never",
        "executed": operators.total(),
        "operators": named(operators),
        "relative_error": difference(result, expected),
        "eager_error": difference(plain, expected),
        "gradients": gradients,
        "weights": "kept" if kept else "overwritten",
        "afterwards_error": difference(step(model, x), expected),
    }


def weights_once(backend: str) -> Row:
    """Compile one linear layer with a back end; say whether it left the weights alone."""
    if backend == "zentorch":
        import zentorch  # noqa: F401  registers the name

    torch.manual_seed(0)
    model, x = nn.Linear(64, 64).eval(), torch.randn(8, 64)
    before = model.weight.detach().clone()
    with torch.no_grad():
        torch.compile(model, backend=backend)(x)
    return {"overwritten": int(not torch.equal(before, model.weight))}


def around(case: str) -> Row:
    """Try what concerns the process or the installation."""
    model, x = mlp().eval(), torch.randn(8, 64)
    at = "torch.compile()"
    try:
        if case == "another torch":
            at = "import"
            version = torch.torch_version.TorchVersion(pretended_version())
            torch.torch_version.__version__ = version
        if case != "without import":
            import zentorch  # noqa: F401
        at = "torch.compile()"
        with torch.no_grad():
            compiled = torch.compile(model, backend="zentorch", mode="reduce-overhead" if case == "a mode" else None)
            at = "first call"
            compiled(x)
            if case == "inductor afterwards":
                torch._dynamo.reset()
                compiled = torch.compile(model, backend="inductor")
                compiled(x)
            if case == "second model":
                del compiled
                return second_model(model, x)
            operators = ran(lambda: compiled(x))
    except Exception as error:
        return failed(error, at)
    return {"outcome": "runs", "raised_at": "never", "executed": operators.total(), "operators": named(operators)}


def second_model(model: nn.Module, x: torch.Tensor) -> Row:
    """Put a second set of weights where the first lay, as freeing and allocating does; compile that, and compare."""
    torch.manual_seed(1)
    torch._dynamo.reset()
    second = mlp().eval()
    with torch.no_grad():
        for old, new in zip(model.parameters(), second.parameters(), strict=True):
            old.copy_(new)
            new.data = old.data
    expected = copy.deepcopy(second).double()(x.double())
    compiled = torch.compile(second, backend="zentorch")
    result = compiled(x)
    operators = ran(lambda: compiled(x))
    worst = difference(result, expected)
    return {
        "outcome": "runs" if worst < 1e-4 else "wrong",
        "raised_at": "never",
        "executed": operators.total(),
        "operators": named(operators),
        "relative_error": worst,
    }


def named(operators: collections.Counter[str]) -> str | None:
    """Return the operators with their numbers as a text; None for none."""
    return ", ".join(f"{name} {count}" if count > 1 else name for name, count in sorted(operators.items())) or None


def pretended_version() -> str:
    """Return the version of a torch that this zentorch was not built for: the next minor one."""
    major, minor = torch.__version__.split(".")[:2]
    return f"{major}.{int(minor) + 1}.0+cpu"


def failed(error: BaseException, at: str) -> Row:
    """Return the columns of an error; the cause, where torch.compile wrapped it."""
    inner = getattr(error, "inner_exception", None) or error
    return {"outcome": "error", "raised_at": at, "error": type(inner).__name__, "message": first_line(inner)}


def first_line(error: BaseException) -> str:
    """Return the first line of a message that says something, without folders of this machine."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return re.sub(r"(?:/[\w.+-]+)+/(?=[\w.+-]+)", "", lines[0])[:240] if lines else ""


# ---------------------------------------------------------------- in the child process


def child_main(job: Row) -> None:
    """Run tries and write a line of JSON for each into the answer file, as soon as it is known."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    tries: dict[str, Callable[..., Row]] = {"case": attempt, "weights": weights_once, "around": around}
    with Path(job["answer"]).open("a") as answer:
        for kind, *arguments in job["tries"]:
            answer.write(json.dumps({"try": [kind, *arguments], "found": tries[kind](*arguments)}) + "\n")
            answer.flush()
    os._exit(0)


# ---------------------------------------------------------------- in the parent process


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and whatever it started (a C++ compiler, a compile worker)."""
    with contextlib.suppress(ProcessLookupError):  # nobody is left
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # Windows has no process groups of this kind
            process.kill()
    process.wait()


def run_child(job: Row, folder: Path, setting: str, limit_s: float) -> str | None:
    """Run tries in a fresh process with a setting; return what went wrong, or None."""
    log = folder / "log.txt"
    environment = os.environ | {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    environment.pop("ZENDNNL_MATMUL_WEIGHT_CACHE", None)
    if setting != "as it comes":
        name, _, value = setting.partition("=")
        environment[name] = value
    command = [sys.executable, __file__, "--child", json.dumps(job)]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"no answer within {limit_s:g} s"
        finally:
            end_group(process)
    if code == 0:
        return None
    if code < 0:
        return f"the process died of signal {signal.Signals(-code).name}"
    last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
    return f"the process ended with code {code}: {first_line(RuntimeError(last))}"


def answers_in(path: Path) -> list[tuple[tuple[str, ...], Row]]:
    """Return the tries and findings of the answer file; a line that was cut off is left out."""
    found: list[tuple[tuple[str, ...], Row]] = []
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            answer = json.loads(line)
            found.append((tuple(answer["try"]), answer["found"]))
    return found


def try_all(tries: Sequence[tuple[str, ...]], folder: Path, setting: str, limit_s: float, attempts: int) -> list[Row]:
    """Run tries with one setting, in a new process after each that died; return their findings in order."""
    path = folder / "answers.jsonl"
    path.unlink(missing_ok=True)
    trouble: dict[tuple[str, ...], list[str]] = {each: [] for each in tries}
    found: dict[tuple[str, ...], Row] = {}
    while left := [each for each in tries if each not in found and len(trouble[each]) < attempts]:
        said = run_child({"tries": left, "answer": str(path)}, folder, setting, limit_s)
        found = dict(answers_in(path))
        first = next((each for each in left if each not in found), None)
        if first is not None:
            # The first without an answer took the process down.
            trouble[first].append(said or "the process ended without an answer")
    rows = []
    for each in tries:
        note = None if each in found else trouble[each][-1]
        rows.append(found.get(each, {}) | {"status": "failed" if note else "ok", "note": note})
        rows[-1]["died"] = len(trouble[each])
    return rows


def run(
    *, cases: Sequence[str] | None = None, processes: int = 3, attempts: int = 3, child_limit_s: float = 150.0
) -> list[Row]:
    """Try the models (None: all) with each setting, and return one row each (columns: module docstring)."""
    rows: list[Row] = []
    chosen = [case for case in CASES if cases is None or case in cases]
    with tempfile.TemporaryDirectory(prefix="zentorch-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for setting in SETTINGS[:2]:
            tries = [("case", case, mode) for case, mode in itertools.product(chosen, ("inference", "training"))]
            # As it comes, each in a process of its own: what the library keeps of one model must not reach the next.
            for group in [[each] for each in tries] if setting == "as it comes" else [tries]:
                found = try_all(group, folder, setting, child_limit_s, attempts)
                for (kind, case, mode), row in zip(group, found, strict=True):
                    rows.append({"kind": kind, "case": case, "mode": mode, "setting": setting} | row)
        for backend, setting in [("inductor", "as it comes"), *(("zentorch", setting) for setting in SETTINGS)]:
            runs = [try_all([("weights", backend)], folder, setting, child_limit_s, 1)[0] for _ in range(processes)]
            alive = [row for row in runs if row["status"] == "ok"]
            rows.append(
                {"kind": "weights", "case": backend, "mode": "inference", "setting": setting}
                | {"overwritten": sum(row["overwritten"] for row in alive), "processes": processes}
                | {"died": processes - len(alive), "status": "ok" if alive else "failed"}
                | {"note": None if alive else runs[0]["note"]}
            )
        for case, setting in AROUND:
            (row,) = try_all([("around", case)], folder, setting, child_limit_s, attempts)
            rows.append({"kind": "around", "case": case, "mode": None, "setting": setting} | row)
    columns = ["outcome", "executed", "operators", "relative_error", "eager_error", "gradients", "weights"]
    columns += ["afterwards_error", "overwritten", "died", "processes", "raised_at", "error", "message"]
    about = {"package": "zentorch", "package_version": importlib.metadata.version("zentorch")}
    about |= {"torch_version": str(torch.__version__), "capability": torch.backends.cpu.get_cpu_capability()}
    return [dict.fromkeys(columns) | row | about for row in rows]


def main(arguments: Sequence[str]) -> None:
    """Run and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        what = f"{row['case']:20} {row['mode'] or '-':9} {row['setting'].partition('=')[0][-12:]}"
        what += "=" + row["setting"].partition("=")[2] if "=" in row["setting"] else ""
        if row["kind"] == "weights":
            print(f"{what:48} overwritten in {row['overwritten']} of {row['processes']}, {row['died']} died")
            continue
        says = row["note"] or " ".join(filter(None, (row["error"], row["message"], row["operators"])))
        counts = f"{row['executed'] or 0} run, gradients {row['gradients'] or '-'}, weights {row['weights'] or '-'}"
        print(f"{what:48} {row['outcome'] or row['status']:6} {counts:52} {says}"[:180])


if __name__ == "__main__":
    main(sys.argv[1:])
