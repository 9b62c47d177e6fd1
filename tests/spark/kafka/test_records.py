"""Which records of a topic become rows with roots and anchors, and which end the query."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from tests.spark.kafka.topics import Record, Topic
from tests.spark.test_headers import NAME, begin, header, nothing
from tests.spark.tracked import Tracked, expect_outcomes, run

READ_COMMITTED = {"kafka_isolation_level": "read_committed"}
COMMITTED, ABORTED = {"a", "b", "e"}, {"c", "d", "f"}


def write_transactions(topic: Topic, **headers: str) -> None:
    """Write a record of each name, in transactions of which the second and the last are aborted."""

    def records(names: str) -> list[Record]:
        given = {name: [(NAME, headers[name].encode())] if name in headers else None for name in names}
        return [Record(key=name, value=name, headers=given[name]) for name in names]

    topic.transact((True, records("ab")), (False, records("cd")), (True, records("e")), (False, records("f")))


@pytest.mark.parametrize(
    ("options", "expected"),
    [(READ_COMMITTED, COMMITTED), ({}, COMMITTED | ABORTED)],
    ids=["read_committed", "by default"],
)
def test_records_of_aborted_transactions_become_roots_unless_the_isolation_leaves_them_out(
    spark: Any, tracked: Tracked, topic: Topic, tmp_path: Path, options: dict[str, str], expected: set[str]
) -> None:
    write_transactions(topic)
    acker = tracked.acker()
    rooted = acker.root(topic.stream(spark, **options), F.col("key").cast("string"))
    run(rooted, acker.foreach_batch(nothing), tmp_path / "checkpoint")
    expect_outcomes(tracked, dict.fromkeys(expected, "acked"))


def test_anchors_of_aborted_transactions_are_not_acked_with_the_isolation_of_the_page(
    spark: Any, tracked: Tracked, topic: Topic, tmp_path: Path
) -> None:
    roots = {name: 10 * at for at, name in enumerate(sorted(COMMITTED | ABORTED), 1)}
    begin(tracked, **roots)
    write_transactions(topic, **{name: header(tracked, root) for name, root in roots.items()})
    acker = tracked.acker()
    received = acker.received(topic.stream(spark, **READ_COMMITTED), headers="headers")
    run(received, acker.foreach_batch(nothing), tmp_path / "checkpoint")
    expect_outcomes(tracked, dict.fromkeys(COMMITTED, "acked"))
    assert tracked.pending() == ABORTED


@pytest.mark.parametrize("name", [NAME, NAME.lower()])
def test_a_record_whose_header_is_null_ends_the_query(
    spark: Any, tracked: Tracked, topic: Topic, tmp_path: Path, name: str
) -> None:
    topic.produce(Record(key="a", headers=[("trace", None), (name, None)]))
    acker = tracked.acker()
    received = acker.received(topic.stream(spark), headers="headers")
    with pytest.raises(PySparkException, match=f"of another topology than '{tracked.topology}': null"):
        run(received, acker.foreach_batch(nothing), tmp_path / "checkpoint")


def test_a_tombstone_is_a_message_and_a_record_without_the_key_that_names_it_is_refused(
    spark: Any, tracked: Tracked, topic: Topic, tmp_path: Path
) -> None:
    topic.produce(Record(key="a", value="1"), Record(key="b"))
    acker = tracked.acker()
    rooted = acker.root(topic.stream(spark), F.col("key").cast("string"))
    run(rooted, acker.foreach_batch(nothing), tmp_path / "checkpoint")
    expect_outcomes(tracked, {"a": "acked", "b": "acked"})
    topic.produce(Record(value="2"))
    with pytest.raises(PySparkException, match="no message id"):
        run(rooted, acker.foreach_batch(nothing), tmp_path / "checkpoint")
