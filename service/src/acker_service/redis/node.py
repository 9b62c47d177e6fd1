"""Connects to one Redis process and never sends a command twice."""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from acker_protocol.errors import StoreUnavailable
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.maint_notifications import MaintNotificationsConfig

from acker_service.redis import functions, layout, library, rights
from acker_service.redis.calls import Argument, Call, Command
from acker_service.redis.errors import as_problems, errors_in, is_denied, normalized
from acker_service.redis.pipeline import Answered, Pipeline

CONFIRM_MS = 1_000
"""Milliseconds that replicas have to confirm a write."""

RETIRE_S = 10.0
"""Seconds that a server which is no longer used has to answer commands under way."""

PROBE_S = 1.0
"""Seconds that a server has to answer a probe."""

_UNKNOWN_OPTION = re.compile(r"unexpected keyword argument '(\w+)'")


class Node:
    """One Redis or Valkey. Errors of a connection are raised, errors of a command are among the replies.

    redis-py's own retry would resend an XOR after a lost reply, so it is off.
    """

    def __init__(self, url: str, *, connections: int = 64, timeout: float = 5.0) -> None:
        """Name the server; ``timeout`` in seconds bounds connecting, waiting for a connection, and every reply."""
        self.url = url
        self.name = server_name(url)
        pool = _pool(url, connections, timeout)
        self._redis = Redis(connection_pool=pool)
        self._pipeline = Pipeline(pool)
        self._is_loaded = False
        self._busy = 0
        self._ended = asyncio.Event()

    async def run(self, calls: Sequence[Call[Any]], *, replicas: int = 0, pipelined: bool = False) -> list[Any]:
        """Send the commands of calls in one round trip, and give their replies; each is atomic by itself.

        ``pipelined`` round trips share one connection, where each waits for the replies to those before it; so they
        have to be short.

        Raises `PermissionDenied` before anything is sent if the login lacks a right.

        With ``replicas``, the replies count only once so many replicas confirm a write that follows the commands: a
        command that writes nothing itself (a repeat) must wait for the write that its reply is based on.
        """
        self._busy += 1
        try:
            with normalized():
                if not self._is_loaded:
                    await self._load_once()
                if pipelined and not replicas:  # WAIT would hold up all that follow
                    replies = await self._pipeline.send([call.command for call in calls])
                else:
                    replies = await self._send(calls, replicas)
                self._check_rights(replies)
                return replies
        finally:
            self._busy -= 1
            self._ended.set()

    def begin(self, calls: Sequence[Call[Any]], answered: Answered) -> bool:
        """Send the commands of calls on the connection that round trips share, if nothing has to be waited for.

        ``answered`` is called once, with the replies or with the error of the connection. False: nothing was sent.
        """
        if not self._is_loaded:
            return False
        if not self._pipeline.begin([call.command for call in calls], partial(self._end, answered)):
            return False
        self._busy += 1
        return True

    async def command(self, *command: Argument) -> Any:
        """Run one plain command; only for reading and for the server's own state."""
        with as_problems():
            return await self._redis.execute_command(*command)

    async def check_layout(self) -> None:
        """Raise `LayoutMismatch` if this server has the configuration of a store of another layout."""
        with as_problems():
            await layout.require(self._redis)

    async def load(self) -> None:
        """Load the function library, and check the login's rights.

        Raises `LayoutMismatch` before anything is loaded, `PermissionDenied`, `StoreUnavailable`.
        """
        with as_problems():
            await self._load_once()

    async def missing_rights(self, commands: Sequence[str]) -> list[str]:
        """Return those of the commands that the login may not run."""
        with as_problems():
            return await rights.missing(self._redis, commands)

    async def listen(self, channels: Sequence[str], on_message: Callable[[bytes, bytes], None]) -> None:
        """Pass on what is published on shard channels, each with its channel, until cancelled.

        It has a connection of its own.

        Raises `StoreUnavailable` when the connection ends or a channel goes to another server.
        """
        redis = Redis(connection_pool=_pool(self.url, 1, None))
        try:
            async with contextlib.aclosing(_published(redis, channels)) as messages:
                async for channel, message in messages:
                    on_message(channel, message)
        finally:
            await redis.aclose(close_connection_pool=True)

    async def retire(self) -> None:
        """Close all connections once no command is under way, after `RETIRE_S` at the latest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETIRE_S):
                while self._busy:
                    self._ended.clear()
                    await self._ended.wait()
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._pipeline.close()
        await self._redis.aclose(close_connection_pool=True)

    def _end(self, answered: Answered, replies: list[Any] | Exception) -> None:
        self._busy -= 1
        self._ended.set()
        if not isinstance(replies, Exception):
            self._check_rights(replies)
        answered(replies)

    def _check_rights(self, replies: Sequence[object]) -> None:
        """Let the rights be checked before anything else is half done if some were taken away."""
        if any(map(is_denied, errors_in(replies))):
            self._is_loaded = False

    async def _load_once(self) -> None:
        """Replace an older library on this server: it may have been away when the others were updated.

        Its own file may give the login other rights than those of the other servers.
        """
        self._is_loaded = False
        await layout.require(self._redis)
        await library.load(self._redis)
        await rights.require(self._redis)
        self._is_loaded = True

    async def _send(self, calls: Sequence[Call[Any]], replicas: int) -> list[Any]:
        if replicas:
            return await self._run_confirmed(calls, replicas)
        if len(calls) > 1:
            return await self._pipe([call.command for call in calls])
        try:
            return [await self._redis.execute_command(*calls[0].command)]
        except RedisError as error:
            return [error]

    async def _pipe(self, commands: Sequence[Command]) -> list[Any]:
        pipe = self._redis.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        return list(await pipe.execute(raise_on_error=False))

    async def _run_confirmed(self, calls: Sequence[Call[Any]], replicas: int) -> list[Any]:
        confirming = (functions.topologies.barrier(calls[-1].key).command, ("WAIT", replicas, CONFIRM_MS))
        *replies, written, confirmed = await self._pipe([*(call.command for call in calls), *confirming])
        if isinstance(written, Exception) or not isinstance(confirmed, int) or confirmed < replicas:
            unconfirmed = StoreUnavailable(f"only {confirmed} of {replicas} replicas have it")
            return [reply if isinstance(reply, Exception) else unconfirmed for reply in replies]
        return replies


async def probe(url: str, *command: Argument) -> Any:
    """Run one command on a connection of its own, with a short timeout. Raises redis-py's errors."""
    redis = Redis(connection_pool=_pool(url, 1, PROBE_S, decode_responses=True))
    try:
        async with asyncio.timeout(2 * PROBE_S):
            with normalized():
                return await redis.execute_command(*command)
    finally:
        await redis.aclose(close_connection_pool=True)


async def _published(redis: Redis, channels: Sequence[str]) -> AsyncGenerator[tuple[bytes, bytes], None]:
    with as_problems():
        pubsub = redis.pubsub()
        for channel in channels:  # one at a time: those of several slots may not be named together
            await pubsub.ssubscribe(channel)
        async for message in pubsub.listen():
            if message["type"] == "sunsubscribe":
                raise StoreUnavailable("a channel went to another server")
            if message["type"] == "smessage":
                yield message["channel"], message["data"]


def server_name(url: str) -> str:
    """Name a server for logs: its host and port or its socket, without a login."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] or parts.path


def check(url: str) -> None:
    """Raise `ValueError` if redis-py cannot use an address, or an option in it would change replies."""
    try:
        pool = _pool(url, 1, PROBE_S)
        pool.connection_class(**pool.connection_kwargs)
    except (AttributeError, TypeError, ValueError, RedisError) as error:
        unknown = _UNKNOWN_OPTION.search(str(error))
        what = f"it knows no option {unknown[1]}" if unknown else str(error).rstrip(".")
        raise ValueError(f"redis-py cannot use the store's address: {what}") from None
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
