"""Translates errors of Redis into service errors, and says whether a command was started."""

import contextlib
import logging
import re
from collections.abc import Iterable, Iterator

from acker_protocol.errors import ServiceError, StoreFull, StoreUnavailable
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    InvalidResponse,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from acker_service.redis import library

_DENIED = re.compile(r"NOPERM|ACL failure|can't run this command|permissions? to (?:run|access)")
_REFUSES_WRITES = re.compile(r"MISCONF|NOREPLICAS")
_SLOT_MOVES = re.compile(r"non local key|during rehashing of the slot")
"""How a function is refused in a slot that moves: by Redis 7.0 and Valkey 9.1, and by Redis 8.0."""
_log = logging.getLogger(__name__)
_SUGGESTS_MOVED_SLOTS = (
    *(RedisConnectionError, RedisTimeoutError, OSError),
    *(ReadOnlyError, ClusterDownError, InvalidResponse),
)
_UNREADABLE = (ValueError, TypeError, AttributeError, LookupError)
_CLOSED = "handler is closed"


class PermissionDenied(StoreUnavailable):
    """Redis does not let its login run a command: a retry helps only once the right is granted."""

    retryable_by_default = False


class RightsUnknown(StoreUnavailable):
    """Redis fails to say whether its login may run a command: a retry asks the same question."""

    retryable_by_default = False


class LayoutMismatch(StoreUnavailable):
    """The store has keys of another layout: a retry helps only once it is emptied."""

    retryable_by_default = False


def errors_in(replies: Iterable[object]) -> list[Exception]:
    """Return those of some replies that are errors; there are nearly never any."""
    return [reply for reply in replies if isinstance(reply, Exception)]


def is_denied(error: object) -> bool:
    """Whether the login lacks the right to a command; a command within a function fails as a plain `ResponseError`."""
    if isinstance(error, ResponseError) and not isinstance(error, NoPermissionError):
        return _DENIED.search(str(error)) is not None
    return isinstance(error, (NoPermissionError, PermissionDenied))


def is_moved(error: object) -> bool:
    """Whether a server refused a command, before it started, because another one has the key."""
    return isinstance(error, (MovedError, ReadOnlyError))


def refuses_writes(error: object) -> bool:
    """Whether a server takes no write at all now: it is a replica, its disk fails, or it has too few replicas."""
    if isinstance(error, ReadOnlyError):
        return True
    return isinstance(error, ResponseError) and _REFUSES_WRITES.match(str(error)) is not None


def is_slot_moving(error: object) -> bool:
    """Whether a server of a cluster refused a command because a slot moves from it to another one, key by key."""
    if isinstance(error, (AskError, TryAgainError)):
        return True
    return isinstance(error, ResponseError) and _SLOT_MOVES.search(str(error)) is not None


def was_not_started(error: object) -> bool:
    """Whether a command was not started for a cause that can be removed, so that it may be sent once more."""
    return is_moved(error) or library.is_missing(error)


def label(error: object) -> str:
    """Return the label of an error in metrics; that of a service error by its cause."""
    cause = (error.__cause__ or error) if isinstance(error, ServiceError) else error
    if is_denied(cause):
        return "error"
    if isinstance(cause, ServiceError):
        return "unconfirmed"
    if isinstance(cause, OutOfMemoryError):
        return "no_memory"
    if is_slot_moving(cause):
        return "moving"
    if isinstance(cause, (RedisTimeoutError, TimeoutError)):
        return "timeout"
    return "connection" if isinstance(cause, (RedisConnectionError, OSError)) else "error"


def suggests_moved_slots(error: object) -> bool:
    """Whether an error suggests that servers changed, or that keys moved to other servers."""
    return isinstance(error, _SUGGESTS_MOVED_SLOTS) or is_slot_moving(error)


def to_problem(error: BaseException) -> ServiceError:
    """Return the service error for an error of Redis."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, OutOfMemoryError):
        return StoreFull("Redis has no memory left for new roots")
    if is_denied(error):
        return PermissionDenied(f"the login of Redis lacks a right, see docs/redis.md: {error}")
    if isinstance(error, AuthenticationError):
        return StoreUnavailable("the store refuses the login of the acker")
    if isinstance(error, BusyLoadingError):
        return StoreUnavailable("the store loads its data")
    if isinstance(error, (RedisConnectionError, RedisTimeoutError, OSError, ClusterDownError)):
        return StoreUnavailable("the store does not answer")
    if is_slot_moving(error):
        return StoreUnavailable("a slot of the cluster moves to another server; its shards answer when it has arrived")
    if refuses_writes(error):
        return StoreUnavailable("the store refuses writes")
    _log.warning("Redis answers a command with an error: %s", error)
    return StoreUnavailable("the store answered with an error")


@contextlib.contextmanager
def normalized() -> Iterator[None]:
    """Raise errors that redis-py does not translate as errors of redis-py.

    uvloop raises a RuntimeError on a write to a connection that the server has reset; bytes that are no reply of Redis
    raise wherever redis-py reads them first.
    """
    try:
        yield
    except RuntimeError as error:
        if _CLOSED not in str(error):
            raise
        raise RedisConnectionError("the connection was reset") from error
    except _UNREADABLE as error:
        _log.debug("an answer of Redis cannot be read", exc_info=error)
        raise InvalidResponse(f"an answer cannot be read: {error!r}") from error


@contextlib.contextmanager
def as_problems() -> Iterator[None]:
    """Raise errors of Redis as service errors."""
    try:
        with normalized():
            yield
    except (RedisError, OSError) as error:
        raise to_problem(error) from error
