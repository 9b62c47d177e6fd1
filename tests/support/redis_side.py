"""Looks into a store, and changes it, from Redis's side of it: on one server or on all there are."""

from collections.abc import Sequence
from typing import Any

from acker_service.components import Components
from acker_service.redis.calls import Argument, ShardCall, fcall, read
from acker_service.topologies.topology import Topology


async def everywhere(parts: Components, *command: Argument) -> list[Any]:
    """Run a plain command on every server."""
    return await parts.redis.on_every_server(*command)


async def at(parts: Components, command: str, key: str | bytes, *args: Argument) -> Any:
    """Run a plain command where a key lives."""
    name = key if isinstance(key, str) else key.decode()
    return await parts.redis.execute(read(command, name, *args, decode=_raw))


async def call(parts: Components, function: str, keys: Sequence[str], *args: Argument) -> Any:
    """Call a function of the library and give its reply as it is."""
    return await parts.redis.execute(fcall(function, tuple(keys), *args, decode=_raw))


async def ask(parts: Components, topology: Topology, shard: int, function: str, *args: Argument) -> list[Any]:
    """Call a function on a shard as the store does; gives its reply as it is, without the leading word."""
    _, reply = await parts.shards.call(topology, shard, ShardCall(function=function, args=args, decode=list))
    return reply


async def flush(parts: Components) -> None:
    """Empty it."""
    await everywhere(parts, "FLUSHALL")


async def find(parts: Components, pattern: str) -> list[str]:
    """Give the keys that match."""
    return [key.decode() for keys in await everywhere(parts, "KEYS", pattern) for key in keys]


async def now_ms(parts: Components, key: str) -> int:
    """Tell the time of the server that has a key."""
    return await parts.redis.now_ms(key)


async def used_memory(parts: Components) -> int:
    """Say how many bytes all servers use together."""
    return sum(int(memory["used_memory"]) for memory in await everywhere(parts, "INFO", "memory"))


def _raw(reply: Any) -> Any:
    return reply
