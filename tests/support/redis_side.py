"""Looks into a store, and changes it, from Redis's side of it: on one server or on all there are."""

from collections.abc import Sequence
from typing import Any

from acker_service.components import Components
from acker_service.redis.calls import Argument, Call, ShardCall, fcall
from acker_service.topologies.topology import Topology

LONGEST_MARKER = 3
"""Bytes of the longest value that says how a finished root ended (lua/buckets.lua)."""


async def everywhere(parts: Components, *command: Argument) -> list[Any]:
    """Run a plain command on every server."""
    return await parts.redis.on_every_server(*command)


async def at(parts: Components, command: str, key: str | bytes, *args: Argument) -> Any:
    """Run a plain command where a key lives; its name is as `find` gives it."""
    name = key if isinstance(key, bytes) else key.encode(errors="surrogateescape")
    where = name.decode(errors="replace")  # names of buckets are raw behind the hash tag, which decides the server
    full = (command, name, *args)
    return await parts.redis.execute(Call(key=where, name=command, command=full, decode=_raw, confirm=False))


async def on_server_of(parts: Components, key: str, *command: Argument) -> Any:
    """Run a plain command on the server that a key belongs to; needs no library there, unlike `at`."""
    node = await parts.redis._slot_map.of(key)
    return await node.command(*command)


async def call(parts: Components, function: str, keys: Sequence[str], *args: Argument) -> Any:
    """Call a function of the library and give its reply as it is."""
    return await parts.redis.execute(fcall(function, tuple(keys), *args, decode=_raw))


async def ask(parts: Components, topology: Topology, shard: int, function: str, *args: Argument) -> list[Any]:
    """Call a function on a shard as the store does, and return its reply as it is, without the leading word."""
    _, reply = await parts.shards.call(topology, shard, ShardCall(function=function, args=args, decode=list))
    return reply


async def flush(parts: Components) -> None:
    """Empty it."""
    await everywhere(parts, "FLUSHALL")


async def find(parts: Components, pattern: str) -> list[str]:
    """Return the keys that match; bytes that are no UTF-8 stand there as lone surrogates."""
    names = [key for keys in await everywhere(parts, "KEYS", pattern) for key in keys]
    return [name.decode(errors="surrogateescape") for name in names]


def let_redis_count(parts: Components, *, counts: bool) -> None:
    """Let Redis add up the pending roots of all shards under a cap, if one server has them; else the service."""
    parts.applier.limiter.counts_in_redis = counts and not parts.redis.is_cluster


async def forget_outcomes(parts: Components) -> None:
    """Let the outcomes of finished roots be forgotten, as they are after the retention."""
    for bucket in await find(parts, "acker:*:r????"):
        values = await at(parts, "HGETALL", bucket)
        for root_id, value in values.items():
            if len(value) <= LONGEST_MARKER:
                await at(parts, "HDEL", bucket, root_id)


async def now_ms(parts: Components, key: str) -> int:
    """Tell the time of the server that has a key."""
    return await parts.redis.now_ms(key)


async def used_memory(parts: Components) -> int:
    """Return how many bytes all servers use together."""
    return sum(int(memory["used_memory"]) for memory in await everywhere(parts, "INFO", "memory"))


def _raw(reply: Any) -> Any:
    return reply
