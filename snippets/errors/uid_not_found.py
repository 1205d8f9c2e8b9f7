# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.11"]
#
# [tool.kitchen]
# needs = []
# limit_s = 240
# value = 25
# ///
"""A container that runs with a user id which has no name: the name of the cache folder could not be made up.

The default folder is named after the user. With docker run --user 1234, or on OpenShift, the id has no entry in
/etc/passwd, and the look-up fails; here it is made to fail in the same way. Cured in torch 2.13, which names the folder
after the number. Fix for older versions: TORCHINDUCTOR_CACHE_DIR and USER set.


Columns
    step          "problem" or "fix"
    call          what was run
    happened      computed: "error" or "fine"
    raised_at     when it showed
    error         the exception's class; "" if none came
    message       what it says, without the folders of this machine
    evidence      cache=: the name of the cache folder, with N for the id
    status, note  "ok", ""
"""

from __future__ import annotations

import json
import os
import pwd
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]
X = torch.linspace(-3, 3, 1024).reshape(32, 32)


def f(x: torch.Tensor) -> torch.Tensor:
    """Some work that needs no kernel of its own, so that it compiles quickly."""
    return x @ x @ x


def problem() -> Row:
    """Start with an id that nobody knows."""
    return row("problem", "docker run --user 1234 image python serve.py", child("attempt"))


def fix() -> Row:
    """Say what the user is called."""
    return row("fix", "docker run --user 1234 -e USER=me image python serve.py", child("attempt", USER="me"))


def run() -> list[Row]:
    """Provoke it and fix it (columns: module docstring)."""
    return [problem(), fix()]


# ---- from here on: fresh processes, one row for each ----------------------------------------------------------------


def child(function: str, **environment: str) -> Row:
    """Run a function of this file in a fresh process that knows no user; return what it saw."""
    names = ("USER", "LOGNAME", "LNAME", "USERNAME", "TORCHINDUCTOR_CACHE_DIR")
    done = subprocess.run(
        [sys.executable, __file__, function],
        env={name: value for name, value in os.environ.items() if name not in names} | environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    if done.returncode:
        raise RuntimeError(f"{function} ended with {done.returncode}: {done.stderr[-2000:]}")
    seen: Row = json.loads(done.stdout.splitlines()[-1])
    return seen


def unknown(uid: int) -> pwd.struct_passwd:
    """What the look-up does for an id without an entry."""
    raise KeyError(f"getpwuid(): uid not found: {uid}")


def attempt() -> Row:
    """Compile, call, compare with eager mode; say what happened and when."""
    pwd.getpwuid = unknown
    moment = "torch.compile()"
    try:
        compiled = torch.compile(f)
        moment = "first call"
        same = torch.allclose(compiled(X), f(X))
    except Exception as error:
        names = {"error": type(error).__name__, "message": shown(str(error))}
        return {"happened": "error", "raised_at": moment} | names
    folder = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")).name
    return {"happened": "fine" if same else "wrong", "evidence": f"cache={re.sub('[0-9]+', 'N', folder)}"}


def shown(text: str) -> str:
    """Return the first lines of a message, without the compiler's command and without folders."""
    text = re.sub(r"Command:.*?Output:\n", "", text.split("Set TORCHDYNAMO_VERBOSE")[0], flags=re.DOTALL)
    return re.sub(r"(?<![\w.])/(?:[\w.+@-]+/)+", "…/", text).strip()[:400]


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
