"""Fixtures that several packages of tests share."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from acker_service.app import make_app
from acker_service.components import Components
from acker_service.monitoring import metrics_text, readiness, snapshot
from acker_service.settings import Settings

from tests.support.application import SharedApplication
from tests.support.caller import Caller
from tests.support.programs import left_out
from tests.support.redis_side import flush
from tests.support.stores import KINDS, Running, running

WINDOW_MS = 600_000


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store", choices=KINDS, default=KINDS[0], help="the kind of store that tests of it run on")
    parser.addoption(
        "--client", action="append", help="a language whose client plays tests/conformance, or all; python"
    )


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell does so for what it runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # processes of tests have to end by it


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say before the run what this machine lets it not do."""
    folder = config.invocation_params.dir
    chosen = [folder / each.partition("::")[0] for each in config.args]
    ignored = [folder / each for each in config.getoption("ignore") or ()]
    return [f"left out, {line}" for line in left_out(chosen, ignored)]


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Running]:
    """A real store for the whole run: a Valkey, or what --store names."""
    with running(request.config.getoption("store"), tmp_path_factory.mktemp("store")) as store:
        yield store


@pytest.fixture(scope="module")
def valkey_url(shared_store: Running) -> str:
    """The address of the store, which holds nothing of what another module left in it."""
    asyncio.run(_empty(shared_store.url))
    return shared_store.url


async def _empty(url: str) -> None:
    parts = Components(url, window_ms=WINDOW_MS)
    await flush(parts)
    await parts.close()


@pytest.fixture(scope="session", autouse=True)
def metrics_at_once() -> Iterator[None]:
    """Write the metrics whenever a test asks for them: in this process they ask far more often than once a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics_text, "INTERVAL_S", 0.0)
        yield


@pytest.fixture
def slow_store_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for what is asked of the store, however long it takes: on a busy machine it may take seconds."""
    for module in (snapshot, readiness):
        monkeypatch.setattr(module, "WAIT_S", 60.0)


@pytest.fixture
async def parts(valkey_url: str, slow_store_allowed: None) -> AsyncIterator[Components]:
    """The parts of a service on an empty Valkey that has the library."""
    parts = Components(valkey_url, window_ms=WINDOW_MS)
    await flush(parts)
    await parts.open()
    yield parts
    await parts.close()


@pytest.fixture
async def stopping() -> asyncio.Event:
    """Setting it ends all waits of the application."""
    return asyncio.Event()


@pytest.fixture(scope="session")
def shared_application() -> SharedApplication:
    return SharedApplication()


@pytest.fixture
async def api(
    parts: Components, stopping: asyncio.Event, shared_application: SharedApplication, request: pytest.FixtureRequest
) -> AsyncIterator[httpx.AsyncClient]:
    """The whole application, spoken to over HTTP inside this process. The tick does not run: tests tick themselves."""
    if request.node.get_closest_marker("own_application"):
        app = make_app(parts, Settings(), stopping)
    else:
        app = shared_application.over(parts, stopping)
    parts.start(stopping)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture
def call(api: httpx.AsyncClient) -> Caller:
    """Speaks to the default topology."""
    return Caller(api)
