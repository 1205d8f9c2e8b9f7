"""Wrapping, saving, loading, and what newer versions cured: that a fix left out is seen, and that counts are counts."""

from __future__ import annotations

import io
from typing import Any

import pytest

from tests.error_snippets import load

torch = pytest.importorskip("torch")


def test_weights_that_did_not_arrive_are_seen() -> None:
    module = load("orig_mod_keys")
    assert module.loaded("fix", "call", lambda trained, fresh: None)["happened"] == "wrong"
    assert module.loaded("fix", "call", module.problem_hidden)["happened"] == "wrong"
    assert module.loaded("fix", "call", module.problem)["error"] == "RuntimeError"


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module._orig_mod."])
def test_prefixes_come_off_in_any_order_and_nothing_else_does(prefix: str) -> None:
    module = load("ddp_prefixes")
    keys = ["0.weight", "modules.0.weight", "head.module.weight"]
    assert list(module.strip_all({prefix + key: 0 for key in keys})) == keys
    if prefix.count(".") > 1:
        assert list(module.strip_once({prefix + key: 0 for key in keys}, "module.")) != keys


def test_the_innermost_model_is_found() -> None:
    module = load("ddp_prefixes")
    model = module.make_model(0)
    assert module.unwrapped(torch.compile(torch.nn.DataParallel(torch.compile(model)))) is model
    assert module.unwrapped(model) is model


def test_graphs_of_ddp_are_counted() -> None:
    module = load("ddp_splits_graph")
    assert module.counted("fix", "call", lambda model, backend: model)["happened"] == "not compiled"
    whole = module.counted("fix", "call", lambda model, backend: torch.compile(model, backend=backend))
    assert (whole["happened"], whole["evidence"]) == ("fine", "graphs=1, same_gradients=True")

    def breaking(model: Any, backend: Any) -> Any:
        def step(x: Any) -> Any:
            x = torch.relu(model.layers[0](x))
            torch._dynamo.graph_break()
            for layer in model.layers[1:]:
                x = torch.relu(layer(x))
            return x

        return torch.compile(step, backend=backend)

    assert module.counted("fix", "call", breaking)["happened"] == "costly"
    assert module.counted("fix", "call", lambda model, backend: lambda x: model(x * 2))["happened"] == "wrong"


def test_a_result_that_is_not_used_is_seen() -> None:
    module = load("result_not_used")
    assert module.called("fix", "call", lambda model, backend: model)["evidence"] == "graphs=0, equal_to_eager=True"
    assert module.called("fix", "call", module.problem_self)["happened"] == "not compiled"
    assert module.called("fix", "call", lambda model, backend: lambda x: x)["happened"] == "wrong"


def test_hooks_are_held_to_what_they_do() -> None:
    module = load("late_hooks")
    assert module.compared("fix", "call", "", module.problem_added, True)["happened"] == "wrong"
    assert module.compared("fix", "call", "", module.problem_added, False)["happened"] == "fine", (
        "as if there were none"
    )
    assert module.compared("fix", "call", "", lambda model, x: ["hook", "hook"], True)["happened"] == "wrong"
    plain = module.compared("fix", "call", "", lambda model, x: model(x), True)
    assert (plain["happened"], plain["evidence"]) == ("wrong", "equal_to_eager=False")


def test_old_weights_are_seen() -> None:
    module = load("frozen_weights")

    def stale(model: Any, weights: Any, x: Any) -> Any:
        before = model(x)
        model.load_state_dict(weights)
        return before

    row = module.updated("fix", "call", stale)
    assert row["happened"] == "wrong"
    assert row["evidence"] == "equal_to_eager=False, equal_to_old_weights=True"


def test_a_wrapper_is_not_its_model() -> None:
    module = load("wrapper_type")
    assert module.asked("fix", "call", lambda model: torch.compile(model))["happened"] == "wrong"
    assert module.asked("fix", "call", lambda model: model[1])["happened"] == "wrong"
    assert module.asked("fix", "call", lambda model: model[0])["happened"] == "fine"


def test_an_export_keeps_the_names() -> None:
    module = load("traced_compiled")
    assert module.tried("fix", "call", module.problem_names)["happened"] == "wrong"
    assert module.tried("fix", "call", lambda model, x: model)["happened"] == "fine"


def test_a_scripted_part_is_not_compiled() -> None:
    module = load("compiled_script")
    row = module.tried("fix", "call", module.problem_part, True)
    assert (row["happened"], row["evidence"]) == ("not compiled", "graphs=0, equal_to_eager=True")
    assert module.tried("fix", "call", module.fix, False)["happened"] == "wrong"


