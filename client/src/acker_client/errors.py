"""All errors of the client, those of the service included.

The tree of errors (code, whether trying again helps)::

    AckerError
    ├── UsageError                 usage_error no: the program asks for what cannot be; nothing is sent for it
    │   ├── TupleClosed            tuple_closed no: a tuple or root is used after it was acked, failed or emitted
    │   ├── DuplicateKey           duplicate_key no: two children of one parent have the same key
    │   ├── TooManyAnchors         too_many_anchors no: a message would carry more anchors than its header holds
    │   └── ClientClosed           client_closed no: the client has been closed
    ├── InvalidHeader              invalid_header no: an anchors header cannot be read, or is of another topology
    │   └── InvalidSignature       invalid_signature no: anchors came over HTTP without the proof that is asked for
    ├── InvalidResponse            invalid_response no: the answer is not one of the contract
    ├── RetriesExhausted           retries_exhausted no: a request was retried for as long as is safe
    ├── OperationsLost             operations_lost no: acks sent in the background could not be delivered
    ├── BufferFull                 buffer_full yes: too many operations are in flight
    ├── BatchError                 batch_error yes: the service did not accept some operations of a batch
    └── ServiceError               what the service answers; codes and statuses are drawn in ``acker_protocol.errors``
        ├── NotFound               no: UnknownTopology, UnknownRoot, UnknownSpout
        ├── Conflict               no: AckersFixed, MailboxOwned; yes: TopologyBusy, SpoutBusy
        ├── for good               no: InvalidRequest, Unauthorized, Forbidden, ForbiddenOrigin, MethodNotAllowed,
        │                          TooLarge, UnsupportedMediaType, TooManySpouts
        └── for now                yes: MaxSpoutPending, MailboxFull, TooManyStreams, StoreFull, Overloaded,
                                   StoreUnavailable

`FailTuple` and `DropTuple` are no errors: a bolt raises these signals (`TupleSignal`) to end its tuple. The rows "for
good" and "for now" are no classes; they group classes right below `ServiceError`.
"""

from typing import TYPE_CHECKING

from acker_protocol.errors import (
    AckerError,
    AckersFixed,
    Conflict,
    Forbidden,
    ForbiddenOrigin,
    InvalidHeader,
    InvalidRequest,
    InvalidSignature,
    MailboxFull,
    MailboxOwned,
    MaxSpoutPending,
    MethodNotAllowed,
    NotFound,
    Overloaded,
    ServiceError,
    SpoutBusy,
    StoreFull,
    StoreUnavailable,
    TooLarge,
    TooManyAnchors,
    TooManySpouts,
    TooManyStreams,
    TopologyBusy,
    Unauthorized,
    UnknownRoot,
    UnknownSpout,
    UnknownTopology,
    UnsupportedMediaType,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from acker_client._core.requests import OperationResult

__all__ = [
    "AckerError",
    "AckersFixed",
    "BatchError",
    "BufferFull",
    "ClientClosed",
    "Conflict",
    "DropTuple",
    "DuplicateKey",
    "FailTuple",
    "Forbidden",
    "ForbiddenOrigin",
    "InvalidHeader",
    "InvalidRequest",
    "InvalidResponse",
    "InvalidSignature",
    "MailboxFull",
    "MailboxOwned",
    "MaxSpoutPending",
    "MethodNotAllowed",
    "NotFound",
    "OperationsLost",
    "Overloaded",
    "RetriesExhausted",
    "ServiceError",
    "SpoutBusy",
    "StoreFull",
    "StoreUnavailable",
    "TooLarge",
    "TooManyAnchors",
    "TooManySpouts",
    "TooManyStreams",
    "TopologyBusy",
    "TupleClosed",
    "TupleSignal",
    "Unauthorized",
    "UnknownRoot",
    "UnknownSpout",
    "UnknownTopology",
    "UnsupportedMediaType",
    "UsageError",
]


class TupleClosed(UsageError):
    """A tuple or root is used after it was acked, failed or emitted."""

    code = "tuple_closed"


class DuplicateKey(UsageError):
    """Two children of one parent have the same key: both would get the same edge id."""

    code = "duplicate_key"


class ClientClosed(UsageError):
    """The client has been closed; a request that was in flight at that moment may have arrived."""

    code = "client_closed"


class InvalidResponse(AckerError):
    """What answers at this address does not speak the contract."""

    code = "invalid_response"


class RetriesExhausted(AckerError):
    """A request was sent again for as long as is safe, and was not answered; ``__cause__`` is the last failure.

    ``outcome_unknown`` is True for a write that may have been applied. Do not send such an ack in a new request, which
    could apply it twice: the root times out and is replayed.
    """

    code = "retries_exhausted"

    def __init__(self, message: str, *, outcome_unknown: bool = False) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


class OperationsLost(AckerError):
    """Acks sent in the background were given up; ``operations`` is their number, ``__cause__`` the last reason.

    The call that raises it has done nothing else, so make it again. Do not send again what was lost: its roots time
    out and are replayed.
    """

    code = "operations_lost"

    def __init__(self, operations: int) -> None:
        super().__init__(f"{operations} operations sent in the background could not be delivered")
        self.operations = operations


class BufferFull(AckerError):
    """The buffer holds ``buffer_size`` operations, and ``on_full`` is ``raise``; the tuple is unchanged."""

    code, retryable = "buffer_full", True


class BatchError(AckerError):
    """The service did not accept some operations of a batch: ``results`` holds these. The others were applied."""

    code, retryable = "batch_error", True

    def __init__(self, results: "Sequence[OperationResult]") -> None:
        states = ", ".join(sorted({result.state for result in results}))
        super().__init__(f"{len(results)} operations of the batch were not accepted: {states}")
        self.results = tuple(results)


class TupleSignal(Exception):
    """A bolt raises a signal in the block of its tuple to end it; the exception does not leave the block."""


class FailTuple(TupleSignal):
    """Fail the tree at once, so that its spout emits the message again; also with ``on_error="leave_open"``."""


class DropTuple(TupleSignal):
    """Ack a tuple that no retry would help: ``on_drop`` is called with it, and the completion counts it."""
