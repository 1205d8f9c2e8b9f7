"""What every snippet's rows have to keep, whatever they show."""

from __future__ import annotations

import ast
import json
import math
from typing import Any

from tests.test_snippets import SNIPPETS, STATUSES, TIME_SUFFIXES


def check_rows(name: str, rows: list[dict[str, Any]], *, failed_too: bool = True) -> None:
    """Rows are flat, survive JSON, say why they have no times, and the docstring names every column.

    Rows of one ``kind`` have the same columns; without ``failed_too`` only those that are ok.
    """
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    documented = ast.get_docstring(ast.parse((SNIPPETS / f"{name}.py").read_text())) or ""
    columns: dict[str, set[str]] = {}
    for row in rows:
        assert row["status"] in STATUSES
        for column, value in row.items():
            if column.startswith("samples_"):
                assert all(isinstance(sample, int | float) and math.isfinite(sample) for sample in value)
            else:
                assert value is None or isinstance(value, str | int | float), column
            assert column in documented, column
        if failed_too or row["status"] == "ok":
            assert columns.setdefault(row.get("kind", ""), set(row)) == set(row)
        if row["status"] != "ok":
            assert row["note"]
            assert not any(value for column, value in row.items() if column.endswith(TIME_SUFFIXES))
