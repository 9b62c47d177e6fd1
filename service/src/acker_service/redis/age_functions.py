"""The function of the library that reads what a scrape of the metrics shows of a shard beside its counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from acker_service.redis.calls import ShardCall
from acker_service.redis.functions import by_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardAges:
    """The oldest roots and completions of a shard, in Unix milliseconds; None where there are none.

    ``unread_ms`` is when the oldest entry of each mailbox was written, ``delays`` are counts by name (see delays.lua).
    """

    now_ms: int
    pending_ms: int | None
    unread_ms: list[int | None]
    delays: dict[str, int]


def read_ages(spout_indexes: Sequence[int]) -> ShardCall[ShardAges]:
    """Read the start of the oldest pending root, and when the oldest entry of each mailbox was written.

    The search reads about 4,000 roots and outcomes, those in buckets with the nearest deadlines: in a larger shard
    there may be an older root. It also corrects the deadline index, so that the next search reads other buckets.
    """
    return ShardCall(function="acker_ages_v1", args=tuple(spout_indexes), decode=_ages, confirm=False)


def _ages(reply: list[Any]) -> ShardAges:
    now_ms, pending_ms, delays, *entries = reply
    unread_ms = [int(entry.partition(b"-")[0]) if entry else None for entry in entries]
    return ShardAges(now_ms=now_ms, pending_ms=pending_ms, unread_ms=unread_ms, delays=by_name(delays))
