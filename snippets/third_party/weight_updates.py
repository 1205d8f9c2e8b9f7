# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 600
# value = 30
# ///
"""Does a compiled model see that its weights have changed, and does it leave them alone?

A back end that packs or freezes the weights while it compiles may go on with the old ones, or write into them. Nothing
is raised then, and a test of one call, or of one training step, passes. This tries it: an MLP of two layers (64-64-10,
batch 32, float32) is compiled and called, its weights are changed in one of the usual ways, and it is called again.
What should come out is computed by a twin that was never compiled.

Each case has a process and cache folders of its own; a package that is not installed is a row that says what to
install. OpenVINO is told to use float32.

Ways to change them
    in place        under no_grad: every parameter times two, as an optimizer or a moving average does
    load_state_dict another model's weights are loaded
    new tensors     every parameter is replaced by a new nn.Parameter
    training        STEPS steps of SGD; the losses are compared with those of the model that is not compiled
    inductor after  the same training with Inductor, in the process in which the back end has just trained

Columns
    backend, change     what was tried
    package, package_version
    saw                 "new weights", "old weights" (the result is that of before the change), "wrong" (neither);
                        in training "equal" or "wrong"; "error"
    kept                whether the parameters hold in the end what those of the twin hold: "intact", "overwritten"; in
                        training as far as rounding goes
    relative_error      largest difference from the twin with the new weights, over its largest value; in training: of
                        the last loss
    first_loss, last_loss, expected_loss   in training: of the first and last step, and what the last one should be
    raised_at, error, message              where an error came: "first call", "call after", "training"
    status, note        "ok" (a wrong result is a finding), "unavailable", "failed" where the process died
"""

from __future__ import annotations

import copy
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

Row = dict[str, Any]
Call = Callable[..., Any]

TOLERANCE = 1e-3
STEPS = 5
RATE = 0.5
CASES = ("in place", "load_state_dict", "new tensors", "training", "inductor after")
#: What every row has, in this order.
EMPTY: Row = dict.fromkeys(
    (
        "saw", "kept", "relative_error", "first_loss", "last_loss", "expected_loss", "raised_at", "error", "message",
    )
)  # fmt: skip


class BackEnd(NamedTuple):
    """How to ask for one: the package, what to install, the call of torch.compile."""

    package: str
    install: str
    compiled: Callable[[nn.Module], Call]


def tvm(model: nn.Module) -> Call:
    """TVM through Relax, untuned."""
    from tvm.relax.frontend.torch import relax_dynamo

    return torch.compile(model, backend=relax_dynamo())


def zentorch(model: nn.Module) -> Call:
    """zentorch, whose name is known once it is imported."""
    import zentorch as _registers  # noqa: F401

    return torch.compile(model, backend="zentorch")


FLOAT32 = {"config": {"INFERENCE_PRECISION_HINT": "f32"}}
BACK_ENDS: dict[str, BackEnd] = {
    "inductor": BackEnd("torch", "torch", lambda model: torch.compile(model)),
    "openvino": BackEnd(
        "openvino", "'openvino>=2026.4'", lambda model: torch.compile(model, backend="openvino", options=FLOAT32)
    ),
    "openvino, aot_autograd": BackEnd(
        "openvino",
        "'openvino>=2026.4'",
        lambda model: torch.compile(model, backend="openvino", options={"aot_autograd": True} | FLOAT32),
    ),
    "turbine_cpu": BackEnd(
        "iree-turbine",
        "'iree-turbine>=3.9' iree-base-compiler iree-base-runtime",
        lambda model: torch.compile(model, backend="turbine_cpu"),
    ),
    "relax_dynamo()": BackEnd("apache-tvm", "'apache-tvm>=0.27'", tvm),
    "zentorch": BackEnd("zentorch", "zentorch, of the version that fits this torch", zentorch),
}


# ---------------------------------------------------------------- what is tried


def made() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return the model, an input of shape (32, 64) and a target of shape (32, 10)."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return model, torch.randn(32, 64), torch.randn(32, 10)


@torch.no_grad()
def change(model: nn.Module, case: str) -> None:
    """Give the model other weights, in the way that ``case`` names."""
    if case == "in place":
        for parameter in model.parameters():
            parameter.mul_(2)
    elif case == "load_state_dict":
        model.load_state_dict({name: value * 2 for name, value in model.state_dict().items()})
    else:
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                layer.weight, layer.bias = nn.Parameter(layer.weight * 2), nn.Parameter(layer.bias * 2)


