"""Connections that listen to Redis, for an event loop."""

from typing import Any

from acker_client.sync._redis import make_connection, translated_errors


class AsyncRedisConnection:
    """A connection for the tasks of one loop; made by `connect`."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def send(self, *command: str) -> None:
        """Send a command."""
        with translated_errors():
            await self._connection.send_command(*command, check_health=False)

    async def read(self, seconds: float) -> Any:
        """Return the next reply or message, None if none is complete in time; the next call reads on."""
        with translated_errors():
            return await self._connection.read_response(timeout=seconds)

    async def close(self) -> None:
        """Close it."""
        await self._connection.disconnect(nowait=True)


async def connect(url: str, timeout_s: float) -> AsyncRedisConnection:
    """Connect to the server with this URL."""
    from redis.asyncio import ConnectionPool  # noqa: PLC0415 - after sync/_redis.py, which says what to install

    with translated_errors():
        connection = make_connection(ConnectionPool, url, timeout_s)
        await connection.connect()
    return AsyncRedisConnection(connection)
