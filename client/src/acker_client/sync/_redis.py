"""Connections that listen to Redis, for threads; with ``asyncio/_redis.py`` the only modules that import redis."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

try:
    from redis import ConnectionPool
    from redis.backoff import NoBackoff
    from redis.exceptions import AuthenticationError, MovedError, NoPermissionError, RedisError
    from redis.maint_notifications import MaintNotificationsConfig
    from redis.retry import Retry
except ModuleNotFoundError as error:
    message = "subscribe() needs redis: install acker-client with its extra, acker-client[redis]"
    raise ModuleNotFoundError(message, name=error.name) from None

from acker_client._core.subscription import Disconnected, Redirected
from acker_client.errors import UsageError

_CLOSED = "handler is closed"
"""What uvloop says, as a RuntimeError, when a connection is written to that its server has reset."""

_UNREADABLE = (ValueError, TypeError, AttributeError, LookupError)
"""What redis-py raises for what is no reply of Redis."""


class RedisConnection:
    """A connection for one thread. A lost one is not reconnected: redis-py would subscribe again in silence."""

    def __init__(self, url: str, timeout_s: float) -> None:
        with translated_errors():
            self._connection = make_connection(ConnectionPool, url, timeout_s)
            self._connection.connect()

    def send(self, *command: str) -> None:
        """Send a command."""
        with translated_errors():
            self._connection.send_command(*command, check_health=False)

    def read(self, seconds: float) -> Any:
        """Return the next reply or message, None if none begins in time."""
        with translated_errors():
            return self._connection.read_response() if self._connection.can_read(seconds) else None

    def close(self) -> None:
        """Close it."""
        self._connection.disconnect()


def make_connection(pool: Any, url: str, timeout_s: float) -> Any:
    """Make a connection of a pool's class, not connected yet. Raises `UsageError`."""
    try:
        return pool.from_url(url, **_options(timeout_s)).make_connection()
    except (TypeError, ValueError) as error:
        raise UsageError(f"the address of the Redis cannot be used: {error}") from None


@contextmanager
def translated_errors() -> Iterator[None]:
    """Raise errors of redis-py as those of a subscription; a refused login is a `UsageError`."""
    try:
        yield
    except (AuthenticationError, NoPermissionError) as error:
        raise UsageError(f"the Redis does not let this login subscribe: {error}") from error
    except MovedError as moved:
        raise Redirected((moved.host, moved.port)) from moved
    except (RedisError, OSError) as error:
        raise Disconnected(str(error) or type(error).__name__) from error
    except RuntimeError as error:
        if _CLOSED not in str(error):
            raise
        raise Disconnected("the connection was reset") from error
    except UsageError:
        raise
    except _UNREADABLE as error:
        raise Disconnected("what answers does not speak as Redis does") from error


def _options(timeout_s: float) -> dict[str, Any]:
    return {
        "protocol": 2,
        "decode_responses": False,
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }
