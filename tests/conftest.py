"""Fixtures that several rooms of the tests share."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from acker_service.app import make_app
from acker_service.settings import Settings
from acker_service.store.embedded import Embedded
from acker_service.store.store import Store

from tests.support.caller import Caller

WINDOW_MS = 600_000


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Valkey for the whole run."""
    embedded = Embedded(tmp_path_factory.mktemp("valkey"))
    asyncio.run(embedded.start())
    yield embedded.url
    asyncio.run(embedded.stop())


@pytest.fixture
async def store(valkey_url: str) -> AsyncIterator[Store]:
    """A store on an empty Valkey that has the library."""
    store = Store(valkey_url, window_ms=WINDOW_MS)
    await store.server.command("FLUSHALL")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def stopping() -> asyncio.Event:
    """Set it, and the application releases whoever waits."""
    return asyncio.Event()


@pytest.fixture
async def api(store: Store, stopping: asyncio.Event) -> AsyncIterator[httpx.AsyncClient]:
    """The whole application, spoken to over HTTP inside this process. The tick does not run: tests tick themselves."""
    app = make_app(store, Settings(), stopping)
    store.start(stopping)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://acker") as client:
        yield client


@pytest.fixture
def call(api: httpx.AsyncClient) -> Caller:
    """Speaks to the default topology."""
    return Caller(api)
