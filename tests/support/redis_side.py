"""Looks into a store, and changes it, from Redis's side of it: on one server or on all there are."""

from typing import Any

from acker_service.components import Components
from acker_service.redis.node import Argument


async def everywhere(store: Components, *command: Argument) -> list[Any]:
    """Run a plain command on every server."""
    return await store.redis.on_every_server(*command)


async def at(store: Components, command: str, key: str | bytes, *args: Argument) -> Any:
    """Run a plain command where a key lives."""
    return await store.redis.read(command, key if isinstance(key, str) else key.decode(), *args)


async def flush(store: Components) -> None:
    """Empty it."""
    await everywhere(store, "FLUSHALL")


async def find(store: Components, pattern: str) -> list[str]:
    """Give the keys that match."""
    return [key.decode() for keys in await everywhere(store, "KEYS", pattern) for key in keys]


async def now_ms(store: Components, key: str) -> int:
    """Tell the time of the server that has a key."""
    return await store.redis.now_ms(key)


async def used_memory(store: Components) -> int:
    """Say how many bytes a single server uses."""
    (memory,) = await everywhere(store, "INFO", "memory")
    return int(memory["used_memory"])
