"""The snippets status and fallback of the third-party chapter, and the pages that tell what their rows mean."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from tests.test_snippets import STATUSES, load, run_alone

torch = pytest.importorskip("torch")

Row = dict[str, Any]

ROOT = Path(__file__).parents[1]
LANGUAGES = ("en", "zh")
STATUS = load("third_party/status")
FALLBACK = load("third_party/fallback")
#: Names, not functions, that torch knows only with a package.
NAMES_OF_PACKAGES = [name for name, package in STATUS.PACKAGES.items() if not package.function]
REGISTERED = set(torch.compiler.list_backends(exclude_tags=()))
NEW_MESSAGE = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 14)


def page(name: str, language: str) -> str:
    return (ROOT / "docs" / language / "third-party" / f"{name}.md").read_text("utf-8")


# ---------------------------------------------------------------- rows


@pytest.mark.slow
def test_each_name_gives_a_row_and_a_crash_costs_one() -> None:
    wanted = [
        "eager",
        "cudagraphs",
        "relu_accuracy_error_TESTING_ONLY",
        "relu_compile_error_TESTING_ONLY",
        "planted_crash",
        "planted_nan",
        "planted_wrong",
        "ThunderCompiler()",
        "nvfuser",
        "tvmgraph",
        "reduce-overhead",
    ]
    rows = {row["backend"]: row for row in run_alone("third_party/status", {"backends": wanted})}
    assert set(rows) == set(wanted)
    for row in rows.values():
        assert list(row) == STATUS.COLUMNS
        assert row["status"] in STATUSES
        assert row["status"] == "ok" or row["note"]

    eager = rows["eager"]
    assert (eager["kind"], eager["package"], eager["package_version"]) == ("debug", "torch", torch.__version__)
    assert (eager["outcome"], eager["gradients"], eager["raised_at"]) == ("runs", "equal", "never")
    assert eager["left_to_torch"] == 3
    if not torch.cuda.is_available():
        assert rows["cudagraphs"]["left_to_torch"] == 3, "on a CPU it records nothing: torch runs all"
    assert rows["relu_accuracy_error_TESTING_ONLY"]["outcome"] == "wrong"
    late = rows["relu_compile_error_TESTING_ONLY"]
    assert (late["outcome"], late["raised_at"], late["error"]) == ("error", "first call", "ReluCompileError")
    assert late["caught_as"] == "BackendCompilerFailed"

    for name, gradients in (("planted_wrong", "equal"), ("planted_nan", "wrong")):
        assert (rows[name]["kind"], rows[name]["package"], rows[name]["package_version"]) == (
            "third party",
            "planted",
            "1",
        )
        assert (rows[name]["outcome"], rows[name]["gradients"]) == ("wrong", gradients)
    assert rows["planted_nan"]["relative_error"] is None
    assert rows["planted_crash"]["status"] == "failed"
    assert "SIGSEGV" in rows["planted_crash"]["note"]
    assert rows["planted_crash"]["outcome"] is None

    for name in ("nvfuser", "tvmgraph", "reduce-overhead"):
        row = rows[name]
        assert (row["outcome"], row["gradients"], row["raised_at"]) == ("error", "error", "torch.compile()")
        assert (row["caught_as"], row["error"]) == ("InvalidBackend", "InvalidBackend")
        assert row["message"].startswith(f"Invalid backend: '{name}'")
        assert "list_backends()" in row["message"]
        assert row["instead"]
    assert (rows["nvfuser"]["last_release"], rows["tvmgraph"]["last_release"]) == ("torchdynamo", "never")
    if STATUS.version_of("lightning-thunder") is None:
        assert rows["ThunderCompiler()"]["status"] == "unavailable"
        assert rows["ThunderCompiler()"]["note"] == "needs the package lightning-thunder"


@pytest.mark.slow
def test_what_packages_take_over_and_what_they_lose_is_seen() -> None:
    pytest.importorskip("tvm")
    (row,) = run_alone("third_party/status", {"backends": ["relax_dynamo()"]})
    assert (row["package"], row["package_version"]) == ("apache-tvm", STATUS.version_of("apache-tvm"))
    assert (row["outcome"], row["left_to_torch"]) == ("runs", 0)
    assert (row["gradients"], row["raised_at"]) == ("lost", "backward")


def test_every_name_that_torch_knows_is_tried_and_none_twice() -> None:
    rows = list(STATUS.described())
    names = [row["backend"] for row in rows]
    assert len(names) == len(set(names))
    assert set(names) >= REGISTERED | set(STATUS.PACKAGES)
    assert {row["kind"] for row in rows} == {"built in", "debug", "third party", "gone", "never"}
    for row in rows:
        if row["kind"] in ("gone", "never"):
            assert row["instead"]
            assert row["last_release"]


def test_a_name_that_a_package_brought_back_is_no_longer_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STATUS, "from_packages", lambda: {"onnxrt": "some-package"})
    monkeypatch.setattr(torch.compiler, "list_backends", lambda exclude_tags=(): ["inductor", "onnxrt"])
    (row,) = (row for row in STATUS.described() if row["backend"] == "onnxrt")
    assert (row["kind"], row["package"]) == ("third party", "some-package")


def test_judged_by_the_error() -> None:
    words = [STATUS.judged(error, "runs") for error in (0.0, 1e-6, 1e-3, 0.5, math.nan, math.inf, None)]
    assert words == ["runs", "runs", "rounded", "wrong", "wrong", "wrong", "wrong"]


def test_messages_lose_paths_of_the_machine_but_no_addresses() -> None:
    text = "cannot import 'relay' from 'tvm' (/opt/some/where/tvm/__init__.py), see https://example.org/a/b#c"
    assert STATUS.without_paths(text) == "cannot import 'relay' from 'tvm' (__init__.py), see https://example.org/a/b#c"
    assert STATUS.first_line(ValueError("\n  first\nsecond")) == "first"
    assert STATUS.first_line(ValueError("x" * 1000)) == "x" * STATUS.LONGEST + "…"


def test_an_error_names_what_is_inside_and_what_it_came_from() -> None:
    outer, inner = RuntimeError("outside"), ImportError("Please install it")
    inner.__cause__ = ImportError("cannot import name 'relay'")
    outer.inner_exception = inner  # type: ignore[attr-defined]
    assert STATUS.told(outer, "first call") == {
        "raised_at": "first call",
        "caught_as": "RuntimeError",
        "error": "ImportError",
        "message": "Please install it",
        "cause": "cannot import name 'relay'",
    }


# ---------------------------------------------------------------- falling back


def test_only_a_checked_step_inside_the_try_protects() -> None:
    rows = {row["case"]: row for row in run_alone("third_party/fallback", {})}
    seen = {case: (row["around_compile"], row["around_call"], row["around_step"]) for case, row in rows.items()}
    assert seen == {
        "right": ("right", "right", "right"),
        "unknown name": ("caught", "caught", "caught"),
        "missing package": ("escapes", "caught", "caught"),
        "backward": ("escapes", "escapes", "caught"),
        "gradients lost": ("escapes", "escapes", "caught"),
        "wrong output": ("unnoticed", "unnoticed", "caught"),
    }
    assert rows["right"]["reason"] is None
    assert "InvalidBackend" in rows["unknown name"]["reason"]
    assert "ImportError" in rows["missing package"]["reason"]
    assert "differs" in rows["wrong output"]["reason"]


def test_the_recipe_leaves_weights_and_gradients_alone() -> None:
    model, x = FALLBACK.model_and_input()
    before = [weight.detach().clone() for weight in model.parameters()]
    chosen, reason = FALLBACK.compiled_or_plain(model, FALLBACK.right, x)
    assert chosen is not model
    assert reason == ""
    assert all(weight.grad is None for weight in model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), before, strict=True))


# ---------------------------------------------------------------- pages


@pytest.mark.parametrize("name", [*STATUS.GONE, *STATUS.NEVER, *NAMES_OF_PACKAGES])
def test_both_pages_hold_what_torch_says_to_the_name(name: str) -> None:
    message = f"Invalid backend: '{name}', see `torch._dynamo.list_backends()` for available backends."
    line = f"torch._dynamo.exc.InvalidBackend: {message}\n"
    for language in LANGUAGES:
        assert page("names", language).count(line) == 1
    if name not in REGISTERED:
        with pytest.raises(torch._dynamo.exc.InvalidBackend) as raised:
            torch.compile(lambda x: x, backend=name)
        assert NEW_MESSAGE or str(raised.value) == message


def test_both_pages_hold_the_message_of_this_torch_as_it_is() -> None:
    for language in LANGUAGES:
        assert f"InvalidBackend: {torch._dynamo.exc.InvalidBackend('NAME')}\n" in page("names", language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_name_has_a_heading_whose_anchor_is_its_own(language: str) -> None:
    text = page("names", language)
    sections = dict(re.findall(r"^### (.+) \{#(name-[\w-]+)\}$", text, re.M))
    for heading, anchor in sections.items():
        assert re.findall(r"`([^`]+)`", heading)[0] == anchor.removeprefix("name-")


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_versions_to_install_are_those_that_are_tested(language: str) -> None:
    (command,) = re.findall(r"^pip install (torch==.*)$", page("index", language), re.M)
    pinned = set((ROOT / "constraints.txt").read_text("utf-8").splitlines())
    assert len(command.split()) > 5
    assert set(command.split()) <= pinned
