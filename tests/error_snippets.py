"""Loads the snippets of errors/ as modules, for the tests of their pages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[1] / "snippets" / "errors"


def load(name: str) -> ModuleType:
    """A snippet as a module of this process."""
    spec = importlib.util.spec_from_file_location(f"errors_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
