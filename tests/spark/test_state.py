"""Anchors pass through functions of Python that hold rows back, and end with the batch that brings the rows out."""

from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import acker_spark
import pandas as pd
import pytest
from acker_spark._batch import columns
from acker_spark._batch.columns import EDGE, ROOT
from pyspark.sql import GroupedData, Row
from pyspark.sql.streaming import StatefulProcessor

from tests.spark.tracked import Source, Tracked, expect_outcomes, run
from tests.support.pages import own_block

HELD = f"id long, {ROOT} long, {EDGE} long"
NAMES = ["id", ROOT, EDGE]
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Pairs(StatefulProcessor):
    """Holds the first row of an order until the second comes, and brings out both."""

    def init(self, handle: Any) -> None:
        self.held = handle.getListState("held", HELD)

    def handleInputRows(self, _key: Any, rows: Any, _timers: Any) -> Iterator[Any]:  # noqa: N802 - Spark's name
        new = [tuple(row) for frame in rows for row in frame[NAMES].itertuples(index=False)]
        found = [tuple(row) for row in self.held.get()] + new
        if len(found) < 2:
            self.held.put(found)
            return
        self.held.clear()
        yield pd.DataFrame(found, columns=NAMES)

    def close(self) -> None: ...


class PairsOfRows(Pairs):
    """The same, for Spark's own rows."""

    def handleInputRows(self, _key: Any, rows: Any, _timers: Any) -> Iterator[Any]:  # noqa: N802 - Spark's name
        found = [*map(tuple, self.held.get()), *(tuple(row[name] for name in NAMES) for row in rows)]
        if len(found) < 2:
            self.held.put(found)
            return
        self.held.clear()
        yield from (Row(**dict(zip(NAMES, row, strict=True))) for row in found)


def old_pairs(key: Any, frames: Any, state: Any) -> Iterator[Any]:
    """The same, for Spark's older function."""
    rows = [tuple(row) for frame in frames for row in frame[NAMES].itertuples(index=False)]
    if not state.exists and len(rows) < 2:
        state.update(rows[0])
        return
    held = [state.get] if state.exists else []
    if held:
        state.remove()
    yield pd.DataFrame([*held, *rows], columns=NAMES)


def as_they_are(frames: Any) -> Iterator[Any]:
    """Hold nothing back."""
    return (frame[NAMES] for frame in frames)


STEPS: dict[str, Callable[[Any], Any]] = {
    "transformWithStateInPandas": lambda rows: rows.groupBy("order").transformWithStateInPandas(
        Pairs(), HELD, "append", "none"
    ),
    "transformWithState": lambda rows: rows.groupBy("order").transformWithState(PairsOfRows(), HELD, "append", "none"),
    "applyInPandasWithState": lambda rows: rows.groupBy("order").applyInPandasWithState(
        old_pairs, HELD, HELD, "append", "NoTimeout"
    ),
}


@pytest.fixture
def source(spark: Any, tmp_path: Path) -> Iterator[Source]:
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
    yield Source(spark=spark, folder=tmp_path / "in", schema=f"order string, {HELD}")
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


