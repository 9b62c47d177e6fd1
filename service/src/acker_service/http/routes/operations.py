"""Routes of the operations: init, ack, fail and reset timeout, single and in batches."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from acker_protocol.errors import Conflict, InvalidRequest, MailboxFull, MaxSpoutPending, ServiceError, StoreFull
from acker_protocol.ids import format_id
from acker_protocol.operations import REFUSED, Ack, Init, Operation, OperationState
from acker_protocol.routes import IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED
from acker_protocol.wire.fields import idempotency_key
from acker_protocol.wire.operations import VERBS
from fastapi import APIRouter, Header, Query, Request, Response

from acker_service.http import errors
from acker_service.http.auth import needs, require_for
from acker_service.http.fast_path import Answer, FastRequest, FastRoute, PassOn
from acker_service.http.head import Router
from acker_service.http.keys import Scope, authorize
from acker_service.http.parameters import JSON, TopologyName, content_type, read_body
from acker_service.operations import decoding, single
from acker_service.operations.applier import Applier, ApplyRequest, Reply
from acker_service.operations.batch import STATES, ListBatch, OperationBatch
from acker_service.operations.single import NotApplied, SingleApplier
from acker_service.redis.codec import REFUSED_CODES, RESULTS, OperationResult
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.topology import Topology

PREFIX = "/v1/topologies/{topology}"
Key = Annotated[str | None, Header(alias=IDEMPOTENCY_KEY)]
Results = Annotated[Literal["all", "exceptions"], Query()]
Handler = Callable[..., Awaitable[Any]]

_REFUSALS: dict[OperationState, tuple[type[ServiceError], str]] = {
    OperationState.CONFLICT: (Conflict, "the root is held by another spout task or another message id"),
    OperationState.MAX_SPOUT_PENDING: (MaxSpoutPending, "the spout task has as many pending roots as it may"),
    OperationState.MAILBOX_FULL: (MailboxFull, "the spout task's mailbox is full; read and release its completions"),
    OperationState.STORE_FULL: (StoreFull, "the store has no memory left for new roots"),
}

_WANTED = {b"": "all", b"results=all": "all", b"results=exceptions": "exceptions"}
"""What a batch's answer shows, by the query strings that the fast path takes."""

_EARLY_REFUSED = "the store has no memory left for new roots, or the topology has as many without their init as it may"


def make_router(*, registry: TopologyRegistry, applier: Applier, max_body_bytes: int, max_batch: int) -> APIRouter:
    """Build the routes of the operations."""
    router = Router(prefix=PREFIX, tags=["operations"])
    for verb in VERBS:
        need, handler = needs(_scope(verb)), _single(registry, applier, verb, max_body_bytes)
        router.add_api_route(f"/{verb}", handler, methods=["POST"], name=verb, dependencies=[need])
    handler = _batch(registry, applier, max_body_bytes, max_batch)
    router.add_api_route("/batch", handler, methods=["POST"], name="batch", dependencies=[needs("ack")])
    return router


def make_fast_routes(
    *, single_applier: SingleApplier, applier: Applier, max_body_bytes: int, max_batch: int
) -> dict[str, FastRoute]:
    """Build what the fast path answers of these routes.

    It answers single operations that one call applies, and batches that the column decoders take.
    """
    singles = {
        verb: FastRoute(
            route=f"{PREFIX}/{verb}",
            need=_scope(verb),
            answer=_fast_single(single_applier, verb),
            max_body_bytes=min(max_body_bytes, decoding.MAX_UNCHECKED_BYTES),
        )
        for verb in VERBS
    }
    batch = FastRoute(
        route=f"{PREFIX}/batch",
        need=Scope.ACK,
        answer=_fast_batch(applier, max_body_bytes, max_batch),
        max_body_bytes=max_body_bytes,
        content_types=frozenset(kind.encode() for kind in decoding.CONTENT_TYPES),
        queries=frozenset(_WANTED),
    )
    return singles | {"batch": batch}


def _scope(verb: str) -> Scope:
    return Scope.SPOUT if verb == "init" else Scope.ACK


def _fast_single(applier: SingleApplier, verb: str) -> Callable[[FastRequest], Awaitable[Answer | Response]]:
    async def operate(request: FastRequest) -> Answer | Response:
        try:
            operation = single.decode(verb, request.body)
        except (ValueError, RecursionError, InvalidRequest):
            raise PassOn from None
        try:
            reply = await applier.apply(request.topology, verb, operation, request.idempotency_key)
        except NotApplied:
            raise PassOn from None
        shown = _SHOWN.get((reply.codes, reply.replayed))
        if shown is None:
            return _respond(operation, reply)
        return Answer(headers=shown.headers, body=b"%b%016x%b" % (shown.before, operation.root_id, shown.after))

    return operate


