"""What machine and software is this? Standard library only; torch is asked in a child process.

A machine is named for its form (``nvidia-h200``, ``amd-epyc-turin-2vcpu``), never for its host: two machines of
one form share a folder of results.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kitchen.results import MACHINE_FORMAT, VERSION

CHILD = Path(__file__).resolve().parent / "child.py"

#: Environment variables that change what torch does or how fast. Records are published, so this is a list of names
#: known to hold a setting, and no pattern: nobody's key or password has a name that looks like one of these.
RECORDED_ENV = (
    "ATEN_CPU_CAPABILITY",
    "CC",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES",
    "CXX",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
    "MKL_CBWR",
    "MKL_DYNAMIC",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_DYNAMIC",
    "OMP_NUM_THREADS",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_SCHEDULE",
    "OMP_WAIT_POLICY",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCHDYNAMO_DISABLE",
    "TORCHINDUCTOR_AUTOGRAD_CACHE",
    "TORCHINDUCTOR_COMPILE_THREADS",
    "TORCHINDUCTOR_COORDINATE_DESCENT_TUNING",
    "TORCHINDUCTOR_CPP_WRAPPER",
    "TORCHINDUCTOR_EMULATE_PRECISION_CASTS",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
    "TORCHINDUCTOR_FREEZING",
    "TORCHINDUCTOR_FX_GRAPH_CACHE",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM",
    "TORCHINDUCTOR_SHAPE_PADDING",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_COMPILE_DISABLE",
    "TRITON_CACHE_AUTOTUNING",
)

# CPU family and model tell the generation where the brand string of a virtual machine hides it.
# Sources: AMD and Intel identifiers as in the Linux kernel's arch/x86 (asm/intel-family.h, cpu/amd.c).
_AMD = {
    23: [(range(0x00, 0x10), "naples"), (range(0x30, 0x40), "rome")],
    25: [(range(0x00, 0x10), "milan"), (range(0x10, 0x20), "genoa"), (range(0xA0, 0xB0), "bergamo")],
    26: [(range(0x00, 0x20), "turin")],
}
_INTEL = {
    0x55: "skylake-sp",
    0x6A: "ice-lake-sp",
    0x8F: "sapphire-rapids",
    0xCF: "emerald-rapids",
    0xAD: "granite-rapids",
}


class ProbeError(RuntimeError):
    """This Python cannot measure; the message says why and what to do."""


def probe(python: str = sys.executable, timeout_s: float = 120) -> dict[str, Any]:
    """Asks torch, in a fresh process, for its version, threads and GPU.

    Raises ProbeError where torch is missing or does not import.
    """
    with tempfile.TemporaryDirectory(prefix="kitchen-probe-") as folder:
        out = Path(folder) / "probe.json"
        try:
            done = subprocess.run(
                [python, str(CHILD), "probe", str(out)],
                capture_output=True,
                text=True,
                timeout=timeout_s,
                cwd=folder,
            )
        except subprocess.TimeoutExpired as error:
            raise ProbeError(f"importing torch in {python} took more than {timeout_s:.0f} s") from error
        if not out.is_file():
            lines = done.stderr.strip().splitlines()
            last = lines[-1] if lines else f"exit code {done.returncode}"
            advice = ": pip install torch" if "No module named 'torch'" in last else ""
            raise ProbeError(f"{python} cannot import torch ({last}){advice}")
        data: dict[str, Any] = json.loads(out.read_text("utf-8"))
        return data


def environment(probed: dict[str, Any]) -> dict[str, Any]:
    """The software of a run, for run.json."""
    return {
        # Two machines with one GPU form may have different hosts, and the host pays for the launches.
        "cpu": cpu_info()["title"],
        "cores": os.cpu_count() or 1,
        "python": platform.python_version(),
        "torch": probed["torch"],
        "triton": probed["triton"],
        "cuda": probed["cuda"],
        "driver": probed["driver"],
        "device_name": probed["gpu"]["name"] if probed["gpu"] else None,
        "cxx": probed["cxx"],
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "threads": probed["threads"],
        "interop_threads": probed["interop_threads"],
        # Of a compiler's path only the name: a path may name a person.
        "env": {
            name: (Path(os.environ[name]).name if name in ("CC", "CXX") else os.environ[name])[:400]
            for name in RECORDED_ENV
            if name in os.environ
        },
    }


def describe(probed: dict[str, Any]) -> dict[str, Any]:
    """machine.json of this machine."""
    info = cpu_info()
    cores = os.cpu_count() or 1
    gpu = probed["gpu"]
    if gpu:
        count = f"{gpu['count']}x-" if gpu["count"] > 1 else ""
        name = slug(f"{count}{gpu['name']}")
        title = f"{gpu['count']} × {gpu['name']}" if gpu["count"] > 1 else gpu["name"]
    else:
        unit = "vcpu" if info["virtual"] else "cpu"
        name = slug(f"{info['short']}-{cores}{unit}")
        title = f"{info['title']}, {cores} {'vCPU' if info['virtual'] else 'CPU'}"
    return {
        "format": MACHINE_FORMAT,
        "version": VERSION,
        "name": name,
        "title": title,
        "kind": "cuda" if gpu else "cpu",
        "cpu": info["title"],
        "cores": cores,
        "memory_gib": memory_gib(),
        "caches": cache_sizes(),
        "gpu": gpu,
    }


def slug(text: str) -> str:
    """Lower case, digits and single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80].strip("-") or "unknown"


