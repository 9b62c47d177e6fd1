"""The acker in memory that the client's tests use, sync and async."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from acker_client import Acker, AsyncAcker
from acker_client.testing import Clock, MemoryAcker


@pytest.fixture
def time() -> Clock:
    return Clock()


@pytest.fixture
def service(time: Clock) -> MemoryAcker:
    """An acker whose topology does not dedupe, so that acks are folded."""
    return MemoryAcker(clock=time, dedupe_window=0)


@pytest.fixture
def connect(service: MemoryAcker) -> Callable[..., Acker]:
    """Make a client with further arguments of one's own; acks do not linger unless they say so."""

    def connected(**options) -> Acker:
        return service.acker(**{"linger": 0, **options})

    return connected


@pytest.fixture
def acker(connect: Callable[..., Acker]) -> Iterator[Acker]:
    with connect() as acker:
        yield acker


@pytest.fixture
async def async_acker(service: MemoryAcker) -> AsyncIterator[AsyncAcker]:
    async with service.async_acker(linger=0) as acker:
        yield acker


def met(acker: Acker, service: MemoryAcker) -> Acker:
    """Return a client that has read its topology, so that faults hit what a test is about."""
    acker._driver.run(acker._session.topology_info())
    service.requests.clear()
    return acker
