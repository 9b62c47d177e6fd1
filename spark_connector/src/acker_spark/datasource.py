"""The completions of a spout task as a streaming source of Spark: ``spark.readStream.format("acker")``.

An offset is ``{"cursor": …}``, a place in the mailbox; "" is its beginning. A batch lies between two of them, so that
Spark, started again from its checkpoint, reads the same rows; they are released when Spark has committed the batch.
"""

from collections.abc import Iterator, MutableMapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from acker_client import UsageError
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import LongType, StringType, StructField, StructType

from acker_spark.pages import Pages
from acker_spark.source_options import SourceOptions, read_options

if TYPE_CHECKING:
    from acker_client import Completion
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # before PySpark 4.2, where availableNow takes one batch

        class SupportsTriggerAvailableNow:
            """Says nothing to a Spark that does not ask."""


NAME = "acker"
NUMBERS = ("complete_latency_ms", "at_ms")
COLUMNS = ("id", "root_id", "outcome", "message_id", "reason", "component", *NUMBERS)
SCHEMA = StructType([StructField(name, LongType() if name in NUMBERS else StringType()) for name in COLUMNS])
"""The fields of a completion, as in the REST contract."""

Offset = dict[str, str]
Row = tuple[Any, ...]


class CompletionsSource(DataSource):
    """``format("acker")``. All that is wrong with its options is told at ``load()``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._options = read_options(options)

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return NAME

    def schema(self) -> StructType:
        """Give the columns."""
        return SCHEMA

    def simpleStreamReader(self, schema: StructType) -> "CompletionsReader":  # noqa: N802 - Spark's name
        """Read the columns, which nobody may choose otherwise."""
        if schema.simpleString() != SCHEMA.simpleString():
            raise UsageError(f"the columns of completions are {SCHEMA.simpleString()}: leave .schema(…) out")
        return CompletionsReader(self._options)


class CompletionsReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a batch, once, on the driver; one that has to be read again is read on an executor.

    When there is nothing, it waits up to ``wait_ms`` for the first completion, so that an idle query asks no oftener.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._target: str | None = None
        self._released = ""

    def initialOffset(self) -> Offset:  # noqa: N802
        """Begin at the oldest completion that was not released."""
        return {"cursor": ""}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take what is there now for all there is."""
        self._target = self._pages.end()

    def read(self, start: Offset) -> tuple[Iterator[Row], Offset]:
        """Read on after ``start``, ``max_per_batch`` completions at most.

        Spark asks for what comes after ``start`` once it has dealt with all before, but commits that to a source only
        when there is more: an idle query, and one that ends, would leave its last batch unreleased.
        """
        self.commit(start)
        rows: list[Row] = []
        end, left = start["cursor"], 0 if self._target == "" else self._options.max_per_batch
        wait_ms = self._options.wait_ms if self._target is None else 0
        while left > 0:
            page = self._pages.read(end, limit=left, until=self._target, wait_ms=0 if rows else wait_ms)
            if not page.completions or page.cursor is None:
                break
            rows += map(_row, page.completions)
            end, left = page.cursor, left - len(page.completions)
        return iter(rows), {"cursor": end}

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[Row]:  # noqa: N802
        """Read a batch again; what of it was released meanwhile is gone."""
        cursor: str | None = start["cursor"]
        while cursor is not None and cursor != end["cursor"]:
            page = self._pages.read(cursor, limit=self._options.max_per_batch, until=end["cursor"])
            yield from map(_row, page.completions)
            cursor = page.cursor if page.completions else None

    def commit(self, end: Offset) -> None:
        """Release what Spark has dealt with."""
        if end["cursor"] != self._released:
            self._pages.release(end["cursor"])
            self._released = end["cursor"]

    @cached_property
    def _pages(self) -> Pages:
        """Connect in the process that reads: Spark sends readers to others."""
        return Pages(self._options)


def _row(done: "Completion") -> Row:
    said = (done.message_id, done.reason, done.component)
    return (done.id, done.root_id, done.outcome.value, *said, done.complete_latency_ms, done.at_ms)
