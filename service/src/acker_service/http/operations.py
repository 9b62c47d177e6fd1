"""Answers the requests to the five addresses of a topology's operations: init, ack, fail, reset-timeout and batch.

A head and a body give an answer; nothing here reads from a connection or writes to one. FastAPI never sees these
addresses: nearly all requests come to them, and its layers take several times as long as the operation.
"""

import re
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from acker_protocol.errors import InvalidRequest, MethodNotAllowed, ServiceError
from acker_protocol.operations import Init, Operation
from acker_protocol.routes import IDEMPOTENCY_KEY
from acker_protocol.values import value
from acker_protocol.wire.fields import idempotency_key
from acker_protocol.wire.operations import VERBS
from starlette.datastructures import State

from acker_service.background import Awaited, Waiter
from acker_service.http.answers import ALL, EXCEPTIONS, Answer, answer_batch, answer_single
from acker_service.http.auth import key_of
from acker_service.http.keys import Key, Scope, authorize
from acker_service.http.parameters import JSON, NAME, check_content_type, check_length, check_query
from acker_service.operations import decoding
from acker_service.operations.applier import Applier
from acker_service.operations.batch import SingleOperation
from acker_service.operations.request import ApplyRequest, Reply
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.topology import Topology

MAX_ADDRESSES = 4_096
"""How many addresses are remembered with what they name."""

BATCH = "batch"
_PATH = re.compile(rf"/v1/topologies/([^/]+)/({'|'.join((*VERBS, BATCH))})")
_NAME = re.compile(NAME[1:-1])
_KEY_HEADER = IDEMPOTENCY_KEY.lower().encode()

_LENGTH_DIGITS = 10
"""A body of more digits is too large in any case."""

Headers = Mapping[bytes, bytes]

_SHOWN = {b"results=all": ALL, b"results=exceptions": EXCEPTIONS}
"""What a batch's answer shows, by the query strings that clients send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRoute:
    """What all addresses of one last part have in common.

    ``verb`` is that part, ``template`` the name of the addresses in metrics, ``need`` the scope that each request
    needs, ``content_types`` those that are taken, as heads write them, ``parameters`` the names that a query may have.
    """

    verb: str
    template: str
    need: Scope
    content_types: Mapping[bytes, str]
    parameters: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of a route in one topology; ``is_name`` says whether a topology can have that name."""

    path: str
    route: OperationRoute
    topology: str
    is_name: bool


@value
class Admitted:
    """A request whose head is in order. ``repeat_key`` is its idempotency key as it was sent, None where none was.

    ``keys`` are those that its ``key`` was found among, ``shown`` says which results a batch's answer shows.
    """

    address: Address
    keys: Sequence[Key] | None
    key: Key
    repeat_key: bytes | None
    content_type: str
    shown: str


