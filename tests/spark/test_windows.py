"""Rows that a join brings together or a window holds back are acked with what is made of them."""

from pathlib import Path
from typing import Any

import pytest
from acker_spark import errors
from acker_spark import functions as af
from acker_spark._batch.columns import EDGE, ROOT
from pyspark.sql import functions as F

from tests.spark.tracked import Source, Tracked, expect_outcomes, run
from tests.support.pages import own_block


@pytest.fixture
def rows(spark: Any) -> Any:
    """Messages, as a batch has them."""
    return spark.createDataFrame([(1, "2026-01-01"), (2, "2026-01-02")], "id long, at string")


def test_a_join_that_multiplies_rows_counts_each_anchor_once(spark: Any, tracked: Tracked) -> None:
    emitter = tracked.acker(query_id="emitter")
    orders = spark.createDataFrame([(1, "x"), (2, "y")], "id long, k string")
    cards = spark.createDataFrame([(11, "x"), (12, "x"), (13, "z")], "card long, k string")
    sent: dict[str, Any] = {}

    def kept(name: str) -> Any:
        return emitter.forward_rows(lambda out, _: sent.update({name: out.localCheckpoint()}))

    kept("orders")(emitter.root(orders, "id"), 0)
    kept("cards")(emitter.root(cards, "card"), 1)
    acker = tracked.acker(query_id="join")
    left, right = (acker.received(sent[name]) for name in ("orders", "cards"))
    seen: list[Any] = []
    joined = af.explode(af.join(left, right, "k", "full_outer"), F.array(F.lit("p"), F.lit("q")), "part", stage="parts")
    acker.foreach_rows(lambda out, _: seen.extend(out.collect()))(joined, 0)
    expect_outcomes(tracked, {"1": "acked", "2": "acked", "11": "acked", "12": "acked", "13": "acked"})
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
        emitter.forward_rows(lambda out, _: topic.put(*(row.asDict() for row in out.collect())))(
            emitter.root(frame, "id"), topic.files
        )

    put((1, "2026-01-01T00:00:01"), (2, "2026-01-01T00:00:07"))
    put((3, "2026-01-01T00:00:30"))
    put((4, "2026-01-01T00:01:30"))
    acker = tracked.acker(message_timeout=3_600)
    rows = af.filter(acker.received(topic.stream()), "id != 2")
    slid = acker.window_rows(rows, "at", "10 seconds", slide="5 seconds")
    counts = slid.groupBy("window", "word").agg(
        F.count(F.when(af.is_active(slid), 1)).alias("n"), af.collect_anchors(slid)
    )
    seen: list[int] = []
    run(counts, acker.foreach_rows(lambda out, _: seen.extend(row.n for row in out.collect())), tmp_path / "c")
    expect_outcomes(tracked, {"1": "acked", "2": "acked", "3": "acked"})
    assert tracked.pending() == {"4"}
    assert sorted(seen) == [0, 1, 1, 1, 1]


def test_the_block_of_the_page_counts_words_in_windows_and_acks_them_with_their_window(
    spark: Any, tracked: Tracked, tmp_path: Path
) -> None:
    schema = f"id long, at timestamp, word string, {ROOT} long, {EDGE} long"
    topic = Source(spark=spark, folder=tmp_path / "topic", schema=schema)
    emitter, counted = tracked.acker(query_id="emitter", message_timeout=3_600), list[Any]()
    put = emitter.forward_rows(lambda out, _: topic.put(*(row.asDict() for row in out.collect())))
    for number, minute in enumerate((1, 2, 30, 58)):
        at = f"2026-01-01T00:{minute:02}:00"
        put(emitter.root(spark.createDataFrame([(number, at, "w")], "id long, at string, word string"), "id"), number)

    def ship(rows: Any, _: int) -> None:
        counted.extend((f"{row.window.start:%M}", row.word, row.n) for row in rows.collect())

    code, checkpoint = own_block("spark.md", __file__), '"checkpoint")'
    assert code.count(checkpoint) == 1
    acker = tracked.acker(message_timeout=3_600)
    given = {"F": F, "af": af, "acker": acker, "rows": acker.received(topic.stream()), "ship": ship}
    exec(code.replace(checkpoint, f"{str(tmp_path / 'checkpoint')!r})"), given)
    [query] = spark.streams.active
    try:
        expect_outcomes(tracked, {"0": "acked", "1": "acked", "2": "acked"})
    finally:
        query.stop()
    assert sorted(counted) == [("00", "w", 2), ("25", "w", 1), ("30", "w", 1), ("55", "w", 2)]
    assert tracked.pending() == {"3"}


def test_a_window_that_is_open_for_longer_than_a_root_may_be_pending_is_refused(rows: Any, tracked: Tracked) -> None:
    acker = tracked.acker(message_timeout=60)
    with pytest.raises(errors.UsageError, match="would time out before its window is emitted"):
        acker.window_rows(rows, "at", "1 minute", delay="10 seconds")


def test_roots_that_a_window_or_join_of_their_own_query_would_hold_back_are_refused(
    rows: Any, tracked: Tracked
) -> None:
    rooted = tracked.acker().root(rows, "id")
    with pytest.raises(errors.UsageError, match="would not be emitted"):
        af.collect_anchors(rooted)
    with pytest.raises(errors.UsageError, match="would not be emitted"):
        af.join(rooted, rooted, "id")


def test_a_slide_of_milliseconds_divides_its_window(rows: Any, tracked: Tracked) -> None:
    """In seconds as floating point, 0.3 / 0.1 is not 3."""
    acker = tracked.acker(message_timeout=60)
    timed = acker.root(rows.withColumn("at", F.col("at").cast("timestamp")), "id")
    slid = acker.window_rows(timed, "at", "300 milliseconds", slide="100 milliseconds")
    assert "window" in slid.columns
    with pytest.raises(errors.UsageError, match="must be a multiple of the slide '0 milliseconds'"):
        acker.window_rows(timed, "at", "300 milliseconds", slide="0 milliseconds")
