"""Knows what a connection may do before the application sees a request: the size of a head, its time, the crowd."""

import asyncio
import json
from typing import Any, ClassVar

from acker_protocol.errors import MEDIA_TYPE, InvalidRequest, Overloaded, ServiceError, TooLarge
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from acker_service.http.errors import respond
from acker_service.http.load_limits import LoadLimits
from acker_service.http.load_shedding import UNLIMITED_PATHS
from acker_service.metrics.http import CONNECTIONS, HttpMetrics

MAX_HEADERS = 100
DRAIN_S = 2.0
"""How long what follows a refused head is read away, so that the client sees the answer and not a reset."""
EXTRA_CONNECTIONS = 64
"""Connections over the bound that are still answered: `overloaded`, or the truth to who watches the process."""


class HeadTooLargeError(Exception):
    """Ends the parsing of a head."""


class Connection(HttpToolsProtocol):
    """A connection of uvicorn's that is bounded; make the class for some bounds with `bounded`.

    uvicorn with httptools bounds neither the size of a head nor the time that it takes, nor what follows an answer
    that was given early.
    """

    bounds: ClassVar[LoadLimits]
    meters: ClassVar[HttpMetrics]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unread = 0
        self._refusal: ServiceError | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin. One too many is answered `overloaded`; far too many are closed."""
        super().connection_made(transport)
        self._set_timer(self.bounds.body_timeout_s)
        self.meters.connections.inc()
        if len(self.connections) > self.bounds.max_connections + EXTRA_CONNECTIONS:
            self.meters.overloaded[CONNECTIONS].inc()
            transport.close()
        elif len(self.connections) > self.bounds.max_connections:
            self.app = self._crowded

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._stop_timer()
        self.meters.connections.dec()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes in; after a refusal they are thrown away.

        Bytes count as unread until they were part of a body or completed a request, so that heads and trailers, and
        whatever else a parser keeps or skips, are bounded.
        """
        if self._refusal is not None or self.transport.is_closing():
            return
        self._unread += len(data)
        super().data_received(data)
        if self._unread > self.bounds.max_header_bytes and self._refusal is None:
            self._refuse(self._too_large(f"over {self.bounds.max_header_bytes} bytes"))
        if self._timer is None and self.cycle.response_complete:
            self._set_timer(self.bounds.body_timeout_s)

    def on_headers_complete(self) -> None:
        """Look at the head as a whole."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if len(self.headers) > MAX_HEADERS:
            self._refusal = self._too_large(f"{len(self.headers)} headers; at most {MAX_HEADERS} are taken")
        elif size > self.bounds.max_header_bytes:
            self._refusal = self._too_large(f"{size} bytes; at most {self.bounds.max_header_bytes} are taken")
        if self._refusal is not None:
            raise HeadTooLargeError
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request has arrived."""
        self._unread = 0
        self._stop_timer()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or a head that is too large."""
        self._refuse(self._refusal or InvalidRequest(msg))

    def _too_large(self, what: str) -> ServiceError:
        return TooLarge(f"the head of the request has {what}")

    def _refuse(self, problem: ServiceError) -> None:
        self._refusal = problem
        self.meters.heads_refused[problem.code].inc()
        status = 431 if isinstance(problem, TooLarge) else 400
        body = json.dumps(problem.document() | {"status": status}).encode()
        head = f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self.transport.write_eof()
        self._set_timer(DRAIN_S)

    async def _crowded(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in UNLIMITED_PATHS:
            await self.config.loaded_app(scope, receive, send)
            return
        self.meters.overloaded[CONNECTIONS].inc()
        self.meters.problems[Overloaded.code].inc()
        problem = Overloaded(f"the acker has {self.bounds.max_connections} connections, and may have no more")
        response = respond(problem)
        response.headers["Connection"] = "close"
        await response(scope, receive, send)

    def _set_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        """Close, unless it is we who are late: reading is paused, or the application has yet to answer."""
        self._timer = None
        if self._refusal is None and (self.flow.read_paused or (self.cycle and not self.cycle.response_complete)):
            self._set_timer(DRAIN_S)
        else:
            self.transport.close()


def bounded(given: LoadLimits, counted: HttpMetrics) -> type[Connection]:
    """Make the class of connections with these bounds, counted by these meters."""

    class Bounded(Connection):
        bounds, meters = given, counted

    return Bounded
