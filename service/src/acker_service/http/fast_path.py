"""Answers the most frequent requests in front of FastAPI, if they are valid and have nothing unusual.

It takes less than the routes of the same addresses, never more. Whatever is not as it has to be (a key, a header, a
field, a topology that is not cached) is passed on before anything is applied, with its body, and the route answers it.
So FastAPI alone says what is wrong with a request.
"""

import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from acker_protocol.errors import ServiceError
from acker_protocol.routes import IDEMPOTENCY_KEY
from acker_protocol.wire.fields import idempotency_key
from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from acker_service.http import errors
from acker_service.http.auth import key_of
from acker_service.http.exchange import whole_body, write_answer
from acker_service.http.http_metrics import count_answer
from acker_service.http.keys import Key, authorize
from acker_service.http.keys import Scope as KeyScope
from acker_service.http.load_shedding import FLOW, BoundedBody, Load
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.topology import Topology

MAX_PATHS = 4_096
"""How many addresses are remembered with what they name."""
_PATH = re.compile(rb"/v1/topologies/([A-Za-z0-9][A-Za-z0-9._-]{0,127})/([a-z-]+)")
_LENGTH_DIGITS = 10
_KEY_HEADER = IDEMPOTENCY_KEY.lower().encode()


class PassOn(Exception):
    """The route of the address answers the request; nothing was applied for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FastRequest:
    """A request that may be answered here. ``key`` is the caller's, ``idempotency_key`` None where it sends none."""

    topology: Topology
    key: Key
    idempotency_key: str | None
    content_type: bytes
    query: bytes
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer with status 200. ``headers`` are lower case and hold all but those that every answer has."""

    headers: Sequence[tuple[bytes, bytes]]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FastRoute:
    """What is taken of the requests of one route, which ``route`` names by its template.

    ``answer`` gives the answer, or a problem's response. It raises `PassOn` before it applies anything, and
    `ServiceError`. ``need`` is the scope that every such request needs; ``queries`` are the query strings taken.
    """

    route: str
    need: KeyScope
    answer: Callable[[FastRequest], Awaitable[Answer | Response]]
    max_body_bytes: int
    content_types: frozenset[bytes] = frozenset({b"application/json"})
    queries: frozenset[bytes] = frozenset({b""})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """What the head of a request that is taken says; ``cycle`` is uvicorn's state of it, from a connection of ours."""

    cycle: RequestResponseCycle | None
    route: FastRoute
    topology: Topology
    key: Key
    idempotency_key: str | None
    content_type: bytes


