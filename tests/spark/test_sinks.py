"""Rows with anchors that no function of the connector takes are refused, with words, whatever they are written to."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from acker_spark import errors
from acker_spark import functions as af
from acker_spark._batch import sinks
from acker_spark._batch.columns import EDGE, ROOT
from acker_spark._batch.running import RunningQuery
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tests.spark.tracked import Source, Tracked, expect_outcomes, run

INSTEAD = r"foreachBatch\(acker\.foreach_batch\(f\)\)"
NOT_CALLED = f"called no function of the connector.*{INSTEAD}"


def nothing(batch: Any, batch_id: int, collector: Any) -> None:
    """Do nothing."""


@pytest.fixture
def source(spark: Any, tmp_path: Path) -> Source:
    found = Source(spark=spark, folder=tmp_path / "in", schema=f"id long, at timestamp, {ROOT} long, {EDGE} long")
    found.put(*({"id": one, "at": "2026-01-01T00:00:00", ROOT: one, EDGE: one} for one in (1, 2)))
    return found


@pytest.fixture
def table(spark: Any) -> Iterator[str]:
    """The name of a table."""
    yield "archive"
    spark.sql("drop table if exists archive")


def windowed(acker: Any, stream: Any) -> Any:
    """Rows that a window holds back."""
    rows = acker.window_rows(acker.received(stream), "at", "1 minute")
    return rows.groupBy("window").agg(af.collect_anchors(rows))


def wide(stream: Any) -> Any:
    """More columns than Spark shows in the text of a plan."""
    return stream.select("*", *(F.lit(one).alias(f"column_{one}") for one in range(60)))


FRAMES: dict[str, Callable[[Any, Any], Any]] = {
    "root": lambda acker, stream: acker.root(stream, "id"),
    "received": lambda acker, stream: acker.received(stream),
    "without the columns": lambda acker, stream: acker.root(stream, "id").select("id"),
    "row level": lambda acker, stream: af.explode(acker.root(stream, "id"), F.array("id"), "one", stage="s"),
    "a window": windowed,
    "many columns": lambda acker, stream: acker.root(wide(stream), "id").select("at"),
}


@pytest.mark.parametrize("made", FRAMES)
def test_a_plain_function_of_a_batch_ends_its_query_in_the_first_batch(
    source: Source, tracked: Tracked, tmp_path: Path, made: str
) -> None:
    """Without a word all would seem well, and no completion would ever come."""
    acker = tracked.acker(message_timeout=600)
    frame, seen = FRAMES[made](acker, source.stream()), list[int]()
    if made == "a window":
        source.put({"id": 9, "at": "2026-01-02T00:00:00", ROOT: 9, EDGE: 9})
    with pytest.raises(StreamingQueryException, match=NOT_CALLED):
        run(frame, lambda batch, _: seen.append(batch.count()), tmp_path / "checkpoint")
    assert seen[-1] > 0
    assert tracked.pending() == set()


STARTS: dict[str, Callable[[Any, Path], Any]] = {
    "parquet": lambda writer, folder: writer.format("parquet").start(str(folder)),
    "format of start": lambda writer, folder: writer.start(str(folder), format="json"),
    "toTable": lambda writer, _: writer.toTable("archive"),
    "foreach": lambda writer, _: writer.foreach(print).start(),
    "console": lambda writer, _: writer.format("console").start(),
    "memory": lambda writer, _: writer.format("memory").queryName("shown").start(),
    "noop": lambda writer, _: writer.format("noop").start(),
    "a format behind the function": lambda writer, _: writer.foreachBatch(print).format("noop").start(),
    "the default": lambda writer, folder: writer.start(str(folder)),
}


@pytest.mark.parametrize("to", STARTS)
@pytest.mark.parametrize("made", FRAMES)
def test_another_sink_is_refused_before_its_query_starts(
    source: Source, tracked: Tracked, tmp_path: Path, table: str, made: str, to: str
) -> None:
    writer = FRAMES[made](tracked.acker(message_timeout=600), source.stream()).writeStream
    with pytest.raises(errors.UsageError, match=INSTEAD):
        STARTS[to](writer.option("checkpointLocation", str(tmp_path / "checkpoint")), tmp_path / "out")
    assert source.spark.streams.active == []


@pytest.mark.parametrize("to", STARTS)
def test_rows_without_anchors_are_written_as_ever(
    source: Source, tracked: Tracked, tmp_path: Path, table: str, to: str
) -> None:
    tracked.acker().root(source.stream(), "id")
    writer = source.stream().writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = STARTS[to](writer.trigger(availableNow=True), tmp_path / "out")
    query.awaitTermination()


WRITES: dict[str, Callable[[Any, Path], Any]] = {
    "parquet": lambda frame, folder: frame.write.parquet(str(folder)),
    "save": lambda frame, folder: frame.write.format("json").mode("append").save(str(folder)),
    "saveAsTable": lambda frame, _: frame.write.saveAsTable("archive"),
    "writeTo": lambda frame, _: frame.writeTo("archive").using("parquet").create(),
}


@pytest.mark.parametrize("to", WRITES)
def test_a_batch_with_anchors_is_written_in_a_function_of_the_connector_only(
    spark: Any, tracked: Tracked, tmp_path: Path, table: str, to: str
) -> None:
    acker = tracked.acker(query_id="q")
    rows = spark.createDataFrame([(1, "a"), (2, "b")], "id long, word string")
    rooted = acker.root(rows, "id")
    with pytest.raises(errors.UsageError, match=INSTEAD):
        WRITES[to](rooted.where("word = 'a'"), tmp_path / "out")
    WRITES[to](rows, tmp_path / "rows")
    spark.sql("drop table if exists archive")
    acker.foreach_batch(lambda batch, *_: WRITES[to](batch.drop("word"), tmp_path / "out"))(rooted, 0)
    expect_outcomes(tracked, {"1": "acked", "2": "acked"})


def test_a_function_that_calls_one_of_the_connector_may_do_what_it_likes(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    acker = tracked.acker()
    tells = acker.foreach_batch(nothing)

    def work(batch: Any, batch_id: int) -> None:
        batch.write.json(str(tmp_path / f"out-{batch_id}"))
        tells(batch, batch_id)

    source.put({"id": 3})
    run(acker.root(source.stream(), "id"), work, tmp_path / "checkpoint")
    expect_outcomes(tracked, {"1": "acked", "2": "acked", "3": "acked"})


def test_a_function_may_leave_out_a_batch_without_rows(source: Source, tracked: Tracked, tmp_path: Path) -> None:
    """As one does that writes no empty files."""
    acker, skipped = tracked.acker(), list[int]()
    tells = acker.foreach_batch(nothing)

    def work(batch: Any, batch_id: int) -> None:
        if batch.isEmpty():
            skipped.append(batch_id)
        else:
            tells(batch, batch_id)

    source.put({"id": 3})
    run(acker.root(source.stream().where("id = 3"), "id"), work, tmp_path / "checkpoint")
    expect_outcomes(tracked, {"3": "acked"})
    assert skipped == [0]


def test_what_a_function_raises_itself_is_what_ends_its_query(source: Source, tracked: Tracked, tmp_path: Path) -> None:
    def broken(batch: Any, batch_id: int) -> None:
        raise OSError("no disk")

    with pytest.raises(StreamingQueryException, match="no disk"):
        run(tracked.acker().root(source.stream(), "id"), broken, tmp_path / "checkpoint")


def test_a_batch_of_another_query_does_not_count() -> None:
    mine, theirs = (RunningQuery(query_id=one, run_id=one, context=None, execution=None) for one in ("a", "b"))
    with sinks.at_work(mine) as plain, sinks.at_work(theirs) as other, sinks.at_work(None) as unknown:
        sinks.note_tracked(theirs)
        assert (plain.is_tracked, other.is_tracked, unknown.is_tracked) == (False, True, True)
        sinks.note_tracked(None)  # a thread to which Spark does not show its query
        assert plain.is_tracked
