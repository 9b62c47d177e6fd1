"""Limits the pending roots of a spout task, over all shards."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Set

from acker_service.operations.batcher import apply_or_refuse_new_roots
from acker_service.redis.apply_functions import (
    UNLIMITED,
    ApplyFunction,
    ApplyLimits,
    FreeSlots,
    Result,
    encode_free_slots,
)
from acker_service.redis.client import RedisClient
from acker_service.redis.codec import ShardRequest
from acker_service.redis.functions import read_counts
from acker_service.topologies.shards import Shards
from acker_service.topologies.topology import Topology


class PendingLimiter:
    """Applies requests with inits where pending roots are capped or a mailbox is full.

    It counts the pending roots on every shard before any init is refused; then it calls the shards one after the other,
    each with the slots that are left. A lock orders these requests within one process; a cap may be exceeded by what
    other replicas have in flight meanwhile.
    """

    def __init__(self, redis: RedisClient, shards: Shards) -> None:
        self._redis, self._shards = redis, shards
        self._locks: dict[str, asyncio.Lock] = {}

    async def apply(
        self,
        topology: Topology,
        spout_indexes: Mapping[str, int],
        requests: Mapping[int, ShardRequest],
        function: ApplyFunction,
        limits: ApplyLimits,
        full: Set[int],
    ) -> AsyncIterator[tuple[int, Result]]:
        """Apply the parts of a request, and give the result of each shard. Raises `StaleStamp`, `StoreUnavailable`.

        ``full`` are the indexes of spout tasks whose mailbox is full: their inits are refused.
        """
        async with self._locks.setdefault(topology.name, asyncio.Lock()):
            slots = encode_free_slots(await self._free_slots(topology, spout_indexes.values(), full))
            for shard, request in requests.items():
                args = (topology.settings, slots, limits, [request])
                reply = await apply_or_refuse_new_roots(
                    self._redis, function, topology.shards[shard], topology.stamp, args
                )
                slots, [result] = reply.free_slots, reply.results
                yield shard, result

    async def _free_slots(self, topology: Topology, indexes: Iterable[int], full: Set[int]) -> list[FreeSlots]:
        cap = topology.config.max_spout_pending or UNLIMITED
        pending = dict.fromkeys(indexes, 0)
        for counts in await self._shards.call_once(topology, [read_counts()] * len(topology.shards)):
            for index, count in counts.pending.items():
                if index in pending:
                    pending[index] += count
        return [
            FreeSlots(spout_index=index, slots=cap - count, mailbox_full=index in full)
            for index, count in pending.items()
        ]
