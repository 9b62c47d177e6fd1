"""What would end a tree too early, or never, is refused in words, and before anything of the batch has begun."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread, Timer
from typing import Any

import pytest
from acker_spark import errors
from acker_spark import functions as af
from acker_spark._batch.columns import EDGE, MESSAGE, ROOT, unsigned
from pyspark import InheritableThread
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tests.spark.tracked import Source, Tracked, expect_outcomes, messages, run


@pytest.fixture
def rows(spark: Any) -> Any:
    """Three messages, as a batch has them."""
    return spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "id long, word string")


def nothing(batch: Any, batch_id: int, collector: Any) -> None:
    """Do nothing."""


def test_rows_without_a_message_id_are_refused_and_nothing_has_begun(spark: Any, tracked: Tracked) -> None:
    rows = spark.createDataFrame([("1",), (None,)], "id string")
    acker = tracked.acker(query_id="q")
    with pytest.raises(errors.NullMessageId, match="no message id"):
        acker.foreach_batch(nothing)(acker.root(rows, "id"), 0)
    assert tracked.pending() == set()


def test_a_frame_that_lost_its_message_ids_is_not_taken_for_received(rows: Any, tracked: Tracked) -> None:
    acker = tracked.acker(query_id="q")
    lost = acker.root(rows, "id").drop(MESSAGE)
    with pytest.raises(errors.MissingAnchors, match=MESSAGE):
        acker.foreach_batch(nothing)(lost, 0)
    with pytest.raises(errors.MissingAnchors, match=MESSAGE):
        acker.foreach_rows(lambda rows, _: rows.count())(lost, 0)


def test_equal_keys_are_refused_before_anything_is_sent(rows: Any, tracked: Tracked) -> None:
    acker = tracked.acker(query_id="q")
    twice = acker.root(rows, "id").withColumn("copy", F.explode(F.array(F.lit(0), F.lit(1))))
    with pytest.raises(errors.DuplicateKey, match="2 rows of root"):
        acker.foreach_batch(lambda batch, _, collector: collector.emit(batch, "topic", key=["word"]))(twice, 0)
    assert tracked.pending() == {"1", "2", "3"}
    acker.foreach_batch(lambda batch, _, collector: collector.emit(batch, "topic", key=["word", "copy"]))(twice, 0)
    assert tracked.pending() == {"1", "2", "3"}


def test_a_stage_that_was_emitted_to_is_refused_a_second_time(rows: Any, tracked: Tracked) -> None:
    def twice(batch: Any, batch_id: int, collector: Any) -> None:
        collector.emit(batch, "topic", key=["id"])
        collector.emit(batch, "topic", key=["id"])

    acker = tracked.acker(query_id="q")
    with pytest.raises(errors.DuplicateKey, match="was emitted to before"):
        acker.foreach_batch(twice)(acker.root(rows, "id"), 0)


def test_a_ledger_is_closed_when_its_function_has_returned(rows: Any, tracked: Tracked) -> None:
    kept: list[Any] = []
    acker = tracked.acker(query_id="q")
    acker.foreach_batch(lambda batch, _, collector: kept.extend((batch, collector)))(acker.root(rows, "id"), 0)
    batch, collector = kept
    for verb in (
        lambda: collector.fail(batch, "late"),
        lambda: collector.emit(batch, "s", key=["id"]),
        lambda: collector.materialize(batch),
    ):
        with pytest.raises(errors.BatchClosed, match="after the end of its batch"):
            verb()


def test_rows_that_have_lost_their_anchors_are_refused(rows: Any, tracked: Tracked) -> None:
    acker = tracked.acker(query_id="q")
    rooted = acker.root(rows, "id")
    with pytest.raises(errors.MissingAnchors, match="no acker_root"):
        acker.foreach_batch(nothing)(rooted.select("id"), 0)
    with pytest.raises(errors.MissingAnchors, match=r"collector\.fail needs rows with their anchors"):
        acker.foreach_batch(lambda batch, _, collector: collector.fail(batch.select("id"), "why"))(rooted, 0)


def test_rows_of_another_batch_are_refused(rows: Any, tracked: Tracked) -> None:
    acker = tracked.acker(query_id="q")
    other = acker.root(rows, "word")
    with pytest.raises(errors.MissingAnchors, match="not of this batch"):
        acker.foreach_batch(lambda _, __, collector: collector.fail(other, "why"))(acker.root(rows, "id"), 0)


def test_a_batch_with_more_roots_than_may_be_pending_is_refused_before_it_has_begun(
    rows: Any, tracked: Tracked
) -> None:
    day = {"max_spout_pending": 2, "dedupe_window_ms": 60_000, "retention_ms": 60_000}
    tracked.process.http.put(f"/v1/topologies/{tracked.topology}", json=day).raise_for_status()
    acker = tracked.acker(query_id="q")
    with pytest.raises(errors.PendingLimit, match="the batch has 3 roots"):
        acker.foreach_batch(nothing)(acker.root(rows, "id"), 0)
    assert tracked.pending() == set()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "does not dedupe"),
        ({"dedupe_window_ms": None}, "has an automatic dedupe window"),
        ({"dedupe_window_ms": 60_000, "retention_ms": 30_000}, "would find no root"),
        ({"dedupe_window_ms": 60_000, "retention_ms": 60_000}, "less than the message timeout"),
    ],
)
def test_a_topology_that_forgets_too_soon_is_refused(
    rows: Any, tracked: Tracked, settings: dict[str, int | None], words: str
) -> None:
    tracked.process.http.put(f"/v1/topologies/{tracked.topology}", json=settings).raise_for_status()
    acker = tracked.acker(query_id="q", message_timeout=90 if "less" in words else 20)
    with pytest.raises(errors.IncompatibleTopology, match=words):
        acker.foreach_batch(nothing)(acker.root(rows, "id"), 0)


def test_a_topology_that_is_not_there_is_made_as_spark_needs_it(rows: Any, tracked: Tracked) -> None:
    acker = tracked.acker(query_id="q", message_timeout=20, dedupe_window=50, retention=70)
    acker.foreach_batch(nothing)(acker.root(rows, "id"), 0)
    made = tracked.get("")
    assert (made["message_timeout_ms"], made["dedupe_window_ms"], made["retention_ms"]) == (20_000, 50_000, 70_000)


def test_roots_of_another_spout_task_are_refused(spark: Any, tracked: Tracked, tmp_path: Path) -> None:
    source = Source(spark=spark, folder=tmp_path / "in", schema="id long")
    source.put(*messages(1))
    ours, theirs = tracked.acker(), tracked.acker(spout_task="another")
    for level, function in enumerate(
        (theirs.foreach_batch(nothing), theirs.foreach_rows(lambda rows, _: rows.count()))
    ):
        with pytest.raises(StreamingQueryException, match="of an acker for spout task 'reader'"):
            run(ours.root(source.stream(), "id"), function, tmp_path / str(level))
    run(ours.root(source.stream(), "id"), ours.foreach_batch(nothing), tmp_path / "ours")
    expect_outcomes(tracked, {"1": "acked"})


def test_times_that_a_topology_has_otherwise_are_warned_of(tracked: Tracked, caplog: pytest.LogCaptureFixture) -> None:
    for options in ({"dedupe_window": 50, "retention": 70}, {}, {"dedupe_window": 50, "retention": 70}):
        assert tracked.acker(message_timeout=5, **options).topology.dedupe_window_ms == 50_000
    assert caplog.messages == []
    assert tracked.acker(message_timeout=5, dedupe_window=9).topology.retention_ms == 70_000
    assert caplog.messages == [f"topology {tracked.topology!r} existed before: its dedupe_window is 50 s, not 9 s"]


def test_roots_that_another_query_tracks_are_refused_each_time_and_stay_as_they_are(
    rows: Any, tracked: Tracked
) -> None:
    """Without the refusal marker the second try would take the claim of the first for its own."""
    first, second = tracked.acker(query_id="first"), tracked.acker(query_id="second")
    sent: list[Any] = []
    emit = first.foreach_batch(
        lambda batch, _, collector: sent.extend(collector.emit(batch, "topic", key=["id"]).collect())
    )
    emit(first.root(rows, "id"), 0)
    for _ in range(3):
        with pytest.raises(errors.ConcurrentQuery, match="another query tracks these roots"):
            second.foreach_batch(nothing)(second.root(rows, "id"), 0)
    emit(first.root(rows, "id"), 0)
    assert [tracked.ack(row[ROOT], row[EDGE]) for row in sent[:3]] == ["acked"] * 3
    expect_outcomes(tracked, {"1": "acked", "2": "acked", "3": "acked"})


def test_a_batch_refused_behind_its_first_root_lets_go_what_it_has_begun(
    spark: Any, rows: Any, tracked: Tracked
) -> None:
    first, second = tracked.acker(query_id="first"), tracked.acker(query_id="second")
    ids = second.root(rows, "id").select("id", ROOT).collect()
    leader = min(ids, key=lambda row: unsigned(row[ROOT])).id
    others = {str(row.id) for row in ids} - {str(leader)}
    first.foreach_batch(lambda batch, _, collector: collector.emit(batch, "topic", key=["id"]))(
        first.root(rows.where(f"id != {leader}"), "id"), 0
    )
    for _ in range(2):
        with pytest.raises(errors.ConcurrentQuery):
            second.foreach_batch(nothing)(second.root(rows, "id"), 0)
    expect_outcomes(tracked, {str(leader): "failed"})
    assert tracked.pending() == others


def test_what_was_worked_on_at_row_level_is_refused_at_batch_level(rows: Any, tracked: Tracked) -> None:
    acker = tracked.acker(query_id="q")
    with pytest.raises(errors.UsageError, match="worked on at row level"):
        acker.foreach_batch(nothing)(af.filter(acker.root(rows, "id"), "id = 1"), 0)


def test_a_batch_without_a_query_needs_the_querys_name(rows: Any, tracked: Tracked) -> None:
    acker = tracked.acker()
    with pytest.raises(errors.QueryIdRequired, match="query_id="):
        acker.foreach_batch(nothing)(acker.root(rows, "id"), 0)


def test_the_verb_given_to_spark_instead_of_what_it_gives_is_named(rows: Any, tracked: Tracked) -> None:
    with pytest.raises(errors.UsageError, match=r"write foreachBatch\(acker\.foreach_batch\(f\)\)"):
        tracked.acker().foreach_batch(rows, 0)
    with pytest.raises(errors.UsageError, match=r"called as f\(batch, batch_id, collector\)"):
        tracked.acker().foreach_batch(lambda _: None)


def test_a_second_query_under_the_same_id_is_refused(rows: Any, tracked: Tracked) -> None:
    """Its batches could not be told from those of the first."""
    acker = tracked.acker(query_id="q")
    other = acker.foreach_batch(nothing)
    with pytest.raises(errors.ConcurrentQuery, match="another query runs with the query id 'q'"):
        acker.foreach_batch(lambda *_: other(acker.root(rows, "word"), 0))(acker.root(rows, "id"), 0)
    other(acker.root(rows, "word"), 1)
    assert tracked.outcomes() == {"a": "acked", "b": "acked", "c": "acked"}


class InThreads:
    """A function of a plain ``foreachBatch`` that runs the connector's in threads of its own."""

    def __init__(self, work: Any) -> None:
        self.work = work
        self.raised = list[Exception]()

    def _run(self, batch: Any, batch_id: int) -> None:
        try:
            self.work(batch, batch_id)
        except Exception as error:  # noqa: BLE001 - shown to the test
            self.raised.append(error)

    def in_pool(self, batch: Any, batch_id: int) -> None:
        with ThreadPoolExecutor() as pool:
            pool.submit(self._run, batch, batch_id).result()

    def in_thread(self, batch: Any, batch_id: int) -> None:
        self._join(Thread(target=self._run, args=(batch, batch_id)))

    def in_timer(self, batch: Any, batch_id: int) -> None:
        self._join(Timer(0, self._run, (batch, batch_id)))

    def in_inheritable_thread(self, batch: Any, batch_id: int) -> None:
        self._join(InheritableThread(target=self._run, args=(batch, batch_id), session=batch.sparkSession))

    @staticmethod
    def _join(thread: Any) -> None:
        thread.start()
        thread.join()