class Emitted:
    """Messages that were emitted elsewhere, a file each."""

    def __init__(self, tracked: Tracked, source: Source) -> None:
        self.acker = tracked.acker(query_id="emitter")
        self.source = source

    def put(self, number: int, order: str) -> None:
        """Emit one message, and write it."""
        spark, sent = self.source.spark, list[Any]()
        rooted = self.acker.root(spark.createDataFrame([(number, order)], "id long, order string"), "id")
        keep = self.acker.foreach_batch(lambda rows, _, out: sent.extend(out.emit(rows, "topic", key=["id"]).collect()))
        keep(rooted, number)
        self.source.put({name: sent[0][name] for name in ("order", *NAMES)})


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("received_first", [True, False], ids=["received", "as they are"])
@pytest.mark.parametrize("level", ["batch", "row"])
def test_a_row_that_is_held_back_is_acked_by_the_batch_that_brings_it_out(
    source: Source, tracked: Tracked, tmp_path: Path, step: str, level: str, *, received_first: bool
) -> None:
    if not hasattr(GroupedData, step):
        pytest.skip(f"PySpark has {step} from 4.1 on")
    emitted, acker, seen = Emitted(tracked, source), tracked.acker(), list[int]()
    for number, order in ((1, "a"), (2, "b"), (3, "a")):
        emitted.put(number, order)
    rows = acker.received(source.stream()) if received_first else source.stream()

    def look(batch: Any, *_: Any) -> None:
        seen.extend(sorted(row.id for row in batch.collect()))

    function = acker.foreach_batch(look) if level == "batch" else acker.foreach_rows(look)
    run(acker.received(STEPS[step](rows)), function, tmp_path / "checkpoint")
    assert seen == [1, 3]
    expect_outcomes(tracked, {"1": "acked", "3": "acked"})
    assert tracked.pending() == {"2"}
    emitted.put(4, "b")
    run(acker.received(STEPS[step](rows)), function, tmp_path / "checkpoint")
    expect_outcomes(tracked, {str(one): "acked" for one in (1, 2, 3, 4)})


def test_the_block_of_the_page_acks_rows_with_the_batch_that_brings_them_out(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    code, checkpoint = own_block("spark.md", __file__), '"checkpoint")'
    assert code.count(checkpoint) == 1
    emitted, shipped = Emitted(tracked, source), list[int]()
    for number, order in ((1, "a"), (2, "b"), (3, "a")):
        emitted.put(number, order)

    def ship(batch: Any, *_: Any) -> None:
        shipped.extend(sorted(row.id for row in batch.collect()))

    given = {"spark": source.spark, "acker": tracked.acker(), "rows": source.stream(), "ship": ship}
    exec(code.replace(checkpoint, f"{str(tmp_path / 'checkpoint')!r})"), given)
    [query] = source.spark.streams.active
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert shipped == [1, 3]
    expect_outcomes(tracked, {"1": "acked", "3": "acked"})
    assert tracked.pending() == {"2"}


def test_a_function_of_pandas_that_holds_nothing_back_keeps_the_names(
    source: Source, tracked: Tracked, tmp_path: Path
) -> None:
    emitted, acker = Emitted(tracked, source), tracked.acker()
    emitted.put(1, "a")
    mapped = acker.received(source.stream()).mapInPandas(as_they_are, HELD)
    run(acker.received(mapped), acker.foreach_batch(lambda *_: None), tmp_path / "checkpoint")
    expect_outcomes(tracked, {"1": "acked"})


def test_no_column_has_a_name_that_a_named_tuple_cannot_have() -> None:
    """Such a column arrives as ``_2``."""
    assert namedtuple("Row", columns.OWN, rename=True)._fields == columns.OWN
    given = acker_spark.ROOT_COLUMN, acker_spark.EDGE_COLUMN, acker_spark.ANCHORS_COLUMN
    assert given == ("acker_root", "acker_edge", "acker_anchors")


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (("_ack_root", "_ack_edge"), {}),
        (("_ack_root", EDGE), {}),
        (("_ack_root", "_ack_edge"), {"root": "_ack_root", "edge": "_ack_edge"}),
        (("_ack_root", "e"), {"edge": "e"}),
    ],
)
def test_rows_with_the_first_names_of_the_columns_are_read(
    spark: Any, tracked: Tracked, names: tuple[str, str], options: dict[str, str]
) -> None:
    emitter, sent = tracked.acker(query_id="emitter"), list[Any]()
    rooted = emitter.root(spark.createDataFrame([(1,)], "id long"), "id")
    emitter.foreach_batch(lambda rows, _, out: sent.extend(out.emit(rows, "topic", key=["id"]).collect()))(rooted, 0)
    [row] = sent
    written = spark.createDataFrame([(row[ROOT], row[EDGE])], ", ".join(f"{name} long" for name in names))
    acker = tracked.acker(query_id="second")
    acker.foreach_batch(lambda *_: None)(acker.received(written, **options), 0)
    expect_outcomes(tracked, {"1": "acked"})
