"""Knows one Redis process: connections to it, none of which ever sends anything twice."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from acker_protocol.errors import StoreUnavailable
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.maint_notifications import MaintNotificationsConfig

from acker_service.redis import library
from acker_service.redis.errors import as_problems, normalized

Argument = str | bytes | int
Command = tuple[Argument, ...]

CONFIRM_MS = 1_000
"""Replicas have so long to say that they have a write."""

RETIRE_S = 10.0
"""A server that is left is given so long to answer what was asked before."""

PROBE_S = 1.0
"""A server that does not answer a probe within so many seconds is passed over."""


class Node:
    """One Redis or Valkey. Faults of a connection are raised as they are, those of a command are among the replies.

    redis-py's own retry would resend an XOR after a lost reply, so it is off.
    """

    def __init__(self, url: str, *, connections: int = 64, timeout: float = 5.0) -> None:
        """Name the server; ``timeout`` in seconds bounds connecting, waiting for a connection, and every answer."""
        self.url = url
        self._redis = Redis(connection_pool=_pool(url, connections, timeout))
        self._is_loaded = False
        self._busy = 0
        self._ended = asyncio.Event()

    async def run(self, commands: Sequence[Command], *, replicas: int = 0) -> list[Any]:
        """Send commands in one round trip; each is atomic by itself.

        With ``replicas``, what was done counts only once so many of them have it: a write of our own behind it is
        waited for, because a command that wrote nothing (a repeat) would else not wait for what it answers by.
        """
        self._busy += 1
        try:
            with normalized():
                if not self._is_loaded:
                    await self._load_once()
                return await (self._run_confirmed(commands, replicas) if replicas else self._run(commands))
        finally:
            self._busy -= 1
            self._ended.set()

    async def command(self, *command: Argument) -> Any:
        """Run one plain command; only for reading and for the server's own state."""
        with as_problems():
            return await self._redis.execute_command(*command)

    async def load(self) -> None:
        """Put the function library into Redis."""
        with as_problems():
            await library.load(self._redis)

    async def listen(self, channels: Sequence[str], take: Callable[[bytes], None]) -> None:
        """Take what is published on shard channels, on a connection of its own, until cancelled.

        Raises `StoreUnavailable` when the connection ends or a channel goes to another server.
        """
        redis = Redis(connection_pool=_pool(self.url, 1, None))
        try:
            async with contextlib.aclosing(_published(redis, channels)) as messages:
                async for message in messages:
                    take(message)
        finally:
            await redis.aclose(close_connection_pool=True)

    async def retire(self) -> None:
        """Close all connections once nothing is under way any more, or after so long that nothing can be."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETIRE_S):
                while self._busy:
                    self._ended.clear()
                    await self._ended.wait()
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._redis.aclose(close_connection_pool=True)

    async def _load_once(self) -> None:
        """See to it that this server has no older library than this: it may have been away when the others got it."""
        await library.load(self._redis)
        self._is_loaded = True

    async def _run(self, commands: Sequence[Command]) -> list[Any]:
        if len(commands) > 1:
            return await self._pipe(commands)
        try:
            return [await self._redis.execute_command(*commands[0])]
        except RedisError as fault:
            return [fault]

    async def _pipe(self, commands: Sequence[Command]) -> list[Any]:
        pipe = self._redis.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        return list(await pipe.execute(raise_on_error=False))

    async def _run_confirmed(self, commands: Sequence[Command], replicas: int) -> list[Any]:
        barrier: Command = ("FCALL", "acker_barrier_v1", 1, str(commands[-1][3]))
        *replies, written, have = await self._pipe([*commands, barrier, ("WAIT", replicas, CONFIRM_MS)])
        if isinstance(written, Exception) or not isinstance(have, int) or have < replicas:
            unconfirmed = StoreUnavailable(f"only {have} of {replicas} replicas have it")
            return [reply if isinstance(reply, Exception) else unconfirmed for reply in replies]
        return replies


async def probe(url: str, *command: Argument) -> Any:
    """Ask a server one thing, on a connection of its own and without patience. Raises redis-py's errors."""
    redis = Redis(connection_pool=_pool(url, 1, PROBE_S, decode_responses=True))
    try:
        async with asyncio.timeout(2 * PROBE_S):
            with normalized():
                return await redis.execute_command(*command)
    finally:
        await redis.aclose(close_connection_pool=True)


async def _published(redis: Redis, channels: Sequence[str]) -> AsyncGenerator[bytes, None]:
    with as_problems():
        pubsub = redis.pubsub()
        for channel in channels:  # one at a time: those of several slots may not be named together
            await pubsub.ssubscribe(channel)
        async for message in pubsub.listen():
            if message["type"] == "sunsubscribe":
                raise StoreUnavailable("a channel went to another server")
            if message["type"] == "smessage":
                yield message["data"]


def check(url: str) -> None:
    """Raise `ValueError` if redis-py knows no such address, or an option in it would change what it answers."""
    try:
        pool = _pool(url, 1, PROBE_S)
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError) as fault:
        raise ValueError(f"the store's address cannot be used: {fault}") from None
    if pool.connection_kwargs.get("decode_responses"):
        raise ValueError("the store's address must not say decode_responses: what is kept is bytes")


def _pool(url: str, connections: int, timeout: float | None, **options: Any) -> BlockingConnectionPool:
    return BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=timeout,
        socket_timeout=timeout,
        socket_connect_timeout=timeout or 5.0,
        retry=Retry(NoBackoff(), 0),
        maint_notifications_config=MaintNotificationsConfig(enabled=False),
        **options,
    )
