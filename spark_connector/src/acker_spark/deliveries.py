"""Knows what a batch holds: which roots, at which edges, and which rows are doubles of a message."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from acker_spark.columns import EDGE, FOLLOWING, MESSAGE, ROOT, ROW_LEVEL, TAG, hashed, need, unsigned
from acker_spark.errors import Misuse, NullMessageId, RowsChanged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LONGEST_MESSAGE_ID = 1_024
KEPT, LAST = "_ack_kept", "_ack_last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One edge of one root that this batch takes on itself.

    Where the root begins here, with ``message_id``, the tree begins with ``ack_val``.
    """

    root_id: int
    edge_id: int
    message_id: str | None
    ack_val: int


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
    return dict(frame.dtypes).get(MESSAGE) == "string"


def of_root(frame: "DataFrame") -> bool:
    """Whether all rows of a root in this frame were made of one message: those of `root`, in any way of a fork."""
    return dict(frame.dtypes).get(MESSAGE) in ("string", FOLLOWING)


def owned(frame: "DataFrame", claim: Claim) -> "DataFrame":
    """Give the rows the edges of this batch: where it begins the roots they are its own, else those they came with.

    With the batch in the edge, what another query sends for the same root can never bring its tree to zero.
    """
    need(frame, ROOT, EDGE, MESSAGE, TAG, who="acker.batch")
    if worked := [name for name in ROW_LEVEL if name in frame.columns]:
        raise Misuse(
            f"these rows were worked on at row level ({', '.join(worked)}): give foreachBatch acker.ack_rows(f), "
            "not acker.batch(f)"
        )
    return frame.withColumn(EDGE, hashed(*claim.words, F.col(ROOT))) if begins_here(frame) else frame


def taken(frame: "DataFrame") -> "tuple[list[Delivery], DataFrame]":
    """Find what the batch takes on itself, and the rows without those of doubled deliveries.

    Rows made of one message are told apart from doubles of it by the tag they got in root() or received(): of several
    tags one is kept. Raises `NullMessageId`.
    """
    grouped = frame.groupBy(ROOT, EDGE, MESSAGE).agg(F.min(TAG).alias(KEPT), F.max(TAG).alias(LAST))
    columns = grouped.toArrow().to_pydict()  # a text is a key here: to find the first, Spark would sort all rows
    begins = begins_here(frame)
    rows = zip(columns[ROOT], columns[EDGE], columns[MESSAGE], strict=True)
    found = [delivery(root, edge, message, begins=begins) for root, edge, message in rows]
    return in_order(found), without_doubles(frame, columns, ROOT, EDGE)


def in_order(found: list[Delivery]) -> list[Delivery]:
    """Order by root, so that a batch that is run again begins with the same one."""
    return sorted(found, key=lambda one: (one.root_id, one.edge_id))


def delivery(
    root: int | None, edge: int | None, message: str | None, *, begins: bool, ack_val: int | None = None
) -> Delivery:
    """Check what a batch takes on itself. Raises `NullMessageId`, `Misuse`."""
    if begins and message is None:
        raise NullMessageId("a row has no message id: nobody could be told what became of it")
    if root is None or edge is None:
        raise NullMessageId("a row has no root id or no edge id, or one that is not 16 lowercase hex digits")
    if message is not None and len(message.encode()) > LONGEST_MESSAGE_ID:
        raise Misuse(f"a message id is longer than {LONGEST_MESSAGE_ID} bytes: {message[:40]!r}…")
    value = unsigned(edge if ack_val is None else ack_val)
    return Delivery(root_id=unsigned(root), edge_id=unsigned(edge), message_id=message, ack_val=value)


def without_doubles(frame: "DataFrame", columns: dict[str, list[Any]], *keys: str) -> "DataFrame":
    """Keep of each delivered thing the rows of one tag only; the frame itself where all have one.

    They are computed here and once. Rows that are computed anew, when a machine was lost, may have other tags: then
    none would be kept of a message that is acked. Raises `RowsChanged`.
    """
    tags = zip(columns[KEPT], columns[LAST], strict=True)
    doubled = [at for at, (kept, last) in enumerate(tags) if kept != last]
    if not doubled:
        return frame
    rows = [tuple(columns[name][at] for name in (*keys, KEPT)) for at in doubled]
    kept = F.broadcast(frame.sparkSession.createDataFrame(rows, ", ".join(f"{key} bigint" for key in (*keys, KEPT))))
    joined = frame.join(kept, list(keys), "left")
    chosen = joined.where(F.col(KEPT).isNull() | (F.col(KEPT) == F.col(TAG))).localCheckpoint()
    _refuse_changed(chosen.where(F.col(KEPT).isNotNull()).select(*keys).distinct().count(), len(doubled))
    return chosen.select(*frame.columns)


def _refuse_changed(found: int, wanted: int) -> None:
    if found != wanted:
        raise RowsChanged(
            f"of {wanted} messages that came twice, rows of {found} are left: a part of the batch was lost and "
            "computed anew, and came out otherwise. Nothing was sent of it; start the query again"
        )
