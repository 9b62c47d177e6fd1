"""Knows how a row's anchors pass to the rows that are made of it: the invariant of the row level.

*The XOR of the edges of all rows of a root is what its tree waits for.* A row that is split in n gives child i the edge
H(i) ^ H(i+1), with H(0) the parent's edge, H(n) zero and H(k) a hash of the parent's edge, the stage and k: the
children XOR back to the parent's edge, and no proper subset of them does. All of it is native expressions of Spark.

A row carries one anchor in two columns, or, behind a join or a window, many in an array. A row that is done stays in
the frame as a tombstone until `Acker.ack_rows` acks it, and so does one that failed.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from acker_protocol.wire.fields import REASON_CHARACTERS
from pyspark.sql import functions as F

from acker_spark.columns import ANCHORS, DONE, EDGE, FOLLOWING, FORK, MESSAGE, OWN, REASON, ROOT, column, need
from acker_spark.deliveries import begins_here
from acker_spark.errors import Misuse

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ARRAY = "array<struct<root:bigint,edge:bigint,reason:string>>"


def split_rows(frame: "DataFrame", elements: "str | Column", alias: str, *, stage: str) -> "DataFrame":
    """Make a row of each element of an array, as ``explode`` does; ``stage`` names this splitting.

    A row without elements stays, as a tombstone.
    """
    _need(frame, "split_rows")
    whole = F.when(live(frame), column(elements))
    counted = frame.withColumn("_ack_elements", whole).withColumn("_ack_count", _count("_ack_elements"))
    others = [name for name in counted.columns if name != "_ack_elements"]
    rows = counted.select(*others, F.posexplode_outer("_ack_elements").alias("_ack_at", alias))
    at = F.coalesce(F.col("_ack_at"), F.lit(0))
    split = _each_edge(rows, lambda edge: _link(edge, stage, at, F.col("_ack_count")))
    return _end(split, F.col("_ack_at").isNull()).drop("_ack_at", "_ack_count")


def filter_rows(frame: "DataFrame", condition: "str | Column") -> "DataFrame":
    """Keep the rows that meet a condition, as ``where`` does; the others stay as tombstones, and are acked."""
    _need(frame, "filter_rows")
    return _end(frame, ~F.coalesce(_condition(condition), _no()))


def fail_rows(frame: "DataFrame", condition: "str | Column", reason: "str | Column") -> "DataFrame":
    """Fail the rows that meet a condition, and with them their roots; ``reason`` is a text, or a column."""
    _need(frame, "fail_rows")
    why = F.lit(reason) if isinstance(reason, str) else F.coalesce(reason.cast("string"), F.lit("failed"))
    failing = F.when(live(frame) & F.coalesce(_condition(condition), _no()), F.substring(why, 1, REASON_CHARACTERS))
    if ANCHORS in frame.columns:
        marked = frame.withColumn("_ack_failing", failing)
        failed = marked.withColumn(ANCHORS, F.transform(ANCHORS, lambda one: _failed(one, F.col("_ack_failing"))))
        return _end(failed, F.col("_ack_failing").isNotNull()).drop("_ack_failing")
    return frame.withColumn(REASON, F.coalesce(why_failed(frame), failing))


def fork(frame: "DataFrame", ways: int) -> "list[DataFrame]":
    """Give a frame for each of several sinks. Without it the first sink would ack for all of them.

    The roots of a frame from root() are begun where the first of these ends.
    """
    if ANCHORS not in frame.columns:
        need(frame, ROOT, EDGE, MESSAGE, who="fork")
    if ways < 2:
        raise Misuse(f"fork needs two ways or more, not {ways}")
    first, *others = [_branch(frame, at, ways) for at in range(ways)]
    return [first, *(_following(other) for other in others)]


def join_anchors(
    left: "DataFrame", right: "DataFrame", on: "str | Column | Sequence[str] | Sequence[Column]", how: str = "inner"
) -> "DataFrame":
    """Join two frames; a row has the anchors of both sides. Use it for streams, and for any other join of two frames.

    A row that finds no partner, or is dropped behind the watermark, is never acked: its root times out. Between two
    streams a row may find one partner only, since it is acked with the batch in which it finds it.
    """
    for side in (left, right):
        _need(side, "join_anchors")
        _refuse_roots(side, "join_anchors")
    both = _renamed(left, "left").join(_renamed(right, "right"), on, how)  # type: ignore[arg-type]  # as join takes it
    sides = [F.coalesce(F.col(f"_ack_{side}"), F.array().cast(_ARRAY)) for side in ("left", "right")]
    done = [F.coalesce(F.col(f"_ack_{side}_done"), _no()) for side in ("left", "right")]
    joined = both.withColumn(ANCHORS, F.concat(*sides)).withColumn(DONE, done[0] | done[1])
    return joined.drop("_ack_left", "_ack_right", "_ack_left_done", "_ack_right_done")


def gathered(frame: "DataFrame") -> "Column":
    """Give the aggregate that keeps the anchors of all rows of a group: put it into ``agg``. ::

    words.groupBy("window", "word").agg(F.count(F.when(live(words), 1)).alias("n"), gathered(words))
    """
    _need(frame, "gathered")
    _refuse_roots(frame, "gathered")
    return F.flatten(F.collect_list(anchors(frame))).alias(ANCHORS)


def live(frame: "DataFrame") -> "Column":
    """Say of each row whether it is neither done nor failed."""
    done = F.col(DONE) if DONE in frame.columns else _no()
    return ~done & why_failed(frame).isNull()


def every(_: "DataFrame") -> "Column":
    """Say that every row ends where it is."""
    return F.expr("true")


def gone(frame: "DataFrame") -> "Column":
    """Say of each row whether it ended before: it was filtered out, or failed."""
    return ~live(frame)


def anchors(frame: "DataFrame") -> "Column":
    """Give the anchors of each row as an array."""
    if ANCHORS in frame.columns:
        return F.col(ANCHORS)
    one = F.struct(F.col(ROOT).alias("root"), F.col(EDGE).alias("edge"), why_failed(frame).alias("reason"))
    return F.array(one).cast(_ARRAY)


def slid(frame: "DataFrame", at: "Column", ways: "Column") -> "DataFrame":
    """Share the edge of a row among its copies in several windows."""
    return _each_edge(frame, lambda edge: _link(edge, "window", at, ways))


def _branch(frame: "DataFrame", at: int, ways: int) -> "DataFrame":
    shared = _each_edge(frame, lambda edge: _link(edge, "fork", F.lit(at), F.lit(ways)))
    return shared.withColumn(FORK, F.expr("true"))


def _following(frame: "DataFrame") -> "DataFrame":
    """Say that the roots of these rows begin elsewhere, if they are roots of this program."""
    return frame.withColumn(MESSAGE, F.lit(None).cast(FOLLOWING)) if begins_here(frame) else frame


def _link(edge: "Column", stage: str, at: "Column", count: "Column") -> "Column":
    """Give child ``at`` of ``count`` its edge."""
    first = F.when(at == 0, edge).otherwise(F.xxhash64(edge, F.lit(stage), at))
    second = F.when(at + 1 >= count, F.lit(0).cast("bigint")).otherwise(F.xxhash64(edge, F.lit(stage), at + 1))
    return first.bitwiseXOR(second)


def _each_edge(frame: "DataFrame", link: "Callable[[Column], Column]") -> "DataFrame":
    if ANCHORS not in frame.columns:
        return frame.withColumn(EDGE, link(F.col(EDGE)))
    linked = F.transform(ANCHORS, lambda one: one.withField("edge", link(one["edge"])))
    return frame.withColumn(ANCHORS, linked)


def _failed(one: "Column", failing: "Column") -> "Column":
    return one.withField("reason", F.coalesce(one["reason"], failing))


def _no() -> "Column":
    return F.expr("false")


def _end(frame: "DataFrame", over: "Column") -> "DataFrame":
    done = F.col(DONE) if DONE in frame.columns else _no()
    return frame.withColumn(DONE, done | over)


def why_failed(frame: "DataFrame") -> "Column":
    """Give the reason for which each row failed."""
    return F.col(REASON) if REASON in frame.columns else F.lit(None).cast("string")


def _count(name: str) -> "Column":
    return F.greatest(F.coalesce(F.size(name), F.lit(0)), F.lit(1))


def _condition(given: "str | Column") -> "Column":
    return F.expr(given) if isinstance(given, str) else given


def _renamed(frame: "DataFrame", side: str) -> "DataFrame":
    done = ~live(frame)
    held = frame.withColumn(f"_ack_{side}", anchors(frame)).withColumn(f"_ack_{side}_done", done)
    return held.drop(*OWN)


def _need(frame: "DataFrame", who: str) -> None:
    if ANCHORS not in frame.columns:
        need(frame, ROOT, EDGE, who=who)


def _refuse_roots(frame: "DataFrame", who: str) -> None:
    """Rows that a window or a join holds back, or drops, would have roots that nobody begins."""
    if begins_here(frame):
        raise Misuse(
            f"{who} keeps rows back in Spark's state, so roots of this query would not be begun: emit them in a query "
            "of their own (or from a spout outside Spark), and take them here from received()"
        )
