# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 240
# value = 25
# ///
"""import torchvision fails: its library was built for another torch, so its operators are missing.

torchvision loads its library, which defines them, and goes on if that fails; the next thing that it does is to tell
torch.compile the shape of torchvision::nms, and that raises. Here this call is made without the library. Fix: torch and
torchvision from one release and one index; here a stand-in for the library defines the operator.


Columns
    step          "problem" or "fix"
    call          what was run
    happened      computed: "error" or "fine"
    raised_at     when it showed
    error         the exception's class; "" if none came
    message       what it says, without the folders of this machine
    evidence      boxes=, kept=: boxes given to the compiled function, and kept
    status, note  "ok", ""
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import torch

Row = dict[str, Any]
BOXES = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.1, 0.0, 2.0, 2.0], [5.0, 5.0, 6.0, 6.0]])
SCORES = torch.tensor([0.9, 0.8, 0.7])


def problem() -> Row:
    """Do what torchvision does at import, without its library."""
    register = 'torch.library.register_fake("torchvision::nms")'
    return row("problem", f"import torchvision  # {register}", child("without_library"))


def fix() -> Row:
    """The same with a library that fits, and the operator in a compiled function."""
    return row("fix", "import torchvision  # of the same release and index", child("with_library"))


def shape_of_nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    """Tell the compiler what comes out: as many indices as boxes are kept."""
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


def nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    """Keep the boxes that no better one covers: what the library would do."""
    kept: list[int] = []
    for i in scores.argsort(descending=True).tolist():
        corner = torch.minimum(boxes[i, 2:], boxes[kept, 2:]) - torch.maximum(boxes[i, :2], boxes[kept, :2])
        both = corner.clamp(min=0).prod(1)
        areas = [(boxes[of, 2:] - boxes[of, :2]).prod(-1) for of in (i, kept)]
        if not (both / (areas[0] + areas[1] - both) > threshold).any():
            kept.append(i)
    return torch.tensor(kept)


def without_library() -> Row:
    """Name the shape of an operator that nobody has defined."""
    try:
        torch.library.register_fake("torchvision::nms", shape_of_nms)
    except Exception as error:
        names = {"error": type(error).__name__, "message": re.sub(r"\s+", " ", str(error))[:400]}
        return {"happened": "error", "raised_at": "import"} | names
    return {"happened": "fine"}


def with_library() -> Row:
    """Define the operator first; then name its shape, compile a function that uses it, compare."""
    torch.library.define("torchvision::nms", "(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    torch.library.impl("torchvision::nms", "cpu", nms)
    seen = without_library()
    if seen["happened"] != "fine":
        return seen

    def keep(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return torch.ops.torchvision.nms(boxes, scores, 0.5) * 2

    kept = torch.compile(keep, backend="aot_eager", fullgraph=True)(BOXES, SCORES)
    same = torch.equal(kept, nms(BOXES, SCORES, 0.5) * 2)
    return {"happened": "fine" if same else "wrong", "evidence": f"boxes={len(BOXES)}, kept={len(kept)}"}


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [problem(), fix()]


# ---- from here on: fresh processes, one row for each ----------------------------------------------------------------


def child(function: str) -> Row:
    """Run a function of this file in a fresh process; return what it saw."""
    done = subprocess.run([sys.executable, __file__, function], capture_output=True, text=True, timeout=100)
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
