"""The completions of a spout task as a data source: ``spark.readStream.format("acker")`` and ``spark.read``.

An offset is ``{"cursor": …, "count": …}``: a position in the mailbox ("" is its beginning), and how many completions
the query has read up to it. A batch lies between two offsets, so that Spark, started again from its checkpoint, reads
the same rows, and notices if some of them are gone. They are released when Spark has committed the batch.
"""

import logging
from collections.abc import Iterator, MutableMapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.types import LongType, StringType, StructField, StructType

from acker_spark.errors import DataLoss, UsageError
from acker_spark.source.mailbox import Mailbox
from acker_spark.source.options import EARLIEST, SourceOptions, read_options

if TYPE_CHECKING:
    from acker_client import Completion
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # before PySpark 4.2, where availableNow takes one batch

        class SupportsTriggerAvailableNow:
            """A base without methods, for a Spark that does not have it."""


log = logging.getLogger("acker_spark")
NAME = "acker"
LOAD_AGAIN = "A frame has the completions that were there when it was first read: call load() again"
NUMBERS = ("complete_latency_ms", "at_ms")
COLUMNS = ("id", "root_id", "outcome", "message_id", "reason", "component", *NUMBERS)
SCHEMA = StructType([StructField(name, LongType() if name in NUMBERS else StringType()) for name in COLUMNS])
"""The fields of a completion, as in the REST contract."""

Offset = dict[str, Any]
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class MailboxPartition(InputPartition):
    """All completions between two cursors."""

    start: str
    end: str
    count: int


class CompletionsSource(DataSource):
    """``format("acker")``. ``load()`` raises `InvalidOptions` with all that is wrong with its options."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._options = read_options(options)

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns."""
        return SCHEMA

    def reader(self, schema: StructType) -> "CompletionsReader":
        """Return the reader of ``spark.read``. Raises `UsageError` for other columns, or with nothing to read."""
        _check_schema(schema)
        if self._options.starting_offsets is None:
            raise UsageError("startingOffsets=latest leaves spark.read nothing to read: use earliest or a cursor")
        return CompletionsReader(self._options)

    def simpleStreamReader(self, schema: StructType) -> "CompletionsStreamReader":  # noqa: N802 - Spark's name
        """Return the reader of ``spark.readStream``. Raises `UsageError` for other columns."""
        _check_schema(schema)
        return CompletionsStreamReader(self._options)


class CompletionsReader(DataSourceReader):
    """Reads the completions that are not released, as a batch, and releases none.

    Spark plans the partitions once for each ``load()``, at the first action, for the frame and all that is derived from
    it; before PySpark 4.1 for each of these frames.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Return one partition, with the completions that are there now."""
        start = self._options.starting_offsets or EARLIEST
        with closing(Mailbox(self._options, startup_timeout=self._options.startup_timeout)) as mailbox:
            end, count = mailbox.end(start)
        return [MailboxPartition(start, end, count)]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """Read a partition. Raises `DataLoss`."""
        assert isinstance(partition, MailboxPartition)
        with closing(Mailbox(self._options)) as mailbox:
            yield from _read_between(mailbox, self._options, partition, advice=f"{LOAD_AGAIN}, or set")


class CompletionsStreamReader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a batch once, on the driver; a batch that is read again is read on an executor.

    In an empty mailbox it waits up to ``pollTimeoutMs`` for the first completion: an idle query asks no more often.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._target: str | None = None
        self._released = EARLIEST

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return where a query without a checkpoint begins (``startingOffsets``)."""
        start = self._options.starting_offsets
        return _offset(self._mailbox.end()[0] if start is None else start, 0)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read no further than the completions that are there now."""
        self._target, _ = self._mailbox.end()

    def read(self, start: Offset) -> tuple[Iterator[Row], Offset]:
        """Read on after ``start``, ``maxCompletionsPerTrigger`` completions at most.

        Spark asks for the completions after ``start`` when it has processed all before, but commits them to a source
        only when there are more: an idle query, and one that ends, would leave its last batch unreleased.
        """
        self.commit(start)
        rows: list[Row] = []
        end, left = start["cursor"], 0 if self._target == EARLIEST else self._options.max_completions_per_trigger
        wait_ms = self._options.poll_timeout_ms if self._target is None else 0
        while left > 0:
            page = self._mailbox.read(end, limit=left, until=self._target, poll_timeout_ms=0 if rows else wait_ms)
            if not page.completions or page.cursor is None:
                break
            rows += map(_row, page.completions)
            end, left = page.cursor, left - len(page.completions)
        return iter(rows), _offset(end, start["count"] + len(rows))

    def readBetweenOffsets(self, start: Offset, end: Offset) -> Iterator[Row]:  # noqa: N802
        """Read a batch again. Raises `DataLoss` if completions of it were released meanwhile (``failOnDataLoss``)."""
        partition = MailboxPartition(start["cursor"], end["cursor"], end["count"] - start["count"])
        with closing(Mailbox(self._options)) as mailbox:
            yield from _read_between(mailbox, self._options, partition, advice="Set")

    def commit(self, end: Offset) -> None:
        """Release the completions that Spark has processed."""
        if end["cursor"] != self._released:
            self._mailbox.release(end["cursor"])
            self._released = end["cursor"]

    @cached_property
    def _mailbox(self) -> Mailbox:
        """Connect in the driver's process, which reads batches once: Spark pickles readers."""
        return Mailbox(self._options, startup_timeout=self._options.startup_timeout)


def _check_schema(schema: StructType) -> None:
    if schema.simpleString() != SCHEMA.simpleString():
        raise UsageError(f"the columns of completions are {SCHEMA.simpleString()}: leave .schema(…) out")


def _offset(cursor: str, count: int) -> Offset:
    return {"cursor": cursor, "count": count}


def _read_between(
    mailbox: Mailbox, options: SourceOptions, partition: MailboxPartition, *, advice: str
) -> Iterator[Row]:
    left = partition.count
    for completion in mailbox.between(partition.start, partition.end):
        yield _row(completion)
        left -= 1
    if left > 0:
        loss = (
            f"{left} of {partition.count} completions of spout task {options.spout_task!r} are gone "
            "from the mailbox: another reader has released them, or their topology was deleted"
        )
        if options.fail_on_data_loss:
            raise DataLoss(f"{loss}. {advice} failOnDataLoss to false to go on without them")
        log.warning("%s", loss)


def _row(completion: "Completion") -> Row:
    texts = (completion.message_id, completion.reason, completion.component)
    numbers = (round(completion.complete_latency * 1000), round(completion.at * 1000))
    return (completion.id, completion.root_id, completion.outcome.value, *texts, *numbers)
