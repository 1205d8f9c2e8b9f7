"""Write the data of the interactive tools beside their pages, once the pages of a language are built."""

from __future__ import annotations

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError

from kitchen.hooks.common import is_root, language


def on_post_build(config: MkDocsConfig) -> None:
    """Write <language>/tools/data/*.json: after the pages, because a live build records while it builds them."""
    if is_root(config):
        return
    from kitchen import tools
    from kitchen.context import PageError, language_of

    folder = Path(config.site_dir, "tools", "data")
    for name in tools.names():
        if not Path(config.docs_dir, "tools", f"{name}.md").is_file():
            continue
        try:
            files = tools.files(name, language_of(language(config)))
        except PageError as error:
            raise PluginError(f"kitchen/tools/{name}.py: {error}") from error
        folder.mkdir(parents=True, exist_ok=True)
        for key, text in files.items():
            (folder / f"{key}.json").write_text(text, "utf-8")
