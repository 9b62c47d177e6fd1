"""The Spark driver: one query authorises orders, a second one sends notices of those that were settled.

An order that is settled leaves the first query with a new edge, so its tree is done when the second has sent the
notice.
"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from acker_spark import EDGE_COLUMN, ROOT_COLUMN, BatchCollector, SparkAcker
from pyspark.sql import functions as F

from examples.spark_credit_card import steps
from examples.spark_credit_card.plan import SPOUT, TOPOLOGY, Places
from examples.support.reports import report
from examples.support.session import run_queries, start_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ORDERS = "body string, root string, edge string"
SETTLED = f"id string, status string, {ROOT_COLUMN} long, {EDGE_COLUMN} long"
FILES = 2
"""So many files of the stream are a batch at most."""


class Pipeline:
    """The two queries."""

    def __init__(self, places: Places, spark: "SparkSession") -> None:
        self._places = places
        self._spark = spark
        self._acker = SparkAcker(url=places.acker, topology=TOPOLOGY, spout_task=SPOUT)
        step = steps.authorise_carelessly if places.careless else steps.authorise
        self._authorise = F.udf(step, steps.SAID, useArrow=False).asNondeterministic()
        self._notify = F.udf(steps.notify, "string", useArrow=False).asNondeterministic()

    def start_authorising(self) -> "StreamingQuery":
        """Start the query from the orders to their statuses."""
        orders = self._spark.readStream.schema(ORDERS).option("maxFilesPerTrigger", FILES)
        received = self._acker.received(orders.json(str(self._places.stream)), root="root", edge="edge")
        return self._start("authorise", received, self.authorise)

    def start_notifying(self) -> "StreamingQuery":
        """Start the query from the statuses to the second system."""
        settled = self._spark.readStream.schema(SETTLED).json(str(self._places.topic))
        return self._start("notify", self._acker.received(settled), self.notify)

    def authorise(self, batch: "DataFrame", _batch_id: int, collector: BatchCollector) -> None:
        """Fail what is worth another try, report what is not, send on what is settled.

        What is sent on is appended: when the batch is run again it comes twice, with the same edges, and acks of these
        count once.
        """
        address, statuses = F.lit(self._places.cards), F.lit(str(self._places.statuses))
        said = collector.materialize(batch.withColumn("said", self._authorise("body", address, statuses)))
        collector.fail(said.where("said.fault is not null"), F.col("said.fault"))
        for row in said.where("said.error is not null").collect():
            report(rejected=row.body, error=row.said.error)
        settled = said.where("said.status is not null").withColumns(
            {"id": F.col("said.id"), "status": F.col("said.status")}
        )
        sent = collector.emit(settled, "notify", key=["id"]).select("id", "status", ROOT_COLUMN, EDGE_COLUMN)
        sent.write.mode("append").json(str(self._places.topic))

    def notify(self, batch: "DataFrame", _batch_id: int, collector: BatchCollector) -> None:
        """Send notices to the second system, and fail the orders whose notice could not be sent."""
        sent = collector.materialize(
            batch.withColumn("fault", self._notify("id", "status", F.lit(self._places.notices)))
        )
        collector.fail(sent.where("fault is not null"), F.col("fault"))

    def _start(
        self, name: str, frame: "DataFrame", function: "Callable[[DataFrame, int, BatchCollector], object]"
    ) -> "StreamingQuery":
        checkpoint = str(self._places.checkpoints / name)
        writer = frame.writeStream.foreachBatch(self._acker.foreach_batch(function))
        return writer.queryName(name).option("checkpointLocation", checkpoint).start()


def main(places: Places) -> None:
    """Run both queries until the process is ended."""
    for folder in (places.stream, places.topic):
        folder.mkdir(parents=True, exist_ok=True)
    pipeline = Pipeline(places, start_session(Path(places.folder)))
    run_queries({"authorise": pipeline.start_authorising, "notify": pipeline.start_notifying})


if __name__ == "__main__":
    main(Places(**json.loads(sys.argv[1])))
