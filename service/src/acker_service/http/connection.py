"""Limits connections before the application sees a request: their number, heads, time to arrive, pipelined requests."""

import asyncio
import logging
import math
from typing import Any, ClassVar

from acker_protocol.errors import InvalidRequest, Overloaded, ServiceError, TooLarge
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from acker_service.http.answers import Answer
from acker_service.http.client_transport import ClientTransport, PipelineFlowControl
from acker_service.http.exchange import Exchanges, encode_answer
from acker_service.http.load_shedding import FLOW, UNLIMITED_PATHS, LoadLimits
from acker_service.http.problems import encode_refusal, respond
from acker_service.http.request_id import HEADER, REQUEST_ID_KEY, identify
from acker_service.metrics.instruments import CONNECTIONS, HttpMetrics

MAX_HEADERS = 100
MAX_PIPELINED = 100
"""Requests of a connection that wait for the answer to an earlier one."""
SLICE = MAX_PIPELINED * len(b"GET / HTTP/1.1\r\n\r\n")
"""Bytes parsed at once, so that they hold no more requests than may wait: the parser cannot stop between two."""
RECHECK_S = 2.0
"""How long until a request that is late because of this process is looked at again."""
EXTRA_CONNECTIONS = 64
"""Connections over the limit that are still answered: `overloaded`, or normally for probes and scrapes."""

NOTHING = memoryview(b"")

_log = logging.getLogger(__name__)


class HeadTooLargeError(Exception):
    """Raised to stop parsing a request head."""


