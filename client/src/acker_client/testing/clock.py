"""A clock that a test moves by hand."""


class Clock:
    """A `acker_client.config.Clock` in which time passes only by `advance`, or when somebody sleeps.

    ``now`` is the time in seconds, monotonic and Unix. ``slept`` lists the sleeps in seconds; they take no real time
    and move the clock. ``jitter_value`` is what jitter gives, from 0 to 1.
    """

    def __init__(self, *, now: float = 1_000.0, jitter: float = 0.5) -> None:
        self.now = now
        self.jitter_value = jitter
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self.now

    def time(self) -> float:
        """Return the same time as Unix time."""
        return self.now

    def jitter(self) -> float:
        """Return ``jitter_value``."""
        return self.jitter_value

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def sleep(self, seconds: float) -> None:
        """Let time pass, and note it."""
        self.slept.append(seconds)
        self.advance(seconds)

    async def sleep_async(self, seconds: float) -> None:
        """Let time pass, and note it, in an event loop."""
        self.sleep(seconds)
