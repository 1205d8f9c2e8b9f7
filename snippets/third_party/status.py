# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 480
# value = 60
# ///
"""Every name that goes, or went, into ``torch.compile(backend=...)``: what does it do today?

Four sorts of names are tried, each by running it:

- all that ``torch.compiler.list_backends(exclude_tags=())`` knows, those of installed packages too;
- those that a package registers only when it is imported, and functions of packages that are passed as a back end;
- names that some release of torch, or TorchDynamo before it was part of torch, had and that are gone;
- names that were never registered, but stand in posts and guides.

The model is a linear layer with three pointwise operators behind it, ``torch.relu(linear(x) * 2 + 1)``. It is compiled
twice: for a call under ``no_grad``, and for a training step with an ordinary input, where only the weights want
gradients. Output and gradients are compared with the model without compiling.

That a call succeeds does not show that the back end did anything. So torch's profiler counts, in one more call, how
many of the three pointwise operators torch ran itself: three means that nothing was taken over.

Names are tried in child processes: torch's own in one, each package in one, those that are gone in one that imports no
package. A name that takes its process down is a failed row, and the others go on in a new one. Packages that are not
installed are not needed: their names are tried all the same, and the row says what to install.

The releases in ``last_release`` are not guessed: they are read from the files of the published wheels of torch 2.0.0 to
2.14.1, and for "torchdynamo" from its repository (``optimizations/backends.py`` and ``optimizations/training.py``) and
the same folder of torch in the months before 2.0.

Columns
    backend            the name; with "()" a function of a package, called and passed as the back end
    kind               "built in", "debug" (also experimental), "third party", "gone", "never" (no release had it)
    package            the package that brings or brought it
    package_version    the version of that package here, None where it is not installed
    outcome            inference: "runs", "rounded" where it runs in a shorter number format, "wrong", "error"
    relative_error     largest error of the output (inference) over its largest value
    left_to_torch      of the 3 pointwise operators, those that torch ran itself in one call (inference)
    gradients          training: "equal", "rounded", "lost" (the output wants no gradient), "wrong", "error"
    raised_at          the first error: "torch.compile()", "first call", "first training call", "backward", or "never"
    caught_as          the exception that an ``except`` sees
    error, message     what is inside it (often the same): name and first line
    cause              the first line of the exception that it was raised from, if any
    last_release       of a name that is gone: the last torch that registers it; "torchdynamo": none but TorchDynamo did
    instead            what to write today
    needs              what to install and to import
    device             "cuda" or "cpu"
    status, note       "ok" (also where an error was caught: that is the finding); "unavailable" where a package is
                       missing for a function; "failed" where the process died
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.metadata
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

Row = dict[str, Any]

FEATURES = 16
#: Largest error over largest value: up to the first a result is right, up to the second it was computed in a shorter
#: number format (bfloat16 has 8 bits), above it is wrong.
RIGHT, ROUNDED = 1e-5, 2e-2
#: The operators behind the linear layer, as the profiler names them.
POINTWISE = ("aten::mul", "aten::add", "aten::relu")
#: A longer message is cut.
LONGEST = 300
GROUP = "torch_dynamo_backends"
COLUMNS = [
    "backend",
    "kind",
    "package",
    "package_version",
    "outcome",
    "relative_error",
    "left_to_torch",
    "gradients",
    "raised_at",
    "caught_as",
    "error",
    "message",
    "cause",
    "last_release",
    "instead",
    "needs",
    "device",
    "status",
    "note",
]


class Package(NamedTuple):
    """A package whose back end comes by a name or by a function.

    ``module``: what has to be imported before the name is known; empty where an entry point does it.
    ``function``: the attribute of ``module`` that is called to get the back end; empty for a name.
    """

    distribution: str
    module: str = ""
    function: str = ""

    @property
    def needs(self) -> str:
        """Return what to type: the installation, and the import where one is needed."""
        words = f"pip install {self.distribution}"
        return f"{words}; import {self.module}" if self.module and not self.function else words


class Gone(NamedTuple):
    """A name that is gone: the last torch that had it, what to write instead, and who brought it."""

    last_release: str
    instead: str
    package: str = "torch"


IREE = Package("iree-turbine")
TENSORRT = Package("torch-tensorrt", "torch_tensorrt")
PACKAGES: dict[str, Package] = {
    "relax_dynamo()": Package("apache-tvm", "tvm.relax.frontend.torch", "relax_dynamo"),
    "openvino": Package("openvino"),
    "turbine_cpu": IREE,
    "iree_turbine": IREE,
    "iree_boo": IREE,
    "iree_boo_experimental": IREE,
    "iree_boo_inductor": IREE,
    "zentorch": Package("zentorch", "zentorch"),
    "torch_tensorrt": TENSORRT,
    "tensorrt": TENSORRT,
    "ThunderCompiler()": Package("lightning-thunder", "thunder.dynamo", "ThunderCompiler"),
    "hidet": Package("hidet"),
    "migraphx": Package("torch-migraphx", "torch_migraphx"),
    "hpu_backend": Package("habana-torch-plugin", "habana_frameworks.torch"),
    "tt": Package("pjrt-plugin-tt", "tt_torch"),
    "sendnn": Package("torch-sendnn", "torch_sendnn"),
}
#: Names of torch itself that run only with a package beside it.
BESIDE = {
    "tvm": "pip install 'torch>=2.14' apache-tvm",
    "openxla": "pip install torch_xla",
    "openxla_eval": "pip install torch_xla",
}

_INDUCTOR = 'backend="inductor"'
_CUDAGRAPHS = 'backend="cudagraphs"'
_AOT_EAGER = 'backend="aot_eager"'
_OPENXLA = 'backend="openxla"'
_TENSORRT = 'backend="torch_tensorrt"'
_RELAX = "backend=relax_dynamo()"
_ONNX = "torch.onnx.export(..., dynamo=True)"


def _each(names: str, last_release: str, instead: str, package: str = "torch") -> dict[str, Gone]:
    return {name: Gone(last_release, instead, package) for name in names.split()}


GONE: dict[str, Gone] = {
    **_each("nvfuser aot_nvfuser ts_nvfuser nvfuser_ofi ts_nvfuser_ofi", "torchdynamo", _INDUCTOR),
    **_each("aot_nvfuser_nodecomps aot_ts_nvfuser_nodecomps prims_nvfuser", "torchdynamo", _INDUCTOR),
    **_each("nvprims_nvfuser aot_ts_nvfuser", "2.0.1", _INDUCTOR),
    **_each("nvprims_aten", "2.0.1", _AOT_EAGER),
    **_each("tvm_meta_schedule ansor", "torchdynamo", _RELAX, "apache-tvm"),
    **_each("onnxrt", "2.8.0", _ONNX, "onnxruntime-training"),
    **_each("onnxrt_cpu onnxrt_cpu_numpy onnxrt_cuda", "torchdynamo", _ONNX, "onnxruntime"),
    **_each("onnx2tensorrt onnx2tensorrt_alt torch2trt fx2trt", "torchdynamo", _TENSORRT, "tensorrt"),
    **_each("onnx2tf", "torchdynamo", _ONNX, "onnx-tf"),
    **_each("taso", "torchdynamo", _INDUCTOR, "taso"),
    **_each("ipex", "2.0.1", _INDUCTOR, "intel-extension-for-pytorch"),
    **_each("ipex_fp32 ipex_bf16", "torchdynamo", _INDUCTOR, "intel-extension-for-pytorch"),
    **_each("torchxla_trivial aot_torchxla_trivial aot_torchxla_trace_once", "2.3.1", _OPENXLA, "torch_xla"),
    **_each("torchxla_trace_once", "2.3.1", 'backend="openxla_eval"', "torch_xla"),
    **_each("openvino_ts", "OpenVINO 2024.0", 'backend="openvino"', "openvino"),
    **_each("aot_cudagraphs cudagraphs_ts cudagraphs_ts_ofi", "torchdynamo", _CUDAGRAPHS),
    **_each("aot_autograd aot_nop aot_print aot_inductor_debug", "torchdynamo", _AOT_EAGER),
    **_each("ofi nnc nnc_ofi onednn static_runtime autotune", "torchdynamo", _INDUCTOR),
    **_each("ltc_reuse_graph ltc_trivial", "torchdynamo", _OPENXLA),
}
#: Never registered by a release of torch or a package known here.
NEVER: dict[str, Gone] = {
    "tvmgraph": Gone("never", _RELAX, "apache-tvm"),
    "tvm_relax": Gone("never", _RELAX, "apache-tvm"),
    "dynamic_inductor": Gone("never", "dynamic=True"),
    "reduce-overhead": Gone("never", 'mode="reduce-overhead"'),
    "max-autotune": Gone("never", 'mode="max-autotune"'),
    "default": Gone("never", _INDUCTOR),
    "aot_inductor": Gone("never", "aoti_compile_and_package()"),
    "triton": Gone("never", _INDUCTOR),
    "torchscript": Gone("never", _INDUCTOR),
    "onnxruntime": Gone("never", _ONNX, "onnxruntime"),
    "xla": Gone("never", _OPENXLA, "torch_xla"),
    "thunder": Gone("never", "backend=ThunderCompiler()", "lightning-thunder"),
}


# ---------------------------------------------------------------- one name


class Small(torch.nn.Module):
    """A linear layer and three pointwise operators."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(FEATURES, FEATURES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the shape of ``x``, (batch, FEATURES)."""
        return torch.relu(self.linear(x) * 2 + 1)


