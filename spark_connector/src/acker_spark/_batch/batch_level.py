"""Runs one batch at batch level: its roots are emitted, its function runs, its deltas are shipped."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acker_spark._batch.cache import cached
from acker_spark._batch.collector import BatchCollector, BatchState
from acker_spark._batch.edges import begins_here, collect_edges, with_batch_edges
from acker_spark._batch.run import BatchRun
from acker_spark.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from acker_spark._batch.client_base import _ClientBase

    Function = Callable[[DataFrame, int, BatchCollector], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFunction:
    """The argument of ``foreachBatch``: calls ``function(batch, batch_id, collector)``, then acks the rows.

    When the function raises nothing is acked: the query ends, and its next start runs the batch again. Its roots are
    pending until then, or fail at once (``fail_raised``).
    """

    acker: "_ClientBase"
    function: "Function"

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        """Run one batch."""
        run = BatchRun.of(self.acker, batch, batch_id)
        with run.logged(), cached(with_batch_edges(batch, run.batch)) as frame, run.exclusive():
            edges, rows = collect_edges(frame)
            state = BatchState.of(edges)
            with run.keep_alive(edges, begins=begins_here(frame)) as emitted:
                with run.fail_raised(edges):
                    self._call(rows, batch_id, state)
                run.ship(state.deltas(), emitted=emitted, forwarded=state.forwarded)

    def _call(self, rows: "DataFrame", batch_id: int, state: BatchState) -> None:
        collector = BatchCollector(state)
        try:
            self.function(rows, batch_id, collector)
        finally:
            collector.close()


def check_function(function: Any, *rest: Any, method: str, parameters: str) -> None:
    """Raise `UsageError` for an argument that is no function of a batch, and where Spark got the method itself."""
    if rest or not callable(function):
        raise UsageError(
            f"not foreachBatch(acker.{method}): write foreachBatch(acker.{method}(f)) with f({parameters})"
        )
    try:
        inspect.signature(function).bind(*parameters.split(", "))
    except TypeError as error:
        raise UsageError(f"the function of acker.{method} is called as f({parameters}): {error}") from None
