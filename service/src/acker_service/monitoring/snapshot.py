"""Reads the state of the whole store: memory, counts of all topologies, backlogs of callbacks."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from acker_protocol.errors import ServiceError

from acker_service.background import cancel_and_wait
from acker_service.monitoring.ages import AgeReader
from acker_service.redis import functions
from acker_service.redis.client import RedisClient
from acker_service.topologies.config import ROOTS_PER_BUCKET
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.stats import SpoutCounts, StatsReader
from acker_service.topologies.topology import Topology

MIN_INTERVAL_S = 1.0
"""Seconds between two snapshots at least."""

MAX_AGE_S = 10.0
"""Seconds after which a snapshot is too old to use."""

WAIT_S = 1.0
"""Seconds that a caller waits for a snapshot at most."""

MAX_ROOTS_PER_BUCKET = 128
"""Pending roots in each bucket, on average, from which on a warning says that a topology has too few buckets.

That is four times as many as take the least memory; with their outcomes they come near the most of a small hash.
"""

Memory = tuple[int, int]
"""Bytes that a server uses, and its limit in bytes; 0 is no limit."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSnapshot:
    """The fullest server's memory in bytes (``max_bytes`` 0: no limit), and the counts of all topologies.

    ``worker_seen`` is whether a worker expired roots lately.
    """

    used_bytes: int
    max_bytes: int
    topologies: list[tuple[Topology, SpoutCounts]]
    worker_seen: bool = True


class StoreMonitor:
    """Takes snapshots of the store, one for all callers."""

    def __init__(self, redis: RedisClient, registry: TopologyRegistry, stats: StatsReader, ages: AgeReader) -> None:
        self._redis = redis
        self._registry = registry
        self._stats = stats
        self._ages = ages
        self._latest: tuple[float, StoreSnapshot] | None = None
        self._task: asyncio.Task[None] | None = None
        self._crowded: set[str] = set()

    async def refresh(self) -> StoreSnapshot:
        """Take a snapshot, as far as servers answer. Raises `StoreUnavailable` if none does."""
        try:
            snapshot = await self._read()
        except ServiceError:
            self._latest = None
            raise
        self._latest = (time.monotonic(), snapshot)
        return snapshot

    async def memories(self) -> list[Mapping[str, Any]]:
        """Read what the servers that answer say of their memory. Raises `StoreUnavailable` if none does."""
        return await self._redis.on_any_server("INFO", "memory")

    def expire(self) -> None:
        """Let the next caller take a new snapshot: the state of the store has changed."""
        self._latest = None

    async def latest(self) -> StoreSnapshot | None:
        """Return a recent snapshot, after `WAIT_S` at most; None if the store does not answer. Never raises."""
        if self._age() > MIN_INTERVAL_S:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._refresh_quietly())
            await asyncio.wait([self._task], timeout=WAIT_S)
        return self._latest[1] if self._latest is not None and self._age() <= MAX_AGE_S else None

    async def stop(self) -> None:
        """Stop taking a snapshot."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _read(self) -> StoreSnapshot:
        used_bytes, max_bytes = fullest(await self.memories())
        names = await self._registry.names()
        found = await asyncio.gather(*map(self._count, names))
        worker_seen = await self._redis.execute(functions.topologies.worker_seen())
        counts = [counted for counted in found if counted is not None]
        return StoreSnapshot(used_bytes=used_bytes, max_bytes=max_bytes, topologies=counts, worker_seen=worker_seen)

    async def _count(self, name: str) -> tuple[Topology, SpoutCounts] | None:
        """Count a topology; None if it is deleted meanwhile, or its servers do not answer."""
        with contextlib.suppress(ServiceError):
            topology = await self._registry.get(name)
            counts = await self._stats.read(topology)
            self._warn_of_few_buckets(topology, counts.pending.total())
            return topology, replace(counts, ages=await self._ages.read(topology, counts))
        return None

    def _warn_of_few_buckets(self, topology: Topology, pending: int) -> None:
        """Log once that a topology has too few buckets, and again only if it had enough meanwhile."""
        buckets = topology.config.buckets * topology.config.shards
        if pending < buckets * MAX_ROOTS_PER_BUCKET // 2:
            self._crowded.discard(topology.name)
        elif pending >= buckets * MAX_ROOTS_PER_BUCKET and topology.name not in self._crowded:
            self._crowded.add(topology.name)
            _log.warning(
                "topology %s keeps %d pending roots in %d buckets, which takes more memory and time than it has to: "
                "set ACKER_BUCKETS to %d or more and create the topology again (docs/more-ackers.md)",
                *(topology.name, pending, buckets, pending // topology.config.shards // ROOTS_PER_BUCKET),
            )

    async def _refresh_quietly(self) -> None:
        try:
            await self.refresh()
        except ServiceError as error:
            _log.debug("could not look: %s", error.detail)
        except Exception:  # noqa: BLE001 - callers get no snapshot instead of an error
            _log.exception("looking at the store failed")

    def _age(self) -> float:
        return time.monotonic() - self._latest[0] if self._latest is not None else math.inf


def fullest(memories: Iterable[Mapping[str, Any]]) -> Memory:
    """Return the memory of the server that uses most of its own."""
    # rule: the fullest server says how full the store is
    return max(((int(it["used_memory"]), int(it.get("maxmemory", 0))) for it in memories), key=memory_ratio)


def memory_ratio(memory: Memory) -> float:
    """Return the share of its memory limit that a server uses; 0 without a limit."""
    used_bytes, max_bytes = memory
    # rule: a store without maxmemory is never full
    return used_bytes / max_bytes if max_bytes else 0.0
