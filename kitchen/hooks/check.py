"""Last of all: scan the built site (kitchen/sitecheck.py) and fail on what it finds."""

from __future__ import annotations

import logging
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

from kitchen.hooks.common import ROOT, base_path, is_root

log = logging.getLogger("mkdocs.kitchen")
_serving = False


def on_startup(command: str, dirty: bool) -> None:
    """Remember whether this is `mkdocs serve`."""
    global _serving
    _serving = command == "serve"


def on_post_build(config: MkDocsConfig) -> None:
    """Scan the whole site once. While serving, findings are warnings: a page being written may be half done."""
    if not is_root(config):
        return
    from kitchen import sitecheck

    findings = sitecheck.check(Path(config.site_dir), docs=ROOT / "docs", base=base_path(config))
    if not findings:
        return
    if not _serving:
        raise PluginError(f"The built site has {len(findings)} faults:\n" + "\n".join(map(str, findings)))
    for finding in findings:
        log.warning("%s", finding)
