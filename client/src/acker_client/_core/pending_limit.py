"""How many more roots a spout task may emit, as far as this client knows."""


class PendingLimit:
    """The free slots of one spout task. If there are fewer, the service refuses the init."""

    __slots__ = ("_free", "_uncommitted")

    def __init__(self) -> None:
        self._free = 0
        self._uncommitted = 0

    def try_acquire(self) -> bool:
        """Take a slot for a root that is being emitted, if one is known to be free."""
        if self._free <= 0:
            return False
        self._free -= 1
        self._uncommitted += 1
        return True

    def update(self, free: int) -> None:
        """Learn how many are free; roots that are being emitted are not pending yet and will be."""
        self._free = free - self._uncommitted

    def release(self) -> None:
        """End the emit of a root: its init was sent, or it has none."""
        self._uncommitted = max(0, self._uncommitted - 1)
