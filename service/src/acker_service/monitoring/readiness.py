"""Says whether the store takes a write now, which makes a process ready, and whether a worker ends roots."""

import asyncio
import contextlib
import math
import time
from dataclasses import dataclass

from acker_protocol.errors import ServiceError, StoreUnavailable

from acker_service.background import cancel_and_wait
from acker_service.redis import functions, keys
from acker_service.redis.client import RedisClient
from acker_service.topologies.registry import DEFAULT, TopologyRegistry

MAX_AGE_S = 1.0
"""Seconds for which a result is kept."""

WAIT_S = 1.5
"""Seconds that a caller waits at most: longer than replicas have to confirm a write."""

TICKS_WAIT_S = 1.0
"""Seconds that the store has to say whether a worker ends roots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """Whether a write succeeds, as `Durability` demands, and whether a worker expired roots in the last ten seconds."""

    takes_writes: bool = False
    ticking: bool = False


class Readiness:
    """Writes a key without a value and looks for a worker, at most once a second however often it is asked.

    A store that is full takes this write: what is pending still ends there. With several servers, one that takes it is
    enough: the shards on that server can be served.
    """

    def __init__(self, redis: RedisClient, registry: TopologyRegistry) -> None:
        self._redis = redis
        self._registry = registry
        self._latest = StoreState()
        self._latest_s = -math.inf
        self._task: asyncio.Task[None] | None = None

    async def look(self) -> StoreState:
        """Return how the store is; neither is true if that is not known after `WAIT_S`."""
        if time.monotonic() - self._latest_s > MAX_AGE_S:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._ask())
            done, _ = await asyncio.wait([self._task], timeout=WAIT_S)
            if not done:
                return StoreState()
        return self._latest

    async def stop(self) -> None:
        """Stop asking."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _ask(self) -> None:
        found = StoreState()
        try:
            takes_writes, ticking = await asyncio.gather(self._takes_writes(), self._is_ticking())
            found = StoreState(takes_writes=takes_writes, ticking=ticking)
        finally:
            self._latest = found
            self._latest_s = time.monotonic()

    async def _takes_writes(self) -> bool:
        """Write where the configuration is, and on every server that has a shard of the default topology."""
        written = [keys.TOPOLOGIES]
        with contextlib.suppress(ServiceError):
            written += (await self._registry.get(DEFAULT)).shards
        return await self._redis.takes_writes(written)

    async def _is_ticking(self) -> bool:
        try:
            return await asyncio.wait_for(self._redis.execute(functions.topologies.worker_seen()), TICKS_WAIT_S)
        except (TimeoutError, StoreUnavailable):
            return False
