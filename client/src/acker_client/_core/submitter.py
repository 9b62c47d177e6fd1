"""The operations of a client: ack, fail and reset the timeout of tuples, end their blocks, send inits and batches."""

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from acker_protocol.operations import OperationState
from acker_protocol.tracing import is_marked

from acker_client._core.delivery import deliver, raise_if_any_refused, raise_if_refused
from acker_client._core.effects import RunBlocking, finish
from acker_client._core.ended_roots import EndedRoots
from acker_client._core.flusher import Flusher
from acker_client._core.hot_path import FoldedOperations, open_batch
from acker_client._core.tuple_base import check_tuple
from acker_client.errors import DropTuple, TupleSignal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from acker_protocol.operations import Operation

    from acker_client._core.batch import Batch
    from acker_client._core.effects import Flow, Remaining, Spawn
    from acker_client._core.hot_path import OpenBatch, ReceivedTuple, TupleContext
    from acker_client._core.retry import RetrySession
    from acker_client._core.tuple_base import BaseTuple

    OnDrop = Callable[[Any, DropTuple], Any]

ENDED = frozenset({OperationState.FAILED, OperationState.FINISHED})
"""What a fail is answered whose root has ended."""

_log = logging.getLogger("acker_client")


class Submitter:
    """Sends operations of one topology. An open batch collects them; without one, acks are buffered.

    What needs no effect of beginning and acking a tuple is done in `hot_path`, which calls on here for what is left.

    ``dropped_tuples``, ``untracked_tuples`` and ``skipped_tuples`` count what a block dropped, what came without
    anchors, and what was not processed since its roots had ended.
    """

    def __init__(self, session: "RetrySession", *, on_drop: "OnDrop") -> None:
        self.session = session
        self.flusher = Flusher(session)
        self.dropped_tuples = 0
        self.untracked_tuples = 0
        self.skipped_tuples = 0
        self.ended_roots = EndedRoots(session)
        self._on_drop = on_drop

    def fail(self, tup: "BaseTuple", *, reason: str | None) -> "Flow[list[OperationState]]":
        """Fail every root of a tuple, or its edge alone where the root ends when all have ended."""
        self.flusher.buffer.raise_failures()
        return (yield from self.submit(check_tuple(tup).fail_operations(reason, self.is_traced)))

    def reset_timeout(self, tup: "BaseTuple") -> "Flow[list[OperationState]]":
        """Reset the timeout of every root of a tuple: at once, since at the end of a batch it could be too late."""
        operations = check_tuple(tup).reset_operations()
        yield from self.flusher.flush_conflicting(operations)
        return (yield from self._send(operations))

    def interrupt(self, tup: "BaseTuple", error: BaseException) -> "Flow[bool]":
        """End a tuple whose block raised; True for a signal, which does not leave the block.

        Fails the tuple, unless the block has ended it or leaves it open. What is not an `Exception`
        (KeyboardInterrupt, CancelledError) ends the program and sends nothing.
        """
        signal = isinstance(error, TupleSignal)
        if isinstance(error, DropTuple):
            yield from self._drop(tup, error)
        elif isinstance(error, Exception) and not tup.closed and (signal or tup.on_error == "fail"):
            yield from self.submit(tup.fail_operations(str(error) or type(error).__name__, self.is_traced))
        return signal

    def is_wanted(self, tup: "BaseTuple") -> "Flow[bool]":
        """Whether a tuple is to be processed: not if the service says that all its roots are finished."""
        return not (yield from self.ended_roots.have_ended(check_tuple(tup).roots()))

    def skip_if_ended(self, tup: "BaseTuple") -> "Flow[bool]":
        """Skip a tuple that is not wanted; False for any other."""
        if (yield from self.is_wanted(tup)):
            return False
        self.skip(tup)
        return True

    def skip(self, tup: "BaseTuple") -> None:
        """Close a tuple without an operation, and count it."""
        tup.close_unsent()
        self.skipped_tuples += 1

    def resume(self) -> "Spawn | None":
        """Forget the flows of an event loop that has ended, as `Flusher.resume`."""
        self.ended_roots.turns.abandon()
        return self.flusher.resume()

    def submit(self, operations: "Sequence[Operation]") -> "Flow[list[OperationState]]":
        """Send fails, after what is in flight for their roots; an open batch collects them."""
        batch = open_batch(self)
        if batch is not None:
            batch.operations.add(operations)
            return []
        states = yield from self.send(operations)
        self.ended_roots.note(op.root_id for op, state in zip(operations, states, strict=True) if state in ENDED)
        return states

    def send(self, operations: "Sequence[Operation]") -> "Flow[list[OperationState]]":
        """Send inits or fails now, after what is in flight for their roots."""
        yield from self.flusher.flush_conflicting(operations)
        return (yield from self._send(operations))

    def flush(self) -> "Flow[None]":
        """Send what is buffered, and raise what could not be delivered."""
        yield from self.flusher.flush(raising=True)

    def send_batch(self, batch: "Batch") -> "Flow[None]":
        """Send what a batch has collected. Raises `BatchError` for the operations that were not accepted."""
        if batch:
            batch.results = yield from deliver(self.session, batch.operations.operations())
            raise_if_any_refused(batch.results)

    def count_untracked(self) -> None:
        """Count a tuple that came without anchors; the first is logged, since the sender may have lost the header."""
        self.untracked_tuples += 1
        if self.untracked_tuples == 1:
            _log.debug("a message without the Acker-Anchors header is not tracked (logged once; see stats())")

    @property
    def is_traced(self) -> "Callable[[int], bool]":
        """Whether operations name the edges of a root, as far as the topology is known."""
        info = self.session.cached_info
        return is_marked if info is None else info.is_traced

    def ack_otherwise(
        self, tup: "ReceivedTuple", context: "TupleContext", batch: "OpenBatch | None", *, dropped: bool
    ) -> "Remaining[list[OperationState]]":
        """Ack a tuple where acks do not linger, or the topology was not read, or the buffer is full."""
        if tup.tracked and self.flusher.buffer.is_lingering:
            return self._ack_when_possible(tup, context, dropped=dropped)
        if tup.tracked and batch is None:
            return self._ack_now(tup, dropped=dropped)
        acks = tup.take_acks()
        if batch is not None:
            batch.operations.add_acks(acks, tup.component, fold=False, is_traced=self.is_traced, dropped=dropped)
        return None

    def attend(self) -> "Flow[list[OperationState]]":
        """Let a flusher send what is buffered, as `Flusher.attend`."""
        yield from self.flusher.attend()
        return []

    def require_keys(self, tup: "ReceivedTuple") -> "Flow[None]":
        """Refuse children of a tuple without a key, unless the topology has a dedupe window."""
        info = yield from self.session.topology_info()
        if not info.dedupes:
            tup.require_keys(
                "with on_error='leave_open' a redelivery would give it another edge, and the topology has no "
                "dedupe_window: give it a key, or receive with repeatable=True"
            )

    def _ack_when_possible(
        self, tup: "ReceivedTuple", context: "TupleContext", *, dropped: bool
    ) -> "Flow[list[OperationState]]":
        """Ack a tuple once the topology was read and the buffer has space."""
        yield from self.session.topology_info()
        yield from self.flusher.wait_for_space()
        return (yield from finish(tup.submit_ack(context, dropped, False))) or []  # noqa: FBT003

    def _ack_now(self, tup: "ReceivedTuple", *, dropped: bool) -> "Flow[list[OperationState]]":
        """Ack a tuple whose acks do not linger, by a request of their own."""
        self.flusher.check_open()
        acks = FoldedOperations()
        acks.add_acks(tup.take_acks(), tup.component, fold=False, is_traced=self.is_traced, dropped=dropped)
        return (yield from self._send(acks.operations()))

    def _drop(self, tup: "BaseTuple", drop: DropTuple) -> "Flow[None]":
        self.dropped_tuples += 1
        yield RunBlocking(function=partial(self._on_drop, tup, drop))
        yield from finish(tup.complete(dropped=True))

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
