"""A driver on a cluster with speculation on: one task waits until a copy of it has come as far.

Arguments: the acker's address, topology, folder, master, and who acks: the connector at level ``batch`` or ``rows``, or
the ``tasks`` themselves.
"""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
from acker_spark import SparkAcker
from acker_spark import functions as af
from acker_spark._batch.columns import EDGE, ROOT, digits
from acker_spark._batch.running import RunningQuery
from acker_spark._batch.sinks import note_tracked
from pyspark import TaskContext
from pyspark.sql import functions as F

from tests.spark.driver import SCHEMA
from tests.spark.session import JVM, make_session
from tests.spark.tracked import run
from tests.support.waiting import eventually_true

SLOW = "w0"
"""The word at which a task waits for its copy."""

TASKS = 4
READ, WRITTEN = "read", "written"
"""Where attempts are noted: in a column, which the connector itself computes, and in the function of the batch."""

SPECULATION = {
    "spark_speculation": "true",
    "spark_speculation_interval": "50ms",
    "spark_speculation_multiplier": "1.0",
    "spark_speculation_quantile": "0.5",
    "spark_locality_wait": "0s",
    "spark_task_maxFailures": "1",
    "spark_executor_memory": "512m",
    "spark_executor_extraJavaOptions": JVM,
}
"""A task that fails ends the job: what is seen to run twice is a copy."""


def noting(folder: Path) -> Callable[[str], str]:
    """Return what notes a word under the number of the attempt; at the slow one each attempt waits for the other.

    So both have done what they do before it when Spark takes the result of either, and kills the other.
    """

    def note(word: str) -> str:
        attempt = TaskContext.get().attemptNumber()
        (folder / f"{word}.{attempt}").touch()
        if word == SLOW:
            eventually_true((folder / f"{word}.{1 - attempt}").exists, within=300)
        return word

    folder.mkdir()
    return note


def connector_acks(acker: SparkAcker, lines: Any, home: Path, level: str) -> tuple[Any, Any]:
    """Return words in tasks of their own, and the function of their batches."""
    array, rooted = F.split("sentence", " "), acker.root(lines, "id")
    read = F.udf(noting(home / READ), "string", useArrow=False).asNondeterministic()
    write = noting(home / WRITTEN)

    def written(rows: Any, *_: Any) -> None:
        rows.foreach(lambda row: write(row.word))

    if level == "rows":
        split, function = af.explode(rooted, array, "word", stage="split"), acker.foreach_rows(written)
    else:
        split, function = rooted.withColumn("word", F.explode(array)), acker.foreach_batch(written)
    return split.repartition(TASKS, "word").withColumn("word", read("word")), function


def tasks_ack(acker: SparkAcker, lines: Any, home: Path) -> tuple[Any, Any]:
    """Return the messages in tasks of their own, and a function whose tasks say themselves what they have done."""
    write = noting(home / WRITTEN)
    url = f"{acker.options.url}/v1/topologies/{acker.options.topology}/batch"

    def post(ops: Iterable[dict[str, str]]) -> None:
        httpx.post(url, json={"ops": list(ops)}, timeout=60).raise_for_status()

    def send(rows: Iterable[Any]) -> None:
        done = list(rows)
        post({"op": "ack", "root_id": row.root, "ack_val": row.edge} for row in done)
        for row in done:
            write(row.word)

    def begun_and_sent(rows: Any, _: int) -> None:
        begin = {"op": "init", "spout_task": acker.options.spout_task}
        post({**begin, "root_id": one.root, "ack_val": one.edge, "message_id": str(one.id)} for one in rows.collect())
        rows.foreachPartition(send)
        note_tracked(RunningQuery.of(rows))  # else the connector refuses a function that goes past it

    anchor = {"root": digits(F.col(ROOT)), "edge": digits(F.col(EDGE))}
    named = acker.root(lines, "id").withColumns(anchor).withColumn("word", F.concat(F.lit("w"), "id"))
    return named.repartition(TASKS, "word"), begun_and_sent


def main() -> None:
    """Run over all there is."""
    url, topology, folder, master, who = sys.argv[1:]
    home = Path(folder)
    session = make_session(home, master=master, **SPECULATION)
    acker = SparkAcker(url=url, topology=topology, spout_task="reader")
    lines = session.readStream.schema(SCHEMA).json(str(home / "source"))
    ways = tasks_ack(acker, lines, home) if who == "tasks" else connector_acks(acker, lines, home, who)
    run(*ways, home / "checkpoint")
    session.stop()


if __name__ == "__main__":
    main()
