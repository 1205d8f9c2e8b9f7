# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
"""Names of old guides that torch._dynamo no longer has, and what counts and logs the same today.

CompileProfiler went in torch 2.6, settings such as config.log_level earlier. cache_size_limit was renamed, and its old
name still works.

Columns
    step        "problem" or "fix"
    call        the code that was run
    happened    what came of it, computed: "fine" is only a result that equals eager mode's
    raised_at   when it showed
    error       the exception's class
    message     what a user sees
    evidence    what was counted or computed
    status      "ok"
    note        ""
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo.utils

Row = dict[str, Any]


def row(
    step: str, call: str, happened: str, raised_at: str = "", error: str = "", message: str = "", evidence: str = ""
) -> Row:
    """One row of the table."""
    return {
        "step": step,
        "call": call,
        "happened": happened,
        "raised_at": raised_at,
        "error": error,
        "message": message,
        "evidence": evidence,
        "status": "ok",
        "note": "",
    }


def tidy(error: object) -> str:
    """The first lines of a message, without addresses and folders of this machine."""
    text = re.sub(r" at 0x[0-9a-f]+", "", str(error).partition("\n\n")[0])
    text = re.sub(r"(?:/[\w.+-]+)+/(?=[\w.+-])", "", text)
    return text if len(text) <= 500 else text[:500] + " …"


def f(x: torch.Tensor, scale: int) -> torch.Tensor:
    """Recompiles once when the number changes."""
    return torch.relu(x) * scale


def problem_profiler() -> None:
    """The class that old guides use to count recompilations."""
    from torch._dynamo.utils import CompileProfiler  # noqa: F401


def problem_setting() -> None:
    """The setting that old guides use to see more."""
    torch._dynamo.config.log_level = logging.INFO


def fix_profiler() -> int:
    """Count graphs; with TORCH_LOGS=recompiles,graph_breaks the log has the reasons."""
    from torch._dynamo.utils import counters

    counters.clear()
    compiled = torch.compile(f, backend="eager", dynamic=False)
    for scale in (2, 3, 3):
        compiled(torch.ones(8), scale)
    return counters["stats"]["unique_graphs"]


def fix_setting() -> int:
    """Logs are switched by name, here or with TORCH_LOGS=dynamo."""
    torch._logging.set_logs(dynamo=logging.INFO)
    level = logging.getLogger("torch._dynamo").level
    torch._logging.set_logs()
    return level


def old_name() -> int:
    """cache_size_limit is recompile_limit."""
    with torch._dynamo.config.patch(cache_size_limit=16):
        return torch._dynamo.config.recompile_limit


def asked(step: str, call: str, raised_at: str, ask: Callable[[], int | None], name: str, expected: int) -> Row:
    """Do it: the error, or whether it gave what it should."""
    torch._dynamo.reset()
    try:
        seen = ask()
    except Exception as error:
        return row(step, call, "error", raised_at, type(error).__name__, tidy(error))
    return row(step, call, "fine" if seen == expected else "wrong", evidence=f"{name}={seen}")


def run() -> list[Row]:
    """Rows: two names that are gone, then what does the same, and a name that was renamed and still works."""
    return [
        asked("problem", "from torch._dynamo.utils import CompileProfiler", "import", problem_profiler, "", 0),
        asked("problem", "torch._dynamo.config.log_level = logging.INFO", "", problem_setting, "", 0),
        asked("fix", 'torch._dynamo.utils.counters["stats"]["unique_graphs"]', "", fix_profiler, "graphs", 2),
        asked("fix", "torch._logging.set_logs(dynamo=logging.INFO)", "", fix_setting, "level", logging.INFO),
        asked("fix", "torch._dynamo.config.cache_size_limit = 16", "", old_name, "recompile_limit", 16),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
