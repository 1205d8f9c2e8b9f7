# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 240
# value = 25
# ///
"""With freezing, every start compiles again: a graph that holds packed weights is kept out of the cache.

Freezing makes the weights constants of the graph, and on a CPU packs those of linear layers for oneDNN. Such tensors
can't be stored, so the graph is not stored either. Silent. Fix: freeze without packing, where a quick start matters
more than the packed product.


Columns
    step          "problem" or "fix"
    call          what was run
    happened      computed: "costly": compiled again; "fine": all found; "wrong"
    raised_at     when it showed
    error         the exception's class; "" if none came
    message       what it says, without the folders of this machine
    evidence      hit=, miss=, bypass=: graphs that Inductor found in its cache, did not find, did not look for
    status, note  "ok", ""
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._inductor import config

Row = dict[str, Any]


def problem(cache: str) -> Row:
    """Start twice with freezing."""
    child("frozen", cache)
    return row("problem", "config.freezing = True  # second start", child("frozen", cache))


def fix(cache: str) -> Row:
    """Start twice with freezing, without packing."""
    child("unpacked", cache)
    call = "config.freezing = True; config.cpp.weight_prepack = False  # second start"
    return row("fix", call, child("unpacked", cache))


def frozen() -> Row:
    """Freeze."""
    config.freezing = True
    return start()


def unpacked() -> Row:
    """Freeze, and leave the weights as they are."""
    config.cpp.weight_prepack = False
    return frozen()


def start() -> Row:
    """Compile, call, compare with eager mode; say what was found in the cache."""
    torch.manual_seed(0)
    model, x = torch.nn.Linear(64, 64).eval(), torch.linspace(-1, 1, 512).reshape(8, 64)
    with torch.no_grad():
        same = torch.allclose(torch.compile(model)(x), model(x), atol=1e-5)
    found = {name: counters["inductor"][f"fxgraph_cache_{name}"] for name in ("hit", "miss", "bypass")}
    happened = "wrong" if not same else "fine" if found["hit"] and sum(found.values()) == 1 else "costly"
    return {"happened": happened, "evidence": ", ".join(f"{name}={count}" for name, count in found.items())}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    with tempfile.TemporaryDirectory() as cache:
        return [problem(cache), fix(cache)]


# ---- from here on: fresh processes, one row for each ----------------------------------------------------------------


def child(function: str, cache: str) -> Row:
    """Run a function of this file in a fresh process with this cache folder; return what it saw."""
    done = subprocess.run(
        [sys.executable, __file__, function],
        env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        timeout=200,
    )
    if done.returncode:
        raise RuntimeError(f"{function} ended with {done.returncode}: {done.stderr[-2000:]}")
    seen: Row = json.loads(done.stdout.splitlines()[-1])
    return seen


def row(step: str, call: str, seen: Row, status: str = "ok", note: str = "") -> Row:
    """Put what a process saw into the columns."""
    whole = {"step": step, "call": call} | dict.fromkeys(("happened", "raised_at", "error", "message", "evidence"), "")
    return whole | seen | {"status": status, "note": note}


def main() -> None:
    """Run it and print what happened."""
    for one in run():
        print(f"{one['step']:8}{one['happened']:13}{one['call']}")
        print("".join(f"{'':21}{one[name]}\n" for name in ("message", "evidence", "note") if one[name]))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
    else:
        main()