class Connection(HttpToolsProtocol):
    """uvicorn's connection with limits; `limited` makes the class for given limits.

    uvicorn with httptools limits neither the size of a head nor the time that it takes, nor how many requests wait, nor
    what follows an early answer; and it lets a client leave its answers unread.
    """

    limits: ClassVar[LoadLimits]
    metrics: ClassVar[HttpMetrics]
    stopping: ClassVar[asyncio.Event]
    exchanges: ClassVar[Exchanges | None]
    transport: ClientTransport  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pending = NOTHING
        self._unread = 0
        self._body_size = 0
        self._discarded = 0
        self._has_arrived = True
        self._is_ending = False
        self._running: RequestResponseCycle | None = None
        self._closing: RequestResponseCycle | None = None
        self._refusal: ServiceError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_between = True  # the parser has begun no request that has not arrived
        self._is_plain = False  # a plain request is being answered
        self._is_last = False  # its answer is the last one
        self._answered_at = -math.inf

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start. A connection over the limit is answered `overloaded`; one far over it is closed."""
        client = ClientTransport(transport, loop=self.loop, timeout_s=self.limits.body_timeout_s, close=self._close)
        super().connection_made(client)  # type: ignore[arg-type]
        self.flow = PipelineFlowControl(transport, self.pipeline)
        self._set_timer(self.limits.body_timeout_s)
        self.metrics.connections.inc()
        if len(self.connections) > self.limits.max_connections + EXTRA_CONNECTIONS:
            self.metrics.count_overloaded(CONNECTIONS)
            transport.close()
        elif len(self.connections) > self.limits.max_connections:
            self.app = self._answer_overloaded

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, forget the requests that wait, and count the connection as closed."""
        self._set_timer(None)
        self.transport.stop_watch()
        self._forget_input()
        if self._running is not None:
            _disconnect(self._running)
        self.metrics.connections.dec()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; discard them after a refusal, or once the connection is to be closed."""
        if self._refusal is not None or self.transport.is_closing():
            self._discard(len(data))
            return
        if self._is_plain:
            self._pending = memoryview(bytes(self._pending) + data)
            self.flow.pause_reading()  # so no more than what has been read waits for the answer
            return
        if self._may_be_plain() and self._begin_plain(data):
            return
        if not self._has_arrived and self.cycle.response_complete:
            self._discard(len(data))
        if self._pending or self.pipeline or len(data) > SLICE:
            self._pending = memoryview(bytes(self._pending) + data)
            self._parse_pending()
        else:
            self._parse(data)

    def answer(self, answer: Answer, request_id: bytes) -> None:
        """Write the answer to a plain request, and go on with what has arrived since."""
        self._is_plain = False
        if self.transport.is_closing():
            return
        headers = [*self.server_state.default_headers, (HEADER, request_id)]
        self.transport.write(encode_answer(answer, headers, is_last=self._is_last))
        self.server_state.total_requests += 1
        if self._is_last:
            self.transport.close()
            return
        self._answered_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._wait_for_next(self.timeout_keep_alive)
        if self._pending:
            self._go_on()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; plain requests do not set the timer anew, so it looks when the last one was."""
        left = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if self._is_plain or left > 0:
            self._wait_for_next(left if left > 0 else self.timeout_keep_alive)
        else:
            super().timeout_keep_alive_handler()

    def on_message_begin(self) -> None:
        """Note that what follows belongs to a request."""
        self._is_between = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Check the number of headers and the size of the head."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if len(self.headers) > MAX_HEADERS:
            self._refusal = self._too_large(f"{len(self.headers)} headers; at most {MAX_HEADERS} are taken")
        elif size > self.limits.max_header_bytes:
            self._refusal = self._too_large(f"{size} bytes; at most {self.limits.max_header_bytes} are taken")
        if self._refusal is not None:
            raise HeadTooLargeError
        super().on_headers_complete()  # raises where the address cannot be read: there is no request then
        self._has_arrived = False
        self._body_size = 0
        self._discarded = 0
        if self.stopping.is_set() and not self._is_ending:
            if self._closing is not None and not self._closing.response_started:
                self._closing.keep_alive = True
            self.announce_close()

    def on_body(self, body: bytes) -> None:
        """Pass a part of the body on."""
        self._unread = 0
        self._body_size += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the timer: the whole request has arrived."""
        self._unread = 0
        self._has_arrived = self._is_between = True
        self._set_timer(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the requests that wait, then with the input that is not parsed yet."""
        had_waiting = bool(self.pipeline)
        super().on_response_complete()
        if not (had_waiting or self._refusal is not None) or self.transport.is_closing():
            return
        if self._refusal is not None:
            self._refuse_when_due(self._refusal)
        else:
            self._parse_pending()
            self.flow.resume_reading()

    def pause_writing(self) -> None:
        """Stop writing, and give the client up if it does not read on."""
        super().pause_writing()
        self.transport.watch()

    def resume_writing(self) -> None:
        """Go on writing: the client has read."""
        super().resume_writing()
        if not self.transport.is_closing():
            self.transport.stop_watch()

    def eof_received(self) -> None:
        """Let the transport close, and give the client up if it does not take the rest."""
        self.transport.watch()

    def announce_close(self) -> None:
        """Let the answer to the last request say `Connection: close`, unless it has begun: nothing follows it."""
        self._is_last = self._is_plain
        if self.cycle is not None and self.cycle.keep_alive and not self.cycle.response_started:
            self._closing = self.cycle
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """Close as soon as the last request that has arrived is answered; what follows it is not begun."""
        self._is_ending = True
        if self.transport.is_closing():
            self.transport.close_now()
        elif self._is_plain:
            self._is_last = True
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuse malformed HTTP, or a head that is too large."""
        self._refuse(self._refusal or InvalidRequest(msg))

    def _may_be_plain(self) -> bool:
        """Whether input may be a plain request: nothing is under way, and the connection stays open."""
        return (
            self._is_between
            and self.app is self.config.loaded_app
            and (self.cycle is None or self.cycle.response_complete)
            and not (self._pending or self.pipeline or self.flow.write_paused or self.stopping.is_set())
        )

    def _begin_plain(self, data: bytes) -> bool:
        if self.exchanges is None:
            return False
        self._is_plain = True
        if not self.exchanges.begin(data, self):
            self._is_plain = False
            return False
        if self._timer is not None:
            self._set_timer(None)
        return True

    def _go_on(self) -> None:
        """Go on with what came while a plain request was answered. A fault ends this connection, as it does in a loop.

        The callback that answers has others to answer, whose requests shared the call of the store.
        """
        data, self._pending = bytes(self._pending), NOTHING
        self.flow.resume_reading()
        try:
            self.data_received(data)
        except Exception:  # noqa: BLE001 - it is of this connection, and none of those who are answered next
            _log.exception("what a client sent met a fault of the acker's own")
            self.transport.abort()

    def _wait_for_next(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        cycle.scope[FLOW] = self.flow  # type: ignore[literal-required]
        request_id = cycle.scope[REQUEST_ID_KEY] = identify(cycle.scope["headers"])  # type: ignore[literal-required]
        cycle.default_headers = [*cycle.default_headers, (HEADER, request_id)]
        super()._start_asgi_task(cycle, app)

    def _parse_pending(self) -> None:
        """Parse pending input slice by slice, until a request waits for the answer to an earlier one."""
        while self._pending and not self.pipeline and not self.transport.is_closing():
            size = max(SLICE, self._body_left())
            piece, self._pending = self._pending[:size], self._pending[size:]
            self._parse(piece)

    def _parse(self, data: bytes | memoryview) -> None:
        """Parse some input.

        Bytes count as unread until a body or a complete request accounts for them, so that the limit covers heads,
        trailers and everything else that a parser keeps or skips.
        """
        self._unread += len(data)
        super().data_received(data)  # type: ignore[arg-type]
        if self._unread > self.limits.max_header_bytes and self._refusal is None:
            if self._has_arrived and self.cycle not in (None, self._closing) and not self.cycle.keep_alive:
                self._discard(self._unread)  # the parser skips what follows the last request
                self._unread = 0
            else:
                self._refuse(self._too_large(f"over {self.limits.max_header_bytes} bytes"))
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):  # plain requests have no cycle
            self._set_timer(self.limits.body_timeout_s)

    def _body_left(self) -> int:
        """Compute how much of a body of known length is still to come; such a body is parsed in one piece."""
        if self._has_arrived:
            return 0
        return int(next((value for name, value in self.headers if name == b"content-length"), 0)) - self._body_size

    def _discard(self, size: int) -> None:
        """Count input that is not used; abort a connection that has too much of it."""
        self._discarded += size
        if self._discarded > self.limits.max_discarded_bytes:
            self.transport.abort()

    def _forget_input(self) -> None:
        self._pending = NOTHING
        self.pipeline.clear()

    def _close(self) -> None:
        """Close; linger if input may still be on its way, for the client to see the answer and not a reset."""
        if self.transport.is_closing():
            return
        if self._has_arrived and not self.flow.read_paused:
            self.transport.close_now()
        else:
            self._linger()

    def _linger(self) -> None:
        """Discard input until the client closes, within the limits of time and size."""
        self._forget_input()
        self.transport.linger()
        self.flow.resume_reading()
        self._set_timer(self.limits.body_timeout_s)

    def _too_large(self, what: str) -> ServiceError:
        return TooLarge(f"the head of the request has {what}")

    def _refuse(self, error: ServiceError) -> None:
        """Stop parsing, and refuse once the requests before are answered. One whose body is broken has no answer."""
        self._refusal = error
        self._pending = NOTHING
        self.metrics.heads_refused[error.code].inc()
        if not self._has_arrived:
            _disconnect(self.cycle)
            if self.pipeline:
                self.pipeline.popleft()
        self._refuse_when_due(error)

    def _refuse_when_due(self, error: ServiceError) -> None:
        """Write the refusal, unless an answer is due before."""
        running = self._running
        if running is not None and not (running.response_complete or running.disconnected):
            return
        if self._has_arrived or not self.cycle.response_started:
            self.transport.write(encode_refusal(error))
        self._linger()

    async def _answer_overloaded(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in UNLIMITED_PATHS:
            await self.config.loaded_app(scope, receive, send)
            return
        self.metrics.count_overloaded(CONNECTIONS)
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
        answering = self._running is not None and not self._running.response_complete
        if not self.transport.is_closing() and (self.flow.read_paused or answering):
            self._set_timer(RECHECK_S)
        else:
            self.transport.close_now()


def _disconnect(cycle: RequestResponseCycle) -> None:
    """Let the application find that the client is gone, unless it has answered."""
    if not cycle.response_complete:
        cycle.disconnected = True
        cycle.message_event.set()


def limited(
    given_limits: LoadLimits,
    given_metrics: HttpMetrics,
    given_stopping: asyncio.Event,
    given_exchanges: Exchanges | None,
) -> type[Connection]:
    """Make the class of connections with these limits, counted by these metrics.

    Once ``stopping`` is set, the last answer of each says `Connection: close`. ``exchanges`` answer plain requests.
    """

    class Limited(Connection):
        limits, metrics, stopping, exchanges = given_limits, given_metrics, given_stopping, given_exchanges

    given_metrics.limits[CONNECTIONS].set(given_limits.max_connections)

    return Limited
