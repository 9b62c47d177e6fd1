"""Knows the completions of a spout task that are not yet released."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, TypeVar

from acker_protocol.operations import CompletionRecord

from acker_service.mailboxes.cursor import Cursor, Position
from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis.codec import decode_completions
from acker_service.redis.node import Argument
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout
from acker_service.topologies.stamp import Topology

T = TypeVar("T")

RELEASE_STEP = 256
FULL_REPLY_BYTES = 1_048_576
"""A shard gives up to four times as many; if all shards together gave fewer, nothing was left out."""


Entry = tuple[Position, CompletionRecord]
"""A completion, and the position behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """What somebody wants to read: the completions of a spout task after a cursor, ``limit`` at most.

    With ``until``, only those up to that cursor: whoever keeps both reads the same again, whatever came meanwhile.
    """

    spout: Spout
    cursor: Cursor
    limit: int
    until: Cursor | None = None

    def reaches(self, shard: int, position: Position) -> bool:
        """Whether a completion with this position behind it is wanted."""
        if self.until is None:
            return True
        last = self.until.positions.get(shard)
        return last is not None and position <= last


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """Completions as they were read, the shard and the position behind each, and the cursor behind the last.

    Unless ``more`` is set, nothing else was there.
    """

    completions: Sequence[CompletionRecord]
    positions: Sequence[tuple[int, Position]]
    start: Cursor
    more: bool = False

    @property
    def cursor(self) -> Cursor:
        """The place behind all of them."""
        return Cursor(incarnation=self.start.incarnation, positions=self.start.positions | dict(self.positions))

    def cursors(self) -> Iterator[Cursor]:
        """Give the place behind each of them."""
        positions = self.start.positions
        for shard, position in self.positions:
            positions = positions | {shard: position}
            yield Cursor(incarnation=self.start.incarnation, positions=positions)


class MailboxReader:
    """Reads and releases completions."""

    def __init__(self, shards: Shards, meters: OperationMetrics) -> None:
        self._shards, self._meters = shards, meters

    async def read(self, topology: Topology, spout: Spout, cursor: Cursor, limit: int) -> ReadResult:
        """Read the completions after a cursor, oldest first within a shard, ``limit`` at most."""
        [reading] = await self.read_each(topology, [ReadRequest(spout=spout, cursor=cursor, limit=limit)])
        return reading

    async def read_each(self, topology: Topology, wanted: Sequence[ReadRequest]) -> list[ReadResult]:
        """Read what several want, in one round trip."""
        shards = range(len(topology.shards))
        args = [_where(one, shard) for one in wanted for shard in shards]
        topology, replies = await self._shards.call_many(topology, "acker_read_v1", args)
        own = (replies[start : start + len(shards)] for start in range(0, len(replies), len(shards)))
        return [_read(one, mailbox) for one, mailbox in zip(wanted, own, strict=True)]

    async def release(self, topology: Topology, spout: Spout, cursor: Cursor) -> int:
        """Forget all completions up to a cursor; gives how many. Repeating it changes nothing."""
        released = 0
        for shard, at in cursor.positions.items():
            more = shard < len(topology.shards)
            while more:
                args = (spout.index, at.entry, at.offset, RELEASE_STEP)
                topology, (count, more) = await self._shards.call(topology, "acker_release_v1", shard, *args)
                self._meters.completions_released[topology.name].inc(count)
                released += count
        return released

    async def discard(self, topology: Topology, spout: Spout) -> int:
        """Forget all completions of a spout task, unread; gives how many."""
        _, shards = await self._shards.call_all(topology, "acker_discard_v1", spout.index)
        discarded: int = sum(unread for (unread,) in shards)
        self._meters.completions_discarded[topology.name, "discard"].inc(discarded)
        return discarded


def _where(wanted: ReadRequest, shard: int) -> tuple[Argument, ...]:
    at = wanted.cursor.positions.get(shard)
    start = (at.entry, at.offset) if at else ("", 0)
    return (wanted.spout.index, *start, wanted.limit)


def _read(wanted: ReadRequest, replies: Sequence[Sequence[bytes]]) -> ReadResult:
    """Divide among the shards what each gave; where they gave few completions and few bytes, there are no others."""
    found = [list(islice(_entries(wanted, shard, reply), wanted.limit)) for shard, reply in enumerate(replies)]
    told = [(shard, *entry) for shard, entries in take_fairly(found, wanted.limit).items() for entry in entries]
    size = sum(len(packed) for reply in replies for packed in reply[2::3])
    return ReadResult(
        completions=[completion for _, _, completion in told],
        positions=[(shard, position) for shard, position, _ in told],
        start=wanted.cursor,
        more=len(told) >= wanted.limit or size >= FULL_REPLY_BYTES,
    )


def _entries(wanted: ReadRequest, shard: int, reply: Sequence[Any]) -> Iterator[Entry]:
    return takewhile(lambda entry: wanted.reaches(shard, entry[0]), read_entries(reply, wanted.spout.name))


def read_entries(reply: Sequence[Any], spout_task: str) -> Iterator[Entry]:
    """Read a shard's reply: entry, how many of its completions to skip, its completions, next entry …"""
    for entry, skip, packed in zip(reply[::3], reply[1::3], reply[2::3], strict=True):
        ms, seq = map(int, entry.split(b"-"))
        for taken, completion in enumerate(decode_completions(packed, spout_task), start=1):
            if taken > int(skip):
                yield Position(ms=ms, seq=seq, offset=taken), completion


def take_fairly(found: Sequence[Sequence[tuple[Position, T]]], limit: int) -> dict[int, Sequence[tuple[Position, T]]]:
    """Take up to a limit from the shards, from all alike; what cannot be divided goes where the oldest waits.

    So even a reader who takes less than one a shard gets everything in time. Gives no empty shares.
    """
    by_age = sorted((shard for shard, entries in enumerate(found) if entries), key=lambda shard: found[shard][0][0].ms)
    parts = zip(by_age, fair_shares([len(found[shard]) for shard in by_age], limit), strict=True)
    return {shard: found[shard][:share] for shard, share in parts if share}


def fair_shares(found: Sequence[int], limit: int) -> list[int]:
    """Divide a limit among shards that have so many each, alike; what cannot be divided goes to the first."""
    divided = [0] * len(found)
    while limit and (waiting := [i for i, count in enumerate(found) if count > divided[i]]):
        each = max(1, limit // len(waiting))
        for i in waiting:
            step = min(each, found[i] - divided[i], limit)
            divided[i], limit = divided[i] + step, limit - step
    return divided
