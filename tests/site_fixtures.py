"""Builds of the site for the tests: the repository's own site once a session, and copies of the project to break."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT_PARTS = (
    "mkdocs.yml",
    "mkdocs.en.yml",
    "mkdocs.zh.yml",
    "docs",
    "overrides",
    "examples",
    "kitchen",
    "snippets",
    "results",
)
LANGUAGES = ("en", "zh")


def site_environment(**extra: str) -> dict[str, str]:
    """The environment of a build: no settings of the caller's that change the site, and a quiet theme."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KITCHEN_", "SITE_URL"))}
    return {**kept, "NO_MKDOCS_2_WARNING": "1", "PYTHONUNBUFFERED": "1", **extra}


def build(project: Path, site: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `mkdocs build` on a project folder; output and errors are together in `stdout`."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "-f",
            str(project / "mkdocs.yml"),
            "-d",
            str(site),
            *arguments,
        ],
        cwd=project,
        env=site_environment(**environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )


def copy_project(target: Path) -> Path:
    """Copy what the site is made of, to be changed by a test."""
    target.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for part in PROJECT_PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, target / part, ignore=ignored)
        elif source.is_file():
            shutil.copyfile(source, target / part)
    return target


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def site_port() -> int:
    """The port that the browser tests serve the site on: its sitemaps must name it for instant navigation."""
    return free_port()


@pytest.fixture(scope="session")
def second_port() -> int:
    """The port of the site with two machines."""
    return free_port()


@pytest.fixture(scope="session")
def built_site(tmp_path_factory: pytest.TempPathFactory, site_port: int) -> Path:
    """The repository's site, both languages, built strictly once a session."""
    site = tmp_path_factory.mktemp("site") / "site"
    result = build(ROOT, site, "--strict", SITE_URL=f"http://127.0.0.1:{site_port}/")
    assert result.returncode == 0, result.stdout[-6000:]
    return site


SECOND_MACHINE = "toy-second"


def two_machines(target: Path) -> Path:
    """A results folder with the repository's machines and a copy of the first one under another name."""
    shutil.copytree(ROOT / "results", target, ignore=shutil.ignore_patterns(".*"))
    first = sorted(path.parent for path in target.glob("*/machine.json"))[0]
    copy = target / SECOND_MACHINE
    shutil.copytree(first, copy)
    for path, changes in (
        (copy / "machine.json", {"name": SECOND_MACHINE, "title": "Toy, second"}),
        *((path, {"machine": SECOND_MACHINE}) for path in copy.glob("*/run.json")),
    ):
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")
    return target


@pytest.fixture(scope="session")
def two_machine_site(tmp_path_factory: pytest.TempPathFactory, second_port: int) -> Path:
    """The site as it is with records of two machines, whichever the repository has."""
    folder = tmp_path_factory.mktemp("two-machines")
    results = two_machines(folder / "results")
    address = f"http://127.0.0.1:{second_port}/"
    result = build(ROOT, folder / "site", "--strict", SITE_URL=address, KITCHEN_RESULTS=str(results))
    assert result.returncode == 0, result.stdout[-6000:]
    return folder / "site"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project that a test may change."""
    return copy_project(tmp_path / "project")


def pages_of(site: Path, language: str) -> list[str]:
    """The pages of one language, as paths below it: "", "overview/", …"""
    folder = site / language
    return sorted(
        "" if (parent := path.parent.relative_to(folder).as_posix()) == "." else f"{parent}/"
        for path in folder.rglob("index.html")
    )
