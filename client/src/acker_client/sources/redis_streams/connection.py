"""Connections to a Redis that has a stream: a single server, a primary with sentinels, or a cluster."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

try:
    from redis import Redis, RedisCluster, Sentinel
    from redis.backoff import NoBackoff
    from redis.cluster import ClusterNode
    from redis.connection import ConnectionPool, SSLConnection, parse_url
    from redis.exceptions import (
        AuthenticationError,
        AuthorizationError,
        ClusterDownError,
        ConnectionError,  # noqa: A004 - that of redis-py
        MovedError,
        ReadOnlyError,
        RedisClusterException,
        ResponseError,
        TimeoutError,  # noqa: A004 - that of redis-py
        TryAgainError,
    )
    from redis.maint_notifications import MaintNotificationsConfig
    from redis.retry import Retry
    from redis.sentinel import MasterNotFoundError
except ModuleNotFoundError as error:
    message = "RedisStreamSpout needs redis: install acker-client with its extra, acker-client[redis]"
    raise ModuleNotFoundError(message, name=error.name) from None

from acker_protocol.redis_url import Kind, RedisUrl, read_redis_url

from acker_client.errors import UsageError

NOT_ANSWERED = (ConnectionError, TimeoutError, OSError, RedisClusterException)
FOR_NOW = (ClusterDownError, MovedError, ReadOnlyError, TryAgainError)
FOR_NOW_CODES = ("MISCONF", "NOREPLICAS", "UNBLOCKED", "BUSY ")
"""How the refusals begin that hold for a while, and have no class in redis-py."""

Reply = TypeVar("Reply")


class NotAnswered(Exception):
    """The Redis does not answer, or refuses a command for now."""


class Connection:
    """Sends commands, each once: whoever calls it decides what is sent again. For any number of threads."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        """Raises `UsageError` for an address that cannot be used; connects with the first command."""
        try:
            self._url = read_redis_url(url)
            address = self._url.url(self._url.addresses[0]) if self._url.addresses else url
            self._options: dict[str, Any] = parse_url(address) | _patience(timeout_s)
            ConnectionPool(**self._options).make_connection()  # one that does not connect: it checks the options
        except (TypeError, ValueError) as error:
            raise UsageError(f"the address of the Redis cannot be used: {error}") from None
        self._lock = threading.Lock()
        self._client: Any = None

    def ask(self, command: Callable[[Any], Reply]) -> Reply:
        """Run a command of redis-py. Raises `NotAnswered`, and what redis-py raises for what is refused for good."""
        try:
            return command(self._connected())
        except (AuthenticationError, AuthorizationError):
            raise
        except MasterNotFoundError as error:  # its text has all settings of every sentinel
            raise NotAnswered(f"no sentinel knows a primary {self._url.name} that answers") from error
        except (*NOT_ANSWERED, *FOR_NOW) as error:
            raise NotAnswered(str(error) or type(error).__name__) from error
        except ResponseError as error:
            if str(error).startswith(FOR_NOW_CODES):
                raise NotAnswered(str(error)) from error
            raise

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            if self._client is not None:
                self._client.close()

    def _connected(self) -> Any:
        """Return the client; that of a cluster asks for the slots when it is made."""
        with self._lock:
            if self._client is None:
                self._client = _make_client(self._url, self._options)
            return self._client


def _patience(timeout_s: float) -> dict[str, Any]:
    """Return what bounds a command by one timeout; redis-py's default is eleven attempts of five seconds each."""
    return {
        "protocol": 2,
        "decode_responses": False,
        "socket_timeout": timeout_s,
        "socket_connect_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }


def _make_client(url: RedisUrl, options: dict[str, Any]) -> Any:
    if url.kind is Kind.STANDALONE:
        return Redis(connection_pool=ConnectionPool(**options))
    shared = {name: value for name, value in options.items() if name not in ("host", "port", "connection_class")}
    shared["ssl"] = options.get("connection_class") is SSLConnection
    if url.kind is Kind.CLUSTER:
        shared.pop("db", None)
        return RedisCluster(startup_nodes=[ClusterNode(*address) for address in url.addresses], **shared)
    sentinel = parse_url(url.sentinel_url(url.addresses[0]))
    own = {name: value for name, value in shared.items() if name not in ("db", "username", "password")}
    own |= {name: sentinel[name] for name in ("username", "password") if name in sentinel}
    return Sentinel(url.addresses, sentinel_kwargs=own, **shared).master_for(url.name)
