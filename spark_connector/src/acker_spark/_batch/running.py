"""Finds out which query runs a batch, and whether Spark is stopping it.

``query.stop()`` first marks the query as terminated, then cancels its jobs and interrupts its thread: an action of the
batch's function raises, once. A function that catches this goes on and returns, though its write was cut off, and Spark
commits the batch. Neither the session of a batch nor its ``streams`` shows the query; the state that all sessions of
the driver share does.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from acker_spark._batch.plan import Plan
from acker_spark.errors import QueryStopped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID, JOB_GROUP = "sql.streaming.queryId", "spark.jobGroup.id"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningQuery:
    """The query whose thread runs a batch, as the driver's Java side knows it."""

    query_id: str
    """The same after a restart from its checkpoint."""
    run_id: str
    """Another at each start; the job group of its jobs."""
    context: Any
    execution: Any

    @classmethod
    def of(cls, frame: "DataFrame") -> "RunningQuery | None":
        """Return the query that calls the function of a batch; None under Spark Connect, or where no query calls."""
        session: Any = frame.sparkSession
        try:
            query_id = session.sparkContext.getLocalProperty(QUERY_ID)
        except (PySparkException, AttributeError):
            return None
        if not query_id:
            return None
        java, uuid = session._jsparkSession, session._jvm.java.util.UUID  # noqa: SLF001 - Python has no way to it
        return cls(
            query_id=query_id,
            run_id=session.sparkContext.getLocalProperty(JOB_GROUP),
            context=java.sparkContext(),
            execution=java.sharedState().activeStreamingQueries().get(uuid.fromString(query_id)),
        )

    def plan(self) -> Plan | None:
        """Return the plan of the stream, where Spark shows it."""
        return None if self.execution is None else Plan.read(self.execution.analyzedPlan(), is_stream=True)

    def check_not_stopping(self, batch_id: int) -> None:
        """Raise `QueryStopped` if the query, or all of Spark, is being stopped."""
        if not self.is_stopping():
            return
        # By the last words Spark sees that this is no failure of the query (StreamExecution.isInterruptionException).
        raise QueryStopped(
            f"the query is being stopped, which may have cut off what the function of batch {batch_id} did: nothing of "
            "the batch was acked, and it runs again when the query is started again "
            f"(org.apache.spark.SparkException: job group {self.run_id} cancelled)"
        )

    def is_stopping(self) -> bool:
        """Return whether the query, or all of Spark, is being stopped, or has been."""
        is_active = self.execution is not None and self.execution.isActive()
        return not is_active or self.context.isStopped()
