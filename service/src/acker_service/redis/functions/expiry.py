"""The functions of the library that let time pass on one shard, and end all of its roots.

Each function describes a call of one Lua function (see lua/) and names what its reply holds.
``settings`` are the packed rules of a topology (`functions.roots.pack_settings`), ``grace_ms`` is what roots that were
due in an outage get at most.
"""

from dataclasses import dataclass
from typing import Any

from acker_service.redis.calls import ShardCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """How many roots a tick ended, whether more are due, and the due buckets that are too large for one call."""

    ended: int
    more: bool
    overfull_buckets: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketScan:
    """How many roots a scan ended, the cursor of the next scan (0: the end), and the earliest deadline found so far."""

    ended: int
    cursor: int
    earliest_ms: int | None


def tick(*, settings: bytes, max_records: int, grace_ms: int) -> ShardCall[Ticked]:
    """Time out overdue roots and drop early ones without an init, reading about ``max_records`` records."""
    return ShardCall(function="acker_tick_v1", args=(settings, max_records, grace_ms), decode=_ticked)


def scan_bucket(
    *, settings: bytes, bucket: int, cursor: int, earliest_ms: int | None, grace_ms: int
) -> ShardCall[BucketScan]:
    """Expire one part of an overfull bucket; begin with cursor 0 and pass on what the scan before returned."""
    args = (settings, bucket, cursor, "" if earliest_ms is None else earliest_ms, grace_ms)
    return ShardCall(function="acker_walk_v1", args=args, decode=_bucket_scan)


def fail_all(*, settings: bytes, max_roots: int) -> ShardCall[bool]:
    """Fail about ``max_roots`` roots of a topology that is deleted and drop early ones; says whether more are left."""
    return ShardCall(function="acker_fail_all_v1", args=(settings, max_roots), decode=_has_more)


def _ticked(reply: list[Any]) -> Ticked:
    count, more, *overfull = reply
    return Ticked(ended=count, more=bool(more), overfull_buckets=[int(bucket) for bucket in overfull])


def _bucket_scan(reply: list[Any]) -> BucketScan:
    count, cursor, earliest = reply
    return BucketScan(ended=int(count), cursor=int(cursor), earliest_ms=int(earliest) if earliest else None)


def _has_more(reply: list[Any]) -> bool:
    [more] = reply
    return bool(more)
