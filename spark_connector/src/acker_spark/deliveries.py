"""Knows what a batch holds: which roots, at which edges, and which rows are doubles of a message."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from acker_spark.columns import EDGE, MESSAGE, ROOT, TAG, hashed, need, unsigned
from acker_spark.errors import Misuse, NullMessageId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LONGEST_MESSAGE_ID = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One edge of one root that this batch takes on itself; ``message_id`` where the root begins here."""

    root_id: int
    edge_id: int
    message_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """By what a batch knows its own work when it is run again: ids made from it are the same then, and no others'."""

    query_id: str
    batch_id: int

    @property
    def words(self) -> tuple[str, str]:
        """The parts of every id that only this batch may make."""
        return self.query_id, str(self.batch_id)


def begins_here(frame: "DataFrame") -> bool:
    """Whether the roots of these rows are begun by their batch: `root` says so, `received` does not."""
    return MESSAGE in frame.columns


def owned(frame: "DataFrame", claim: Claim) -> "DataFrame":
    """Give the rows the edges of this batch: where it begins the roots they are its own, else those they came with.

    With the batch in the edge, what another query sends for the same root can never bring its tree to zero.
    """
    need(frame, ROOT, EDGE, TAG, who="acker.batch")
    return frame.withColumn(EDGE, hashed(*claim.words, F.col(ROOT))) if begins_here(frame) else frame


def taken(frame: "DataFrame") -> "tuple[list[Delivery], DataFrame]":
    """Find what the batch takes on itself, and the rows without those of doubled deliveries.

    Rows made of one message are told apart from doubles of it by the tag they got in root() or received(): of several
    tags one is kept. Raises `NullMessageId`.
    """
    message = F.first(MESSAGE) if begins_here(frame) else F.lit(None).cast("string")
    grouped = frame.groupBy(ROOT, EDGE).agg(
        message.alias(MESSAGE), F.min(TAG).alias("_ack_kept"), F.max(TAG).alias("_ack_last")
    )
    columns = grouped.toArrow().to_pydict()
    deliveries = _deliveries(columns, begins=begins_here(frame))
    doubled = [at for at, (kept, last) in enumerate(_tags(columns)) if kept != last]
    return deliveries, _without_doubles(frame, columns, doubled) if doubled else frame


def _deliveries(columns: dict[str, list[Any]], *, begins: bool) -> list[Delivery]:
    """Order them by root, so that a batch that is run again begins with the same one."""
    rows = zip(columns[ROOT], columns[EDGE], columns[MESSAGE], strict=True)
    return sorted((_delivery(*row, begins=begins) for row in rows), key=lambda one: (one.root_id, one.edge_id))


def _delivery(root: int | None, edge: int | None, message: str | None, *, begins: bool) -> Delivery:
    if begins and message is None:
        raise NullMessageId("a row has no message id: nobody could be told what became of it")
    if root is None or edge is None:
        raise NullMessageId("a row has no root id or no edge id, or one that is not 16 lowercase hex digits")
    if message is not None and len(message.encode()) > LONGEST_MESSAGE_ID:
        raise Misuse(f"a message id is longer than {LONGEST_MESSAGE_ID} bytes: {message[:40]!r}…")
    return Delivery(root_id=unsigned(root), edge_id=unsigned(edge), message_id=message)


def _tags(columns: dict[str, list[Any]]) -> "zip[tuple[float, float]]":
    return zip(columns["_ack_kept"], columns["_ack_last"], strict=True)


def _without_doubles(frame: "DataFrame", columns: dict[str, list[Any]], doubled: list[int]) -> "DataFrame":
    rows = [(columns[ROOT][at], columns[EDGE][at], columns["_ack_kept"][at]) for at in doubled]
    kept = frame.sparkSession.createDataFrame(rows, f"{ROOT} bigint, {EDGE} bigint, _ack_kept double")
    joined = frame.join(F.broadcast(kept), [ROOT, EDGE], "left")
    one = joined.where(F.col("_ack_kept").isNull() | (F.col("_ack_kept") == F.col(TAG)))
    return one.select(*frame.columns)
