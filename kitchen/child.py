"""Runs inside the fresh process of one snippet: the only file of the measuring half that meets torch.

Called by the runner as ``python child.py run JOB.json`` or ``python child.py probe OUT.json``; it is a script,
not a module of the package, and imports only the standard library before the snippet does. The job names the
snippet's file, what it needs, the arguments of run() and the file that takes the answer::

    {"path": ..., "name": ..., "needs": [...], "dependencies": [...], "arguments": {...}, "lifeline": fd, "out": ...}

The answer is ``{"status": ..., "reason": ..., "rows": [...]}``. No answer means that the process died; the
runner then reads how from its exit code.
"""

from __future__ import annotations

import faulthandler
import importlib.metadata
import importlib.util
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any


def main() -> None:
    faulthandler.enable()
    mode, argument = sys.argv[1:]
    if mode == "probe":
        write(Path(argument), probe())
        return
    job = json.loads(Path(argument).read_text("utf-8"))
    end_with_parent(job["lifeline"])
    # A copied snippet sees only its own command line and its own folder.
    sys.argv = [job["path"]]
    sys.path[0] = str(Path(job["path"]).parent)
    try:
        answer = run(job)
    except SystemExit as error:
        answer = failed(f"called sys.exit({'' if error.code is None else repr(error.code)}) instead of returning rows")
    except KeyboardInterrupt:
        answer = failed("raised KeyboardInterrupt")
    except BaseException as error:
        traceback.print_exc()
        answer = failed(describe(error))
    sys.stdout.flush()
    sys.stderr.flush()
    write(Path(job["out"]), answer)


def end_with_parent(lifeline: int) -> None:
    """Ends this group when the runner is gone, however it went: the pipe's other end closes with it."""
    os.set_inheritable(lifeline, False)

    def wait() -> None:
        os.read(lifeline, 1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True, name="kitchen-lifeline").start()


def write(path: Path, data: dict[str, Any]) -> None:
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(data, allow_nan=False), "utf-8")
    beside.replace(path)


def failed(reason: str) -> dict[str, Any]:
    return {"status": "failed", "reason": reason, "rows": []}


def unavailable(reason: str) -> dict[str, Any]:
    return {"status": "unavailable", "reason": reason, "rows": []}


def describe(error: BaseException) -> str:
    """``ValueError: what (file.py:12)``: the last frame of the traceback is where to look first."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}{where}"[:1500]


# ---- what the snippet needs ------------------------------------------------------------------------------


def version_tuple(version: str) -> tuple[int, ...]:
    """The release part as numbers: ``2.13.0+cpu`` is (2, 13, 0)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def missing_dependency(dependencies: list[str]) -> str | None:
    """What to install, or None where every declared package is there and new enough."""
    for dependency in dependencies:
        name, _, minimum = (part.strip() for part in dependency.partition(">="))
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return f"the package {name} is not installed: pip install '{dependency}'"
        if minimum and version_tuple(version) < version_tuple(minimum):
            return f"the package {name} is {version}, {minimum} or newer is needed: pip install '{dependency}'"
    return None


def what_is_missing(dependencies: list[str], needs: list[str]) -> str | None:
    """Why the snippet cannot run here, or None. A GPU is asked for before packages that are of no use without one."""
    is_torch = [dependency.partition(">=")[0].strip() == "torch" for dependency in dependencies]
    torch = [dependency for dependency, yes in zip(dependencies, is_torch, strict=True) if yes]
    others = [dependency for dependency, yes in zip(dependencies, is_torch, strict=True) if not yes]
    return (
        missing_dependency(torch)
        or unmet_need([need for need in needs if need == "cuda"])
        or missing_dependency(others)
        or unmet_need([need for need in needs if need != "cuda"])
    )


def cxx_command() -> str:
    """The compiler that Inductor would call: CXX where set, else g++ (clang++ on macOS)."""
    return os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")


