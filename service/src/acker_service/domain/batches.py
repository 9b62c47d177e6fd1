"""Knows what is delivered together, and what becomes of it after a try."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, takewhile
from typing import Any

from acker_service.domain.schedule import Schedule
from acker_service.domain.verdicts import Fate, Verdict

Stamp = tuple[int, int]
"""Milliseconds and sequence number of an entry: its name, and how old it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A completion, as its spout task is told it and as it is packed."""

    told: Mapping[str, Any]
    packed: bytes

    @property
    def id(self) -> str:
        """Names the completion."""
        return str(self.told["id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of a mailbox that is to be delivered; ``tried`` is how often that was tried.

    Its first ``skipped`` completions were released already.
    """

    shard: int
    stamp: Stamp
    tried: int
    pieces: Sequence[Piece]
    skipped: int = 0

    @property
    def name(self) -> str:
        """The entry, as Redis writes it."""
        return f"{self.stamp[0]}-{self.stamp[1]}"


class Word(StrEnum):
    """What becomes of an entry."""

    DONE = "done"
    RETRY = "retry"
    DEAD = "dead"
    SENT = "sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What becomes of an entry: tried again at ``at_ms``; ``left`` is what is left of it (empty: all, for a retry)."""

    entry: Entry
    word: Word
    at_ms: int = 0
    left: Sequence[Piece] = ()


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Put entries of all shards into one order, oldest first: the same ones are always delivered in the same."""
    return sorted(entries, key=lambda entry: (entry.stamp, entry.shard))


def choose(fresh: Iterable[Entry], most: int) -> list[Entry]:
    """Take the oldest entries of all shards, with ``most`` completions together; the first whatever it holds."""
    ordered = in_order(fresh)
    totals = accumulate(len(entry.pieces) for entry in ordered)
    fitting = sum(1 for _ in takewhile(lambda total: total <= most, totals))
    return ordered[: max(1, fitting)]


def settle(
    entries: Sequence[Entry], verdict: Verdict, schedule: Schedule, *, now_ms: int, draw: float
) -> Iterator[Settlement]:
    """Say what becomes of each entry of a batch. What has to be tried again is tried again together."""
    again = frozenset(verdict.again)
    tried = max(entry.tried for entry in entries) + 1
    delay_s = schedule.delay_s(tried, draw=draw, at_least_s=verdict.wait_s)
    for entry in entries:
        left = [piece for piece in entry.pieces if piece.id in again]
        if not left:
            yield Settlement(entry=entry, word=Word.DONE)
        elif delay_s is None:
            yield Settlement(entry=entry, word=Word.DEAD, left=left)
        else:
            rest = left if len(left) < len(entry.pieces) else ()
            yield Settlement(entry=entry, word=Word.RETRY, at_ms=now_ms + round(delay_s * 1_000), left=rest)


def succeeded(verdict: Verdict, total: int) -> bool:
    """Whether the receiver took anything."""
    return verdict.fate in (Fate.DONE, Fate.PART) and len(verdict.again) < total
