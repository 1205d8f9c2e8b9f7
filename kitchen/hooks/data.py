"""Publish what the pages link to: every record, snippet and example, and the schemas, at the root of the site."""

from __future__ import annotations

import shutil
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig

from kitchen.hooks.common import ROOT, is_root


def on_post_build(config: MkDocsConfig) -> None:
    """Copy results/**/*.json, snippets/**/*.py, the files of examples/ and kitchen/schema/*.json.

    Runs after the languages are built, because a live build (KITCHEN_LIVE=1) records while it builds them.
    """
    if not is_root(config):
        return
    from kitchen.results import RESULTS
    from kitchen.snippet import SNIPPETS

    site = Path(config.site_dir)
    _copy(RESULTS, "*.json", site / "results")
    _copy(SNIPPETS, "*.py", site / "snippets")
    for pattern in ("*.py", "*.md", "*.toml"):
        _copy(ROOT / "examples", pattern, site / "examples")
    _copy(ROOT / "kitchen" / "schema", "*.json", site / "schema")


def _copy(source: Path, pattern: str, target: Path) -> None:
    for path in sorted(source.rglob(pattern)):
        *folders, name = path.relative_to(source).parts
        if name.startswith(".") or any(folder.startswith((".", "__")) for folder in folders):
            continue
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
