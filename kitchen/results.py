"""The records below ``results/``: read, validate, write, and choose the newest for each machine.

The folder holds one folder a machine, named for the machine's form::

    results/<machine>/machine.json
    results/<machine>/<UTC time>-torch<version>/run.json
    results/<machine>/<UTC time>-torch<version>/<chapter>/<name>.json

A run's folder is made once and only added to while that run goes on; nothing in it is ever edited later, so
folders of two machines, or of two runs, merge without conflict. Each file is written beside its place and
renamed, so a reader, or a power cut, never sees half a record.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kitchen.schema import faults
from kitchen.snippet import Snippet

RESULTS = Path(os.environ.get("KITCHEN_RESULTS", Path(__file__).resolve().parent.parent / "results"))

RECORD_FORMAT = "compile-kitchen/record"
RUN_FORMAT = "compile-kitchen/run"
MACHINE_FORMAT = "compile-kitchen/machine"
VERSION = 1
#: No file of ours comes near this; a larger one is refused before it is parsed.
MAX_BYTES = 32 * 1024 * 1024
RUN_FOLDER = re.compile(r"\d{4}-\d{2}-\d{2}T\d{6}Z(-\d+)?-torch[0-9][0-9A-Za-z._]*")


class RecordError(ValueError):
    """A file below results/ that cannot be used; the message names the file and the field."""


@dataclass(frozen=True)
class Machine:
    """A machine's form. ``memory_gib`` in GiB; ``caches`` in KiB for one instance of each level."""

    name: str
    title: str
    kind: str
    cpu: str
    cores: int
    memory_gib: float | None
    caches: dict[str, int]
    gpu: dict[str, Any] | None
    path: Path = field(compare=False)


@dataclass(frozen=True)
class Run:
    """One call of the measure command and the environment that its records share.

    ``beside``: it was made with another torch than the machine's own, for pages that set versions side by side.
    """

    path: Path
    machine: str
    started: str
    finished: str | None
    status: str
    reason: str | None
    command: str
    environment: dict[str, Any]
    load_start: list[float] | None
    load_end: list[float] | None
    steal_start: float | None
    steal_end: float | None
    git_commit: str | None
    git_dirty: bool | None
    beside: bool = False

    @property
    def torch(self) -> str:
        """The version of torch without its build: ``2.13.0``."""
        return str(self.environment.get("torch") or "").partition("+")[0]


@dataclass(frozen=True)
class Record:
    """What one snippet gave on one machine in one run. ``wall_s`` in seconds."""

    path: Path
    snippet: str
    sha256: str
    status: str
    reason: str | None
    started: str
    wall_s: float
    rows: list[dict[str, Any]]
    stdout_tail: str
    stderr_tail: str
    machine: str
    run: Run


def utc_now() -> str:
    """Now as ``2026-11-29T21:30:15Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


#: A column with one of these endings holds a number of that unit, or null.
UNIT = re.compile(r".*_(us|ms|s|mib|kib|gib|gbs|ratio)")


def row_faults(data: dict[str, Any]) -> list[str]:
    """What a JSON Schema can't say of a record: numbers where a unit stands, rows where the status is ok."""
    if data["status"] == "ok" and not data["rows"]:
        return ["rows: is empty, but the status is ok"]
    found = []
    for index, row in enumerate(data["rows"]):
        for column, value in row.items():
            if isinstance(value, list) != column.startswith("samples_"):
                found.append(f"rows[{index}].{column}: only a samples_ column holds a list, and it always does")
            elif UNIT.fullmatch(column) and isinstance(value, str | bool):
                found.append(f"rows[{index}].{column}: wants a number or null, has {value!r}")
    return found


def _faults(data: Any, schema: str) -> list[str]:
    return faults(data, schema) or (row_faults(data) if schema == "record" else [])


# ---- writing ---------------------------------------------------------------------------------------------


def write_json(path: Path, data: dict[str, Any], schema: str) -> None:
    """Validates ``data`` and writes it to ``path`` in one step.

    Raises RecordError where ``data`` breaks its schema, OSError where the place cannot be written; the file
    that was there before is then untouched.
    """
    wrong = _faults(data, schema)
    if wrong:
        raise RecordError(f"{path}: " + "; ".join(wrong[:5]))
    text = json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    size = len(text.encode("utf-8"))
    if size > MAX_BYTES:
        # What is written must be readable again.
        raise RecordError(f"{path}: would be {size} bytes, at most {MAX_BYTES} are kept")
    write_atomically(path, text)