def test_a_file_with_other_weights_is_no_fix() -> None:
    module = load("weights_only_load")
    other = module.saved_and_loaded("fix", "call", lambda model, file: module.make_model(2))
    assert other["happened"] == "wrong"
    with pytest.raises(Exception, match="Unsupported global") as caught:
        module.problem(module.make_model(0), io.BytesIO())
    assert "torch._dynamo.eval_frame.OptimizedModule" in module.tidy(caught.value)


class Workers:
    """A pool that answers as told."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def submit(self, work: Any, function: Any) -> Workers:
        return self

    def result(self) -> Any:
        return self.answer


def test_a_worker_that_compiled_nothing_is_seen() -> None:
    module = load("pickled_function")
    right = module.double(torch.ones(4)).tolist()
    for answer, happened in (((right, 1), "fine"), ((right, 0), "not compiled"), (([0.0], 1), "wrong")):
        assert module.sent("fix", "call", module.fix_in_the_worker, Workers(answer))["happened"] == happened


# ---------------------------------------------------------------- cured: were it to come back, the row would say so


def test_recompiling_at_every_toggle_would_be_seen() -> None:
    module = load("train_eval_toggle")

    def as_it_was(model: Any, compiled: Any, x: Any) -> None:
        for _ in range(3):
            torch._dynamo.reset()
            module.problem(model, compiled, x)

    row = module.counted("problem", "call", as_it_was)
    assert (row["happened"], row["evidence"]) == ("recompiled", "graphs=6, calls=12, equal_to_eager=True")
    assert module.counted("fix", "call", lambda model, compiled, x: None)["happened"] == "not compiled"


def test_a_flag_that_stays_would_be_seen() -> None:
    row = load("training_flag").asked("problem", "call", lambda model: [True, False, True, True])
    assert (row["happened"], row["evidence"]) == ("wrong", "after_eval=[True, False], after_train=[True, True]")


def test_recompiling_for_every_rate_would_be_seen() -> None:
    module = load("one_graph_per_rate")

    def as_it_was(optimizer: Any, step: Any, rates: list[float]) -> None:
        for rate in rates:
            torch._dynamo.reset()
            module.problem(optimizer, step, [rate])

    assert module.counted("problem", "call", as_it_was, 0.1, 2)["happened"] == "recompiled"
    assert module.counted("problem", "call", lambda optimizer, step, rates: step(), 0.1, 2)["happened"] == "wrong"


def test_a_graph_for_every_layer_would_be_seen() -> None:
    module = load("layers_share_graph")

    def as_it_was(blocks: Any, backend: Any) -> Any:
        def call(x: Any) -> Any:
            for block in blocks:
                torch._dynamo.reset()
                x = torch.compile(block, backend=backend)(x)
            return x

        return call

    row = module.counted("problem", "call", as_it_was)
    assert (row["happened"], row["evidence"]) == ("recompiled", "graphs=12, modules=12, equal_to_eager=True")
    uncompiled = module.counted("fix", "call", lambda blocks, backend: torch.nn.Sequential(*blocks))
    assert uncompiled["happened"] == "not compiled"


def test_stale_weights_would_be_seen() -> None:
    module = load("assigned_weights")
    assert module.updated("problem", "call", lambda model, weights: None)["happened"] == "wrong"
    assert module.updated("problem", "call", module.problem_parameter)["evidence"] == "equal_to_eager=True, graphs=1"


def test_a_model_that_can_not_be_pickled_would_be_seen() -> None:
    module = load("pickled_model")

    def refuse(compiled: Any) -> Any:
        raise AttributeError("Can't pickle local object 'f.<locals>.g'")

    row = module.carried("problem", "call", refuse)
    assert (row["happened"], row["error"], row["raised_at"]) == ("error", "AttributeError", "save")
    other = module.carried("fix", "call", lambda compiled: torch.nn.Linear(4, 2))
    assert other["happened"] == "wrong"


def test_a_user_without_a_name_would_be_seen() -> None:
    module = load("unknown_user")
    row = module.asked("problem", "call", lambda: ("KeyError", "'getpwuid(): uid not found: 12345'", ""), "compiled")
    assert (row["happened"], row["message"]) == ("error", "getpwuid(): uid not found: N")
    assert module.asked("fix", "call", lambda: ("", "", "elsewhere"), "compiled")["happened"] == "wrong"
    kind, message, _ = module.without_a_name("import getpass\ngetpass.getuser()\n")
    assert kind == "KeyError", "there is no name in that process"
    assert "uid not found" in message


def test_a_python_that_is_refused_would_be_seen() -> None:
    module = load("python_version")

    def refuse(x: Any) -> Any:
        raise RuntimeError("Dynamo is not supported on Python 3.12+")

    row = module.tried("problem", "call", refuse)
    assert (row["happened"], row["message"]) == ("error", "Dynamo is not supported on Python 3.12+")
    assert module.tried("fix", "call", lambda x: x - 1)["happened"] == "wrong"
