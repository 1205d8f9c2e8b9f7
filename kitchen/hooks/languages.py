"""Build both languages with one command.

MkDocs builds one language at a time. The root config (mkdocs.yml) makes the page that picks a language; after
it, this hook builds mkdocs.<code>.yml for each language into <site>/<code>/, in the same process.

Under `mkdocs serve` MkDocs empties its output folder on every change. So that one saved page does not rebuild
everything, each language is built into a folder of its own and linked into place, and it is rebuilt only when a
file it depends on has changed.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import Abort, PluginError
from mkdocs.livereload import LiveReloadServer
from mkdocs.plugins import event_priority

from kitchen.hooks.common import ROOT, codes, is_root

Fingerprint = dict[str, tuple[int, int]]

log = logging.getLogger("mkdocs.kitchen")

_Command = Literal["build", "gh-deploy", "serve"]
_command: _Command = "build"
_workshop: Path | None = None  # where `mkdocs serve` keeps the built languages between changes
_built: dict[str, Fingerprint] = {}
_loaded: Fingerprint = {}  # our own Python files, as they were when they were imported


def on_startup(command: _Command, dirty: bool) -> None:
    """Remember whether this is `mkdocs serve`."""
    global _command
    _command = command
    if command == "serve" and threading.current_thread() is threading.main_thread():
        # Ended by SIGTERM, Python would leave without cleaning up: no exit handlers, folders stay behind.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@event_priority(100)
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Before the search plugin reads it: make the dictionary's path independent of the current folder."""
    if config.strict:
        # With --quiet MkDocs would not see its own warnings, and --strict would pass over them.
        logger = logging.getLogger("mkdocs")
        logger.setLevel(min(logger.level or logging.WARNING, logging.WARNING))
    logging.getLogger("jieba").setLevel(logging.WARNING)
    search = config.plugins.get("material/search")
    if search is not None and search.config.get("jieba_dict_user"):
        search.config["jieba_dict_user"] = str(ROOT / search.config["jieba_dict_user"])
    return config


def on_post_build(config: MkDocsConfig) -> None:
    """Build the languages after the root page."""
    if not is_root(config):
        return
    serving = _command == "serve"
    if serving:
        _forget_edited_modules()
    for code in codes(config):
        target = Path(config.site_dir, code)
        if not serving:
            _build_language(config, code, target)
            continue
        kept = _kept_folder() / code
        inputs = fingerprint(code)
        if _built.get(code) != inputs:
            _built.pop(code, None)  # A failed build must not count as fresh.
            _build_language(config, code, kept)
            _built[code] = inputs
        shutil.copytree(kept, target, copy_function=_link, dirs_exist_ok=True)
    _write_sitemap_index(config)


def _build_language(config: MkDocsConfig, code: str, target: Path) -> None:
    child = load_config(
        str(ROOT / f"mkdocs.{code}.yml"),
        site_dir=str(target),
        site_url=f"{(config.site_url or '/').rstrip('/')}/{code}/",  # serve sets another site_url
        strict=config.strict,
    )
    child.plugins.on_startup(command=_command, dirty=False)
    try:
        build(child)
    except Abort:
        raise
    except SystemExit as error:
        # Else a page that calls sys.exit(0) would end the build with success and without a site.
        from kitchen.page import state

        raise PluginError(
            f"{state.source}: code on this page called sys.exit({error.code}); raise an error instead"
        ) from error
    finally:
        child.plugins.on_shutdown()


def fingerprint(code: str) -> Fingerprint:
    """Size and time of change of every file that a language's pages depend on."""
    inputs: Fingerprint = {}
    for path in _inputs(code):
        stat = path.stat()
        inputs[str(path)] = (stat.st_mtime_ns, stat.st_size)
    return inputs


def _inputs(code: str) -> Iterator[Path]:
    from kitchen.results import RESULTS
    from kitchen.snippet import SNIPPETS

    yield ROOT / "mkdocs.yml"
    yield ROOT / f"mkdocs.{code}.yml"
    yield from _files(ROOT / "docs" / code)
    yield from (path for path in (ROOT / "docs").iterdir() if path.suffix in {".toml", ".txt"})
    for folder in (ROOT / "overrides", ROOT / "kitchen", ROOT / "examples", RESULTS, SNIPPETS):
        yield from _files(folder)


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        yield from (Path(parent, name) for name in names if not name.startswith("."))


def _link(source: str, target: str) -> None:
    """Hard-link where the file system can: MkDocs replaces files, it never writes into them."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _kept_folder() -> Path:
    global _workshop
    if _workshop is None:
        _workshop = Path(tempfile.mkdtemp(prefix="compile_kitchen_serve_"))
        atexit.register(shutil.rmtree, _workshop, ignore_errors=True)
    return _workshop


def _forget_edited_modules() -> None:
    """Under serve: import the page functions anew when one of our Python files was edited."""
    now = {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in _files(ROOT / "kitchen")
        if path.suffix == ".py" and path.parent.name != "hooks"
    }
    if _loaded and _loaded != now:
        log.info("Code in kitchen/ changed: importing it again (a changed hook needs a restart)")
        for name in [name for name in sys.modules if name.startswith("kitchen.")]:
            if not name.startswith("kitchen.hooks"):
                del sys.modules[name]
    _loaded.clear()
    _loaded.update(now)


def _write_sitemap_index(config: MkDocsConfig) -> None:
    base = (config.site_url or "/").rstrip("/")
    entries = "".join(f"  <sitemap><loc>{base}/{code}/sitemap.xml</loc></sitemap>\n" for code in codes(config))
    Path(config.site_dir, "sitemap.xml").write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{entries}</sitemapindex>\n',
        encoding="utf-8",
    )
    Path(config.site_dir, "sitemap.xml.gz").unlink(missing_ok=True)


def on_serve(server: LiveReloadServer, config: MkDocsConfig, builder: Callable[..., Any]) -> LiveReloadServer:
    """Watch what MkDocs does not watch by itself: it knows only docs/ and mkdocs.yml."""
    if is_root(config):
        from kitchen.results import RESULTS
        from kitchen.snippet import SNIPPETS

        sys.dont_write_bytecode = True  # Else importing kitchen/ anew changes the folder that is watched.
        for code in codes(config):
            server.watch(str(ROOT / f"mkdocs.{code}.yml"))
        for folder in (ROOT / "overrides", ROOT / "kitchen", ROOT / "examples", SNIPPETS, RESULTS):
            if folder.is_dir():
                server.watch(str(folder))
    return server
