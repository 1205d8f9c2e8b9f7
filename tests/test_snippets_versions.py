"""versions/settings: the defaults of this torch, read where no environment variable has changed them."""

from __future__ import annotations

import pytest

from tests.test_snippets import Row, load, run_alone

NAME = "versions/settings"


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    # Both would show in the values if the child did not drop them.
    return run_alone(NAME, {}, TORCHINDUCTOR_FREEZING="1", TORCHINDUCTOR_CUDAGRAPHS="1")


def test_rows_are_those_of_the_documentation(rows: list[Row]) -> None:
    assert {tuple(row) for row in rows} == {("subject", "full_name", "value", "status", "note")}
    assert len({(row["subject"], row["full_name"]) for row in rows}) == len(rows)


def test_settings_are_read_and_none_is_misspelt(rows: list[Row]) -> None:
    import torch

    settings = {row["full_name"]: row["value"] for row in rows if row["subject"] == "setting"}
    assert settings["torch._dynamo.config.recompile_limit"] == repr(torch._dynamo.config.recompile_limit)
    assert settings["torch._inductor.config.freezing"] == "False"
    assert settings["torch._inductor.config.triton.cudagraphs"] == "False"
    assert [name for name, value in settings.items() if value == "absent"] == [], "is there on the torch of the tests"


def test_a_setting_that_is_not_there_is_absent() -> None:
    assert load(NAME).read("torch._inductor.config.no_such_setting") == "absent"


def test_back_ends_are_those_of_torch_alone(rows: list[Row]) -> None:
    names = {row["full_name"]: row["value"] for row in rows if row["subject"] == "back end"}
    assert names["inductor"] == "listed"
    assert names["aot_eager"] == "for debugging"
    assert not {"openvino", "turbine_cpu"} & set(names)
