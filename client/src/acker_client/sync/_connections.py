"""Connections to an acker for any number of threads."""

import select
import socket
import time
from collections import deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from acker_client import _http, _transport
from acker_client._core.responses import NoResponse, Response
from acker_client._http_library import httpx

if TYPE_CHECKING:
    from acker_client._core.requests import Request


class _Connection:
    """One connection; ``idle_since`` is when it was last used."""

    __slots__ = ("_poll", "_timeout_s", "idle_since", "socket")

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.idle_since = 0.0
        self._timeout_s = connected.gettimeout()
        self._poll = select.poll() if hasattr(select, "poll") else None  # Windows has none
        if self._poll is not None:
            self._poll.register(connected, select.POLLIN)

    def set_timeout(self, seconds: float) -> None:
        """Bound each further step; nearly always it is as it was, and costs no system call."""
        if seconds != self._timeout_s:
            self.socket.settimeout(seconds)
            self._timeout_s = seconds

    def is_usable(self, now: float) -> bool:
        """Whether it was not idle for too long, and has nothing to read: that is its end, since no response is due."""
        if now - self.idle_since >= _http.IDLE_S:
            return False
        if self._poll is None:
            return not select.select([self.socket], [], [], 0)[0]
        return not self._poll.poll(0)


class _Limit:
    """How long the steps of a request may take: each of them so long, or all together."""

    __slots__ = ("_step_s", "_until")

    def __init__(self, step_s: float, *, together: bool) -> None:
        self._step_s = step_s
        self._until = time.monotonic() + step_s if together else None

    def next_s(self) -> float:
        """Return how long the next step may take. Raises `TimeoutError` if no time is left."""
        if self._until is None:
            return self._step_s
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the request took too long")
        return left_s


class Connections:
    """The connections of one client. Every failure is described by the error that httpx raises."""

    def __init__(self, route: _transport.Route) -> None:
        self._route = route
        self._http = _http.HttpCodec(route)
        self._idle: deque[_Connection] = deque()
        self._usual = _Limit(route.timeout_s, together=False)
        self._permits: SimpleQueue[None] = SimpleQueue()  # one for each connection that is not in use
        for _ in range(_http.MAX_CONNECTIONS):
            self._permits.put(None)
        self._closed = False

    def send(self, request: "Request") -> Response | NoResponse:
        """Send a request once. Raises `ClientClosed`."""
        if self._closed:
            raise _transport.closed()
        limit = self._usual
        if request.wait_s or request.limit_s is not None:
            limit = _Limit(self._http.timeout_s(request), together=request.limit_s is not None)
        try:
            self._permits.get(timeout=limit.next_s())
        except Empty:
            return NoResponse(error=httpx.PoolTimeout("all connections are in use"))
        try:
            return self._send(request, limit)
        except httpx.RequestError as error:
            return _transport.no_response(error, self._route)
        finally:
            self._permits.put(None)

    def close(self) -> None:
        """Close the idle connections; those in use are closed after their response."""
        self._closed = True
        self._close_idle(keep=0)

    def _send(self, request: "Request", limit: _Limit) -> Response:
        data = self._http.write(request)
        connection = self._take() or self._connect(limit)
        reusable = False
        try:
            _write(connection, data, limit)
            response, reusable = _read(connection, self._http, request, limit)
            return response
        finally:
            if reusable:
                self._put_back(connection)
            else:
                connection.socket.close()

    def _take(self) -> _Connection | None:
        """Return the idle connection that was used last; those that are old or closed are dropped."""
        now = time.monotonic()
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread has taken it
                break
            if connection.is_usable(now):
                return connection
            connection.socket.close()
        return None

    def _put_back(self, connection: _Connection) -> None:
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        self._close_idle(keep=0 if self._closed else _http.MAX_IDLE, before=connection.idle_since - _http.IDLE_S)

    def _close_idle(self, *, keep: int, before: float = 0.0) -> None:
        """Close the idle connections that were not used for the longest time, beyond a number or before a time."""
        try:
            while self._idle and (len(self._idle) > keep or self._idle[0].idle_since < before):
                self._idle.popleft().socket.close()
        except IndexError:
            return  # another thread has taken the last one

    def _connect(self, limit: _Limit) -> _Connection:
        http = self._http
        try:
            connected = socket.create_connection((http.host, http.port), limit.next_s())
        except OSError as error:
            raise _connect_error(error) from error
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if http.tls is not None:
                connected.settimeout(limit.next_s())
                connected = http.tls.wrap_socket(connected, server_hostname=http.host)
        except BaseException as error:
            connected.close()
            if isinstance(error, OSError):
                raise _connect_error(error) from error
            raise
        return _Connection(connected)


def _write(connection: _Connection, data: bytes, limit: _Limit) -> None:
    """Write all. Another failure than a timeout is left to the reading: the service may have answered early."""
    try:
        connection.set_timeout(limit.next_s())
        sent = connection.socket.send(data)
        while sent < len(data):
            connection.set_timeout(limit.next_s())
            sent += connection.socket.send(memoryview(data)[sent:])
    except TimeoutError as error:
        raise httpx.WriteTimeout(str(error)) from error
    except OSError:
        return


def _read(connection: _Connection, http: _http.HttpCodec, request: "Request", limit: _Limit) -> tuple[Response, bool]:
    try:
        connection.set_timeout(limit.next_s())
        found = http.read(request, connection.socket.recv(_http.READ_SIZE))
        while not isinstance(found, tuple):
            connection.set_timeout(limit.next_s())
            found = _http.read_on(found, connection.socket.recv(_http.READ_SIZE))
    except TimeoutError as error:
        raise httpx.ReadTimeout(str(error)) from error
    except OSError as error:
        raise httpx.ReadError(str(error)) from error
    else:
        return found


def _connect_error(error: OSError) -> httpx.TransportError:
    kind = httpx.ConnectTimeout if isinstance(error, TimeoutError) else httpx.ConnectError
    return kind(str(error))