class Operations:
    """Answers requests to operations: `find` the address, `admit` the head, `answer` the body.

    A request whose body is waited for is checked again before it is answered (`check_again`).

    ``state.keys`` are the configured keys, which may change, and ``state.rates`` holds them to their rates.
    """

    def __init__(
        self, *, registry: TopologyRegistry, applier: Applier, state: State, max_body_bytes: int, max_batch: int
    ) -> None:
        self._registry = registry
        self._applier = applier
        self._state = state
        self.max_body_bytes = max_body_bytes
        self._max_batch = max_batch
        self._addresses: dict[str, Address] = {}

    def find(self, path: str) -> Address | None:
        """Return the address that a path is; None: it is none of these."""
        try:
            return self._addresses[path]
        except KeyError:
            pass
        found = _PATH.fullmatch(path)
        if found is None:
            return None
        address = Address(path=path, route=ROUTES[found[2]], topology=found[1], is_name=bool(_NAME.fullmatch(found[1])))
        if address.is_name:  # others may be as long as a head, and are refused anyway
            if len(self._addresses) >= MAX_ADDRESSES:
                self._addresses.clear()
            self._addresses[path] = address
        return address

    def admit(self, address: Address, method: str, headers: Headers, query: bytes) -> Admitted:
        """Check the head of a request, in the order in which FastAPI checks those of other addresses.

        ``headers`` are the first of each name. Raises `MethodNotAllowed`, `Unauthorized`, `RateExceeded`, `Forbidden`,
        `InvalidRequest`, `UnsupportedMediaType`, `TooLarge`.
        """
        if method != "POST":
            asked = "GET" if method == "HEAD" else method  # as long as what GET is answered
            raise MethodNotAllowed(f"{asked} {address.path}: Method Not Allowed")
        route, keys = address.route, self._state.keys
        key = _find_key(keys, headers)
        if key.rate is not None:
            self._state.rates.check_operations(key)
            self._state.rates.take_request(key)
        authorize(key, route.need, address.topology)
        shown = _read_query(query, route.parameters) if query else ALL
        if not address.is_name:
            raise InvalidRequest(f"topology: String should match pattern '{NAME}'")
        if shown not in (ALL, EXCEPTIONS):
            raise InvalidRequest(f"results: Input should be '{ALL}' or '{EXCEPTIONS}'")
        sent, length = headers.get(b"content-type", b""), headers.get(b"content-length", b"0")
        content_type = route.content_types.get(sent)
        if content_type is None:
            content_type = check_content_type(sent.decode("latin-1"), *route.content_types.values())
        if not length.isdigit() or len(length) > _LENGTH_DIGITS or int(length) > self.max_body_bytes:
            check_length(length.decode("latin-1"), max_bytes=self.max_body_bytes)
        return Admitted(
            address=address,
            keys=keys,
            key=key,
            repeat_key=headers.get(_KEY_HEADER),
            content_type=content_type,
            shown=shown,
        )

    def check_again(self, request: Admitted, headers: Headers) -> Admitted:
        """Look the key of a request up again whose body was waited for: the keys may have changed.

        Raises `Unauthorized`, `Forbidden`.
        """
        keys = self._state.keys
        if keys is request.keys:
            return request
        key = _find_key(keys, headers)
        authorize(key, request.address.route.need, request.address.topology)
        return replace(request, keys=keys, key=key)

    async def answer(self, request: Admitted, body: bytes) -> Answer:
        """Apply the operations of a request, and answer it; that a single one is refused is a problem.

        Raises `ServiceError`.
        """
        waiting: Awaited[Answer] = Awaited()
        rest = self.begin(request, body, waiting)
        return await (waiting if rest is None else rest)

    def begin(self, request: Admitted, body: bytes, waiter: Waiter[Answer]) -> Coroutine[Any, Any, Answer] | None:
        """Begin to answer a request as `answer` does, without a task where one call of the store is all it takes.

        None: ``waiter`` is given the answer, or the error. Else the coroutine returns the answer.

        Raises `ServiceError`.
        """
        verb = request.address.route.verb
        if verb == BATCH:
            return self._answer_batch(request, body)
        operation = decoding.decode_operation(verb, body)
        if request.key.rate is not None:
            self._state.rates.take_operations(request.key, 1)
        whole = ApplyRequest(endpoint=verb, operations=SingleOperation(operation), key=_read_key(request.repeat_key))
        topology = self._registry.cached(request.address.topology)
        if topology is not None and isinstance(operation, Init) and _timeout_over(topology, whole) is not None:
            topology = None
        if topology is not None and self._applier.begin(topology, whole, _Single(operation, waiter)):
            return None
        return self._answer_single(request, whole, operation)

    async def _answer_single(self, request: Admitted, whole: ApplyRequest, operation: Operation) -> Answer:
        """Apply an operation that takes more than one call of the store."""
        return answer_single(operation, await self._applier.apply(await self._read_topology(request, whole), whole))

    async def _answer_batch(self, request: Admitted, body: bytes) -> Answer:
        """Apply many operations; those on one root in the order given, all of a shard in one atomic step."""
        operations = decoding.decode(
            request.content_type, body, max_operations=self._max_batch, max_bytes=self.max_body_bytes
        )
        if operations.has_inits:
            authorize(request.key, Scope.SPOUT, request.address.topology)
        if request.key.rate is not None:
            self._state.rates.take_operations(request.key, len(operations))
        whole = ApplyRequest(endpoint=BATCH, operations=operations, key=_read_key(request.repeat_key))
        topology = await self._read_topology(request, whole)
        return answer_batch(await self._applier.apply(topology, whole), request.shown)

    async def _read_topology(self, request: Admitted, whole: ApplyRequest) -> Topology:
        """Return the topology of a request, from the cache if it is there and admits the timeouts of its inits.

        A request is refused by a topology that was read for it: another process may have given it a longer window.

        Raises `UnknownTopology`, `StoreUnavailable`, and `InvalidRequest` for a timeout that is too long.
        """
        name = request.address.topology
        try:
            topology = await self._registry.get(name)
            if _timeout_over(topology, whole) is None:
                return topology
            topology = await self._registry.refresh(name)
        except ServiceError as error:
            error.retryable = error.retryable and whole.is_repeatable
            raise
        _check_timeouts(topology, whole)
        return topology


