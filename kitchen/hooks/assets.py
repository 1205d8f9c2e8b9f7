"""Styles, scripts and MathJax: one copy at the root of the site, used by both languages.

Our own files are in docs/assets and are copied by the root build. MathJax comes from the
`django-static-mathjax` package (only its files are used), so nothing is fetched from another host.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from kitchen.hooks.common import base_path, is_root

# The page script, the one extension it loads (\class for the linked term tables), and the fonts.
_MATHJAX = ("tex-chtml.js", "input/tex/extensions/html.js", "output/chtml/fonts/woff-v2/*.woff")
_NOTICE = (
    "MathJax 3.2.2, https://www.mathjax.org\n"
    "Copyright The MathJax Consortium, Apache License 2.0: https://www.apache.org/licenses/LICENSE-2.0\n"
)


def mathjax_folder() -> Path:
    """The folder with MathJax's built files.

    Raises:
        PluginError: the package is missing or laid out differently.
    """
    spec = importlib.util.find_spec("mathjax")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place, "static", "mathjax", "es5")
        if (folder / _MATHJAX[0]).is_file():
            return folder
    raise PluginError("MathJax is missing: install the package django-static-mathjax (see pyproject.toml)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Point a language's pages at the shared files one level up, and share the reader's settings."""
    # Material keys its stored settings (palette, chosen tabs) by this path: one store for both languages.
    config.extra["scope"] = base_path(config)
    if not is_root(config):
        config.theme["favicon"] = _above(config.theme["favicon"])
        config.extra_css = [_above(path) for path in config.extra_css]
        for script in config.extra_javascript:
            if not isinstance(script, str):
                script.path = _above(script.path)
    return config


def _above(path: str) -> str:
    return f"../{path}" if path.startswith("assets/") else path


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Root only: add MathJax, and drop the theme's own files, which the root page does not use."""
    if not is_root(config):
        return files
    kept = Files([file for file in files if Path(config.docs_dir) in Path(file.abs_src_path or "").parents])
    folder = mathjax_folder()
    for pattern in _MATHJAX:
        for source in sorted(folder.glob(pattern)):
            target = f"assets/mathjax/{source.relative_to(folder).as_posix()}"
            kept.append(File.generated(config, target, abs_src_path=str(source)))
    kept.append(File.generated(config, "assets/mathjax/NOTICE.txt", content=_NOTICE))
    return kept
