"""A query that is stopped while the function of a batch works acks nothing of it: a write may have been cut off."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from acker_spark import SparkAcker
from py4j.protocol import Py4JJavaError

from tests.spark.tracked import Source, Tracked, expect_outcomes, messages, run
from tests.support.waiting import eventually_true

PATIENCE_S = 120
TIMEOUT = "spark.sql.streaming.stopTimeout"


@dataclass(slots=True, kw_only=True)
class Careless:
    """Writes a batch while its query is being stopped, and goes on after what Spark raises."""

    spark: Any
    out: Path
    works: threading.Event = field(default_factory=threading.Event)
    swallowed: list[str] = field(default_factory=list)
    stops: bool = True

    def write(self, rows: Any) -> None:
        """Wait for the stop the first time."""
        self.works.set()
        thread = self.spark._jvm.java.lang.Thread
        if self.stops:
            eventually_true(lambda: thread.currentThread().isInterrupted(), within=PATIENCE_S)
        try:
            assert rows.count() == 3
            rows.select("id").write.mode("overwrite").json(str(self.out))
        except Exception as error:  # noqa: BLE001 - the mistake that this test is about
            self.swallowed.append(str(error))


@pytest.fixture
def source(spark: Any, tmp_path: Path) -> Source:
    """One batch of three messages."""
    found = Source(spark=spark, folder=tmp_path / "source", schema="id long")
    found.put(*messages(1, 2, 3))
    return found


@pytest.fixture
def careless(spark: Any, tmp_path: Path) -> Careless:
    return Careless(spark=spark, out=tmp_path / "out")


@pytest.fixture
def short_stop(spark: Any) -> Iterator[None]:
    """Let ``stop()`` give up soon."""
    spark.conf.set(TIMEOUT, "1")
    yield
    spark.conf.unset(TIMEOUT)


def function(acker: SparkAcker, level: str, write: Callable[[Any], None]) -> Any:
    """Make the argument of ``foreachBatch`` at a level, for a function that writes a batch."""
    if level == "row level":
        return acker.foreach_rows(lambda rows, _: write(rows))
    return acker.foreach_batch(lambda batch, _, __: write(batch))


def start(frame: Any, work: Any, checkpoint: Path) -> Any:
    return frame.writeStream.foreachBatch(work).option("checkpointLocation", str(checkpoint)).start()


@pytest.mark.parametrize("level", ["batch level", "row level"])
def test_what_a_function_raises_because_its_query_is_stopped_fails_nothing(
    source: Source, careless: Careless, tracked: Tracked, tmp_path: Path, level: str
) -> None:
    acker, thread = tracked.acker(fail_raised=True), source.spark._jvm.java.lang.Thread

    def work(rows: Any) -> None:
        careless.works.set()
        eventually_true(lambda: thread.currentThread().isInterrupted(), within=PATIENCE_S)
        rows.count()

    query = start(acker.root(source.stream(), "id"), function(acker, level, work), tmp_path / "checkpoint")
    assert careless.works.wait(PATIENCE_S)
    query.stop()
    assert (tracked.outcomes(), tracked.pending()) == ({}, {"1", "2", "3"})


@pytest.mark.parametrize("level", ["batch level", "row level"])
def test_a_batch_whose_query_is_stopped_while_its_function_works_is_not_acked_and_runs_again(
    source: Source, careless: Careless, tracked: Tracked, tmp_path: Path, level: str
) -> None:
    shipped: list[Any] = []
    acker = tracked.acker(on_batch=shipped.append)
    rooted, work = acker.root(source.stream(), "id"), function(acker, level, careless.write)
    query = start(rooted, work, tmp_path / "checkpoint")
    assert careless.works.wait(PATIENCE_S)
    query.stop()
    assert len(careless.swallowed) == 1
    assert (tracked.outcomes(), shipped, careless.out.exists()) == ({}, [], False)
    assert tracked.pending() == {"1", "2", "3"}
    assert query.exception() is None
    careless.stops = False
    run(rooted, work, tmp_path / "checkpoint")
    expect_outcomes(tracked, {"1": "acked", "2": "acked", "3": "acked"})
    assert source.spark.read.schema("id long").json(str(careless.out)).count() == 3
    assert [(one.batch_id, one.emitted, one.acked) for one in shipped] == [(0, 0, 3)]


def test_a_query_that_is_stopped_by_its_start_in_another_session_acks_with_the_second_run_only(
    source: Source, careless: Careless, tracked: Tracked, tmp_path: Path
) -> None:
    """Spark stops the first run for that (``spark.sql.streaming.stopActiveRunOnRestart``)."""
    first, second = tracked.acker(), tracked.acker()
    start(first.root(source.stream(), "id"), function(first, "batch level", careless.write), tmp_path / "checkpoint")
    assert careless.works.wait(PATIENCE_S)
    other = Source(spark=source.spark.newSession(), folder=source.folder, schema=source.schema)
    written: list[int] = []
    seen = second.foreach_batch(lambda batch, _, __: written.append(batch.count()))
    query = start(second.root(other.stream(), "id"), seen, tmp_path / "checkpoint")
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert (len(careless.swallowed), written) == (1, [3])
    expect_outcomes(tracked, {"1": "acked", "2": "acked", "3": "acked"})


def test_a_stop_that_gives_up_waiting_stops_the_batch_all_the_same(
    source: Source, careless: Careless, tracked: Tracked, tmp_path: Path, short_stop: None
) -> None:
    acker, go_on = tracked.acker(), threading.Event()

    def work(rows: Any) -> None:
        careless.write(rows)
        assert go_on.wait(PATIENCE_S)

    query = start(acker.root(source.stream(), "id"), function(acker, "batch level", work), tmp_path / "checkpoint")
    assert careless.works.wait(PATIENCE_S)
    with pytest.raises(Py4JJavaError, match="failed to stop within 1"):
        query.stop()
    go_on.set()
    assert query.awaitTermination(PATIENCE_S)
    assert (len(careless.swallowed), tracked.outcomes()) == (1, {})
    assert tracked.pending() == {"1", "2", "3"}


def test_a_function_that_needs_no_more_of_spark_is_stopped_without_an_error(
    source: Source, careless: Careless, tracked: Tracked, tmp_path: Path
) -> None:
    acker, thread = tracked.acker(), source.spark._jvm.java.lang.Thread

    def work(_: Any) -> None:
        careless.works.set()
        eventually_true(lambda: thread.currentThread().isInterrupted(), within=PATIENCE_S)

    query = start(acker.root(source.stream(), "id"), function(acker, "row level", work), tmp_path / "checkpoint")
    assert careless.works.wait(PATIENCE_S)
    query.stop()
    assert (query.exception(), tracked.outcomes()) == (None, {})
