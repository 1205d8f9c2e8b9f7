"""Problems of CUDA graphs on a CPU: the stand-ins do what they stand for, and a fix that is left out is not fine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.test_snippets import load

torch = pytest.importorskip("torch")

OVERWRITTEN = "accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run"


@pytest.fixture(autouse=True)
def inference() -> Iterator[None]:
    with torch.no_grad():
        yield


# ---------------------------------------------------------------- outputs


def test_a_kept_output_raises_at_first_and_is_silently_another_later() -> None:
    module = load("errors/overwritten_output")
    new = module.judge("fix", "call", module.problem)
    assert (new["happened"], new["error"], new["raised_at"]) == ("error", "RuntimeError", "later call")
    assert OVERWRITTEN in new["message"]
    warm = module.judge("fix", "call", module.problem, calls_before=3)
    assert (warm["happened"], warm["evidence"]) == ("wrong", "kept=False, second_right=True")


def test_a_clone_inside_what_is_compiled_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("errors/overwritten_output")
    monkeypatch.setattr(module, "f", lambda x: torch.relu(x @ x).clone())
    assert module.judge("fix", "call", module.problem, calls_before=3)["happened"] == "wrong"
    assert module.judge("fix", "call", module.fix_clone, calls_before=3)["happened"] == "fine"


def test_reading_a_lost_output_raises_however_it_is_read() -> None:
    module = load("errors/overwritten_output")
    output = torch.ones(3).as_subclass(module.Output)
    assert (output + 1).tolist() == [2, 2, 2]
    output.lost = "gone"
    for read in (
        lambda: output + 1,
        lambda: output.tolist(),
        lambda: output.clone(),
        lambda: torch.equal(output, output),
    ):
        with pytest.raises(RuntimeError, match="gone"):
            read()


def test_the_text_is_that_of_torch() -> None:
    module = load("errors/overwritten_output")
    row = module.judge("problem", "call", module.problem)
    assert row["message"] == module.CUDAGraphTreeManager.format_dealloc_msg("return torch.relu(x @ x)")


def test_without_marks_every_call_is_a_step() -> None:
    module = load("errors/mark_step_begin")

    def no_mark(f: Any, x1: Any, x2: Any) -> Any:
        y1, y2 = f(x1), f(x2)
        return y1 + 0, y2 + 0

    row = module.judge("fix", "call", no_mark)
    assert (row["happened"], row["evidence"]) == ("error", "steps=0, kept=False")


@pytest.mark.parametrize(
    ("name", "happened", "steps"), [("problem", "error", 2), ("fix_clone", "fine", 2), ("fix_one_step", "fine", 1)]
)
def test_marks_are_counted_and_put_back(name: str, happened: str, steps: int) -> None:
    module = load("errors/mark_step_begin")
    before = module.MarkStepBox.mark_step_counter
    row = module.judge("fix", "call", getattr(module, name))
    assert row["happened"] == happened
    assert row["evidence"].startswith(f"steps={steps}, ")
    assert module.MarkStepBox.mark_step_counter == before


# ---------------------------------------------------------------- sizes and inputs


def test_each_size_is_recorded_once_and_nine_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("errors/recording_for_each_size")
    row = module.judge("fix", "call", module.problem)
    assert (row["happened"], row["raised_at"]) == ("warning", "later call")
    assert "We have observed 9 distinct sizes" in row["message"]
    # The first size has a static graph, and then the dynamic one, too.
    assert row["evidence"] == f"sizes=15, recordings={len(module.SIZES) + 1}, calls=30"
    monkeypatch.setattr(module, "SIZES", (3, 5, 7, 9, 11, 13))
    assert module.judge("fix", "call", module.problem)["happened"] == "costly"
    monkeypatch.setattr(module, "SIZES", (3, 5))
    assert module.judge("fix", "call", module.problem)["happened"] == "fine"


def test_padding_that_is_not_cut_off_is_wrong() -> None:
    module = load("errors/recording_for_each_size")

    def uncut(f: Any, x: Any) -> Any:
        return module.fix_pad(f, x) + 1

    assert module.judge("fix", "call", uncut)["happened"] == "wrong"


def test_a_recording_knows_only_its_own_tensors() -> None:
    module = load("errors/replay_ignores_new_input")
    row = module.judge("fix", "call", module.problem)
    assert (row["happened"], row["evidence"]) == ("wrong", "right=False, result_of_the_recording=True")
    assert module.judge("fix", "call", module.fix)["happened"] == "fine"

    def no_replay(new: Any) -> Any:
        x = torch.zeros_like(new)
        graph = module.Recorder()
        with graph:
            y = module.f(x)
        x.copy_(new)
        return y

    assert module.judge("fix", "call", no_replay)["happened"] == "wrong"


# ---------------------------------------------------------------- nothing recorded


def test_the_warning_and_the_counter_tell_that_nothing_was_recorded() -> None:
    module = load("errors/cudagraphs_on_cpu")
    torch._dynamo.reset()
    row = module.judge("fix", "call", module.problem(), torch.randn(4, 4))
    assert (row["happened"], row["raised_at"]) == ("warning", "first call")
    assert "skipping cudagraphs due to cpu device" in row["message"]
    assert row["evidence"].startswith("cudagraph_skips=1, ")
    torch._dynamo.reset()
    assert (
        module.judge("fix", "call", torch.compile(module.f, backend="eager"), torch.randn(4, 4))["happened"] == "fine"
    )


def test_a_skip_without_a_word_is_not_compiled_and_a_reused_place_is_wrong() -> None:
    module, x = load("errors/reduce_overhead_on_cpu"), torch.randn(4, 4)
    place = torch.empty(4, 4)

    def skipping(x: Any) -> Any:
        module.counters["inductor"]["cudagraph_skips"] += 1
        return module.f(x)

    assert module.judge("fix", "call", skipping, x)["happened"] == "not compiled"
    assert module.judge("fix", "call", module.f, x)["happened"] == "fine"
    row = module.judge("fix", "call", lambda x: place.copy_(module.f(x)), x)
    assert (row["happened"], row["evidence"]) == ("wrong", "cudagraph_skips=0, first_output_kept=False")
