"""At row level a root is acked when every row that was made of it has ended, wherever and in which batch that is."""

from pathlib import Path
from typing import Any

import pytest
from acker_spark import errors, fail_rows, filter_rows, fork, gathered, join_anchors, live, split_rows
from acker_spark.columns import EDGE, MESSAGE, ROOT
from pyspark.sql import functions as F

from tests.spark.tracked import Source, Tracked, run, told


@pytest.fixture
def rows(spark: Any) -> Any:
    """Sentences, as a batch has them."""
    return spark.createDataFrame([(1, "a b c"), (2, "d"), (3, ""), (4, "e f")], "id long, sentence string")


def words_of(rows: Any) -> Any:
    """Split sentences."""
    return split_rows(rows, F.split("sentence", " "), "word", stage="split")


def test_split_filtered_and_failed_rows_end_their_roots(rows: Any, tracked: Tracked) -> None:
    seen: list[str] = []
    acker = tracked.acker(query_id="q")
    words = words_of(acker.root(rows, "id"))
    words = fail_rows(filter_rows(words, "word != 'b'"), "word = 'f'", F.concat(F.lit("no "), "word"))
    acker.ack_rows(lambda live_rows, _: seen.extend(row.word for row in live_rows.collect()))(words, 0)
    told(tracked, {"1": "acked", "2": "acked", "3": "acked", "4": "failed"})
    assert sorted(seen) == ["", "a", "c", "d", "e"]
    assert tracked.reasons()["4"] == "no f"


def test_a_root_waits_for_its_rows_in_other_batches(rows: Any, tracked: Tracked) -> None:
    """Its children are sent on in one query and end in another, in several batches; each order is the same."""
    acker = tracked.acker(query_id="one")
    kept: list[Any] = []
    words = words_of(acker.root(rows.where("id = 1"), "id"))
    acker.send_rows(lambda out, _: kept.extend(out.select("word", ROOT, EDGE).collect()))(words, 0)
    assert tracked.pending() == {"1"}
    second = tracked.acker(query_id="two")
    for batch_id, row in enumerate(kept):
        assert tracked.pending() == {"1"}
        arrived = second.received(
            rows.sparkSession.createDataFrame([tuple(row)], f"word string, {ROOT} long, {EDGE} long")
        )
        for _ in range(2):
            second.ack_rows(lambda _, __: None)(arrived, batch_id)
    told(tracked, {"1": "acked"})


def test_one_frame_in_two_sinks_is_done_when_both_are(rows: Any, tracked: Tracked) -> None:
    left, right = fork(words_of(tracked.acker(query_id="x").root(rows, "id")), 2)
    one, two = tracked.acker(query_id="one"), tracked.acker(query_id="two")
    one.ack_rows(lambda _, __: None)(left, 0)
    assert tracked.pending() == {"1", "2", "3", "4"}
    two.ack_rows(lambda _, __: None)(right, 0)
    told(tracked, {"1": "acked", "2": "acked", "3": "acked", "4": "acked"})


def test_of_a_message_that_comes_twice_all_ways_of_a_fork_keep_the_same_rows(spark: Any, tracked: Tracked) -> None:
    """Each way is another query, which reads the rows in an order of its own."""
    data = [(one, text) for one in range(8) for text in ("a b", "c d e")]
    acker, seen = tracked.acker(query_id="x"), dict[int, list[Any]]()
    for way, read in enumerate((data, data[::-1])):
        rows = spark.createDataFrame(read, "id long, sentence string").coalesce(1)
        frame = fork(words_of(acker.root(rows, "id")), 2)[way]
        ends = tracked.acker(query_id=f"way-{way}")
        ends.ack_rows(lambda out, way: seen.update({way: sorted(out.select("id", "word").collect())}))(frame, way)
    told(tracked, {str(one): "acked" for one in range(8)})
    assert seen[0] == seen[1]


def test_a_way_of_a_fork_that_lost_its_message_ids_is_refused(rows: Any, tracked: Tracked) -> None:
    """Its roots would never begin, or what was delivered twice would not be seen."""
    acker = tracked.acker(query_id="q")
    rooted = acker.root(rows, "id")
    with pytest.raises(errors.NotOfThisBatch, match=MESSAGE):
        fork(rooted.drop(MESSAGE), 2)
    for way in fork(rooted, 2):
        with pytest.raises(errors.NotOfThisBatch, match=MESSAGE):
            acker.ack_rows(lambda _, __: None)(way.drop(MESSAGE), 0)


@pytest.mark.parametrize("copies", [2, 3])
def test_copies_of_the_rows_of_a_message_count_once(rows: Any, tracked: Tracked, copies: int) -> None:
    """As a join with a table makes them. The sum over all rows would be zero, or what it should be by chance."""
    acker = tracked.acker(query_id="q")
    words = words_of(acker.root(rows, "id")).withColumn("copy", F.explode(F.sequence(F.lit(1), F.lit(copies))))
    acker.ack_rows(lambda _, __: None)(words, 0)
    told(tracked, {"1": "acked", "2": "acked", "3": "acked", "4": "acked"})


def test_one_frame_in_two_sinks_without_a_fork_is_refused(rows: Any, tracked: Tracked) -> None:
    acker, second = tracked.acker(query_id="one"), tracked.acker(query_id="two")
    words = words_of(acker.root(rows, "id"))
    acker.send_rows(lambda _, __: None)(words, 0)
    with pytest.raises(errors.AnotherQuery):
        second.ack_rows(lambda _, __: None)(words, 0)


