"""Connections to an acker for the tasks of an event loop."""

import asyncio
import select
import socket
import time
from asyncio.staggered import staggered_race
from collections import deque
from functools import partial
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from acker_client import _http, _transport
from acker_client._core.responses import NoResponse, Response
from acker_client._http_library import httpx

if TYPE_CHECKING:
    from collections.abc import Iterable

    from acker_client._core.requests import Request

NEXT_ADDRESS_S = 0.25
"""After so long without a connection the next address of a host is tried beside it, as anyio does it (RFC 8305)."""


class _Connection(asyncio.Protocol):
    """One connection; ``idle_since`` is when it was last used."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.loop = asyncio.get_running_loop()
        self._came: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended: Exception | None = None
        self._is_at_end = False

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self.transport: asyncio.Transport = transport

    def data_received(self, data: bytes) -> None:
        """Keep what comes."""
        self._came.append(data)
        self._wake()

    def eof_received(self) -> None:
        """Note the end; the transport closes itself."""
        self._is_at_end = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        """Note the end, and why."""
        self._is_at_end = True
        self._ended = error
        self._writable.set()
        self._wake()

    def pause_writing(self) -> None:
        """Let writers wait."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let writers go on."""
        self._writable.set()

    def is_usable(self, now: float) -> bool:
        """Whether it was not idle for too long, and nothing has come: that is its end, since no response is due."""
        if now - self.idle_since >= _http.IDLE_S or self._is_at_end or self._came or self.transport.is_closing():
            return False
        return not _is_readable(self.transport.get_extra_info("socket"))

    async def write(self, data: bytes, timeout_s: float) -> None:
        """Write all. What fails is left to the reading: the service may have answered early."""
        self.transport.write(data)
        if not self._writable.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    await self._writable.wait()
            except TimeoutError as error:
                raise httpx.WriteTimeout(str(error)) from error

    async def read(self, timeout_s: float) -> bytes:
        """Return what comes next, empty at the end."""
        if not self._came and not self._is_at_end:
            self._waiting = self.loop.create_future()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._waiting
            except TimeoutError as error:
                raise httpx.ReadTimeout(str(error)) from error
            finally:
                self._waiting = None
        if self._came:
            return self._came.popleft()
        if self._ended is not None:
            raise httpx.ReadError(str(self._ended)) from self._ended
        return b""

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class AsyncConnections:
    """The connections of one client. Every failure is described by the error that httpx raises."""

    def __init__(self, route: _transport.Route) -> None:
        self._route = route
        self._http = _http.HttpCodec(route)
        self._idle: deque[_Connection] = deque()
        self._used: set[_Connection] = set()
        self._free = asyncio.Semaphore(_http.MAX_CONNECTIONS)
        self._closed = False

    async def send(self, request: "Request") -> Response | NoResponse:
        """Send a request once. Raises `ClientClosed`."""
        if self._closed:
            raise _transport.closed()
        timeout_s = self._http.timeout_s(request)
        try:
            await self._wait_for_free(timeout_s)
            try:
                return await self._send(request, timeout_s)
            finally:
                self._free.release()
        except httpx.RequestError as error:
            return _transport.no_response(error, self._route)

    async def close(self) -> None:
        """Close all connections; requests in flight get no response."""
        self._closed = True
        closed = [connection.transport for connection in (*self._idle, *self._used)]
        self._idle.clear()
        for transport in closed:
            transport.close()
        if closed:
            await asyncio.sleep(0)  # what is closed is closed at once: the loop may end now
        for transport in closed:
            transport.abort()

    async def leave_loop(self) -> None:
        """Close all connections: they belong to the event loop, which ends."""
        await self.close()

    async def _wait_for_free(self, timeout_s: float) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._free.acquire()
        except TimeoutError:
            raise httpx.PoolTimeout("all connections are in use") from None

    async def _send(self, request: "Request", timeout_s: float) -> Response:
        data = self._http.write(request)
        connection = self._take() or await self._connect(timeout_s)
        self._used.add(connection)
        reusable = False
        try:
            await connection.write(data, timeout_s)
            found = self._http.read(request, await connection.read(timeout_s))
            while not isinstance(found, tuple):
                found = _http.read_on(found, await connection.read(timeout_s))
            response, reusable = found
            return response
        finally:
            self._used.discard(connection)
            if reusable:
                self._put_back(connection)
            else:
                connection.transport.abort()

    def _take(self) -> _Connection | None:
        """Return the idle connection that was used last; those that are old, closed or of another loop are dropped."""
        now, loop = time.monotonic(), asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()
            if connection.loop is loop and connection.is_usable(now):
                return connection
            _drop(connection)
        return None

    def _put_back(self, connection: _Connection) -> None:
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        keep = 0 if self._closed else _http.MAX_IDLE
        while len(self._idle) > keep or (
            self._idle and self._idle[0].idle_since < connection.idle_since - _http.IDLE_S
        ):
            _drop(self._idle.popleft())

    async def _connect(self, timeout_s: float) -> _Connection:
        http = self._http
        try:
            async with asyncio.timeout(timeout_s):
                connected = await _connect_any(http.host, http.port)
                try:
                    _, connection = await asyncio.get_running_loop().create_connection(
                        _Connection, sock=connected, ssl=http.tls, server_hostname=http.host if http.tls else None
                    )
                except BaseException:
                    connected.close()
                    raise
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error
        return connection


async def _connect_any(host: str, port: int) -> socket.socket:
    """Connect to the address of a host that answers first, each begun a while after the one before it."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    tries = [partial(_connect_to, family, address) for family, _, _, _, address in _by_turns(found)]
    connected, _, errors = await staggered_race(tries, NEXT_ADDRESS_S)
    if connected is None:
        failed = [error for error in errors if error is not None]
        raise failed[0] if len(failed) == 1 else OSError("; ".join(str(error) for error in failed))
    return connected  # type: ignore[no-any-return]  # staggered_race says nothing of its types


def _by_turns(found: "list[Any]") -> "Iterable[Any]":
    """Order addresses so that the families take turns, beginning with the one that the resolver prefers."""
    first = [info for info in found if info[0] == found[0][0]]
    others = [info for info in found if info[0] != found[0][0]]
    return (info for info in chain.from_iterable(zip_longest(first, others)) if info is not None)


async def _connect_to(family: int, address: Any) -> socket.socket:
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)  # noqa: FBT003 - its argument has no name
        await asyncio.get_running_loop().sock_connect(connecting, address)
    except BaseException:
        connecting.close()
        raise
    return connecting


def _drop(connection: _Connection) -> None:
    if not connection.loop.is_closed():
        connection.transport.abort()


def _is_readable(connected: Any) -> bool:
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([connected], [], [], 0)[0])
    poll = select.poll()
    poll.register(connected.fileno(), select.POLLIN)
    return bool(poll.poll(0))
