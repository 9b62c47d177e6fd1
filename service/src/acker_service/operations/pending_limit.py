"""Knows how many more roots a spout task may have pending, over all shards."""

import asyncio
import struct
from collections.abc import AsyncIterator, Iterable, Mapping, Set

from acker_service.operations.batcher import ShardRequest, apply_or_refuse_inits
from acker_service.redis.client import RedisClient
from acker_service.redis.functions import Applied, ApplyFunction, read_counts
from acker_service.topologies.shards import Shards
from acker_service.topologies.stamp import Topology

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
        function: ApplyFunction,
        full: Set[int],
    ) -> AsyncIterator[tuple[int, Applied]]:
        """Apply the parts of a request by shard; gives what each shard answered. Raises `Stale`, `StoreUnavailable`.

        ``full`` are the indexes of spout tasks whose mailbox is full: their inits are refused.
        """
        async with self._locks.setdefault(topology.name, asyncio.Lock()):
            rooms = await self._free_slots(topology, indexes.values(), full)
            for shard, part in parts.items():
                args = (topology.settings, rooms, part.args)
                key = topology.shards[shard]
                reply = await apply_or_refuse_inits(self._server, function, key, topology.stamp, args)
                rooms, [applied] = reply.free_slots, reply.results
                yield shard, applied

    async def _free_slots(self, topology: Topology, indexes: Iterable[int], full: Set[int]) -> bytes:
        cap = topology.config.max_spout_pending or UNLIMITED
        pending = dict.fromkeys(indexes, 0)
        for counts in await self._shards.call_once(topology, [read_counts()] * len(topology.shards)):
            for index, count in counts.pending.items():
                if index in pending:
                    pending[index] += count
        rooms = {index: MAILBOX_FULL if index in full else cap - count for index, count in pending.items()}
        return b"".join(struct.pack(">Ii", index, room) for index, room in rooms.items())
