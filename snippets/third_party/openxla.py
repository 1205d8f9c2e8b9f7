# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.9"]
#
# [tool.kitchen]
# limit_s = 240
# value = 30
# ///
"""OpenXLA behind torch.compile (``openxla``): needs torch_xla, and the torch that torch_xla was built for.

Runs anywhere. Where torch_xla can't be imported the rows say so and show what ``backend="openxla"`` raises; where it
can (``pip install torch==2.9.1 torch_xla==2.9.0``, Python 3.11 to 3.13) models are tried on XLA's CPU device
(``PJRT_DEVICE=CPU``) and compared with eager mode in float64: "right" is a difference below 1e-4 of the largest value.

Each try is a child process of its own: native code that dies takes only its row with it.

Columns
    kind               "name": the back end is asked for, on tensors of the CPU; "case": a model on XLA's device
    case, mode         what is run; "inference" or "training" (forward and backward)
    device             where the tensors lie: "cpu" or "xla"
    outcome            "runs"; "wrong"; "error"
    executed           programs that XLA ran in one step, as torch_xla's own counter (ExecuteTime) has it
    xla_operators      ATen operators handed to XLA while compiling, the most frequent first
    left               operators that torch_xla itself sent back to the CPU (counters aten::*)
    relative_error, gradients      "equal", "wrong", "lost", "not wanted"
    raised_at, error, message      where an error came ("import", "torch.compile()", "first call", "backward")
    package, package_version, torch_version
    status, note       "ok" (also for an error that was caught: that is the finding), "unavailable" without torch_xla,
                       "failed" where the process died
"""

from __future__ import annotations

import contextlib
import copy
import importlib.metadata
import json
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

Row = dict[str, Any]
WHAT_TO_INSTALL = "torch_xla is not here: pip install torch==2.9.1 torch_xla==2.9.0, in an environment of its own."


def mlp() -> nn.Module:
    """Return linear layers with ReLU between."""
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def convolution() -> nn.Module:
    """Return a convolution with batch norm, and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )


def encoder() -> nn.Module:
    """Return one Transformer layer."""
    return nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)


#: Name: how model and input are made.
CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "mlp": (mlp, lambda: torch.randn(8, 16)),
    "conv + bn": (convolution, lambda: torch.randn(4, 3, 16, 16)),
    "norm + gelu": (lambda: nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU()), lambda: torch.randn(8, 16)),
    "encoder": (encoder, lambda: torch.randn(2, 6, 32)),
}


def difference(value: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest difference over the largest value."""
    return float((value.double().cpu() - expected.double()).abs().max() / expected.double().abs().max())


def first_line(error: BaseException) -> str:
    """Return the first line of a message that says something, without folders of this machine."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return re.sub(r"(?<![:/\w])(?:/[\w.+-]+)+/(?=[\w.+-]+)", "", lines[0])[:240] if lines else ""


def failed(error: BaseException, at: str) -> Row:
    """Return the columns of an error; the cause, where torch.compile wrapped it."""
    inner = getattr(error, "inner_exception", None) or error
    return {"outcome": "error", "raised_at": at, "error": type(inner).__name__, "message": first_line(inner)}


def on_the_cpu() -> Row:
    """Ask for the back end with a model and tensors on the CPU."""
    model, x = mlp().eval(), torch.randn(8, 16)
    at = "torch.compile()"
    try:
        compiled = torch.compile(model, backend="openxla")
        at = "first call"
        with torch.no_grad():
            result = compiled(x)
    except Exception as error:
        return failed(error, at)
    worst = difference(result, copy.deepcopy(model).double()(x.double()).detach())
    steps = executed_by_xla()
    with torch.no_grad():
        compiled(x)
    found = {"outcome": "runs" if worst < 1e-4 else "wrong", "raised_at": "never", "relative_error": worst}
    return found | {"executed": executed_by_xla() - steps, "gradients": "not wanted"}


def on_xla(case: str, mode: str) -> Row:
    """Compile a model on XLA's device, run it twice, and compare the second time."""
    at = "import"
    try:
        import torch_xla
        from torch_xla.debug import metrics

        device = torch_xla.device()
        torch.manual_seed(0)
        torch.backends.mha.set_fastpath_enabled(False)
        make, given = CASES[case]
        model, x = make().train(mode == "training"), given()
        reference = copy.deepcopy(model).double()
        model = model.to(device)
        at = "torch.compile()"
        compiled = torch.compile(model, backend="openxla")
        training = mode == "training"
        there = x.to(device)
        with torch.set_grad_enabled(training):
            for _ in range(2):
                executions = executed_by_xla()
                for each in (model, reference):
                    each.zero_grad()
                at = "first call"
                result, expected = compiled(there), reference(x.double())
                if training:
                    at = "backward"
                    result.square().sum().backward()
                    expected.square().sum().backward()
        steps = executed_by_xla() - executions
    except Exception as error:
        return failed(error, at)
    gradients = "not wanted"
    if training:
        pairs = list(zip(model.parameters(), reference.parameters(), strict=True))
        lost = any(a.grad is None for a, _ in pairs)
        largest = max(float(b.grad.abs().max()) for _, b in pairs)
        worst = 0.0 if lost else max(float((a.grad.double().cpu() - b.grad).abs().max()) for a, b in pairs) / largest
        gradients = "lost" if lost else "equal" if worst < 1e-4 else "wrong"
    error_here = difference(result.detach(), expected.detach())
    names = {name: metrics.counter_value(name) for name in metrics.counter_names()}
    handed = sorted(
        ((name[5:], count) for name, count in names.items() if name.startswith("xla::")), key=lambda pair: -pair[1]
    )
    return {
        "outcome": "runs" if error_here < 1e-4 and gradients in ("equal", "not wanted") else "wrong",
        "raised_at": "never",
        "executed": steps,
        "xla_operators": ", ".join(name for name, _ in handed[:8]) + (", …" if len(handed) > 8 else ""),
        "left": sum(count for name, count in names.items() if name.startswith("aten::")),
        "relative_error": error_here,
        "gradients": gradients,
    }


