"""``format("acker")``: where it begins, what it does about lost completions, and the same completions as a batch."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pyspark
import pytest
from acker_protocol import routes
from acker_spark.errors import DataLoss, UsageError
from acker_spark.source.datasource import CompletionsSource, CompletionsStreamReader
from acker_spark.source.options import read_options
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from tests.spark.mailboxes import SPOUT, Mailbox, Sink, Source, roots

pytestmark = pytest.mark.timeout(600)


MakeReader = Callable[..., CompletionsStreamReader]


@pytest.fixture
def stream_reader(options: dict[str, str]) -> Iterator[MakeReader]:
    """Makes readers, as Spark holds them on its driver, with further options."""
    made: list[CompletionsStreamReader] = []

    def make(**more: str) -> CompletionsStreamReader:
        made.append(CompletionsStreamReader(read_options(options | more)))
        return made[-1]

    yield make
    for reader in made:
        reader._mailbox.close()


def batch(spark: SparkSession, options: dict[str, str], **more: str) -> DataFrame:
    return spark.read.format("acker").options(**options, **more).load()


def ids(frame: DataFrame) -> list[int]:
    return sorted(int(row.message_id) for row in frame.collect())


def test_an_offset_counts_the_completions_and_does_not_change_while_there_are_none(
    mailbox: Mailbox, stream_reader: MakeReader
) -> None:
    reader = stream_reader(pollTimeoutMs="0")
    mailbox.complete(1, 2)
    _, two = reader.read(reader.initialOffset())
    mailbox.complete(3)
    _, three = reader.read(two)
    assert (two["count"], three["count"]) == (2, 3)
    assert reader.read(three)[1] == three


def test_the_latest_offset_skips_and_releases_what_is_there(mailbox: Mailbox, stream_reader: MakeReader) -> None:
    mailbox.complete(1, 2)
    reader = stream_reader(startingOffsets="latest")
    start = reader.initialOffset()
    assert start["count"] == 0
    mailbox.complete(3)
    rows, _ = reader.read(start)
    assert roots(rows) == [3]
    assert mailbox.unread() == 1


def test_a_query_begins_at_the_cursor_that_it_is_given(mailbox: Mailbox, stream_reader: MakeReader) -> None:
    mailbox.complete(1, 2)
    first = stream_reader()
    _, end = first.read(first.initialOffset())
    mailbox.complete(3)
    reader = stream_reader(startingOffsets=json.dumps(end))
    rows, _ = reader.read(reader.initialOffset())
    assert roots(rows) == [3]


def test_a_batch_that_is_read_again_without_some_of_its_completions_is_an_error(
    mailbox: Mailbox, stream_reader: MakeReader, caplog: pytest.LogCaptureFixture
) -> None:
    mailbox.complete(1, 2, 3)
    reader = stream_reader(maxCompletionsPerTrigger="2")
    start = reader.initialOffset()
    _, two = reader.read(start)
    _, end = stream_reader().read(start)
    mailbox.release(two["cursor"])
    with pytest.raises(DataLoss, match=r"2 of 3 completions .* Set failOnDataLoss to false"):
        list(reader.readBetweenOffsets(start, end))
    lenient = stream_reader(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, logger="acker_spark"):
        assert len(list(lenient.readBetweenOffsets(start, end))) == 1
    assert "2 of 3 completions of spout task 'orders' are gone" in caplog.text


def test_a_query_ends_when_completions_of_its_batch_are_lost_and_goes_on_if_an_option_says_so(
    mailbox: Mailbox, completions: Source, sink: Sink, stream_reader: MakeReader
) -> None:
    mailbox.complete(1, 2, 3)
    sink.failing = {0}
    with pytest.raises(Exception, match="the driver dies"):
        sink.run(completions())
    sink.failing = set()
    reader = stream_reader()
    mailbox.release(reader.read(reader.initialOffset())[1]["cursor"])
    with pytest.raises(Exception, match="3 of 3 completions of spout task 'orders' are gone"):
        sink.run(completions())
    sink.batches.clear()
    sink.run(completions(failOnDataLoss=False))
    assert sink.roots() == []
    mailbox.complete(4)
    sink.run(completions(failOnDataLoss=False))
    assert sink.roots() == [4]


def test_completions_are_read_as_a_batch_which_releases_none(
    mailbox: Mailbox, spark: SparkSession, options: dict[str, str], stream_reader: MakeReader
) -> None:
    assert ids(batch(spark, options)) == []
    mailbox.complete(1, 2)
    mailbox.fail(3, "no such card")
    frame = batch(spark, options)
    assert ids(frame) == [1, 2, 3]
    assert [row.reason for row in frame.where("outcome = 'failed'").collect()] == ["no such card"]
    assert mailbox.unread() == 3
    reader = stream_reader()
    _, end = reader.read(reader.initialOffset())
    mailbox.complete(4)
    assert ids(batch(spark, options, startingOffsets=json.dumps(end))) == [4]


def test_a_batch_of_several_pages_is_read_whole(mailbox: Mailbox, spark: SparkSession, options: dict[str, str]) -> None:
    mailbox.complete(*range(1, 6_001))
    assert batch(spark, options).count() == 6_000


def test_the_latest_offset_is_refused_for_a_batch(spark: SparkSession, options: dict[str, str]) -> None:
    with pytest.raises(PySparkException, match=r"leaves spark\.read nothing to read"):
        batch(spark, options, startingOffsets="latest").collect()


def test_a_partition_that_lost_completions_since_it_was_planned_is_an_error(
    mailbox: Mailbox, options: dict[str, str]
) -> None:
    mailbox.complete(1, 2)
    source = CompletionsSource(options)
    reader: Any = source.reader(source.schema())
    [partition] = reader.partitions()
    mailbox.release(partition.end)
    with pytest.raises(DataLoss, match=r"2 of 2 .* call load\(\) again, or set failOnDataLoss to false"):
        list(reader.read(partition))
    with pytest.raises(UsageError, match="leave"):
        source.reader(StructType([StructField("word", StringType())]))


DERIVED_IS_READ_ANEW = pyspark.__version__.startswith("4.0.")
"""It plans the partitions of each frame that is derived from another."""


def test_a_frame_and_all_that_is_derived_from_it_stay_as_they_were_first_read(
    mailbox: Mailbox, spark: SparkSession, options: dict[str, str]
) -> None:
    mailbox.complete(1, 2)
    frame, unread = batch(spark, options), batch(spark, options)
    assert ids(frame) == [1, 2]
    mailbox.complete(3)
    derived = [1, 2, 3] if DERIVED_IS_READ_ANEW else [1, 2]
    assert ids(frame) == [1, 2]
    assert ids(frame.where("outcome = 'acked'")) == ids(frame.union(frame.limit(0))) == derived
    assert ids(unread) == ids(batch(spark, options)) == [1, 2, 3]
    mailbox.release(mailbox.acker.http.get(routes.completions(mailbox.topology, SPOUT)).json()["cursor"])
    with pytest.raises(Exception, match=r"call load\(\) again"):
        ids(frame)
