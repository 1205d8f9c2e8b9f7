"""What several hooks need to know about the site: which config is this, where does the site start."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from mkdocs.config.defaults import MkDocsConfig

ROOT = Path(__file__).resolve().parents[2]
ROOT_CONFIG = "mkdocs.yml"


def is_root(config: MkDocsConfig) -> bool:
    """True for mkdocs.yml, false for a language's config, which inherits the same hooks."""
    return Path(config.config_file_path).name == ROOT_CONFIG


def language(config: MkDocsConfig) -> str:
    """The language code of a language's config ("en", "zh")."""
    return str(config.theme["language"])


def codes(config: MkDocsConfig) -> list[str]:
    """The language codes of the site, in the order of `extra.languages`."""
    return [entry["code"] for entry in config.extra["languages"]]


def base_path(config: MkDocsConfig) -> str:
    """The path under which the whole site is published, with both slashes: "/" or "/compile-kitchen/".

    A language's site_url ends in its code (languages.py sets it), which is no part of the base.
    """
    path = urlsplit(config.site_url or "/").path.rstrip("/") + "/"
    if not is_root(config):
        path = path.removesuffix(f"{language(config)}/")
    return path
