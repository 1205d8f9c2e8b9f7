"""Results in one file, and merging such a file from another machine.

A bundle is one JSON document, not an archive: it has no paths of its own that could point outside ``results/``.
Where its parts go follows from names that the schemas restrict to lower-case words.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kitchen import results
from kitchen.results import RecordError
from kitchen.schema import faults

FORMAT = "compile-kitchen/bundle"
#: A bundle larger than this is refused before it is parsed.
MAX_BYTES = 256 * 1024 * 1024


def pack(run_folders: list[Path]) -> dict[str, Any]:
    """The bundle of some runs of one machine, oldest first."""
    if not run_folders:
        raise RecordError("there is no run to bundle")
    runs = []
    for folder in sorted(run_folders):
        files = sorted(p for p in folder.rglob("*.json") if p != folder / "run.json" and not p.name.startswith("."))
        runs.append(
            {
                "run_folder": folder.name,
                "run": results.read_json(folder / "run.json", "run"),
                "records": [results.read_json(path, "record") for path in files],
            }
        )
    return {
        "format": FORMAT,
        "version": results.VERSION,
        "machine": results.read_json(run_folders[0].parent / "machine.json", "machine"),
        "runs": runs,
    }


def write(run_folders: list[Path], target: Path) -> None:
    """Packs ``run_folders`` into ``target``, in one step."""
    results.write_atomically(target, json.dumps(pack(run_folders), ensure_ascii=False, allow_nan=False) + "\n")


def read(source: Path) -> dict[str, Any]:
    """Reads a bundle and checks every part of it. Raises RecordError naming the part and the field."""
    try:
        size = source.stat().st_size
        if size > MAX_BYTES:
            raise RecordError(f"{source}: {size} bytes; a bundle has at most {MAX_BYTES}")
        data = json.loads(source.read_text("utf-8"))
    except OSError as error:
        raise RecordError(f"{source}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise RecordError(f"{source}: is not a bundle (not JSON: {error})") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise RecordError(f"{source}: is not a bundle: its format is not {FORMAT!r}")
    for part, found in _parts(data):
        if found:
            raise RecordError(f"{source}: {part}{found[0]}")
    for index, run in enumerate(data["runs"]):
        if run["run"]["machine"] != data["machine"]["name"]:
            raise RecordError(
                f"{source}: runs[{index}].run.machine: is {run['run']['machine']!r}, "
                f"but machine.name is {data['machine']['name']!r}"
            )
        _unique(source, f"runs[{index}].records", [record["snippet"] for record in run["records"]])
    _unique(source, "runs", [run["run_folder"] for run in data["runs"]])
    checked: dict[str, Any] = data
    return checked


def _parts(data: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Each part of a bundle with what is wrong with it, outermost first."""
    yield "", faults(data, "bundle")
    yield "machine.", faults(data["machine"], "machine")
    for index, run in enumerate(data["runs"]):
        yield f"runs[{index}].run.", faults(run["run"], "run")
        for number, record in enumerate(run["records"]):
            yield f"runs[{index}].records[{number}].", faults(record, "record") or results.row_faults(record)


def _unique(source: Path, where: str, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RecordError(f"{source}: {where}: {twice[0]} is there more than once")


def merge(source: Path, root: Path | None = None) -> tuple[list[Path], int]:
    """Adds a bundle to ``root`` and returns the folders of its runs and how many records are new.

    The whole bundle is checked, against itself and against what is there, before anything is written. A run that
    is already there and the same is left as it is; one that holds something else is an error, and so is a folder
    on the way that is a link. A bundle of the same run with more records (the run went on) adds those.
    """
    root = root or results.RESULTS
    data = read(source)
    machine_folder = root / data["machine"]["name"]
    _no_link(root, machine_folder)
    machine_file = machine_folder / "machine.json"
    if machine_file.exists():
        results.read_json(machine_file, "machine")
    plans = [(machine_folder / run["run_folder"], _new_parts(machine_folder, run)) for run in data["runs"]]
    try:
        for folder, new in plans:
            if not machine_file.exists():
                results.write_json(machine_file, data["machine"], "machine")
            if folder.exists():
                for name, part in new.items():
                    results.write_json(folder / name, part, _schema_of(name))
            else:
                _write_run(folder, new)
    except OSError as error:
        raise RecordError(f"{machine_folder}: cannot be written: {error.strerror or error}") from error
    return [folder for folder, _ in plans], sum(len(new.keys() - {"run.json"}) for _, new in plans)


def _schema_of(name: str) -> str:
    return "run" if name == "run.json" else "record"


def _no_link(*places: Path) -> None:
    for place in places:
        if place.is_symlink():
            raise RecordError(f"{place}: is a link; nothing was imported")


def _write_run(folder: Path, parts: dict[str, dict[str, Any]]) -> None:
    """A new run appears in one step."""
    beside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".import-"))
    try:
        for name, part in parts.items():
            results.write_json(beside / name, part, _schema_of(name))
        beside.chmod(0o755)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _new_parts(machine_folder: Path, run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The files of a run that are not there yet, by name. Raises RecordError where one is and differs."""
    folder = machine_folder / run["run_folder"]
    parts = {"run.json": run["run"], **{f"{record['snippet']}.json": record for record in run["records"]}}
    _no_link(folder)
    new = {}
    for name, part in parts.items():
        path = folder / name
        _no_link(path, path.parent)
        if not path.exists():
            new[name] = part
        elif name == "run.json":
            there = results.read_json(path, "run")
            # The end of a run is the one thing that is filled in as it goes on.
            if {k: v for k, v in there.items() if k not in _FILLED_IN} != {
                k: v for k, v in part.items() if k not in _FILLED_IN
            }:
                raise RecordError(f"{path}: another run is there under that name; nothing was imported")
            if there["status"] == "running" and part["status"] != "running":
                new[name] = part
        elif results.read_json(path, "record") != part:
            raise RecordError(f"{path}: is there already and differs from the bundle's; nothing was imported")
    return new


_FILLED_IN = {"finished", "status", "reason", "load_end", "steal_end"}
