"""The errors of the connector.

The tree of errors (code, whether a retry helps)::

    AckerError                       the root of all errors of Acker
    ├── UsageError (ValueError)      usage_error no: the program asks for something impossible; nothing was sent
    │   ├── InvalidOptions           invalid_options no: options are invalid, all of them in one message
    │   ├── QueryIdRequired          query_id_required no: Spark does not give the query's id here (Spark Connect)
    │   ├── NullMessageId            null_message_id no: a row has no message id, or no root id or edge id
    │   ├── MissingAnchors           missing_anchors no: rows without anchors, or of a root of another batch
    │   ├── DuplicateKey             duplicate_key no: two rows of one root would leave with the same edge
    │   └── BatchClosed              batch_closed no: the collector is used after its batch has ended
    ├── IncompatibleTopology         incompatible_topology no: it has no dedupe window of its own, or forgets too soon
    ├── PendingLimit                 pending_limit, see its docstring: the spout task or the store has no space
    ├── ConcurrentQuery              concurrent_query no: another query tracks roots of this batch
    ├── NondeterministicBatch        nondeterministic_batch yes: rows differed when Spark computed them again
    ├── QueryStopped                 query_stopped yes: the query is being stopped; nothing of its batch was acked
    └── DataLoss                     data_loss no: completions of a batch that is read again are gone

`AckerError`, `UsageError` and `DuplicateKey` are the client's. Other errors of the client and those of the service
(`RetriesExhausted`, `Forbidden`, …) come through as they are.
"""

from acker_client import AckerError, DuplicateKey, UsageError

__all__ = [
    "AckerError",
    "BatchClosed",
    "ConcurrentQuery",
    "DataLoss",
    "DuplicateKey",
    "IncompatibleTopology",
    "InvalidOptions",
    "MissingAnchors",
    "NondeterministicBatch",
    "NullMessageId",
    "PendingLimit",
    "QueryIdRequired",
    "QueryStopped",
    "UsageError",
]


class InvalidOptions(UsageError):
    """Options are invalid; ``faults`` has a sentence about each."""

    code = "invalid_options"

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class QueryIdRequired(UsageError):
    """Spark does not give the query's id here, and ``query_id`` is not set."""

    code = "query_id_required"


class NullMessageId(UsageError):
    """A row has no message id, or no valid root id or edge id."""

    code = "null_message_id"


class MissingAnchors(UsageError):
    """Rows have no anchors, or anchors that do not belong to this batch."""

    code = "missing_anchors"


class BatchClosed(UsageError):
    """A collector is used after its batch has ended."""

    code = "batch_closed"


class IncompatibleTopology(AckerError):
    """The topology has no dedupe window of its own, or remembers roots for a shorter time than edges."""

    code = "incompatible_topology"


class PendingLimit(AckerError):
    """The spout task or the store has no space for the batch.

    A retry helps unless the batch alone has more roots than ``max_spout_pending``.
    """

    code = "pending_limit"

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class ConcurrentQuery(AckerError):
    """Another query has emitted roots of this batch, and they are still pending."""

    code = "concurrent_query"


class NondeterministicBatch(AckerError):
    """Spark lost and recomputed a part of the batch, and the rows differ. Nothing was sent: start the query again."""

    code, retryable = "nondeterministic_batch", True


class QueryStopped(AckerError):
    """Spark is stopping the query: nothing of the batch was acked. It runs again when the query is started again."""

    code, retryable = "query_stopped", True


class DataLoss(AckerError):
    """Completions of a batch that is read again are gone from the mailbox (``failOnDataLoss``)."""

    code = "data_loss"
