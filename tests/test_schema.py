"""Our checker agrees with the jsonschema package on what is valid, over many mutated documents."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import jsonschema
import pytest

from kitchen import schema
from tests.record_files import machine_data, record_data, run_data

GOOD: dict[str, dict[str, Any]] = {
    "record": record_data("demo/one"),
    "run": run_data("test-cpu"),
    "machine": machine_data("test-cpu"),
    "bundle": {
        "format": "compile-kitchen/bundle",
        "version": 1,
        "machine": machine_data("test-cpu"),
        "runs": [
            {
                "run_folder": "2026-11-29T213015Z-torch2.13.0",
                "run": run_data("test-cpu"),
                "records": [record_data("demo/one")],
            }
        ],
    },
}
ODD: list[Any] = [None, True, False, 0, 1, -1, 1.0, 1.5, "", "x", "ok", [], [1], ["a"], {}, {"a": 1}, {"a": [1, "b"]}]


@pytest.mark.parametrize("name", sorted(GOOD))
def test_schemas_are_schemas_and_the_good_documents_keep_them(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema.schema(name))
    assert schema.faults(GOOD[name], name) == []


def mutate(data: Any, dice: random.Random) -> Any:
    """One random change somewhere in ``data``."""
    data = copy.deepcopy(data)
    place = data
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return data
        key = dice.choice(keys)
        inner = place[key]
        if isinstance(inner, dict | list) and inner and dice.random() < 0.7:
            place = inner
            continue
        change = dice.randrange(4)
        if change == 0:
            place[key] = dice.choice(ODD)
        elif change == 1:
            del place[key]
        elif change == 2 and isinstance(place, dict):
            place["extra"] = dice.choice(ODD)
        elif isinstance(inner, str):
            place[key] = dice.choice([inner + "\n", inner.upper(), inner * 50, " " + inner])
        else:
            place[key] = dice.choice(ODD)
        return data


@pytest.mark.parametrize("name", sorted(GOOD))
def test_agrees_with_jsonschema(name: str) -> None:
    validator = jsonschema.Draft202012Validator(schema.schema(name))
    dice = random.Random(name)
    verdicts = []
    for _ in range(1500):
        data = mutate(GOOD[name], dice)
        if dice.random() < 0.3:
            data = mutate(data, dice)
        if "\\n" in json.dumps(data):
            # Python's jsonschema takes $ before a last line end, ECMA 262 and ours do not.
            continue
        ours, theirs = not schema.faults(data, name), validator.is_valid(data)
        assert ours == theirs, data
        verdicts.append(ours)
    assert verdicts.count(False) > 50, "the mutations must break something"
    assert any(verdicts)


def test_a_line_end_after_a_name_is_refused() -> None:
    assert schema.faults(GOOD["record"] | {"snippet": "demo/one\n"}, "record")


def test_a_fault_names_the_field() -> None:
    bad = GOOD["record"] | {"rows": [{"a": 1}, {"b": [1, "x"]}]}
    assert schema.faults(bad, "record") == ["rows[1].b[1]: wants number, has 'x'"]
    assert schema.faults(GOOD["record"] | {"wall_s": float("nan")}, "record") == ["wall_s: nan is not a finite number"]


def test_an_unknown_keyword_is_not_skipped() -> None:
    with pytest.raises(NotImplementedError, match="oneOf"):
        schema._check({}, {"oneOf": []}, "", [])
