"""Knows what a fault of Redis means to a caller: a problem, and whether the command was not even begun."""

import contextlib
import logging
from collections.abc import Iterator

from acker_protocol.problems import Problem, StoreFull, StoreUnavailable
from redis.exceptions import (
    AskError,
    ClusterDownError,
    InvalidResponse,
    MovedError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from acker_service.store import library

_log = logging.getLogger(__name__)
_ASTRAY = (
    *(RedisConnectionError, RedisTimeoutError, OSError),
    *(AskError, ReadOnlyError, ClusterDownError, InvalidResponse),
)
_UNREADABLE = (ValueError, TypeError, AttributeError, LookupError)
_CLOSED = "handler is closed"


def is_elsewhere(fault: object) -> bool:
    """Whether a server refused a command, before it began, because another one has the key."""
    return isinstance(fault, (MovedError, ReadOnlyError))


def is_undone(fault: object) -> bool:
    """Whether nothing was begun, and the cause can be mended: the command may be sent once more."""
    return is_elsewhere(fault) or library.is_missing(fault)


def kind(fault: object) -> str:
    """Name a fault in a word; a problem by what it came from."""
    cause = (fault.__cause__ or fault) if isinstance(fault, Problem) else fault
    if isinstance(cause, Problem):
        return "unconfirmed"
    if isinstance(cause, OutOfMemoryError):
        return "no_memory"
    if isinstance(cause, (RedisTimeoutError, TimeoutError)):
        return "timeout"
    return "connection" if isinstance(cause, (RedisConnectionError, OSError)) else "error"


def is_astray(fault: object) -> bool:
    """Whether a fault speaks against what is known of the servers: who they are, and which has what."""
    return isinstance(fault, _ASTRAY) or "non local key" in str(fault)


def told(fault: BaseException) -> Problem:
    """Give the problem that a fault is to callers."""
    if isinstance(fault, Problem):
        return fault
    if isinstance(fault, OutOfMemoryError):
        return StoreFull("Redis has no memory left for new roots")
    _log.warning("Redis: %s", fault)
    return StoreUnavailable("the store did not answer as it should")


@contextlib.contextmanager
def named() -> Iterator[None]:
    """Let what redis-py lets pass come out as an error of its own.

    uvloop refuses with a RuntimeError to write to a connection that its server has reset; and what is no answer of
    Redis stumbles in redis-py wherever it happens to be read first.
    """
    try:
        yield
    except RuntimeError as fault:
        if _CLOSED not in str(fault):
            raise
        raise RedisConnectionError("the connection was reset") from fault
    except _UNREADABLE as fault:
        _log.warning("an answer of Redis cannot be read", exc_info=fault)
        raise InvalidResponse(f"an answer cannot be read: {fault!r}") from fault


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Let faults of Redis come out as problems."""
    try:
        with named():
            yield
    except (RedisError, OSError) as fault:
        raise told(fault) from fault
