"""``format("acker")``: the completions of a spout task as a streaming source."""

import json
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pyspark_acker
import pytest
from acker_protocol import routes
from acker_protocol.errors import MailboxOwned, UnknownTopology
from acker_protocol.ids import format_id
from acker_spark.errors import UsageError
from acker_spark.source.datasource import CompletionsSource, CompletionsStreamReader
from acker_spark.source.options import read_options
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StringType, StructField, StructType

from tests.support.servers import AckerProcess
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.timeout(600)

in_batches = pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2), reason="availableNow takes one batch before 4.2"
)
SPOUT = "orders"
Source = Callable[..., DataFrame]


class Mailbox:
    """The mailbox of a spout task, seen from outside."""

    def __init__(self, acker: AckerProcess, topology: str) -> None:
        self.acker, self.topology = acker, topology

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


@in_batches
def test_available_now_takes_what_is_there_in_batches_of_the_bound_and_releases_it(
    mailbox: Mailbox, completions: Source, sink: Sink
) -> None:
    mailbox.complete(*range(1, 25))
    mailbox.fail(25, "no such card")
    page = mailbox.acker.http.get(routes.completions(mailbox.topology, SPOUT)).json()["completions"]
    sink.run(completions(maxCompletionsPerTrigger=10))
    assert sink.sizes() == [10, 10, 5]
    rows = [row for _, rows in sink.batches for row in rows]
    assert sorted(rows, key=str) == sorted(page, key=str)
    assert [row["reason"] for row in rows if row["outcome"] == "failed"] == ["no such card"]
    assert mailbox.unread() == 0


def test_a_query_that_goes_on_releases_what_spark_has_committed(
    mailbox: Mailbox, completions: Source, sink: Sink
) -> None:
    mailbox.complete(1, 2, 3)
    query = sink.start(completions(pollTimeoutMs=100))
    try:
        eventually_true(lambda: mailbox.unread() == 0, within=120)
        mailbox.complete(4)
        eventually_true(lambda: sink.roots() == [1, 2, 3, 4], within=120)
    finally:
        query.stop()


@in_batches
def test_a_batch_that_was_not_committed_comes_again_the_same_from_the_checkpoint(
    mailbox: Mailbox, completions: Source, sink: Sink
) -> None:
    mailbox.complete(*range(1, 11))
    sink.failing = {0}
    with pytest.raises(Exception, match="the driver dies"):
        sink.run(completions(maxCompletionsPerTrigger=7))
    mailbox.complete(*range(11, 31))
    assert mailbox.unread() == 30
    [*_, offset] = (Path(sink.checkpoint) / "offsets" / "0").read_text().splitlines()
    assert json.loads(offset).keys() == {"cursor"}
    sink.failing = set()
    sink.run(completions(maxCompletionsPerTrigger=100))
    (_, first), (number, again), (_, rest) = sink.batches
    assert number == 0
    assert len(first) == 7
    assert sorted(again, key=str) == sorted(first, key=str)
    assert sorted(int(row["message_id"]) for row in again + rest) == list(range(1, 31))


def test_available_now_leaves_what_comes_later_to_the_next_run(
    mailbox: Mailbox, reader: CompletionsStreamReader
) -> None:
    mailbox.complete(1, 2)
    reader.prepareForTriggerAvailableNow()
    mailbox.complete(3, 4)
    rows, end = reader.read(reader.initialOffset())
    assert roots(rows) == [1, 2]
    rows, last = reader.read(end)
    assert ([*rows], last) == ([], end)


def test_available_now_ends_where_nobody_has_emitted_yet(reader: CompletionsStreamReader) -> None:
    reader.prepareForTriggerAvailableNow()
    rows, end = reader.read(reader.initialOffset())
    assert ([*rows], end) == ([], reader.initialOffset())


def test_an_idle_reader_waits_at_the_acker_for_the_first_completion(
    mailbox: Mailbox, reader: CompletionsStreamReader
) -> None:
    """It reads on in one call, and would in vain if that did not wait until there is something."""
    mailbox.complete(1)
    _, start = reader.read(reader.initialOffset())
    emitting = threading.Timer(0.2, mailbox.complete, [2])
    emitting.start()
    rows, _ = reader.read(start)
    emitting.join()
    assert roots(rows) == [2]


def test_what_was_read_on_from_is_released(mailbox: Mailbox, reader: CompletionsStreamReader) -> None:
    mailbox.complete(1, 2)
    _, end = reader.read(reader.initialOffset())
    assert mailbox.unread() == 2
    mailbox.complete(3)
    rows, _ = reader.read(end)
    assert roots(rows) == [3]
    assert mailbox.unread() == 1


def test_every_fault_in_the_options_is_told_at_load(spark: SparkSession) -> None:
    wrong = {"url": "ftp://acker", "spoutTaks": "orders", "maxCompletionsPerTrigger": "0", "token": "a-secret-key"}
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as told:
        spark.readStream.format("acker").options(**wrong).load()
    said = str(told.value)
    for fault in (
        "url must be an http or https URL, not 'ftp://acker'",
        ", did you mean spoutTask?",
        "topology is missing",
        "spoutTask is missing",
        "maxCompletionsPerTrigger must be a whole number from 1 to 1000000, not '0'",
    ):
        assert fault in said
    assert "a-secret-key" not in said


def test_the_columns_cannot_be_chosen(options: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"leave \.schema\(…\) out"):
        CompletionsSource(options).simpleStreamReader(StructType([StructField("word", StringType())]))


def test_the_key_is_shown_nowhere(options: dict[str, str], completions: Source) -> None:
    source = completions(token="a-secret-key")
    assert "a-secret-key" not in repr(read_options(options | {"token": "a-secret-key"}))
    plan = source._jdf.queryExecution().toString()
    assert "redacted" in plan
    assert "a-secret-key" not in plan


def test_a_topology_that_is_not_there_is_told(options: dict[str, str]) -> None:
    reader = CompletionsStreamReader(read_options(options | {"topology": "nowhere"}))
    with pytest.raises(UnknownTopology, match="nowhere"):
        reader.read(reader.initialOffset())
    reader._mailbox.close()


def test_a_webhook_that_owns_the_mailbox_is_told(mailbox: Mailbox, reader: CompletionsStreamReader) -> None:
    mailbox.complete(1)
    callback = {"kind": "webhook", "url": "http://127.0.0.1:9/"}
    path = routes.spout(mailbox.topology, SPOUT)
    mailbox.acker.http.put(path, json={"callback": callback})
    _, end = reader.read(reader.initialOffset())
    with pytest.raises(MailboxOwned, match="webhook"):
        reader.commit(end)


def test_spark_finds_it_by_the_package_that_is_named_so() -> None:
    assert pyspark_acker.DefaultSource is CompletionsSource
