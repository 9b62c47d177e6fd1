"""The mailbox of a spout task as the tests of ``format("acker")`` see it, and a sink for its completions."""

import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from acker_protocol import routes
from acker_protocol.ids import format_id
from acker_spark.source.datasource import CompletionsStreamReader
from acker_spark.source.options import read_options
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.support.servers import AckerProcess

SPOUT = "orders"
Source = Callable[..., DataFrame]


class Mailbox:
    """The mailbox of a spout task, seen from outside."""

    def __init__(self, acker: AckerProcess, topology: str) -> None:
        self.acker = acker
        self.topology = topology

    def complete(self, *roots: int) -> None:
        """End roots, each in an instant."""
        inits = [
            {"op": "init", "root_id": format_id(root), "spout_task": SPOUT, "edges": [], "message_id": str(root)}
            for root in roots
        ]
        self.acker.http.post(routes.operation(self.topology, "batch"), json={"ops": inits}).raise_for_status()

    def fail(self, root: int, reason: str) -> None:
        edge = {"root_id": format_id(root), "spout_task": SPOUT, "edges": ["00000000000000aa"], "message_id": str(root)}
        self.acker.http.post(routes.operation(self.topology, "init"), json=edge).raise_for_status()
        failed = {"root_id": format_id(root), "reason": reason, "component": "authorize"}
        self.acker.http.post(routes.operation(self.topology, "fail"), json=failed).raise_for_status()

    def release(self, cursor: str) -> None:
        self.acker.http.post(routes.release(self.topology, SPOUT), json={"cursor": cursor}).raise_for_status()

    def unread(self) -> int:
        return int(self.acker.http.get(routes.spout(self.topology, SPOUT)).raise_for_status().json()["unread"])


@pytest.fixture
def mailbox(acker_process: AckerProcess) -> Mailbox:
    """The mailbox of a topology of this test alone."""
    topology = f"source-{uuid.uuid4().hex[:12]}"
    acker_process.http.put(routes.topology(topology), json={"ackers": 2}).raise_for_status()
    return Mailbox(acker_process, topology)


@pytest.fixture
def options(mailbox: Mailbox) -> dict[str, str]:
    return {"url": mailbox.acker.url, "topology": mailbox.topology, "spoutTask": SPOUT}


@pytest.fixture
def completions(spark: SparkSession, options: dict[str, str]) -> Source:
    def source(**more: object) -> DataFrame:
        given = options | {name: str(value) for name, value in more.items()}
        return spark.readStream.format("acker").options(**given).load()

    return source


class Sink:
    """Takes batches; those told to fail do so after they were taken, before Spark commits them."""

    def __init__(self, folder: Path) -> None:
        self.checkpoint = str(folder / "checkpoint")
        self.batches: list[tuple[int, list[dict[str, Any]]]] = []
        self.failing: set[int] = set()

    def take(self, batch: DataFrame, number: int) -> None:
        rows = [row.asDict() for row in batch.collect()]
        self.batches.append((number, rows))
        if number in self.failing:
            raise RuntimeError("the driver dies before Spark commits this batch")

    def start(self, source: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = source.writeStream.foreachBatch(self.take).option("checkpointLocation", self.checkpoint)
        return writer.trigger(**trigger).start() if trigger else writer.start()

    def run(self, source: DataFrame) -> None:
        """Take what there is."""
        self.start(source, availableNow=True).awaitTermination()

    def roots(self) -> list[int]:
        return sorted(int(row["message_id"]) for _, rows in self.batches for row in rows)

    def sizes(self) -> list[int]:
        return [len(rows) for _, rows in self.batches]


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path)


@pytest.fixture
def reader(options: dict[str, str]) -> Iterator[CompletionsStreamReader]:
    """A reader as Spark holds one on its driver, but without a Spark."""
    reader = CompletionsStreamReader(read_options(options | {"pollTimeoutMs": "60000"}))
    yield reader
    reader._mailbox.close()


def roots(rows: Iterable[tuple[Any, ...]]) -> list[int]:
    return sorted(int(row[3]) for row in rows)
