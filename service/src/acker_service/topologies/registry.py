"""Knows the topologies: their configurations in Redis, and a cache of them that every stamp may prove stale."""

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from typing import TypeVar

from acker_protocol.errors import StoreUnavailable, TopologyBusy, UnknownTopology

from acker_service.redis import keys
from acker_service.redis.client import RedisClient
from acker_service.topologies.config import BUCKETS, TopologyConfig, from_stored
from acker_service.topologies.stamp import Deletion, StaleStamp, Topology, TopologyRecreated

T = TypeVar("T")

STAMP_EXAMPLE = "0123456789abcdef0123456789"
"""So long is a pair; a tombstone is longer."""

_log = logging.getLogger(__name__)

DEFAULT = "default"
"""The topology that always exists."""

MAX_ATTEMPTS = 8
"""How often a write that somebody else was faster with, or a call with a stale pair, is begun anew."""


DELETION_TIMEOUT_MS = 10_000
"""After so long whoever meets the mark of a removal may take it over."""

POLL_INTERVAL_S = 0.05


class TopologyRegistry:
    """Reads and writes topologies.

    ``window_ms`` is how long requests are remembered at least, ``buckets`` how many small hashes a shard of the default
    topology gets.
    """

    def __init__(self, server: RedisClient, *, window_ms: int, buckets: int = BUCKETS) -> None:
        self._server, self._default = server, TopologyConfig(buckets=buckets)
        self._window_ms = window_ms
        self._cache: dict[str, Topology] = {}

    async def get(self, name: str) -> Topology:
        """Give a topology, from the cache if it is there. Raises `UnknownTopology`."""
        return self._cache.get(name) or await self.refresh(name)

    async def with_current(self, name: str, work: Callable[[Topology], Awaitable[T]]) -> T:
        """Do some work on a topology, and once more if what was known of it is of an incarnation that has gone."""
        try:
            return await work(await self.get(name))
        except TopologyRecreated:
            return await work(await self.refresh(name))

    async def refresh(self, name: str) -> Topology:
        """Read a topology from Redis. Raises `UnknownTopology`."""
        topology = await self._find(name)
        if topology is None and name == DEFAULT:
            return await self.create_or_update(DEFAULT, lambda present: present or self._default)
        if topology is None:
            raise UnknownTopology(f"there is no topology {name}")
        return topology

    async def names(self) -> list[str]:
        """List the names of all topologies."""
        return sorted(name.decode() for name in await self._server.read("SMEMBERS", keys.TOPOLOGIES))

    async def create_or_update(
        self, name: str, change: Callable[[TopologyConfig | None], TopologyConfig], floor: str = ""
    ) -> Topology:
        """Make or change a topology: ``change`` gives the new configuration from the present one (None: there is none).

        Written only if nobody was faster, with a pair above ``floor``, and then stamped on every shard. Idempotent if
        ``change`` is.
        """
        for _ in range(MAX_ATTEMPTS):
            present = await self._find(name)
            if present is not None and present.deletion is not None:
                present = await self._wait_while_deleting(present)
            configuration = change(present.config if present else None)
            document = json.dumps(asdict(configuration))
            floor = floor or ("" if present else await self._tombstone(name, configuration))
            if not present and floor and len(floor) == len(STAMP_EXAMPLE):
                _log.error(
                    "topology %s is made anew: its configuration was lost, and with it what its shards hold", name
                )
            reply = await self._server.call(
                "acker_write_topology_v1",
                [keys.topology(name), keys.TOPOLOGIES],
                *(present.stamp if present else "", document, secrets.token_hex(2), name, floor),
            )
            if reply[0] == b"ok":
                topology = self._cache_topology(name, reply[1].decode(), configuration)
                await self.stamp_shards(topology)
                return topology
        raise StoreUnavailable(f"topology {name} is being changed by too many at once")

    def evict(self, name: str) -> None:
        """Drop what is known of a topology."""
        self._cache.pop(name, None)

    async def _tombstone(self, name: str, configuration: TopologyConfig) -> str:
        """Give the highest stamp on the shards of a topology that is made: its incarnation has to be above it."""
        stamps = await self._server.read_each([("GET", keys.shard(name, n)) for n in range(configuration.shards)])
        return max((stamp.decode() for stamp in stamps if stamp), default="")

    async def _wait_while_deleting(self, topology: Topology) -> Topology | None:
        """Wait until a topology is no longer marked, or is gone (None). Raises `TopologyBusy` if it will go."""
        while topology.deletion is not None:
            if topology.deletion is Deletion.DRAINING:
                raise TopologyBusy(f"topology {topology.name} is being deleted")
            try:
                topology = await self.wait_for_deletion(topology)
            except UnknownTopology:
                return None
        return topology

    async def refresh_after(self, topology: Topology, stale: StaleStamp) -> Topology:
        """Read a topology again after a shard called its pair stale, and stamp all shards if that had no stamp.

        A shard may be ahead of the configuration, because a failover lost the latter: it is then written anew, above
        the shard. Raises `StoreUnavailable` if it was made again with another layout.
        """
        self._cache.pop(topology.name, None)
        renewed = await self.refresh(topology.name)
        if len(stale.stamp) > len(renewed.stamp) and stale.stamp[:16] == renewed.incarnation and not renewed.deletion:
            renewed = await self.set_deletion(
                renewed, Deletion.DELETING
            )  # a failover lost the deletion: it is done again
        while renewed.deletion is Deletion.DELETING:
            renewed = await self.wait_for_deletion(renewed)
        if not stale.stamp:
            await self.stamp_shards(renewed)
        elif stale.stamp[:26] > renewed.stamp:
            renewed = await self.create_or_update(
                topology.name, lambda present: present or topology.config, stale.stamp
            )
        if renewed.layout != topology.layout:
            raise TopologyRecreated(f"topology {topology.name} was made again meanwhile")
        return renewed

    async def wait_for_deletion(self, topology: Topology) -> Topology:
        """Wait a moment for a topology that is being removed, and read it again.

        Raises `UnknownTopology` once it has gone; `StoreUnavailable` if whoever removes it takes too long: the tick of
        any replica will then go on with it.
        """
        if await self.now_ms() - topology.deletion_started_ms > DELETION_TIMEOUT_MS:
            raise StoreUnavailable(f"topology {topology.name} is being removed, and that takes long")
        await asyncio.sleep(POLL_INTERVAL_S)
        return await self.refresh(topology.name)

    async def now_ms(self) -> int:
        """Tell the time, by the clock of the Redis that has the configuration."""
        return await self._server.now_ms(keys.TOPOLOGIES)

    async def set_deletion(self, topology: Topology, doom: Deletion | None) -> Topology:
        """Mark a topology for removal, or take the mark away, on all its shards.

        From then on every call that was made up before is stale. Raises `TopologyBusy` if somebody else changed it
        meanwhile.
        """
        reply = await self._server.call(
            "acker_mark_topology_v1", [keys.topology(topology.name)], topology.stamp, doom or ""
        )
        if reply[0] != b"ok":
            raise TopologyBusy(f"topology {topology.name} was changed meanwhile")
        marked = self._cache_topology(topology.name, reply[1].decode(), topology.config, reply[2].decode())
        await self.stamp_shards(marked)
        return marked

    async def _find(self, name: str) -> Topology | None:
        pair, document, mark = await self._server.read("HMGET", keys.topology(name), "pair", "config", "mark")
        if pair is None:
            self._cache.pop(name, None)
            return None
        await self._server.wait_replicated(keys.topology(name))
        return self._cache_topology(name, pair.decode(), from_stored(json.loads(document)), (mark or b"").decode())

    def _cache_topology(self, name: str, pair: str, configuration: TopologyConfig, mark: str = "") -> Topology:
        doom, _, since = mark.partition(" ")
        topology = Topology(
            name=name,
            stamp=pair,
            config=configuration,
            window_ms=self._window_ms,
            deletion=Deletion(doom) if doom else None,
            deletion_started_ms=int(since or 0),
        )
        self._cache[name] = topology
        return topology

    async def stamp_shards(self, topology: Topology) -> None:
        """Stamp all shards with a topology's pair."""
        calls = [(key, (topology.stamp,)) for key in topology.shards]
        await self._server.call_each("acker_stamp_v1", calls)


def retries(topology: Topology) -> Iterator[int]:
    """Count attempts at a topology that others change meanwhile; after too many raises `StoreUnavailable`."""
    yield from range(MAX_ATTEMPTS + topology.config.shards)
    raise StoreUnavailable(f"topology {topology.name} is being changed by too many at once")
