"""At batch level a root is acked when the function of its batch returns, unless the collector says otherwise."""

from pathlib import Path
from typing import Any

import pytest
from acker_spark._batch.columns import EDGE, ROOT
from pyspark.sql import functions as F

from tests.spark.tracked import Source, Tracked, expect_outcomes, run


@pytest.fixture
def source(spark: Any, tmp_path: Path) -> Source:
    return Source(spark=spark, folder=tmp_path / "source", schema="id long, sentence string")


def nothing(batch: Any, batch_id: int, collector: Any) -> None:
    """Do nothing."""


def test_a_root_is_acked_when_its_function_returns(source: Source, tracked: Tracked, tmp_path: Path) -> None:
    source.put({"id": 1, "sentence": "a b"}, {"id": 2, "sentence": "c"})
    source.put({"id": 3, "sentence": "d"})
    acker = tracked.acker()
    run(acker.root(source.stream(), "id"), acker.foreach_batch(nothing), tmp_path / "checkpoint")
    expect_outcomes(tracked, {"1": "acked", "2": "acked", "3": "acked"})


def test_a_querys_progress_and_what_each_batch_shipped_can_be_joined(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    shipped: list[Any] = []
    source.put({"id": 1, "sentence": "a b"}, {"id": 2, "sentence": "c"})
    source.put({"id": 3, "sentence": "d"})
    acker = tracked.acker(on_batch=shipped.append)
    query = run(acker.root(source.stream(), "id"), acker.foreach_batch(nothing), tmp_path / "checkpoint")
    observed = {progress.batchId: progress.observedMetrics["acker"].roots for progress in query.recentProgress}
    told_of = {one.batch_id: (str(one.query_id), one.emitted, one.acked, one.failed, one.forwarded) for one in shipped}
    seen = {batch: roots for batch, roots in observed.items() if roots}
    assert sorted(seen.values()) == [1, 2]  # which file comes first is Spark's to say
    assert told_of == {batch: (str(query.id), roots, roots, 0, 0) for batch, roots in seen.items()}


def test_what_is_failed_fails_with_its_reason_and_the_rest_is_acked(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    def cows(batch: Any, batch_id: int, collector: Any) -> None:
        collector.fail(batch.where("sentence like '%cow%'"), "no cows")
        collector.fail(batch.where("id = 3"), F.concat(F.lit("not "), "sentence"))

    source.put({"id": 1, "sentence": "a cow"}, {"id": 2, "sentence": "c"}, {"id": 3, "sentence": "d"})
    acker = tracked.acker()
    run(acker.root(source.stream(), "id"), acker.foreach_batch(cows), tmp_path / "checkpoint")
    expect_outcomes(tracked, {"1": "failed", "2": "acked", "3": "failed"})
    assert tracked.reasons() == {"1": "no cows", "2": None, "3": "not d"}


def test_a_root_of_which_rows_failed_ends_when_all_of_its_edges_have_where_its_topology_says_so(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    """Of the failed row something was emitted before; an edge elsewhere is open, too."""
    tracked.create(end_on="all_ended", dedupe_window_ms=3_600_000, retention_ms=3_600_000)
    sent: list[Any] = []

    def cows(batch: Any, batch_id: int, collector: Any) -> None:
        out = collector.emit(batch, "notify", key=["id"])
        sent.extend(out.collect())
        collector.fail(batch.where("sentence like '%cow%'"), "no cows")

    source.put({"id": 1, "sentence": "a cow"}, {"id": 2, "sentence": "c"})
    acker = tracked.acker()
    run(acker.root(source.stream(), "id"), acker.foreach_batch(cows), tmp_path / "checkpoint")
    assert tracked.pending() == {"1", "2"}
    assert sorted(tracked.ack(row[ROOT], row[EDGE]) for row in sent) == ["acked", "failed"]
    expect_outcomes(tracked, {"1": "failed", "2": "acked"})
    assert tracked.failures() == {"1": 1, "2": 0}
    assert tracked.reasons() == {"1": "no cows", "2": None}


def test_rows_of_a_root_that_failed_already_are_no_late_deltas(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    emitter, sent, shipped = tracked.acker(query_id="emitter"), list[Any](), list[Any]()

    def forward(batch: Any, batch_id: int, collector: Any) -> None:
        words = batch.withColumn("word", F.explode(F.split("sentence", " ")))
        sent.extend(collector.emit(words, "words", key=["word"]).collect())

    source.put({"id": 1, "sentence": "a cow b"})
    run(emitter.root(source.stream(), "id"), emitter.foreach_batch(forward), tmp_path / "one")
    receiver = tracked.acker(query_id="receiver", on_batch=shipped.append)
    frame = receiver.received(source.spark.createDataFrame(sent))
    receiver.foreach_batch(lambda batch, _, collector: collector.fail(batch.where("word = 'cow'"), "no cows"))(frame, 0)
    expect_outcomes(tracked, {"1": "failed"})
    assert [(one.acked, one.failed, one.late) for one in shipped] == [(2, 1, 0)]


def test_what_is_emitted_is_waited_for_until_it_is_acked_elsewhere(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    sent: list[Any] = []

    def split(batch: Any, batch_id: int, collector: Any) -> None:
        words = batch.select("*", F.posexplode(F.split("sentence", " ")).alias("at", "word"))
        sent.extend(collector.emit(words, "words", key=["at"]).collect())

    source.put({"id": 1, "sentence": "a a"}, {"id": 2, "sentence": "c"})
    acker = tracked.acker()
    run(acker.root(source.stream(), "id"), acker.foreach_batch(split), tmp_path / "checkpoint")
    assert tracked.pending() == {"1", "2"}
    *first, last = sorted(sent, key=lambda row: row.id)
    assert [tracked.ack(row[ROOT], row[EDGE]) for row in first] == ["pending", "acked"]
    expect_outcomes(tracked, {"1": "acked"})
    assert tracked.ack(last[ROOT], last[EDGE]) == "acked"
    expect_outcomes(tracked, {"1": "acked", "2": "acked"})


def test_a_second_query_acks_what_the_first_has_emitted(source: Source, tracked: Tracked, tmp_path: Path) -> None:
    topic = tmp_path / "topic"

    def send(batch: Any, batch_id: int, collector: Any) -> None:
        collector.emit(batch, "topic", key=["id"]).write.mode("append").json(str(topic))

    source.put({"id": 1, "sentence": "a"}, {"id": 2, "sentence": "b"})
    acker = tracked.acker()
    run(acker.root(source.stream(), "id"), acker.foreach_batch(send), tmp_path / "one")
    assert tracked.pending() == {"1", "2"}
    rows = source.spark.readStream.schema(f"id long, {ROOT} long, {EDGE} long").json(str(topic))
    run(acker.received(rows), acker.foreach_batch(nothing), tmp_path / "two")
    expect_outcomes(tracked, {"1": "acked", "2": "acked"})


def test_rows_made_of_one_message_before_its_batch_are_no_doubles(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    seen: list[str] = []
    source.put({"id": 1, "sentence": "a b c"}, {"id": 2, "sentence": "d"})
    acker = tracked.acker()
    words = acker.root(source.stream(), "id").withColumn("word", F.explode(F.split("sentence", " ")))
    run(
        words,
        acker.foreach_batch(lambda batch, _, __: seen.extend(row.word for row in batch.collect())),
        tmp_path / "c",
    )
    expect_outcomes(tracked, {"1": "acked", "2": "acked"})
    assert sorted(seen) == ["a", "b", "c", "d"]


def test_of_a_message_that_comes_twice_in_a_batch_the_rows_of_one_are_kept(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    seen: list[str] = []
    source.put({"id": 1, "sentence": "a b"}, {"id": 1, "sentence": "a b"}, {"id": 2, "sentence": "c"})
    acker = tracked.acker()
    words = acker.root(source.stream(), "id").withColumn("word", F.explode(F.split("sentence", " ")))
    run(
        words,
        acker.foreach_batch(lambda batch, _, __: seen.extend(row.word for row in batch.collect())),
        tmp_path / "c",
    )
    expect_outcomes(tracked, {"1": "acked", "2": "acked"})
    assert sorted(seen) == ["a", "b", "c"]


def test_what_the_ledger_was_given_is_computed_once_and_stays_as_it_was(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    """The function charges in a column, and then changes the file that its rows are chosen by."""
    charges, blocked = tmp_path / "charges", tmp_path / "blocked"
    spark = source.spark

    def charge(one: int) -> int:
        with charges.open("a") as out:
            out.write(f"{one}\n")
        return one

    def run_once(batch: Any, batch_id: int, collector: Any) -> None:
        spark.createDataFrame([(1,)], "id long").write.json(str(blocked))
        listed = spark.read.schema("id long").json(str(blocked))
        bad = batch.join(listed, "id")
        charged = F.udf(charge, "long", useArrow=False)
        good = batch.join(listed, "id", "left_anti").withColumn("charged", charged("id"))
        collector.fail(bad, "blocked")
        sent = collector.emit(good, "notify", key=["charged"])
        spark.createDataFrame([(2,), (3,)], "id long").write.mode("overwrite").json(str(blocked))
        sent.write.json(str(tmp_path / "notify"))
        sent.write.json(str(tmp_path / "archive"))

    source.put(*({"id": one, "sentence": "a"} for one in (1, 2, 3)))
    acker = tracked.acker()
    run(acker.root(source.stream(), "id"), acker.foreach_batch(run_once), tmp_path / "checkpoint")
    expect_outcomes(tracked, {"1": "failed"})
    assert tracked.pending() == {"2", "3"}
    assert sorted(charges.read_text().split()) == ["2", "3"]


def test_a_row_that_is_delivered_twice_is_acked_once(source: Source, tracked: Tracked, tmp_path: Path) -> None:
    """Twice in a batch, again in a later one, and beside another row of its root."""
    emitter, sent = tracked.acker(query_id="emitter"), list[Any]()
    rows = source.spark.createDataFrame([(1, "x"), (1, "y")], "id long, word string")
    rooted = emitter.root(rows.where("word = 'x'"), "id").withColumn("word", F.explode(F.array(F.lit("x"), F.lit("y"))))
    emitter.foreach_batch(
        lambda batch, _, collector: sent.extend(
            collector.emit(batch, "topic", key=["word"]).select(ROOT, EDGE).collect()
        )
    )(rooted, 0)
    one, other = [tuple(row) for row in sent]
    acker, seen = tracked.acker(query_id="second"), list[int]()

    def arrive(batch_id: int, *pairs: Any) -> None:
        frame = source.spark.createDataFrame(pairs, f"{ROOT} long, {EDGE} long")
        acker.foreach_batch(lambda batch, _, __: seen.append(batch.count()))(acker.received(frame), batch_id)

    arrive(0, one, one)
    arrive(1, one)
    assert tracked.pending() == {"1"}
    arrive(2, one, other)
    expect_outcomes(tracked, {"1": "acked"})
    assert seen == [1, 1, 2]


def test_anchors_come_as_text_too(source: Source, tracked: Tracked) -> None:
    emitter, sent = tracked.acker(query_id="emitter"), list[Any]()
    rows = source.spark.createDataFrame([(one,) for one in range(8)], "id long")

    def send(batch: Any, batch_id: int, collector: Any) -> None:
        sent.extend(collector.emit(batch, "topic", key=["id"]).withColumn("header", emitter.header()).collect())

    emitter.foreach_batch(send)(emitter.root(rows, "id"), 0)
    headers = [row.header.removeprefix(f"00 {tracked.topology} ").split("-") for row in sent]
    arrived = source.spark.createDataFrame([tuple(pair) for pair in headers], "r string, e string")
    acker = tracked.acker(query_id="second")
    acker.foreach_batch(nothing)(acker.received(arrived, root="r", edge="e"), 0)
    expect_outcomes(tracked, {str(one): "acked" for one in range(8)})
