"""Reads, releases and discards the completions of a spout task, up to cursors that callers hold."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from acker_service.mailboxes.paging import PageBuilder, ShardItems, Share
from acker_service.mailboxes.runs import CompletionRun
from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis import functions
from acker_service.redis.calls import ShardCall
from acker_service.redis.completion_codec import UNICODE, Quote
from acker_service.redis.functions.mailboxes import Entries, ReadEntry
from acker_service.topologies.cursors import Cursor
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout
from acker_service.topologies.topology import Topology

RELEASE_STEP = 256
"""Entries that one call releases."""

SLICE = 250
"""Completions that are written between two turns of the event loop: about a millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """One read: the completions of a spout task after a cursor, ``limit`` at most.

    With ``until``, only those up to that cursor: a caller that keeps both reads the same completions again.
    """

    spout: Spout
    cursor: Cursor
    limit: int
    until: Cursor | None = None
    peek: bool = False
    """Whether the read is not noted as one, so that the spout task counts as unread all the same."""

    def shards(self, count: int) -> Iterable[int]:
        """The shards that may have completions of the read, of so many."""
        return (shard for shard in range(count) if self.until is None or shard in self.until.positions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """Completions as they were read, by shard, still packed, and the cursor behind the last.

    Without ``more`` the mailbox had no others.
    """

    runs: Mapping[int, CompletionRun]
    start: Cursor
    more: bool = False

    @property
    def count(self) -> int:
        """The number of completions."""
        return sum(map(len, self.runs.values()))

    @property
    def cursor(self) -> Cursor:
        """The cursor behind the last completion."""
        return self.start.behind({shard: run.end for shard, run in self.runs.items()})

    def cursors(self) -> Iterator[Cursor]:
        """Yield the cursor behind each completion."""
        cursor = self.start
        for shard, run in self.runs.items():
            for position in run.positions():
                cursor = cursor.behind({shard: position})
                yield cursor

    def documents(self, quote: Quote = UNICODE) -> Iterator[Sequence[str]]:
        """Write the completions as JSON, in slices of about `SLICE` at most."""
        for run in self.runs.values():
            yield from run.write(self.start.incarnation, quote, SLICE)


class _Reading:
    """A read under way."""

    def __init__(self, request: ReadRequest, shards: int) -> None:
        self._request = request
        self._page: PageBuilder[CompletionRun] = PageBuilder(request.cursor, request.shards(shards), request.limit)

    def calls(self) -> list[tuple[int, ShardCall[Entries[ReadEntry]]]]:
        """Return the calls that the read needs next, by shard; none once it is over."""
        return [(shard, self._call(share)) for shard, share in self._page.shares().items()]

    def add(self, shard: int, reply: Entries[ReadEntry]) -> None:
        """Add a shard's reply. Behind ``until`` a shard has nothing more."""
        found, until = CompletionRun(reply.entries), self._request.until
        items = found if until is None else found.up_to(until.positions[shard])
        size = sum(entry.completions.size for entry in reply.entries)
        # rule: a shard has no more behind the last cursor of a page
        more = reply.more and len(items) == len(found)
        self._page.add(shard, ShardItems(items=items, size=size, more=more))

    def result(self) -> ReadResult:
        """Return what was read."""
        return ReadResult(runs=self._page.take(), start=self._request.cursor, more=self._page.more)

    def _call(self, share: Share) -> ShardCall[Entries[ReadEntry]]:
        return functions.mailboxes.read(
            spout_index=self._request.spout.index,
            entry=share.entry,
            offset=share.offset,
            max_completions=share.max_completions,
            max_bytes=share.max_bytes,
            peek=self._request.peek,
        )


class MailboxReader:
    """Reads and releases completions."""

    def __init__(self, shards: Shards, metrics: OperationMetrics) -> None:
        self._shards = shards
        self._metrics = metrics

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
        """Release all completions up to a cursor, and return how many. Idempotent."""
        released = 0
        for shard, position in cursor.positions.items():
            call = functions.mailboxes.release(
                spout_index=spout.index, entry=position.entry, offset=position.offset, max_entries=RELEASE_STEP
            )
            more = shard < len(topology.shards)
            while more:
                topology, step = await self._shards.call(topology, shard, call)
                self._metrics.completions_released[topology.name].inc(step.count)
                released, more = released + step.count, step.more
        return released

    async def discard(self, topology: Topology, spout: Spout) -> int:
        """Discard all unread completions of a spout task, and return how many."""
        _, counts = await self._shards.call_all(topology, functions.mailboxes.discard(spout_index=spout.index))
        discarded = sum(counts)
        self._metrics.completions_discarded[topology.name, "discard"].inc(discarded)
        return discarded
