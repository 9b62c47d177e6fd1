"""Tests what a connection does with time and with bytes, on a transport and a clock that the test holds."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from acker_service.http.connection import Connection, limited
from acker_service.http.load_shedding import LoadLimits
from acker_service.metrics.registry import Metrics
from uvicorn.server import ServerState

pytestmark = pytest.mark.anyio

REQUEST = b"GET /livez HTTP/1.1\r\nHost: acker\r\n\r\n"
HEAD = b"POST /ack HTTP/1.1\r\nHost: acker\r\nContent-Length: 100000\r\n\r\n"
TIMEOUT_S = 7.0


class Timer:
    """A timer that goes off when the test says so."""

    def __init__(self, seconds: float, callback: Callable[[], None]) -> None:
        self.seconds, self.callback, self.cancelled = seconds, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """The event loop, but its timers wait for the test."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(seconds, callback))
        return self.timers[-1]

    def create_task(self, work: Any) -> "asyncio.Task[Any]":
        return asyncio.get_running_loop().create_task(work)

    def running(self) -> list[float]:
        return [timer.seconds for timer in self.timers if not timer.cancelled]

    def let_pass(self) -> None:
        """Let the timers that run go off."""
        due, self.timers = [timer for timer in self.timers if not timer.cancelled], []
        for timer in due:
            timer.callback()


class Transport(asyncio.Transport):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.told = b"", list[str]()

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return "close" in self.told

    def close(self) -> None:
        self.told.append("close")

    def write_eof(self) -> None:
        self.told.append("eof")

    def pause_reading(self) -> None:
        self.told.append("pause")

    def resume_reading(self) -> None:
        self.told.append("resume")


class Held:
    """A connection, its transport and its clock; the application answers when the test says so."""

    def __init__(self) -> None:
        self.answer = asyncio.Event()
        self.clock, self.transport = Clock(), Transport()
        made = limited(LoadLimits(body_timeout_s=TIMEOUT_S, max_header_bytes=1_000), Metrics().http)
        config = uvicorn.Config(
            self._app, http=made, ws="none", log_config=None, interface="asgi3", timeout_keep_alive=75
        )
        self.connection: Connection = made(config, ServerState(), {}, _loop=self.clock)
        self.connection.connection_made(self.transport)

    async def feed(self, data: bytes) -> None:
        self.connection.data_received(data)
        await self.settle()

    async def settle(self) -> None:
        """Wait until the application has nothing to do."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def _app(self, _scope: Any, _receive: Any, send: Any) -> None:
        await self.answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    @property
    def is_closed(self) -> bool:
        return self.transport.is_closing()


@pytest.fixture
async def held() -> Held:
    return Held()


async def test_a_head_has_its_time_from_the_connection_on(held):
    await held.feed(REQUEST[:10])
    assert held.clock.running() == [TIMEOUT_S]
    held.clock.let_pass()
    assert held.is_closed


async def test_a_request_that_has_arrived_is_answered_in_its_own_time(held):
    await held.feed(REQUEST)
    assert held.clock.running() == []


async def test_an_answered_connection_is_kept_for_the_next_request(held):
    held.answer.set()
    await held.feed(REQUEST)
    assert held.clock.running() == [75]
    await held.feed(REQUEST)
    assert held.clock.running() == [75]
    assert held.transport.written.count(b"200 OK") == 2


async def test_the_next_head_has_its_time_from_its_first_byte_on(held):
    held.answer.set()
    await held.feed(REQUEST)
    await held.feed(REQUEST[:1])
    timers = list(held.clock.timers)
    await held.feed(REQUEST[1:2])
    assert held.clock.timers == timers
    assert held.clock.running() == [TIMEOUT_S]


async def test_a_body_that_comes_late_is_the_applications_to_refuse(held):
    await held.feed(HEAD)
    held.clock.let_pass()
    assert not held.is_closed
    held.answer.set()
    await held.settle()
    held.clock.let_pass()
    assert held.is_closed


async def test_a_body_that_we_do_not_read_is_not_late(held):
    held.answer.set()
    await held.feed(REQUEST)
    await held.feed(HEAD[:10])
    held.connection.flow.pause_reading()
    held.clock.let_pass()
    assert not held.is_closed
    held.connection.flow.resume_reading()
    held.clock.let_pass()
    assert held.is_closed


async def test_a_client_that_goes_leaves_no_timer(held):
    await held.feed(REQUEST[:10])
    held.connection.connection_lost(None)
    assert held.clock.running() == []


@pytest.mark.parametrize("end", [pytest.param(b"", id="endless"), pytest.param(b"\r\n\r\n", id="ended")])
async def test_a_refused_client_is_answered_once_and_read_away_before_the_connection_is_closed(held, end):
    await held.feed(REQUEST[:-2] + b"a: " + b"x" * 1_000 + end)
    for _ in range(5):
        await held.feed(b"x" * 1_000)
    head, _, body = held.transport.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert json.loads(body)["code"] == "too_large"
    assert held.transport.told == ["eof"]
    assert held.clock.running() == [TIMEOUT_S]
    held.clock.let_pass()
    assert held.is_closed


async def test_a_head_in_many_pieces_is_bounded_as_one_in_few(held):
    await held.feed(REQUEST[:-2] + b"a: ")
    for _ in range(1_000 - len(REQUEST) + 2 - len(b"a: ")):
        await held.feed(b"x")
    assert held.transport.written == b""
    await held.feed(b"x")
    assert held.transport.written.startswith(b"HTTP/1.1 431 ")
