"""Sheds load: refuses requests over the limits of the process, and bodies that arrive too slowly."""

import asyncio
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

from acker_protocol.errors import InvalidRequest, Overloaded
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acker_service.http.client_transport import PipelineFlowControl
from acker_service.http.problems import respond
from acker_service.metrics.instruments import ANSWER_BYTES, BODY_BYTES, IN_FLIGHT, WAITING, HttpMetrics

UNLIMITED_PATHS = frozenset({"/livez", "/readyz", "/metrics"})
"""Probes and scrapes are answered under any load: otherwise the process would be killed just when it is needed.

Their answers count as those of others do while the client has not taken them."""

FLOW = "acker.flow"
"""The key in a request's scope that holds the flow control of its connection."""
DISCARDED_BODIES = 16
"""How many of the largest bodies are received after an early answer, and discarded."""

EVENTS_PATH = "/v1/events"
"""The live events, which are always a stream."""
EVENTS_SHARE = 20
"""The share of waiting requests that may be streams of live events, 1/20: each is work every second."""

_MAY_WAIT = re.compile(r"/(completions|roots/[^/]+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """Limits of a process: requests in flight and waiting, bytes of their bodies and of unread answers, connections.

    ``max_in_flight_bytes`` bounds all bodies together, and once more all answers that clients have yet to take.
    ``body_timeout_s`` is the time a request may take to arrive, and the time within which a client takes some of its
    answer; ``max_header_bytes`` is the size of all before the body.
    """

    max_in_flight: int = 1_000
    max_waiting: int = 10_000
    max_in_flight_bytes: int = 67_108_864
    body_timeout_s: float = 30.0
    max_connections: int = 16_384
    max_header_bytes: int = 65_536
    max_body_bytes: int = 4_194_304

    @property
    def max_event_streams(self) -> int:
        """How many of the requests that wait may be streams of live events."""
        return max(1, self.max_waiting // EVENTS_SHARE)

    @property
    def max_discarded_bytes(self) -> int:
        """How much is received after an early answer, so that a client which is still sending can read it."""
        return DISCARDED_BODIES * self.max_body_bytes


class Capacity:
    """Counts what is used of a limited resource; what exceeds the limit is refused before any work."""

    def __init__(self, limit: int, *, what: str) -> None:
        self.limit = limit
        self.used = 0
        self._what = what

    def acquire(self, count: int = 1) -> None:
        """Use some capacity. Raises `Overloaded`."""
        if not self.has(count):
            raise Overloaded(f"the acker has {self.used} {self._what}, and may have {self.limit}; nothing was done")
        self.used += count

    def has(self, count: int = 1) -> bool:
        """Whether so much capacity is free."""
        return self.used + count <= self.limit

    def release(self, count: int = 1) -> None:
        """Free some capacity."""
        self.used -= count


class UnreadAnswers:
    """Bounds the bytes of answers that clients have yet to take: gives up the answer that has waited longest.

    A client that reads loses nothing to those that do not read. A single answer may be larger than the limit.
    """

    def __init__(self, limit: int, metrics: HttpMetrics) -> None:
        self._limit = limit
        self._metrics = metrics
        self._waiting: dict[PipelineFlowControl, None] = {}

    def counting(self, send: Send, flow: PipelineFlowControl) -> Send:
        """Return a ``send`` that waits until the client has taken each part of a stream, or is given up."""

        async def send_and_wait(message: Message) -> None:
            await send(message)
            # rule: a part of a stream counts as an unread answer until it is taken
            if message.get("more_body") and flow.write_paused:
                await self.taken(flow)

        return send_and_wait

    async def taken(self, flow: PipelineFlowControl) -> None:
        """Wait until the client has taken the answer, or is given up."""
        self._waiting[flow] = None
        try:
            self._give_up_oldest()
            await flow.drain()
        finally:
            self._waiting.pop(flow, None)

    def _give_up_oldest(self) -> None:
        held = {flow: flow.unsent for flow in self._waiting}
        excess = sum(held.values()) - self._limit
        for flow in list(held)[:-1]:
            if excess <= 0:
                return
            excess -= held[flow]
            del self._waiting[flow]
            self._metrics.count_overloaded(ANSWER_BYTES)
            flow.give_up()


class Load:
    """The capacities of a process, and the answers that clients have yet to take; every way to an answer uses them."""

    def __init__(self, limits: LoadLimits, metrics: HttpMetrics) -> None:
        self.metrics = metrics
        self.body_timeout_s = limits.body_timeout_s
        self.max_header_bytes = limits.max_header_bytes
        self.in_flight = Capacity(limits.max_in_flight, what="requests in flight")
        self.waiting = Capacity(limits.max_waiting, what="requests waiting for news")
        self.bytes = Capacity(limits.max_in_flight_bytes, what="bytes of bodies in flight")
        self.unread = UnreadAnswers(limits.max_in_flight_bytes, metrics)
        metrics.in_flight.set_function(lambda: self.in_flight.used)
        metrics.waiting.set_function(lambda: self.waiting.used)
        metrics.body_bytes.set_function(lambda: self.bytes.used)
        for name, capacity in ((IN_FLIGHT, self.in_flight), (WAITING, self.waiting), (BODY_BYTES, self.bytes)):
            metrics.limits[name].set(capacity.limit)

    def begin(self, size: int) -> bool:
        """Use capacity for a request whose whole body, of so many bytes, has arrived; False if there is none."""
        in_flight, held = self.in_flight, self.bytes
        if in_flight.used >= in_flight.limit or held.used + size > held.limit:
            return False
        in_flight.used += 1
        held.used += size
        return True

    def end(self, size: int) -> None:
        """Free what `begin` has used."""
        self.in_flight.used -= 1
        self.bytes.used -= size


def install(app: FastAPI, *, limits: LoadLimits, metrics: HttpMetrics) -> Load:
    """Add the load limits to the app, and return the capacities."""
    load = Load(limits, metrics)
    app.add_middleware(LoadShedding, load=load)
    return load


class LoadShedding:
    """Admits a request if there is capacity for it. Waiting requests cost little and have a limit of their own.

    A request uses its capacity until the client has taken the answer, all but the last 64 KiB; the next request of the
    connection begins then. Of a stream each part counts as an answer. Also limits the memory of all bodies together,
    that of all unread answers, and the time that each body takes to arrive.
    """

    def __init__(self, app: ASGIApp, *, load: Load) -> None:
        self._app = app
        self._load = load

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with `overloaded`."""
        flow: PipelineFlowControl | None = scope.get(FLOW)
        if flow is not None and flow.write_paused:
            await flow.drain()
        load = self._load
        if scope["type"] != "http" or scope["path"] in UNLIMITED_PATHS:
            await self._app(scope, receive, send)
            if flow is not None and flow.write_paused:
                await load.unread.taken(flow)
            return
        capacity, reason = (load.waiting, WAITING) if waits(scope) else (load.in_flight, IN_FLIGHT)
        try:
            capacity.acquire()
        except Overloaded as error:
            load.metrics.count_overloaded(reason)
            await respond(error)(scope, receive, send)
            return
        body = BoundedBody(receive, load.bytes, load.body_timeout_s, load.metrics)
        if flow is not None:
            send = load.unread.counting(send, flow)
        try:
            try:
                await self._app(scope, receive if scope["method"] == "GET" else body.receive, send)
            finally:
                load.bytes.release(body.held)
            if flow is not None and flow.write_paused:
                await load.unread.taken(flow)
        finally:
            capacity.release()


class BoundedBody:
    """Receives a body part by part, within a time limit and the memory limit of all bodies.

    ``held`` is its size in bytes so far; the caller releases as much once the request is answered.
    """

    def __init__(self, receive: Receive, capacity: Capacity, timeout_s: float, metrics: HttpMetrics) -> None:
        self._receive = receive
        self._capacity = capacity
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._deadline: float | None = None
        self.held = 0
        self._complete = False

    async def receive(self) -> Message:
        """Receive the next part.

        Raises `InvalidRequest` if it is late, or has not arrived when the process ends, and `Overloaded` if it exceeds
        the memory limit.
        """
        if self._complete:
            return await self._receive()
        try:
            if self._deadline is None:
                self._deadline = asyncio.get_running_loop().time() + self._timeout_s
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            detail = f"the body did not arrive within {self._timeout_s:g} seconds; nothing was done"
            raise InvalidRequest(detail, retryable=True) from None
        except asyncio.CancelledError:  # the process ends; only uvicorn cancels a request
            detail = "the acker ends, and the body has not arrived; nothing was done"
            raise InvalidRequest(detail, retryable=True) from None
        self._complete = not message.get("more_body", False)
        self.hold(len(message.get("body", b"")))
        return message

    def hold(self, size: int) -> None:
        """Take so many more bytes into account. Raises `Overloaded` if they exceed the memory limit."""
        try:
            self._capacity.acquire(size)
        except Overloaded:
            self._metrics.count_overloaded(BODY_BYTES)
            raise
        self.held += size


def waits(scope: Scope) -> bool:
    """Whether a request is a long poll or a stream of events."""
    if scope["method"] == "GET" and scope["path"] == EVENTS_PATH:
        return True
    if scope["method"] != "GET" or not _MAY_WAIT.search(scope["path"]):
        return False
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    streams = any("text/event-stream" in kinds.lower() for kinds in Headers(scope=scope).getlist("accept"))
    return streams or query.get("wait_ms", "0").strip("0") != ""
