"""Answers the requests to the five addresses of a topology's operations: init, ack, fail, reset-timeout and batch.

A head and a body give an answer; nothing here reads from a connection or writes to one. FastAPI never sees these
addresses: nearly all requests come to them, and its layers take several times as long as the operation.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from acker_protocol.errors import (
    Conflict,
    InvalidRequest,
    MailboxFull,
    MaxSpoutPending,
    MethodNotAllowed,
    ServiceError,
    StoreFull,
)
from acker_protocol.ids import format_id
from acker_protocol.operations import REFUSED, Ack, Init, Operation, OperationState
from acker_protocol.routes import IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED
from acker_protocol.wire.fields import idempotency_key
from acker_protocol.wire.operations import VERBS
from starlette.datastructures import State
from starlette.responses import Response

from acker_service.http import problems
from acker_service.http.auth import key_of
from acker_service.http.keys import Key, Scope, authorize
from acker_service.http.parameters import JSON, NAME, check_content_type, check_length, check_query
from acker_service.operations import decoding
from acker_service.operations.applier import Applier
from acker_service.operations.batch import STATES, SingleOperation
from acker_service.operations.request import ApplyRequest, Reply
from acker_service.redis.codec import REFUSED_CODES, RESULTS, CodeResult
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

ALL, EXCEPTIONS = "all", "exceptions"
_SHOWN = {b"results=all": ALL, b"results=exceptions": EXCEPTIONS}
"""What a batch's answer shows, by the query strings that clients send."""

_REFUSALS: dict[OperationState, tuple[type[ServiceError], str]] = {
    OperationState.CONFLICT: (Conflict, "the root is held by another spout task or another message id"),
    OperationState.MAX_SPOUT_PENDING: (MaxSpoutPending, "the spout task has as many pending roots as it may"),
    OperationState.MAILBOX_FULL: (MailboxFull, "the spout task's mailbox is full; read and release its completions"),
    OperationState.STORE_FULL: (
        StoreFull,
        "the store has no memory left for new roots, or what the topology has remembered takes as much as it may",
    ),
}
_EARLY_REFUSED = (
    "the store has no memory left for new roots, or those without their init are as many or take as much as they may, "
    "or so does what the topology has remembered of edges and requests"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer. ``headers`` are lower case and hold all but those that every answer has.

    ``problem`` is the code of the problem document, where the body is one.
    """

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    problem: str | None = None

    @classmethod
    def of(cls, response: Response) -> "Answer":
        """Return what a response sends."""
        problem = response.code if isinstance(response, problems.ProblemResponse) else None
        return cls(
            status=response.status_code, headers=response.raw_headers, body=bytes(response.body), problem=problem
        )


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


@dataclass(frozen=True, slots=True, kw_only=True)
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
        verb = request.address.route.verb
        if verb == BATCH:
            return await self._answer_batch(request, body)
        operation = decoding.decode_operation(verb, body)
        if request.key.rate is not None:
            self._state.rates.take_operations(request.key, 1)
        whole = ApplyRequest(endpoint=verb, operations=SingleOperation(operation), key=_read_key(request.repeat_key))
        topology = self._registry.cached(request.address.topology) or await self._read_topology(request, whole)
        if isinstance(operation, Init):
            _check_timeouts(topology, whole)
        reply = await self._applier.apply(topology, whole)
        shown = _SINGLE.get((reply.codes, reply.replayed))
        if shown is None:
            return _answer_single(operation, reply)
        body = b"%b%016x%b" % (shown.before, operation.root_id, shown.after)
        return Answer(status=200, headers=shown.headers, body=body)

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
        topology = self._registry.cached(request.address.topology) or await self._read_topology(request, whole)
        _check_timeouts(topology, whole)
        reply = await self._applier.apply(topology, whole)
        return _answer_json(_show_results(reply, request.shown), replayed=reply.replayed)

    async def _read_topology(self, request: Admitted, whole: ApplyRequest) -> Topology:
        """Read a topology that is not in the cache. Raises `UnknownTopology`, `StoreUnavailable`."""
        try:
            return await self._registry.get(request.address.topology)
        except ServiceError as error:
            error.retryable = error.retryable and whole.is_repeatable
            raise


def answer_error(error: ServiceError) -> Answer:
    """Return the answer that says what is wrong with a request."""
    response = problems.respond(error)
    if isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = "POST"
    return Answer.of(response)


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


def _check_timeouts(topology: Topology, whole: ApplyRequest) -> None:
    longest_ms = topology.config.longest_timeout_ms
    if longest_ms and (index := whole.operations.first_timeout_over(longest_ms)) is not None:
        where: dict[str, Any] = {} if whole.is_single else {"index": index}
        raise InvalidRequest("message_timeout_ms must not be longer than the dedupe window", **where)


def _answer_single(operation: Operation, reply: Reply) -> Answer:
    """Answer a single operation: with its state, or with a problem if it was refused."""
    result = reply.results[0]
    if result.state not in REFUSED:
        return _answer_json(show_result(operation.root_id, result), replayed=reply.replayed)
    kind, detail = _REFUSALS[result.state]
    if result.state is OperationState.STORE_FULL and not isinstance(operation, Init):
        detail = _EARLY_REFUSED
    response = problems.respond(kind(detail, root_id=format_id(operation.root_id)))
    if reply.replayed:
        response.headers[IDEMPOTENCY_REPLAYED] = "true"
    return Answer.of(response)


def _answer_json(document: dict[str, Any], *, replayed: bool) -> Answer:
    response = Response(msgspec.json.encode(document), media_type=JSON)
    if replayed:
        response.headers[IDEMPOTENCY_REPLAYED] = "true"
    return Answer.of(response)


def _show_results(reply: Reply, shown: str) -> dict[str, Any]:
    refused = reply.refused
    document: dict[str, Any] = {"accepted": len(reply.codes) - len(refused)}
    if shown == EXCEPTIONS:
        return document | {"exceptions": [{"index": index, "state": state.value} for index, state in refused]}
    return document | {"results": [STATES[code] for code in reply.codes]}


def show_result(root_id: int, result: CodeResult) -> dict[str, Any]:
    """Return the document of the result of one operation."""
    state = {"root_id": format_id(root_id), "state": result.state.value}
    return state if result.outcome is None else state | {"outcome": result.outcome.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Single:
    """The answer of a result that is no refusal: its headers, and its body before and after the root id."""

    headers: Sequence[tuple[bytes, bytes]]
    before: bytes
    after: bytes


def _write_singles() -> dict[tuple[str, bool], _Single]:
    """Write the answers of all results that are no refusals, by their code and whether the request is a repeat."""
    written, zeros = dict[tuple[str, bool], _Single](), Ack(root_id=0, ack_val=0)
    for code in RESULTS.keys() - REFUSED_CODES:
        for replayed in (False, True):
            answer = _answer_single(zeros, Reply(codes=code, replayed=replayed))
            before, after = answer.body.split(format_id(0).encode())
            written[code, replayed] = _Single(headers=answer.headers, before=before, after=after)
    return written


def _route(verb: str) -> OperationRoute:
    return OperationRoute(
        verb=verb,
        template=f"/v1/topologies/{{topology}}/{verb}",
        need=Scope.SPOUT if verb == "init" else Scope.ACK,
        content_types={kind.encode(): kind for kind in (decoding.CONTENT_TYPES if verb == BATCH else (JSON,))},
        parameters=("results",) if verb == BATCH else (),
    )


ROUTES = {verb: _route(verb) for verb in (*VERBS, BATCH)}
_SINGLE = _write_singles()