def cxx_version() -> str | None:
    """First line of the compiler's ``--version``, or None where none works."""
    command = shutil.which(cxx_command())
    if not command:
        return None
    try:
        done = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip().splitlines()[0][:400] if done.stdout.strip() else None


def unmet_need(needs: list[str]) -> str | None:
    """Why this machine cannot run the snippet, or None."""
    for need in needs:
        if need == "cuda":
            import torch

            if not torch.cuda.is_available():
                built = "no GPU or driver was found" if torch.version.cuda else "this torch is a build without CUDA"
                return f"needs a CUDA GPU: {built}"
        elif need == "compiler":
            if cxx_version() is None:
                return (
                    f"needs a C++ compiler: {cxx_command()!r} does not run "
                    "(install g++, or point the environment variable CXX at a compiler)"
                )
        elif need == "triton":
            if importlib.util.find_spec("triton") is None:
                return "needs Triton: the package triton is not installed (it comes with CUDA builds of torch)"
        elif shutil.which(need) is None:
            return f"needs {need}: it is not on the PATH"
    return None


# ---- running ---------------------------------------------------------------------------------------------


def load_module(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses, pickling and inspect look a module up by its name.
    sys.modules[spec.name] = module
    # No __pycache__ beside the snippet; torch's own modules keep theirs, else each start would compile them anew.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def run(job: dict[str, Any]) -> dict[str, Any]:
    missing = what_is_missing(job["dependencies"], job["needs"])
    if missing:
        return unavailable(missing)
    if job.get("check_only"):
        return {"status": "ok", "reason": None, "rows": []}
    rows = load_module(job["path"]).run(**job["arguments"])
    fault = row_fault(rows)
    if fault:
        return failed(fault)
    return {"status": "ok", "reason": None, "rows": rows}


def row_fault(rows: Any) -> str | None:
    """What keeps ``rows`` from being a record, with the row and the column, or None."""
    if not isinstance(rows, list):
        return f"run() returned {type(rows).__name__}, wants a list of dicts"
    if not rows:
        return "run() returned no rows"
    for index, row in enumerate(rows):
        if type(row) is not dict:
            return f"row {index} is {type(row).__name__}, wants a dict"
        if not row:
            return f"row {index} is empty"
        for column, value in row.items():
            if type(column) is not str or not is_unicode(column):
                return f"row {index}: the column name {column!r} is not a string"
            fault = value_fault(value, samples=column.startswith("samples_"))
            if fault:
                return f"row {index}, column {column!r}: {fault}"
    return None


def is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def value_fault(value: Any, *, samples: bool) -> str | None:
    if samples:
        if type(value) is not list:
            return f"a samples_ column wants a list of numbers, has {type(value).__name__}"
        for item in value:
            if type(item) not in (int, float) or not math.isfinite(item):
                return f"a sample is {item!r} ({type(item).__name__}), wants a finite number"
        return None
    if type(value) is str:
        return None if is_unicode(value) else "the text is not valid Unicode (a lone surrogate)"
    if value is None or type(value) in (bool, int):
        return None
    if type(value) is float:
        if math.isfinite(value):
            return None
        return f"{value} is not a finite number: give None and say why in a note"
    return f"{type(value).__name__} is not a JSON scalar: convert it (for a tensor: .item())"


# ---- the environment -------------------------------------------------------------------------------------


def probe() -> dict[str, Any]:
    """Versions, threads and the accelerator, as this Python and its torch report them."""
    import torch

    gpu = None
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        gpu = {
            "name": properties.name,
            "memory_gib": round(properties.total_memory / 2**30, 1),
            "count": torch.cuda.device_count(),
        }
    try:
        triton: str | None = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        triton = None
    return {
        "torch": torch.__version__,
        "triton": triton,
        "cuda": torch.version.cuda,
        "driver": driver_version() if gpu else None,
        "cxx": cxx_version(),
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "gpu": gpu,
    }


def driver_version() -> str | None:
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = done.stdout.split()
    return lines[0] if lines else None


if __name__ == "__main__":
    main()
