# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = ["compiler"]
# limit_s = 180
# value = 50
# ///
"""Where Inductor surprises: errors that come later than the line that caused them, and results that differ a little.

Rows, told apart by ``kind``; each has device, status ("ok", or "failed", "not measured" with the reason in note).
    kind = "mistake": a mistake, and when it is noticed
        mistake          "no_cxx" (no C++ compiler, CPU only), "unknown_mode", "unknown_option", "mode_and_options",
                         "wrong_type"
        call             how it is written
        raised_at        "torch.compile()", "first call", or "never"
        error, message   type and first line of what was raised; folders are left out
    kind = "precision": GELU, a product with the input and a layer norm in bfloat16, against float64
        how_run          "eager", "compiled", "emulated" (``emulate_precision_casts``: round where eager rounds)
        error_ratio      root mean square error over the root mean square of the reference
        differs_share    share of elements that are not bit for bit what eager gave
    kind = "dropout": dropout with p = 0.5 after ``torch.manual_seed(0)``
        how_run          "eager", "eager_again", "compiled", "fallback" (``fallback_random``: draw as eager draws)
        differs_share    share of elements that are not what eager gave; where two draws are independent, a half
        kept_share       share of elements that were kept
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

Row = dict[str, Any]

ROWS, COLUMNS = 256, 512
MISTAKES: dict[str, tuple[str, dict[str, Any]]] = {
    "no_cxx": ("torch.compile(f)", {}),
    "unknown_mode": ('torch.compile(f, mode="fast")', {"mode": "fast"}),
    "unknown_option": ('torch.compile(f, options={"optimization_level": 1})', {"options": {"optimization_level": 1}}),
    "mode_and_options": (
        'torch.compile(f, mode="default", options={"max_autotune": True})',
        {"mode": "default", "options": {"max_autotune": True}},
    ),
    "wrong_type": ('torch.compile(f, options={"max_autotune": "yes"})', {"options": {"max_autotune": "yes"}}),
}
NO_CXX_ON_CUDA = "On a GPU the kernels are Triton; this mistake was not tried."
NOT_COMPILED = (
    "No graph was captured, so nothing was compiled and there is nothing to time (is TORCHDYNAMO_DISABLE or "
    "TORCH_COMPILE_DISABLE set?)."
)


# ---------------------------------------------------------------- errors


def scale_and_shift(x: torch.Tensor) -> torch.Tensor:
    """Return relu(1.5 x + 0.25)."""
    return torch.relu(x * 1.5 + 0.25)


def attempt(arguments: dict[str, Any], device: str) -> Row:
    """Compile and call with these arguments of torch.compile and return when it fails, and with what."""
    moment = "torch.compile()"
    try:
        compiled = torch.compile(scale_and_shift, **arguments)
        moment = "first call"
        compiled(torch.ones(8, device=device))
    except Exception as error:
        line = str(error).strip().splitlines()[0]
        # The message may name a folder of this machine; and torch lists all of its many options.
        message = re.sub(
            r"(?<![\w.])/(?:[\w.+-]+/)+", "", re.sub(r"known options are \[.*", "known options are […]", line)
        )
        return {"raised_at": moment, "error": type(error).__name__, "message": message[:300]}
    return {"raised_at": "never", "error": None, "message": None}


def without_compiler(device: str, limit_s: float) -> Row:
    """Do ``attempt`` in a fresh process that finds no C++ compiler and no cache."""
    with tempfile.TemporaryDirectory(prefix="pitfalls-", ignore_cleanup_errors=True) as folder:
        answer = Path(folder, "answer.json")
        environment = os.environ | {"CXX": "no-such-compiler", "TMPDIR": folder}
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder, "cache"))
        command = [sys.executable, __file__, "--child", json.dumps({"answer": str(answer), "device": device})]
        log = Path(folder, "log.txt")
        with log.open("w") as output:  # a file: nothing that the child starts can hold a pipe open
            code = subprocess.run(
                command,
                env=environment,
                timeout=limit_s,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
            ).returncode
        if not answer.exists():
            last = (log.read_text(errors="replace").strip().splitlines() or ["no output"])[-1]
            raise RuntimeError(f"the process ended with code {code}: {last[:300]}")
        row: Row = json.loads(answer.read_text())
    return row


def error_row(mistake: str, device: str, limit_s: float) -> Row:
    """Return the row of one mistake."""
    call, arguments = MISTAKES[mistake]
    row: Row = {"kind": "mistake", "mistake": mistake, "call": call, "raised_at": None, "error": None, "message": None}
    if mistake == "no_cxx" and device == "cuda":
        return row | {"status": "not measured", "note": NO_CXX_ON_CUDA}
    try:
        seen = without_compiler(device, limit_s) if mistake == "no_cxx" else attempt(arguments, device)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return row | {"status": "failed", "note": str(error)[:300]}
    return row | seen | {"status": "ok", "note": None}


# ---------------------------------------------------------------- results


def gelu_norm(x: torch.Tensor) -> torch.Tensor:
    """Return the layer norm of GELU(x) x + x, (ROWS, COLUMNS)."""
    return functional.layer_norm(functional.gelu(x) * x + x, (COLUMNS,))


def drop(x: torch.Tensor) -> torch.Tensor:
    """Return x with about half of its elements dropped and the others doubled."""
    return functional.dropout(x, p=0.5, training=True)


def captured_graphs() -> int:
    """Return how many graphs this process has captured and had compiled."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"]


