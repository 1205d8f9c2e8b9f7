# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 240
# value = 60
# ///
"""Will torch.compile work on this machine? A list of checks of what usually breaks it, each with what to do.

Run it with the Python and in the environment of the program that is to be compiled: ``python preflight.py``. It prints
one line a check and ends with status 1 if something breaks compiling. It needs nothing but Python: torch is imported in
processes of its own, so that a torch that fails or crashes is a finding too. The last check compiles a small function
for real, with an empty cache folder. Nothing is changed on the machine, and nothing leaves it.

Columns
    check         what was looked at
    found         what is there, in names and numbers; folders are told relative to $TMPDIR, ~ and $USER
    outcome       "fine"; "look": works, with a loss or a surprise; "breaks": nothing gets compiled, or it fails;
                  "not here": does not apply, or could not be looked at because something before it failed
    advice        the key of what to do (ADVICE has the sentence); "" where nothing is to be done
    status, note  "ok", ""
"""

from __future__ import annotations

import argparse
import getpass
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
#: Facts that the process with torch found; {"error": ...} where it failed.
Facts = dict[str, Any]
#: What a check returns: found, outcome, advice.
Answer = tuple[str, str, str]

ADVICE = {
    "repair-torch": "torch can't be imported: install it again, for this Python. What needs torch was not checked.",
    "other-python": "This torch does not compile on this Python. 3.11 needs torch 2.1, 3.12 needs 2.4, 3.13 needs 2.6, "
    "3.14 needs 2.10; 3.15 had to wait at torch 2.14.",
    "switch-on": "This variable switches compiling off: unset it.",
    "show-errors": "This variable hides errors of the compiler, and the code runs uncompiled: unset it.",
    "know-the-setting": "This variable changes how everything is compiled: make sure that it is meant.",
    "install-compiler": "Install a C++ compiler (Debian, Ubuntu: g++; Fedora: gcc-c++; macOS: xcode-select --install; "
    "Windows: Visual Studio Build Tools, and start from its developer console), or name one in CXX.",
    "install-headers": "Install the headers of this very Python (Debian, Ubuntu: python3-dev; Fedora: python3-devel).",
    "install-openmp": "The compiler can't build a program with OpenMP: install libomp-dev for clang, or use g++.",
    "set-tmpdir": "Set TMPDIR to a folder that can be written: Inductor and the C++ compiler both need one.",
    "make-room": "Make room there, or set TMPDIR (and TORCHINDUCTOR_CACHE_DIR) to a folder with more: the "
    "precompiled C++ header alone takes about 150 MiB.",
    "set-cache-folder": "Set TORCHINDUCTOR_CACHE_DIR to a folder that this user can write.",
    "leave-noexec": "This file system is mounted noexec, so no library can be loaded from it: set "
    "TORCHINDUCTOR_CACHE_DIR to a folder on another one.",
    "keep-the-cache": "In a container this folder goes with the container, and each start compiles everything again: "
    "set TORCHINDUCTOR_CACHE_DIR to a folder on a volume.",
    "name-the-user": "This user id has no name, and torch before 2.13 fails on that: set USER and "
    "TORCHINDUCTOR_CACHE_DIR.",
    "newer-compiler": "Inductor found no vector instructions that the compiler can build for, so kernels work on one "
    "number at a time: try a newer compiler.",
    "fewer-threads": "There are more threads than CPUs that this process may use: set OMP_NUM_THREADS.",
    "more-threads": "One thread works and other CPUs wait: unset OMP_NUM_THREADS if that is not meant.",
    "fewer-workers": "There are more compile workers than CPUs that this process may use, and each takes memory: set "
    "TORCHINDUCTOR_COMPILE_THREADS.",
    "default-workers": "Compile workers started by fork or spawn bring old problems back: unset "
    "TORCHINDUCTOR_WORKER_START.",
    "no-workers": "Compile workers don't start: set TORCHINDUCTOR_COMPILE_THREADS=1, and compiling takes place in the "
    "process itself.",
    "cuda-build": "There is an NVIDIA GPU, and this torch is built without CUDA: install a CUDA build to use it.",
    "repair-driver": "The driver is there, but torch can't use the GPU: read the reason; often the driver is too old "
    "for this CUDA, or the container was started without --gpus.",
    "newer-driver": "The driver is older than this CUDA needs: update it, or install a torch for an older CUDA.",
    "older-gpu": "Triton needs a GPU of capability 7.0 or newer. On this one leave torch.compile out, or use "
    'backend="cudagraphs".',
    "other-build": "This torch has no code for this GPU: install a build that has.",
    "install-triton": "Inductor compiles for the GPU with Triton: install the version that torch asks for.",
    "match-triton": "This Triton is not the version that torch asks for: install the one that it names.",
    "match-torch": "It was built for another torch: install both anew, from one release and one index.",
    "read-the-message": "A small function could not be compiled; the message is torch's own. Look it up in the "
    "catalogue of errors.",
    "report-it": "A small function gave a wrong result: climb the ladder of back ends, and report it.",
    "nothing-compiled": "The function ran, but nothing was compiled: something switches compiling off.",
    "look-yourself": "The check itself did not work here: look at this one by hand.",
}

