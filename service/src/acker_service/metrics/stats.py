"""Knows how the whole store stands, as whoever watches is told."""

from collections.abc import Mapping
from dataclasses import dataclass, field

EXPONENTS = range(23)
"""Latencies are counted by powers of two: exponent e stands for at most 2^e ms, what is above all of these for more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyHistogram:
    """Complete latencies of one outcome: how many, by the exponent of the power of two that holds them; their sum."""

    counts: Mapping[int, int]
    sum_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackBacklog:
    """What waits to be delivered for a spout task: how many, for how long the oldest; whether the callback is on."""

    unread: int
    age_ms: int
    is_on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyStats:
    """How a topology stands: what is left in it, and what became of its roots since it was made, over all replicas.

    ``totals`` by name, ``deliveries`` count completions by what became of them, ``latencies`` by
    outcome, ``backlogs`` by spout task with a callback.
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
    """How the store stands: its memory in bytes (``most_bytes`` 0: no bound), whether it is full, its topologies.

    ``is_ticked`` is whether a worker let time pass lately.
    """

    used_bytes: int
    max_bytes: int
    is_full: bool
    worker_seen: bool
    topologies: Mapping[str, TopologyStats] = field(default_factory=dict)
