"""Statistics of the whole store, as a scrape shows them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

EXPONENTS = range(23)
"""Latencies are counted by powers of two: bucket e holds those of at most 2^e ms; the rest exceed all buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyHistogram:
    """Complete latencies of one outcome: counts by the exponent of their bucket, and their sum."""

    counts: Mapping[int, int]
    sum_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackBacklog:
    """Completions that wait for a spout task's callback: count, age of the oldest, and whether the callback is on."""

    unread: int
    age_ms: int
    is_on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyStats:
    """Statistics of a topology over all replicas, since it was created.

    ``totals`` by name, ``deliveries`` by what became of the completions, ``latencies`` by outcome, ``backlogs`` by
    spout task with a callback.
    """

    pending: int
    unread: int
    dead_letters: int
    totals: Mapping[str, int]
    deliveries: Mapping[str, int]
    latencies: Mapping[str, LatencyHistogram]
    backlogs: Mapping[str, CallbackBacklog] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """Statistics of the store: memory in bytes (``max_bytes`` 0: no limit), whether it is full, its topologies.

    ``worker_seen`` is whether a worker ticked in the last ten seconds.
    """

    used_bytes: int
    max_bytes: int
    is_full: bool
    worker_seen: bool
    topologies: Mapping[str, TopologyStats] = field(default_factory=dict)
