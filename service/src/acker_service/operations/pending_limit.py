"""Limits the pending roots of a spout task, over all shards."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Set
from dataclasses import replace

from acker_service.operations.batcher import apply_each_or_refuse_new_roots, apply_or_refuse_new_roots
from acker_service.redis.client import RedisClient
from acker_service.redis.codec import ShardRequest
from acker_service.redis.functions.apply import (
    UNLIMITED,
    ApplyFunction,
    ApplyLimits,
    FreeSlots,
    Result,
    encode_free_slots,
)
from acker_service.redis.functions.roots import read_pending
from acker_service.topologies.shards import Shards
from acker_service.topologies.topology import Topology


class PendingLimiter:
    """Applies requests with inits where pending roots are capped or a mailbox is full.

    Where one server has all shards, each call adds up what is pending in all of them: caps are exact, however many
    replicas emit, and a request takes one round trip.

    No call of a cluster sees the shards of another server. There the limiter reads the pending roots of every shard
    before any init is refused; then it calls the shards one after the other, each with the slots that are left. A lock
    orders these requests within one process; a cap may be exceeded by what other replicas have in flight meanwhile.
    """

    def __init__(self, redis: RedisClient, shards: Shards) -> None:
        self._redis = redis
        self._shards = shards
        self._locks: dict[str, asyncio.Lock] = {}
        self.counts_in_redis = not redis.is_cluster

    def apply(
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
        if self.counts_in_redis:
            limits = replace(limits, count_shards=len(topology.shards))
            caps = _slots(topology, dict.fromkeys(spout_indexes.values(), 0), full)
            return self._apply_together(topology, requests, function, limits, caps)
        return self._apply_in_turn(topology, spout_indexes, requests, function, limits, full)

    async def _apply_together(
        self,
        topology: Topology,
        requests: Mapping[int, ShardRequest],
        function: ApplyFunction,
        limits: ApplyLimits,
        caps: bytes,
    ) -> AsyncIterator[tuple[int, Result]]:
        """Call the shards in one round trip; the server runs the calls in this order."""
        places = [(topology.shards[shard], topology.stamp) for shard in requests]
        args = [(topology.settings, caps, limits, [request]) for request in requests.values()]
        replies = await apply_each_or_refuse_new_roots(self._redis, function, places, args)
        for shard, reply in zip(requests, replies, strict=True):
            if not isinstance(reply, Exception):
                [result] = reply.results
                yield shard, result
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply

    async def _apply_in_turn(
        self,
        topology: Topology,
        spout_indexes: Mapping[str, int],
        requests: Mapping[int, ShardRequest],
        function: ApplyFunction,
        limits: ApplyLimits,
        full: Set[int],
    ) -> AsyncIterator[tuple[int, Result]]:
        async with self._locks.setdefault(topology.name, asyncio.Lock()):
            slots = _slots(topology, await self._count_pending(topology, spout_indexes.values()), full)
            for shard, request in requests.items():
                args = (topology.settings, slots, limits, [request])
                reply = await apply_or_refuse_new_roots(
                    self._redis, function, topology.shards[shard], topology.stamp, args
                )
                slots, [result] = reply.free_slots, reply.results
                yield shard, result

    async def _count_pending(self, topology: Topology, indexes: Iterable[int]) -> dict[int, int]:
        pending = dict.fromkeys(indexes, 0)
        # rule: a capped init counts its own spout task alone
        for counts in await self._shards.call_once(topology, [read_pending([*pending])] * len(topology.shards)):
            for index, count in zip(pending, counts, strict=True):
                # rule: the places that are taken are counted on every shard
                pending[index] += count
        return pending


def _slots(topology: Topology, pending: Mapping[int, int], full: Set[int]) -> bytes:
    """Encode the slots that are free where so many roots of each spout task are pending."""
    cap = topology.config.max_spout_pending or UNLIMITED
    # rule: a full mailbox is no room
    return encode_free_slots(
        FreeSlots(spout_index=index, slots=cap - count, mailbox_full=index in full) for index, count in pending.items()
    )