def test_a_join_that_multiplies_rows_counts_each_anchor_once(spark: Any, tracked: Tracked) -> None:
    emitter = tracked.acker(query_id="emitter")
    orders = spark.createDataFrame([(1, "x"), (2, "y")], "id long, k string")
    cards = spark.createDataFrame([(11, "x"), (12, "x"), (13, "z")], "card long, k string")
    sent: dict[str, Any] = {}

    def kept(name: str) -> Any:
        return emitter.send_rows(lambda out, _: sent.update({name: out.localCheckpoint()}))

    kept("orders")(emitter.root(orders, "id"), 0)
    kept("cards")(emitter.root(cards, "card"), 1)
    acker = tracked.acker(query_id="join")
    left, right = (acker.received(sent[name]) for name in ("orders", "cards"))
    seen: list[Any] = []
    joined = split_rows(
        join_anchors(left, right, "k", "full_outer"), F.array(F.lit("p"), F.lit("q")), "part", stage="parts"
    )
    acker.ack_rows(lambda out, _: seen.extend(out.collect()))(joined, 0)
    told(tracked, {"1": "acked", "2": "acked", "11": "acked", "12": "acked", "13": "acked"})
    pairs = sorted((row.k, row.id, row.card) for row in seen if row.id and row.part == "p")
    assert pairs == [("x", 1, 11), ("x", 1, 12), ("y", 2, None)]


def test_a_window_acks_its_rows_when_it_is_emitted_each_copy_with_its_share(
    spark: Any, tracked: Tracked, tmp_path: Path
) -> None:
    topic = Source(
        spark=spark, folder=tmp_path / "topic", schema=f"id long, at timestamp, word string, {ROOT} long, {EDGE} long"
    )
    emitter = tracked.acker(query_id="emitter", message_timeout=3_600)

    def put(*rows: tuple[int, str]) -> None:
        frame = spark.createDataFrame(rows, "id long, at string").withColumn("word", F.lit("w"))
        emitter.send_rows(lambda out, _: topic.put(*(row.asDict() for row in out.collect())))(
            emitter.root(frame, "id"), topic.files
        )

    put((1, "2026-01-01T00:00:01"), (2, "2026-01-01T00:00:07"))
    put((3, "2026-01-01T00:00:30"))
    put((4, "2026-01-01T00:01:30"))
    acker = tracked.acker(message_timeout=3_600)
    rows = filter_rows(acker.received(topic.stream()), "id != 2")
    slid = acker.window_rows(rows, "at", "10 seconds", slide="5 seconds")
    counts = slid.groupBy("window", "word").agg(F.count(F.when(live(slid), 1)).alias("n"), gathered(slid))
    seen: list[int] = []
    run(counts, acker.ack_rows(lambda out, _: seen.extend(row.n for row in out.collect())), tmp_path / "c")
    told(tracked, {"1": "acked", "2": "acked", "3": "acked"})
    assert tracked.pending() == {"4"}
    assert sorted(seen) == [0, 1, 1, 1, 1]


def test_a_window_that_is_open_for_longer_than_a_root_may_be_pending_is_refused(rows: Any, tracked: Tracked) -> None:
    acker = tracked.acker(message_timeout=60)
    with pytest.raises(errors.Misuse, match="would time out before its window is emitted"):
        acker.window_rows(rows, "at", "1 minute", delay="10 seconds")


def test_roots_that_a_window_or_join_of_their_own_query_would_hold_back_are_refused(
    rows: Any, tracked: Tracked
) -> None:
    rooted = tracked.acker().root(rows, "id")
    with pytest.raises(errors.Misuse, match="would not be begun"):
        gathered(rooted)
    with pytest.raises(errors.Misuse, match="would not be begun"):
        join_anchors(rooted, rooted, "id")


def test_a_message_that_comes_twice_counts_once_though_its_rows_differ(spark: Any, tracked: Tracked) -> None:
    seen: list[str] = []
    rows = spark.createDataFrame([(1, "a b"), (1, "a b c"), (2, "d")], "id long, sentence string")
    acker = tracked.acker(query_id="q")
    acker.ack_rows(lambda out, _: seen.extend(row.word for row in out.collect()))(words_of(acker.root(rows, "id")), 0)
    told(tracked, {"1": "acked", "2": "acked"})
    assert sorted(seen) in (["a", "b", "d"], ["a", "b", "c", "d"])


def test_copies_of_a_row_do_not_leave_with_one_edge(rows: Any, tracked: Tracked) -> None:
    """The first of them to be acked elsewhere would end the tree of all."""
    acker = tracked.acker(query_id="q")
    copies = acker.root(rows, "id").withColumn("word", F.explode(F.split("sentence", " ")))
    with pytest.raises(errors.EqualKeys, match="split_rows"):
        acker.send_rows(lambda out, _: out.collect())(copies, 0)
    assert tracked.pending() == set()


def test_a_row_that_was_delivered_twice_leaves_twice(rows: Any, tracked: Tracked) -> None:
    sent: list[int] = []
    acker = tracked.acker(query_id="q")
    twice = rows.where("id = 1").select(F.lit(7).alias(ROOT), F.lit(8).alias(EDGE), "id")
    received = acker.received(twice.union(twice))
    acker.send_rows(lambda out, _: sent.extend(row.id for row in out.collect()))(received, 0)
    assert sent == [1, 1]


def test_a_long_reason_is_cut(rows: Any, tracked: Tracked) -> None:
    acker = tracked.acker(query_id="q")
    failed = fail_rows(acker.root(rows.where("id = 1"), "id"), "true", F.repeat("sentence", 1_000))
    acker.ack_rows(lambda _, __: None)(failed, 0)
    told(tracked, {"1": "failed"})
    assert tracked.reasons()["1"] == ("a b c" * 1_000)[:1_024]
