"""At batch level a root is acked when the function of its batch returns, unless the ledger says otherwise."""

from pathlib import Path
from typing import Any

import pytest
from acker_spark.columns import EDGE, ROOT
from pyspark.sql import functions as F

from tests.spark.tracked import Source, Tracked, run, told


@pytest.fixture
def source(spark: Any, tmp_path: Path) -> Source:
    return Source(spark=spark, folder=tmp_path / "source", schema="id long, sentence string")


def nothing(batch: Any, batch_id: int, ledger: Any) -> None:
    """Do nothing."""


def test_a_root_is_acked_when_its_function_returns(source: Source, tracked: Tracked, tmp_path: Path) -> None:
    source.put({"id": 1, "sentence": "a b"}, {"id": 2, "sentence": "c"})
    source.put({"id": 3, "sentence": "d"})
    acker = tracked.acker()
    run(acker.root(source.stream(), "id"), acker.batch(nothing), tmp_path / "checkpoint")
    told(tracked, {"1": "acked", "2": "acked", "3": "acked"})


def test_what_is_failed_fails_with_its_reason_and_the_rest_is_acked(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    def cows(batch: Any, batch_id: int, ledger: Any) -> None:
        ledger.fail(batch.where("sentence like '%cow%'"), "no cows")
        ledger.fail(batch.where("id = 3"), F.concat(F.lit("not "), "sentence"))

    source.put({"id": 1, "sentence": "a cow"}, {"id": 2, "sentence": "c"}, {"id": 3, "sentence": "d"})
    acker = tracked.acker()
    run(acker.root(source.stream(), "id"), acker.batch(cows), tmp_path / "checkpoint")
    told(tracked, {"1": "failed", "2": "acked", "3": "failed"})
    assert tracked.reasons() == {"1": "no cows", "2": None, "3": "not d"}


def test_what_is_emitted_is_waited_for_until_it_is_acked_elsewhere(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    sent: list[Any] = []

    def split(batch: Any, batch_id: int, ledger: Any) -> None:
        words = batch.select("*", F.posexplode(F.split("sentence", " ")).alias("at", "word"))
        sent.extend(ledger.emit(words, "words", key=["at"]).collect())

    source.put({"id": 1, "sentence": "a a"}, {"id": 2, "sentence": "c"})
    acker = tracked.acker()
    run(acker.root(source.stream(), "id"), acker.batch(split), tmp_path / "checkpoint")
    assert tracked.pending() == {"1", "2"}
    *first, last = sorted(sent, key=lambda row: row.id)
    assert [tracked.ack(row[ROOT], row[EDGE]) for row in first] == ["pending", "acked"]
    told(tracked, {"1": "acked"})
    assert tracked.ack(last[ROOT], last[EDGE]) == "acked"
    told(tracked, {"1": "acked", "2": "acked"})


def test_a_second_query_acks_what_the_first_has_emitted(source: Source, tracked: Tracked, tmp_path: Path) -> None:
    topic = tmp_path / "topic"

    def send(batch: Any, batch_id: int, ledger: Any) -> None:
        ledger.emit(batch, "topic", key=["id"]).write.mode("append").json(str(topic))

    source.put({"id": 1, "sentence": "a"}, {"id": 2, "sentence": "b"})
    acker = tracked.acker()
    run(acker.root(source.stream(), "id"), acker.batch(send), tmp_path / "one")
    assert tracked.pending() == {"1", "2"}
    rows = source.spark.readStream.schema(f"id long, {ROOT} long, {EDGE} long").json(str(topic))
    run(acker.received(rows), acker.batch(nothing), tmp_path / "two")
    told(tracked, {"1": "acked", "2": "acked"})


def test_rows_made_of_one_message_before_its_batch_are_no_doubles(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    seen: list[str] = []
    source.put({"id": 1, "sentence": "a b c"}, {"id": 2, "sentence": "d"})
    acker = tracked.acker()
    words = acker.root(source.stream(), "id").withColumn("word", F.explode(F.split("sentence", " ")))
    run(words, acker.batch(lambda batch, _, __: seen.extend(row.word for row in batch.collect())), tmp_path / "c")
    told(tracked, {"1": "acked", "2": "acked"})
    assert sorted(seen) == ["a", "b", "c", "d"]


def test_of_a_message_that_comes_twice_in_a_batch_the_rows_of_one_are_kept(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    seen: list[str] = []
    source.put({"id": 1, "sentence": "a b"}, {"id": 1, "sentence": "a b"}, {"id": 2, "sentence": "c"})
    acker = tracked.acker()
    words = acker.root(source.stream(), "id").withColumn("word", F.explode(F.split("sentence", " ")))
    run(words, acker.batch(lambda batch, _, __: seen.extend(row.word for row in batch.collect())), tmp_path / "c")
    told(tracked, {"1": "acked", "2": "acked"})
    assert sorted(seen) == ["a", "b", "c"]
