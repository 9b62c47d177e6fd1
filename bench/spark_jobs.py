"""The jobs on which acking is measured, at each level: no acks, the least of any tracker, batch level, row level.

*counting*: sentences of eight words are split and counted; next to no work for a message. *orders*: JSON is parsed, its
twenty items are joined with their products, summed by customer and product group, and written as Parquet.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acker_protocol.ids import derive_edge
from acker_protocol.operations import Ack, Init
from acker_spark import SparkAcker
from acker_spark import functions as af
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

WORDS_EACH, ITEMS_EACH, PRODUCTS = 8, 20, 1_000
MESSAGES_A_FILE = 15_000
"""A file is a batch."""
LEVELS = ("plain", "least", "batch", "row")
"""*least* does what no tracker can leave out: it keeps each batch, collects its ids, and sends one root for it."""
ORDER = "struct<customer:int,placed:string,address:string,items:array<struct<product:int,amount:int,cents:int>>>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job: its messages (an id and a body), how a row becomes several, and what is made of them and written."""

    name: str
    messages: Path
    split: "Callable[[], Column]"
    finish: "Callable[[DataFrame, Path], None]"

    def run(self, spark: "SparkSession", level: str, out: Path, acker: SparkAcker) -> None:
        """Run it over all messages, to the end."""
        stream = spark.readStream.schema("id string, body string").option("maxFilesPerTrigger", 1)
        messages = stream.parquet(str(self.messages))
        rooted = messages if level in ("plain", "least") else acker.root(messages, message_id="id")
        rows = af.explode(rooted, self.split(), "part", stage="parts").drop("body") if level == "row" else rooted
        writer = rows.writeStream.foreachBatch(self._function(level, out, acker))
        query = writer.option("checkpointLocation", str(out / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()

    def _function(self, level: str, out: Path, acker: SparkAcker) -> Any:
        if level == "row":
            return acker.foreach_rows(lambda batch, batch_id: self.finish(batch, out / str(batch_id)))
        if level == "batch":
            return acker.foreach_batch(lambda batch, batch_id, _: self._whole(batch, out / str(batch_id)))
        if level == "least":
            return lambda batch, batch_id: self._tracked_least(batch, batch_id, out / str(batch_id), acker)
        return lambda batch, batch_id: self._whole(batch, out / str(batch_id))

    def _tracked_least(self, batch: "DataFrame", batch_id: int, place: Path, acker: SparkAcker) -> None:
        """Track a batch as one root, with one request."""
        _ = acker.topology  # creates it
        kept = batch.persist()
        ids = kept.select("id").toArrow()["id"].to_pylist()
        root = derive_edge(root_id=1 + batch_id, parent_edge=len(set(ids)), component=self.name, name=ids[0])
        self._whole(kept, place)
        kept.unpersist()
        init = Init(root_id=root, spout_task=acker.options.spout_task, ack_val=root, message_id=ids[0])
        acker.sender.send([init, Ack(root_id=root, ack_val=root, edge_id=root)])

    def _whole(self, batch: "DataFrame", place: Path) -> None:
        self.finish(batch.select(F.explode(self.split()).alias("part")), place)


def batches(count: int) -> int:
    """Return into how many batches messages fall."""
    return 1 + count // MESSAGES_A_FILE


def counting(spark: "SparkSession", folder: Path, sentences: int) -> Job:
    """Make the cheap job."""
    words = [F.concat(F.lit("word"), (F.hash("id", F.lit(at)) % 5_000).cast("string")) for at in range(WORDS_EACH)]
    _messages(spark, sentences, F.concat_ws(" ", *words)).write.parquet(str(folder / "sentences"))

    def finish(rows: "DataFrame", _: Path) -> None:
        rows.groupBy("part").count().collect()

    return Job(name="counting", messages=folder / "sentences", split=lambda: F.split("body", " "), finish=finish)


def orders(spark: "SparkSession", folder: Path, count: int) -> Job:
    """Make the realistic job."""
    items = F.transform(F.sequence(F.lit(1), F.lit(ITEMS_EACH)), _item)
    order = F.struct(
        (F.hash("id") % 20_000).alias("customer"),
        F.lit("2026-11-22T08:05:00Z").alias("placed"),
        F.concat(F.lit("Street "), F.col("id"), F.lit(", 12345 Town")).alias("address"),
        items.alias("items"),
    )
    _messages(spark, count, F.to_json(order)).write.parquet(str(folder / "orders"))
    groups = spark.range(PRODUCTS).select(F.col("id").cast("int").alias("product"), (F.col("id") % 40).alias("kind"))
    groups.write.parquet(str(folder / "products"))
    products = spark.read.parquet(str(folder / "products"))

    def finish(rows: "DataFrame", place: Path) -> None:
        parts = rows.select("part.*").join(F.broadcast(products), "product")
        sums = parts.groupBy("customer", "kind").agg(F.sum(F.col("amount") * F.col("cents")).alias("cents"))
        sums.write.parquet(str(place))

    return Job(name="orders", messages=folder / "orders", split=_items_of_order, finish=finish)


def _items_of_order() -> "Column":
    order = F.from_json("body", ORDER)
    return F.transform(
        order["items"],
        lambda item: F.struct(
            order["customer"].alias("customer"),
            item["product"].alias("product"),
            item["amount"].alias("amount"),
            item["cents"].alias("cents"),
        ),
    )


def _item(at: "Column") -> "Column":
    return F.struct(
        F.abs(F.hash("id", at) % PRODUCTS).alias("product"), (at % 5).alias("amount"), (at * 125).alias("cents")
    )


def _messages(spark: "SparkSession", count: int, body: "Column") -> "DataFrame":
    ids = spark.range(0, count, 1, batches(count)).select(F.col("id").cast("string").alias("id"))
    return ids.select("id", body.alias("body"))


def timed(job: Job, spark: "SparkSession", level: str, out: Path, acker: SparkAcker) -> float:
    """Run a job, and return how many seconds it took."""
    since = time.monotonic()
    job.run(spark, level, out, acker)
    return time.monotonic() - since