def _fast_batch(applier: Applier, max_body_bytes: int, max_batch: int) -> Callable[[FastRequest], Awaitable[Answer]]:
    async def operate(request: FastRequest) -> Answer:
        topology, kind = request.topology, request.content_type.decode()
        try:
            operations = decoding.decode_columns(kind, request.body, max_operations=max_batch, max_bytes=max_body_bytes)
            if operations.contains(Init):
                authorize(request.key, Scope.SPOUT, topology.name)
            _check_timeouts(topology, "batch", operations)
        except (ServiceError, ValueError, RecursionError):
            raise PassOn from None
        whole = ApplyRequest(endpoint="batch", operations=operations, key=request.idempotency_key)
        response = _respond_batch(await applier.apply(topology, whole), _WANTED[request.query])
        return Answer(headers=response.raw_headers, body=bytes(response.body))

    return operate


def _single(registry: TopologyRegistry, applier: Applier, verb: str, max_body_bytes: int) -> Handler:
    async def operate(topology: TopologyName, request: Request, key: Key = None) -> Response:
        content_type(request, JSON)
        operation = decoding.decode_json_operation(verb, await read_body(request, max_bytes=max_body_bytes))
        reply = await _apply(registry, applier, topology, verb, ListBatch([operation]), key)
        return _respond(operation, reply)

    return operate


def _batch(registry: TopologyRegistry, applier: Applier, max_body_bytes: int, max_batch: int) -> Handler:
    async def batch(topology: TopologyName, request: Request, key: Key = None, results: Results = "all") -> Response:
        """Apply many operations; those on one root in the order given, all of a shard in one atomic step."""
        kind = content_type(request, *decoding.CONTENT_TYPES)
        body = await read_body(request, max_bytes=max_body_bytes)
        operations = decoding.decode(kind, body, max_operations=max_batch, max_bytes=max_body_bytes)
        require_for(request, operations)
        return _respond_batch(await _apply(registry, applier, topology, "batch", operations, key), results)

    return batch


def _respond_batch(reply: Reply, wanted: str) -> Response:
    response = Response(msgspec.json.encode(_show_results(reply, wanted)), media_type=JSON)
    if reply.replayed:
        response.headers[IDEMPOTENCY_REPLAYED] = "true"
    return response


def _show_results(reply: Reply, wanted: str) -> dict[str, Any]:
    refused = reply.refused
    document: dict[str, Any] = {"accepted": len(reply.codes) - len(refused)}
    if wanted == "exceptions":
        return document | {"exceptions": [{"index": index, "state": state.value} for index, state in refused]}
    return document | {"results": [STATES[code] for code in reply.codes]}


async def _apply(
    registry: TopologyRegistry, applier: Applier, name: str, endpoint: str, operations: OperationBatch, key: str | None
) -> Reply:
    try:
        key = None if key is None else idempotency_key(key)
    except ValueError as error:
        raise InvalidRequest(f"{IDEMPOTENCY_KEY} {error}") from None
    request = ApplyRequest(endpoint=endpoint, operations=operations, key=key)
    try:
        topology = await registry.get(name)
    except ServiceError as error:
        error.retryable = error.retryable and request.is_repeatable
        raise
    _check_timeouts(topology, endpoint, operations)
    return await applier.apply(topology, request)


def _check_timeouts(topology: Topology, endpoint: str, operations: OperationBatch) -> None:
    longest_ms = topology.config.longest_timeout_ms
    if longest_ms and (index := operations.first_timeout_over(longest_ms)) is not None:
        where: dict[str, Any] = {"index": index} if endpoint == "batch" else {}
        raise InvalidRequest("message_timeout_ms must not be longer than the dedupe window", **where)


def _respond(operation: Operation, reply: Reply) -> Response:
    """Answer a single operation: with its state, or with a problem if it was refused."""
    result = reply.results[0]
    if result.state in REFUSED:
        kind, detail = _REFUSALS[result.state]
        if result.state is OperationState.STORE_FULL and not isinstance(operation, Init):
            detail = _EARLY_REFUSED
        response: Response = errors.respond(kind(detail, root_id=format_id(operation.root_id)))
    else:
        response = Response(msgspec.json.encode(show_result(operation.root_id, result)), media_type=JSON)
    if reply.replayed:
        response.headers[IDEMPOTENCY_REPLAYED] = "true"
    return response


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """The response of a result: its headers, and its body before and after the root id."""

    headers: tuple[tuple[bytes, bytes], ...]
    before: bytes
    after: bytes


def _show_accepted() -> dict[tuple[str, bool], _Shown]:
    """Make the responses of all results that are no refusals, by their code and whether the request is a repeat."""
    shown, zeros = dict[tuple[str, bool], _Shown](), Ack(root_id=0, ack_val=0)
    for code in RESULTS.keys() - REFUSED_CODES:
        for replayed in (False, True):
            response = _respond(zeros, Reply(codes=code, replayed=replayed))
            before, after = bytes(response.body).split(format_id(0).encode())
            shown[code, replayed] = _Shown(headers=tuple(response.raw_headers), before=before, after=after)
    return shown


def show_result(root_id: int, result: OperationResult) -> dict[str, Any]:
    """Make the document of the result of one operation."""
    state = {"root_id": format_id(root_id), "state": result.state.value}
    return state if result.outcome is None else state | {"outcome": result.outcome.value}


_SHOWN = _show_accepted()
