"""Refuses keys that are others when a batch runs again, as far as Spark's plan shows it.

A seed does not help: for each run of a batch Spark draws new seeds for all random functions of a stream
(``IncrementalExecution``), and without a stream the values depend on the partitions.
"""

from typing import TYPE_CHECKING

from acker_spark._batch.columns import column
from acker_spark._batch.plan import Plan
from acker_spark._batch.running import RunningQuery
from acker_spark.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_checked: set[tuple[str, str]] = set()
"""The keys that were checked, with the runs of their queries."""


def check_stable(frame: "DataFrame", *key: "str | Column", caller: str) -> None:
    """Raise `UsageError` for a key of unstable columns; once for each run of a query. Not under Spark Connect."""
    if not hasattr(frame, "_jdf"):
        return
    query, name = RunningQuery.of(frame), f"{caller}: {key}"
    if query is not None and (query.run_id, name) in _checked:
        return
    origin = query and query.plan()
    found = Plan.of(frame.select(*map(column, key))).find_unstable(*([origin] if origin else []))
    if found is not None:
        raise UsageError(
            f"{caller} depends on {found}, whose values are others when the batch runs again (a seed does not help: "
            "Spark draws a new one for each run). What was sent before would be open until it times out: use columns "
            "of the message"
        )
    if query is not None:
        _checked.add((query.run_id, name))
