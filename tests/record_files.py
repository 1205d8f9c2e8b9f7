"""Builds results folders for the tests: machines, runs and records that keep the schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SHA = "0" * 64


def machine_data(name: str, **changes: Any) -> dict[str, Any]:
    """machine.json of a made-up machine."""
    return {
        "format": "compile-kitchen/machine",
        "version": 1,
        "name": name,
        "title": name.replace("-", " ").title(),
        "kind": "cpu",
        "cpu": "Test CPU",
        "cores": 2,
        "memory_gib": 8.0,
        "caches": {"L2_kib": 1024},
        "gpu": None,
    } | changes


def run_data(machine: str, **changes: Any) -> dict[str, Any]:
    """run.json of a made-up run."""
    return {
        "format": "compile-kitchen/run",
        "version": 1,
        "machine": machine,
        "started": "2026-11-29T21:30:15Z",
        "finished": "2026-11-29T21:31:15Z",
        "status": "complete",
        "reason": None,
        "command": "python -m kitchen measure",
        "environment": {
            "cpu": "Test CPU",
            "cores": 2,
            "python": "3.11.7",
            "torch": "2.13.0+cpu",
            "triton": None,
            "cuda": None,
            "driver": None,
            "device_name": None,
            "cxx": "g++ 12.2.0",
            "os": "Linux 6.1 x86_64",
            "threads": 2,
            "interop_threads": 2,
            "env": {},
        },
        "load_start": [0.1, 0.1, 0.1],
        "load_end": [1.0, 0.5, 0.2],
        "steal_start": 0.0,
        "steal_end": 0.1,
        "git_commit": None,
        "git_dirty": None,
    } | changes


def record_data(snippet: str, **changes: Any) -> dict[str, Any]:
    """A record of a made-up snippet."""
    return {
        "format": "compile-kitchen/record",
        "version": 1,
        "snippet": snippet,
        "sha256": SHA,
        "status": "ok",
        "reason": None,
        "started": "2026-11-29T21:30:15Z",
        "wall_s": 1.5,
        "rows": [{"name": "a", "step_us": 12.5, "samples_us": [12.0, 13.0]}],
        "stdout_tail": "",
        "stderr_tail": "",
    } | changes


def add_run(
    root: Path,
    machine: str,
    records: list[dict[str, Any]],
    *,
    folder: str = "2026-11-29T213015Z-torch2.13.0",
    machine_changes: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """Writes a run with its records below ``root`` and returns its folder."""
    place = root / machine / folder
    place.mkdir(parents=True)
    (root / machine / "machine.json").write_text(json.dumps(machine_data(machine, **(machine_changes or {}))))
    (place / "run.json").write_text(json.dumps(run_data(machine, **changes)))
    for record in records:
        path = place / f"{record['snippet']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record))
    return place
