"""The partitions that a consumer holds now, their records, and how far each may be committed."""

import heapq
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from acker_client.sources.offsets import OffsetTracker

if TYPE_CHECKING:
    from confluent_kafka import Message, TopicPartition

_log = logging.getLogger("acker_client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as one assignment read it; ``attempt`` counts its emits, from 1."""

    topic: str
    partition: int
    offset: int
    message: "Message" = field(repr=False)
    assignment: "Assignment" = field(repr=False)
    attempt: int = 1

    @property
    def key(self) -> bytes | None:
        """Its key."""
        return self.message.key()

    @property
    def value(self) -> bytes | None:
        """Its value; None for a tombstone."""
        return self.message.value()

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Its headers, an empty list without any."""
        return cast("list[tuple[str, bytes | None]]", self.message.headers() or [])

    @property
    def message_id(self) -> str:
        """The message id of its roots: topic, partition and offset."""
        return f"{self.topic}/{self.partition}/{self.offset}"


class Assignment:
    """One partition from its assignment until it is revoked or lost; then ``is_over``: its completions are ignored.

    ``is_full`` is True from ``max_uncommitted`` records that are read and not committed, until half of them are
    committed: a pause makes librdkafka drop what it has fetched, so pauses should be few. ``paused`` is None until it
    is known: librdkafka keeps a partition paused over a rebalance.
    """

    __slots__ = (
        "_max_uncommitted",
        "_retries",
        "_tracker",
        "is_full",
        "is_over",
        "last_offset",
        "partition",
        "paused",
        "topic",
    )

    def __init__(self, topic: str, partition: int, *, max_uncommitted: int) -> None:
        self.topic = topic
        self.partition = partition
        self._max_uncommitted = max_uncommitted
        self.is_full = self.is_over = False
        self.paused: bool | None = None
        self.last_offset = -1
        self._tracker: OffsetTracker | None = None
        self._retries: list[tuple[float, int, Record]] = []

    def __str__(self) -> str:
        return f"{self.topic} [{self.partition}]"

    def read(self, message: "Message") -> Record:
        """Track a record that was read. Reading begins at the first: what is below it was processed before."""
        offset = cast("int", message.offset())
        if self._tracker is None:
            self._tracker = OffsetTracker(offset)
        self._tracker.emit(offset)
        self.last_offset = offset
        self.is_full = self.is_full or self._tracker.uncommitted >= self._max_uncommitted
        return Record(topic=self.topic, partition=self.partition, offset=offset, message=message, assignment=self)

    def ack(self, record: Record) -> None:
        """Note that a record is processed, or skipped."""
        assert self._tracker is not None
        self._tracker.ack(record.offset)

    def retry(self, record: Record, *, at_s: float) -> None:
        """Keep a record in memory, to emit it again."""
        heapq.heappush(self._retries, (at_s, record.offset, record))

    def pop_due(self, now_s: float) -> Iterator[Record]:
        """Take the records to emit again now."""
        while self._retries and self._retries[0][0] <= now_s:
            yield heapq.heappop(self._retries)[2]

    @property
    def commit_position(self) -> int | None:
        """The offset to commit, None if there is nothing new."""
        return None if self._tracker is None else self._tracker.commit_position()

    def commit(self, position: int) -> None:
        """Note that a position was committed."""
        assert self._tracker is not None
        self._tracker.commit(position)
        self.is_full = self.is_full and self._tracker.uncommitted > self._max_uncommitted // 2


class Assignments:
    """The assignments of one consumer that are not over; for its thread only."""

    def __init__(self, *, max_uncommitted: int) -> None:
        self._max_uncommitted = max_uncommitted
        self._held: dict[tuple[str | None, int | None], Assignment] = {}

    def __iter__(self) -> Iterator[Assignment]:
        return iter(self._held.values())

    def start(self, partitions: "Iterable[TopicPartition]") -> None:
        """Begin an assignment of each partition."""
        for each in partitions:
            self.end([each])
            self._held[each.topic, each.partition] = Assignment(
                each.topic, each.partition, max_uncommitted=self._max_uncommitted
            )

    def find(self, partitions: "Sequence[TopicPartition]") -> list[Assignment]:
        """Find the assignments of partitions."""
        found = (self._held.get((each.topic, each.partition)) for each in partitions)
        return [assignment for assignment in found if assignment is not None]

    def end(self, partitions: "Iterable[TopicPartition]") -> None:
        """End the assignments of partitions that are revoked or lost."""
        for each in partitions:
            assignment = self._held.pop((each.topic, each.partition), None)
            if assignment is not None:
                assignment.is_over = True

    def read(self, message: "Message") -> Record | None:
        """Track a record that was read; None for one of a partition that is not held.

        Offsets that go back say that the log was truncated, or the topic deleted and created again. Then the offsets of
        its assignment mean other records, and a new one begins.
        """
        key = (message.topic(), message.partition())
        if (assignment := self._held.get(key)) is None:
            return None
        if cast("int", message.offset()) <= assignment.last_offset:
            _log.warning("%s goes back from offset %s to %s", assignment, assignment.last_offset, message.offset())
            assignment.is_over = True
            assignment = Assignment(assignment.topic, assignment.partition, max_uncommitted=self._max_uncommitted)
            self._held[key] = assignment
        return assignment.read(message)

    def pop_due(self, now_s: float) -> list[Record]:
        """Take the records to emit again now."""
        return [record for assignment in self for record in assignment.pop_due(now_s)]


def next_attempt(record: Record) -> Record:
    """Return the record as it is emitted the next time."""
    return replace(record, attempt=record.attempt + 1)
