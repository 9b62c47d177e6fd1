"""Knows what servers have to be like for nothing to be lost."""

import logging
from typing import Any

from acker_protocol.errors import StoreUnavailable
from redis.exceptions import ResponseError

from acker_service.redis.client import RedisClient
from acker_service.redis.durability import Durability, Mode

REQUIRED_POLICY = "noeviction"
"""The only policy under which Redis loses no pending root."""

_log = logging.getLogger(__name__)


class ServerRequirements:
    """Looks whether a store may be used.

    ``fsync_asserted`` says that an operator vouches for ``appendfsync always`` where Redis does not tell.
    """

    def __init__(self, server: RedisClient, durability: Durability, *, fsync_asserted: bool) -> None:
        self._server = server
        self._synced = durability.mode is Mode.FSYNC
        self._asserted = fsync_asserted
        self._config_readable = True

    async def violation(self) -> str | None:
        """Say what is wrong with the store, if anything is. Raises `StoreUnavailable`."""
        for memory in await self._server.on_every_server("INFO", "memory"):
            policy = memory.get("maxmemory_policy", REQUIRED_POLICY)
            if policy != REQUIRED_POLICY:
                return f"Redis has maxmemory-policy {policy}, which evicts pending roots; set it to {REQUIRED_POLICY}"
        return await self._fsync_violation() if self._synced else None

    async def log_warnings(self) -> None:
        """Warn of what is not forbidden, but will lose roots."""
        if not all(await self._appending()):
            _log.warning("Redis keeps no append-only file: a restart of it forgets what is pending; set appendonly yes")

    async def _fsync_violation(self) -> str | None:
        if not all(await self._appending()):
            return "durability fsync needs an append-only file: set appendonly yes"
        if all(value == "always" for value in await self._syncing()):
            return None
        return "durability fsync needs appendfsync always, or ACKER_FSYNC_ASSERTED=true where Redis does not tell"

    async def _appending(self) -> list[bool]:
        return [bool(info.get("aof_enabled")) for info in await self._server.on_every_server("INFO", "persistence")]

    async def _syncing(self) -> list[str]:
        if not self._config_readable:
            return ["always" if self._asserted else "unknown"]
        try:
            return [_value(reply) for reply in await self._server.on_every_server("CONFIG GET", "appendfsync")]
        except StoreUnavailable as fault:
            if not isinstance(fault.__cause__, ResponseError):
                raise
            self._config_readable = False  # many managed services allow no CONFIG; asking once is enough
            return await self._syncing()


def _value(reply: Any) -> str:
    """Read the answer to CONFIG GET of one thing."""
    value = next(iter(reply.values()), "") if isinstance(reply, dict) else reply[-1]
    return value.decode() if isinstance(value, bytes) else str(value)