def write_atomically(path: Path, text: str) -> None:
    """Writes ``text`` beside ``path``, makes it durable, and renames it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def new_run_folder(root: Path, machine: str, torch: str, started: str) -> Path:
    """Makes the folder of a new run and returns it; two runs that start in one second get two folders."""
    stamp = started.replace(":", "")
    # The local part (2.13.0+cpu) names the build, not the version: it stands in run.json.
    version = torch.partition("+")[0]
    for attempt in range(1, 1000):
        again = "" if attempt == 1 else f"-{attempt}"
        folder = root / machine / f"{stamp}{again}-torch{version}"
        try:
            folder.mkdir(parents=True, exist_ok=False)
        except FileExistsError:
            continue
        return folder
    raise RecordError(f"{root / machine}: a thousand runs began at {started}")


# ---- reading ---------------------------------------------------------------------------------------------


def read_json(path: Path, schema: str) -> dict[str, Any]:
    """Reads and validates one file. Raises RecordError naming the file and the field at fault."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise RecordError(f"{path}: {size} bytes, at most {MAX_BYTES} are read")
        data = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise RecordError(f"{path}: is not JSON: {error}") from error
    wrong = _faults(data, schema)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise RecordError(f"{path}: {wrong[0]}{more}")
    checked: dict[str, Any] = data
    return checked


def _body(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in ("format", "version")}


def load_machine(folder: Path) -> Machine:
    """The machine of one folder below results/."""
    path = folder / "machine.json"
    data = read_json(path, "machine")
    if data["name"] != folder.name:
        raise RecordError(f"{path}: name: is {data['name']!r}, but its folder is {folder.name!r}")
    return Machine(**_body(data), path=path)


def load_run(folder: Path) -> Run:
    """The run of one folder below results/<machine>/."""
    path = folder / "run.json"
    data = read_json(path, "run")
    if data["machine"] != folder.parent.name:
        raise RecordError(f"{path}: machine: is {data['machine']!r}, but its folder is {folder.parent.name!r}")
    return Run(**_body(data), path=path)


def load_record(path: Path, run: Run) -> Record:
    """One record of a run."""
    data = read_json(path, "record")
    expected = path.relative_to(run.path.parent).with_suffix("").as_posix()
    if data["snippet"] != expected:
        raise RecordError(f"{path}: snippet: is {data['snippet']!r}, but its path says {expected!r}")
    return Record(**_body(data), path=path, machine=run.machine, run=run)


def _machine_folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith("."))


def _run_folders(machine: Path) -> list[Path]:
    folders = sorted(p for p in machine.iterdir() if p.is_dir() and not p.name.startswith("."))
    for folder in folders:
        if not RUN_FOLDER.fullmatch(folder.name):
            raise RecordError(f"{folder}: is not a run's folder (<UTC time>-torch<version>): move it away")
    return folders


def _record_files(run_folder: Path) -> list[Path]:
    return sorted(p for p in run_folder.rglob("*.json") if p != run_folder / "run.json" and not p.name.startswith("."))


def load_machines(root: Path | None = None) -> dict[str, Machine]:
    """All machines by name: GPU machines first, then by name, so that tabs keep their order."""
    machines = [load_machine(folder) for folder in _machine_folders(root or RESULTS)]
    return {m.name: m for m in sorted(machines, key=lambda m: (m.kind != "cuda", m.name))}


def load_records(root: Path | None = None) -> list[Record]:
    """All records, validated, oldest first."""
    records = []
    for machine in _machine_folders(root or RESULTS):
        load_machine(machine)
        for folder in _run_folders(machine):
            run = load_run(folder)
            records += [load_record(path, run) for path in _record_files(folder)]
    return sorted(records, key=lambda r: (r.started, r.machine, r.snippet))


def _of_snippet(root: Path, machine: str, snippet: str) -> list[Record]:
    """The records of one snippet on one machine, oldest first; reads only the files of that snippet."""
    found = [
        load_record(path, load_run(folder))
        for folder in _run_folders(root / machine)
        if (path := folder / f"{snippet}.json").is_file()
    ]
    return sorted(found, key=lambda r: (r.started, r.path.as_posix()))


def newest(root: Path | None, snippet: str) -> dict[str, Record]:
    """The newest record of one snippet by machine, in the order of load_machines().

    A run beside the machine's own torch counts only where there is no other.
    """
    root = root or RESULTS
    found: dict[str, Record] = {}
    for name in load_machines(root):
        if candidates := _of_snippet(root, name, snippet):
            found[name] = ([r for r in candidates if not r.run.beside] or candidates)[-1]
    return found


def by_torch(root: Path | None, snippet: str) -> dict[str, dict[str, Record]]:
    """The newest record of one snippet by machine and by version of torch (``2.13.0``), oldest version first."""
    root = root or RESULTS
    found: dict[str, dict[str, Record]] = {}
    for name in load_machines(root):
        versions = {record.run.torch: record for record in _of_snippet(root, name, snippet)}
        if versions:
            found[name] = dict(sorted(versions.items(), key=lambda item: version_key(item[0])))
    return found


def version_key(version: str) -> tuple[int, ...]:
    """For sorting: 2.9.1 is older than 2.13.0."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def is_stale(record: Record, snippet: Snippet) -> bool:
    """True where the snippet has changed since the record was made."""
    return record.sha256 != snippet.sha256
