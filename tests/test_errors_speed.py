"""Problems of speed and of measuring it: their rows can come out otherwise, and count what there is."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from tests.test_snippets import load

torch = pytest.importorskip("torch")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``torch.compile`` capture only: what is tried here are counts, and no kernel is needed for them."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))


@pytest.fixture
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def evidence(row: dict[str, str]) -> dict[str, str]:
    return dict(part.split("=", 1) for part in row["evidence"].split(", "))


# ---------------------------------------------------------------- the measurement is wrong


def test_timing_the_first_call_is_costly_also_under_the_name_of_a_fix(quick: None, one_thread: None) -> None:
    module = load("errors/first_call_timed")
    row = module.judge("fix", "call", module.problem)
    assert row["happened"] == "costly"
    assert row["raised_at"] == "first call"
    assert evidence(row)["graphs"] == "1"
    assert float(evidence(row)["timed/step"]) > 10
    assert module.judge("fix", "call", module.fix)["happened"] == "fine"


def test_a_wrong_result_has_no_time(quick: None, one_thread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    module = load("errors/first_call_timed")
    monkeypatch.setattr(module.torch, "allclose", lambda *_, **__: False)
    assert module.judge("fix", "call", module.fix)["happened"] == "wrong"


def test_one_call_does_not_settle_three_sizes(quick: None, one_thread: None) -> None:
    module = load("errors/still_compiling")
    row = module.judge("fix", "call", module.problem)
    assert (row["happened"], row["raised_at"]) == ("recompiled", "later call")
    assert evidence(row)["warmup_calls"] == "1"
    assert int(evidence(row)["graphs"]) >= 1
    settled = module.judge("fix", "call", module.fix)
    assert settled["happened"] == "fine"
    assert evidence(settled)["graphs"] == "0"


def test_a_function_that_never_settles_is_told(quick: None) -> None:
    module = load("errors/still_compiling")
    torch._dynamo.reset()
    module.counters.clear()
    with pytest.raises(RuntimeError, match="still compiling after 1 passes"):
        module.fix(torch.compile(module.f), [torch.randn(4, 8)], passes=1)


def test_a_clock_that_does_not_wait_is_wrong() -> None:
    module = load("errors/clock_without_synchronize")
    assert module.judge("fix", "call", module.problem)["happened"] == "wrong"
    row = module.judge("fix", "call", module.fix)
    assert row["happened"] == "fine"
    assert float(evidence(row)["clock/device"]) >= 0.9


def test_a_clock_that_waits_for_wrong_numbers_is_wrong() -> None:
    module = load("errors/clock_without_synchronize")

    def slow_and_wrong(device: Any, x: Any) -> tuple[float, Any]:
        seconds, y = module.fix(device, x)
        return seconds, y + 1

    assert module.judge("fix", "call", slow_and_wrong)["happened"] == "wrong"


@pytest.mark.parametrize("every", [1, 5])
def test_the_device_is_idle_once_for_each_wait(every: int) -> None:
    module = load("errors/synchronize_in_the_loop")

    def loop(device: Any, x: Any) -> Any:
        for call in range(module.CALLS):
            x = module.prepare(x)
            y = device.launch(torch.relu, x)
            if call % every == every - 1:
                device.synchronize()
        return y.result()

    row = module.judge("fix", "call", loop)
    idle = int(evidence(row)["idle"])
    assert idle == module.CALLS if every == 1 else module.CALLS // every <= idle < module.CALLS / 2
    assert row["happened"] == ("costly" if every == 1 else "fine")


@pytest.mark.parametrize("threads", [None, 3])
def test_timer_with_other_threads_than_the_program_is_wrong(threads: int | None) -> None:
    module = load("errors/timer_uses_one_thread")

    def timed(statement: str, names: dict[str, Any]) -> None:
        how = {} if threads is None else {"num_threads": threads}
        module.Timer(statement, globals=names, **how).timeit(3)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        row = module.judge("fix", "call", timed)
    finally:
        torch.set_num_threads(before)
    assert row["happened"] == "wrong"
    assert evidence(row) == {"timer_threads": str(threads or 1), "program_threads": "2", "graphs": "2"}


def test_the_number_of_threads_is_given_back() -> None:
    before = torch.get_num_threads()
    rows = load("errors/timer_uses_one_thread").run()
    assert torch.get_num_threads() == before
    assert [row["happened"] for row in rows] == ["wrong", "fine"]


def test_the_outermost_timer_is_the_largest_and_the_sum_is_the_sum(quick: None) -> None:
    module = load("errors/compile_timers_added")
    torch._dynamo.reset()
    module.compilation_time_metrics.clear()
    start = time.perf_counter()
    torch.compile(module.f)(torch.randn(8, 8))
    wall = time.perf_counter() - start
    told = module.timers()
    assert module.fix() == max(told.values())
    assert module.problem() == pytest.approx(sum(told.values()))
    assert module.problem() > module.fix()
    assert module.fix() <= wall * 1.01


def test_kernels_are_counted_on_both_devices() -> None:
    fix = load("errors/kernel_counter").fix
    assert fix("") == 0
    code = (
        "a = async_compile.cpp_pybinding(['x'], '''\nb = async_compile.triton('t', '''\nasync_compile.wait(globals())"
    )
    assert fix(code) == 2


# ---------------------------------------------------------------- nothing to gain


@pytest.mark.parametrize(
    ("ratios", "happened"),
    [((4.0, 5.0, 6.0), "costly"), ((0.9, 1.1, 1.2), "costly"), ((0.01, 0.02, 3.0), "fine")],
)
def test_the_median_says_whether_it_is_slower(
    ratios: tuple[float, float, float], happened: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("errors/tiny_op")
    monkeypatch.setattr(module, "ratios", lambda *_: ratios)
    assert module.judge("fix", "call", module.plain_loop, torch.zeros(8, 8))["happened"] == happened
    wrong = module.judge("fix", "call", lambda x: x, torch.zeros(8, 8))
    assert wrong["happened"] == "wrong"


def test_ratios_are_of_compiled_over_plain() -> None:
    module = load("errors/tiny_op")
    twice = module.ratios(lambda x: module.plain_loop(module.plain_loop(x)), torch.zeros(8, 8))
    assert 1.5 < twice[1] < 3
    assert twice[0] <= twice[1] <= twice[2]


@pytest.mark.parametrize(
    ("seconds", "searches", "happened", "status"),
    [(6.0, 1, "costly", "ok"), (2.2, 1, "fine", "ok"), (6.0, 0, "fine", "not measured")],
)
def test_only_a_search_that_takes_long_is_costly(
    seconds: float, searches: int, happened: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("errors/max_autotune_on_cpu")
    answers = iter([(0.0, 0), (2.0, 0), (seconds, searches)])

    def first_call(compiled: Any, x: Any) -> tuple[float, int, Any]:
        took, found = next(answers)
        weights = getattr(compiled, "_orig_mod", None)
        return took, found, weights(x) if weights is not None else x

    monkeypatch.setattr(module, "first_call", first_call)
    problem, fix = module.run()
    assert (problem["happened"], problem["status"], bool(problem["note"])) == (happened, status, status != "ok")
    assert (fix["happened"], fix["evidence"]) == ("fine", "searches=0, first_call/default=1")


# ---------------------------------------------------------------- not compiled as one thinks


def test_operators_are_counted_and_saving_none_is_not_compiling() -> None:
    module, x = load("errors/eager_back_end_for_speed"), torch.randn(4, 4)
    torch._dynamo.reset()
    assert module.operators(module.f, x) == 5
    assert module.judge("fix", "call", module.problem("aot_eager"), x)["happened"] == "not compiled"
    assert module.judge("fix", "call", lambda x: module.f(x) + 0, x)["happened"] == "not compiled"
    assert module.judge("fix", "call", lambda x: x.neg(), x)["happened"] == "wrong"


def test_the_inner_back_end_has_to_get_a_graph() -> None:
    module = load("errors/outer_compile_swallows")
    row = module.judge("fix", "call", module.problem)
    assert (row["happened"], row["evidence"]) == ("not compiled", "inner_graphs=0, outer_graphs=1")
    assert module.judge("fix", "call", lambda *_: torch.neg)["happened"] == "wrong"


def test_the_fast_path_is_one_operator_and_the_switch_is_put_back() -> None:
    module = load("errors/encoder_fast_path")
    torch.backends.mha.set_fastpath_enabled(True)
    with torch.no_grad():
        row = module.judge("fix", "call", module.problem)
        assert (row["happened"], row["evidence"]) == ("not compiled", "operators=1, graphs=1")
        assert module.judge("fix", "call", module.fix)["happened"] == "fine"
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("names", [(), ("_frozen_param0", "_frozen_param3")])
def test_frozen_weights_are_counted_by_name(names: Sequence[str]) -> None:
    module: ModuleType = load("errors/freezing_as_option")

    def prepare(model: Any, x: Any) -> tuple[Any, list[str]]:
        return model(x), [f"call({name}, {name})" for name in names]

    row = module.judge("fix", "call", prepare)
    assert row["evidence"] == f"frozen_params={len(names)}"
    assert row["happened"] == ("fine" if names else "not compiled")
    assert module.judge("fix", "call", lambda model, x: (model(x) + 1, ["_frozen_param0"]))["happened"] == "wrong"
