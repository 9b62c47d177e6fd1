"""Tracks how far the offsets of one partition may be committed: up to the first that is emitted and not acked."""

from bisect import insort
from collections import deque

__all__ = ["OffsetTracker"]


class OffsetTracker:
    """Follows the offsets of one partition, read from ``start`` on; not for several threads at once. ::

        tracker = OffsetTracker(consumer.position(partition))
        tracker.emit(message.offset())  # before its root is emitted
        tracker.ack(offset)  # when its root was acked
        if (position := tracker.commit_position()) is not None:
            consumer.commit(offsets=[TopicPartition(topic, partition, position)])
            tracker.commit(position)

    The rules are those of the OffsetManager of Storm's Kafka spout: an offset that was never emitted (compacted away,
    a transaction's marker) does not block; one emitted or acked twice, or below the committed position, changes
    nothing. An ack of an offset that was not emitted changes nothing either. It keeps the offsets that are not
    committed; where they come in order, each costs the same few steps.
    """

    __slots__ = ("_acked", "_done", "_position", "_rest")

    def __init__(self, start: int) -> None:
        self._position = start
        self._acked: dict[int, bool] = {}
        self._done: deque[int] = deque()
        """Ascending: acked, with nothing below them that is not."""
        self._rest: deque[int] = deque()
        """Ascending: those above."""

    @property
    def uncommitted(self) -> int:
        """How many offsets were emitted and are not below the committed position."""
        return len(self._acked)

    def emit(self, offset: int) -> None:
        """Follow an offset that is being emitted."""
        if offset < self._position or offset in self._acked:
            return
        self._acked[offset] = False
        self._reopen(offset)
        if not self._rest or offset > self._rest[-1]:
            self._rest.append(offset)
        else:
            insort(self._rest, offset)

    def ack(self, offset: int) -> None:
        """Note that the tree of an offset is processed."""
        if offset in self._acked:
            self._acked[offset] = True

    def commit_position(self) -> int | None:
        """Return the offset to read next after a restart, behind the last one to commit; None if nothing is new."""
        while self._rest and self._acked[self._rest[0]]:
            self._done.append(self._rest.popleft())
        return self._done[-1] + 1 if self._done else None

    def commit(self, position: int) -> None:
        """Forget the offsets below a position that was committed, acked or not; one that goes back changes nothing."""
        self._position = max(self._position, position)
        for offsets in (self._done, self._rest):
            while offsets and offsets[0] < position:
                del self._acked[offsets.popleft()]

    def _reopen(self, offset: int) -> None:
        """Take back what was done above an offset that comes late: it is below them and not acked."""
        while self._done and self._done[-1] > offset:
            self._rest.appendleft(self._done.pop())