def outcome(variant: str, compute: Callable[[], torch.Tensor]) -> tuple[torch.Tensor | None, Row]:
    """Return the result of one variant, or None, with its status and note."""
    torch._dynamo.reset()
    before = captured_graphs()
    try:
        result = compute()
    except Exception as error:
        note = f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
        return None, {"status": "failed", "note": note}
    if not variant.startswith("eager") and captured_graphs() == before:
        return None, {"status": "not measured", "note": NOT_COMPILED}
    return result, {"status": "ok", "note": None}


def share(differs: torch.Tensor) -> float:
    """Return the share of elements that are true."""
    return float(differs.double().mean())


def variants(
    function: Callable[[torch.Tensor], torch.Tensor], option: str, name: str
) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    """Return the function compiled as it comes, and with one option of Inductor switched on."""
    return {
        "compiled": torch.compile(function, fullgraph=True),
        name: torch.compile(function, fullgraph=True, options={option: True}),
    }


def precision_rows(device: str) -> list[Row]:
    """Return the rows of the bfloat16 function."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, COLUMNS, generator=generator).to(device, torch.bfloat16)
    reference, eager = gelu_norm(x.double()), gelu_norm(x)
    calls = {"eager": gelu_norm} | variants(gelu_norm, "emulate_precision_casts", "emulated")
    rows = []
    for variant, call in calls.items():
        row: Row = {"kind": "precision", "how_run": variant, "error_ratio": None, "differs_share": None}
        result, state = outcome(variant, lambda call=call: call(x))  # type: ignore[misc]
        if result is not None:
            error = (result.double() - reference).square().mean().sqrt() / reference.square().mean().sqrt()
            row |= {"error_ratio": float(error), "differs_share": share(result != eager)}
        rows.append(row | state)
    return rows


def random_rows(device: str) -> list[Row]:
    """Return the rows of dropout."""
    x = torch.ones(ROWS, COLUMNS, device=device)

    def seeded(call: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        torch.manual_seed(0)
        return call(x)

    eager = seeded(drop)
    calls = {"eager": drop, "eager_again": drop} | variants(drop, "fallback_random", "fallback")
    rows = []
    for variant, call in calls.items():
        row: Row = {"kind": "dropout", "how_run": variant, "differs_share": None, "kept_share": None}
        # Compiling may draw numbers of its own, so the second call is looked at.
        result, state = outcome(variant, lambda call=call: [seeded(call), seeded(call)][1])  # type: ignore[misc]
        if result is not None:
            row |= {"differs_share": share(result != eager), "kept_share": share(result != 0)}
        rows.append(row | state)
    return rows


@torch.no_grad()
def run(*, mistakes: Sequence[str] = tuple(MISTAKES), threads: int = 1, child_limit_s: float = 90.0) -> list[Row]:
    """Make the mistakes, compare the results, and return the rows (columns: module docstring)."""
    torch.set_num_threads(threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = [error_row(mistake, device, child_limit_s) for mistake in mistakes]
    rows += [*precision_rows(device), *random_rows(device)]
    return [row | {"device": device} for row in rows]


def main(arguments: Sequence[str]) -> None:
    """Print everything; with ``--child JOB`` make the mistake "no_cxx" for the parent process."""
    if arguments[:1] == ["--child"]:
        job = json.loads(arguments[1])
        Path(job["answer"]).write_text(json.dumps(attempt({}, job["device"])))
        sys.stdout.flush()
        os._exit(0)
    for row in run():
        shown = {key: value for key, value in row.items() if value is not None and key not in ("kind", "device")}
        print(row["kind"], *(f"{key}={value}" for key, value in shown.items()), sep="  ")


if __name__ == "__main__":
    main(sys.argv[1:])
