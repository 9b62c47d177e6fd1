"""Counts the words of sentences; each sentence is a root, acked when its batch is saved.

Usage: job.py SENTENCES COUNTS CHECKPOINT [--once], folders that driver and executors share. SENTENCES gets files of
JSON lines, {"id": …, "sentence": …, "attempt": …}. ACKER_URL says where the acker is, ACKER_TOKEN its key if it asks.
"""

import os
import sys

from acker_spark import BatchCollector, SparkAcker
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

WORD = r"(?U)[^\W\d_]+(?:'[^\W\d_]+)*"


def main(sentences: str, counts: str, checkpoint: str, *, once: bool) -> None:
    """Run the query until the process is ended, or until all that is there is counted."""
    spark = SparkSession.builder.appName("word-count").getOrCreate()
    acker = SparkAcker(
        url=os.environ["ACKER_URL"],
        token=os.environ.get("ACKER_TOKEN") or None,
        topology="sentences",
        spout_task="reader",
    )

    def count(batch: DataFrame, batch_id: int, collector: BatchCollector) -> None:
        empty = F.trim("sentence") == ""
        collector.fail(batch.where(empty), "an empty sentence")
        found = F.explode(F.regexp_extract_all(F.lower("sentence"), F.lit(WORD), F.lit(0)))
        words = batch.where(~empty).select(found.alias("word"))
        # In the place of this batch: one that is run again replaces what it had saved, and counts once.
        words.groupBy("word").count().write.mode("overwrite").json(f"{counts}/batch={batch_id}")

    lines = spark.readStream.schema("id string, sentence string, attempt int").json(sentences)
    roots = acker.root(lines, message_id="id", attempt="attempt")
    writer = roots.writeStream.foreachBatch(acker.foreach_batch(count)).option("checkpointLocation", checkpoint)
    (writer.trigger(availableNow=True) if once else writer).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:4], once="--once" in sys.argv)
