"""At row level a root is acked when every row that was made of it has ended, wherever and in which batch that is."""

from typing import Any

import pytest
from acker_spark import errors
from acker_spark import functions as af
from acker_spark._batch.columns import EDGE, MESSAGE, ROOT
from pyspark.sql import functions as F

from tests.spark.tracked import Tracked, expect_outcomes


@pytest.fixture
def rows(spark: Any) -> Any:
    """Sentences, as a batch has them."""
    return spark.createDataFrame([(1, "a b c"), (2, "d"), (3, ""), (4, "e f")], "id long, sentence string")


def words_of(rows: Any) -> Any:
    """Split sentences."""
    return af.explode(rows, F.split("sentence", " "), "word", stage="split")


def test_split_filtered_and_failed_rows_end_their_roots(rows: Any, tracked: Tracked) -> None:
    seen: list[str] = []
    acker = tracked.acker(query_id="q")
    words = words_of(acker.root(rows, "id"))
    words = af.fail(af.filter(words, "word != 'b'"), "word = 'f'", F.concat(F.lit("no "), "word"))
    acker.foreach_rows(lambda live_rows, _: seen.extend(row.word for row in live_rows.collect()))(words, 0)
    expect_outcomes(tracked, {"1": "acked", "2": "acked", "3": "acked", "4": "failed"})
    assert sorted(seen) == ["", "a", "c", "d", "e"]
    assert tracked.reasons()["4"] == "no f"


def test_failed_rows_leave_a_root_to_its_other_rows_where_it_ends_when_all_have(rows: Any, tracked: Tracked) -> None:
    """Rows of it fail in two batches; those of the second were sent on."""
    tracked.create(end_on="all_ended", dedupe_window_ms=3_600_000, retention_ms=3_600_000)
    kept: list[Any] = []
    acker = tracked.acker(query_id="one")
    words = af.fail(words_of(acker.root(rows.where("id = 1"), "id")), "word = 'a'", "no a")
    acker.forward_rows(lambda out, _: kept.extend(out.select("word", ROOT, EDGE).collect()))(words, 0)
    assert sorted(row.word for row in kept) == ["b", "c"]
    assert tracked.pending() == {"1"}
    second = tracked.acker(query_id="two")
    received = rows.sparkSession.createDataFrame(kept)
    failing = af.fail(second.received(received), "word = 'b'", "no b")
    second.foreach_rows(lambda _, __: None)(failing, 0)
    expect_outcomes(tracked, {"1": "failed"})
    assert tracked.failures() == {"1": 2}
    assert tracked.reasons() == {"1": "no a"}


def test_a_root_waits_for_its_rows_in_other_batches(rows: Any, tracked: Tracked) -> None:
    """Its children are sent on in one query and end in another, in several batches; each order is the same."""
    acker = tracked.acker(query_id="one")
    kept: list[Any] = []
    words = words_of(acker.root(rows.where("id = 1"), "id"))
    acker.forward_rows(lambda out, _: kept.extend(out.select("word", ROOT, EDGE).collect()))(words, 0)
    assert tracked.pending() == {"1"}
    second = tracked.acker(query_id="two")
    for batch_id, row in enumerate(kept):
        assert tracked.pending() == {"1"}
        arrived = second.received(
            rows.sparkSession.createDataFrame([tuple(row)], f"word string, {ROOT} long, {EDGE} long")
        )
        for _ in range(2):
            second.foreach_rows(lambda _, __: None)(arrived, batch_id)
    expect_outcomes(tracked, {"1": "acked"})


def test_one_frame_in_two_sinks_is_done_when_both_are(rows: Any, tracked: Tracked) -> None:
    left, right = af.branch(words_of(tracked.acker(query_id="x").root(rows, "id")), 2)
    one, two = tracked.acker(query_id="one"), tracked.acker(query_id="two")
    one.foreach_rows(lambda _, __: None)(left, 0)
    assert tracked.pending() == {"1", "2", "3", "4"}
    two.foreach_rows(lambda _, __: None)(right, 0)
    expect_outcomes(tracked, {"1": "acked", "2": "acked", "3": "acked", "4": "acked"})


