"""Knows how the shards of a topology are asked: with the pair that is known, and again with the one that holds now."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from acker_service.redis.client import RedisClient
from acker_service.redis.node import Argument
from acker_service.topologies.registry import TopologyRegistry, retries
from acker_service.topologies.stamp import StaleStamp, Topology, TopologyRecreated, unwrap


class Shards:
    """Calls functions on the shards of topologies."""

    def __init__(self, server: RedisClient, topologies: TopologyRegistry) -> None:
        self._server, self._topologies = server, topologies

    async def call(self, topology: Topology, function: str, shard: int, *args: Argument) -> tuple[Topology, list[Any]]:
        """Call a function on one shard, with the topology read again as often as it proves stale.

        Gives the topology as it is now, and the reply. Raises `StoreUnavailable`.
        """
        for _ in retries(topology):
            key = topology.shards[shard]
            try:
                return topology, unwrap(key, await self._server.call(function, [key], topology.stamp, *args))
            except StaleStamp as stale:
                topology = await self._refresh(topology, stale)
        raise AssertionError("attempts end by raising")

    async def call_all(self, topology: Topology, function: str, *args: Argument) -> tuple[Topology, list[list[Any]]]:
        """Call a function on every shard, in one round trip, likewise."""
        return await self.call_many(topology, function, [args] * len(topology.shards))

    async def call_many(
        self, topology: Topology, function: str, args: Sequence[Sequence[Argument]]
    ) -> tuple[Topology, list[list[Any]]]:
        """Call a function on every shard, each with its own arguments, likewise; or so for several rounds of them."""
        for _ in retries(topology):
            try:
                return topology, await self.call_once(topology, function, args)
            except StaleStamp as stale:
                topology = await self._refresh(topology, stale)
        raise AssertionError("attempts end by raising")

    async def call_once(self, topology: Topology, function: str, args: Sequence[Sequence[Argument]]) -> list[list[Any]]:
        """Call a function on every shard, each with its own arguments, in one round trip. Raises `Stale`."""
        calls = [(key, (topology.stamp, *own)) for key, own in zip(cycle(topology.shards), args, strict=False)]
        replies = await self._server.call_each(function, calls)
        return [unwrap(key, reply) for (key, _), reply in zip(calls, replies, strict=True)]

    async def _refresh(self, topology: Topology, stale: StaleStamp) -> Topology:
        """Read a topology again; the arguments of a call may mean something else to another of its name."""
        renewed = await self._topologies.refresh_after(topology, stale)
        if renewed.incarnation != topology.incarnation:
            raise TopologyRecreated(f"topology {topology.name} was made again meanwhile")
        return renewed
