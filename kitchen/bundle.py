"""All results of one run in one file, and merging such a file from another machine.

A bundle is one JSON document, not an archive: it has no paths of its own that could point outside ``results/``.
Where its parts go follows from names that the schemas restrict to lower-case words.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from kitchen import results
from kitchen.results import RecordError
from kitchen.schema import faults

FORMAT = "compile-kitchen/bundle"
#: A bundle larger than this is refused before it is parsed.
MAX_BYTES = 256 * 1024 * 1024


def pack(run_folder: Path) -> dict[str, Any]:
    """The bundle of one run's folder."""
    run = results.read_json(run_folder / "run.json", "run")
    return {
        "format": FORMAT,
        "version": results.VERSION,
        "run_folder": run_folder.name,
        "machine": results.read_json(run_folder.parent / "machine.json", "machine"),
        "run": run,
        "records": [
            results.read_json(path, "record")
            for path in sorted(run_folder.rglob("*.json"))
            if path != run_folder / "run.json"
        ],
    }


def write(run_folder: Path, target: Path) -> None:
    """Packs ``run_folder`` into ``target``, in one step."""
    results.write_atomically(target, json.dumps(pack(run_folder), ensure_ascii=False, allow_nan=False) + "\n")


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
    parts = [("", data, "bundle")]
    if not faults(data, "bundle"):
        parts += [("machine.", data["machine"], "machine"), ("run.", data["run"], "run")]
        parts += [(f"records[{i}].", record, "record") for i, record in enumerate(data["records"])]
    for prefix, part, schema in parts:
        wrong = faults(part, schema)
        if wrong:
            raise RecordError(f"{source}: {prefix}{wrong[0]}")
    if data["run"]["machine"] != data["machine"]["name"]:
        raise RecordError(
            f"{source}: run.machine: is {data['run']['machine']!r}, but machine.name is {data['machine']['name']!r}"
        )
    names = [record["snippet"] for record in data["records"]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RecordError(f"{source}: records: {twice[0]} is there more than once")
    checked: dict[str, Any] = data
    return checked


def merge(source: Path, root: Path | None = None) -> tuple[Path, int]:
    """Adds a bundle to ``root`` and returns the run's folder and how many records are new.

    The whole bundle is checked before anything is written, and the run appears in one step. A run that is
    already there and the same is left as it is; one that holds something else is an error, and so is a folder
    on the way that is a link. A bundle of the same run with more records (the run went on) adds those.
    """
    root = root or results.RESULTS
    data = read(source)
    machine_folder = root / data["machine"]["name"]
    folder = machine_folder / data["run_folder"]
    for place in (root, machine_folder, folder):
        if place.is_symlink():
            raise RecordError(f"{place}: is a link; nothing was imported")
    texts = {"run.json": data["run"], **{f"{r['snippet']}.json": r for r in data["records"]}}
    machine_file = machine_folder / "machine.json"
    known = results.read_json(machine_file, "machine") if machine_file.is_file() else None
    if not folder.exists():
        try:
            machine_folder.mkdir(parents=True, exist_ok=True)
            beside = Path(tempfile.mkdtemp(dir=machine_folder, prefix=".import-"))
        except OSError as error:
            raise RecordError(f"{machine_folder}: cannot be written: {error.strerror or error}") from error
        try:
            for name, part in texts.items():
                results.write_json(beside / name, part, "run" if name == "run.json" else "record")
            if known is None:
                results.write_json(machine_file, data["machine"], "machine")
            beside.chmod(0o755)
            beside.rename(folder)
        except OSError as error:
            raise RecordError(f"{folder}: cannot be written: {error.strerror or error}") from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        return folder, len(data["records"])

    new = {}
    for name, part in texts.items():
        path = folder / name
        if any(p.is_symlink() for p in (path, path.parent)):
            raise RecordError(f"{path}: is a link; nothing was imported")
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
    for name, part in new.items():
        results.write_json(folder / name, part, "run" if name == "run.json" else "record")
    return folder, len([name for name in new if name != "run.json"])


_FILLED_IN = {"finished", "status", "reason", "load_end", "steal_end"}
