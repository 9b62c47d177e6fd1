"""Knows the topologies: their configurations in Redis, and a cache of them that every stamp may prove stale."""

import json
import secrets
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from acker_protocol.problems import StoreUnavailable, UnknownTopology

from acker_service.domain.limits import Configuration
from acker_service.store import keys
from acker_service.store.packing import Layout
from acker_service.store.server import Argument, Server

DEFAULT = "default"
"""The topology that always exists."""

ATTEMPTS = 8
"""How often a write that somebody else was faster with, or a call with a stale pair, is begun anew."""


class Stale(Exception):
    """A shard's stamp is not the pair that a call named; ``pair`` is the stamp, if any. Nothing was done."""

    def __init__(self, key: str, pair: str) -> None:
        super().__init__(key, pair)
        self.key, self.pair = key, pair


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A topology as it was last read. ``pair`` is its incarnation (16 hex digits) and version (10 digits)."""

    name: str
    pair: str
    configuration: Configuration
    window_ms: int

    @property
    def incarnation(self) -> str:
        """Names this life of the topology: one made again under the same name has another, higher one."""
        return self.pair[:16]

    @property
    def layout(self) -> Layout:
        """How its roots are laid out."""
        return Layout(shards=self.configuration.shards, buckets=self.configuration.buckets)

    @property
    def seen_sets(self) -> int:
        """Over how many sets a shard's remembered requests are spread."""
        return max(16, self.configuration.buckets // 4)

    @cached_property
    def shards(self) -> list[str]:
        """The stamp keys of its shards."""
        return [keys.shard(self.name, number) for number in range(self.configuration.shards)]

    @cached_property
    def settings(self) -> bytes:
        """What Lua needs to know of the configuration."""
        rules = self.configuration.rules
        return struct.pack(
            ">IIIIIB",
            rules.message_timeout_ms,
            rules.progress_timeout_ms,
            rules.dedupe_window_ms,
            rules.retention_ms,
            self.window_ms,
            rules.tracked,
        )


class Topologies:
    """Reads and writes topologies. ``window_ms`` is how long requests are remembered at least."""

    def __init__(self, server: Server, *, window_ms: int) -> None:
        self._server = server
        self._window_ms = window_ms
        self._cache: dict[str, Topology] = {}

    async def get(self, name: str) -> Topology:
        """Give a topology, from the cache if it is there. Raises `UnknownTopology`."""
        return self._cache.get(name) or await self.read(name)

    async def read(self, name: str) -> Topology:
        """Read a topology from Redis. Raises `UnknownTopology`."""
        topology = await self._find(name)
        if topology is None and name == DEFAULT:
            return await self.write(DEFAULT, lambda present: present or Configuration())
        if topology is None:
            raise UnknownTopology(f"there is no topology {name}")
        return topology

    async def names(self) -> list[str]:
        """List the names of all topologies."""
        return sorted(name.decode() for name in await self._server.command("SMEMBERS", keys.TOPOLOGIES))

    async def write(
        self, name: str, change: Callable[[Configuration | None], Configuration], floor: str = ""
    ) -> Topology:
        """Make or change a topology: ``change`` gives the new configuration from the present one (None: there is none).

        Written only if nobody was faster, with a pair above ``floor``, and then stamped on every shard. Idempotent if
        ``change`` is.
        """
        for _ in range(ATTEMPTS):
            present = await self._find(name)
            configuration = change(present.configuration if present else None)
            document = json.dumps(asdict(configuration))
            reply = await self._server.call(
                "acker_write_topology_v1",
                [keys.topology(name), keys.TOPOLOGIES],
                *(present.pair if present else "", document, secrets.token_hex(2), name, floor),
            )
            if reply[0] == b"ok":
                topology = self._remember(name, reply[1].decode(), configuration)
                await self._stamp(topology)
                return topology
        raise StoreUnavailable(f"topology {name} is being changed by too many at once")

    async def ask(self, topology: Topology, function: str, shard: int, *args: Argument) -> tuple[Topology, list[Any]]:
        """Call a function on one shard, with the topology read again as often as it proves stale.

        Gives the topology as it is now, and the reply. Raises `StoreUnavailable`.
        """
        for _ in attempts(topology):
            key = topology.shards[shard]
            try:
                return topology, unstale(key, await self._server.call(function, [key], topology.pair, *args))
            except Stale as stale:
                topology = await self._renew_same(topology, stale)
        raise AssertionError("attempts end by raising")

    async def ask_each(self, topology: Topology, function: str, *args: Argument) -> tuple[Topology, list[list[Any]]]:
        """Call a function on every shard, in one round trip, likewise."""
        return await self.ask_shards(topology, function, [args] * len(topology.shards))

    async def ask_shards(
        self, topology: Topology, function: str, args: Sequence[Sequence[Argument]]
    ) -> tuple[Topology, list[list[Any]]]:
        """Call a function on every shard, each with its own arguments, likewise."""
        for _ in attempts(topology):
            try:
                return topology, await self.call_shards(topology, function, args)
            except Stale as stale:
                topology = await self._renew_same(topology, stale)
        raise AssertionError("attempts end by raising")

    async def call_shards(
        self, topology: Topology, function: str, args: Sequence[Sequence[Argument]]
    ) -> list[list[Any]]:
        """Call a function on every shard, each with its own arguments, in one round trip. Raises `Stale`."""
        calls = [(key, (topology.pair, *own)) for key, own in zip(topology.shards, args, strict=True)]
        replies = await self._server.call_each(function, calls)
        return [unstale(key, reply) for key, reply in zip(topology.shards, replies, strict=True)]

    async def renew(self, topology: Topology, stale: Stale) -> Topology:
        """Read a topology again after a shard called its pair stale, and stamp all shards if that had no stamp.

        A shard may be ahead of the configuration, because a failover lost the latter: it is then written anew, above
        the shard. Raises `StoreUnavailable` if it was made again with another layout.
        """
        self._cache.pop(topology.name, None)
        renewed = await self.read(topology.name)
        if not stale.pair:
            await self._stamp(renewed)
        elif stale.pair[:26] > renewed.pair:
            renewed = await self.write(topology.name, lambda present: present or topology.configuration, stale.pair)
        if renewed.layout != topology.layout:
            raise StoreUnavailable(f"topology {topology.name} was made again meanwhile")
        return renewed

    async def _renew_same(self, topology: Topology, stale: Stale) -> Topology:
        """Likewise, but only within one incarnation: the arguments of a call may mean something else in another."""
        renewed = await self.renew(topology, stale)
        if renewed.incarnation != topology.incarnation:
            raise StoreUnavailable(f"topology {topology.name} was made again meanwhile")
        return renewed

    async def _find(self, name: str) -> Topology | None:
        pair, document = await self._server.command("HMGET", keys.topology(name), "pair", "config")
        if pair is None:
            self._cache.pop(name, None)
            return None
        return self._remember(name, pair.decode(), Configuration(**json.loads(document)))

    def _remember(self, name: str, pair: str, configuration: Configuration) -> Topology:
        topology = Topology(name=name, pair=pair, configuration=configuration, window_ms=self._window_ms)
        self._cache[name] = topology
        return topology

    async def _stamp(self, topology: Topology) -> None:
        calls = [(key, (topology.pair,)) for key in topology.shards]
        await self._server.call_each("acker_stamp_v1", calls)


def attempts(topology: Topology) -> Iterator[int]:
    """Count attempts at a topology that others change meanwhile; after too many raises `StoreUnavailable`."""
    yield from range(ATTEMPTS + topology.configuration.shards)
    raise StoreUnavailable(f"topology {topology.name} is being changed by too many at once")


def unstale(key: str, reply: list[Any]) -> list[Any]:
    """Give a reply without its leading word, or raise `Stale`."""
    if reply[0] == b"stale":
        raise Stale(key, reply[1].decode())
    return reply[1:]
