"""The GitHub workflows keep to their rules: pinned actions, least permissions, no GPU for a pull request.

The rules are one function, :func:`problems`, so that the tests can also show that it catches a workflow
which breaks them. zizmor, an independent auditor of workflows, then has its own say; it runs offline.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped, unused-ignore]

GITHUB = Path(__file__).resolve().parent.parent / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.y*ml"))

# A full commit, and beside it the version for people and for Dependabot, which reads and updates both.
PINNED = re.compile(r"^[\w.-]+/[\w./-]+@[0-9a-f]{40}$")
USES_LINE = re.compile(r"^\s*(?:-\s+)?uses:\s*(?P<action>[^\s@]+)@(?P<sha>\S+)(?P<comment>.*)$", re.MULTILINE)
VERSION_COMMENT = re.compile(r"^\s+# v\d+\.\d+\.\d+$")

# Machines of GitHub that are thrown away after each job. Everything else is a machine of ours.
THROWN_AWAY = re.compile(r"^ubuntu-\d\d\.\d\d$")

# Triggers that run, or let a stranger start, code that nobody has reviewed.
STRANGERS = {
    "pull_request",
    "pull_request_target",
    "issue_comment",
    "issues",
    "workflow_run",
    "fork",
    "watch",
}

# The only jobs that may write anything, and what.
WRITERS = {
    ("publish", "deploy"): {"pages", "id-token"},
    ("measure", "propose"): {"contents", "pull-requests"},
}


def parse(text: str) -> dict[str, Any]:
    """A workflow as plain strings, lists and dicts.

    The base loader converts nothing: with the usual one YAML 1.1 reads the key ``on`` as the boolean true.
    """
    loaded = yaml.load(text, Loader=yaml.BaseLoader)
    assert isinstance(loaded, dict)
    return loaded


def triggers(workflow: dict[str, Any]) -> set[str]:
    """The names of the events that start a workflow, in any of the three ways to write them."""
    events = workflow["on"]
    return {events} if isinstance(events, str) else set(events)


def environment(job: dict[str, Any]) -> str | None:
    """The name of a job's environment, in either way to write it."""
    value = job.get("environment")
    return value.get("name") if isinstance(value, dict) else value


def problems(name: str, text: str) -> list[str]:
    """What breaks the rules in the workflow `name` (file name without suffix); empty when nothing does."""
    workflow = parse(text)
    found = []
    if workflow.get("permissions") != {}:
        found.append("top-level permissions are not {}")
    if "pull_request_target" in triggers(workflow):
        found.append("pull_request_target")
    if "concurrency" not in workflow:
        found.append("no concurrency group")
    for use in USES_LINE.finditer(text):
        if not VERSION_COMMENT.match(use["comment"]):
            found.append(f"{use['action']}: no version comment")
    for job_name, job in workflow["jobs"].items():
        found += [f"{job_name}: {problem}" for problem in job_problems(name, job_name, job, triggers(workflow))]
    return found


def job_problems(name: str, job_name: str, job: dict[str, Any], events: set[str]) -> list[str]:
    """What breaks the rules in one job of the workflow `name`, started by `events`."""
    found = []
    if "timeout-minutes" not in job:
        found.append("no timeout")
    permissions = job.get("permissions")
    if not isinstance(permissions, dict):
        found.append("no permissions of its own")
    else:
        written = {scope for scope, access in permissions.items() if access not in ("read", "none")}
        if extra := written - WRITERS.get((name, job_name), set()):
            found.append(f"may write {sorted(extra)}")
    if not THROWN_AWAY.match(str(job.get("runs-on"))):
        if environment(job) != "gpu":
            found.append("runs on a machine of ours without the environment gpu")
        if strangers := events & STRANGERS:
            found.append(f"runs on a machine of ours for {sorted(strangers)}")
    for step in job.get("steps", []):
        uses = step.get("uses", "")
        if uses and not PINNED.match(uses):
            found.append(f"{uses} is not pinned by commit")
        if uses.startswith("actions/checkout@") and step.get("with", {}).get("persist-credentials") != "false":
            found.append("checkout leaves the token in the folder")
        # An expression inside a script is pasted in before the shell reads it; it belongs in `env`.
        if "${{" in step.get("run", ""):
            found.append(f"an expression inside the script of {step.get('name')!r}")
    return found


