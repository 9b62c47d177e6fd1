"""The functions of the library that read the use of spout tasks in a shard, and its oldest entries.

Each function describes a call of one Lua function and names what its reply holds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from acker_service.redis.calls import ShardCall
from acker_service.redis.functions.roots import by_index, by_name

MAX_SPOUTS = 256
"""Spout tasks that one call of `read_spouts` names: for each, Redis reads an entry."""

_FIELDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LastUsed:
    """When spout tasks were last emitted under or read, by spout index, and the time now."""

    now_ms: int
    used_ms: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSpout:
    """How a spout task is used and delivered to, as one shard knows it; None for what never was.

    ``tries`` are those of the oldest unread completion, ``next_try_ms`` is when the next retry of any is due. What
    follows ``epoch_ms`` is of the callback with this epoch.
    """

    emitted_ms: int | None
    read_ms: int | None
    oldest_unread_ms: int | None
    tries: int
    next_try_ms: int | None
    epoch_ms: int | None
    delivered_ms: int | None
    error_ms: int | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardAges:
    """The oldest roots and completions of a shard, in Unix milliseconds; None where there are none.

    ``unread_ms`` is when the oldest entry of each mailbox was written, ``delays`` are counts by name (see delays.lua).
    """

    now_ms: int
    pending_ms: int | None
    unread_ms: list[int | None]
    delays: dict[str, int]


def read_spouts(spout_indexes: Sequence[int]) -> ShardCall[list[ShardSpout]]:
    """Read how spout tasks are used and delivered to, `MAX_SPOUTS` at most, in the order of the indexes."""
    return ShardCall(function="acker_read_spouts_v1", args=tuple(spout_indexes), decode=_spouts, confirm=False)


def read_used() -> ShardCall[LastUsed]:
    """Read when each spout task was last used."""
    return ShardCall(function="acker_read_used_v1", decode=_used, confirm=False)


def read_ages(spout_indexes: Sequence[int]) -> ShardCall[ShardAges]:
    """Read the start of the oldest pending root, and when the oldest entry of each mailbox was written.

    The search reads about 4,000 roots and outcomes, those in buckets with the nearest deadlines: in a larger shard
    there may be an older root. It also corrects the deadline index, so that the next search reads other buckets.
    """
    return ShardCall(function="acker_ages_v1", args=tuple(spout_indexes), decode=_ages, confirm=False)


def _spouts(reply: list[Any]) -> list[ShardSpout]:
    return list(_each_spout(reply))


def _each_spout(reply: list[Any]) -> Iterator[ShardSpout]:
    for i in range(0, len(reply), _FIELDS):
        emitted, read, oldest, tries, next_try, epoch, delivered, last_error = reply[i : i + _FIELDS]
        error_ms, _, error = last_error.partition(b" ")
        yield ShardSpout(
            emitted_ms=_optional(emitted),
            read_ms=_optional(read),
            oldest_unread_ms=_optional(oldest),
            tries=tries,
            next_try_ms=_optional(next_try),
            epoch_ms=_optional(epoch),
            delivered_ms=_optional(delivered),
            error_ms=_optional(error_ms),
            error=error.decode() if error_ms else None,
        )


def _used(reply: list[Any]) -> LastUsed:
    now_ms, used = reply
    return LastUsed(now_ms=now_ms, used_ms=by_index(used))


def _ages(reply: list[Any]) -> ShardAges:
    now_ms, pending_ms, delays, *entries = reply
    unread_ms = [int(entry.partition(b"-")[0]) if entry else None for entry in entries]
    return ShardAges(now_ms=now_ms, pending_ms=pending_ms, unread_ms=unread_ms, delays=by_name(delays))


def _optional(value: bytes) -> int | None:
    return int(value) if value else None
