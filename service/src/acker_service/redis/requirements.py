"""Checks that servers are configured so that no root is lost."""

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from acker_protocol.errors import StoreUnavailable
from redis.exceptions import ResponseError

from acker_service.redis import rights
from acker_service.redis.client import RedisClient
from acker_service.redis.durability import Durability, Mode

REQUIRED_POLICY = "noeviction"
"""The only policy under which Redis loses no pending root."""

NO_APPEND_ONLY_FILE = "Redis keeps no append-only file: a restart of it forgets what is pending; set appendonly yes"

_FOR_NOW = re.compile(r"BUSY|UNKILLABLE|LOADING|MASTERDOWN|TRYAGAIN")
"""How a server begins an error that ends by itself; one that was frozen within a function is BUSY when it goes on."""

_log = logging.getLogger(__name__)


class ServerRequirements:
    """Checks whether a store may be used.

    ``fsync_asserted`` says that an operator asserts ``appendfsync always`` where Redis hides its configuration.
    """

    def __init__(self, redis: RedisClient, durability: Durability, *, fsync_asserted: bool) -> None:
        self._redis = redis
        self._needs_fsync = durability.mode is Mode.FSYNC
        self._fsync_asserted = fsync_asserted
        self._config_readable = True

    async def violation(self, memories: Iterable[Mapping[str, Any]] | None = None) -> str | None:
        """Describe which requirement the store violates; None if it meets all. Raises `StoreUnavailable`.

        ``memories`` is what servers say of their memory; without it, all are asked.
        """
        for memory in await self._redis.on_every_server("INFO", "memory") if memories is None else memories:
            policy = memory.get("maxmemory_policy", REQUIRED_POLICY)
            if policy != REQUIRED_POLICY:
                return f"Redis has maxmemory-policy {policy}, which evicts pending roots; set it to {REQUIRED_POLICY}"
        return await self._fsync_violation() if self._needs_fsync else None

    async def mode_violation(self) -> str | None:
        """Describe how the server runs in another mode than its address says; None if it does not.

        Where one server of a cluster has all slots, most calls work, and those that name several shards do not.
        """
        if self._redis.is_cluster:
            return None
        [server] = await self._redis.on_every_server("INFO", "server")
        if "cluster" not in (server.get("server_mode"), server.get("redis_mode")):  # as Valkey and as Redis name it
            return None
        return "Redis runs in cluster mode; begin its address in ACKER_REDIS_URL with redis+cluster:// or rediss+cluster://"

    async def rights_violation(self) -> str | None:
        """Describe which right the login lacks, beside those that loading the library checks; None if it has them.

        Warn of one that the service can do without. Raises `StoreUnavailable`.
        """
        lacking = await self._redis.missing_rights()
        if needed := set(rights.WAIT) & set(lacking):
            return f"durability replica:n needs the right to wait for replicas: grant {rights.grants(needed)}"
        if lacking:
            _log.warning("%s", _without_channels(lacking))
        return None

    async def frees_in_foreground(self) -> bool:
        """Whether a server frees keys that expire while all requests wait; False where it hides its configuration."""
        return "no" in (await self._settings("lazyfree-lazy-expire") or ())

    async def log_warnings(self) -> None:
        """Warn of settings that are allowed, but lose roots."""
        if not all(await self._append_only()):
            _log.warning("%s", NO_APPEND_ONLY_FILE)

    async def warnings(self, infos: Sequence[Mapping[str, Any]]) -> list[str]:
        """Describe what should be changed about the servers, which say this of themselves, and about the login.

        Raises `StoreUnavailable`.
        """
        violation = await self.violation(infos)
        found = [] if violation is None else [violation]
        if not all(info.get("aof_enabled") or info.get("loading") for info in infos):
            found.append(NO_APPEND_ONLY_FILE)
        if lacking := await self._redis.missing_rights():
            found.append(_without_channels(lacking))
        return found

    async def _fsync_violation(self) -> str | None:
        if not all(await self._append_only()):
            return "durability fsync needs an append-only file: set appendonly yes"
        if all(value == "always" for value in await self._fsync_policies()):
            return None
        return "durability fsync needs appendfsync always, or ACKER_FSYNC_ASSERTED=true where Redis does not tell"

    async def _append_only(self) -> list[bool]:
        """Return which servers keep an append-only file. Raises `StoreUnavailable` while one loads its data."""
        infos = await self._redis.on_every_server("INFO", "persistence")
        if any(info.get("loading") for info in infos):  # Redis says that it keeps none while it reads it
            raise StoreUnavailable("the store loads its data")
        return [bool(info.get("aof_enabled")) for info in infos]

    async def _fsync_policies(self) -> list[str]:
        found = await self._settings("appendfsync")
        return ["always" if self._fsync_asserted else "unknown"] if found is None else found

    async def _settings(self, name: str) -> list[str] | None:
        """Return the value of a setting on every server; None where Redis hides its configuration."""
        if not self._config_readable:
            return None
        try:
            return [_value(reply) for reply in await self._redis.on_every_server("CONFIG GET", name)]
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, ResponseError) or _FOR_NOW.match(str(error.__cause__)):
                raise
            self._config_readable = False  # many managed services allow no CONFIG; one try is enough
            return None


def _without_channels(lacking: Collection[str]) -> str:
    return (
        "the login that ACKER_REDIS_URL names lacks rights on channels: readers and webhooks get completions up to a "
        f"second later, by polling, and pub/sub may deliver none; grant {rights.grants(lacking)} "
        "(docs/redis.md lists all)"
    )


def _value(reply: Any) -> str:
    """Read the reply to CONFIG GET of one parameter."""
    value = next(iter(reply.values()), "") if isinstance(reply, dict) else next(reversed(reply), "")
    return value.decode() if isinstance(value, bytes) else str(value)
