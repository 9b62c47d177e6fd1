"""Speaks Redis, on connections that listen: the only room of the client that imports redis."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

try:
    from redis import ConnectionPool
    from redis.asyncio import ConnectionPool as AsyncConnectionPool
    from redis.backoff import NoBackoff
    from redis.exceptions import AuthenticationError, MovedError, NoPermissionError, RedisError
    from redis.maint_notifications import MaintNotificationsConfig
    from redis.retry import Retry
except ModuleNotFoundError as fault:
    raise ModuleNotFoundError("pubsub() needs redis: pip install 'acker-client[redis]'", name=fault.name) from None

from acker_client.errors import Misuse
from acker_client.subscription import Away, Moved

_CLOSED = "handler is closed"
"""What uvloop says, as a RuntimeError, when a connection is written to that its server has reset."""

_UNREADABLE = (ValueError, TypeError, AttributeError, LookupError)
"""What redis-py stumbles with over what is no answer of Redis."""


class Wire:
    """A connection for one thread. One that was lost is not mended: redis-py would subscribe again and tell nobody."""

    def __init__(self, url: str, patience_s: float) -> None:
        with _translated():
            self._connection = _made(ConnectionPool, url, patience_s)
            self._connection.connect()

    def send(self, *command: str) -> None:
        """Send a command."""
        with _translated():
            self._connection.send_command(*command, check_health=False)

    def read(self, seconds: float) -> Any:
        """Give the next answer or message, None if none begins in time."""
        with _translated():
            return self._connection.read_response() if self._connection.can_read(seconds) else None

    def close(self) -> None:
        """Close it."""
        self._connection.disconnect()


class AsyncWire:
    """As `Wire`, awaited; made by ``open``."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, url: str, patience_s: float) -> "AsyncWire":
        """Connect."""
        with _translated():
            connection = _made(AsyncConnectionPool, url, patience_s)
            await connection.connect()
        return cls(connection)

    async def send(self, *command: str) -> None:
        """As `Wire.send`."""
        with _translated():
            await self._connection.send_command(*command, check_health=False)

    async def read(self, seconds: float) -> Any:
        """As `Wire.read`; what has come in part is read on by the next call."""
        with _translated():
            return await self._connection.read_response(timeout=seconds)

    async def close(self) -> None:
        """As `Wire.close`."""
        await self._connection.disconnect(nowait=True)


def _made(pool: Any, url: str, patience_s: float) -> Any:
    """Make a connection, not connected yet. Raises `Misuse`."""
    try:
        return pool.from_url(url, **_options(patience_s)).make_connection()
    except (TypeError, ValueError) as fault:
        raise Misuse(f"the address of the Redis cannot be used: {fault}") from None


def _options(patience_s: float) -> dict[str, Any]:
    return {
        "protocol": 2,
        "decode_responses": False,
        "socket_timeout": patience_s,
        "socket_connect_timeout": patience_s,
        "retry": Retry(NoBackoff(), 0),
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }


@contextmanager
def _translated() -> Iterator[None]:
    """Say what a fault means to a subscription. A login that is refused, or may not subscribe, is the program's."""
    try:
        yield
    except (AuthenticationError, NoPermissionError) as fault:
        raise Misuse(f"the Redis does not let this login subscribe: {fault}") from fault
    except MovedError as moved:
        raise Moved((moved.host, moved.port)) from moved
    except (RedisError, OSError) as fault:
        raise Away(str(fault) or type(fault).__name__) from fault
    except RuntimeError as fault:
        if _CLOSED not in str(fault):
            raise
        raise Away("the connection was reset") from fault
    except _UNREADABLE as fault:
        raise Away("what answers does not speak as Redis does") from fault