def test_a_thread_of_a_functions_own_needs_to_inherit_the_query(spark: Any, tracked: Tracked, tmp_path: Path) -> None:
    source = Source(spark=spark, folder=tmp_path / "in", schema="id long")
    source.put(*messages(1))
    acker = tracked.acker()
    threads = InThreads(acker.foreach_batch(nothing))
    for number, started in enumerate((threads.in_pool, threads.in_thread, threads.in_timer)):
        run(acker.root(source.stream(), "id"), started, tmp_path / str(number))
    assert [type(error) for error in threads.raised] == [errors.QueryIdRequired] * 3
    for word in (r"ThreadPoolExecutor", r"pyspark\.InheritableThread", "PYSPARK_PIN_THREAD"):
        assert re.search(word, str(threads.raised[0]))
    run(acker.root(source.stream(), "id"), threads.in_inheritable_thread, tmp_path / "inherited")
    assert len(threads.raised) == 3
    expect_outcomes(tracked, {"1": "acked"})


def received(acker: Any, spark: Any, tmp_path: Path, name: str) -> Any:
    """A stream of rows with anchors."""
    source = Source(spark=spark, folder=tmp_path / name, schema=f"k string, at timestamp, {ROOT} long, {EDGE} long")
    source.put({"k": "x", "at": "2026-01-01T00:00:00", ROOT: 1, EDGE: 2})
    return acker.received(source.stream().withWatermark("at", "1 minute"))


