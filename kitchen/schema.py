"""Checks data against the JSON Schemas in ``kitchen/schema`` with the standard library alone.

The measuring half runs where there is no ``jsonschema`` package, and a record must be checked before it is
written. This knows exactly the keywords that our four schemas use and refuses a schema with any other, so it
cannot skip a rule in silence; a test holds it to the ``jsonschema`` package on thousands of mutated records.
"""

from __future__ import annotations

import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "schema"

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "integer": (int,),
    "number": (int, float),
}
_NOTES = {"$schema", "title", "description"}
_RULES = {
    "type", "const", "enum", "pattern", "maxLength", "minimum", "required", "properties",
    "additionalProperties", "minProperties", "items", "minItems", "maxItems",
}  # fmt: skip


@cache
def schema(name: str) -> dict[str, Any]:
    """The schema ``record``, ``run``, ``machine`` or ``bundle``."""
    data: dict[str, Any] = json.loads((FOLDER / f"{name}.schema.json").read_text("utf-8"))
    return data


def faults(data: Any, name: str) -> list[str]:
    """What is wrong with ``data``, as ``field: what`` lines; empty when it keeps the schema."""
    found: list[str] = []
    _check(data, schema(name), "", found)
    return found


def _is(data: Any, kind: str) -> bool:
    if isinstance(data, bool):
        return kind == "boolean"
    if isinstance(data, float) and kind == "integer":
        return data.is_integer()
    return isinstance(data, _TYPES[kind])


def _short(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 60 else text[:57] + "..."


def _check(data: Any, rules: dict[str, Any], field: str, found: list[str]) -> None:
    unknown = set(rules) - _RULES - _NOTES
    if unknown:
        raise NotImplementedError(f"kitchen/schema.py does not know the keywords {sorted(unknown)}")
    where = field or "the file"
    kinds = rules.get("type")
    if kinds is not None:
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not any(_is(data, kind) for kind in kinds):
            found.append(f"{where}: wants {' or '.join(kinds)}, has {_short(data)}")
            return
    if "const" in rules and (data != rules["const"] or isinstance(data, bool)):
        found.append(f"{where}: wants {rules['const']!r}, has {_short(data)}")
    if "enum" in rules and data not in rules["enum"]:
        found.append(f"{where}: wants one of {', '.join(map(str, rules['enum']))}, has {_short(data)}")
    if isinstance(data, str):
        if "pattern" in rules and not re.search(rules["pattern"], data):
            found.append(f"{where}: {_short(data)} does not match {rules['pattern']}")
        elif "pattern" in rules and data.endswith("\n"):
            # Python's $ matches before a last line end; ECMA 262's does not.
            found.append(f"{where}: {_short(data)} ends in a line end")
        if len(data) > rules.get("maxLength", math.inf):
            found.append(f"{where}: longer than {rules['maxLength']} characters")
    if isinstance(data, int | float) and not isinstance(data, bool):
        if isinstance(data, float) and not math.isfinite(data):
            found.append(f"{where}: {data} is not a finite number")
        elif data < rules.get("minimum", -math.inf):
            found.append(f"{where}: {data} is below {rules['minimum']}")
    if isinstance(data, list):
        if len(data) < rules.get("minItems", 0):
            found.append(f"{where}: wants at least {rules['minItems']} items, has {len(data)}")
        if len(data) > rules.get("maxItems", math.inf):
            found.append(f"{where}: wants at most {rules['maxItems']} items, has {len(data)}")
        if "items" in rules:
            for index, item in enumerate(data):
                _check(item, rules["items"], f"{field}[{index}]", found)
    if isinstance(data, dict):
        if len(data) < rules.get("minProperties", 0):
            found.append(f"{where}: is empty")
        for key in rules.get("required", ()):
            if key not in data:
                found.append(f"{f'{field}.{key}' if field else key}: is missing")
        properties = rules.get("properties", {})
        extra = rules.get("additionalProperties", True)
        for key, item in data.items():
            inner = f"{field}.{key}" if field else str(key)
            if key in properties:
                _check(item, properties[key], inner, found)
            elif extra is False:
                found.append(f"{inner}: is not a known field")
            elif isinstance(extra, dict):
                _check(item, extra, inner, found)
