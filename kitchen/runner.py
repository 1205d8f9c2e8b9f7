"""Runs one snippet in a fresh process, with a time limit, and says what came of it.

The process gets a session, and so a group, of its own and an empty working folder. Whatever it does — hang, crash,
exit, print without end, leave children behind — run() returns an outcome with a status and a reason, and nothing of
the snippet's is left running.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import uuid
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from kitchen.snippet import Snippet

CHILD = Path(__file__).resolve().parent / "child.py"
#: Kept of each output stream.
TAIL_BYTES = 4000
#: A snippet that prints more than this is broken: it is stopped.
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
#: How long processes of the group may take to end by themselves after the snippet has.
GRACE_S = 3.0
#: Every process of one run carries this variable, also those that left the group.
MARK = "COMPILE_KITCHEN_RUN"
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Outcome:
    """What came of one run. ``wall_s`` in seconds, from start of the process to its end."""

    status: str
    reason: str | None
    rows: list[dict[str, Any]]
    wall_s: float
    stdout_tail: str
    stderr_tail: str


class _Tail(threading.Thread):
    """Drains a pipe, keeps its last bytes and counts them all."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self.pipe = pipe
        self.total = 0
        self._kept: deque[bytes] = deque()
        self._size = 0
        self._lock = threading.Lock()
        self.start()

    def run(self) -> None:
        # A pipe that a left-behind process holds open is closed under us once that is killed.
        with contextlib.suppress(OSError, ValueError):
            while block := os.read(self.pipe.fileno(), 65536):
                with self._lock:
                    self.total += len(block)
                    self._kept.append(block)
                    self._size += len(block)
                    while self._size - len(self._kept[0]) >= TAIL_BYTES:
                        self._size -= len(self._kept.popleft())

    def text(self) -> str:
        with self._lock:
            data = b"".join(self._kept)
        text = data[-TAIL_BYTES:].decode("utf-8", "replace").replace("\x00", "�")
        return f"… ({self.total} bytes, the last {TAIL_BYTES} are kept)\n{text}" if self.total > TAIL_BYTES else text


