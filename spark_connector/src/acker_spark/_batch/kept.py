"""Refuses steps of a stream that lose the anchors of rows, before its query starts."""

from typing import TYPE_CHECKING

from acker_spark._batch.columns import EDGE, ROOT, check_joined
from acker_spark._batch.edges import begins_here
from acker_spark._batch.plan import Plan
from acker_spark.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def check_kept(frame: "DataFrame") -> None:
    """Raise `UsageError` for a plain ``join`` and, of received rows, for dropped duplicates.

    Under Spark Connect only for a join that has the anchors of both sides.
    """
    check_joined(frame)
    if not hasattr(frame, "_jdf"):
        return
    plan = Plan.of(frame)
    if plan.has_plain_join():
        raise UsageError(
            "a join of two frames from root() or received() loses the anchors of one side, whose roots would time out: "
            "join them with af.join(left, right, on), whose rows have the anchors of both"
        )
    if not begins_here(frame) and (keys := plan.find_dropped()):
        raise UsageError(
            f"dropDuplicates by {', '.join(keys)} drops received rows, and the edge of a row that is dropped is never "
            "acked: its root would time out. Drop duplicates before received(), or by the anchor: "
            f'dropDuplicatesWithinWatermark(["{ROOT}", "{EDGE}"])'
        )
