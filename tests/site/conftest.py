"""The built site, a server for it, and pages of it in a real Chromium."""

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from docs.site.__main__ import build
from tests.browser.conftest import browser, opened

__all__ = ["browser"]


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Print nothing for a request."""


@pytest.fixture(scope="session")
def html(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site's HTML, built for this run."""
    return build(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="session")
def site(html: Path) -> Iterator[str]:
    """The address of a server of the site."""
    with served(html) as address:
        yield address


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder; yield its address."""
    handler = functools.partial(_Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Page]:
    """A page of the site, in which nothing goes wrong and which asks no other host."""
    with opened(browser, site) as page:
        yield page
