# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 120
# value = 25
# ///
""" "getpwuid(): uid not found": a container whose user has no entry in /etc/passwd.

Inductor named its cache folder after the user; since torch 2.13 it takes the number where there is no name. The missing
entry is played here: pwd.getpwuid raises what it raises there.

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

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

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


def without_a_name(code: str, **environment: str) -> tuple[str, str, str]:
    """Run code in a process whose user has no name: the error's class, its message, and what was printed."""
    with tempfile.TemporaryDirectory() as folder:
        kept = {key: value for key, value in os.environ.items() if key not in NAMES}
        child = subprocess.run(
            [sys.executable, "-c", NO_ENTRY + code],
            env=kept | {"TMPDIR": folder} | {key: value.format(folder=folder) for key, value in environment.items()},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    if child.returncode:
        last = next(line for line in reversed(child.stderr.splitlines()) if "Error" in line)
        kind, _, message = last.partition(": ")
        return kind.rpartition(".")[2], message, ""
    return "", "", child.stdout.strip().splitlines()[-1]


#: Where getpass.getuser() looks before it asks the system, and what else names the folder.
NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME", "TORCHINDUCTOR_CACHE_DIR")
NO_ENTRY = """
import pwd
def no_entry(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")
pwd.getpwuid = no_entry
"""
CACHE_FOLDER = """
import os
import torch._inductor.codecache
from torch._inductor.runtime.cache_dir_utils import cache_dir
print(os.path.basename(cache_dir()))
"""


def problem() -> tuple[str, str, str]:
    """Where do the caches go? Every compilation asks."""
    return without_a_name(CACHE_FOLDER)


def problem_folder_only() -> tuple[str, str, str]:
    """The advice of most threads: a folder of your own. The precompiled headers still asked for the name."""
    return without_a_name(CACHE_FOLDER, TORCHINDUCTOR_CACHE_DIR="{folder}/compiled")


def fix() -> tuple[str, str, str]:
    """Any name will do; the folder besides, to keep the cache."""
    return without_a_name(CACHE_FOLDER, USER="cook", TORCHINDUCTOR_CACHE_DIR="{folder}/compiled")


def asked(step: str, call: str, ask: Callable[[], tuple[str, str, str]], expected: str) -> Row:
    """Ask for the folder: the error, or whether there is one as expected."""
    error, message, folder = ask()
    if error:
        return row(step, call, "error", "import", error, re.sub(r"\d+", "N", message.strip("'\"")))
    named = re.sub(r"\d+", "N", folder)
    return row(step, call, "fine" if folder.startswith(expected) else "wrong", evidence=f"folder={named}")


def run() -> list[Row]:
    """Rows: no name, only a folder of one's own, and a name."""
    own = 'os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder'
    return [
        asked("problem", "import torch._inductor.codecache", problem, "torchinductor_"),
        asked("problem", f"{own}; import torch._inductor.codecache", problem_folder_only, "compiled"),
        asked("fix", f'os.environ["USER"] = "cook"; {own}; import torch._inductor.codecache', fix, "compiled"),
    ]


if __name__ == "__main__":
    for each in run():
        print(f"{each['step']:8} {each['happened']:12} {each['call']}")
        for key in ("raised_at", "error", "message", "evidence"):
            if each[key]:
                print(f"{'':8} {key}: {each[key]}")
