"""Knows how many more roots a spout task may have pending, over all shards."""

import asyncio
import struct
from collections.abc import AsyncIterator, Iterable, Mapping, Set

from acker_service.operations.batcher import Applied, ShardRequest, apply_or_refuse_inits, decode_applied
from acker_service.redis.client import RedisClient
from acker_service.topologies.shards import Shards
from acker_service.topologies.stamp import Topology, unwrap
from acker_service.topologies.stats import read_counts

UNLIMITED = 2**30
MAILBOX_FULL = -(2**31)
"""The room of a spout task whose mailbox is full, which is not the same as having no place."""


class PendingLimiter:
    """Applies requests with inits where pending roots are capped.

    Before anything is refused every shard is asked; then the shards are called one after the other, each with the room
    that is left. Within one process these requests wait for each other; what other replicas have in flight meanwhile is
    what a cap may be exceeded by.
    """

    def __init__(self, server: RedisClient, shards: Shards) -> None:
        self._server, self._shards = server, shards
        self._locks: dict[str, asyncio.Lock] = {}

    async def apply(
        self,
        topology: Topology,
        indexes: Mapping[str, int],
        parts: Mapping[int, ShardRequest],
        function: str,
        full: Set[int],
    ) -> AsyncIterator[tuple[int, Applied]]:
        """Apply the parts of a request by shard; gives what each shard answered. Raises `Stale`, `StoreUnavailable`.

        ``full`` are the indexes of spout tasks whose mailbox is full: their inits are refused.
        """
        async with self._locks.setdefault(topology.name, asyncio.Lock()):
            rooms = await self._free_slots(topology, indexes.values(), full)
            for shard, part in parts.items():
                key = topology.shards[shard]
                args = (topology.stamp, topology.settings, rooms, *part.args)
                rooms, words = unwrap(key, await apply_or_refuse_inits(self._server, function, key, args))
                yield shard, decode_applied(words)

    async def _free_slots(self, topology: Topology, indexes: Iterable[int], full: Set[int]) -> bytes:
        cap = topology.config.max_spout_pending or UNLIMITED
        pending = dict.fromkeys(indexes, 0)
        for counts in await self._shards.call_once(topology, "acker_read_counts_v1", [()] * len(topology.shards)):
            for index, count in read_counts(counts[0]).items():
                if index in pending:
                    pending[index] += count
        rooms = {index: MAILBOX_FULL if index in full else cap - count for index, count in pending.items()}
        return b"".join(struct.pack(">Ii", index, room) for index, room in rooms.items())
