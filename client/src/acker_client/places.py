"""Knows how many more roots a spout task may emit, as far as it was told."""


class Places:
    """The free places of one spout task. They may be fewer in truth: then the service refuses the init."""

    __slots__ = ("_free", "_in_hand")

    def __init__(self) -> None:
        self._free = 0
        self._in_hand = 0

    def take(self) -> bool:
        """Take a place for a root in the hand, if one is known to be free."""
        if self._free <= 0:
            return False
        self._free -= 1
        self._in_hand += 1
        return True

    def learn(self, free: int) -> None:
        """Take note of how many are free; roots in the hand are not pending yet and will be."""
        self._free = free - self._in_hand

    def leave(self) -> None:
        """Let a root out of the hand: its init has been placed, or there will be none."""
        self._in_hand = max(0, self._in_hand - 1)
