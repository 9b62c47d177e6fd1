"""Knows what every batch does with the acker: begin its roots, keep them from timing out, ship its deltas."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acker_protocol.operations import Fail, Operation, ResetTimeout
from pyspark.errors import PySparkException

from acker_spark import beginning, origin, shipping
from acker_spark.deliveries import Claim, Delivery
from acker_spark.errors import AnotherQuery, NoQueryId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from acker_spark.connected import Connected

log = logging.getLogger("acker_spark")
UNTOLD = (
    "Spark does not tell the query's id here: under Spark Connect, or where the function is not called by a query, "
    "give one name for each checkpoint, as Acker(…, query_id='counts-1')"
)
_guard = threading.Lock()
_running: set[str] = set()
"""The ids of the queries whose batches are running in this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The course of one batch."""

    acker: "Connected"
    claim: Claim

    @classmethod
    def of(cls, acker: "Connected", batch: "DataFrame", batch_id: int) -> "Course":
        """Find out whose batch this is. Raises `NoQueryId`, `Misuse`."""
        origin.refuse_foreign(batch, acker.options)
        query_id = query_id_of(batch, acker.options.query_id)
        return cls(acker=acker, claim=Claim(query_id=query_id, batch_id=batch_id))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Refuse a second query of this process under the same id: it would take the first one's work for its own.

        Raises `AnotherQuery`.
        """
        name = self.claim.query_id
        with _guard:
            if name in _running:
                raise AnotherQuery(
                    f"another query runs under the query id {name!r}: its batches could not be told from these"
                )
            _running.add(name)
        try:
            yield
        finally:
            _running.discard(name)

    @contextmanager
    def attended(self, taken: Sequence[Delivery], *, here: bool) -> Iterator[int]:
        """Begin the roots of a batch, if that is done here, and give how many were new; none times out in the block.

        The first of many could, while the last are begun; and so could those that were begun before, by somebody else
        or by a run of this batch that was cut off: they may have little time left, so theirs is reset at once.
        """
        self.acker.topology.refuse_crowd(len(taken) if here else 0)
        roots = dict.fromkeys(one.root_id for one in taken)

        def beat() -> None:
            self.acker.pulse.send([ResetTimeout(root_id=root) for root in roots])

        with self.acker.heartbeat(beat) as heartbeat:
            begun = beginning.begin(self.acker.line, self.acker.options, self.claim, taken) if here else 0
            if begun < len(roots):
                heartbeat.beat()
            yield begun

    def ship(self, deltas: Sequence[Operation], *, begun: int, sent: int) -> None:
        """Ship the deltas of a batch, and tell what they were."""
        late = shipping.late(self.acker.line.send(deltas))
        if late:
            log.warning("%d of %d deltas of batch %d found their roots done", late, len(deltas), self.claim.batch_id)
        failed = sum(1 for delta in deltas if isinstance(delta, Fail))
        self.acker.tell(
            shipping.Shipped(
                query_id=self.claim.query_id,
                batch_id=self.claim.batch_id,
                begun=begun,
                acked=len(deltas) - failed,
                failed=failed,
                sent=sent,
                late=late,
            )
        )


def query_id_of(batch: "DataFrame", given: str | None) -> str:
    """Find the id of the query, the same after a restart from its checkpoint. Raises `NoQueryId`."""
    found = given or _told(batch)
    if not found:
        raise NoQueryId(UNTOLD)
    return found


def refuse_nameless(frame: "DataFrame", given: str | None) -> None:
    """Raise `NoQueryId` for a frame of Spark Connect while its query is written, and not out of its first batch."""
    if not given and type(frame).__module__.startswith("pyspark.sql.connect."):
        raise NoQueryId(UNTOLD)


def _told(batch: "DataFrame") -> str | None:
    try:
        return batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    except (PySparkException, AttributeError):
        return None