def cpu_info(cpuinfo: str | None = None) -> dict[str, Any]:
    """Brand and generation of the CPU: ``short`` for names, ``title`` for people, ``virtual`` under a hypervisor."""
    if cpuinfo is None:
        path = Path("/proc/cpuinfo")
        cpuinfo = path.read_text("utf-8", "replace") if path.is_file() else ""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, colon, value = line.partition(":")
        if not colon:
            if fields:
                break
            continue
        fields.setdefault(key.strip(), value.strip())
    brand = fields.get("model name") or platform.processor() or platform.machine()
    if sys.platform == "darwin" and not fields:
        brand = _run(["sysctl", "-n", "machdep.cpu.brand_string"]) or brand
    family, model = int(fields.get("cpu family", 0)), int(fields.get("model", 0))
    generation = None
    if fields.get("vendor_id") == "AuthenticAMD" and "EPYC" in brand:
        generation = next((g for models, g in _AMD.get(family, []) if model in models), None)
    elif fields.get("vendor_id") == "GenuineIntel" and family == 6 and "Xeon" in brand:
        generation = _INTEL.get(model)
    virtual = "hypervisor" in fields.get("flags", "").split()
    plain = re.sub(r"\((R|TM|r|tm)\)", "", brand)
    plain = re.sub(r"\s+", " ", re.sub(r"\b(CPU|Processor|\d+-Core)\b|@.*", "", plain)).strip()
    if generation:
        family_name = "AMD EPYC" if "EPYC" in plain else "Intel Xeon"
        # The generation tells more than the SKU of a slice of a shared machine.
        short, title = (
            f"{family_name} {generation}",
            f"{family_name} ({generation.replace('-', ' ').title()})",
        )
    else:
        short = title = plain
    return {"short": short, "title": title, "virtual": virtual}


def memory_gib() -> float | None:
    """Physical memory in GiB, or None where the system does not tell."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def cache_sizes(root: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[str, int]:
    """Size in KiB of one instance of each cache level, as the kernel reports it; empty where it does not."""
    sizes: dict[str, int] = {}
    for index in sorted(root.glob("index*")):
        try:
            level = (index / "level").read_text().strip()
            kind = (index / "type").read_text().strip()
            size = (index / "size").read_text().strip()
        except OSError:
            continue
        match = re.fullmatch(r"(\d+)([KM])", size)
        if match and kind != "Instruction":
            suffix = "d" if kind == "Data" else ""
            sizes[f"L{level}{suffix}_kib"] = int(match[1]) * (1024 if match[2] == "M" else 1)
    return sizes


def load_average() -> list[float] | None:
    """Load over 1, 5 and 15 minutes."""
    try:
        return [round(value, 2) for value in os.getloadavg()]
    except (AttributeError, OSError):
        return None


def steal_s(stat: Path = Path("/proc/stat")) -> float | None:
    """Seconds of CPU time that the hypervisor gave to others since boot, summed over the cores."""
    try:
        fields = stat.read_text().split("\n", 1)[0].split()
        return int(fields[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None


def git_state(repo: Path) -> tuple[str | None, bool | None]:
    """The commit that is checked out and whether the tree differs from it, or (None, None) outside git."""
    commit = _run(["git", "-C", str(repo), "rev-parse", "HEAD"])
    if not commit or not re.fullmatch(r"[0-9a-f]{40,64}", commit):
        return None, None
    # What the measuring itself writes does not make the code differ.
    changed = _run(["git", "-C", str(repo), "status", "--porcelain", "--", ".", ":(exclude)results"])
    return commit, None if changed is None else bool(changed)


def _run(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
