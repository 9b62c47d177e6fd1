"""Calls functions on shards, and repeats a call that a shard refused for a stale stamp."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle
from typing import Any, TypeVar

from acker_service.redis.calls import ShardCall
from acker_service.redis.client import RedisClient
from acker_service.redis.stamp import StaleStamp
from acker_service.topologies.registry import TopologyRegistry, retries
from acker_service.topologies.topology import Topology, TopologyRecreated

MAX_SHARDS = 1_000
"""Shards that one call names at most: Lua unpacks their names."""

R = TypeVar("R")

ShardCallAt = tuple[int, ShardCall[Any]]
"""A call and the number of the shard that it is made on."""


class Shards:
    """Calls functions on the shards of topologies.

    Where a shard calls the stamp stale, the topology is read again and the call repeated; each method gives the
    topology as it is then, and the decoded reply. Raises `StoreUnavailable` after too many attempts.
    """

    def __init__(self, redis: RedisClient, registry: TopologyRegistry) -> None:
        self._redis = redis
        self._registry = registry

    async def call(self, topology: Topology, shard: int, call: ShardCall[R]) -> tuple[Topology, R]:
        """Call a function on one shard."""

        async def once(current: Topology) -> R:
            return await self._redis.execute(call.at(current.shards[shard], current.stamp))

        return await self._retry(topology, once)

    async def call_all(self, topology: Topology, call: ShardCall[R]) -> tuple[Topology, list[R]]:
        """Call a function on every shard, in one round trip."""
        return await self.call_each(topology, [call] * len(topology.shards))

    async def call_each(self, topology: Topology, calls: Sequence[ShardCall[R]]) -> tuple[Topology, list[R]]:
        """Make one call on each shard, in one round trip; or several such rounds, one behind the other."""

        async def once(current: Topology) -> list[R]:
            return await self.call_once(current, calls)

        return await self._retry(topology, once)

    async def call_at(
        self, topology: Topology, calls: Sequence[tuple[int, ShardCall[R]]], *, then: ShardCallAt | None = None
    ) -> tuple[Topology, list[R]]:
        """Make calls, each on the shard whose number it names, in one round trip.

        ``then`` is made when all others are: in the same round trip if one server has all these shards.
        """

        async def once(current: Topology) -> list[R]:
            addressed = [call.at(current.shards[shard], current.stamp) for shard, call in calls]
            if then is None:
                return await self._redis.execute_each(addressed)
            shard, call = then
            return await self._redis.execute_each_then(addressed, call.at(current.shards[shard], current.stamp))

        return await self._retry(topology, once)

    async def call_once(self, topology: Topology, calls: Sequence[ShardCall[R]]) -> list[R]:
        """Make one call on each shard, in one round trip, without a retry. Raises `StaleStamp`."""
        addressed = [call.at(key, topology.stamp) for key, call in zip(cycle(topology.shards), calls, strict=False)]
        return await self._redis.execute_each(addressed)

    async def _retry(self, topology: Topology, once: Callable[[Topology], Awaitable[R]]) -> tuple[Topology, R]:
        for _ in retries(f"topology {topology.name}", shards=len(topology.shards)):
            try:
                return topology, await once(topology)
            except StaleStamp as stale:
                topology = await self._refresh(topology, stale)
        raise AssertionError("retries end by raising")

    async def _refresh(self, topology: Topology, stale: StaleStamp) -> Topology:
        """Read a topology again; the arguments of a call may mean something else to another of the same name."""
        refreshed = await self._registry.refresh_after(topology, stale)
        if refreshed.incarnation != topology.incarnation:
            raise TopologyRecreated(f"topology {topology.name} was made again meanwhile")
        return refreshed
