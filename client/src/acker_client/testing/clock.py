"""Knows a time that passes only when a test says so, or somebody sleeps."""


class Clock:
    """Seconds in the test's hand; ``slept`` lists the pauses that were made, which took no time but moved the clock."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.slept: list[float] = []

    @property
    def now_ms(self) -> int:
        """The time in milliseconds."""
        return round(self.now_s * 1000)

    def clock(self) -> float:
        """Tell the time, as an acker's ``clock``."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds

    def sleep(self, seconds: float) -> None:
        """Sleep, as an acker's ``sleep``."""
        self.slept.append(seconds)
        self.advance(seconds)

    async def asleep(self, seconds: float) -> None:
        """Sleep, as an async acker's ``sleep``."""
        self.sleep(seconds)
