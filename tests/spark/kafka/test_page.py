"""The block about Kafka of the page about Spark (docs/spark.md) does what the page says."""

from pathlib import Path
from typing import Any

import pytest
from acker_client import Acker
from acker_spark import SparkAcker

from examples.support.kafka import KafkaBroker
from tests.spark.kafka.topics import Record, Topic
from tests.spark.test_headers import NAME, begin, header
from tests.spark.tracked import Tracked, expect_outcomes
from tests.support.pages import own_block

SHOWN = {"address": "127.0.0.1:9092", "checkpoint": '"checkpoint")'}


def start(spark: Any, acker: SparkAcker, kafka: KafkaBroker, folder: Path) -> Any:
    """Run the block, and give the query that it starts."""
    code = own_block("spark.md", __file__)
    assert all(code.count(shown) for shown in SHOWN.values())
    code = code.replace(SHOWN["address"], kafka.address).replace(SHOWN["checkpoint"], f"{str(folder)!r})")
    exec(code, {"spark": spark, "acker": acker})
    [query] = spark.streams.active
    return query


@pytest.fixture
def records(tracked: Tracked) -> list[Record]:
    """Records with every kind of headers: keys and values may be null, and so may the values of other headers."""
    begin(tracked, a=10, b=20, c=30, d=40, e=50)
    one, two, gone = (header(tracked, *roots).encode() for roots in ((10,), (20, 30), (40,)))
    return [
        Record(key="one", value="1", headers=[("trace", b"t1"), (NAME, one)]),
        Record(value="2", headers=[(NAME.lower(), two), ("trace", b"t2"), ("trace", b"t3")]),
        Record(key="gone", headers=[(NAME, gone)]),
        Record(key="free", value="4", headers=[("trace", b"t4"), ("empty", None)]),
        Record(key="bare", value="5"),
    ]


@pytest.fixture
def taken_back(tracked: Tracked, records: list[Record]) -> Record:
    """A record of a transaction that is aborted."""
    return Record(key="taken back", value="6", headers=[(NAME, header(tracked, 50).encode())])


def others(headers: Any) -> list[tuple[str, bytes | None]]:
    return [(name, value) for name, value in headers or [] if name.lower() != NAME.lower()]


def test_anchors_come_in_by_the_header_and_leave_by_it_and_all_else_stays_as_it_is(
    spark: Any, kafka: KafkaBroker, tracked: Tracked, records: list[Record], taken_back: Record, tmp_path: Path
) -> None:
    orders, receipts = Topic.create(kafka, "orders"), Topic.create(kafka, "receipts")
    query = start(spark, tracked.acker(), kafka, tmp_path / "checkpoint")
    try:
        query.processAllAvailable()  # it begins behind what was there when it was started
        orders.transact((False, [taken_back]), (True, records), (False, [taken_back]))
        query.processAllAvailable()
    finally:
        query.stop()
    found = receipts.read()
    texts = [(each.key(), each.value()) for each in found]
    assert texts == [(record.key and record.key.encode(), record.value and record.value.encode()) for record in records]
    assert [others(each.headers()) for each in found] == [others(record.headers) for record in records]
    assert tracked.pending() == {"a", "b", "c", "d", "e"}
    with Acker(tracked.process.url, topology=tracked.topology) as bolt:
        counts = []
        for each in found:
            with bolt.receive(each.headers(), component="receipts") as receipt:
                counts.append(len(receipt.anchors.anchors))
    assert counts == [1, 2, 1, 0, 0]
    expect_outcomes(tracked, dict.fromkeys("abcd", "acked"))
    assert tracked.pending() == {"e"}
