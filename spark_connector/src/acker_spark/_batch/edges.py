"""The edges that a batch takes on: which roots, at which edges, and which rows belong to a second delivery."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from acker_spark._batch.columns import (
    ANCHORS,
    EDGE,
    FOLLOWING,
    MESSAGE,
    ROOT,
    ROW_LEVEL,
    SEVERAL,
    TAG,
    each_anchor,
    hashed,
    require_columns,
    unsigned,
)
from acker_spark.errors import NondeterministicBatch, NullMessageId, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_MESSAGE_ID_BYTES = 1_024
KEPT, LAST = "acker_kept", "acker_last"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEdge:
    """One edge of one root that a batch takes on.

    Where the batch emits the root, with ``message_id``, the tree begins with ``ack_val``.
    """

    root_id: int
    edge_id: int
    message_id: str | None
    ack_val: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchId:
    """Identifies a batch, the same when it runs again; ids made from it are of no other batch."""

    query_id: str
    batch_id: int

    @property
    def parts(self) -> tuple[str, str]:
        """The parts of every id that only this batch may make."""
        return self.query_id, str(self.batch_id)


def begins_here(frame: "DataFrame") -> bool:
    """Return whether the batch of these rows emits their roots: root() says so, received() does not."""
    return dict(frame.dtypes).get(MESSAGE) == "string"


def of_root(frame: "DataFrame") -> bool:
    """Return whether all rows of a root in this frame were made of one message: a frame of root(), or its branch."""
    return dict(frame.dtypes).get(MESSAGE) in ("string", FOLLOWING)


def with_batch_edges(frame: "DataFrame", batch: BatchId) -> "DataFrame":
    """Give the rows the edges of this batch: its own where it emits the roots, else those they came with.

    With the batch in the edge, acks of another query for the same root never bring its tree to zero. Raises
    `UsageError` for a frame of the row level, `MissingAnchors`.
    """
    kind = dict(frame.dtypes).get(MESSAGE)
    names = ROW_LEVEL if kind == SEVERAL else (*ROW_LEVEL, ANCHORS)
    if found := [name for name in names if name in frame.columns]:
        raise UsageError(
            f"these rows were worked on at row level ({', '.join(found)}): give foreachBatch acker.foreach_rows(f), "
            "not acker.foreach_batch(f)"
        )
    require_columns(frame, ROOT, EDGE, MESSAGE, TAG, caller="acker.foreach_batch")
    return frame.withColumn(EDGE, hashed(*batch.parts, F.col(ROOT))) if begins_here(frame) else frame


def collect_edges(frame: "DataFrame") -> "tuple[list[BatchEdge], DataFrame]":
    """Return the edges that the batch takes on, and the rows without second deliveries.

    Rows made of one message and rows of its second delivery have different tags, from root() or received(): the rows of
    one tag are kept. Raises `NullMessageId`.
    """
    keys = (ROOT, EDGE, MESSAGE)
    tags = (F.min(TAG).alias(KEPT), F.max(TAG).alias(LAST))
    # The message id is a key here: to find the first text of a group Spark would sort all rows.
    messages = frame.groupBy(*keys).agg(*tags).toArrow().to_pydict()
    found = each_anchor(frame).distinct().toArrow().to_pydict() if ANCHORS in frame.columns else messages
    ids = found.get(MESSAGE, [None] * len(found[ROOT]))
    begins = begins_here(frame)
    edges = [batch_edge(*one, begins=begins) for one in zip(found[ROOT], found[EDGE], ids, strict=True)]
    return sort_edges(edges), without_second_deliveries(frame, messages, ROOT, EDGE)


def sort_edges(found: list[BatchEdge]) -> list[BatchEdge]:
    """Sort by root, so that a batch that runs again begins with the same one."""
    return sorted(found, key=lambda one: (one.root_id, one.edge_id))


def batch_edge(
    root: int | None, edge: int | None, message: str | None, *, begins: bool, ack_val: int | None = None
) -> BatchEdge:
    """Check one edge of a batch. Raises `NullMessageId`, `UsageError`."""
    if begins and message is None:
        raise NullMessageId(
            "a row has no message id: its outcome would belong to no message. Filter such rows out before root()"
        )
    if root is None or edge is None:
        raise NullMessageId("a row has no root id or no edge id, or one that is not 16 lowercase hex digits")
    if message is not None and len(message.encode()) > MAX_MESSAGE_ID_BYTES:
        raise UsageError(f"a message id is longer than {MAX_MESSAGE_ID_BYTES} bytes: {message[:40]!r}…")
    value = unsigned(edge if ack_val is None else ack_val)
    return BatchEdge(root_id=unsigned(root), edge_id=unsigned(edge), message_id=message, ack_val=value)


def without_second_deliveries(frame: "DataFrame", found: dict[str, list[Any]], *keys: str) -> "DataFrame":
    """Keep the rows of one tag for each key; return the frame itself where all rows of a key have one tag.

    The rows are computed here, once. If a machine is lost and Spark computes them again their tags may differ, and none
    would be kept of a message that is acked. Raises `NondeterministicBatch`.
    """
    tags = zip(found[KEPT], found[LAST], strict=True)
    doubled = [at for at, (kept, last) in enumerate(tags) if kept != last and found[keys[0]][at] is not None]
    if not doubled:
        return frame
    rows = [tuple(found[name][at] for name in (*keys, KEPT)) for at in doubled]
    kept = F.broadcast(frame.sparkSession.createDataFrame(rows, ", ".join(f"{key} bigint" for key in (*keys, KEPT))))
    joined = frame.join(kept, list(keys), "left")
    chosen = joined.where(F.col(KEPT).isNull() | (F.col(KEPT) == F.col(TAG))).localCheckpoint()
    _check_unchanged(chosen.where(F.col(KEPT).isNotNull()).select(*keys).distinct().count(), len(doubled))
    return chosen.select(*frame.columns)


def _check_unchanged(found: int, expected: int) -> None:
    if found != expected:
        raise NondeterministicBatch(
            f"of {expected} messages that came twice, rows of {found} are left: a part of the batch was lost, Spark "
            "computed it again and got other rows. Nothing of the batch was sent; start the query again"
        )
