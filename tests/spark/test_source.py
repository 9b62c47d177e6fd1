"""``format("acker")``: the completions of a spout task as a streaming source."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pyspark
import pyspark_acker
import pytest
from acker_protocol import routes
from acker_protocol.errors import MailboxOwned, UnknownTopology
from acker_spark.errors import UsageError
from acker_spark.source.datasource import CompletionsReader, CompletionsSource, CompletionsStreamReader
from acker_spark.source.options import read_options
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from tests.spark.mailboxes import SPOUT, Mailbox, Sink, Source, roots
from tests.support.waiting import eventually_true

pytestmark = pytest.mark.timeout(600)

in_batches = pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2), reason="availableNow takes one batch before 4.2"
)


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
    found = json.loads(offset)
    assert found.keys() == {"cursor", "count"}
    assert found["count"] == 7
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


def test_every_fault_in_the_options_is_raised_at_load(spark: SparkSession) -> None:
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


def test_a_topology_that_is_not_there_is_reported(options: dict[str, str]) -> None:
    reader = CompletionsStreamReader(read_options(options | {"topology": "nowhere"}))
    with pytest.raises(UnknownTopology, match="nowhere"):
        reader.read(reader.initialOffset())
    reader._mailbox.close()


def test_a_webhook_that_owns_the_mailbox_is_reported(mailbox: Mailbox, reader: CompletionsStreamReader) -> None:
    mailbox.complete(1)
    callback = {"kind": "webhook", "url": "https://hooks.example/"}
    path = routes.spout(mailbox.topology, SPOUT)
    mailbox.acker.http.put(path, json={"callback": callback})
    _, end = reader.read(reader.initialOffset())
    with pytest.raises(MailboxOwned, match="webhook"):
        reader.commit(end)


def test_spark_finds_it_by_the_package_that_is_named_so() -> None:
    assert pyspark_acker.DefaultSource is CompletionsSource


def read_stream(options: dict[str, str]) -> None:
    """As a query that waits for completions."""
    reader = CompletionsStreamReader(read_options(options))
    for _ in range(2):
        rows, _ = reader.read(reader.initialOffset())
        assert [*rows] == []
    reader._mailbox.close()


def read_available_now(options: dict[str, str]) -> None:
    """As a query that takes what is there."""
    reader = CompletionsStreamReader(read_options(options))
    reader.prepareForTriggerAvailableNow()
    reader._mailbox.close()


def read_latest(options: dict[str, str]) -> None:
    """As a query that begins with the next completion."""
    reader = CompletionsStreamReader(read_options(options | {"startingOffsets": "latest"}))
    assert reader.initialOffset() == {"cursor": "", "count": 0}
    reader._mailbox.close()


def read_batch(options: dict[str, str]) -> None:
    """As a batch."""
    reader = CompletionsReader(read_options(options))
    [partition] = reader.partitions()
    assert [*reader.read(partition)] == []


@pytest.mark.parametrize("read", [read_stream, read_available_now, read_latest, read_batch])
def test_a_spout_task_that_is_not_there_is_warned_of_once_and_may_come_later(
    mailbox: Mailbox,
    options: dict[str, str],
    read: Callable[[dict[str, str]], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    wrong = options | {"spoutTask": "order", "pollTimeoutMs": "0"}
    mailbox.complete(1)
    read(wrong)
    assert [one for one in caplog.messages if "no spout task" in one] == [
        f"topology {mailbox.topology!r} has no spout task 'order', so there are no completions: nothing has emitted a "
        "root of it yet, or spoutTask has another name than the spout task that emits"
    ]
