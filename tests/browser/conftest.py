"""A Chromium, ackers, and pages that note what they ask for and what goes wrong in them."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.browser.scene import Scene
from tests.support.servers import AckerProcess, acker_serve

PATIENCE_MS = 20_000
SECURITY = "Content Security Policy"
WEBHOOKS = ("--callback-allow-cidrs", "127.0.0.0/8")
"""Webhooks may go to this machine."""

REBOUND = "rebound.test"
"""A name that the browser takes for this machine, as somebody's name server could have it."""

expect.set_options(timeout=PATIENCE_MS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--screenshots", action="store_true", help="write the screenshots into docs/images/ui")


@dataclass
class Watch:
    """What a page asked for, and what went wrong in it."""

    hosts: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def follow(self, page: Page) -> None:
        """Note all from now on."""
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", self._on_console)

    def _on_console(self, message: ConsoleMessage) -> None:
        if SECURITY in message.text:
            self.faults.append(message.text)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The operating system's Chromium; without one the test is skipped, and fails in CI."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        missing = "chromium is not installed: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
        rebinding = f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1"
        chromium = playwright.chromium.launch(executable_path=program, args=[*options, rebinding])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def acker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AckerProcess]:
    """An acker without keys, on a store of its own."""
    folder = tmp_path_factory.mktemp("acker")
    with acker_serve(folder, "--data-dir", str(folder / "data"), *WEBHOOKS) as running:
        yield running


@pytest.fixture
def scene(acker: AckerProcess, request: pytest.FixtureRequest) -> Scene:
    """A topology of the test's own, named after it."""
    name = request.node.name.partition("[")[0].removeprefix("test_").replace("_", "-")[:60]
    return Scene(acker.http, name).create()


@contextlib.contextmanager
def opened(browser: Browser, url: str, **options: Any) -> Iterator[Page]:
    """Open a page of an acker; nothing may go wrong in it, and it may ask no other host."""
    watch = Watch()
    options = {"viewport": {"width": 1280, "height": 800}, **options}
    with browser.new_context(base_url=url, **options) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        watch.follow(page)
        yield page
    assert watch.faults == []
    assert watch.hosts == {urlsplit(url).netloc}


@pytest.fixture
def page(browser: Browser, acker: AckerProcess) -> Iterator[Page]:
    """A new page of the acker."""
    with opened(browser, acker.url) as page:
        yield page


@pytest.fixture
def shots(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where screenshots go: a temporary folder, unless --screenshots is given."""
    if not request.config.getoption("--screenshots"):
        return tmp_path
    folder = Path(__file__).parents[2] / "docs/images/ui"
    folder.mkdir(exist_ok=True)
    return folder
