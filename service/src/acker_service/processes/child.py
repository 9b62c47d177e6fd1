"""A process that a supervisor runs: an API process, which serves the connections it is passed, or the worker.

Run as ``python -m acker_service.processes.child CONTROL CONNECTIONS``: the numbers of the two sockets that it inherits.
"""

import asyncio
import contextlib
import itertools
import json
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import uvicorn
import uvloop
from acker_protocol.errors import Overloaded

from acker_service.background import cancel_and_wait
from acker_service.components import make_components
from acker_service.metrics.logs import start_logging
from acker_service.processes.messages import (
    Channel,
    Closed,
    Collect,
    Drain,
    End,
    Failed,
    Gathered,
    Open,
    Ready,
    Scrape,
    Snapshot,
    Start,
    ToProcess,
)
from acker_service.server import StoppableServer, opened
from acker_service.settings import Settings

RECEIVED_AT_ONCE = 64
"""Connections received in one turn of the event loop."""
REPORT_DELAY_S = 0.005
"""How long closed connections are gathered until they are reported."""
GATHER_TIMEOUT_S = 5.0

_log = logging.getLogger(__name__)


class PassedServer(StoppableServer):
    """Serves the connections that the supervisor passes over a socket, and reports how many have been closed."""

    def __init__(
        self,
        config: uvicorn.Config,
        stopping: asyncio.Event,
        *,
        passed: socket.socket,
        report: Callable[[int], None],
        ready: Callable[[], None],
    ) -> None:
        super().__init__(config, stopping)
        self._passed = passed
        self._report = report
        self._ready = ready
        self._received = 0
        self._opening: set[asyncio.Task[None]] = set()
        self._report_timer: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle no signals: the supervisor sends messages."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - it listens nowhere
        """Take connections."""
        await super().startup([])
        self._protocol = _with_report(self.config.http_protocol_class, self._on_closed)
        self._passed.settimeout(0)
        asyncio.get_running_loop().add_reader(self._passed, self._receive)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Receive what has been passed already, then end all connections."""
        self._receive()
        asyncio.get_running_loop().remove_reader(self._passed)
        while self._opening:
            await asyncio.wait(self._opening)
        await super().shutdown(sockets)

    def _receive(self) -> None:
        for _ in range(RECEIVED_AT_ONCE):
            try:
                data, descriptors, _, _ = socket.recv_fds(self._passed, 1, 1)
            except (BlockingIOError, InterruptedError):
                return
            if not data:  # the supervisor has ended
                asyncio.get_running_loop().remove_reader(self._passed)
                return
            for descriptor in descriptors:
                self._received += 1
                task = asyncio.create_task(self._open(socket.socket(fileno=descriptor)))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(self._make_protocol, connection)
        except OSError:  # the client has left
            connection.close()
            loop.call_soon(self._on_closed)

    def _make_protocol(self) -> Any:
        return self._protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    def _on_closed(self) -> None:
        if self._report_timer is None:
            self._report_timer = asyncio.get_running_loop().call_later(REPORT_DELAY_S, self._report_closed)

    def _report_closed(self) -> None:
        self._report_timer = None
        self._report(self._received - len(self._opening) - len(self.server_state.connections))


class Process:
    """Serves as the supervisor's messages say, and answers those that ask for something."""

    def __init__(
        self, channel: Channel[ToProcess], passed: socket.socket, settings: Settings, shown: dict[str, Any]
    ) -> None:
        self._channel = channel
        self._passed = passed
        self._settings = settings
        self._shown = shown
        self._stopping = asyncio.Event()
        self._url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._snapshot: Callable[[], bytes] | None = None
        self._server: PassedServer | None = None
        self._serving: asyncio.Task[None] | None = None
        self._scrapes: dict[int, asyncio.Future[Sequence[bytes]]] = {}
        self._numbers = itertools.count()

    async def run(self, messages: AsyncIterator[ToProcess]) -> None:
        """Serve until the supervisor says that the process ends, or has ended itself.

        Raises ``RuntimeError`` or ``ValueError`` if it cannot start.
        """
        self._serving = asyncio.create_task(self._serve())
        following = asyncio.create_task(self._follow(messages))
        try:
            await asyncio.wait([self._serving])
        finally:
            await cancel_and_wait(following)
        if not self._serving.cancelled():
            self._serving.result()

    async def _serve(self) -> None:
        url = await self._url
        parts = make_components(url, self._settings)
        async with opened(
            parts, self._settings, self._stopping, is_checked=True, gather=self._gather, shown=self._shown
        ) as config:
            self._snapshot = parts.metrics.snapshot
            server = self._server = PassedServer(
                config,
                self._stopping,
                passed=self._passed,
                report=lambda total: self._channel.send(Closed(total)),
                ready=lambda: self._channel.send(Ready()),
            )
            await server.serve()
        self._channel.send(Snapshot(parts.metrics.snapshot()))

    async def _follow(self, messages: AsyncIterator[ToProcess]) -> None:
        async for message in messages:
            self._handle(message)
        _log.debug("the supervisor has ended")
        self._end(signal.SIGINT)

    def _handle(self, message: ToProcess) -> None:
        match message:
            case Open(url):
                self._url.set_result(url)
            case Drain():
                self._stopping.set()
                if self._server is not None:
                    self._server.drain()
            case End(number):
                self._end(number)
            case Collect() if self._snapshot is not None:
                self._channel.send(Snapshot(self._snapshot()))
            case Gathered(number, snapshots):
                if (waiting := self._scrapes.get(number)) is not None and not waiting.done():
                    waiting.set_result(snapshots)

    def _end(self, number: int) -> None:
        """End the server, or cancel its start."""
        assert self._serving is not None
        if self._server is None:
            self._serving.cancel()
        else:
            self._server.end(number)

    async def _gather(self, metrics: bytes) -> Sequence[bytes]:
        """Ask the supervisor for the metrics of all processes. Raises `Overloaded` if it does not answer."""
        number, waiting = next(self._numbers), asyncio.get_running_loop().create_future()
        self._scrapes[number] = waiting
        self._channel.send(Scrape(number, metrics))
        try:
            return await asyncio.wait_for(waiting, GATHER_TIMEOUT_S)
        except TimeoutError:
            raise Overloaded("the supervisor does not give the metrics of the other processes") from None
        finally:
            del self._scrapes[number]


def _with_report(base: Any, on_closed: Callable[[], None]) -> Any:
    """Make the class of connections that report when they are closed."""

    class Reporting(base):  # type: ignore[misc]
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            on_closed()

    return Reporting


async def _run(control: socket.socket, passed: socket.socket) -> int:
    """Read what to run, and run it, and return the exit code."""
    channel: Channel[ToProcess] = await Channel.open(control, ToProcess)
    try:
        async with contextlib.aclosing(channel.messages()) as messages:
            start = await anext(messages, None)
            if not isinstance(start, Start):
                return 1
            settings = start.plan.apply(Settings(**json.loads(start.settings)))
            start_logging(level=settings.log_level, style=settings.log_format, process=start.plan.name)
            await Process(channel, passed, settings, start.shown).run(messages)
    except (RuntimeError, ValueError) as error:
        channel.send(Failed(str(error)))
        return 2
    finally:
        await channel.close()
    return 0


def main() -> None:
    """Run the process on the sockets that the arguments name."""
    control, passed = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    raise SystemExit(uvloop.run(_run(control, passed)))


if __name__ == "__main__":
    main()
