"""Says whether the store takes a write now: what makes a process ready."""

import asyncio
import contextlib
import math
import time

from acker_protocol.errors import ServiceError

from acker_service.background import cancel_and_wait
from acker_service.redis import keys
from acker_service.redis.client import RedisClient
from acker_service.topologies.registry import DEFAULT, TopologyRegistry

MAX_AGE_S = 1.0
"""Seconds for which a result is kept."""

WAIT_S = 1.5
"""Seconds that a caller waits at most: longer than replicas have to confirm a write."""


class Readiness:
    """Writes a key without a value, at most once a second however often it is asked.

    A store that is full takes this write: what is pending still ends there. With several servers, one that takes it is
    enough: the shards on that server can be served.
    """

    def __init__(self, redis: RedisClient, registry: TopologyRegistry) -> None:
        self._redis = redis
        self._registry = registry
        self._latest = (-math.inf, False)
        self._task: asyncio.Task[None] | None = None

    async def takes_writes(self) -> bool:
        """Whether a write succeeds, as `Durability` demands; False if that is not known after `WAIT_S`."""
        if time.monotonic() - self._latest[0] > MAX_AGE_S:
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._write())
            done, _ = await asyncio.wait([self._task], timeout=WAIT_S)
            if not done:
                return False
        return self._latest[1]

    async def stop(self) -> None:
        """Stop writing."""
        if self._task is not None:
            await cancel_and_wait(self._task)

    async def _write(self) -> None:
        """Write where the configuration is, and on every server that has a shard of the default topology."""
        written = [keys.TOPOLOGIES]
        with contextlib.suppress(ServiceError):
            written += (await self._registry.get(DEFAULT)).shards
        succeeds = False
        try:
            succeeds = await self._redis.takes_writes(written)
        finally:
            self._latest = (time.monotonic(), succeeds)
