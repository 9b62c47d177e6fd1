"""What a batch was begun with is what its function is given, whatever the program caches and Spark loses."""

import contextlib
import uuid
from pathlib import Path
from typing import Any

import pytest
from acker_spark import errors
from acker_spark._batch import batch_level, row_level
from acker_spark._batch.columns import EDGE, ROOT
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from tests.spark.tracked import Tracked, expect_outcomes


@pytest.fixture
def rows(spark: Any) -> Any:
    """Three messages, as a batch has them."""
    return spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "id long, word string")


@pytest.mark.parametrize("level", ["batch", "row"])
def test_doubles_that_come_out_otherwise_when_they_are_computed_again_are_refused(
    rows: Any, tracked: Tracked, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that is lost with its machine is as if there had been none. No row would be left of message 1."""
    for level_module in (batch_level, row_level):
        monkeypatch.setattr(level_module, "cached", contextlib.nullcontext)
    other = F.udf(lambda: str(uuid.uuid4()), "string", useArrow=False).asNondeterministic()
    twice = rows.union(rows.where("id = 1")).withColumn("other", other())
    acker = tracked.acker(query_id="q")
    verb = acker.foreach_batch(lambda *_: None) if level == "batch" else acker.foreach_rows(lambda *_: None)
    with pytest.raises(errors.NondeterministicBatch, match="of 1 messages that came twice, rows of 0 are left"):
        verb(acker.root(twice, "id"), 0)
    assert tracked.pending() == set()


@pytest.mark.parametrize("level", ["batch", "row"])
def test_a_frame_that_the_program_has_cached_stays_cached(rows: Any, tracked: Tracked, level: str) -> None:
    acker = tracked.acker(query_id="q")
    theirs = acker.received(rows.select(F.lit(7).alias(ROOT), F.col("id").alias(EDGE))).persist()
    verb = acker.foreach_batch(lambda *_: None) if level == "batch" else acker.foreach_rows(lambda *_: None)
    try:
        verb(theirs, 0)
        assert theirs.storageLevel != StorageLevel.NONE
    finally:
        theirs.unpersist()
    assert theirs.storageLevel == StorageLevel.NONE


def test_a_batch_whose_function_lets_its_rows_go_is_not_computed_again(
    rows: Any, tracked: Tracked, tmp_path: Path
) -> None:
    """As Spark's own documentation writes it: persist, work, unpersist."""
    calls = tmp_path / "calls"

    def call(one: int) -> int:
        with calls.open("a") as out:
            out.write(f"{one}\n")
        return one

    def work(given: Any, _: int, collector: Any) -> None:
        given.persist()
        given.count()
        given.unpersist()
        collector.fail(given.where("called = 2"), "no twos")

    called = rows.withColumn("called", F.udf(call, "long", useArrow=False)("id"))
    acker = tracked.acker(query_id="q")
    acker.foreach_batch(work)(acker.root(called, "id"), 0)
    expect_outcomes(tracked, {"1": "acked", "2": "failed", "3": "acked"})
    assert sorted(calls.read_text().split()) == ["1", "2", "3"]