def run(
    snippet: Snippet,
    arguments: dict[str, Any] | None = None,
    *,
    limit_s: float | None = None,
    python: str = sys.executable,
    env: dict[str, str] | None = None,
    check_only: bool = False,
) -> Outcome:
    """Runs ``snippet`` with ``run(**arguments)``.

    ``limit_s`` is in seconds (default: the snippet's own). ``env`` is added to this process's environment.
    ``check_only`` checks dependencies and needs, and runs nothing. KeyboardInterrupt stops the snippet and goes on to
    the caller; OSError is raised where no temporary folder can be made; everything else that can happen is an Outcome.
    """
    limit = snippet.limit_s if limit_s is None else limit_s
    token = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="kitchen-run-", ignore_cleanup_errors=True) as folder:
        work, temporary = Path(folder, "work"), Path(folder, "tmp")
        work.mkdir()
        temporary.mkdir()
        job, out = Path(folder, "job.json"), Path(folder, "answer.json")
        # The child reads one end and never gets a byte; when this process dies, it sees the end and dies too.
        lifeline, held = os.pipe()
        job.write_text(
            json.dumps(
                {
                    "path": str((snippet.runs or snippet.path).resolve()),
                    "name": snippet.name,
                    "needs": snippet.needs,
                    "dependencies": snippet.dependencies,
                    "arguments": snippet.arguments | (arguments or {}),
                    "check_only": check_only,
                    "lifeline": lifeline,
                    "out": str(out),
                }
            ),
            "utf-8",
        )
        ours = _adopt_orphans()
        began = time.monotonic()
        process = subprocess.Popen(
            [python, str(CHILD), "run", str(job)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=work,
            env={
                **os.environ,
                # A killed snippet cleans nothing up; what it left here goes with the folder.
                "TMPDIR": str(temporary),
                "PYTHONIOENCODING": "utf-8",
                **(env or {}),
                MARK: token,
            },
            start_new_session=True,
            pass_fds=(lifeline,),
        )
        os.close(lifeline)
        assert process.stdout is not None
        assert process.stderr is not None
        stdout, stderr = _Tail(process.stdout), _Tail(process.stderr)
        stopped = None
        left: list[str] = []
        try:
            stopped = _wait(process, began + limit, (stdout, stderr))
            wall_s = time.monotonic() - began
            if stopped is None:
                left = _wait_for_group(process.pid, token, ours)
        finally:
            # Also on KeyboardInterrupt: nothing of ours stays behind.
            _kill(process, token, ours)
            os.close(held)
            for tail in (stdout, stderr):
                tail.join(2)
                with contextlib.suppress(OSError):
                    tail.pipe.close()
        answer = _answer(out)

    rows: list[dict[str, Any]]
    if stopped == "limit":
        status, reason, rows = "timeout", f"stopped after its limit of {limit:g} s", []
    elif stopped == "output":
        status, reason, rows = (
            "failed",
            f"stopped: wrote more than {MAX_OUTPUT_BYTES // 2**20} MiB of output",
            [],
        )
    elif answer is None:
        status, reason, rows = "failed", _death(process.returncode), []
    else:
        status, reason, rows = answer["status"], answer["reason"], answer["rows"]
        if process.returncode != 0:
            status, reason, rows = (
                "failed",
                f"{_death(process.returncode)} after it had returned its rows",
                [],
            )
    if left:
        note = f"left {len(left)} process{'es' if len(left) > 1 else ''} behind, stopped: {', '.join(left)}"
        reason = f"{reason}; {note}" if reason else note
    if reason:
        # A lone surrogate from an error message can't be written as UTF-8.
        reason = placeless(reason.encode("utf-8", "replace").decode("utf-8"))[:4000]
    printed = [placeless(tail.text()) for tail in (stdout, stderr)]
    return Outcome(status, reason, rows, round(wall_s, 3), printed[0], printed[1])


def placeless(text: str) -> str:
    """Output without the places of this machine: a record is published, and they are nobody's business.

    Paths are left relative to the repository, to the installed packages, to Python's library or to the temporary
    folder; what else lies in the home folder begins with ``~``.
    """
    libraries = [sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")]
    places = {str(CHILD.resolve().parent.parent), *libraries, tempfile.gettempdir()}
    if sys.prefix != sys.base_prefix:  # not /usr, of which many paths tell nothing
        places.add(sys.prefix)
    for place in sorted(places | {os.path.realpath(place) for place in places}, key=len, reverse=True):
        text = text.replace(f"{place}{os.sep}", "")
    home = str(Path.home())
    return text.replace(f"{home}{os.sep}", f"~{os.sep}") if home != os.sep else text


def _wait(process: subprocess.Popen[bytes], deadline: float, tails: tuple[_Tail, _Tail]) -> str | None:
    """Waits for the end; returns why it must be stopped before, if so."""
    pause = 0.005
    while True:
        try:
            process.wait(min(pause, max(deadline - time.monotonic(), 0.001)))
            return None
        except subprocess.TimeoutExpired:
            pause = min(pause * 2, 0.25)
        if sum(tail.total for tail in tails) > MAX_OUTPUT_BYTES:
            return "output"
        if time.monotonic() >= deadline:
            return "limit"


def _answer(out: Path) -> dict[str, Any] | None:
    """The child's answer; None where it died before it gave one. It is renamed into place, so never half."""
    try:
        data: dict[str, Any] = json.loads(out.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return data


def _death(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code} without returning rows"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    what = {
        "SIGSEGV": " (segmentation fault)",
        "SIGABRT": " (abort)",
        "SIGKILL": " (killed, for example by the system for want of memory)",
        "SIGBUS": " (bus error)",
        "SIGFPE": " (arithmetic error)",
        "SIGILL": " (illegal instruction)",
    }.get(name, "")
    return f"crashed with {name}{what}"


# ---- processes -------------------------------------------------------------------------------------------


def _adopt_orphans() -> set[int]:
    """Makes this process the parent of what its descendants leave behind, and returns the children it has now.

    Linux only (PR_SET_CHILD_SUBREAPER); elsewhere a process that left the group and cleared its environment
    can't be found.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return {pid for pid, (_, parent, _) in _processes().items() if parent == os.getpid()}


def _processes() -> dict[int, tuple[str, int, int]]:
    """State, parent and group of every process, from /proc; empty on a system without it."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            continue
        found[int(entry.name)] = (fields[0], int(fields[1]), int(fields[2]))
    return found


def _alive(group: int, token: str, ours: set[int]) -> dict[int, str]:
    """What is left of a run: processes of its group, with its mark in their environment, or adopted from it.

    ``ours`` are the children that this process had before; ``group`` is also the process that is waited for.
    Returns pid → command; on a system without /proc only the group can be signalled, and this is empty.
    """
    processes = _processes()
    mark = f"{MARK}={token}".encode()
    found: set[int] = set()
    for pid, (_, parent, process_group) in processes.items():
        if pid == os.getpid() or pid in ours:
            continue
        adopted = parent == os.getpid() and pid != group
        if adopted or process_group == group:
            found.add(pid)
            continue
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.add(pid)
    while children := {pid for pid, (_, parent, _) in processes.items() if parent in found} - found:
        found |= children
    named = {}
    for pid in found:
        if processes[pid][0] == "Z":
            if pid != group:
                with contextlib.suppress(OSError):
                    os.waitpid(pid, os.WNOHANG)
            continue
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            command = " ".join(Path(w).name if i == 0 else w for i, w in enumerate(words) if w)
            named[pid] = command[:80] or f"pid {pid}"
    return named


def _wait_for_group(group: int, token: str, ours: set[int]) -> list[str]:
    """Lets helpers that end by themselves do so (Inductor's compile workers); returns who is still there."""
    deadline = time.monotonic() + GRACE_S
    while alive := _alive(group, token, ours):
        if time.monotonic() >= deadline:
            return sorted(alive.values())
        time.sleep(0.02)
    return []


def _kill(process: subprocess.Popen[bytes], token: str, ours: set[int]) -> None:
    """Kills the group and whoever left it, until nobody is there."""
    for _ in range(20):
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        alive = _alive(process.pid, token, ours)
        for pid in alive:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if process.poll() is not None and not alive:
            return
        time.sleep(0.02)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
