"""A driver under Spark Connect: a server of its own, and through a session both levels, a hop, completions, a window.

Arguments: the acker's address and a folder. The functions of batches run in processes of the server, which tell what
they saw in files of that folder.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acker_spark import QueryIdRequired, SparkAcker
from acker_spark import functions as af
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.spark.early import install

SCHEMA = "id long, sentence string"
ANCHORED = "sentence string, acker_root long, acker_edge long"


def session(folder: Path) -> Any:
    """Start a server with its session."""
    os.environ |= {"PYSPARK_PYTHON": install(folder), "SPARK_LOCAL_IP": "127.0.0.1"}
    options = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.host": "127.0.0.1"}
    options |= {"spark.driver.bindAddress": "127.0.0.1", "spark.sql.warehouse.dir": str(folder / "warehouse")}
    options |= {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    builder = SparkSession.builder.remote("local[2]")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run(frame: Any, function: Callable[..., object], checkpoint: Path) -> None:
    """Run a query over all there is."""
    writer = frame.writeStream.foreachBatch(function).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    """Run all of it."""
    url, home = sys.argv[1], Path(sys.argv[2])
    spark = session(home)
    lines = spark.readStream.schema(SCHEMA).json(str(home / "source"))

    def acker(spout_task: str, query_id: str | None) -> SparkAcker:
        return SparkAcker(url=url, topology="connect", spout_task=spout_task, query_id=query_id)

    def part(batch: Any, batch_id: int, collector: Any) -> None:
        collector.fail(batch.where("sentence like '%cow%'"), "no cows")
        good = collector.materialize(batch.where("sentence not like '%cow%'"))
        sent = collector.emit(good, "printer", key=["id"]).select("sentence", "acker_root", "acker_edge")
        sent.write.mode("append").json(str(home / "printer"))

    def tell(name: str, column: str) -> Callable[..., None]:
        def told(batch: Any, *_: object) -> None:
            if found := sorted(row[column] for row in batch.collect()):  # a window comes with a batch behind its rows
                (home / name).write_text(",".join(found))

        return told

    try:
        acker("batch", None).root(lines, "id")
    except QueryIdRequired:
        (home / "nameless").touch()
    first, second, rows = acker("batch", "first"), acker("batch", "second"), acker("rows", "rows")
    run(first.root(lines, "id"), first.foreach_batch(part), home / "checkpoints/first")
    emitted = spark.readStream.schema(ANCHORED).json(str(home / "printer"))
    run(second.received(emitted), second.foreach_batch(tell("printed", "sentence")), home / "checkpoints/second")
    words = af.explode(rows.root(lines, "id"), F.split("sentence", " "), "word", stage="split")
    chosen = af.fail(af.filter(words, "word != 'the'"), "word = 'cow'", "no cows")
    run(chosen, rows.foreach_rows(tell("words", "word")), home / "checkpoints/rows")
    told = spark.readStream.format("acker").options(url=url, topology="connect", spoutTask="rows").load()
    ended = told.withColumn("end", F.concat_ws(" ", "message_id", "outcome"))
    run(ended, tell("ends", "end"), home / "checkpoints/ends")
    at = F.when(F.expr("sentence = 'the dog'"), "2026-01-01T00:01:30").otherwise("2026-01-01T00:00:01")
    emitted = spark.readStream.schema(ANCHORED).json(str(home / "printer"))
    timed = rows.received(emitted).withColumn("at", at.cast("timestamp"))
    slid = rows.window_rows(timed, "at", "10 seconds", slide="5 seconds")
    counts = slid.groupBy("window").agg(
        F.count(F.when(af.is_active(slid), 1)).cast("string").alias("n"), af.collect_anchors(slid)
    )
    run(counts, rows.foreach_rows(tell("counts", "n")), home / "checkpoints/windows")
    spark.stop()


if __name__ == "__main__":
    main()
