"""Knows the course of one batch: its roots begin, its function runs under a heartbeat, its deltas are shipped."""

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acker_protocol.messages import ResetTimeout
from pyspark.errors import PySparkException

from acker_spark import beginning, deliveries, shipping
from acker_spark.deliveries import Claim, Delivery
from acker_spark.errors import Misuse, NoQueryId
from acker_spark.heartbeat import Heartbeat
from acker_spark.ledger import Book, Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from acker_spark.acker import Acker

    Function = Callable[[DataFrame, int, Ledger], object]

log = logging.getLogger("acker_spark")
BEATS_PER_TIMEOUT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFunction:
    """What is given to ``foreachBatch``: calls ``function(batch, batch_id, ledger)``, and acks what it was given.

    When the function raises nothing is sent: the query ends, and when it is started again the batch is run anew.
    """

    acker: "Acker"
    function: "Function"

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        """Run one batch."""
        claim = Claim(query_id=query_id_of(batch, self.acker.options.query_id), batch_id=batch_id)
        frame = deliveries.owned(batch, claim).persist()
        try:
            self._run(frame, claim)
        finally:
            frame.unpersist()

    def _run(self, frame: "DataFrame", claim: Claim) -> None:
        taken, rows = deliveries.taken(frame)
        begun = self._begin(frame, claim, taken)
        book = Book.of(taken)
        with self._heartbeat(taken):
            self._call(rows, claim.batch_id, book)
            self._ship(book, claim, begun)

    def _begin(self, frame: "DataFrame", claim: Claim, taken: Sequence[Delivery]) -> int:
        topology = self.acker.topology
        if not deliveries.begins_here(frame):
            return 0
        topology.refuse_crowd(len(taken))
        return beginning.begin(self.acker.line, self.acker.options, claim, taken)

    def _call(self, rows: "DataFrame", batch_id: int, book: Book) -> None:
        ledger = Ledger(book)
        try:
            self.function(rows, batch_id, ledger)
        finally:
            ledger.close()

    def _heartbeat(self, taken: Sequence[Delivery]) -> Heartbeat:
        roots = dict.fromkeys(one.root_id for one in taken)
        resets = [ResetTimeout(root_id=root) for root in roots]
        return self.acker.heartbeat(lambda: self.acker.pulse.send(resets))

    def _ship(self, book: Book, claim: Claim, begun: int) -> None:
        deltas = shipping.deltas(book)
        answers = self.acker.line.send(deltas)
        late = shipping.late(answers)
        if late:
            log.warning("%d of %d deltas of batch %d found their roots finished", late, len(deltas), claim.batch_id)
        failed = len(book.failed)
        self.acker.tell(
            shipping.Shipped(
                query_id=claim.query_id,
                batch_id=claim.batch_id,
                begun=begun,
                acked=len(deltas) - failed,
                failed=failed,
                sent=book.sent,
                late=late,
            )
        )


def checked(function: Any, *rest: Any) -> "Function":
    """Take the function of a batch. Raises `Misuse` for what is none, and where ``acker.batch`` itself was given."""
    if rest or not callable(function):
        raise Misuse(
            "write foreachBatch(acker.batch(f)) with f(batch, batch_id, ledger), not foreachBatch(acker.batch) alone"
        )
    try:
        inspect.signature(function).bind(None, 0, None)
    except TypeError as fault:
        raise Misuse(f"the function of acker.batch is called as f(batch, batch_id, ledger): {fault}") from None
    return function  # type: ignore[no-any-return]  # its signature was looked at


def query_id_of(batch: "DataFrame", given: str | None) -> str:
    """Find the id of the query, the same after a restart from its checkpoint. Raises `NoQueryId`."""
    found = given or _told(batch)
    if not found:
        raise NoQueryId(
            "Spark does not tell the query's id here: under Spark Connect, or where the function is not called by a "
            "query, give one name for each checkpoint, as Acker(…, query_id='counts-1')"
        )
    return found


def _told(batch: "DataFrame") -> str | None:
    try:
        return batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    except (PySparkException, AttributeError):
        return None
