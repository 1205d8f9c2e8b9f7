"""A browser and a server for the tests that look at pages as a reader does."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a test prints what it needs."""


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves a page drops its connections; all else is worth a traceback."""
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def _serve(site: Path, port: int) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(site))
    with _Server(("127.0.0.1", port), handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{port}"
        httpd.shutdown()


@pytest.fixture(scope="session")
def server(built_site: Path, site_port: int) -> Iterator[str]:
    """The built site on a port of this machine; its address without a slash at the end."""
    with _serve(built_site, site_port) as address:
        yield address


@pytest.fixture(scope="session")
def two_machine_server(two_machine_site: Path, second_port: int) -> Iterator[str]:
    """The site with records of two machines; its address without a slash at the end."""
    with _serve(two_machine_site, second_port) as address:
        yield address


def _missing(reason: str) -> None:
    if os.environ.get("REQUIRE_BROWSER") == "1":
        pytest.fail(f"REQUIRE_BROWSER=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium: the one named in $CHROMIUM, else the system's. Skips, or fails with REQUIRE_BROWSER=1, without one."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("the playwright package is not installed")
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None or not Path(program).exists():
        _missing(f"there is no Chromium here ({program or 'not on the PATH'}); set CHROMIUM to its path")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


@dataclass
class Visit:
    """One page in its own browser context, with what went wrong while it was open."""

    page: Any
    server: str
    outside: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    started: dict[Any, int] = field(default_factory=dict)
    answered: set[Any] = field(default_factory=set)
    documents: int = 0
    leaving: bool = False

    def go(self, path: str) -> None:
        """Load another path of the site from anew, and wait until nothing is loading any more."""
        self.page.goto(self.server + path, wait_until="networkidle")

    def faults(self) -> list[str]:
        return [*self.outside, *self.failed, *self.console]


@pytest.fixture
def visit(browser: Any, server: str) -> Iterator[Callable[..., Visit]]:
    """Open a path of the site: `visit("/en/", width=390, scheme="dark")`."""
    contexts = []

    def open_page(
        path: str,
        *,
        at: str = server,
        width: int = 1280,
        scheme: str = "light",
        locale: str = "en-US",
        **options: Any,
    ) -> Visit:
        """``at``: the address of another site than the repository's own."""
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, locale=locale, **options
        )
        contexts.append(context)
        seen = Visit(context.new_page(), at)
        page = seen.page
        page.on("request", lambda request: _note_request(seen, request))
        page.on("requestfailed", lambda request: _note_failed(seen, request))
        page.on("response", lambda answer: _note_answer(seen, answer))
        page.on("console", lambda message: _note_console(seen, message.type, message.text))
        page.on("pageerror", lambda error: seen.console.append(f"uncaught: {error}"))
        seen.go(path)
        return seen

    yield open_page
    for context in contexts:
        context.close()


def _loads_document(seen: Visit, request: Any) -> bool:
    return bool(request.is_navigation_request() and request.frame == seen.page.main_frame)


def _note_request(seen: Visit, request: Any) -> None:
    if _loads_document(seen, request):
        seen.leaving = True
    seen.started[request] = seen.documents
    if not request.url.startswith((seen.server + "/", "data:", "blob:")):
        seen.outside.append(f"request to another host: {request.url}")


def _note_answer(seen: Visit, answer: Any) -> None:
    if _loads_document(seen, answer.request):
        seen.documents, seen.leaving = seen.documents + 1, False
    seen.answered.add(answer.request)
    if answer.status >= 400:
        seen.failed.append(f"{answer.status}: {answer.url}")


def _note_failed(seen: Visit, request: Any) -> None:
    """A request that the browser dropped because its page was left is no fault of the page.

    That may be the rest of the page itself: the root page sends the reader on while it is still being loaded.
    """
    if _loads_document(seen, request):
        left = request in seen.answered and (seen.leaving or seen.started[request] + 1 < seen.documents)
    else:
        left = seen.leaving or seen.started.get(request, 0) < seen.documents
    if not (left and request.failure == "net::ERR_ABORTED"):
        seen.failed.append(f"failed: {request.url} {request.failure}")


def _note_console(seen: Visit, kind: str, text: str) -> None:
    if kind in {"error", "warning"}:
        seen.console.append(f"{kind}: {text}")