#: The first torch that compiles on a Python, and the first Python that none did so far.
PYTHONS = {(3, 11): (2, 1), (3, 12): (2, 4), (3, 13): (2, 6), (3, 14): (2, 10)}
TOO_NEW = (3, 15)
#: The oldest driver for all releases of a CUDA (NVIDIA, "CUDA compatibility": minor version compatibility).
DRIVERS = {11: (450, 80), 12: (525, 60), 13: (580, 0)}
OLDEST_CAPABILITY = (7, 0)
#: Below the first nothing can be built, below the second it soon gets tight.
ROOM_MIB = (300, 1024)
OFF = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")
SETTINGS = (
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "TORCHINDUCTOR_FREEZING",
    "TORCHINDUCTOR_CPP_WRAPPER",
    "TORCH_COMPILE_DEBUG",
    "TORCH_COMPILE_OVERRIDE_BACKENDS",
)


# ---- the environment ------------------------------------------------------------------------------------------------


def torch_imports(facts: Facts) -> Answer:
    """Is there a torch that can be imported?"""
    if "error" in facts:
        return facts["error"], "breaks", "repair-torch"
    return f"torch {facts['torch']}", "fine", ""


def python_pair(facts: Facts) -> Answer:
    """Does this torch compile on this Python?"""
    found = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    if "error" in facts:
        return found, "not here", ""
    needed = PYTHONS.get(sys.version_info[:2], (0, 0))
    supported = facts["supported"] and sys.version_info[:2] < TOO_NEW and numbers(facts["torch"]) >= needed
    return (found, "fine", "") if supported else (f"{found}: {facts['unsupported']}", "breaks", "other-python")


def switches(facts: Facts) -> Answer:
    """Is compiling switched off, or changed, by the environment?"""
    values = {name: os.environ.get(name, "") for name in (*OFF, "TORCHDYNAMO_SUPPRESS_ERRORS", *SETTINGS)}
    found = ", ".join(f"{name}={value}" for name, value in values.items() if value)
    if any(values[name] == "1" for name in OFF):
        return found, "breaks", "switch-on"
    if values["TORCHDYNAMO_SUPPRESS_ERRORS"]:
        return found, "look", "show-errors"
    if any(values[name] not in ("", "0") for name in SETTINGS):
        return found, "look", "know-the-setting"
    return found, "fine", ""


# ---- the compiler ---------------------------------------------------------------------------------------------------


def compiler_name() -> str:
    """The compiler that Inductor would call."""
    return os.environ.get("CXX") or {"Windows": "cl", "Darwin": "clang++"}.get(platform.system(), "g++")


def compiler(facts: Facts) -> Answer:
    """Is there a C++ compiler, and does it run?"""
    name = compiler_name()
    if not shutil.which(name):
        return f"{Path(name).name}=missing", "breaks", "install-compiler"
    if Path(name).stem.lower() == "cl":
        return name, "fine", ""  # it has no --version, and prints its name on stderr
    done = call([name, "--version"])
    if done.returncode:
        return f"{Path(name).name} --version, exit={done.returncode}", "breaks", "install-compiler"
    return (done.stdout.splitlines() or [name])[0], "fine", ""


def python_headers(facts: Facts) -> Answer:
    """Is Python.h where this Python says?"""
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if header.is_file():
        return f"Python.h={sysconfig.get_python_version()}", "fine", ""
    return f"Python.h=missing, folder={hidden(header.parent)}", "breaks", "install-headers"


def openmp(facts: Facts) -> Answer:
    """Can the compiler build and run a program with OpenMP?"""
    if platform.system() != "Linux" or not shutil.which(compiler_name()):
        return "", "not here", ""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "threads.cpp", Path(folder) / "threads"
        source.write_text("#include <omp.h>\nint main() { return omp_get_max_threads(); }\n")
        done = call([compiler_name(), "-fopenmp", str(source), "-o", str(program)])
        if done.returncode:
            why = next((line for line in done.stderr.splitlines() if "error" in line), f"exit {done.returncode}")
            return hidden(why), "breaks", "install-openmp"
        return f"threads={call([str(program)]).returncode}", "fine", ""


