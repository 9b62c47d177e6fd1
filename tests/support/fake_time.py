"""Knows a time that passes only when somebody sleeps."""


class FakeTime:
    """Seconds that the test holds in its hand."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)

    @property
    def now_ms(self) -> int:
        return round(self.now_s * 1000)
