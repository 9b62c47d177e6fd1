"""Knows what a fault of Redis means to a caller: a problem, and whether the command was not even begun."""

import contextlib
import logging
from collections.abc import Iterator

from acker_protocol.errors import ServiceError, StoreFull, StoreUnavailable
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

from acker_service.redis import library

_log = logging.getLogger(__name__)
_SUGGESTS_MOVED_SLOTS = (
    *(RedisConnectionError, RedisTimeoutError, OSError),
    *(AskError, ReadOnlyError, ClusterDownError, InvalidResponse),
)
_UNREADABLE = (ValueError, TypeError, AttributeError, LookupError)
_CLOSED = "handler is closed"


def is_moved(fault: object) -> bool:
    """Whether a server refused a command, before it began, because another one has the key."""
    return isinstance(fault, (MovedError, ReadOnlyError))


def was_not_started(fault: object) -> bool:
    """Whether nothing was begun, and the cause can be mended: the command may be sent once more."""
    return is_moved(fault) or library.is_missing(fault)


def label(fault: object) -> str:
    """Name a fault in a word; a problem by what it came from."""
    cause = (fault.__cause__ or fault) if isinstance(fault, ServiceError) else fault
    if isinstance(cause, ServiceError):
        return "unconfirmed"
    if isinstance(cause, OutOfMemoryError):
        return "no_memory"
    if isinstance(cause, (RedisTimeoutError, TimeoutError)):
        return "timeout"
    return "connection" if isinstance(cause, (RedisConnectionError, OSError)) else "error"


def suggests_moved_slots(fault: object) -> bool:
    """Whether a fault speaks against what is known of the servers: who they are, and which has what."""
    return isinstance(fault, _SUGGESTS_MOVED_SLOTS) or "non local key" in str(fault)


def to_problem(fault: BaseException) -> ServiceError:
    """Give the problem that a fault is to callers."""
    if isinstance(fault, ServiceError):
        return fault
    if isinstance(fault, OutOfMemoryError):
        return StoreFull("Redis has no memory left for new roots")
    _log.warning("Redis: %s", fault)
    return StoreUnavailable("the store did not answer as it should")


@contextlib.contextmanager
def normalized() -> Iterator[None]:
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
def as_problems() -> Iterator[None]:
    """Let faults of Redis come out as problems."""
    try:
        with normalized():
            yield
    except (RedisError, OSError) as fault:
        raise to_problem(fault) from fault
