"""The site's own JavaScript run under Node.js by a test in Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments: str, stdin: str | None = None) -> str:
    """What ``node`` prints, run in the repository; the test fails where it ends with an error.

    Without Node.js the test is skipped, or fails where the browser tests are required.
    """
    program = shutil.which("node")
    if program is None:
        reason = "Node.js is not installed (Debian: apt install nodejs)"
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail(f"REQUIRE_BROWSER=1, but {reason}")
        pytest.skip(reason)
    done = subprocess.run([program, *arguments], cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def answer(expression: str, given: Any, **modules: str) -> Any:
    """What an expression of JavaScript gives for ``given``.

    ``modules``: a name for each module of docs/assets/js/tools that it uses, ``logic="explorer/logic.js"``.
    """
    lines = [f"const {name} = await import('./docs/assets/js/tools/{path}');" for name, path in modules.items()]
    lines.append("const given = JSON.parse((await import('node:fs')).readFileSync(0, 'utf8'));")
    lines.append(f"console.log(JSON.stringify({expression.strip()}));")
    return json.loads(run("--input-type=module", "-e", "\n".join(lines), stdin=json.dumps(given)))
