"""Reads, replays and discards dead letters: completions for which every delivery attempt failed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from acker_protocol.operations import CompletionRecord

from acker_service.mailboxes.cursor import Cursor, Position
from acker_service.mailboxes.paging import ItemRun, PageBuilder, ShardItems, Share
from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis import mailbox_functions
from acker_service.redis.calls import ShardCall
from acker_service.redis.completion_codec import decode_completions
from acker_service.redis.mailbox_functions import DeadEntry, Entries, StepResult
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout
from acker_service.topologies.topology import Topology

STEP = 64
"""Entries that one call replays or discards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A completion, how often its delivery was tried, the last error, and when delivery was given up."""

    completion: CompletionRecord
    attempts: int
    error: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterPage:
    """Dead letters as they were read, and the cursor behind the last."""

    letters: Sequence[DeadLetter]
    cursor: Cursor


class DeadLetters:
    """Reads dead letters, moves them back into the mailbox, or discards them."""

    def __init__(self, shards: Shards, metrics: OperationMetrics) -> None:
        self._shards, self._metrics = shards, metrics

    async def read(self, topology: Topology, spout: Spout, cursor: Cursor, limit: int) -> DeadLetterPage:
        """Read dead letters after a cursor, oldest first within a shard, ``limit`` at most."""
        page: PageBuilder[ItemRun[DeadLetter]] = PageBuilder(cursor, range(len(topology.shards)), limit)
        while shares := page.shares():
            calls = [(shard, _call(spout, share)) for shard, share in shares.items()]
            topology, replies = await self._shards.call_at(topology, calls)
            for shard, reply in zip(shares, replies, strict=True):
                items = ItemRun(list(_letters(reply.entries, spout.name)))
                size = sum(entry.completions.size for entry in reply.entries)
                page.add(shard, ShardItems(items=items, size=size, more=reply.more))
        taken = page.take()
        return DeadLetterPage(
            letters=[letter for letters in taken.values() for _, letter in letters.items],
            cursor=cursor.behind({shard: letters.end for shard, letters in taken.items()}),
        )

    async def replay(self, topology: Topology, spout: Spout) -> int:
        """Move all dead letters back into the mailbox, as if they had never been tried; gives how many."""
        return await self._drain(topology, spout, mailbox_functions.replay_dead)

    async def discard(self, topology: Topology, spout: Spout) -> int:
        """Discard all dead letters; gives how many."""
        discarded = await self._drain(topology, spout, mailbox_functions.discard_dead)
        self._metrics.completions_discarded[topology.name, "dead_letters"].inc(discarded)
        return discarded

    async def _drain(self, topology: Topology, spout: Spout, function: Callable[..., ShardCall[StepResult]]) -> int:
        """Call a function on every shard until no dead letter is left; gives how many there were."""
        total = 0
        call = function(spout_index=spout.index, max_entries=STEP)
        for shard in range(len(topology.shards)):
            more = True
            while more:
                topology, step = await self._shards.call(topology, shard, call)
                total, more = total + step.count, step.more
        return total


def _call(spout: Spout, share: Share) -> ShardCall[Entries[DeadEntry]]:
    return mailbox_functions.read_dead(
        spout_index=spout.index,
        entry=share.entry,
        offset=share.offset,
        max_completions=share.max_completions,
        max_bytes=share.max_bytes,
    )


def _letters(entries: Sequence[DeadEntry], spout_task: str) -> Iterator[tuple[Position, DeadLetter]]:
    for entry in entries:
        ms, seq = entry.entry_id
        for offset, completion in enumerate(
            decode_completions(entry.completions.data, spout_task), start=entry.skipped + 1
        ):
            letter = DeadLetter(completion=completion, attempts=entry.attempts, error=entry.error, at_ms=entry.at_ms)
            yield Position(ms=ms, seq=seq, offset=offset), letter
