# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# limit_s = 120
# value = 35
# ///
"""What torch.compile is by default on this torch: settings, names of back ends, functions of torch.compiler.

Settings are read from the config modules before anything is compiled, in a child process without the environment
variables that change them (TORCH..., TRITON...). Run it on two versions and compare: what a guide says of a default was
read from one version of this list. Nothing is compiled, nothing is timed.

Columns
    subject     "setting", "back end" or "function"
    full_name   its full name: ``torch._inductor.config.fx_graph_cache``, a name for ``backend=``,
                ``torch.compiler.compile``
    value       a setting's default as Python writes it; for a back end "listed" (list_backends() shows it) or
                "for debugging" (with exclude_tags=() only); for a function "there"
    status      "ok"
    note        None
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]

SETTINGS = (
    "torch._inductor.config.triton.cudagraphs",
    "torch._inductor.config.max_autotune",
    "torch._inductor.config.shape_padding",
    "torch._inductor.config.freezing",
    "torch._inductor.config.cpp_wrapper",
    "torch._inductor.config.graph_partition",
    "torch._inductor.config.fx_graph_cache",
    "torch._inductor.config.fallback_random",
    "torch._inductor.config.emulate_precision_casts",
    "torch._inductor.config.reorder_for_peak_memory",
    "torch._inductor.config.combo_kernels",
    "torch._inductor.config.deterministic",
    "torch._functorch.config.enable_autograd_cache",
    "torch._functorch.config.activation_memory_budget",
    "torch._functorch.config.donated_buffer",
    "torch._dynamo.config.recompile_limit",
    "torch._dynamo.config.accumulated_recompile_limit",
    "torch._dynamo.config.automatic_dynamic_shapes",
    "torch._dynamo.config.assume_static_by_default",
    "torch._dynamo.config.specialize_float",
    "torch._dynamo.config.capture_scalar_outputs",
    "torch._dynamo.config.capture_dynamic_output_shape_ops",
    "torch._dynamo.config.optimize_ddp",
    "torch._dynamo.config.suppress_errors",
    "torch._dynamo.config.caching_precompile",
)
ABSENT = "absent"


def read(name: str) -> str:
    """Return a setting's value as Python writes it, or ABSENT. ``name``: module and attributes, with dots."""
    module, _, path = name.partition(".config.")
    found: Any = importlib.import_module(f"{module}.config")
    for part in path.split("."):
        if not hasattr(found, part):
            return ABSENT
        found = getattr(found, part)
    return repr(found)


def defaults() -> dict[str, str]:
    """Return the settings of a process in which no environment variable changes them."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("TORCH", "TRITON", "AOT_", "ENABLE_"))
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--settings"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def built_in(names: list[str]) -> list[str]:
    """Return the names of back ends that torch itself brings: no installed package announces them."""
    from importlib.metadata import entry_points

    announced = {entry.name for entry in entry_points(group="torch_dynamo_backends")}
    return [name for name in names if name not in announced]


def run() -> list[Row]:
    """Return one row for each setting, back end and function of torch.compiler (columns: module docstring)."""
    rows = [{"subject": "setting", "full_name": name, "value": value} for name, value in defaults().items()]
    listed = torch.compiler.list_backends()
    from torch._dynamo import list_backends

    everything = sorted(set(list_backends(exclude_tags=())))
    for name in built_in(everything):
        value = "listed" if name in listed else "for debugging"
        rows.append({"subject": "back end", "full_name": name, "value": value})
    for name in sorted(torch.compiler.__all__):
        rows.append({"subject": "function", "full_name": f"torch.compiler.{name}", "value": "there"})
    return [row | {"status": "ok", "note": None} for row in rows]


def main() -> None:
    """Print the rows."""
    for row in run():
        print(f"{row['subject']:9} {row['full_name']:58} {row['value']}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--settings"]:
        print(json.dumps({name: read(name) for name in SETTINGS}))
    else:
        main()