def test_a_join_of_spark_of_two_frames_with_anchors_is_refused_in_words(
    spark: Any, tracked: Tracked, tmp_path: Path
) -> None:
    acker = tracked.acker()
    left, right = (received(acker, spark, tmp_path, name) for name in ("left", "right"))
    joined = left.join(right.drop("at"), "k")
    for function in (acker.foreach_batch(nothing), acker.foreach_rows(lambda rows, _: rows.count())):
        with pytest.raises(errors.UsageError, match=r"join them with af\.join"):
            run(joined, function, tmp_path / "checkpoint")
    for step in (
        lambda: af.filter(joined, "true"),
        lambda: af.branch(joined, 2),
        lambda: af.collect_anchors(joined),
        lambda: af.join(joined, right, "k"),
    ):
        with pytest.raises(errors.UsageError, match=r"join them with af\.join"):
            step()


def test_a_join_of_spark_that_leaves_the_anchors_of_one_side_out_is_refused_before_its_query_starts(
    spark: Any, tracked: Tracked, tmp_path: Path
) -> None:
    """Its rows look as they should: nothing would ever ack the other side."""
    acker = tracked.acker()
    left, right = (received(acker, spark, tmp_path, name) for name in ("left", "right"))
    both = af.join(left, right.drop("at"), "k")
    for joined in (
        left.join(right.select("k"), "k"),
        left.join(right.drop("at"), "k", "left_semi"),
        right.select("k", F.lit(1).alias("one")).where("one = 1").join(left, "k"),
        both.join(received(acker, spark, tmp_path, "third").select("k"), "k"),
        wide(left).join(right.select("k"), "k"),
    ):
        with pytest.raises(errors.UsageError, match=r"join them with af\.join"):
            run(joined, acker.foreach_rows(lambda rows, _: rows.count()), tmp_path / "checkpoint")
    table = spark.createDataFrame([("x", 1)], "k string, one long")
    run(left.join(table, "k"), acker.foreach_rows(lambda rows, _: rows.count()), tmp_path / "table")
    run(both, acker.foreach_rows(lambda rows, _: rows.count()), tmp_path / "own")
    twice = af.join(both, received(acker, spark, tmp_path, "fourth").drop("at"), "k")
    run(twice, acker.foreach_rows(lambda rows, _: rows.count()), tmp_path / "twice")


