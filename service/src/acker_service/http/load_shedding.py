"""Keeps the process from taking on more than it can carry: refuses requests that find no place, and slow bodies."""

import asyncio
import re
from urllib.parse import parse_qsl

from acker_protocol.errors import InvalidRequest, Overloaded
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acker_service.http.errors import respond
from acker_service.http.load_limits import Capacity, LoadLimits
from acker_service.metrics.http import BODY_BYTES, IN_FLIGHT, WAITING, HttpMetrics

UNLIMITED_PATHS = frozenset({"/livez", "/readyz", "/metrics"})
"""Who watches the process is answered under any load: it would be killed just when it is needed."""

_MAY_WAIT = re.compile(r"/(completions|roots/[^/]+)$")


def install(app: FastAPI, bounds: LoadLimits, meters: HttpMetrics) -> None:
    """Hold this app to the bounds."""
    app.add_middleware(LoadShedding, bounds=bounds, meters=meters)


class LoadShedding:
    """Lets a request in if there is a place for it. Those that wait for news cost little and have places of their own.

    Also bounds what the bodies hold in memory together, and how long each takes to arrive.
    """

    def __init__(self, app: ASGIApp, *, bounds: LoadLimits, meters: HttpMetrics) -> None:
        self._app, self._meters = app, meters
        self._timeout_s = bounds.body_timeout_s
        self._in_flight = Capacity(bounds.max_in_flight, what="requests in flight")
        self._waiting = Capacity(bounds.max_waiting, what="requests waiting for news")
        self._bytes = Capacity(bounds.max_in_flight_bytes, what="bytes of bodies in flight")
        meters.in_flight.set_function(lambda: self._in_flight.used)
        meters.waiting.set_function(lambda: self._waiting.used)
        meters.body_bytes.set_function(lambda: self._bytes.used)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it with `overloaded`."""
        if scope["type"] != "http" or scope["path"] in UNLIMITED_PATHS:
            await self._app(scope, receive, send)
            return
        places, reason = (self._waiting, WAITING) if waits(scope) else (self._in_flight, IN_FLIGHT)
        try:
            places.acquire()
        except Overloaded as problem:
            self._meters.overloaded[reason].inc()
            await respond(problem)(scope, receive, send)
            return
        try:
            await self._serve(scope, receive, send)
        finally:
            places.release()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET":
            await self._app(scope, receive, send)
            return
        body = BoundedBody(receive, self._bytes, self._timeout_s, self._meters)
        try:
            await self._app(scope, body.receive, send)
        finally:
            body.release()


class BoundedBody:
    """A body that arrives: part by part, in time, and as long as there is room for it."""

    def __init__(self, receive: Receive, room: Capacity, timeout_s: float, meters: HttpMetrics) -> None:
        self._receive = receive
        self._room = room
        self._meters = meters
        self._timeout_s = timeout_s
        self._until = asyncio.get_running_loop().time() + timeout_s
        self._held = 0
        self._whole = False

    async def receive(self) -> Message:
        """Receive the next part. Raises `Invalid` if it comes too late, `Overloaded` if there is no room for it."""
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            detail = f"the body did not arrive within {self._timeout_s:g} seconds; nothing was done"
            raise InvalidRequest(detail, retryable=True) from None
        self._whole = not message.get("more_body", False)
        self._hold(len(message.get("body", b"")))
        return message

    def release(self) -> None:
        """Give back the room: the request is answered."""
        self._room.release(self._held)

    def _hold(self, count: int) -> None:
        try:
            self._room.acquire(count)
        except Overloaded:
            self._meters.overloaded[BODY_BYTES].inc()
            raise
        self._held += count


def waits(scope: Scope) -> bool:
    """Whether a request is one that waits for news: a long poll, or a stream of events."""
    if scope["method"] != "GET" or not _MAY_WAIT.search(scope["path"]):
        return False
    asked = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    streams = any("text/event-stream" in kinds.lower() for kinds in Headers(scope=scope).getlist("accept"))
    return streams or asked.get("wait_ms", "0").strip("0") != ""
