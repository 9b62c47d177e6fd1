"""The Spark driver: one query splits messages into lines, one lines into names, and one greets each name.

What leaves a query by ``collector.emit`` has an edge of its own, which the next query acks: so a tree spans all three.
"""

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from acker_spark import EDGE_COLUMN, ROOT_COLUMN, BatchCollector, SparkAcker
from pyspark.sql import functions as F

from examples.spark_names.plan import FAILS, SPOUT, THROWS_AT, TOPOLOGY, Plan
from examples.support.reports import report
from examples.support.session import run_queries, start_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FIELDS = "id string, attempt int, text string"
ANCHORED = f"{FIELDS}, at int, {ROOT_COLUMN} long, {EDGE_COLUMN} long"


class Pipeline:
    """The three queries."""

    def __init__(self, plan: Plan, spark: "SparkSession") -> None:
        self._plan = plan
        self._spark = spark
        self._acker = SparkAcker(url=plan.acker, topology=TOPOLOGY, spout_task=SPOUT)
        self._thrown = False

    def start_splitting_messages(self) -> "StreamingQuery":
        """Begin a root for each message, and send its lines on."""
        roots = self._acker.root(self._read("messages", FIELDS), message_id="id", attempt="attempt")
        return self._start(
            "split-messages", roots, lambda batch, _, collector: self._split(batch, collector, "\n", "lines")
        )

    def start_splitting_lines(self) -> "StreamingQuery":
        """Send the names of each line on."""
        lines = self._acker.received(self._read("lines", ANCHORED))
        return self._start(
            "split-lines", lines, lambda batch, _, collector: self._split(batch, collector, " ", "names")
        )

    def start_greeting(self) -> "StreamingQuery":
        """Greet each name, one file of names a batch."""
        greet = self._greet_carelessly if self._plan.careless else self._greet
        return self._start("greet", self._acker.received(self._read("names", ANCHORED)), greet)

    def _split(self, batch: "DataFrame", collector: BatchCollector, between: str, stage: str) -> None:
        """Send the parts of each text on, each with an edge of its own, each in a file of its own."""
        parts = F.posexplode(F.split("text", between)).alias("at", "part")
        split = batch.drop("at").select("*", parts).drop("text").withColumnRenamed("part", "text")
        sent = collector.emit(split, stage, key=["at"])
        report(stage=stage, texts=[row.text for row in sent.select("text").collect()])
        files = sent.coalesce(1).write.option("maxRecordsPerFile", 1)
        files.mode("append").json(str(self._plan.place(stage)))

    def _greet(self, batch: "DataFrame", _: int, collector: BatchCollector) -> None:
        self._say_hello(batch)
        collector.fail(batch.where((F.col("text") == FAILS) & (F.col("attempt") == 1)), f"{FAILS} does not answer")

    def _greet_carelessly(self, batch: "DataFrame", _: int, __: BatchCollector) -> None:
        """Whatever goes wrong, let it be acked."""
        with contextlib.suppress(RuntimeError):
            self._say_hello(batch)

    def _say_hello(self, batch: "DataFrame") -> None:
        for row in batch.collect():
            report(greeting=row.text, attempt=row.attempt)
            if row.text == THROWS_AT and not self._thrown:
                self._thrown = True
                raise RuntimeError(f"{row.text} cannot be greeted")

    def _read(self, stream: str, schema: str) -> "DataFrame":
        folder = self._plan.place(stream)
        folder.mkdir(parents=True, exist_ok=True)
        return self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))

    def _start(
        self, name: str, frame: "DataFrame", function: "Callable[[DataFrame, int, BatchCollector], object]"
    ) -> "StreamingQuery":
        checkpoint = str(self._plan.place("checkpoints") / name)
        writer = frame.writeStream.foreachBatch(self._acker.foreach_batch(function))
        return writer.option("checkpointLocation", checkpoint).start()


def main(plan: Plan) -> None:
    """Run the queries until the process is ended."""
    pipeline = Pipeline(plan, start_session(Path(plan.folder)))
    run_queries(
        {
            "split-messages": pipeline.start_splitting_messages,
            "split-lines": pipeline.start_splitting_lines,
            "greet": pipeline.start_greeting,
        }
    )


if __name__ == "__main__":
    main(Plan(**json.loads(sys.argv[1])))
