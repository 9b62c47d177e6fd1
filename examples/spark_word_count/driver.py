"""The Spark driver: splits sentences into words and counts these; what says `acker` is all that acking needs."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from acker_spark import BatchCollector, SparkAcker
from pyspark.sql import functions as F

from examples.spark_word_count.plan import SPOUT, TOPOLOGY, Plan
from examples.support.reports import report
from examples.support.session import run_queries, start_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SENTENCES = "id string, sentence string, attempt int"
WORD = r"(?U)[^\W\d_]+(?:'[^\W\d_]+)*"
BAD_BATCH = 1
"""The batch that fails the first time, between saving its counts and acking its sentences."""


class Counting:
    """The query."""

    def __init__(self, plan: Plan, spark: "SparkSession") -> None:
        self._plan = plan
        self._spark = spark
        self._failed = False

    def start(self) -> "StreamingQuery":
        """Start it."""
        lines = self._spark.readStream.schema(SENTENCES).option("maxFilesPerTrigger", 2).json(str(self._plan.stream))
        acker = SparkAcker(url=self._plan.acker, topology=TOPOLOGY, spout_task=SPOUT)
        roots = acker.root(lines, message_id="id", attempt="attempt")
        writer = roots.writeStream.foreachBatch(acker.foreach_batch(self.count))
        return writer.option("checkpointLocation", str(self._plan.checkpoint)).start()

    def count(self, batch: "DataFrame", batch_id: int, collector: BatchCollector) -> None:
        """Count the words of a batch, and fail the sentences that are too hard the first time."""
        hard = F.array_contains(_words(), self._plan.hard_word) & (F.col("attempt") == 1)
        collector.fail(batch.where(hard), f"{self._plan.hard_word!r} is too hard the first time")
        words = batch.where(~hard).select(F.explode(_words()).alias("word"))
        self._save(words.groupBy("word").count(), batch_id)
        report(batch=batch_id)
        self._fail_once(batch_id)

    def _save(self, counts: "DataFrame", batch_id: int) -> None:
        """Save counts in the place of their batch: a batch that is run again replaces them, and counts once."""
        mode = "append" if self._plan.careless else "overwrite"
        counts.write.mode(mode).json(str(self._plan.counts / f"batch={batch_id}"))

    def _fail_once(self, batch_id: int) -> None:
        if batch_id == BAD_BATCH and not self._failed:
            self._failed = True
            raise RuntimeError(f"batch {batch_id} fails between saving its counts and acking its sentences")


def _words() -> "Column":
    return F.regexp_extract_all(F.lower("sentence"), F.lit(WORD), F.lit(0))


def main(plan: Plan) -> None:
    """Run the query until the process is ended."""
    plan.stream.mkdir(parents=True, exist_ok=True)
    run_queries({"count": Counting(plan, start_session(Path(plan.folder))).start})


if __name__ == "__main__":
    main(Plan(**json.loads(sys.argv[1])))
