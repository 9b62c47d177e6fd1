"""Knows the acker in memory that the client's tests talk to, sync and async."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from acker_client import Acker, AsyncAcker

from tests.support.fake_time import FakeTime
from tests.support.memory_acker import MemoryAcker

URL = "http://acker.test"


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def service(time: FakeTime) -> MemoryAcker:
    return MemoryAcker(time)


@pytest.fixture
def connect(service: MemoryAcker, time: FakeTime) -> Callable[..., Acker]:
    """Make a client with further arguments of one's own."""

    def connected(**options) -> Acker:
        return Acker(URL, transport=service.transport(), clock=time.clock, sleep=time.sleep, **options)

    return connected


@pytest.fixture
def acker(connect: Callable[..., Acker]) -> Iterator[Acker]:
    with connect() as acker:
        yield acker


@pytest.fixture
async def async_acker(service: MemoryAcker, time: FakeTime) -> AsyncIterator[AsyncAcker]:
    async with AsyncAcker(URL, transport=service.transport(), clock=time.clock, sleep=time.asleep) as acker:
        yield acker