def wide(rows: Any) -> Any:
    """More columns than Spark shows in the text of a plan."""
    return rows.select("*", *(F.lit(one).alias(f"column_{one}") for one in range(60)))


def test_received_rows_that_are_dropped_as_duplicates_are_refused_unless_their_anchor_is_the_key(
    spark: Any, tracked: Tracked, tmp_path: Path
) -> None:
    acker = tracked.acker()
    rows = received(acker, spark, tmp_path, "in")
    many = [f"column_{one}" for one in range(60)]
    for dropped in (
        rows.dropDuplicatesWithinWatermark(["k"]),
        rows.dropDuplicates(["k", "at"]),
        rows.select("*", F.lit(1).alias("one")).dropDuplicates(["k", ROOT]).where("one = 1"),
        rows.dropDuplicates(["at", EDGE]),
        wide(rows).dropDuplicates(["k"]),
        acker.received(wide(rows)).dropDuplicates([*many, "at"]),
        rows.unionByName(rows.dropDuplicates(["k"])),
    ):
        with pytest.raises(errors.UsageError, match="its root would time out"):
            run(dropped, acker.foreach_batch(nothing), tmp_path / "checkpoint")
    run(rows.dropDuplicatesWithinWatermark([ROOT, EDGE]), acker.foreach_batch(nothing), tmp_path / "by anchor")
    run(wide(rows).dropDuplicates([*many, ROOT, EDGE]), acker.foreach_batch(nothing), tmp_path / "by many")
    raw = Source(spark=spark, folder=tmp_path / "in", schema=f"k string, at timestamp, {ROOT} long, {EDGE} long")
    before = raw.stream().withWatermark("at", "1 minute").dropDuplicates(["k"])
    run(acker.received(before), acker.foreach_batch(nothing), tmp_path / "before")
