"""The row level: functions on frames whose rows carry anchors. ``from acker_spark import functions as af``.

They bear the names of the operations that they take the place of. A row that ends is not removed: it stays in the frame
as a tombstone until `SparkAcker.foreach_rows` acks it, and so does a row that failed; `is_active` tells them apart.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from acker_protocol.wire.fields import REASON_CHARACTERS
from pyspark.sql import functions as F

from acker_spark._batch.anchors import anchors_of, branch_of, fail_anchors, is_active, mark_done, split_edges
from acker_spark._batch.columns import (
    ANCHORS,
    ANCHORS_TYPE,
    DONE,
    EDGE,
    MESSAGE,
    OWN,
    ROOT,
    check_joined,
    column,
    require_columns,
)
from acker_spark._batch.edges import begins_here
from acker_spark.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["branch", "collect_anchors", "explode", "fail", "filter", "is_active", "join"]


def explode(frame: "DataFrame", elements: "str | Column", alias: str, *, stage: str) -> "DataFrame":
    """Return a row for each element of an array, in the column ``alias``, as Spark's ``explode`` does.

    The children of a row share its edge. ``stage`` names this step: two steps of a job have two names. A row without
    elements stays as a tombstone.
    """
    _require_anchors(frame, "af.explode")
    active = F.when(is_active(frame), column(elements))
    counted = frame.withColumn("acker_elements", active).withColumn("acker_count", _count("acker_elements"))
    others = [name for name in counted.columns if name != "acker_elements"]
    rows = counted.select(*others, F.posexplode_outer("acker_elements").alias("acker_at", alias))
    split = split_edges(rows, stage, F.coalesce(F.col("acker_at"), F.lit(0)), F.col("acker_count"))
    return mark_done(split, F.col("acker_at").isNull()).drop("acker_at", "acker_count")


def filter(frame: "DataFrame", condition: "str | Column") -> "DataFrame":  # noqa: A001 - as in pyspark.sql.functions
    """Keep the rows that meet a condition active, as ``DataFrame.filter`` does; the others are acked."""
    _require_anchors(frame, "af.filter")
    return mark_done(frame, ~_is_true(condition))


def fail(frame: "DataFrame", condition: "str | Column", reason: "str | Column") -> "DataFrame":
    """Fail the rows that meet a condition, and with them their roots; ``reason`` is a text, or a column.

    A root that ends when all have ended goes on, and counts one failure for each batch in which rows of it fail.
    """
    _require_anchors(frame, "af.fail")
    text = F.lit(reason) if isinstance(reason, str) else F.coalesce(reason.cast("string"), F.lit("failed"))
    failing = is_active(frame) & _is_true(condition)
    return fail_anchors(frame, F.when(failing, F.substring(text, 1, REASON_CHARACTERS)))


def branch(frame: "DataFrame", branches: int) -> "list[DataFrame]":
    """Return a frame for each of several sinks; a root is acked when all sinks have acked it.

    Without it the first sink would ack for all of them. The batch of the first branch emits the roots of a frame from
    root(). Raises `UsageError` for fewer than two branches.
    """
    if ANCHORS not in frame.columns:
        require_columns(frame, ROOT, EDGE, MESSAGE, caller="af.branch")
    if branches < 2:
        raise UsageError(f"af.branch needs at least two branches, not {branches}")
    return [branch_of(frame, at, branches) for at in range(branches)]


def join(
    left: "DataFrame", right: "DataFrame", on: "str | Column | Sequence[str] | Sequence[Column]", how: str = "inner"
) -> "DataFrame":
    """Join two frames; a row has the anchors of both sides.

    A row that finds no partner in an inner join, or is dropped behind the watermark, is never acked: its root times
    out. Between two streams a row may find one partner only, because it is acked with the batch in which it finds it.
    Raises `UsageError` for rows from root() of the same query.
    """
    for side in (left, right):
        _require_anchors(side, "af.join")
        _check_received(side, "af.join")
    both = _renamed(left, "left").join(_renamed(right, "right"), on, how)  # type: ignore[arg-type]  # as join takes it
    sides = [F.coalesce(F.col(f"acker_{side}"), F.array().cast(ANCHORS_TYPE)) for side in ("left", "right")]
    done = [F.coalesce(F.col(f"acker_{side}_done"), F.expr("false")) for side in ("left", "right")]
    joined = both.withColumn(ANCHORS, F.concat(*sides)).withColumn(DONE, done[0] | done[1])
    return joined.drop("acker_left", "acker_right", "acker_left_done", "acker_right_done")


def collect_anchors(frame: "DataFrame") -> "Column":
    """Return the aggregate that keeps the anchors of all rows of a group: put it into ``agg``. ::

        count = F.count(F.when(af.is_active(words), 1)).alias("n")
        words.groupBy("window", "word").agg(count, af.collect_anchors(words))

    Raises `UsageError` for rows from root() of the same query.
    """
    _require_anchors(frame, "af.collect_anchors")
    _check_received(frame, "af.collect_anchors")
    return F.flatten(F.collect_list(anchors_of(frame))).alias(ANCHORS)


def _count(name: str) -> "Column":
    return F.greatest(F.coalesce(F.size(name), F.lit(0)), F.lit(1))


def _is_true(condition: "str | Column") -> "Column":
    given = F.expr(condition) if isinstance(condition, str) else condition
    return F.coalesce(given, F.expr("false"))


def _renamed(frame: "DataFrame", side: str) -> "DataFrame":
    done = ~is_active(frame)
    renamed = frame.withColumn(f"acker_{side}", anchors_of(frame)).withColumn(f"acker_{side}_done", done)
    return renamed.drop(*OWN)


def _require_anchors(frame: "DataFrame", caller: str) -> None:
    check_joined(frame)
    if ANCHORS not in frame.columns:
        require_columns(frame, ROOT, EDGE, caller=caller)


def _check_received(frame: "DataFrame", caller: str) -> None:
    """Raise `UsageError` for rows whose roots this query emits: rows that Spark holds back would have no root."""
    if begins_here(frame):
        raise UsageError(
            f"{caller} holds rows back in Spark's state, so roots of this query would not be emitted: emit them in a "
            "query of their own (or from a spout outside Spark), and take them here from received()"
        )
