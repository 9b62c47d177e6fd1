"""Knows how much a process may have in hand at once."""

from dataclasses import dataclass

from acker_protocol.problems import Overloaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a process takes on: requests at work and waiting for news, bytes of their bodies, connections.

    ``body_timeout_s`` is how long a request may take to arrive, ``head_bytes`` how large it may be before its body.
    """

    in_flight: int = 1_000
    waiting: int = 10_000
    in_flight_bytes: int = 67_108_864
    body_timeout_s: float = 30.0
    connections: int = 16_384
    head_bytes: int = 65_536


class Places:
    """So many places of one kind; what finds none is refused at once, before anything is done for it."""

    def __init__(self, most: int, *, what: str) -> None:
        self.most = most
        self.taken = 0
        self._what = what

    def take(self, count: int = 1) -> None:
        """Take places. Raises `Overloaded`."""
        if self.taken + count > self.most:
            raise Overloaded(f"the acker has {self.taken} {self._what}, and may have {self.most}; nothing was done")
        self.taken += count

    def leave(self, count: int = 1) -> None:
        """Give places back."""
        self.taken -= count
