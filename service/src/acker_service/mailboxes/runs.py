"""Completions of one shard as they were read: counted and divided while they are packed, written when they are needed.

A page reads twice as many completions as it gives, so those that it leaves cost nothing but their bytes.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from acker_service.redis.completion_codec import CompletionDocuments, Quote
from acker_service.redis.functions.mailboxes import ReadEntry
from acker_service.topologies.cursors import Position


class CompletionRun:
    """Completions of one shard, oldest first, in the entries that hold them."""

    __slots__ = ("_ends", "_entries")

    def __init__(self, entries: Iterable[ReadEntry]) -> None:
        self._entries = [entry for entry in entries if entry.completions]
        self._ends = list(accumulate(len(entry.completions) for entry in self._entries))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __add__(self, other: "CompletionRun") -> "CompletionRun":
        return CompletionRun([*self._entries, *other._entries])

    @property
    def first_ms(self) -> int:
        """When the oldest entry was written."""
        return self._entries[0].entry_id[0]

    @property
    def end(self) -> Position:
        """The position behind the last completion."""
        return _position(self._entries[-1], len(self._entries[-1].completions))

    def take(self, count: int) -> "CompletionRun":
        """Return the first ``count``."""
        if count >= len(self):
            return self
        last = bisect_left(self._ends, count)
        before = self._ends[last - 1] if last else 0
        return CompletionRun([*self._entries[:last], _first(self._entries[last], count - before)])

    def up_to(self, position: Position) -> "CompletionRun":
        """Return those up to a position."""
        if not self._entries or self.end <= position:
            return self
        wanted = (position.ms, position.seq)
        entries = [entry for entry in self._entries if entry.entry_id < wanted]
        split = [entry for entry in self._entries if entry.entry_id == wanted]
        return CompletionRun([*entries, *(_first(entry, position.offset - entry.skipped) for entry in split)])

    def positions(self) -> Iterator[Position]:
        """Yield the position behind each."""
        for entry in self._entries:
            for count in range(1, len(entry.completions) + 1):
                yield _position(entry, count)

    def write(self, incarnation: str, quote: Quote, limit: int) -> Iterator[Sequence[str]]:
        """Write them as JSON, about ``limit`` at a time."""
        written = CompletionDocuments()
        for entry in self._entries:
            rest = entry.completions
            while rest:
                some, rest = rest.split(limit)
                some.write(incarnation, quote, written)
                if len(written.documents) >= limit:
                    yield written.documents
                    written = CompletionDocuments()
        if written.documents:
            yield written.documents


def _position(entry: ReadEntry, count: int) -> Position:
    """Return the position behind the first ``count`` completions that were read of an entry."""
    ms, seq = entry.entry_id
    # rule: a position counts what was read of an entry before
    return Position(ms=ms, seq=seq, offset=entry.skipped + count)


def _first(entry: ReadEntry, count: int) -> ReadEntry:
    # rule: a run is cut within an entry
    return replace(entry, completions=entry.completions.split(max(0, count))[0])
