"""Knows how the whole store stands, as whoever watches is told."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyStanding:
    """How a topology stands: what is left in it, and ``totals`` since it was made, over all shards and replicas."""

    pending: int
    unread: int
    totals: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the store stands: its memory in bytes (``most_bytes`` 0: no bound), whether it is full, its topologies."""

    used_bytes: int
    most_bytes: int
    is_full: bool
    topologies: Mapping[str, TopologyStanding] = field(default_factory=dict)
