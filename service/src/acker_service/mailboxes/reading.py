"""Reads, releases and discards the completions of a spout task, up to cursors that callers hold."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile
from typing import TypeVar

from acker_protocol.operations import CompletionRecord

from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis import mailbox_functions
from acker_service.redis.calls import ShardCall
from acker_service.redis.codec import decode_completions
from acker_service.redis.mailbox_functions import StoredEntry
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout
from acker_service.topologies.topology import CursorCodec, Topology

T = TypeVar("T")

_CURSORS = CursorCodec(1, struct.Struct(">BQQI"))

RELEASE_STEP = 256
"""Entries that one call releases."""

FULL_REPLY_BYTES = 1_048_576
"""A shard gives up to four times as many; if all shards together give fewer, they have no more."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Position:
    """A position in one shard's mailbox: ``offset`` completions of an entry, and all entries before it, are read."""

    ms: int
    seq: int
    offset: int

    @property
    def entry(self) -> str:
        """The id of the entry, as Redis writes it."""
        return f"{self.ms}-{self.seq}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A position in a whole mailbox: one position per shard; a shard without one is at its beginning."""

    incarnation: str
    positions: dict[int, Position] = field(default_factory=dict)

    def encode(self) -> str:
        """Write the cursor as the opaque text that callers hold."""
        rows = [(shard, at.ms, at.seq, at.offset) for shard, at in sorted(self.positions.items())]
        return _CURSORS.encode(self.incarnation, rows)


def decode_cursor(text: str | None, topology: Topology) -> Cursor:
    """Read a cursor; None, or a cursor of another incarnation or format, is the beginning. Raises `InvalidRequest`."""
    rows = _CURSORS.decode(text, topology.incarnation) if text is not None else None
    positions = {shard: Position(ms=ms, seq=seq, offset=offset) for shard, ms, seq, offset in rows or ()}
    return Cursor(incarnation=topology.incarnation, positions=positions)


Entry = tuple[Position, CompletionRecord]
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
        return Cursor(incarnation=self.start.incarnation, positions=self.start.positions | dict(self.positions))

    def cursors(self) -> Iterator[Cursor]:
        """Give the cursor behind each completion."""
        positions = self.start.positions
        for shard, position in self.positions:
            positions = positions | {shard: position}
            yield Cursor(incarnation=self.start.incarnation, positions=positions)


class MailboxReader:
    """Reads and releases completions."""

    def __init__(self, shards: Shards, metrics: OperationMetrics) -> None:
        self._shards, self._metrics = shards, metrics

    async def read(self, topology: Topology, spout: Spout, cursor: Cursor, limit: int) -> ReadResult:
        """Read the completions after a cursor, oldest first within a shard, ``limit`` at most."""
        [result] = await self.read_each(topology, [ReadRequest(spout=spout, cursor=cursor, limit=limit)])
        return result

    async def read_each(self, topology: Topology, requests: Sequence[ReadRequest]) -> list[ReadResult]:
        """Read several mailboxes in one round trip."""
        shards = range(len(topology.shards))
        calls = [_call(request, shard) for request in requests for shard in shards]
        topology, replies = await self._shards.call_each(topology, calls)
        mailboxes = (replies[start : start + len(shards)] for start in range(0, len(replies), len(shards)))
        return [_result(request, mailbox) for request, mailbox in zip(requests, mailboxes, strict=True)]

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


def _call(request: ReadRequest, shard: int) -> ShardCall[list[StoredEntry]]:
    position = request.cursor.positions.get(shard)
    return mailbox_functions.read(
        spout_index=request.spout.index,
        entry=position.entry if position else "",
        offset=position.offset if position else 0,
        max_completions=request.limit,
    )


def _result(request: ReadRequest, replies: Sequence[Sequence[StoredEntry]]) -> ReadResult:
    """Take the completions fairly from all shards; few completions in few bytes mean that there are no others."""
    found = [list(islice(_entries(request, shard, reply), request.limit)) for shard, reply in enumerate(replies)]
    shares = take_fairly(found, request.limit)
    taken = [(shard, *entry) for shard, entries in shares.items() for entry in entries]
    size = sum(len(entry.packed) for reply in replies for entry in reply)
    return ReadResult(
        completions=[completion for _, _, completion in taken],
        positions=[(shard, position) for shard, position, _ in taken],
        start=request.cursor,
        more=len(taken) >= request.limit or size >= FULL_REPLY_BYTES,
    )


def _entries(request: ReadRequest, shard: int, reply: Sequence[StoredEntry]) -> Iterator[Entry]:
    return takewhile(lambda entry: request.reaches(shard, entry[0]), read_entries(reply, request.spout.name))


def read_entries(entries: Iterable[StoredEntry], spout_task: str) -> Iterator[Entry]:
    """Decode the completions of entries, without those that an entry says to skip."""
    return chain.from_iterable(completions_of(entry, spout_task) for entry in entries)


def completions_of(entry: StoredEntry, spout_task: str) -> Iterator[Entry]:
    """Decode the completions of one entry, without those that it says to skip."""
    ms, seq = entry.entry_id
    for offset, completion in enumerate(decode_completions(entry.packed, spout_task), start=1):
        if offset > entry.skip:
            yield Position(ms=ms, seq=seq, offset=offset), completion


def take_fairly(found: Sequence[Sequence[tuple[Position, T]]], limit: int) -> dict[int, Sequence[tuple[Position, T]]]:
    """Take up to a limit from the shards in equal shares; the remainder goes to the shards with the oldest entries.

    So a reader that takes less than one per shard reaches every shard in time. Gives no empty shares.
    """
    by_age = sorted((shard for shard, entries in enumerate(found) if entries), key=lambda shard: found[shard][0][0].ms)
    parts = zip(by_age, fair_shares([len(found[shard]) for shard in by_age], limit), strict=True)
    return {shard: found[shard][:share] for shard, share in parts if share}


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
