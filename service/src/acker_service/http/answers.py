"""Writes the answers to operations: the state of a single one, the results of a batch, or what is wrong.

A single operation that is refused is a problem; one in a batch is an exception among its results.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from acker_protocol.errors import Conflict, MailboxFull, MaxSpoutPending, MethodNotAllowed, ServiceError, StoreFull
from acker_protocol.ids import format_id
from acker_protocol.operations import REFUSED, Ack, Init, Operation, OperationState
from acker_protocol.routes import IDEMPOTENCY_REPLAYED
from starlette.responses import Response

from acker_service.http import problems
from acker_service.http.parameters import JSON
from acker_service.operations.batch import STATES
from acker_service.operations.request import Reply
from acker_service.redis.codec import REFUSED_CODES, RESULTS, CodeResult

ALL, EXCEPTIONS = "all", "exceptions"
"""Which results of a batch its answer shows."""

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


def answer_error(error: ServiceError) -> Answer:
    """Return the answer that says what is wrong with a request."""
    response = problems.respond(error)
    if isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = "POST"
    return Answer.of(response)


def answer_single(operation: Operation, reply: Reply) -> Answer:
    """Answer a single operation; that it is refused is a problem."""
    shown = _SINGLE.get((reply.codes, reply.replayed))
    if shown is None:
        return _answer_result(operation, reply)
    body = b"%b%016x%b" % (shown.before, operation.root_id, shown.after)
    return Answer(status=200, headers=shown.headers, body=body)


def answer_batch(reply: Reply, shown: str) -> Answer:
    """Answer a batch, with all of its results or with those that are exceptions."""
    return _answer_json(_show_results(reply, shown), replayed=reply.replayed)


def show_result(root_id: int, result: CodeResult) -> dict[str, Any]:
    """Return the document of the result of one operation."""
    state = {"root_id": format_id(root_id), "state": result.state.value}
    return state if result.outcome is None else state | {"outcome": result.outcome.value}


def _answer_result(operation: Operation, reply: Reply) -> Answer:
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
    body = msgspec.json.encode(document)
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", JSON.encode())]
    if replayed:
        headers.append((IDEMPOTENCY_REPLAYED.lower().encode(), b"true"))
    return Answer(status=200, headers=headers, body=body)


def _show_results(reply: Reply, shown: str) -> dict[str, Any]:
    refused = reply.refused
    document: dict[str, Any] = {"accepted": len(reply.codes) - len(refused)}
    if shown == EXCEPTIONS:
        return document | {"exceptions": [{"index": index, "state": state.value} for index, state in refused]}
    return document | {"results": [STATES[code] for code in reply.codes]}


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
            answer = _answer_result(zeros, Reply(codes=code, replayed=replayed))
            before, after = answer.body.split(format_id(0).encode())
            written[code, replayed] = _Single(headers=answer.headers, before=before, after=after)
    return written


_SINGLE = _write_singles()
