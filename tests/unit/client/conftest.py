"""Knows the acker in memory that the client's tests talk to, sync and async."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from acker_client import Acker, AsyncAcker
from acker_client.testing import Clock, MemoryAcker


@pytest.fixture
def time() -> Clock:
    return Clock()


@pytest.fixture
def service(time: Clock) -> MemoryAcker:
    return MemoryAcker(time=time)


@pytest.fixture
def connect(service: MemoryAcker) -> Callable[..., Acker]:
    """Make a client with further arguments of one's own; acks do not linger unless they say so."""

    def connected(**options) -> Acker:
        return service.acker(**{"linger_ms": 0, **options})

    return connected


@pytest.fixture
def acker(connect: Callable[..., Acker]) -> Iterator[Acker]:
    with connect() as acker:
        yield acker


@pytest.fixture
async def async_acker(service: MemoryAcker) -> AsyncIterator[AsyncAcker]:
    async with service.async_acker(linger_ms=0) as acker:
        yield acker


def met(acker: Acker, service: MemoryAcker) -> Acker:
    """Give an acker that has asked for the facts of its topology, so that faults hit what a test is about."""
    acker._driver.run(acker._flows.exchange.facts())
    service.requests.clear()
    return acker