def executed_by_xla() -> int:
    """Return how many programs XLA has run so far, after waiting for those under way."""
    import torch_xla
    from torch_xla.core import xla_model
    from torch_xla.debug import metrics

    torch_xla.sync()
    xla_model.wait_device_ops()
    data = metrics.metric_data("ExecuteTime")
    return int(data[0]) if data else 0


# ---------------------------------------------------------------- in the child process


def child_main(job: Row) -> None:
    """Run one try and write its findings into the answer file."""
    warnings.simplefilter("ignore")
    found = on_xla(job["case"], job["mode"]) if job["kind"] == "case" else on_the_cpu()
    Path(job["answer"]).write_text(json.dumps(found))
    os._exit(0)


# ---------------------------------------------------------------- in the parent process


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and whatever it started."""
    with contextlib.suppress(ProcessLookupError):  # nobody is left
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # Windows has no process groups of this kind
            process.kill()
    process.wait()


def run_child(job: Row, folder: Path, limit_s: float) -> Row:
    """Run one try in a fresh process; return its findings with status and note."""
    answer, log = folder / "answer.json", folder / "log.txt"
    answer.unlink(missing_ok=True)
    environment = os.environ | {"PJRT_DEVICE": "CPU", "TMPDIR": str(folder)}
    command = [sys.executable, __file__, "--child", json.dumps(job | {"answer": str(answer)})]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            code = process.wait(limit_s)
            trouble = "" if code == 0 else f"the process ended with code {code}"
            if code < 0:
                trouble = f"the process died of signal {signal.Signals(-code).name}"
        except subprocess.TimeoutExpired:
            trouble = f"no answer within {limit_s:g} s"
        finally:
            end_group(process)
    if answer.exists():
        found: Row = json.loads(answer.read_text())
        return found | {"status": "ok", "note": None}
    return {"status": "failed", "note": trouble or "the process ended without an answer"}


def installed(package: str) -> str | None:
    """Return the version of a package, None without it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def run(*, cases: Sequence[str] | None = None, child_limit_s: float = 60.0) -> list[Row]:
    """Ask for the name, then try the models (None: all); one row each (columns: module docstring)."""
    version = installed("torch_xla")
    jobs: list[Row] = [{"kind": "name", "case": "openxla", "mode": "inference", "device": "cpu"}]
    for case in CASES if cases is None else cases:
        jobs += [{"kind": "case", "case": case, "mode": mode, "device": "xla"} for mode in ("inference", "training")]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="openxla-", ignore_cleanup_errors=True) as folder:
        for job in jobs:
            if job["kind"] == "case" and version is None:
                rows.append(job | {"status": "unavailable", "note": WHAT_TO_INSTALL})
            else:
                rows.append(job | run_child(job, Path(folder), child_limit_s))
    columns = ("outcome", "executed", "xla_operators", "left", "relative_error", "gradients", "raised_at", "error")
    about = {"package": "torch_xla", "package_version": version, "torch_version": str(torch.__version__)}
    return [dict.fromkeys((*columns, "message")) | row | about for row in rows]


def main(arguments: Sequence[str]) -> None:
    """Try and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        says = row["note"] or " ".join(filter(None, (row["error"], row["message"], row["xla_operators"])))
        counts = f"{row['executed'] or 0} run, gradients {row['gradients'] or '-'}"
        print(f"{row['case']:12} {row['mode']:9} {row['outcome'] or row['status']:11} {counts:34} {says}"[:180])


if __name__ == "__main__":
    main(sys.argv[1:])