def difference(result: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest difference over the largest expected value."""
    return float((result - expected).abs().max() / expected.abs().max())


def infer(backend: BackEnd, case: str) -> Row:
    """Compile and call, change the weights, and call again."""
    model, x, _ = made()
    twin = copy.deepcopy(model.eval())
    at = "first call"
    try:
        with torch.no_grad():
            call = backend.compiled(model)
            call(x)
            change(model, case)
            at = "call after"
            after = call(x).clone()
            old = twin(x)
            change(twin, case)
            new = twin(x)
    except Exception as error:
        return raised(error, at)
    error_new, error_old = difference(after, new), difference(after, old)
    saw = "new weights" if error_new < TOLERANCE else "old weights" if error_old < TOLERANCE else "wrong"
    return {"saw": saw, "kept": kept(model, twin), "relative_error": error_new}


def kept(model: nn.Module, twin: nn.Module) -> str:
    """Tell whether the parameters hold the same values."""
    pairs = zip(model.parameters(), twin.parameters(), strict=True)
    return "intact" if all(difference(a, b) < TOLERANCE for a, b in pairs) else "overwritten"


def losses(model: nn.Module, call: Call, x: torch.Tensor, target: torch.Tensor) -> list[float]:
    """Train by SGD and return the loss of each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    seen = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (call(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen


def train(backend: BackEnd) -> Row:
    """Train a compiled copy and a plain one, and compare their losses."""
    model, x, target = made()
    expected = losses(plain := copy.deepcopy(model), plain, x, target)
    try:
        found = losses(model, backend.compiled(model), x, target)
    except Exception as error:
        return raised(error, "training")
    off = abs(found[-1] - expected[-1]) / abs(expected[-1])
    numbers: Row = {
        "kept": kept(model, plain),
        "first_loss": found[0],
        "last_loss": found[-1],
        "expected_loss": expected[-1],
        "relative_error": off,
    }
    return {"saw": "equal" if off < TOLERANCE else "wrong"} | numbers


def raised(error: BaseException, at: str) -> Row:
    """Return what an exception says."""
    inner = getattr(error, "inner_exception", None) or error
    lines = [line.strip() for line in str(inner).splitlines() if line.strip()]
    message = lines[0][:200] if lines else ""
    return {"saw": "error", "raised_at": at, "error": type(inner).__name__, "message": message}


# ---------------------------------------------------------------- in the child process


def child_main(job: Row) -> None:
    """Try the cases of one back end, and write a line of JSON for each into the answer file."""
    backend = BACK_ENDS[job["backend"]]
    with Path(job["answer"]).open("a") as answer:
        for case in job["cases"]:
            torch.compiler.reset()
            if case == "inductor after":
                train(backend)  # what Inductor finds left behind
                row = train(BACK_ENDS["inductor"])
            else:
                row = train(backend) if case == "training" else infer(backend, case)
            answer.write(json.dumps({"change": case, **row}) + "\n")
            answer.flush()
    os._exit(0)


# ---------------------------------------------------------------- in the parent process


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def run_child(job: Row, folder: Path, limit_s: float) -> str | None:
    """Run one job in a fresh process with all caches below ``folder``; return what went wrong, or None."""
    environment = os.environ | {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    command = [sys.executable, __file__, "--child", json.dumps(job)]
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"no answer within {limit_s:g} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if code == 0:
        return None
    return f"the process died of signal {signal.Signals(-code).name}" if code < 0 else f"the process ended with {code}"


def try_one(name: str, cases: Sequence[str], limit_s: float) -> dict[str, Row]:
    """Return what came of each case of a back end, by case; one without an answer has the reason as its note."""
    found: dict[str, Row] = {}
    for case in cases:  # a process for each: what one leaves behind is not the next one's
        with tempfile.TemporaryDirectory(prefix="weight-updates-", ignore_cleanup_errors=True) as folder:
            path = Path(folder, "answers.jsonl")
            trouble = run_child({"backend": name, "cases": [case], "answer": str(path)}, Path(folder), limit_s)
            lines = path.read_text().splitlines() if path.exists() else []
        if lines:
            answer = json.loads(lines[0])
            found[answer.pop("change")] = answer
        else:
            found[case] = {"status": "failed", "note": trouble or "the process ended without an answer"}
    return found


def run(
    *, back_ends: Sequence[str] = tuple(BACK_ENDS), cases: Sequence[str] = CASES, child_limit_s: float = 150.0
) -> list[Row]:
    """Try every back end in every case and return one row each (columns: module docstring)."""
    rows: list[Row] = []
    for name in back_ends:
        known = BACK_ENDS[name]
        version = version_of(known.package)
        own = [case for case in cases if (name, case) != ("inductor", "inductor after")]
        found = try_one(name, own, child_limit_s) if version else {}
        for case in own:
            note = None if version else f"the package {known.package} is not installed: pip install {known.install}"
            row: Row = {"backend": name, "change": case, "package": known.package, "package_version": version}
            row |= EMPTY | {"status": "ok" if version else "unavailable", "note": note, "device": "cpu"}
            rows.append(row | found.get(case, {}))
    return rows


def main(arguments: Sequence[str]) -> None:
    """Try and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        more = "" if row["relative_error"] is None else f"error {row['relative_error']:.1g}"
        why = row["note"] or (f"at {row['raised_at']}: {row['error']}: {row['message']}" if row["error"] else more)
        print(f"{row['backend']:24} {row['change']:16} {row['saw'] or row['status']:12} {why}"[:160])


if __name__ == "__main__":
    main(sys.argv[1:])
