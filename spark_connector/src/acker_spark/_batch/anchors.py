"""How the anchors of a row pass to the rows made of it: the invariant of the row level.

*The XOR of the edges of all rows of a root is the value that its tree waits for.* A row that is split in n gives child
i the edge H(i) ^ H(i+1), with H(0) the parent's edge, H(n) zero and H(k) a hash of the parent's edge, the stage and k:
the children XOR back to the parent's edge, and no proper subset of them does. All of it is native expressions of Spark.
"""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from acker_spark._batch.columns import ANCHORS, ANCHORS_TYPE, BRANCH, DONE, EDGE, FOLLOWING, MESSAGE, REASON, ROOT
from acker_spark._batch.edges import begins_here

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def anchors_of(frame: "DataFrame") -> "Column":
    """Return the anchors of each row as an array."""
    if ANCHORS in frame.columns:
        return F.col(ANCHORS)
    one = F.struct(F.col(ROOT).alias("root"), F.col(EDGE).alias("edge"), failure_reason(frame).alias("reason"))
    return F.array(one).cast(ANCHORS_TYPE)


def is_active(frame: "DataFrame") -> "Column":
    """Return for each row whether it is neither done nor failed."""
    return ~_is_done(frame) & failure_reason(frame).isNull()


def all_rows(_: "DataFrame") -> "Column":
    """Return true: every row ends in its batch."""
    return F.expr("true")


def inactive_rows(frame: "DataFrame") -> "Column":
    """Return for each row whether it was filtered out, or failed."""
    return ~is_active(frame)


def failure_reason(frame: "DataFrame") -> "Column":
    """Return the reason for which each row failed, null for the others."""
    return F.col(REASON) if REASON in frame.columns else F.lit(None).cast("string")


def mark_done(frame: "DataFrame", over: "Column") -> "DataFrame":
    """Mark rows as done; they stay in the frame as tombstones until their batch is shipped."""
    return frame.withColumn(DONE, _is_done(frame) | over)


def split_edges(frame: "DataFrame", stage: str, at: "Column", count: "Column") -> "DataFrame":
    """Give each row, child ``at`` of ``count``, its share of the parent's edges."""
    if ANCHORS not in frame.columns:
        return frame.withColumn(EDGE, _child_edge(F.col(EDGE), stage, at, count))
    linked = F.transform(ANCHORS, lambda one: one.withField("edge", _child_edge(one["edge"], stage, at, count)))
    return frame.withColumn(ANCHORS, linked).drop(ROOT, EDGE)


def share_edges(frame: "DataFrame", at: "Column", windows: "Column") -> "DataFrame":
    """Share the edge of a row among its copies in several windows."""
    return split_edges(frame, "window", at, windows)


def branch_of(frame: "DataFrame", at: int, branches: int) -> "DataFrame":
    """Return one branch of a frame; the roots are emitted by the batch of the first."""
    shared = split_edges(frame, "branch", F.lit(at), F.lit(branches)).withColumn(BRANCH, F.expr("true"))
    if at and begins_here(frame):
        return shared.withColumn(MESSAGE, F.lit(None).cast(FOLLOWING))
    return shared


def fail_anchors(frame: "DataFrame", reason: "Column") -> "DataFrame":
    """Fail rows where ``reason`` is not null."""
    if ANCHORS not in frame.columns:
        return frame.withColumn(REASON, F.coalesce(failure_reason(frame), reason))
    marked = frame.withColumn("acker_failing", reason)
    failed = marked.withColumn(ANCHORS, F.transform(ANCHORS, lambda one: _failed(one, F.col("acker_failing"))))
    return mark_done(failed, F.col("acker_failing").isNotNull()).drop("acker_failing")


def _child_edge(edge: "Column", stage: str, at: "Column", count: "Column") -> "Column":
    first = F.when(at == 0, edge).otherwise(F.xxhash64(edge, F.lit(stage), at))
    second = F.when(at + 1 >= count, F.lit(0).cast("bigint")).otherwise(F.xxhash64(edge, F.lit(stage), at + 1))
    return first.bitwiseXOR(second)


def _failed(one: "Column", reason: "Column") -> "Column":
    return one.withField("reason", F.coalesce(one["reason"], reason))


def _is_done(frame: "DataFrame") -> "Column":
    return F.col(DONE) if DONE in frame.columns else F.expr("false")
