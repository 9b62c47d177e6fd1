"""Knows what the rows of each root in a batch come to: the XOR of the edges that end here, and why the root failed.

A copy of a row, as a join makes it, has the edge of the row and counts once. So edges are summed up one by one, and
then by root. Where all rows of all roots end in the batch that begins them, the sum over all rows is the edge that the
root began with, and nothing else can be: there one pass is enough.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from acker_spark.columns import ANCHORS, EDGE, FORK, MESSAGE, ROOT, TAG, hashed
from acker_spark.deliveries import KEPT, LAST, Claim, begins_here
from acker_spark.rows import every, why_failed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OVER, WHY = "_ack_over", "_ack_why"
COPIED = "_ack_copied"

Ends = Callable[["DataFrame"], "Column"]
Found = dict[str, list[Any]]


def summed(frame: "DataFrame", claim: Claim, ends: Ends) -> Found:
    """Sum up; gives a list for each of root, message, ``own``, ``start``, ``ended``, ``why``, tags and ``copied``."""
    rows = _narrow(frame, ends)
    keys = [ROOT, MESSAGE] if begins_here(frame) else [ROOT]
    found = _at_once(rows, keys, claim) if _may_be_whole(frame, ends) else None
    if found is None or found["ended"] != found["start"]:
        found = _by_edge(rows, keys, claim)
    found.setdefault(MESSAGE, [None] * len(found[ROOT]))
    return found | {"why": _reasons(rows, found)}


def _may_be_whole(frame: "DataFrame", ends: Ends) -> bool:
    return begins_here(frame) and ends is every and not {ANCHORS, FORK} & set(frame.columns)


def _narrow(frame: "DataFrame", ends: Ends) -> "DataFrame":
    """Give a row for each anchor, and of it no more than is needed."""
    message = [F.col(MESSAGE)] if begins_here(frame) else []
    tag = F.col(TAG) if TAG in frame.columns else F.lit(0)
    rest = [*message, tag.alias(TAG), ends(frame).alias(OVER)]
    if ANCHORS not in frame.columns:
        return frame.select(F.col(ROOT), F.col(EDGE), why_failed(frame).alias(WHY), *rest)
    each = frame.select(F.explode(F.array_distinct(ANCHORS)).alias("one"), *rest)
    anchor = [F.col("one.root").alias(ROOT), F.col("one.edge").alias(EDGE), F.col("one.reason").alias(WHY)]
    return each.select(*anchor, *message, F.col(TAG), F.col(OVER))


def _at_once(rows: "DataFrame", keys: list[str], claim: Claim) -> Found:
    """Sum up over all rows. A text is a key or is left out: to find the largest, Spark would sort all rows."""
    roots = rows.groupBy(*keys).agg(
        F.bit_xor(EDGE).alias("ended"),
        F.min(TAG).alias(KEPT),
        F.max(TAG).alias(LAST),
        F.max(F.col(WHY).isNotNull()).alias("failed"),
        F.expr("false").alias(COPIED),
    )
    return _gathered(roots, claim)


def _by_edge(rows: "DataFrame", keys: list[str], claim: Claim) -> Found:
    """Sum up over edges. Rows that leave with one edge are copies, unless their tags tell that a row came twice.

    All rows of a root are brought together once, and each step finds them so.
    """
    left = F.count(F.when(~F.col(OVER), 1))
    tagged = rows.repartition(ROOT).groupBy(*keys, EDGE, TAG)
    rows_of_tag = tagged.agg(
        F.bool_and(OVER).alias(OVER), F.max(F.col(WHY).isNotNull()).alias("failed"), (left > 1).alias(COPIED)
    )
    edges = rows_of_tag.groupBy(*keys, EDGE).agg(
        F.bool_and(OVER).alias(OVER),
        F.max("failed").alias("failed"),
        F.max(COPIED).alias(COPIED),
        F.min(TAG).alias(KEPT),
        F.max(TAG).alias(LAST),
    )
    roots = edges.groupBy(*keys).agg(
        F.bit_xor(F.when(F.col(OVER), F.col(EDGE))).alias("ended"),
        F.min(KEPT).alias(KEPT),
        F.max(LAST).alias(LAST),
        F.max("failed").alias("failed"),
        F.max(COPIED).alias(COPIED),
    )
    return _gathered(roots, claim)


def _gathered(roots: "DataFrame", claim: Claim) -> Found:
    ids = {"own": hashed(*claim.words, F.col(ROOT)), "start": hashed(F.col(ROOT), "edge")}
    found: Found = roots.withColumns(ids).toArrow().to_pydict()
    return found


def _reasons(rows: "DataFrame", found: Found) -> list[str | None]:
    """Give the reason of each root that failed; asked for only where there is one."""
    if not any(found["failed"]):
        return [None] * len(found[ROOT])
    failing = rows.where(F.col(WHY).isNotNull()).groupBy(ROOT).agg(F.max(WHY).alias(WHY)).toArrow().to_pydict()
    why = dict(zip(failing[ROOT], failing[WHY], strict=True))
    return [why.get(root) for root in found[ROOT]]
