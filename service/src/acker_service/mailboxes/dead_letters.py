"""Knows the dead letters of a spout task: completions that no try to deliver succeeded for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from acker_protocol.operations import CompletionRecord

from acker_service.mailboxes.cursor import Cursor, Position
from acker_service.mailboxes.reading import take_fairly
from acker_service.metrics.instruments import OperationMetrics
from acker_service.redis.codec import decode_completions
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout
from acker_service.topologies.stamp import Topology

STEP = 64
FIELDS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A completion, how often it was tried, what went wrong last, and when it was given up."""

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
    """Reads dead letters, puts them back, throws them away."""

    def __init__(self, shards: Shards, meters: OperationMetrics) -> None:
        self._shards, self._meters = shards, meters

    async def read(self, topology: Topology, spout: Spout, cursor: Cursor, limit: int) -> DeadLetterPage:
        """Read dead letters after a cursor, oldest first within a shard, ``limit`` at most."""
        places = [cursor.positions.get(shard) for shard in range(len(topology.shards))]
        args = [(spout.index, at.entry if at else "", at.offset if at else 0, limit) for at in places]
        _, replies = await self._shards.call_many(topology, "acker_read_dead_v1", args)
        found = [list(islice(_read(reply, spout.name), limit)) for reply in replies]
        shares = take_fairly(found, limit)
        behind = {shard: share[-1][0] for shard, share in shares.items()}
        return DeadLetterPage(
            letters=[letter for share in shares.values() for _, letter in share],
            cursor=Cursor(incarnation=cursor.incarnation, positions=cursor.positions | behind),
        )

    async def replay(self, topology: Topology, spout: Spout) -> int:
        """Put all dead letters back into the mailbox, to be delivered as if never tried; gives how many."""
        return await self._end(topology, spout, "acker_replay_dead_v1")

    async def discard(self, topology: Topology, spout: Spout) -> int:
        """Throw all dead letters away; gives how many."""
        discarded = await self._end(topology, spout, "acker_discard_dead_v1")
        self._meters.completions_discarded[topology.name, "dead_letters"].inc(discarded)
        return discarded

    async def _end(self, topology: Topology, spout: Spout, function: str) -> int:
        ended = 0
        for shard in range(len(topology.shards)):
            more = 1
            while more:
                topology, (count, more) = await self._shards.call(topology, function, shard, spout.index, STEP)
                ended += count
        return ended


def _read(reply: Sequence[Any], spout_task: str) -> Iterator[tuple[Position, DeadLetter]]:
    for i in range(0, len(reply), FIELDS):
        entry, skip, packed, attempts, error, at_ms = reply[i : i + FIELDS]
        ms, seq = map(int, entry.split(b"-"))
        for taken, completion in enumerate(decode_completions(packed, spout_task), start=1):
            if taken > skip:
                position = Position(ms=ms, seq=seq, offset=taken)
                letter = DeadLetter(completion=completion, attempts=attempts, error=error.decode(), at_ms=at_ms)
                yield position, letter
