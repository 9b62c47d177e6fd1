"""Knows how much a process may have in hand at once."""

from dataclasses import dataclass

from acker_protocol.errors import Overloaded


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadLimits:
    """What a process takes on: requests at work and waiting for news, bytes of their bodies, connections.

    ``body_timeout_s`` is how long a request may take to arrive, ``head_bytes`` how large it may be before its body.
    """

    max_in_flight: int = 1_000
    max_waiting: int = 10_000
    max_in_flight_bytes: int = 67_108_864
    body_timeout_s: float = 30.0
    max_connections: int = 16_384
    max_header_bytes: int = 65_536


class Capacity:
    """So many places of one kind; what finds none is refused at once, before anything is done for it."""

    def __init__(self, most: int, *, what: str) -> None:
        self.limit = most
        self.used = 0
        self._what = what

    def acquire(self, count: int = 1) -> None:
        """Take places. Raises `Overloaded`."""
        if self.used + count > self.limit:
            raise Overloaded(f"the acker has {self.used} {self._what}, and may have {self.limit}; nothing was done")
        self.used += count

    def release(self, count: int = 1) -> None:
        """Give places back."""
        self.used -= count