class _Single:
    """Waits for the reply to a single operation, and gives its own waiter the answer."""

    __slots__ = ("_operation", "_waiter")

    def __init__(self, operation: Operation, waiter: Waiter[Answer]) -> None:
        self._operation = operation
        self._waiter = waiter

    def set_result(self, reply: Reply, /) -> None:
        try:
            answer = answer_single(self._operation, reply)
        except Exception as error:  # noqa: BLE001 - who waits gets the error
            self._waiter.set_exception(error)
        else:
            self._waiter.set_result(answer)

    def set_exception(self, error: BaseException, /) -> None:
        self._waiter.set_exception(error)


def _find_key(keys: Sequence[Key] | None, headers: Headers) -> Key:
    return key_of(keys, headers.get(b"authorization", b"").decode("latin-1"))


def _read_query(query: bytes, parameters: Sequence[str]) -> str:
    """Return which results a query asks for, unchecked. Raises `InvalidRequest` for a parameter that is none."""
    if parameters and (shown := _SHOWN.get(query)) is not None:
        return shown
    given = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    check_query((name for name, _ in given), parameters)
    return dict(given).get("results", ALL)


def _read_key(given: bytes | None) -> str | None:
    """Return the idempotency key that a header gives, None without one. Raises `InvalidRequest`."""
    if given is None:
        return None
    try:
        return idempotency_key(given.decode("latin-1"))
    except ValueError as error:
        raise InvalidRequest(f"{IDEMPOTENCY_KEY} {error}") from None


def _timeout_over(topology: Topology, whole: ApplyRequest) -> int | None:
    """Return the index of the first init whose message timeout is longer than the dedupe window."""
    longest_ms = topology.config.longest_timeout_ms
    return whole.operations.first_timeout_over(longest_ms) if longest_ms else None


def _check_timeouts(topology: Topology, whole: ApplyRequest) -> None:
    if (index := _timeout_over(topology, whole)) is not None:
        where: dict[str, Any] = {} if whole.is_single else {"index": index}
        raise InvalidRequest("message_timeout_ms must not be longer than the dedupe window", **where)


def _route(verb: str) -> OperationRoute:
    return OperationRoute(
        verb=verb,
        template=f"/v1/topologies/{{topology}}/{verb}",
        need=Scope.SPOUT if verb == "init" else Scope.ACK,
        content_types={kind.encode(): kind for kind in (decoding.CONTENT_TYPES if verb == BATCH else (JSON,))},
        parameters=("results",) if verb == BATCH else (),
    )


ROUTES = {verb: _route(verb) for verb in (*VERBS, BATCH)}
