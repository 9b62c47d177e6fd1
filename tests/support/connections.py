"""A connection of the acker, on a transport and a clock that the test holds."""

import asyncio
from collections.abc import Callable
from typing import Any

import uvicorn
from acker_service.http.connection import Connection, limited
from acker_service.http.load_shedding import FLOW, LoadLimits
from acker_service.metrics.metrics import Metrics
from uvicorn.server import ServerState

REQUEST = b"GET /livez HTTP/1.1\r\nHost: acker\r\n\r\n"
HEAD = b"POST /ack HTTP/1.1\r\nHost: acker\r\nContent-Length: 100000\r\n\r\n"
CHUNKED = b"POST /ack HTTP/1.1\r\nHost: acker\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSING = HEAD.replace(b"Host", b"Connection: close\r\nHost")
SHORTEST = b"GET / HTTP/1.1\r\n\r\n"
NO_HTTP = b"\x16\x03\x01 hello\r\n\r\n"
TIMEOUT_S = 7.0
MAX_BODY_BYTES = 1_000
MAX_DISCARDED = 16 * MAX_BODY_BYTES


class Timer:
    """A timer that goes off when the test says so."""

    def __init__(self, seconds: float, callback: Callable[[], None]) -> None:
        self.seconds = seconds
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """The event loop, but its timers wait for the test."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []
        self.now = 0.0

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        self.timers.append(Timer(seconds, callback))
        return self.timers[-1]

    def create_task(self, work: Any) -> "asyncio.Task[Any]":
        return asyncio.get_running_loop().create_task(work)

    def time(self) -> float:
        return self.now

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
        self.written = b""
        self.told = list[str]()
        self.unsent = 0

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return "close" in self.told

    def close(self) -> None:
        self.told.append("close")

    def abort(self) -> None:
        self.told.append("abort")

    def write_eof(self) -> None:
        self.told.append("eof")

    def pause_reading(self) -> None:
        self.told.append("pause")

    def resume_reading(self) -> None:
        self.told.append("resume")


class Held:
    """A connection, its transport and its clock; the application answers when the test says so.

    ``exchanges`` answer plain requests, if there are any.
    """

    def __init__(self, exchanges: Any = None) -> None:
        self.answer = asyncio.Event()
        self.clock = Clock()
        self.transport = Transport()
        self.asked: list[str] = []
        self.flows: list[Any] = []
        limits = LoadLimits(body_timeout_s=TIMEOUT_S, max_header_bytes=1_000, max_body_bytes=MAX_BODY_BYTES)
        self.stopping = asyncio.Event()
        made = limited(limits, Metrics().http, self.stopping, exchanges)
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

    async def answer_all(self, count: int) -> None:
        """Let the application answer, until there are so many answers."""
        self.answer.set()
        for _ in range(2 * count):
            await self.settle()
        assert self.transport.written.count(b"HTTP/1.1 200") == count

    async def _app(self, scope: Any, _receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])
        self.flows.append(scope[FLOW])
        await self.answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    @property
    def is_closed(self) -> bool:
        return self.transport.is_closing()
