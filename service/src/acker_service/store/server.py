"""Knows the Redis server: connects without retries, calls functions, turns its faults into problems."""

import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

from acker_protocol.problems import StoreFull, StoreUnavailable
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, RedisError
from redis.maint_notifications import MaintNotificationsConfig

from acker_service.store import library

_log = logging.getLogger(__name__)

Argument = str | bytes | int


class Server:
    """One Redis or Valkey. Every fault comes out as `StoreUnavailable`, a refusal for memory as `StoreFull`.

    Nothing is sent twice: redis-py's own retry would resend an XOR after a lost reply, so it is off.
    """

    def __init__(self, url: str, *, connections: int = 64, timeout: float = 5.0) -> None:
        """Name the server; ``timeout`` in seconds bounds connecting, waiting for a connection, and every answer."""
        self.url = url
        self._redis = Redis(connection_pool=_pool(url, connections, timeout))

    async def call(self, function: str, keys: Sequence[str], *args: Argument) -> Any:
        """Call a function of the library, loading it first if Redis forgot it."""
        command = ("FCALL", function, len(keys), *keys, *args)
        with _translated():
            try:
                return await self._redis.execute_command(*command)
            except RedisError as fault:
                if not library.is_missing(fault):
                    raise
            await library.load(self._redis)
            return await self._redis.execute_command(*command)

    async def call_each(self, function: str, calls: Sequence[tuple[str, Sequence[Argument]]]) -> list[Any]:
        """Call a function once per (key, arguments), in one round trip; each is atomic by itself."""
        pipe = self._redis.pipeline(transaction=False)
        for key, args in calls:
            pipe.execute_command("FCALL", function, 1, key, *args)
        with _translated():
            replies = await pipe.execute(raise_on_error=False)
        for index, (key, args) in enumerate(calls):
            if library.is_missing(replies[index]):
                replies[index] = await self.call(function, [key], *args)
        with _translated():
            for reply in replies:
                if isinstance(reply, Exception):
                    raise reply
        return replies

    async def command(self, *command: Argument) -> Any:
        """Run one plain command; only for reading and for the server's own state."""
        with _translated():
            return await self._redis.execute_command(*command)

    async def existing(self, keys: Sequence[str]) -> list[bool]:
        """Say of each key whether it exists."""
        pipe = self._redis.pipeline(transaction=False)
        for key in keys:
            pipe.exists(key)
        with _translated():
            return [bool(found) for found in await pipe.execute()]

    async def load(self) -> None:
        """Put the function library into Redis."""
        with _translated():
            await library.load(self._redis)

    @contextlib.asynccontextmanager
    async def subscribed(self, channel: str) -> AsyncIterator[Any]:
        """Listen to a channel on a connection of its own, which no timeout ends."""
        redis = Redis(connection_pool=_pool(self.url, 1, None))
        try:
            with _translated():
                pubsub = redis.pubsub(ignore_subscribe_messages=True)
                await pubsub.subscribe(channel)
                yield pubsub
        finally:
            await redis.aclose(close_connection_pool=True)

    async def close(self) -> None:
        """Close all connections."""
        await self._redis.aclose(close_connection_pool=True)


def _pool(url: str, connections: int, timeout: float | None) -> BlockingConnectionPool:
    return BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=timeout,
        socket_timeout=timeout,
        socket_connect_timeout=timeout or 5.0,
        retry=Retry(NoBackoff(), 0),
        maint_notifications_config=MaintNotificationsConfig(enabled=False),
    )


@contextlib.contextmanager
def _translated() -> Any:
    try:
        yield
    except OutOfMemoryError as fault:
        raise StoreFull("Redis has no memory left for new roots") from fault
    except (RedisError, OSError) as fault:
        _log.warning("Redis: %s", fault)
        raise StoreUnavailable("the store did not answer as it should") from fault
