"""Looks into a store, and changes it, from Redis's side of it: on one server or on all there are."""

from typing import Any

from acker_service.redis.node import Argument
from acker_service.store import Store


async def everywhere(store: Store, *command: Argument) -> list[Any]:
    """Run a plain command on every server."""
    return await store.redis.on_every_server(*command)


async def at(store: Store, command: str, key: str | bytes, *args: Argument) -> Any:
    """Run a plain command where a key lives."""
    return await store.redis.read(command, key if isinstance(key, str) else key.decode(), *args)


async def flush(store: Store) -> None:
    """Empty it."""
    await everywhere(store, "FLUSHALL")


async def find(store: Store, pattern: str) -> list[str]:
    """Give the keys that match."""
    return [key.decode() for keys in await everywhere(store, "KEYS", pattern) for key in keys]


async def now_ms(store: Store, key: str) -> int:
    """Tell the time of the server that has a key."""
    return await store.redis.now_ms(key)


async def used_memory(store: Store) -> int:
    """Say how many bytes a single server uses."""
    (memory,) = await everywhere(store, "INFO", "memory")
    return int(memory["used_memory"])