def without_paths(text: str) -> str:
    """Return a text in which a path of this machine is only the name of its file; addresses of the web stay."""
    return re.sub(r"(?<![\w:/.])/(?:[^\s/'\"]+/)+", "", text)


def first_line(error: BaseException) -> str:
    """Return the first line of a message that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = without_paths(lines[0]) if lines else ""
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"


def told(error: Exception, at: str) -> Row:
    """Return what a row says about an exception."""
    inner = getattr(error, "inner_exception", None) or error
    return {
        "raised_at": at,
        "caught_as": type(error).__name__,
        "error": type(inner).__name__,
        "message": first_line(inner) or None,
        "cause": first_line(inner.__cause__) if inner.__cause__ else None,
    }


def pointwise_by_torch(call: Callable[[], Any]) -> int:
    """Return how many of the model's three pointwise operators torch's own kernels run in one call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        call()
    return len({event.key for event in seen.key_averages()} & set(POINTWISE))


def relative_error(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the largest error of ``a`` over the largest value of ``b``."""
    return float((a - b).abs().max() / b.abs().max())


def judged(error: float | None, right: str) -> str:
    """Return the word for an error: ``right``, "rounded" or "wrong"; also for one that is no number."""
    if error is None or not error <= ROUNDED:
        return "wrong"
    return right if error <= RIGHT else "rounded"


def infer(model: Small, x: torch.Tensor, backend: Any) -> Row:
    """Compile and call without gradients; returns outcome, error, left_to_torch and, if it raised, what."""
    at = "torch.compile()"
    try:
        compiled = torch.compile(model, backend=backend)
        at = "first call"
        with torch.no_grad():
            error = relative_error(compiled(x), model(x))
            left = pointwise_by_torch(lambda: compiled(x))
    except Exception as raised:
        return {"outcome": "error"} | told(raised, at)
    shown = error if math.isfinite(error) else None
    return {"outcome": judged(error, "runs"), "relative_error": shown, "left_to_torch": left}


def train(model: Small, x: torch.Tensor, backend: Any) -> Row:
    """Compile, call and go backward; returns gradients and, after an error, what it was."""
    plain = copy.deepcopy(model)
    plain(x).sum().backward()
    at, found = "torch.compile()", "error"
    try:
        compiled = torch.compile(model, backend=backend)
        at = "first training call"
        result = compiled(x)
        at = "backward"
        found = "error" if result.requires_grad else "lost"
        result.sum().backward()
    except Exception as error:
        return {"gradients": found} | told(error, at)
    words = set()
    for weight, expected in zip(model.parameters(), plain.parameters(), strict=True):
        assert expected.grad is not None
        words.add(judged(None if weight.grad is None else relative_error(weight.grad, expected.grad), "equal"))
    return {"gradients": next(word for word in ("wrong", "rounded", "equal") if word in words)}


def attempt(backend: Any, device: str) -> Row:
    """Try one back end in inference and in training; the first error of the two is the one that the row tells."""
    torch.manual_seed(0)
    model = Small().to(device)
    x = torch.linspace(-1, 1, 4 * FEATURES, device=device).reshape(4, FEATURES)
    found: Row = {"raised_at": "never"}
    for part in (train, infer):  # an error in inference stands over one in training
        torch._dynamo.reset()
        found |= part(copy.deepcopy(model), x, backend)
    return found


# ---------------------------------------------------------------- in the child process


def child_main(job: Row) -> None:
    """Try back ends and write a line of JSON for each into the answer file, as soon as it is known."""
    with Path(job["answer"]).open("a") as answer:
        for name in job["backends"]:
            answer.write(json.dumps({"backend": name, **of_package(name, job)}) + "\n")
            answer.flush()
    os._exit(0)


def of_package(name: str, job: Row) -> Row:
    """Import what the name needs, where its package is installed, and try it."""
    package = PACKAGES.get(name)
    backend: Any = name
    if package is not None and package.module and job["installed"]:
        try:
            module = importlib.import_module(package.module)
            if package.function:
                backend = getattr(module, package.function)()
        except Exception as error:
            return {"outcome": "error", "gradients": "error"} | told(error, "import")
    return attempt(backend, str(job["device"]))


# ---------------------------------------------------------------- in the parent process


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and whatever it started (a C++ compiler, a compile worker)."""
    with contextlib.suppress(ProcessLookupError):  # nobody is left
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:  # Windows has no process groups of this kind
            process.kill()
    process.wait()


def run_child(job: Row, folder: Path, limit_s: float) -> str | None:
    """Run one job in a fresh process with all caches below ``folder``; return what went wrong, or None."""
    log = folder / "log.txt"
    environment = os.environ | {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    command = [sys.executable, __file__, "--child", json.dumps(job)]
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
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
    return f"the process ended with code {code}: {without_paths(last)[:LONGEST]}"


def answers_in(path: Path) -> dict[str, Row]:
    """Return the lines of the answer file by back end; a line that was cut off is left out."""
    found: dict[str, Row] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            answer: Row = json.loads(line)
            found[answer.pop("backend")] = answer
    return found


def try_group(names: Sequence[str], installed: bool, device: str, limit_s: float) -> dict[str, Row]:
    """Try the names in a child process, and those behind a name that took it down in another; an answer for each."""
    answers: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="status-", ignore_cleanup_errors=True) as folder:
        path = Path(folder, "answers.jsonl")
        while left := [name for name in names if name not in answers]:
            job = {"backends": left, "answer": str(path), "device": device, "installed": installed}
            trouble = run_child(job, Path(folder), limit_s)
            answers |= answers_in(path)
            first = next((name for name in left if name not in answers), None)
            if first is not None:
                answers[first] = {"status": "failed", "note": trouble or "the process ended without an answer"}
    return answers


def version_of(distribution: str) -> str | None:
    """Return the version of an installed package, or None."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distribution)
    return None


def from_packages() -> dict[str, str]:
    """Return the names that installed packages register by entry point, with the package of each."""
    entries = importlib.metadata.entry_points(group=GROUP)
    return {entry.name: entry.dist.name if entry.dist else "" for entry in entries}


def described() -> Iterator[Row]:
    """Yield what is known of every name before it is tried: backend, kind, package and, if gone, what to use."""
    own = set(torch.compiler.list_backends(exclude_tags=()))
    by_default = set(torch.compiler.list_backends())
    added = from_packages()
    for name in sorted(own - set(added) - set(PACKAGES), key=lambda name: (name not in by_default, name)):
        kind = "built in" if name in by_default else "debug"
        yield {"backend": name, "kind": kind, "package": "torch", "needs": BESIDE.get(name)}
    for name in [*PACKAGES, *sorted(set(added) - set(PACKAGES))]:
        package = PACKAGES.get(name)
        owner = package.distribution if package else added[name]
        needs = package.needs if package else f"pip install {owner}"
        yield {"backend": name, "kind": "third party", "package": owner, "needs": needs}
    for kind, names in (("gone", GONE), ("never", NEVER)):
        for name, past in names.items():
            if name not in own:  # a package may have brought it back: then it is tried as one of those above
                yield {
                    "backend": name,
                    "kind": kind,
                    "package": past.package,
                    "last_release": past.last_release,
                    "instead": past.instead,
                }


def group_of(row: Row) -> str:
    """Return which names share a process: torch's own, those of one installed package, and all that is not there."""
    if row["kind"] in ("built in", "debug"):
        return "torch"
    return str(row["package"]) if row["kind"] == "third party" and row["package_version"] else "not there"


def run(*, backends: Sequence[str] | None = None, child_limit_s: float = 150.0) -> list[Row]:
    """Try the names (None: all that are known) and return one row each (columns: module docstring)."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    empty: Row = dict.fromkeys(COLUMNS)
    rows: list[Row] = []
    groups: dict[str, list[str]] = {}
    for known in described():
        if backends is not None and known["backend"] not in backends:
            continue
        version = None if known["kind"] in ("gone", "never") else version_of(known["package"])
        row = empty | known | {"package_version": version, "device": device, "status": "ok"}
        rows.append(row)
        package = PACKAGES.get(row["backend"])
        if package is not None and package.function and version is None:
            row |= {"status": "unavailable", "note": f"needs the package {package.distribution}"}
        else:
            groups.setdefault(group_of(row), []).append(row["backend"])
    for group, names in groups.items():
        answers = try_group(names, group not in ("torch", "not there"), device, child_limit_s)
        for row in rows:
            row |= answers.get(row["backend"], {})
    return rows


def main(arguments: Sequence[str]) -> None:
    """Try and print; with ``--child JOB`` do one job for the parent process."""
    if arguments[:1] == ["--child"]:
        child_main(json.loads(arguments[1]))
        return
    for row in run():
        what = f"{row['outcome'] or row['status']}/{row['gradients'] or '-'}"
        version = row["package_version"] or row["last_release"] or "-"
        print(f"{row['backend']:38} {row['kind']:12} {version:14} {what:14}", end=" ")
        if row["raised_at"] not in (None, "never"):
            print(f"at {row['raised_at']}: {row['error']}: {row['message']}", end=" ")
        print(" | ".join(str(row[more]) for more in ("instead", "needs", "note") if row[more]))


if __name__ == "__main__":
    main(sys.argv[1:])
