"""Make this repository's `kitchen` package importable, for the hooks after this one and for the pages.

MkDocs loads each hook file by path and then restores `sys.path`, and the `mkdocs` script does not put the
project on it either. A package that is already imported needs no path: its submodules are found through it.
"""

import importlib
import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[2])

sys.path.insert(0, _ROOT)
try:
    importlib.import_module("kitchen")
finally:
    sys.path.remove(_ROOT)
