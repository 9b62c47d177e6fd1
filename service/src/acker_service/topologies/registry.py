"""Reads and writes the configurations of topologies, and caches them until a stamp proves the cache stale."""

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from typing import Any, TypeVar

from acker_protocol import routes
from acker_protocol.errors import StoreUnavailable, TopologyBusy, UnknownTopology

from acker_service.redis import functions
from acker_service.redis.calls import Call
from acker_service.redis.client import RedisClient
from acker_service.redis.functions.topologies import StoredTopology
from acker_service.redis.functions.traces import TraceLimits
from acker_service.redis.stamp import StaleStamp, Stamp
from acker_service.topologies.config import BUCKETS, TopologyConfig, from_stored, merge
from acker_service.topologies.topology import DEFAULT_LIMITS, Deletion, Topology, TopologyRecreated

T = TypeVar("T")

DEFAULT = "default"
"""The topology that always exists."""

MAX_ATTEMPTS = 8
"""How often a write is tried while others write the same."""

DELETION_TIMEOUT_MS = 10_000
"""Time after which another replica may take over a deletion."""

POLL_INTERVAL_S = 0.05

_log = logging.getLogger(__name__)


class TopologyRegistry:
    """Reads and writes topologies.

    ``window_ms`` is how long requests are remembered at least, in milliseconds; ``buckets`` how many small hashes a
    shard of the default topology gets, whose dedupe window is automatic. ``trace_limits`` bound the traces of each
    topology.
    """

    def __init__(
        self,
        redis: RedisClient,
        *,
        window_ms: int,
        buckets: int = BUCKETS,
        trace_limits: TraceLimits = DEFAULT_LIMITS,
    ) -> None:
        self._redis = redis
        self._default = merge(None, {"dedupe_window_ms": None}, buckets=buckets)
        self._window_ms = window_ms
        self._trace_limits = trace_limits
        self._cache: dict[str, Topology] = {}

    def cached(self, name: str) -> Topology | None:
        """Return a topology if it is in the cache."""
        return self._cache.get(name)

    async def get(self, name: str) -> Topology:
        """Return a topology, from the cache if it is there. Raises `UnknownTopology`."""
        return self._cache.get(name) or await self.refresh(name)

    async def with_current(self, name: str, work: Callable[[Topology], Awaitable[T]]) -> T:
        """Do some work on a topology, and once more if the cached topology was deleted and created again."""
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
            raise UnknownTopology(f"there is no topology {name}; PUT {routes.topology(name)} creates it")
        return topology

    def all_cached(self) -> list[Topology]:
        """Return all topologies that are in the cache."""
        return list(self._cache.values())

    async def refresh_all(self) -> list[str]:
        """Read all topologies in the cache again, and the names of all, in one round trip, and return the names.

        All configuration lies on one server. A topology that was deleted leaves the cache.
        """
        cached = list(self._cache)
        names = functions.topologies.topology_names()
        calls: list[Call[Any]] = [names, *map(functions.topologies.read_topology, cached)]
        found, *stored = await self._redis.execute_each(calls)
        await self._redis.wait_replicated(names)
        for name, topology in zip(cached, stored, strict=True):
            self._cache_stored(name, topology)
        return list(found)

    async def names(self) -> list[str]:
        """List the names of all topologies."""
        return await self._redis.execute(functions.topologies.topology_names())

    async def create_or_update(
        self, name: str, change: Callable[[TopologyConfig | None], TopologyConfig], floor: Stamp | None = None
    ) -> Topology:
        """Create or update a topology: ``change`` gives the new configuration from the present one, or from None.

        It is written only if it was not changed since it was read, with a stamp above ``floor``, and every shard is
        stamped then. Idempotent if ``change`` is.
        """
        for _ in retries(f"topology {name}"):
            present = await self._find(name)
            if present is not None and present.deletion is not None:
                present = await self._wait_while_deleting(present)
            config = change(present.config if present else None)
            # rule: a new topology is above the tombstones
            floor = floor or (None if present else await self._highest_stamp(name, config))
            if not present and floor and not floor.is_tombstone:
                _log.error(
                    "topology %s is created again: its configuration was lost, and with it what its shards hold", name
                )
            written = await self._redis.execute(
                functions.topologies.write_topology(
                    name,
                    present=present.stamp if present else None,
                    document=json.dumps(asdict(config)),
                    random_hex=secrets.token_hex(2),
                    floor=floor,
                )
            )
            if written:
                topology = self._cache_topology(name, written, config)
                await self.stamp_shards(topology)
                return topology
        raise AssertionError("retries end by raising")

    def evict(self, name: str) -> None:
        """Remove a topology from the cache."""
        self._cache.pop(name, None)

    async def refresh_after(self, topology: Topology, stale: StaleStamp) -> Topology:
        """Read a topology again after a shard called its stamp stale, and stamp all shards if that one had no stamp.

        A shard may be ahead of a configuration that a failover lost: the configuration is then written again, above
        the shard. Raises `StoreUnavailable` if the topology was created again with another layout.
        """
        self.evict(topology.name)
        refreshed = await self.refresh(topology.name)
        if stale.stamp and stale.stamp.is_tombstone and stale.stamp.incarnation == refreshed.incarnation:
            refreshed = await self._repeat_deletion(refreshed)
        while refreshed.deletion is Deletion.DELETING:
            refreshed = await self.wait_for_deletion(refreshed)
        # rule: a shard without a stamp is stamped by what was read
        if not stale.stamp:
            await self.stamp_shards(refreshed)
        elif stale.stamp.is_newer_than(refreshed.stamp):
            refreshed = await self.create_or_update(
                topology.name, lambda present: present or topology.config, stale.stamp
            )
        known = self._cache.get(topology.name)
        # rule: what others wrote meanwhile is newer than what was read
        if known is not None and known.stamp.is_newer_than(refreshed.stamp):
            refreshed = known
        if refreshed.layout != topology.layout:
            raise TopologyRecreated(f"topology {topology.name} was made again meanwhile")
        return refreshed

    async def wait_for_deletion(self, topology: Topology) -> Topology:
        """Wait a moment for a topology that is being deleted, and read it again.

        Raises `UnknownTopology` once it is deleted, `StoreUnavailable` if that takes too long: the tick of any replica
        then takes the deletion over.
        """
        if await self.now_ms() - topology.deletion_started_ms > DELETION_TIMEOUT_MS:
            raise StoreUnavailable(f"topology {topology.name} is being removed, and that takes long")
        await asyncio.sleep(POLL_INTERVAL_S)
        return await self.refresh(topology.name)

    async def now_ms(self) -> int:
        """Read the clock of the Redis that has the configuration, in Unix milliseconds."""
        return await self._redis.now_ms()

    async def set_deletion(self, topology: Topology, deletion: Deletion | None) -> Topology:
        """Mark a topology for deletion, or remove the mark, and stamp all shards.

        Every call that names an older stamp is stale from then on. Raises `TopologyBusy` if the topology was changed
        since it was read.
        """
        call = functions.topologies.mark_topology(topology.name, stamp=topology.stamp, mark=deletion or "")
        written = await self._redis.execute(call)
        if written is None:
            raise TopologyBusy(f"topology {topology.name} was changed meanwhile")
        marked = self._cache_topology(topology.name, written.stamp, topology.config, written.mark)
        await self.stamp_shards(marked)
        return marked

    async def stamp_shards(self, topology: Topology) -> None:
        """Stamp all shards of a topology; a shard with a higher stamp keeps it."""
        await self._redis.execute_each(
            [functions.topologies.stamp_shard(key, topology.stamp) for key in topology.shards]
        )

    async def _highest_stamp(self, name: str, config: TopologyConfig) -> Stamp | None:
        """Return the highest stamp on the shards of a new topology: its incarnation has to be above it."""
        calls = [functions.topologies.read_stamp(name, shard) for shard in range(config.shards)]
        return max((stamp for stamp in await self._redis.execute_each(calls) if stamp), default=None)

    async def _wait_while_deleting(self, topology: Topology) -> Topology | None:
        """Wait until a topology is no longer marked, or deleted (None). Raises `TopologyBusy` while it drains."""
        while topology.deletion is not None:
            if topology.deletion is Deletion.DRAINING:
                raise TopologyBusy(f"topology {topology.name} is being deleted")
            try:
                topology = await self.wait_for_deletion(topology)
            except UnknownTopology:
                return None
        return topology

    async def _repeat_deletion(self, topology: Topology) -> Topology:
        """Mark a topology again whose shards have tombstones but whose mark was lost in a failover."""
        return topology if topology.deletion else await self.set_deletion(topology, Deletion.DELETING)

    async def _find(self, name: str) -> Topology | None:
        call = functions.topologies.read_topology(name)
        stored = await self._redis.execute(call)
        if stored is not None:
            await self._redis.wait_replicated(call)
        return self._cache_stored(name, stored)

    def _cache_stored(self, name: str, stored: StoredTopology | None) -> Topology | None:
        """Put a topology into the cache as it is stored, or remove it if it is not."""
        if stored is None:
            self.evict(name)
            return None
        return self._cache_topology(name, stored.stamp, from_stored(json.loads(stored.document)), stored.mark)

    def _cache_topology(self, name: str, stamp: Stamp, config: TopologyConfig, mark: str = "") -> Topology:
        deletion, _, started_ms = mark.partition(" ")
        topology = Topology(
            name=name,
            stamp=stamp,
            config=config,
            window_ms=self._window_ms,
            trace_limits=self._trace_limits,
            deletion=Deletion(deletion) if deletion else None,
            deletion_started_ms=int(started_ms or 0),
        )
        if topology == (cached := self._cache.get(name)):
            return cached  # with the settings and keys that it has computed
        self._cache[name] = topology
        return topology


def retries(subject: str, *, shards: int = 0) -> Iterator[int]:
    """Count the attempts of a call that a shard refuses for a stale stamp, or of a write that meets concurrent writes.

    Raises `StoreUnavailable` after the last. ``shards`` adds one attempt for each shard whose stamp may prove stale.
    """
    yield from range(MAX_ATTEMPTS + shards)
    raise StoreUnavailable(f"{subject} is being changed by too many at once")
