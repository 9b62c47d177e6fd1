"""Knows how the whole store stood when it was last looked at."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from acker_protocol.errors import ServiceError

from acker_service.background import cancel_and_wait
from acker_service.monitoring.backlogs import BacklogReader
from acker_service.redis import keys
from acker_service.redis.client import RedisClient
from acker_service.topologies.registry import TopologyRegistry
from acker_service.topologies.stamp import Topology
from acker_service.topologies.stats import SpoutCounts, StatsReader

MIN_INTERVAL_S = 1.0
"""A look is not taken again before that."""

MAX_AGE_S = 10.0
"""A look that is older tells nothing any more."""

WAIT_S = 1.0
"""Whoever asks waits so long at most for a look."""

Memory = tuple[int, int]
"""Bytes that a server uses, and how many it may; 0: no bound."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSnapshot:
    """What a look found: the fullest server's memory in bytes (``most`` 0: no bound), the counts of all topologies.

    ``ticked`` is whether a worker let time pass lately.
    """

    used_bytes: int
    max_bytes: int
    topologies: list[tuple[Topology, SpoutCounts]]
    worker_seen: bool = True


class StoreMonitor:
    """Looks at the whole store, once for all who ask."""

    def __init__(
        self, server: RedisClient, topologies: TopologyRegistry, counts: StatsReader, backlogs: BacklogReader
    ) -> None:
        self._server, self._topologies, self._counts, self._backlogs = server, topologies, counts, backlogs
        self._latest: tuple[float, StoreSnapshot] | None = None
        self._task: asyncio.Task[None] | None = None

    async def refresh(self) -> StoreSnapshot:
        """Look at Redis's memory and at all topologies, as far as servers answer. Raises `StoreUnavailable`."""
        try:
            look = await self._read()
        except ServiceError:
            self._latest = None
            raise
        self._latest = (time.monotonic(), look)
        return look

    async def memory_usage(self) -> Memory:
        """Look at the memory of the fullest server that answers. Raises `StoreUnavailable` if none does."""
        return max((_memory(info) for info in await self._server.on_any_server("INFO", "memory")), key=memory_ratio)

    async def latest(self) -> StoreSnapshot | None:
        """Give a look that is recent; None if the store does not answer. Never raises, and waits a moment at most."""
        if self._age() > MIN_INTERVAL_S:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._refresh_quietly())
            await asyncio.wait([self._task], timeout=WAIT_S)
        return self._latest[1] if self._latest is not None and self._age() <= MAX_AGE_S else None

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _read(self) -> StoreSnapshot:
        used, most = await self.memory_usage()
        names = await self._topologies.names()
        found = await asyncio.gather(*map(self._count, names))
        ticked = bool(await self._server.read("EXISTS", keys.TICKED))
        counts = [counted for counted in found if counted is not None]
        return StoreSnapshot(used_bytes=used, max_bytes=most, topologies=counts, worker_seen=ticked)

    async def _count(self, name: str) -> tuple[Topology, SpoutCounts] | None:
        """Count a topology; None if it has gone meanwhile, or cannot be counted now."""
        with contextlib.suppress(ServiceError):
            topology = await self._topologies.get(name)
            counts = await self._counts.read(topology)
            return topology, replace(counts, backlogs=await self._backlogs.read(topology, counts))
        return None

    async def _refresh_quietly(self) -> None:
        try:
            await self.refresh()
        except ServiceError as problem:
            _log.debug("could not look: %s", problem.detail)
        except Exception:  # noqa: BLE001 - who asks is told nothing, rather than refused
            _log.exception("looking at the store failed")

    def _age(self) -> float:
        return time.monotonic() - self._latest[0] if self._latest is not None else math.inf


def memory_ratio(memory: Memory) -> float:
    """Say how much of its memory a server uses; 0 where that has no bound."""
    used, most = memory
    return used / most if most else 0.0


def _memory(info: Mapping[str, Any]) -> Memory:
    return int(info["used_memory"]), int(info.get("maxmemory", 0))
