"""A key whose values change when a batch runs again is refused where Spark's plan shows it, also with a seed."""

from pathlib import Path
from typing import Any

import pytest
from acker_spark import errors
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tests.spark.tracked import Source, Tracked, expect_outcomes, run

OTHERS = "whose values are others when the batch runs again"

UNSTABLE = {
    "rand(42)": "rand",
    "randn(42)": "randn",
    "uuid(42)": "uuid",
    "randstr(8, 42)": "randstr",
    "uniform(0, 1000000, 42)": "uniform",
    "element_at(shuffle(array(1, 2, 3), 42), 1)": "shuffle",
    "rand()": "rand",
    "uuid()": "uuid",
    "concat(id, '-', monotonically_increasing_id())": "monotonically_increasing_id",
    "spark_partition_id()": "spark_partition_id",
    "if(id > 1, id, hash(uuid(42)))": "uuid",
    "explode(sequence(1, uniform(1, 3, 42)))": "uniform",
    "sum(rand(42)) over (partition by id order by at)": "rand",
}
NO_STREAM = ("concat(id, '-', monotonically_increasing_id())", "sum(rand(42)) over (partition by id order by at)")
"""Spark itself refuses these in a stream."""
STABLE = (
    "xxhash64(id, at)",
    "id",
    "input_file_name()",
    "explode(array(id, 7))",
    "sum(id) over (partition by id order by at)",
)


def nothing(batch: Any, batch_id: int, collector: Any) -> None:
    """Do nothing."""


def calls(number: int) -> str:
    """Ask another system."""
    return str(number)


@pytest.fixture
def source(spark: Any, tmp_path: Path) -> Source:
    found = Source(spark=spark, folder=tmp_path / "in", schema="id long, at timestamp")
    found.put({"id": 1, "at": "2026-01-01T00:00:00"}, {"id": 2, "at": "2026-01-01T00:00:01"})
    return found


@pytest.mark.parametrize("made", UNSTABLE)
def test_a_message_id_or_an_attempt_that_is_another_the_next_time_is_refused_at_once(
    spark: Any, tracked: Tracked, made: str
) -> None:
    acker = tracked.acker(query_id="q")
    rows = spark.createDataFrame([(1, "2026-01-01")], "id long, at string").withColumn("made", F.expr(made))
    refused = rf"root\(\) depends on {UNSTABLE[made]}\(\), {OTHERS}"
    for step in (
        lambda: acker.root(rows, "made"),
        lambda: acker.root(rows, "id", attempt=F.col("made").cast("string")),
        lambda: acker.root(rows.select(F.concat("made", "at").alias("key")).where("key is not null"), "key"),
        lambda: acker.root(rows.alias("left").join(rows.select("id"), "id").groupBy("made").count(), "made"),
    ):
        with pytest.raises(errors.UsageError, match=refused):
            step()
    acker.root(rows, "id", attempt="at")


@pytest.mark.parametrize("made", [one for one in UNSTABLE if one not in NO_STREAM])
def test_a_key_made_in_the_stream_is_refused_before_anything_is_acked(
    source: Source, tracked: Tracked, tmp_path: Path, made: str
) -> None:
    def send(batch: Any, batch_id: int, collector: Any) -> None:
        collector.emit(batch.withColumn("key", F.concat_ws("-", "id", "made")), "topic", key=["key"])

    first, second = tracked.acker(), tracked.acker(spout_task="another")
    before = first.root(source.stream().withColumn("made", F.expr(made)), "id")
    behind = second.root(source.stream(), "id").withColumn("made", F.expr(made))
    refused = rf"the key of emit to 'topic' depends on {UNSTABLE[made]}\(\), {OTHERS}"
    for acker, frame in ((first, before), (second, behind)):
        with pytest.raises(StreamingQueryException, match=refused):
            run(frame, acker.foreach_batch(send), tmp_path / acker.options.spout_task)
    assert tracked.outcomes() == tracked.outcomes("another") == {}


@pytest.mark.parametrize("made", [*UNSTABLE, "now()", "current_date()"])
def test_a_key_made_in_the_function_of_a_batch_is_refused(
    source: Source, tracked: Tracked, tmp_path: Path, made: str
) -> None:
    def send(batch: Any, batch_id: int, collector: Any) -> None:
        collector.emit(batch.withColumn("made", F.expr(made)), "topic", key=["id", "made"])

    acker = tracked.acker()
    with pytest.raises(StreamingQueryException, match=OTHERS):
        run(acker.root(source.stream(), "id"), acker.foreach_batch(send), tmp_path / "checkpoint")


def test_a_function_of_python_that_is_not_deterministic_makes_no_key(spark: Any, tracked: Tracked) -> None:
    acker = tracked.acker(query_id="q")
    rows = spark.createDataFrame([(1,)], "id long")
    ask = F.udf(calls, "string", useArrow=False)
    with pytest.raises(errors.UsageError, match=rf"depends on calls\(\), {OTHERS}"):
        acker.root(rows.withColumn("key", ask.asNondeterministic()("id")), "key")
    acker.root(rows.withColumn("key", F.udf(calls, "string", useArrow=False)("id")), "key")


@pytest.mark.parametrize("made", STABLE)
def test_other_columns_may_be_keys_and_random_ones_may_be_there(
    source: Source, tracked: Tracked, tmp_path: Path, made: str
) -> None:
    def send(batch: Any, batch_id: int, collector: Any) -> None:
        rows = batch.select("*", F.expr(made).alias("key"), F.rand(42).alias("chance"))
        collector.emit(rows, "topic", key=["id", "key"])

    acker = tracked.acker()
    stream = source.stream().withColumn("chance", F.expr("uuid(42)")).withColumn("seen", F.expr("now()"))
    run(acker.root(stream, "id", attempt="seen"), acker.foreach_batch(send), tmp_path / "checkpoint")
    assert tracked.pending() == {"1", "2"}


def test_a_seed_does_not_keep_the_values_of_a_batch_that_runs_again(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    """Why a seed is no excuse: seen with PySpark 4.0.2, 4.1.1 and 4.3.0."""
    acker, seen = tracked.acker(), list[Any]()

    def look(batch: Any, batch_id: int, collector: Any) -> None:
        seen.append(sorted(tuple(row) for row in batch.select("id", "chance", "name").collect()))
        if len(seen) == 1:
            raise OSError("again")

    stream = source.stream().withColumns({"chance": F.rand(42), "name": F.expr("uuid(42)")})
    rooted = acker.root(stream, "id")
    with pytest.raises(StreamingQueryException, match="again"):
        run(rooted, acker.foreach_batch(look), tmp_path / "checkpoint")
    run(rooted, acker.foreach_batch(look), tmp_path / "checkpoint")
    first, second = seen
    assert [one[0] for one in first] == [one[0] for one in second] == [1, 2]
    assert all(one[1] != other[1] and one[2] != other[2] for one, other in zip(first, second, strict=True))
    expect_outcomes(tracked, {"1": "acked", "2": "acked"})