def test_of_a_message_that_comes_twice_all_ways_of_a_branch_keep_the_same_rows(spark: Any, tracked: Tracked) -> None:
    """Each way is another query, which reads the rows in an order of its own."""
    data = [(one, text) for one in range(8) for text in ("a b", "c d e")]
    acker, seen = tracked.acker(query_id="x"), dict[int, list[Any]]()
    for way, read in enumerate((data, data[::-1])):
        rows = spark.createDataFrame(read, "id long, sentence string").coalesce(1)
        frame = af.branch(words_of(acker.root(rows, "id")), 2)[way]
        ends = tracked.acker(query_id=f"way-{way}")
        ends.foreach_rows(lambda out, way: seen.update({way: sorted(out.select("id", "word").collect())}))(frame, way)
    expect_outcomes(tracked, {str(one): "acked" for one in range(8)})
    assert seen[0] == seen[1]


def test_a_way_of_a_branch_that_lost_its_message_ids_is_refused(rows: Any, tracked: Tracked) -> None:
    """Its roots would never begin, or what was delivered twice would not be seen."""
    acker = tracked.acker(query_id="q")
    rooted = acker.root(rows, "id")
    with pytest.raises(errors.MissingAnchors, match=MESSAGE):
        af.branch(rooted.drop(MESSAGE), 2)
    for way in af.branch(rooted, 2):
        with pytest.raises(errors.MissingAnchors, match=MESSAGE):
            acker.foreach_rows(lambda _, __: None)(way.drop(MESSAGE), 0)


@pytest.mark.parametrize("copies", [2, 3])
def test_copies_of_the_rows_of_a_message_count_once(rows: Any, tracked: Tracked, copies: int) -> None:
    """As a join with a table makes them. The sum over all rows would be zero, or what it should be by chance."""
    acker = tracked.acker(query_id="q")
    words = words_of(acker.root(rows, "id")).withColumn("copy", F.explode(F.sequence(F.lit(1), F.lit(copies))))
    acker.foreach_rows(lambda _, __: None)(words, 0)
    expect_outcomes(tracked, {"1": "acked", "2": "acked", "3": "acked", "4": "acked"})


def test_one_frame_in_two_sinks_without_a_branch_is_refused(rows: Any, tracked: Tracked) -> None:
    acker, second = tracked.acker(query_id="one"), tracked.acker(query_id="two")
    words = words_of(acker.root(rows, "id"))
    acker.forward_rows(lambda _, __: None)(words, 0)
    with pytest.raises(errors.ConcurrentQuery):
        second.foreach_rows(lambda _, __: None)(words, 0)


def test_a_message_that_comes_twice_counts_once_though_its_rows_differ(spark: Any, tracked: Tracked) -> None:
    seen: list[str] = []
    rows = spark.createDataFrame([(1, "a b"), (1, "a b c"), (2, "d")], "id long, sentence string")
    acker = tracked.acker(query_id="q")
    acker.foreach_rows(lambda out, _: seen.extend(row.word for row in out.collect()))(
        words_of(acker.root(rows, "id")), 0
    )
    expect_outcomes(tracked, {"1": "acked", "2": "acked"})
    assert sorted(seen) in (["a", "b", "d"], ["a", "b", "c", "d"])


def test_copies_of_a_row_do_not_leave_with_one_edge(rows: Any, tracked: Tracked) -> None:
    """The first of them to be acked elsewhere would end the tree of all."""
    acker = tracked.acker(query_id="q")
    copies = acker.root(rows, "id").withColumn("word", F.explode(F.split("sentence", " ")))
    with pytest.raises(errors.DuplicateKey, match=r"af\.explode"):
        acker.forward_rows(lambda out, _: out.collect())(copies, 0)
    assert tracked.pending() == set()


def test_a_row_that_was_delivered_twice_leaves_twice(rows: Any, tracked: Tracked) -> None:
    sent: list[int] = []
    acker = tracked.acker(query_id="q")
    twice = rows.where("id = 1").select(F.lit(7).alias(ROOT), F.lit(8).alias(EDGE), "id")
    received = acker.received(twice.union(twice))
    acker.forward_rows(lambda out, _: sent.extend(row.id for row in out.collect()))(received, 0)
    assert sent == [1, 1]


def test_a_long_reason_is_cut(rows: Any, tracked: Tracked) -> None:
    acker = tracked.acker(query_id="q")
    failed = af.fail(acker.root(rows.where("id = 1"), "id"), "true", F.repeat("sentence", 1_000))
    acker.foreach_rows(lambda _, __: None)(failed, 0)
    expect_outcomes(tracked, {"1": "failed"})
    assert tracked.reasons()["1"] == ("a b c" * 1_000)[:1_024]