class FastPath:
    """Answers requests to some routes under the same limits, keys and metrics as FastAPI's layers.

    ``enabled`` is for tests, which hold both ways equal.
    """

    enabled: ClassVar[bool] = True

    def __init__(
        self, routes: Mapping[str, FastRoute], *, registry: TopologyRegistry, load: Load, state: State
    ) -> None:
        """Name the routes by the last part of their address; ``state.keys`` are the configured keys."""
        self._routes = {name.encode(): route for name, route in routes.items()}
        self._registry, self._load, self._state = registry, load, state
        self._targets: dict[bytes, tuple[FastRoute, str] | None] = {}

    async def serve(
        self, scope: Scope, receive: Receive, send: Send, cycle: RequestResponseCycle | None
    ) -> Receive | None:
        """Answer a request; for one that is not taken, give what its route shall receive."""
        head = self._take(scope, cycle)
        if head is None:
            return receive
        started, load = time.perf_counter(), self._load
        body = None if cycle is None else whole_body(cycle)
        if body is not None and not load.bytes.has(len(body)):
            return receive
        load.in_flight.acquire()
        try:
            if body is None:
                return await self._serve_arriving(head, scope, receive, send, started)
            load.bytes.acquire(len(body))
            try:
                answer = await self._answer(head, scope, body)
                if answer is None:
                    return receive
                await self._respond(head, scope, receive, send, answer, started)
            finally:
                load.bytes.release(len(body))
            await self._taken_by_client(scope)
        finally:
            load.in_flight.release()
        return None

    async def _serve_arriving(
        self, head: _Head, scope: Scope, receive: Receive, send: Send, started: float
    ) -> Receive | None:
        """Serve a request of whose body some is still to come."""
        load, received = self._load, _Received(receive)
        body = BoundedBody(received.receive, load.bytes, load.body_timeout_s, load.metrics)
        try:
            try:
                while (message := await body.receive()).get("more_body"):
                    pass
            except ServiceError as error:
                answer: Answer | Response | None = errors.respond(error)
            else:
                is_whole = message["type"] == "http.request"
                answer = await self._answer(head, scope, received.body) if is_whole else None
            if answer is None:
                return received.replay
            await self._respond(head, scope, receive, send, answer, started)
        finally:
            load.bytes.release(body.held)
        await self._taken_by_client(scope)
        return None

    def _take(self, scope: Scope, cycle: RequestResponseCycle | None) -> _Head | None:
        """Check the head of a request, in no particular order: where anything is wrong, its route says what."""
        target = self._target(scope["raw_path"])
        if target is None or not self.enabled:
            return None
        route, name = target
        given, flow, topology = scope["headers"], scope.get(FLOW), self._registry.cached(name)
        headers: dict[bytes, bytes] = dict(given)
        content_type, length = headers.get(b"content-type", b""), headers.get(b"content-length", b"")
        if (
            topology is None
            or topology.deletion is not None
            or len(headers) != len(given)  # a header that is repeated
            or content_type not in route.content_types
            or scope["query_string"] not in route.queries
            or b"transfer-encoding" in headers
            or not length.isdigit()
            or len(length) > _LENGTH_DIGITS
            or int(length) > route.max_body_bytes
            or (flow is not None and flow.write_paused)
            or not self._load.in_flight.has()
        ):
            return None
        try:
            key = key_of(self._state.keys, headers.get(b"authorization", b"").decode("latin-1"))
            authorize(key, route.need, name)
            raw = headers.get(_KEY_HEADER)
            repeat_key = None if raw is None else idempotency_key(raw.decode("latin-1"))
        except (ServiceError, ValueError):
            return None
        return _Head(
            cycle=cycle,
            route=route,
            topology=topology,
            key=key,
            idempotency_key=repeat_key,
            content_type=content_type,
        )

    def _target(self, path: bytes) -> tuple[FastRoute, str] | None:
        try:
            return self._targets[path]
        except KeyError:
            pass
        found = _PATH.fullmatch(path)
        route = self._routes.get(found[2]) if found else None
        if found is None or route is None:
            return None  # not remembered: anybody may send many long paths
        target = (route, found[1].decode())
        if len(self._targets) >= MAX_PATHS:
            self._targets.clear()
        self._targets[path] = target
        return target

    async def _answer(self, head: _Head, scope: Scope, body: bytes) -> Answer | Response | None:
        """Answer a request that has arrived; None: it is passed on."""
        request = FastRequest(
            topology=head.topology,
            key=head.key,
            idempotency_key=head.idempotency_key,
            content_type=head.content_type,
            query=scope["query_string"],
            body=body,
        )
        try:
            return await head.route.answer(request)
        except PassOn:
            return None
        except ServiceError as error:
            return errors.respond(error)
        except Exception as error:  # noqa: BLE001 - answered and logged as those of routes are
            return await errors.respond_unexpected(Request(scope), error)

    async def _respond(
        self, head: _Head, scope: Scope, receive: Receive, send: Send, answer: Answer | Response, started: float
    ) -> None:
        """Count an answer, then send it, so that a client that has the answer finds it counted."""
        count, metrics, route = count_answer, self._load.metrics, head.route.route
        if isinstance(answer, Response):
            problem = answer.code if isinstance(answer, errors.ProblemResponse) else None
            count(metrics, route, "POST", str(answer.status_code), problem=problem, started=started)
            await answer(scope, receive, send)
            return
        count(metrics, route, "POST", "200", problem=None, started=started)
        if head.cycle is not None:
            write_answer(head.cycle, 200, answer.headers, answer.body)
            return
        await send({"type": "http.response.start", "status": 200, "headers": list(answer.headers)})
        await send({"type": "http.response.body", "body": answer.body})

    async def _taken_by_client(self, scope: Scope) -> None:
        """Wait as `LoadShedding` does until the client has taken the answer, all but the last 64 KiB."""
        flow = scope.get(FLOW)
        if flow is not None and flow.write_paused:
            await self._load.unread.taken(flow)


class _Received:
    """Keeps the messages of a body, so that they can be received once more."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages: list[Message] = []

    async def receive(self) -> Message:
        """Receive the next message."""
        message = await self._receive()
        self._messages.append(message)
        return message

    @property
    def body(self) -> bytes:
        """The body, as far as it was received."""
        return b"".join([message.get("body", b"") for message in self._messages])

    async def replay(self) -> Message:
        """Receive the next of the messages that were received, then those that follow."""
        return self._messages.pop(0) if self._messages else await self._receive()
