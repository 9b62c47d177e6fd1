"""Reads, releases and discards the completions of a spout task, up to cursors that callers hold."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile

from acker_protocol.operations import CompletionRecord

from acker_service.mailboxes.cursor import Cursor, Position
from acker_service.mailboxes.paging import Item, PageBuilder, ShardItems, Share
from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis import mailbox_functions
from acker_service.redis.calls import ShardCall
from acker_service.redis.codec import decode_completions
from acker_service.redis.mailbox_functions import Entries, ReadEntry
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout
from acker_service.topologies.topology import Topology

RELEASE_STEP = 256
"""Entries that one call releases."""

Entry = Item[CompletionRecord]
"""A completion, and the position behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """One read: the completions of a spout task after a cursor, ``limit`` at most.

    With ``until``, only those up to that cursor: a caller that keeps both reads the same completions again.
    """

    spout: Spout
    cursor: Cursor
    limit: int
    until: Cursor | None = None

    def reaches(self, shard: int, position: Position) -> bool:
        """Whether a completion that ends at this position belongs to the read."""
        if self.until is None:
            return True
        last = self.until.positions.get(shard)
        return last is not None and position <= last

    def shards(self, count: int) -> Iterable[int]:
        """The shards that may have completions of the read, of so many."""
        return (shard for shard in range(count) if self.until is None or shard in self.until.positions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """Completions as they were read, the shard and the position behind each, and the cursor behind the last.

    Without ``more`` the mailbox had no others.
    """

    completions: Sequence[CompletionRecord]
    positions: Sequence[tuple[int, Position]]
    start: Cursor
    more: bool = False

    @property
    def cursor(self) -> Cursor:
        """The cursor behind the last completion."""
        return self.start.behind(dict(self.positions))

    def cursors(self) -> Iterator[Cursor]:
        """Give the cursor behind each completion."""
        cursor = self.start
        for shard, position in self.positions:
            cursor = cursor.behind({shard: position})
            yield cursor


class _Reading:
    """A read under way."""

    def __init__(self, request: ReadRequest, shards: int) -> None:
        self._request = request
        self._page: PageBuilder[CompletionRecord] = PageBuilder(request.cursor, request.shards(shards), request.limit)

    def calls(self) -> list[tuple[int, ShardCall[Entries[ReadEntry]]]]:
        """Give the calls that the read needs next, by shard; none once it is over."""
        return [(shard, self._call(share)) for shard, share in self._page.shares().items()]

    def add(self, shard: int, reply: Entries[ReadEntry]) -> None:
        """Add a shard's reply. Behind ``until`` a shard has nothing more."""
        found = list(read_entries(reply.entries, self._request.spout.name))
        items = list(takewhile(lambda entry: self._request.reaches(shard, entry[0]), found))
        size = sum(len(entry.packed) for entry in reply.entries)
        more = reply.more and len(items) == len(found)
        self._page.add(shard, ShardItems(items=items, size=size, more=more))

    def result(self) -> ReadResult:
        """Give what was read."""
        taken = [(shard, *entry) for shard, entries in self._page.take().items() for entry in entries]
        return ReadResult(
            completions=[completion for _, _, completion in taken],
            positions=[(shard, position) for shard, position, _ in taken],
            start=self._request.cursor,
            more=self._page.more,
        )

    def _call(self, share: Share) -> ShardCall[Entries[ReadEntry]]:
        return mailbox_functions.read(
            spout_index=self._request.spout.index,
            entry=share.entry,
            offset=share.offset,
            max_completions=share.max_completions,
            max_bytes=share.max_bytes,
        )


class MailboxReader:
    """Reads and releases completions."""

    def __init__(self, shards: Shards, metrics: OperationMetrics) -> None:
        self._shards, self._metrics = shards, metrics

    async def read(self, topology: Topology, spout: Spout, cursor: Cursor, limit: int) -> ReadResult:
        """Read the completions after a cursor, oldest first within a shard, ``limit`` at most."""
        [result] = await self.read_each(topology, [ReadRequest(spout=spout, cursor=cursor, limit=limit)])
        return result

    async def read_each(self, topology: Topology, requests: Sequence[ReadRequest]) -> list[ReadResult]:
        """Read several mailboxes together: one round trip, and more while a page is short and a shard has more."""
        readings = [_Reading(request, len(topology.shards)) for request in requests]
        while asked := [(reading, *call) for reading in readings for call in reading.calls()]:
            topology, replies = await self._shards.call_at(topology, [(shard, call) for _, shard, call in asked])
            for (reading, shard, _), reply in zip(asked, replies, strict=True):
                reading.add(shard, reply)
        return [reading.result() for reading in readings]

    async def release(self, topology: Topology, spout: Spout, cursor: Cursor) -> int:
        """Release all completions up to a cursor; gives how many. Idempotent."""
        released = 0
        for shard, position in cursor.positions.items():
            call = mailbox_functions.release(
                spout_index=spout.index, entry=position.entry, offset=position.offset, max_entries=RELEASE_STEP
            )
            more = shard < len(topology.shards)
            while more:
                topology, step = await self._shards.call(topology, shard, call)
                self._metrics.completions_released[topology.name].inc(step.count)
                released, more = released + step.count, step.more
        return released

    async def discard(self, topology: Topology, spout: Spout) -> int:
        """Discard all unread completions of a spout task; gives how many."""
        _, counts = await self._shards.call_all(topology, mailbox_functions.discard(spout_index=spout.index))
        discarded = sum(counts)
        self._metrics.completions_discarded[topology.name, "discard"].inc(discarded)
        return discarded


def read_entries(entries: Iterable[ReadEntry], spout_task: str) -> Iterator[Entry]:
    """Decode the completions of entries."""
    return chain.from_iterable(completions_of(entry, spout_task) for entry in entries)


def completions_of(entry: ReadEntry, spout_task: str) -> Iterator[Entry]:
    """Decode the completions that were read of one entry."""
    ms, seq = entry.entry_id
    for offset, completion in enumerate(decode_completions(entry.packed, spout_task), start=entry.skipped + 1):
        yield Position(ms=ms, seq=seq, offset=offset), completion
