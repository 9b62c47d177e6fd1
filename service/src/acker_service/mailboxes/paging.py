"""Gathers a page from all shards of a list: asks each for a share, and again those that have more, until it is full.

A page reads about as much as it gives: `PAGE_BYTES` in all, however many the shards.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from acker_service.topologies.cursors import Cursor, Position

PAGE_BYTES = 4_194_304
"""A page ends with the completions that reach so many bytes, as they are packed in the store."""

OVERFETCH = 16
"""A shard is asked for twice its share of a page and so many more: completions are seldom spread evenly."""


class Run(Protocol):
    """Completions of one shard, oldest first, each with the position behind it."""

    def __len__(self) -> int: ...

    def __add__(self, other: Self, /) -> Self: ...

    @property
    def first_ms(self) -> int:
        """When the oldest entry was written."""

    @property
    def end(self) -> Position:
        """The position behind the last."""

    def take(self, count: int) -> Self:
        """Return the first ``count``."""


R = TypeVar("R", bound=Run)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ItemRun(Generic[T]):
    """A run of completions that are already decoded."""

    items: Sequence[tuple[Position, T]]

    def __len__(self) -> int:
        return len(self.items)

    def __add__(self, other: "ItemRun[T]", /) -> "ItemRun[T]":
        return ItemRun([*self.items, *other.items])

    @property
    def first_ms(self) -> int:
        """When the oldest entry was written."""
        return self.items[0][0].ms

    @property
    def end(self) -> Position:
        """The position behind the last."""
        return self.items[-1][0]

    def take(self, count: int) -> "ItemRun[T]":
        """Return the first ``count``."""
        return ItemRun(self.items[:count])


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one shard is asked for: completions behind a position (None: from the beginning)."""

    position: Position | None
    max_completions: int
    max_bytes: int

    @property
    def entry(self) -> str:
        """The id of the entry that the position is in, "" at the beginning."""
        return self.position.entry if self.position else ""

    @property
    def offset(self) -> int:
        """How many completions of that entry are read."""
        return self.position.offset if self.position else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardItems(Generic[R]):
    """What one shard gave: completions, their size in bytes, and whether it has more.

    A shard that looks for some completions passed all others up to ``passed``; None: it stopped at its last item.
    """

    items: R
    size: int
    more: bool
    passed: Position | None = None


class PageBuilder(Generic[R]):
    """Builds one page from some shards of a list, behind a cursor, ``limit`` completions at most.

    While ``shares`` names shards, they are to be read and given to ``add``; each such round fills the page or finds the
    end of a shard. A page that is neither full nor of `PAGE_BYTES` is the last.
    """

    def __init__(self, cursor: Cursor, shards: Iterable[int], limit: int) -> None:
        self._cursor = cursor
        self._limit = limit
        self._free_bytes = PAGE_BYTES
        self._found: dict[int, R] = {}
        self._passed: dict[int, Position] = {}
        self._unfinished = set(shards)

    def shares(self) -> dict[int, Share]:
        """Return what to ask of which shard next; nothing once the page is full or no shard has more."""
        missing = self._limit - self._count()
        if missing <= 0 or self._free_bytes <= 0 or not self._unfinished:
            return {}
        shards = len(self._unfinished)
        # rule: a shard is asked for its share
        max_completions = min(missing, -(-missing // shards) * 2 + OVERFETCH)
        # rule: a shard is asked for its share of the bytes
        max_bytes = -(-self._free_bytes // shards)
        return {
            shard: Share(position=self._position(shard), max_completions=max_completions, max_bytes=max_bytes)
            for shard in sorted(self._unfinished)
        }

    def add(self, shard: int, given: ShardItems[R]) -> None:
        """Add what a shard gave for its share."""
        if given.items:
            self._found[shard] = self._found[shard] + given.items if shard in self._found else given.items
        self._free_bytes -= given.size
        passed = given.passed or (given.items.end if given.items else None)
        if passed is not None:
            self._passed[shard] = passed
        # rule: a shard that has more is asked again
        if passed is None or not given.more:
            self._unfinished.remove(shard)

    def take(self) -> dict[int, R]:
        """Take the page's completions fairly from the shards. Return no shard without any."""
        shards = sorted(self._found)
        taken = take_fairly([self._found[shard] for shard in shards], self._limit)
        return {shard: taken[i] for i, shard in enumerate(shards) if i in taken}

    def behind(self, taken: Mapping[int, R]) -> dict[int, Position]:
        """Return the positions behind what was taken; of a shard of which all was, behind what it passed over, too."""
        ends = {shard: run.end for shard, run in taken.items()}
        for shard, passed in self._passed.items():
            found = self._found.get(shard)
            # rule: a page goes on behind what it passed over
            if found is None or (shard in taken and len(taken[shard]) == len(found)):
                ends[shard] = passed
        return ends

    @property
    def more(self) -> bool:
        """Whether there may be others behind the page."""
        return bool(self._unfinished) or self._count() >= self._limit

    def _count(self) -> int:
        return sum(map(len, self._found.values()))

    def _position(self, shard: int) -> Position | None:
        return self._passed.get(shard) or self._cursor.positions.get(shard)


def take_fairly(found: Sequence[R], limit: int) -> dict[int, R]:
    """Take up to a limit from the shards in equal shares; the remainder goes to the shards with the oldest entries.

    So a reader that takes less than one per shard reaches every shard in time. Return no empty shares.
    """
    by_age = sorted((shard for shard, items in enumerate(found) if items), key=lambda shard: found[shard].first_ms)
    parts = zip(by_age, fair_shares([len(found[shard]) for shard in by_age], limit), strict=True)
    return {shard: found[shard].take(share) for shard, share in parts if share}


def fair_shares(found: Sequence[int], limit: int) -> list[int]:
    """Divide a limit among shards with these numbers of completions.

    Shares are equal; the remainder goes to the first shards.
    """
    shares = [0] * len(found)
    while limit and (unsatisfied := [i for i, count in enumerate(found) if count > shares[i]]):
        each = max(1, limit // len(unsatisfied))
        for i in unsatisfied:
            step = min(each, found[i] - shares[i], limit)
            shares[i], limit = shares[i] + step, limit - step
    return shares
