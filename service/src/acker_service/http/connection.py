"""Limits connections before the application sees a request: head size, arrival time, number of connections."""

import asyncio
import json
from typing import Any, ClassVar

from acker_protocol.errors import MEDIA_TYPE, InvalidRequest, Overloaded, ServiceError, TooLarge
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from acker_service.http.errors import respond
from acker_service.http.load_shedding import UNLIMITED_PATHS, LoadLimits
from acker_service.metrics.instruments import CONNECTIONS, HttpMetrics

MAX_HEADERS = 100
DRAIN_S = 2.0
"""How long input is discarded after a refused head, so that the client sees the answer and not a reset."""
EXTRA_CONNECTIONS = 64
"""Connections over the limit that are still answered: `overloaded`, or normally for probes and scrapes."""


class HeadTooLargeError(Exception):
    """Raised to stop parsing a request head."""


class Connection(HttpToolsProtocol):
    """uvicorn's connection with limits; `limited` makes the class for given limits.

    uvicorn with httptools limits neither the size of a head nor the time that it takes, nor what follows an early
    answer.
    """

    limits: ClassVar[LoadLimits]
    metrics: ClassVar[HttpMetrics]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unread = 0
        self._refusal: ServiceError | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start. A connection over the limit is answered `overloaded`; one far over it is closed."""
        super().connection_made(transport)
        self._set_timer(self.limits.body_timeout_s)
        self.metrics.connections.inc()
        if len(self.connections) > self.limits.max_connections + EXTRA_CONNECTIONS:
            self.metrics.overloaded[CONNECTIONS].inc()
            transport.close()
        elif len(self.connections) > self.limits.max_connections:
            self.app = self._answer_overloaded

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer and count the connection as closed."""
        self._set_timer(None)
        self.metrics.connections.dec()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, or discard them after a refusal.

        Bytes count as unread until a body or a complete request accounts for them, so that the limit covers heads,
        trailers and everything else that a parser keeps or skips.
        """
        if self._refusal is not None or self.transport.is_closing():
            return
        self._unread += len(data)
        super().data_received(data)
        if self._unread > self.limits.max_header_bytes and self._refusal is None:
            self._refuse(self._too_large(f"over {self.limits.max_header_bytes} bytes"))
        if self._timer is None and self.cycle.response_complete:
            self._set_timer(self.limits.body_timeout_s)

    def on_headers_complete(self) -> None:
        """Check the number of headers and the size of the head."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if len(self.headers) > MAX_HEADERS:
            self._refusal = self._too_large(f"{len(self.headers)} headers; at most {MAX_HEADERS} are taken")
        elif size > self.limits.max_header_bytes:
            self._refusal = self._too_large(f"{size} bytes; at most {self.limits.max_header_bytes} are taken")
        if self._refusal is not None:
            raise HeadTooLargeError
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the timer: the whole request has arrived."""
        self._unread = 0
        self._set_timer(None)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse malformed HTTP, or a head that is too large."""
        self._refuse(self._refusal or InvalidRequest(msg))

    def _too_large(self, what: str) -> ServiceError:
        return TooLarge(f"the head of the request has {what}")

    def _refuse(self, error: ServiceError) -> None:
        self._refusal = error
        self.metrics.heads_refused[error.code].inc()
        status = 431 if isinstance(error, TooLarge) else 400
        body = json.dumps(error.document() | {"status": status}).encode()
        head = f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self.transport.write_eof()
        self._set_timer(DRAIN_S)

    async def _answer_overloaded(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in UNLIMITED_PATHS:
            await self.config.loaded_app(scope, receive, send)
            return
        self.metrics.overloaded[CONNECTIONS].inc()
        self.metrics.problems[Overloaded.code].inc()
        error = Overloaded(f"the acker has {self.limits.max_connections} connections, and may have no more")
        response = respond(error)
        response.headers["Connection"] = "close"
        await response(scope, receive, send)

    def _set_timer(self, seconds: float | None) -> None:
        """Start the timer again; None stops it."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._on_timeout)

    def _on_timeout(self) -> None:
        """Close the connection, unless the delay is ours: reading is paused, or the application has yet to answer."""
        self._timer = None
        if self._refusal is None and (self.flow.read_paused or (self.cycle and not self.cycle.response_complete)):
            self._set_timer(DRAIN_S)
        else:
            self.transport.close()


def limited(given_limits: LoadLimits, given_metrics: HttpMetrics) -> type[Connection]:
    """Make the class of connections with these limits, counted by these metrics."""

    class Limited(Connection):
        limits, metrics = given_limits, given_metrics

    return Limited
