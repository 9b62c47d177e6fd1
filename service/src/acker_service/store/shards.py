"""Knows how the shards of a topology are asked: with the pair that is known, and again with the one that holds now."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

from acker_service.store.node import Argument
from acker_service.store.server import Server
from acker_service.store.topologies import Topologies, attempts
from acker_service.store.topology import Remade, Stale, Topology, unstale


class Shards:
    """Calls functions on the shards of topologies."""

    def __init__(self, server: Server, topologies: Topologies) -> None:
        self._server, self._topologies = server, topologies

    async def ask(self, topology: Topology, function: str, shard: int, *args: Argument) -> tuple[Topology, list[Any]]:
        """Call a function on one shard, with the topology read again as often as it proves stale.

        Gives the topology as it is now, and the reply. Raises `StoreUnavailable`.
        """
        for _ in attempts(topology):
            key = topology.shards[shard]
            try:
                return topology, unstale(key, await self._server.call(function, [key], topology.pair, *args))
            except Stale as stale:
                topology = await self._renew(topology, stale)
        raise AssertionError("attempts end by raising")

    async def ask_each(self, topology: Topology, function: str, *args: Argument) -> tuple[Topology, list[list[Any]]]:
        """Call a function on every shard, in one round trip, likewise."""
        return await self.ask_shards(topology, function, [args] * len(topology.shards))

    async def ask_shards(
        self, topology: Topology, function: str, args: Sequence[Sequence[Argument]]
    ) -> tuple[Topology, list[list[Any]]]:
        """Call a function on every shard, each with its own arguments, likewise; or so for several rounds of them."""
        for _ in attempts(topology):
            try:
                return topology, await self.call_shards(topology, function, args)
            except Stale as stale:
                topology = await self._renew(topology, stale)
        raise AssertionError("attempts end by raising")

    async def call_shards(
        self, topology: Topology, function: str, args: Sequence[Sequence[Argument]]
    ) -> list[list[Any]]:
        """Call a function on every shard, each with its own arguments, in one round trip. Raises `Stale`."""
        calls = [(key, (topology.pair, *own)) for key, own in zip(cycle(topology.shards), args, strict=False)]
        replies = await self._server.call_each(function, calls)
        return [unstale(key, reply) for (key, _), reply in zip(calls, replies, strict=True)]

    async def _renew(self, topology: Topology, stale: Stale) -> Topology:
        """Read a topology again; the arguments of a call may mean something else to another of its name."""
        renewed = await self._topologies.renew(topology, stale)
        if renewed.incarnation != topology.incarnation:
            raise Remade(f"topology {topology.name} was made again meanwhile")
        return renewed
