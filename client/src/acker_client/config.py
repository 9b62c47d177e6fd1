"""The configuration of a client: how long requests are retried, how acks are buffered, and the clock."""

import os
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypedDict

from acker_client._core import validate
from acker_client.errors import UsageError

DEFAULT_URL = "http://127.0.0.1:8700"
DEFAULT_TOPOLOGY = "default"

FIRST_DELAY_S = 0.05
MAX_DELAY_S = 5.0

OnError = Literal["fail", "leave_open"]
"""What happens to a tuple when its block raises: the tree fails, or the edge stays open for a redelivery."""

OnFull = Literal["block", "raise"]
"""What an ack does when the buffer is full: it waits for space, or raises `BufferFull`."""


class Clock(Protocol):
    """The time of a client. `acker_client.testing.Clock` is one that a test moves by hand."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def time(self) -> float:
        """Return the Unix time in seconds."""

    def jitter(self) -> float:
        """Return a number from 0 to 1, by which retries of many clients spread."""

    def sleep(self, seconds: float) -> object:
        """Wait, in a thread."""

    def sleep_async(self, seconds: float) -> Awaitable[object]:
        """Wait, in an event loop."""


class SystemClock:
    """The clock of the operating system."""

    monotonic = staticmethod(time.monotonic)
    jitter = staticmethod(random.random)
    sleep = staticmethod(time.sleep)
    time = staticmethod(time.time)

    async def sleep_async(self, seconds: float) -> None:
        """Wait, in an event loop."""
        import asyncio  # noqa: PLC0415 - a program of threads does not import it

        await asyncio.sleep(seconds)


SYSTEM_CLOCK: Clock = SystemClock()


class ClientOptions(TypedDict, total=False):
    """The further keywords of `Acker` and `AsyncAcker`, for those who pass them on."""

    retry_timeout: float
    emit_timeout: float
    request_timeout: float
    startup_timeout: float | None
    linger: float
    batch_size: int
    buffer_size: int
    on_full: OnFull
    on_drop: Callable[..., Any] | None
    transport: Any
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The configuration of one client; all times in seconds. Raises `UsageError`.

    ``request_timeout`` is for one attempt of a request. A request that fails is sent again, the same bytes with the
    same idempotency key, for ``retry_timeout`` (at most half the time for which the service remembers keys); while no
    server listens at the address and none ever answered, for ``startup_timeout`` (None: as always). A refused init is
    sent in new requests for ``emit_timeout`` or its message timeout, whichever is shorter; a refused ack or fail is
    sent again for ``retry_timeout``. What the service asks to wait beyond that is not waited for.

    Acks wait for at most ``linger`` or until ``batch_size`` operations are buffered, and are sent together, those of
    one root folded into one operation (not on a topology with a dedupe window). They wait shorter while they come
    seldom: nothing would join them. The buffer holds about ``buffer_size``
    operations; ``on_full`` says what happens then. With ``linger=0`` each ack is a request of its own.
    """

    retry_timeout: float = 60.0
    emit_timeout: float = 30.0
    request_timeout: float = 10.0
    startup_timeout: float | None = 5.0
    linger: float = 0.005
    batch_size: int = 1_000
    buffer_size: int = 10_000
    on_full: OnFull = "block"
    clock: Clock = field(default=SYSTEM_CLOCK)

    def __post_init__(self) -> None:
        for name in ("retry_timeout", "emit_timeout", "request_timeout", "linger"):
            validate.number(name, getattr(self, name))
        if self.startup_timeout is not None:
            validate.number("startup_timeout", self.startup_timeout)
        for name in ("batch_size", "buffer_size"):
            validate.integer(name, getattr(self, name))
        if min(self.retry_timeout, self.emit_timeout, self.startup_timeout or 0) < 0 or self.request_timeout <= 0:
            raise UsageError(
                "retry_timeout, emit_timeout and startup_timeout must not be negative, "
                "and request_timeout must be more than 0"
            )
        if self.linger < 0 or not 1 <= self.batch_size <= self.buffer_size:
            raise UsageError("linger must not be negative, batch_size at least 1 and at most buffer_size")
        validate.one_of("on_full", self.on_full, "block", "raise")

    def backoff_delays(self) -> Iterator[float]:
        """Yield the seconds to wait before each further attempt: doubling up to 5, the upper half of each random."""
        span = FIRST_DELAY_S
        while True:
            yield span * (1 + self.clock.jitter()) / 2
            span = min(2 * span, MAX_DELAY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Which acker a client talks to, for which topology; the key is not shown."""

    url: str = DEFAULT_URL
    topology: str = DEFAULT_TOPOLOGY
    api_key: str | None = field(default=None, repr=False)


def address_from(environment: Mapping[str, str] = os.environ) -> Address:
    """Read ``ACKER_URL``, ``ACKER_TOPOLOGY`` and ``ACKER_API_KEY``; one that is unset or empty has its default."""
    return Address(
        url=environment.get("ACKER_URL") or DEFAULT_URL,
        topology=environment.get("ACKER_TOPOLOGY") or DEFAULT_TOPOLOGY,
        api_key=environment.get("ACKER_API_KEY") or None,
    )
