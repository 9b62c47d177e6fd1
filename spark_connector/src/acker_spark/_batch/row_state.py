"""Computes the state of each root from the rows of a batch: the XOR of the edges that end, and why the root failed.

A copy of a row, as a join makes it, has the edge of the row and counts once: edges are combined one by one, then by
root. Where all rows of all roots end in the batch that emits the roots, the XOR over all rows is the edge that the root
began with, and of no other set of rows: one pass over the rows is enough there.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from acker_spark._batch.anchors import all_rows, failure_reason
from acker_spark._batch.columns import ANCHORS, BRANCH, EDGE, MESSAGE, ROOT, TAG, hashed
from acker_spark._batch.edges import KEPT, LAST, BatchId, begins_here

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OVER, WHY = "acker_over", "acker_why"
COPIED = "acker_copied"

Ends = Callable[["DataFrame"], "Column"]
Found = dict[str, list[Any]]


def row_state(frame: "DataFrame", batch: BatchId, ends: Ends) -> Found:
    """Return a list for each of root, message, ``own``, ``start``, ``ended``, ``why``, tags and ``copied``."""
    rows = _anchor_rows(frame, ends)
    keys = [ROOT, MESSAGE] if begins_here(frame) else [ROOT]
    found = _in_one_pass(rows, keys, batch) if _may_end_here(frame, ends) else None
    if found is None or found["ended"] != found["start"]:
        found = _by_edge(rows, keys, batch)
    found.setdefault(MESSAGE, [None] * len(found[ROOT]))
    return found | {"why": _reasons(rows, found)}


def _may_end_here(frame: "DataFrame", ends: Ends) -> bool:
    return begins_here(frame) and ends is all_rows and not {ANCHORS, BRANCH} & set(frame.columns)


def _anchor_rows(frame: "DataFrame", ends: Ends) -> "DataFrame":
    """Return a row for each anchor, with the columns that are needed and no others."""
    message = [F.col(MESSAGE)] if begins_here(frame) else []
    tag = F.col(TAG) if TAG in frame.columns else F.lit(0)
    rest = [*message, tag.alias(TAG), ends(frame).alias(OVER)]
    if ANCHORS not in frame.columns:
        return frame.select(F.col(ROOT), F.col(EDGE), failure_reason(frame).alias(WHY), *rest)
    each = frame.select(F.explode(F.array_distinct(ANCHORS)).alias("one"), *rest)
    anchor = [F.col("one.root").alias(ROOT), F.col("one.edge").alias(EDGE), F.col("one.reason").alias(WHY)]
    return each.select(*anchor, *message, F.col(TAG), F.col(OVER))


def _in_one_pass(rows: "DataFrame", keys: list[str], batch: BatchId) -> Found:
    """Combine all rows. A text is a key or is left out: to find the largest, Spark would sort all rows."""
    roots = rows.groupBy(*keys).agg(
        F.bit_xor(EDGE).alias("ended"),
        F.min(TAG).alias(KEPT),
        F.max(TAG).alias(LAST),
        F.max(F.col(WHY).isNotNull()).alias("failed"),
        F.expr("false").alias(COPIED),
    )
    return _collect(roots, batch)


def _by_edge(rows: "DataFrame", keys: list[str], batch: BatchId) -> Found:
    """Combine rows by edge. Rows that leave with one edge are copies, unless their tags show a second delivery.

    One shuffle brings all rows of a root together, and serves all steps.
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
    return _collect(roots, batch)


def _collect(roots: "DataFrame", batch: BatchId) -> Found:
    ids = {"own": hashed(*batch.parts, F.col(ROOT)), "start": hashed(F.col(ROOT), "edge")}
    found: Found = roots.withColumns(ids).toArrow().to_pydict()
    return found


def _reasons(rows: "DataFrame", found: Found) -> list[str | None]:
    """Return the reason of each root that failed; a further pass only where one failed."""
    if not any(found["failed"]):
        return [None] * len(found[ROOT])
    failing = rows.where(F.col(WHY).isNotNull()).groupBy(ROOT).agg(F.max(WHY).alias(WHY)).toArrow().to_pydict()
    why = dict(zip(failing[ROOT], failing[WHY], strict=True))
    return [why.get(root) for root in found[ROOT]]