def test_the_three_workflows_are_there() -> None:
    assert [path.stem for path in WORKFLOWS] == ["ci", "measure", "publish"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_keeps_the_rules(path: Path) -> None:
    assert problems(path.stem, path.read_text(encoding="utf-8")) == []


def test_an_action_has_one_commit_everywhere() -> None:
    commits: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for use in USES_LINE.finditer(path.read_text(encoding="utf-8")):
            commits.setdefault(use["action"], set()).add(use["sha"] + use["comment"])
    assert commits
    assert {action: pins for action, pins in commits.items() if len(pins) != 1} == {}


def test_pull_requests_are_checked_on_the_cpu() -> None:
    workflow = parse((GITHUB / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert "pull_request" in triggers(workflow)
    job = workflow["jobs"]["test"]
    assert job["env"]["REQUIRE_BROWSER"] == "1"
    assert "make test" in [step.get("run") for step in job["steps"]]


def test_measuring_is_by_hand_or_on_main() -> None:
    workflow = parse((GITHUB / "workflows" / "measure.yml").read_text(encoding="utf-8"))
    assert triggers(workflow) == {"workflow_dispatch", "push"}
    assert workflow["on"]["push"]["branches"] == ["main"]
    ours = {name for name, job in workflow["jobs"].items() if not THROWN_AWAY.match(job["runs-on"])}
    assert ours == {"measure", "others", "live"}


def test_each_environment_of_its_own_is_measured_with_the_snippets_that_it_is_for() -> None:
    workflow = parse((GITHUB / "workflows" / "measure.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["others"]
    places = job["strategy"]["matrix"]["place"]
    environments = GITHUB.parent / "environments"
    assert sorted(places) == sorted(path.stem for path in environments.glob("*.txt"))
    script = next(step["run"] for step in job["steps"] if step["name"] == "Measure")
    named = re.findall(r"--only (\S+?)[\s)]", script)
    assert named
    for place in places:
        # The comment in the file tells people the same command, and the snippets need what is pinned there.
        text = (environments / f"{place}.txt").read_text(encoding="utf-8")
        pinned = dict(line.split("==") for line in text.splitlines() if line and not line.startswith("#"))
        told = re.findall(r"--only (\S+)", text)
        assert told
        assert set(told) <= set(named)
        for name in told:
            header = (GITHUB.parent / "snippets" / f"{name}.py").read_text(encoding="utf-8").partition('# ///\n"')[0]
            (dependencies,) = re.findall(r"^# dependencies = \[(.*)\]$", header, re.MULTILINE)
            needed = {dependency.partition(">=")[0] for dependency in re.findall(r'"([^"]+)"', dependencies)}
            assert needed <= set(pinned), f"{name} needs {needed - set(pinned)}, which {place}.txt does not pin"
    # The bundles of this job are among those that are collected, and nothing else runs on the machine meanwhile.
    assert "others" in workflow["jobs"]["collect"]["needs"]
    assert "measure" in job["needs"]
    assert "others" in workflow["jobs"]["live"]["needs"]
    assert job["strategy"]["max-parallel"] == "1"


def test_publishing_is_from_main_only() -> None:
    workflow = parse((GITHUB / "workflows" / "publish.yml").read_text(encoding="utf-8"))
    assert workflow["on"]["push"] == {"branches": ["main"]}
    assert "refs/heads/main" in workflow["jobs"]["build"]["if"]
    assert workflow["jobs"]["deploy"]["needs"] == "build"


SHA = "0123456789abcdef0123456789abcdef01234567"
GOOD = f"""\
on: {{push: {{branches: [main]}}}}
permissions: {{}}
concurrency: {{group: here}}
jobs:
  check:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    permissions: {{contents: read}}
    steps:
      - uses: actions/checkout@{SHA} # v1.2.3
        with: {{persist-credentials: false}}
      - name: script
        run: make test
"""


def test_a_good_workflow_has_no_problems() -> None:
    assert problems("other", GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (SHA, "v1", "not pinned"),
        (SHA, SHA[:12], "not pinned"),
        (" # v1.2.3", "", "no version comment"),
        ("permissions: {}", "permissions: {contents: read}", "top-level permissions"),
        ("permissions: {}\n", "", "top-level permissions"),
        ("    permissions: {contents: read}\n", "", "no permissions of its own"),
        ("{contents: read}", "{contents: write}", "may write ['contents']"),
        ("permissions: {contents: read}", "permissions: write-all", "no permissions of its own"),
        ("{push: {branches: [main]}}", "pull_request_target", "pull_request_target"),
        ("concurrency: {group: here}\n", "", "no concurrency group"),
        ("    timeout-minutes: 5\n", "", "no timeout"),
        ("persist-credentials: false", "fetch-depth: 1", "leaves the token"),
        ("make test", "echo ${{ github.ref }}", "an expression inside"),
        ("ubuntu-24.04", "[self-hosted, gpu]", "without the environment gpu"),
        ("ubuntu-24.04", "${{ matrix.runner }}", "without the environment gpu"),
    ],
)
def test_a_broken_rule_is_found(old: str, new: str, problem: str) -> None:
    assert old in GOOD
    assert any(problem in found for found in problems("other", GOOD.replace(old, new)))


@pytest.mark.parametrize("event", ["pull_request", "[push, pull_request]", "{pull_request: {branches: [main]}}"])
def test_a_pull_request_on_a_machine_of_ours_is_found(event: str) -> None:
    text = GOOD.replace("{push: {branches: [main]}}", event).replace(
        "runs-on: ubuntu-24.04", "runs-on: self-hosted\n    environment: gpu"
    )
    assert problems("other", text) == ["check: runs on a machine of ours for ['pull_request']"]


def find_zizmor() -> str | None:
    """zizmor beside the Python that runs the tests, else on the path."""
    return shutil.which("zizmor", path=str(Path(sys.executable).parent)) or shutil.which("zizmor")


def test_zizmor_finds_nothing() -> None:
    zizmor = find_zizmor()
    if zizmor is None:
        reason = "zizmor is not installed: pip install 'compile-kitchen[test]'"
        if os.environ.get("REQUIRE_BROWSER") == "1":  # set where everything has to be there, as in CI
            pytest.fail(reason)
        pytest.skip(reason)
    # Offline it asks no other machine and needs no token; strict, so that a file it can't read is an error.
    run = subprocess.run(
        [zizmor, "--offline", "--pedantic", "--strict-collection", "--no-progress", str(GITHUB)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
