"""The measure command: what is stale, in which order, with what progress; goes on where it was interrupted.

A snippet is fresh on this machine when its newest record here is ``ok``, has the hash of today's file and was
made with this torch version. All else is measured: most valuable first. What was recorded stays recorded
however the command ends.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from kitchen import bundle, machine, results, runner, snippet
from kitchen.results import Record
from kitchen.snippet import Snippet

REPO = Path(__file__).resolve().parent.parent
#: A run here took so much longer than the last one at most, when a budget is planned.
MARGIN = 1.3
MARGIN_S = 5.0


class MeasureError(RuntimeError):
    """Nothing can be measured here as asked; the message says why and what to do."""


@dataclass
class Report:
    """What one call did. ``recorded`` maps a snippet to its status."""

    recorded: dict[str, str] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)
    unavailable: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    interrupted: str | None = None
    folder: Path | None = None

    @property
    def exit_code(self) -> int:
        """0 when all that was tried came out, 1 when a snippet failed or timed out, 130 after Ctrl-C."""
        if self.interrupted:
            return 130
        return 1 if any(s in ("failed", "timeout") for s in self.recorded.values()) else 0


def select(all_snippets: dict[str, Snippet], patterns: list[str]) -> list[Snippet]:
    """The snippets that match any of the patterns (``overview/*``, ``fusion``, a part of a name); without patterns
    all but those that are measured on request only.

    Raises MeasureError for a pattern that matches none.
    """
    if not patterns:
        return [s for s in all_snippets.values() if not s.on_request]
    chosen: set[str] = set()
    for pattern in patterns:
        wanted = pattern.removeprefix("snippets/").removesuffix(".py")
        hits = {n for n in all_snippets if fnmatch.fnmatchcase(n, wanted)}
        if not hits and not set(wanted) & set("*?["):
            hits = {n for n in all_snippets if wanted in n}
        if not hits:
            raise MeasureError(f"--only {pattern!r} matches no snippet; there are: {', '.join(sorted(all_snippets))}")
        chosen |= hits
    return [s for name, s in all_snippets.items() if name in chosen]


def is_fresh(record: Record | None, wanted: Snippet, torch: str) -> bool:
    """True where measuring again would tell nothing new."""
    return (
        record is not None
        and record.status == "ok"
        and not results.is_stale(record, wanted)
        and record.run.environment["torch"] == torch
    )


def measure(
    names: list[str] | None = None,
    *,
    only: list[str] | None = None,
    force: bool = False,
    beside: bool = False,
    budget_s: float | None = None,
    bundle_file: Path | None = None,
    root: Path | None = None,
    snippets: Path | None = None,
    arguments: dict[str, Any] | None = None,
    command: str | None = None,
    out: TextIO | None = None,
) -> Report:
    """Measures this machine and records what comes.

    ``names`` are exact names, ``only`` patterns; neither means all. ``budget_s`` in seconds: nothing is started
    that may not end in time. ``beside``: this torch is not the machine's own, so only pages that set versions
    side by side show the records. ``arguments`` go to every run(). Raises MeasureError, ProbeError (no torch),
    SnippetError or RecordError before anything is run; a failing snippet is a record, not an exception.
    """
    out = out or sys.stderr
    began = time.monotonic()
    root = root or results.RESULTS
    everything = snippet.load_all(snippets)
    chosen = [snippet.load(name, snippets) for name in names] if names is not None else select(everything, only or [])
    if not chosen:
        raise MeasureError(
            f"there are no snippets below {snippets or snippet.SNIPPETS}"
            if not everything
            else f"every snippet is measured on request only: name one with --only ({', '.join(everything)})"
        )
    left_aside = [s.name for s in everything.values() if s.on_request and s not in chosen]
    _need_writable(root, "the results folder", "choose another with --results")
    if bundle_file and not bundle_file.parent.is_dir():
        raise MeasureError(f"the folder of --bundle {bundle_file.parent} does not exist: make it, or choose another")
    if bundle_file:
        _need_writable(bundle_file.parent, "the folder of --bundle", "choose another place")
    probed = machine.probe()
    here = machine.describe(probed)
    with _only_one(), _terminated_as_interrupt():
        report = _Measuring(here, probed, root, bundle_file, command, arguments, out, beside).go(
            chosen, force, None if budget_s is None else began + budget_s
        )
    if names is None and not only and left_aside:
        print(f"Long ones, measured when --only names them: {', '.join(left_aside)}", file=out, flush=True)
    return report


class _Measuring:
    """One call's state: the machine, the run's folder once there is one, and the report."""

    def __init__(
        self,
        here: dict[str, Any],
        probed: dict[str, Any],
        root: Path,
        bundle_file: Path | None,
        command: str | None,
        arguments: dict[str, Any] | None,
        out: TextIO,
        beside: bool = False,
    ) -> None:
        self.beside = beside
        self.here, self.probed, self.root, self.bundle_file = here, probed, root, bundle_file
        self.command = command or "python -m kitchen measure"
        self.arguments, self.out = arguments, out
        self.report = Report()
        self.run: dict[str, Any] = {}
        self.started = results.utc_now()

    def say(self, text: str) -> None:
        print(text, file=self.out, flush=True)

    def go(self, chosen: list[Snippet], force: bool, deadline: float | None) -> Report:
        name, torch = self.here["name"], self.probed["torch"]
        self.say(f"Compile Kitchen · {name} · torch {torch} · Python {sys.version.split()[0]}")
        last = {s.name: self._last(s.name) for s in chosen}
        waiting = [s for s in chosen if force or not is_fresh(last[s.name], s, torch)]
        self.report.fresh = [s.name for s in chosen if s not in waiting]
        estimates = {s.name: _expected_s(s, last[s.name]) for s in waiting}
        self.chosen = [s.name for s in chosen]
        if not waiting:
            newest = max(record.started for record in last.values() if record)
            self.say(
                f"Nothing to measure: {_count(len(chosen), 'snippet')} fresh, the newest recorded {newest} "
                "on a machine of this form (--force measures anew)."
            )
            self._bundle()
            return self.report
        total = sum(seconds for seconds, _ in estimates.values())
        self.say(
            f"{len(waiting)} to measure, {len(self.report.fresh)} fresh; "
            f"{'about' if all(known for _, known in estimates.values()) else 'at most'} {_duration(total)}"
        )
        self._warn_when_busy()
        # Now, not when the first record is written: by then somebody may have gone on editing.
        self.commit, self.dirty = machine.git_state(REPO)
        for position, one in enumerate(waiting, 1):
            rest = sum(estimates[s.name][0] for s in waiting[position - 1 :])
            try:
                self._one(one, last[one.name], f"[{position}/{len(waiting)}]", estimates[one.name], rest, deadline)
            except KeyboardInterrupt:
                self.report.interrupted = (
                    f"stopped while {one.name} ran; {len(self.report.recorded)} of {len(waiting)} recorded"
                )
                break
            except OSError as error:
                # A full disk, say. The run says why it ended, if that can still be written, and so does the command.
                self.report.interrupted = f"{one.name} could not be recorded: {error.strerror or error}"
                with contextlib.suppress(OSError):
                    self._finish()
                raise
        self._finish()
        return self.report

    def _last(self, snippet_name: str) -> Record | None:
        """The record that decides whether a snippet is fresh here: beside others, the newest of this torch."""
        if self.beside:
            of_machine = results.by_torch(self.root, snippet_name).get(self.here["name"], {})
            return of_machine.get(self.probed["torch"].partition("+")[0])
        return results.newest(self.root, snippet_name).get(self.here["name"])

    def _one(
        self,
        one: Snippet,
        before: Record | None,
        place: str,
        estimate: tuple[float, bool],
        rest_s: float,
        deadline: float | None,
    ) -> None:
        expected_s, known = estimate
        limit_s = one.limit_s
        if deadline is not None:
            remaining = deadline - time.monotonic()
            if (expected_s * MARGIN + MARGIN_S if known else limit_s) > remaining:
                self.report.left_out.append(one.name)
                self.say(f"{place} {one.name}: left out, {_duration(max(remaining, 0))} are left of the budget")
                return
            limit_s = min(limit_s, remaining)
        if before is not None and not results.is_stale(before, one) and self._may_be_unavailable(before):
            check = runner.run(one, limit_s=120, check_only=True)
            if check.status == "unavailable" and before.status == "ok":
                self.report.unavailable.append(one.name)
                other = before.run.environment["torch"]
                self.say(
                    f"{place} {one.name}: not in this environment ({check.reason}); its record of torch {other} stays"
                )
                return
            if check.status == "unavailable" and check.reason == before.reason:
                self.report.unavailable.append(one.name)
                self.say(f"{place} {one.name}: still unavailable ({check.reason})")
                return
        self.say(
            f"{place} {one.name}: {'about' if known else 'at most'} {_duration(expected_s)}"
            f" ({_duration(rest_s)} for all that are left)"
        )
        started = results.utc_now()
        # An edit since the command began counts: the hash is of the code that runs.
        sha256 = one.digest_now()
        with _ticking(self.out):
            outcome = runner.run(one, self.arguments, limit_s=limit_s)
        if one.digest_now() != sha256:
            outcome = replace(outcome, status="failed", reason="its file was changed while it ran", rows=[])
        if outcome.status == "timeout" and limit_s < one.limit_s:
            # Cut by the budget, not by the snippet's own limit: that says nothing about the snippet.
            self.report.left_out.append(one.name)
            self.say(f"{place} {one.name}: the budget ended before it did; not recorded")
            return
        record = {
            "format": results.RECORD_FORMAT,
            "version": results.VERSION,
            "snippet": one.name,
            "sha256": sha256,
            "status": outcome.status,
            "reason": outcome.reason,
            "started": started,
            "wall_s": outcome.wall_s,
            "rows": outcome.rows,
            "stdout_tail": outcome.stdout_tail,
            "stderr_tail": outcome.stderr_tail,
        }
        folder = self._folder()
        path = folder / f"{one.name}.json"
        try:
            results.write_json(path, record, "record")
        except results.RecordError as error:
            # What the snippet gave can't be kept as a record (too large, say): that is what is recorded.
            outcome = replace(outcome, status="failed", reason=str(error).removeprefix(f"{path}: ")[:4000], rows=[])
            results.write_json(path, record | {"status": "failed", "reason": outcome.reason, "rows": []}, "record")
        self.report.recorded[one.name] = outcome.status
        self._bundle(quiet=True)
        detail = f", {_count(len(outcome.rows), 'row')}" if outcome.status == "ok" else f": {outcome.reason}"
        self.say(f"      {outcome.status} in {_duration(outcome.wall_s)}{detail}")

    def _may_be_unavailable(self, before: Record) -> bool:
        """Whether to ask first if the snippet can run here at all: it could not the last time, or it could with
        another torch, in an environment of its own, whose record "unavailable here" is not to cover up."""
        return before.status == "unavailable" or (
            before.status == "ok" and before.run.environment["torch"] != self.probed["torch"]
        )

    def _folder(self) -> Path:
        """The run's folder; made with the first record, so that a call that measures nothing leaves nothing."""
        if self.report.folder is None:
            place = self.root / self.here["name"]
            described = place / "machine.json"
            if described.exists():
                results.load_machine(place)
            else:
                results.write_json(described, self.here, "machine")
            self.report.folder = results.new_run_folder(
                self.root, self.here["name"], self.probed["torch"], self.started
            )
            self.run = {
                "format": results.RUN_FORMAT,
                "version": results.VERSION,
                "machine": self.here["name"],
                "started": self.started,
                "finished": None,
                "status": "running",
                "reason": None,
                "command": self.command,
                "environment": machine.environment(self.probed),
                "load_start": self.load_start,
                "load_end": None,
                "steal_start": self.steal_start,
                "steal_end": None,
                "git_commit": self.commit,
                "git_dirty": self.dirty,
            } | ({"beside": True} if self.beside else {})
            results.write_json(self.report.folder / "run.json", self.run, "run")
        return self.report.folder

    def _bundle(self, *, quiet: bool = False) -> None:
        """Puts in one file every run here that holds the newest record of a chosen snippet, this run too.

        So the bundle of a run that went on after an interruption holds both halves.
        """
        if not self.bundle_file:
            return
        newest = [self._last(name) for name in self.chosen]
        folders = {record.run.path.parent for record in newest if record} | (
            {self.report.folder} if self.report.folder else set()
        )
        if folders:
            bundle.write(sorted(folders), self.bundle_file)
        if not quiet:
            self.say(
                f"In {self.bundle_file}: the results of {_count(len(folders), 'run')} on this machine"
                if folders
                else f"No results on this machine yet: {self.bundle_file} was not written"
            )

    def _warn_when_busy(self) -> None:
        self.load_start, self.steal_start = machine.load_average(), machine.steal_s()
        if self.load_start and self.load_start[0] > 0.5 * self.here["cores"]:
            self.say(
                f"Warning: the load is {self.load_start[0]:.2f} on {self.here['cores']} cores; "
                "something else is running, the times will be noisy."
            )

    def _finish(self) -> None:
        report = self.report
        if report.folder:
            self.run |= {
                "finished": results.utc_now(),
                "status": "interrupted" if report.interrupted else "complete",
                "reason": report.interrupted,
                "load_end": machine.load_average(),
                "steal_end": machine.steal_s(),
            }
            results.write_json(report.folder / "run.json", self.run, "run")
        self._bundle()
        if report.interrupted:
            self.say(f"\nInterrupted: {report.interrupted}. The same command goes on from here.")
        if report.left_out:
            self.say(f"Left out for want of time: {', '.join(report.left_out)}")
        if report.folder:
            counts = ", ".join(
                f"{list(report.recorded.values()).count(s)} {s}" for s in dict.fromkeys(report.recorded.values())
            )
            self.say(f"Recorded in {_relative(report.folder)}: {counts}")


def _expected_s(one: Snippet, before: Record | None) -> tuple[float, bool]:
    """Seconds that a run will take, and whether that is known from a run here (else it is the limit)."""
    if before is not None and before.status == "ok" and before.wall_s > 0:
        return min(before.wall_s, one.limit_s), True
    return one.limit_s, False


def _relative(path: Path) -> str:
    with contextlib.suppress(ValueError):
        return path.resolve().relative_to(Path.cwd()).as_posix()
    return str(path)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min"


def _need_writable(folder: Path, what: str, advice: str) -> None:
    """Finds out before an hour of measuring that its results can't be kept."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise MeasureError(f"{what} {folder} cannot be written ({error.strerror or error}): {advice}") from error


@contextlib.contextmanager
def _only_one() -> Iterator[None]:
    """Two at once would disturb each other's times, wherever they write. The lock goes with the process."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    place = Path(tempfile.gettempdir(), f"compile-kitchen-{os.getuid()}.lock")
    try:
        handle = os.open(place, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise MeasureError(f"{place} cannot be written ({error.strerror}): set TMPDIR to a folder of yours") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise MeasureError("another measure is running on this machine: wait for it to end") from error
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP end a run as Ctrl-C does: the snippet is stopped and what is recorded stays."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, n) for n in ("SIGTERM", "SIGHUP") if hasattr(signal, n)]
    # What the caller has told to ignore (nohup ignores SIGHUP) stays ignored.
    numbers = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _ticking(out: TextIO) -> Iterator[None]:
    """Shows on a terminal that time goes on; writes nothing into a log file."""
    if not out.isatty():
        yield
        return
    done = threading.Event()

    def tick() -> None:
        began = time.monotonic()
        while not done.wait(1):
            out.write(f"\r      {_duration(time.monotonic() - began)} …")
            out.flush()
        out.write("\r\033[K")

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def status(root: Path | None = None, say: Callable[[str], None] = print) -> None:
    """Prints, for each snippet, its newest record on every machine and whether it is stale."""
    root = root or results.RESULTS
    for one in snippet.load_all().values():
        say(f"{one.name}{' (on request: --only)' if one.on_request else ''}")
        records = results.newest(root, one.name)
        if not records:
            say("  not recorded")
        for name, record in records.items():
            note = " STALE (the snippet has changed)" if results.is_stale(record, one) else ""
            reason = f" ({record.reason})" if record.reason else ""
            torch = record.run.environment["torch"]
            say(f"  {name}: {record.status}{reason}, torch {torch}, {record.started}{note}")


def command_line(argv: list[str]) -> str:
    """The command as a reader would repeat it."""
    return shlex.join(["python", "-m", "kitchen", *argv]).replace(str(Path.home()), "~")