# ---- the folders ----------------------------------------------------------------------------------------------------


def temporary_folder(facts: Facts) -> Answer:
    """Is there one, and is there room?"""
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError as error:
        return hidden(str(error)), "breaks", "set-tmpdir"
    asked = os.environ.get("TMPDIR", "")
    if asked and Path(asked).resolve() != Path(folder).resolve():
        return f"TMPDIR={asked}, used={hidden(folder)}", "look", "set-tmpdir"
    return room(Path(folder))


def room(folder: Path) -> Answer:
    """How much is free there? A number only where it is little: it changes with every file."""
    free = shutil.disk_usage(folder).free >> 20
    if free < ROOM_MIB[0]:
        return f"free_mib={free}", "breaks", "make-room"
    if free < ROOM_MIB[1]:
        return f"free_mib={free}", "look", "make-room"
    return f"free_mib>={ROOM_MIB[1]}", "fine", ""


def cache_place() -> Path:
    """The folder where Inductor keeps what it builds."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = f"uid_{os.getuid()}" if hasattr(os, "getuid") else "unknown_user"
    default = Path(tempfile.gettempdir()) / f"torchinductor_{user}"
    return Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or default)


def cache_folder(facts: Facts) -> Answer:
    """Can it be written? (Makes the folder if there is none, as Inductor does, and takes it away again.)"""
    place = cache_place()
    made = [folder for folder in (place, *place.parents) if not folder.exists()]
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"1")
        answer = room(place)
    except OSError as error:
        return f"{hidden(place)}: {error.strerror}", "breaks", "set-cache-folder"
    finally:
        for folder in made:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
    return f"{hidden(place)}, {answer[0]}", *answer[1:]


def cache_exec(facts: Facts) -> Answer:
    """May libraries be loaded from there?"""
    place = cache_place()
    while not place.exists():
        place = place.parent
    if not hasattr(os, "ST_NOEXEC"):
        return "", "not here", ""
    noexec = bool(os.statvfs(place).f_flag & os.ST_NOEXEC)
    return ("noexec", "breaks", "leave-noexec") if noexec else ("exec", "fine", "")


def cache_lasts(facts: Facts) -> Answer:
    """Is the folder still there after a restart?"""
    inside = any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv"))
    inside = inside or "KUBERNETES_SERVICE_HOST" in os.environ
    own = bool(os.environ.get("TORCHINDUCTOR_CACHE_DIR"))
    found = f"container={inside}, own_folder={own}"
    return (found, "look", "keep-the-cache") if inside and not own else (found, "fine", "")


def user_name(facts: Facts) -> Answer:
    """Has the user id a name? The default cache folder is named after it."""
    try:
        getpass.getuser()
    except (KeyError, OSError, ImportError) as error:
        old = "error" not in facts and numbers(facts["torch"]) < (2, 13)
        return (
            str(error).strip("'\""),
            "breaks" if old and not os.environ.get("TORCHINDUCTOR_CACHE_DIR") else "look",
            ("name-the-user"),
        )
    return "name=True", "fine", ""


# ---- the processor --------------------------------------------------------------------------------------------------


def usable_cpus() -> int:
    """CPUs that this process may use: by affinity, and by the quota of its control group."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for file in ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"):
        try:
            quota, *period = Path(file).read_text().split()
            if not period:
                period = Path(file).with_name("cpu.cfs_period_us").read_text().split()
            if quota not in ("max", "-1"):
                count = min(count, max(1, -(-int(quota) // int(period[0]))))
        except (OSError, ValueError):
            continue
    return count


def threads(facts: Facts) -> Answer:
    """Do torch's threads fit the CPUs?"""
    if "error" in facts:
        return "", "not here", ""
    cpus, count = usable_cpus(), facts["threads"]
    found = f"threads={count}, usable_cpus={cpus}"
    if count > cpus:
        return found, "look", "fewer-threads"
    return (found, "look", "more-threads") if count == 1 < cpus else (found, "fine", "")


def workers(facts: Facts) -> Answer:
    """Do Inductor's compile workers fit the CPUs, and are they started in the usual way?"""
    if "error" in facts:
        return "", "not here", ""
    cpus, count, start = usable_cpus(), facts["workers"], facts["worker_start"]
    found = f"workers={count}, usable_cpus={cpus}, start={start}"
    if start != "subprocess":
        return found, "look", "default-workers"
    return (found, "look", "fewer-workers") if count > 2 * cpus else (found, "fine", "")


def vectors(facts: Facts) -> Answer:
    """Which vector instructions does Inductor write?"""
    if "vectors" not in facts:
        return "", "not here", ""
    found = f"picked={facts['vectors'] or None}, cpu={facts['capability']}"
    return (found, "fine", "") if facts["vectors"] else (found, "look", "newer-compiler")


# ---- the GPU --------------------------------------------------------------------------------------------------------


def driver_version() -> str:
    """The version of NVIDIA's driver; "" if there is none."""
    try:
        told = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        told = ""
        if shutil.which("nvidia-smi"):
            told = call(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]).stdout
    match = re.search(r"\b(\d{3}\.[\d.]+)\b", told)
    return match[1] if match else ""


def gpu(facts: Facts) -> Answer:
    """Is there a GPU, and can torch use it?"""
    if "error" in facts:
        return "", "not here", ""
    driver, build = driver_version(), facts["cuda"] or facts["hip"]
    if facts["gpus"]:
        return ", ".join(f"{one['name']} ({one['capability']})" for one in facts["gpus"]), "fine", ""
    if driver and not build:
        return f"driver={driver}, cuda=None", "look", "cuda-build"
    if driver:
        return f"driver={driver}, cuda={build}: {facts['no_gpu']}", "breaks", "repair-driver"
    return "", "not here", ""


def driver(facts: Facts) -> Answer:
    """Is the driver new enough for torch's CUDA?"""
    version = driver_version()
    if "error" in facts or not version or not facts["cuda"]:
        return "", "not here", ""
    needed = DRIVERS.get(numbers(facts["cuda"])[0], (0, 0))
    found = f"driver={version}, cuda={facts['cuda']}"
    return (found, "fine", "") if numbers(version) >= needed else (found, "breaks", "newer-driver")


def capability(facts: Facts) -> Answer:
    """Is every GPU one that Triton compiles for, and that torch has code for?"""
    if "error" in facts or not facts["gpus"] or facts["hip"]:
        return "", "not here", ""
    found = ", ".join(one["capability"] for one in facts["gpus"])
    if any(numbers(one["capability"]) < OLDEST_CAPABILITY for one in facts["gpus"]):
        return found, "breaks", "older-gpu"
    if any(not one["has_code"] for one in facts["gpus"]):
        return f"{found}, built_for={' '.join(facts['architectures'])}", "breaks", "other-build"
    return found, "fine", ""


def triton(facts: Facts) -> Answer:
    """Is Triton there, in the version that torch asks for?"""
    wanted = next((one for one in requirements("torch") if re.match(r"(pytorch-)?triton\b", one)), "")
    name = re.match(r"[\w-]*", wanted)[0] or "triton"  # type: ignore[index]
    there = version_of(name)
    needed = bool(facts.get("gpus"))
    if not there:
        return f"triton=missing, wanted={wanted or name}" if needed else "", *(
            ("breaks", "install-triton") if needed else ("not here", "")
        )
    if not fits(there, wanted):
        return f"triton {there}, wanted={wanted}", "breaks" if needed else "look", "match-triton"
    return f"triton {there}", "fine", ""


# ---- the packages beside torch --------------------------------------------------------------------------------------


def neighbour(name: str) -> Callable[[Facts], Answer]:
    """Make the check of a package that is built for one torch: do the versions match, and can it be imported?"""

    def check(facts: Facts) -> Answer:
        there, wanted = version_of(name), next((one for one in requirements(name) if re.match(r"torch\b", one)), "")
        if not there or "error" in facts:
            return "", "not here", ""
        found = f"{name} {there}, torch {facts['torch']}"
        if not fits(facts["torch"], wanted):
            return f"{found}, wanted={wanted}", "breaks", "match-torch"
        done = call([sys.executable, "-c", f"import {name}"])
        if done.returncode:
            return f"{found}: {last_line(done.stderr)}", "breaks", "match-torch"
        return found, "fine", ""

    return check


# ---- for real -------------------------------------------------------------------------------------------------------


def compile_workers(facts: Facts) -> Answer:
    """Do Inductor's compile workers start?"""
    if "pool" not in facts:
        return "", "not here", ""
    return ("ready", "fine", "") if facts["pool"] == "ready" else (facts["pool"], "breaks", "no-workers")


def real_compile(device: str) -> Callable[[Facts], Answer]:
    """Make the check that compiles a small function on a device, from nothing, and compares it with eager mode."""

    def check(facts: Facts) -> Answer:
        if "error" in facts or (device == "cuda" and not facts["gpus"]):
            return "", "not here", ""
        seen = child("--compile", device, fresh_cache=True)
        if "error" in seen:
            return seen["error"], "breaks", "read-the-message"
        found = f"graphs={seen['graphs']}, kernels={seen['kernels']}"
        if not seen["same"]:
            return found, "breaks", "report-it"
        return (found, "fine", "") if seen["graphs"] else (found, "breaks", "nothing-compiled")

    return check


CHECKS: dict[str, Callable[[Facts], Answer]] = {
    "torch": torch_imports,
    "python": python_pair,
    "switches": switches,
    "compiler": compiler,
    "python-headers": python_headers,
    "openmp": openmp,
    "temporary-folder": temporary_folder,
    "cache-folder": cache_folder,
    "cache-exec": cache_exec,
    "cache-lasts": cache_lasts,
    "user-name": user_name,
    "threads": threads,
    "workers": workers,
    "vectors": vectors,
    "gpu": gpu,
    "driver": driver,
    "capability": capability,
    "triton": triton,
    "torchvision": neighbour("torchvision"),
    "torchaudio": neighbour("torchaudio"),
    "worker-start": compile_workers,
    "compile-cpu": real_compile("cpu"),
    "compile-gpu": real_compile("cuda"),
}


def run() -> list[Row]:
    """Make every check (columns: module docstring). A check that fails is a finding, never an end."""
    facts = child("--facts", fresh_cache=True)
    rows = []
    for name, check in CHECKS.items():
        try:
            found, outcome, advice = check(facts)
        except Exception as error:
            found, outcome, advice = hidden(f"{type(error).__name__}: {error}"), "look", "look-yourself"
        answer = {"check": name, "found": found[:300], "outcome": outcome, "advice": advice}
        rows.append(answer | {"status": "ok", "note": ""})
    return rows


# ---- what runs in processes of its own ------------------------------------------------------------------------------


def facts_of_torch() -> Facts:
    """Everything that only torch knows."""
    import torch

    facts: Facts = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "threads": torch.get_num_threads(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "unsupported": "",
        "no_gpu": "",
        "gpus": [],
    }
    from torch._dynamo import eval_frame
    from torch._inductor import config

    try:
        eval_frame.check_if_dynamo_supported()
    except Exception as error:
        facts["unsupported"] = str(error)
    facts["supported"] = not facts["unsupported"]
    facts["workers"], facts["worker_start"] = config.decide_compile_threads(), config.worker_start_method
    if torch.cuda.is_available():
        facts["architectures"] = torch.cuda.get_arch_list()
        facts["gpus"] = [gpu_facts(torch.cuda.get_device_properties(n)) for n in range(torch.cuda.device_count())]
    elif facts["cuda"]:
        try:
            torch.zeros(1, device="cuda")
        except Exception as error:
            facts["no_gpu"] = last_line(str(error))
    facts |= guarded("vectors", vector_names) | guarded("pool", start_workers)
    return facts


def gpu_facts(properties: Any) -> Facts:
    """A GPU's name, its capability, and whether torch has code for it."""
    import torch

    major, minor = properties.major, properties.minor
    known = [re.match(r"(sm|compute)_(\d+)(\d)", name) for name in torch.cuda.get_arch_list()]
    # Code for a GPU of the same major number, or an intermediate form of an older one, runs.
    codes = [(one[1], int(one[2]), int(one[3])) for one in known if one]
    has = any((m == major and n <= minor) if form == "sm" else (m, n) <= (major, minor) for form, m, n in codes)
    return {"name": properties.name, "capability": f"{major}.{minor}", "has_code": has or not codes}


def vector_names() -> str:
    """The instructions that Inductor picks; it compiles a probe for each."""
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    picked = pick_vec_isa()
    return str(picked) if picked else ""


def start_workers() -> str:
    """Start the compile workers, as for the first Triton kernel."""
    from torch._inductor.async_compile import AsyncCompile

    AsyncCompile.warm_pool()
    AsyncCompile.wait_pool_ready(60)
    return "ready"


def guarded(name: str, ask: Callable[[], str]) -> Facts:
    """One fact, or nothing of it where it can't be asked; for the workers the reason is the fact."""
    try:
        return {name: ask()}
    except Exception as error:
        return {name: f"{type(error).__name__}: {last_line(str(error))}"} if name == "pool" else {}


def compile_on(device: str) -> Facts:
    """Compile a small function and its backward, call them, compare with eager mode."""
    import torch
    from torch._dynamo.utils import counters

    def f(x: torch.Tensor) -> torch.Tensor:
        return (torch.relu(torch.sin(x)) + 1).mean()

    x = torch.linspace(-3, 3, 1000, device=device, requires_grad=True)
    try:
        (got,) = torch.autograd.grad(torch.compile(f)(x), x)
    except Exception as error:
        text = str(error).split("Set TORCHDYNAMO_VERBOSE")[0]
        return {"error": hidden(f"{type(error).__name__}: {first_error(text)}")}
    (wanted,) = torch.autograd.grad(f(x), x)
    cache = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    kernels = len([*cache.rglob("*.main.so"), *cache.rglob("*.cubin"), *cache.rglob("*.hsaco")])
    graphs = counters["stats"]["unique_graphs"]
    return {"same": torch.allclose(got, wanted, atol=1e-6), "graphs": graphs, "kernels": kernels}


def first_error(text: str) -> str:
    """The line of a message that says why: the compiler's first error, else the first line with words."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if re.search(r"\berror: ", line)), (lines or [""])[0])


# ---- helpers --------------------------------------------------------------------------------------------------------


def call(command: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; one that is missing or does not end has a status too."""
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=180, **more)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "no end after 180 s")
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


