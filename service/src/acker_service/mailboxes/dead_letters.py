"""Reads, replays and discards dead letters: completions for which every delivery attempt failed."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from acker_protocol.operations import CompletionRecord

from acker_service.mailboxes.paging import ItemRun, PageBuilder, ShardItems, Share
from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis import functions
from acker_service.redis.calls import ShardCall
from acker_service.redis.completion_codec import decode_completions
from acker_service.redis.functions.mailboxes import DeadEntries, DeadEntry, DeadLetterFilter, DeadStep
from acker_service.topologies.cursors import Cursor, Position
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout
from acker_service.topologies.topology import Topology

STEP = 64
"""Entries that one call looks at to replay or discard them."""

PAGE_S = 1.0
"""Seconds after which a page looks at no more dead letters."""

ALL = DeadLetterFilter()
_WHOLE_ENTRY = 2**31
"""More completions than any entry holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A completion, how often its delivery was tried, the last error, and when delivery was given up."""

    completion: CompletionRecord
    attempts: int
    error: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPage:
    """Dead letters as they were read, the cursor behind what was looked at, and whether there may be more there."""

    letters: Sequence[DeadLetter]
    cursor: Cursor
    more: bool


class DeadLetters:
    """Reads dead letters, moves them back into the mailbox, or discards them. ``clock`` gives seconds."""

    def __init__(
        self, shards: Shards, metrics: OperationMetrics, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shards = shards
        self._metrics = metrics
        self._clock = clock

    async def read(
        self, topology: Topology, spout: Spout, cursor: Cursor, limit: int, wanted: DeadLetterFilter = ALL
    ) -> DeadLetterPage:
        """Read dead letters that match after a cursor, oldest first within a shard, ``limit`` at most.

        A page may be short, or empty, without being the last: there is no index.
        """
        until_s = self._clock() + PAGE_S
        page: PageBuilder[ItemRun[DeadLetter]] = PageBuilder(cursor, range(len(topology.shards)), limit)
        while shares := page.shares():
            calls = [(shard, _call(spout, share, wanted)) for shard, share in shares.items()]
            topology, replies = await self._shards.call_at(topology, calls)
            for shard, reply in zip(shares, replies, strict=True):
                items = ItemRun(list(_letters(reply.entries, spout.name)))
                size = sum(entry.completions.size for entry in reply.entries)
                page.add(shard, ShardItems(items=items, size=size, more=reply.more, passed=_passed(reply)))
            if self._clock() >= until_s:
                break
        taken = page.take()
        return DeadLetterPage(
            letters=[letter for letters in taken.values() for _, letter in letters.items],
            cursor=cursor.behind(page.behind(taken)),
            more=page.more,
        )

    async def replay(self, topology: Topology, spout: Spout, wanted: DeadLetterFilter = ALL) -> int:
        """Move dead letters that match back into the mailbox, as if they had never been tried, and return how many."""
        return await self._drain(topology, spout, wanted, functions.mailboxes.replay_dead)

    async def discard(self, topology: Topology, spout: Spout, wanted: DeadLetterFilter = ALL) -> int:
        """Discard dead letters that match, and return how many."""
        discarded = await self._drain(topology, spout, wanted, functions.mailboxes.discard_dead)
        self._metrics.completions_discarded[topology.name, "dead_letters"].inc(discarded)
        return discarded

    async def _drain(
        self,
        topology: Topology,
        spout: Spout,
        wanted: DeadLetterFilter,
        function: Callable[..., ShardCall[DeadStep]],
    ) -> int:
        """Call a function on every shard until it has seen all dead letters, and return how many matched."""
        total = 0
        for shard in range(len(topology.shards)):
            after, more = "", True
            while more:
                call = function(spout_index=spout.index, max_entries=STEP, after=after, wanted=wanted)
                topology, step = await self._shards.call(topology, shard, call)
                total, after, more = total + step.count, step.last, step.more
        return total


def _passed(reply: DeadEntries) -> Position | None:
    """Return the position behind the last entry that was looked at, which need not match."""
    if reply.passed is None:
        return None
    ms, seq = reply.passed
    return Position(ms=ms, seq=seq, offset=_WHOLE_ENTRY)


def _call(spout: Spout, share: Share, wanted: DeadLetterFilter) -> ShardCall[DeadEntries]:
    return functions.mailboxes.read_dead(
        spout_index=spout.index,
        entry=share.entry,
        offset=share.offset,
        max_completions=share.max_completions,
        max_bytes=share.max_bytes,
        wanted=wanted,
    )


def _letters(entries: Sequence[DeadEntry], spout_task: str) -> Iterator[tuple[Position, DeadLetter]]:
    for entry in entries:
        ms, seq = entry.entry_id
        for offset, completion in enumerate(
            decode_completions(entry.completions.data, spout_task), start=entry.skipped + 1
        ):
            letter = DeadLetter(completion=completion, attempts=entry.attempts, error=entry.error, at_ms=entry.at_ms)
            yield Position(ms=ms, seq=seq, offset=offset), letter
