"""Knows what an acker has counted since it was made."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """``on_their_way``: operations that linger or are being sent now; ``undelivered``: those given up; ``rejected``."""

    on_their_way: int
    undelivered: int
    rejected: int
