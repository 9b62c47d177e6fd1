"""Limits on the load of a process, and counters of used capacity."""

from dataclasses import dataclass

from acker_protocol.errors import Overloaded


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """Limits of a process: requests in flight and waiting, bytes of their bodies, connections.

    ``body_timeout_s`` is the time a request may take to arrive, ``max_header_bytes`` the size of all before its body.
    """

    max_in_flight: int = 1_000
    max_waiting: int = 10_000
    max_in_flight_bytes: int = 67_108_864
    body_timeout_s: float = 30.0
    max_connections: int = 16_384
    max_header_bytes: int = 65_536


class Capacity:
    """Counts what is used of a limited resource; what exceeds the limit is refused before any work."""

    def __init__(self, limit: int, *, what: str) -> None:
        self.limit = limit
        self.used = 0
        self._what = what

    def acquire(self, count: int = 1) -> None:
        """Use some capacity. Raises `Overloaded`."""
        if self.used + count > self.limit:
            raise Overloaded(f"the acker has {self.used} {self._what}, and may have {self.limit}; nothing was done")
        self.used += count

    def release(self, count: int = 1) -> None:
        """Free some capacity."""
        self.used -= count
