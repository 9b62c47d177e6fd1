"""The operations of a client: ack, fail and reset the timeout of tuples, end their blocks, send inits and batches."""

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from acker_protocol.operations import OperationState
from acker_protocol.tracing import is_marked

from acker_client._core.batch import Batch, open_batch
from acker_client._core.delivery import deliver, raise_if_any_refused, raise_if_refused
from acker_client._core.effects import RunBlocking
from acker_client._core.flusher import Flusher
from acker_client._tuple_base import check_tuple
from acker_client.errors import DropTuple, TupleSignal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from acker_protocol.operations import Operation

    from acker_client._core.effects import Flow
    from acker_client._core.retry import RetrySession
    from acker_client._tuple_base import BaseTuple

    OnDrop = Callable[[Any, DropTuple], Any]

_log = logging.getLogger("acker_client")


class Submitter:
    """Sends operations of one topology. An open batch collects them; without one, acks are buffered.

    ``dropped_tuples`` and ``untracked_tuples`` count what a block dropped, and what came without anchors.
    """

    def __init__(self, session: "RetrySession", *, on_drop: "OnDrop") -> None:
        self.session = session
        self.flusher = Flusher(session)
        self.dropped_tuples = 0
        self.untracked_tuples = 0
        self._on_drop = on_drop

    def ack(self, tup: "BaseTuple") -> "Flow[list[OperationState]]":
        """Ack a tuple."""
        self.flusher.buffer.raise_failures()
        return (yield from self._ack(check_tuple(tup)))

    def fail(self, tup: "BaseTuple", *, reason: str | None) -> "Flow[list[OperationState]]":
        """Fail every root of a tuple."""
        self.flusher.buffer.raise_failures()
        return (yield from self.submit(check_tuple(tup).fail_operations(reason)))

    def reset_timeout(self, tup: "BaseTuple") -> "Flow[list[OperationState]]":
        """Reset the timeout of every root of a tuple: at once, since at the end of a batch it could be too late."""
        operations = check_tuple(tup).reset_operations()
        yield from self.flusher.flush_conflicting(operations)
        return (yield from self._send(operations))

    def open(self, tup: "BaseTuple") -> "Flow[None]":
        """Begin the block of a tuple.

        With ``on_error="leave_open"`` a redelivered message gives a child without a key another edge, and if the first
        was acked the root times out. Without a dedupe window such a child is refused, so the topology is read first.
        """
        self.flusher.buffer.raise_failures()
        if tup.tracked and tup.on_error == "leave_open" and not tup.repeatable:
            info = yield from self.session.topology_info()
            if not info.dedupes:
                tup.require_keys(
                    "with on_error='leave_open' a redelivery would give it another edge, and the topology has no "
                    "dedupe_window: give it a key, or receive with repeatable=True"
                )

    def complete(self, tup: "BaseTuple") -> "Flow[list[OperationState]]":
        """Ack a tuple whose block ended without an exception, unless the block has ended it."""
        return (yield from self._ack(tup)) if not tup.closed else []

    def interrupt(self, tup: "BaseTuple", error: BaseException) -> "Flow[bool]":
        """End a tuple whose block raised; True for a signal, which does not leave the block.

        Fails the tuple, unless the block has ended it or leaves it open. What is not an `Exception`
        (KeyboardInterrupt, CancelledError) ends the program and sends nothing.
        """
        signal = isinstance(error, TupleSignal)
        if isinstance(error, DropTuple):
            yield from self._drop(tup, error)
        elif isinstance(error, Exception) and not tup.closed and (signal or tup.on_error == "fail"):
            yield from self.submit(tup.fail_operations(str(error) or type(error).__name__))
        return signal

    def submit(self, operations: "Sequence[Operation]") -> "Flow[list[OperationState]]":
        """Send inits or fails, after what is in flight for their roots; an open batch collects them."""
        batch = open_batch(self)
        if batch is not None:
            batch.operations.add(operations)
            return []
        yield from self.flusher.flush_conflicting(operations)
        return (yield from self._send(operations))

    def flush(self) -> "Flow[None]":
        """Send what is buffered, and raise what could not be delivered."""
        yield from self.flusher.flush(raising=True)

    def send_batch(self, batch: Batch) -> "Flow[None]":
        """Send what a batch has collected. Raises `BatchError` for the operations that were not accepted."""
        if batch:
            batch.results = yield from deliver(self.session, batch.operations.operations())
            raise_if_any_refused(batch.results)

    def count_untracked(self) -> None:
        """Count a tuple that came without anchors; the first is logged, since the sender may have lost the header."""
        self.untracked_tuples += 1
        if self.untracked_tuples == 1:
            _log.debug("a message without the Acker-Anchors header is not tracked (logged once; see stats())")

    def is_traced(self, root_id: int) -> bool:
        """Whether operations name the edges of a root, as far as the topology is known."""
        info = self.session.cached_info
        return is_marked(root_id) if info is None else info.is_traced(root_id)

    def _ack(self, tup: "BaseTuple") -> "Flow[list[OperationState]]":
        """Close the tuple only when nothing can go wrong any more before its acks are in flight."""
        batch = open_batch(self)
        add = (yield from self.flusher.fold_policy()) if tup.tracked else None
        if batch is not None and add is not None:
            add(batch.operations, tup.ack_operations(self.is_traced))
        elif add is not None and self.flusher.is_buffering:
            yield from self.flusher.wait_for_space()
            yield from self.flusher.add(add, tup.ack_operations(self.is_traced))
        else:
            return (yield from self._send(tup.ack_operations(self.is_traced)))
        return []

    def _drop(self, tup: "BaseTuple", drop: DropTuple) -> "Flow[None]":
        self.dropped_tuples += 1
        yield RunBlocking(function=partial(self._on_drop, tup, drop))
        yield from self.complete(tup)

    def _send(self, operations: "Sequence[Operation]") -> "Flow[list[OperationState]]":
        if not operations:
            return []
        results = yield from deliver(self.session, operations)
        for result in results:
            raise_if_refused(result)
        return [result.state for result in results]


def log_drop(tup: "BaseTuple", drop: DropTuple) -> None:
    """Log a dropped tuple: the default of ``on_drop``."""
    _log.warning("%s was dropped: %s", tup, drop)
