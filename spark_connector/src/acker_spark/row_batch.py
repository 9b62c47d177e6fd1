"""Knows the course of one batch at row level: what its rows come to is found first, and told when they are written."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acker_protocol.operations import Ack, Fail, Operation

from acker_spark.columns import ANCHORS, EDGE, MESSAGE, OWN, ROOT, need, unsigned
from acker_spark.course import Course
from acker_spark.deliveries import Claim, Delivery, begins_here, delivery, of_root, without_doubles
from acker_spark.errors import EqualKeys
from acker_spark.held import held
from acker_spark.rows import live
from acker_spark.summing import COPIED, summed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from acker_spark.connected import Connected

    Function = Callable[[DataFrame, int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the rows of one root in a batch come to: the XOR of the edges that end here, and why it failed."""

    delivery: Delivery
    ended: int
    reason: str | None

    def message(self) -> Operation | None:
        """Write its delta, under the edge of this batch: it is applied once, however the batch is cut up.

        Where the root begins here that edge is in its tree, and ends with it.
        """
        own = self.delivery
        if self.reason is not None:
            return Fail(root_id=own.root_id, reason=self.reason)
        value = self.ended if own.message_id is None else self.ended ^ own.edge_id
        return Ack(root_id=own.root_id, ack_val=value, edge_id=own.edge_id) if value else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFunction:
    """What is given to ``foreachBatch`` at row level: calls ``function(rows, batch_id)`` with the rows that are live.

    When it returns, the rows that ``ends`` names are acked; those that failed fail their roots.
    """

    acker: "Connected"
    function: "Function"
    ends: "Callable[[DataFrame], Column]"
    keeps: tuple[str, ...] = ()

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        """Run one batch."""
        course = Course.of(self.acker, batch, batch_id)
        if ANCHORS not in batch.columns:
            need(batch, ROOT, EDGE, MESSAGE, who="acker.ack_rows")
        with held(batch) as frame, course.alone():
            self._run(course, frame)

    def _run(self, course: Course, frame: "DataFrame") -> None:
        standings, rows = standing(frame, course.claim, self.ends)
        taken = [one.delivery for one in standings]
        with course.attended(taken, here=begins_here(frame)) as begun:
            shown = rows.where(live(rows)).drop(*(name for name in OWN if name not in self.keeps))
            self.function(shown, course.claim.batch_id)
            deltas = [message for one in standings if (message := one.message()) is not None]
            course.ship(deltas, begun=begun, sent=0)


def standing(
    frame: "DataFrame", claim: Claim, ends: "Callable[[DataFrame], Column]"
) -> "tuple[list[Standing], DataFrame]":
    """Find what the rows of each root come to, and the rows without those of doubled messages."""
    found = summed(frame, claim, ends)
    rows = without_doubles(frame, found, ROOT) if of_root(frame) else frame
    if rows is not frame:
        found = summed(rows, claim, ends)
    begins = begins_here(frame)
    standings = [_standing(found, at, begins=begins) for at in range(len(found[ROOT]))]
    _refuse_copies(found)
    return sorted(standings, key=lambda one: one.delivery.root_id), rows


def _refuse_copies(found: dict[str, list[Any]]) -> None:
    """Raise `EqualKeys` for rows that leave with one edge: the first that is acked elsewhere would end it for all."""
    copied = [unsigned(root) for root, copies in zip(found[ROOT], found[COPIED], strict=True) if copies]
    if copied:
        raise EqualKeys(
            f"rows of {len(copied)} roots, as {copied[0]:016x}, would leave as copies with one edge: the tree would be "
            "done with the first of them. Make rows of a row with split_rows, and send a row on before it is joined"
        )


def _standing(found: dict[str, list[Any]], at: int, *, begins: bool) -> Standing:
    row = {name: values[at] for name, values in found.items()}
    first = None if row["own"] is None or row["start"] is None else row["own"] ^ row["start"]
    own = delivery(row[ROOT], row["own"], row[MESSAGE], begins=begins, ack_val=first)
    return Standing(delivery=own, ended=unsigned(row["ended"] or 0), reason=row["why"])