def child(*arguments: str, fresh_cache: bool = False) -> Facts:
    """Run this file in a process of its own; return its facts, or its end as an error."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            new = {"TORCHINDUCTOR_CACHE_DIR": str(Path(folder) / "cache")} if fresh_cache else {}
            done = call([sys.executable, str(Path(__file__).resolve()), *arguments], env=os.environ | new)
    except OSError as error:
        # No temporary folder: the check of that says so; torch can be asked all the same.
        done = call([sys.executable, str(Path(__file__).resolve()), *arguments])
        if done.returncode:
            return {"error": hidden(str(error))}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            facts: Facts = json.loads(line)
            return facts
    return {"error": last_line(done.stderr) or f"ended with {done.returncode}"}


def last_line(text: str) -> str:
    """The last line with words: the reason in a traceback."""
    return hidden(next((line.strip() for line in reversed(text.splitlines()) if line.strip()), ""))


def hidden(text: str | Path) -> str:
    """A text without the names of this machine's folders and of the user."""
    text = str(text)
    places = [(os.environ.get("TMPDIR", ""), "$TMPDIR"), (str(Path.home()), "~"), (sys.prefix, "$PREFIX")]
    for place, name in places:
        if len(place) > 1:
            text = text.replace(place, name)
    text = re.sub(r"torchinductor_\w+", "torchinductor_$USER", text)
    return re.sub(r"(?<![\w.$~])/(?:[\w.+@-]+/){2,}", "…/", text)


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: 2.13.0+cpu gives (2, 13, 0)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def version_of(package: str) -> str:
    """The installed version; "" if there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def requirements(package: str) -> list[str]:
    """What an installed package asks for, without the conditions."""
    try:
        return [one.split(";")[0].strip() for one in importlib.metadata.requires(package) or []]
    except importlib.metadata.PackageNotFoundError:
        return []


def fits(version: str, requirement: str) -> bool:
    """Whether a version is the one that is asked for with == or ~=; other requirements are not judged."""
    match = re.search(r"(==|~=)\s*([\d.]+)", requirement)
    if not match:
        return True
    wanted, there = numbers(match[2]), numbers(version)
    if match[1] == "==":
        return there[: len(wanted)] == wanted
    return there[: len(wanted) - 1] == wanted[:-1] and there >= wanted


MARKS = {"fine": "ok", "look": "LOOK", "breaks": "BREAKS", "not here": "-"}


def main() -> int:
    """Print the list; 1 if something breaks compiling."""
    parser = argparse.ArgumentParser(description="Checks a machine for what breaks torch.compile.")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--facts", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--compile", metavar="DEVICE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.facts or options.compile:
        print(json.dumps(facts_of_torch() if options.facts else compile_on(options.compile)))
        return 0
    rows = run()
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            print(f"{MARKS[row['outcome']]:7} {row['check']:17} {row['found']}".rstrip())
            if row["advice"]:
                print(f"{'':26}{ADVICE[row['advice']]}")
    return int(any(row["outcome"] == "breaks" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
