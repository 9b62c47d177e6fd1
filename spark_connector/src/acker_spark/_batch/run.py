"""What every batch does with the acker: emit its roots, keep them from timing out, ship its deltas."""

import logging
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from acker_protocol.operations import Fail, Operation, OperationState, ResetTimeout
from acker_protocol.wire.fields import REASON_CHARACTERS

from acker_spark._batch import begin, ownership, sinks
from acker_spark._batch.columns import check_joined
from acker_spark._batch.edges import BatchEdge, BatchId
from acker_spark._batch.periodic import PeriodicCall, Wait
from acker_spark._batch.progress import LOGGED_EVERY_S, Progress, Stage
from acker_spark._batch.running import RunningQuery
from acker_spark.errors import AckerError, ConcurrentQuery, QueryIdRequired

if TYPE_CHECKING:
    from acker_client import OperationResult
    from pyspark.sql import DataFrame

    from acker_spark._batch.client_base import _ClientBase

log = logging.getLogger("acker_spark")
QUERY_ID_UNKNOWN = (
    "Spark does not give the query's id here. In a thread that a batch's function starts (threading, "
    "ThreadPoolExecutor) use pyspark.InheritableThread; unset PYSPARK_PIN_THREAD if it is false. Under Spark Connect, "
    "or where no query calls the function, set one name for each checkpoint, as SparkAcker(…, query_id='counts-1')"
)
_guard = threading.Lock()
_running: set[str] = set()
"""The ids of the queries whose batches are running in this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What one batch sent to the acker; ``on_batch`` gets it."""

    query_id: str
    batch_id: int
    emitted: int
    """Roots that the batch emitted; 0 when it runs again."""
    acked: int
    """Edges that were acked."""
    failed: int
    """Roots that were failed."""
    forwarded: int
    """Edges that the collector emitted, to be acked elsewhere."""
    late: int
    """Deltas whose root had finished before: it had timed out or failed, or its message came again after its tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """One run of one batch."""

    acker: "_ClientBase"
    batch: BatchId
    query: RunningQuery | None = None
    """The query that runs the batch, where Spark shows it."""
    progress: Progress = field(default_factory=Progress)

    @classmethod
    def of(cls, acker: "_ClientBase", frame: "DataFrame", batch_id: int) -> "BatchRun":
        """Find out whose batch this is. Raises `QueryIdRequired`, `UsageError`."""
        query = RunningQuery.of(frame)
        sinks.note_tracked(query)
        check_joined(frame)
        ownership.check_owner(frame, acker.options)
        query_id = acker.options.query_id or (query and query.query_id)
        if not query_id:
            raise QueryIdRequired(QUERY_ID_UNKNOWN)
        return cls(acker=acker, batch=BatchId(query_id=query_id, batch_id=batch_id), query=query)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Refuse a second query of this process with the same id: each would take the other's work for its own.

        Raises `ConcurrentQuery`.
        """
        name = self.batch.query_id
        with _guard:
            if name in _running:
                raise ConcurrentQuery(
                    f"another query runs with the query id {name!r}, and their batches could not be distinguished: "
                    "give each query a query_id of its own"
                )
            _running.add(name)
        try:
            with sinks.at_work(self.query):
                yield
        finally:
            _running.discard(name)

    def logged(self, *, wait: Wait = threading.Event.wait) -> PeriodicCall:
        """Log each minute how far the batch has come, while a block runs."""
        minutes = count(1)

        def log_progress() -> bool:
            seconds = LOGGED_EVERY_S * next(minutes)
            if described := self.progress.describe():
                log.warning("batch %d has run for %d s: %s", self.batch.batch_id, seconds, described)
            return True

        return PeriodicCall(log_progress, name="acker-progress", every=LOGGED_EVERY_S, wait=wait)

    @contextmanager
    def keep_alive(self, edges: Sequence[BatchEdge], *, begins: bool) -> Iterator[int]:
        """Emit the roots of a batch if ``begins``, yield the number of new ones, and reset their timeouts in the block.

        The first of many roots could time out while the last are emitted. Roots that were emitted before, elsewhere or
        by an earlier run of this batch, may have little time left, so their timeouts are reset at once.
        """
        self.acker.topology.check_pending_limit(len(edges) if begins else 0)
        roots = dict.fromkeys(one.root_id for one in edges)

        def beat() -> None:
            self.acker.heartbeat_client.send([ResetTimeout(root_id=root) for root in roots])

        with self.acker.heartbeat(beat) as heartbeat:
            emitted = self._begin(edges) if begins else 0
            if emitted < len(roots):
                self.progress.begin(Stage.RESETTING, len(roots))
                heartbeat.beat()
            self.progress.begin(Stage.WORKING)
            yield emitted

    def _begin(self, edges: Sequence[BatchEdge]) -> int:
        self.progress.begin(Stage.EMITTING, len(edges))
        return begin.begin(self.acker.sender, self.acker.options, self.batch, edges, on_sent=self.progress.count)

    @contextmanager
    def fail_raised(self, edges: Sequence[BatchEdge]) -> Iterator[None]:
        """Fail the roots of a batch with what its function raises, if ``fail_raised`` is set.

        What a function raises because its query is being stopped is no failure: the batch runs again.
        """
        try:
            yield
        except Exception as error:
            is_stopping = self.query is not None and self.query.is_stopping()
            if self.acker.options.fail_raised and not is_stopping:
                self._fail(edges, reason_of(error))
            raise

    def _fail(self, edges: Sequence[BatchEdge], reason: str) -> None:
        roots = dict.fromkeys(one.root_id for one in edges)
        try:
            self._send([Fail(root_id=root, reason=reason) for root in roots])
        except AckerError:
            log.exception("the roots of batch %d could not be failed; they time out", self.batch.batch_id)

    def ship(self, deltas: Sequence[Operation], *, emitted: int, forwarded: int) -> None:
        """Send the deltas of a batch, and report them. Raises `QueryStopped`."""
        if self.query is not None:
            self.query.check_not_stopping(self.batch.batch_id)
        late = _count_late(deltas, self._send(deltas))
        if late:
            log.warning("%d of %d deltas of batch %d found their roots done", late, len(deltas), self.batch.batch_id)
        failed = sum(1 for delta in deltas if isinstance(delta, Fail))
        self.acker.report(
            BatchReport(
                query_id=self.batch.query_id,
                batch_id=self.batch.batch_id,
                emitted=emitted,
                acked=len(deltas) - failed,
                failed=failed,
                forwarded=forwarded,
                late=late,
            )
        )

    def _send(self, deltas: Sequence[Operation]) -> "list[OperationResult]":
        self.progress.begin(Stage.SHIPPING, len(deltas))
        return self.acker.sender.send(deltas, on_sent=self.progress.count)


def reason_of(error: Exception) -> str:
    """Return the line that Python shows last for an exception; of a text of several lines the first."""
    shown = traceback.format_exception_only(type(error), error)[0]
    return shown.strip().splitlines()[0][:REASON_CHARACTERS]


def check_query_id(frame: "DataFrame", given: str | None) -> None:
    """Raise `QueryIdRequired` for a frame of Spark Connect before its query starts, instead of in its first batch."""
    if not given and type(frame).__module__.startswith("pyspark.sql.connect."):
        raise QueryIdRequired(QUERY_ID_UNKNOWN)


def _count_late(deltas: Sequence[Operation], results: "Iterable[OperationResult]") -> int:
    """Count the deltas that found their root done, but not those of a root that an earlier one has failed."""
    late, failed = 0, set[int]()
    for delta, result in zip(deltas, results, strict=True):
        late += result.state is OperationState.FINISHED and delta.root_id not in failed
        if isinstance(delta, Fail):
            failed.add(delta.root_id)
    return late
