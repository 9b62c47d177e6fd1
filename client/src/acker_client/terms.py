"""Knows the terms a program sets for its requests: how long each may take, and for how long it is tried."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypedDict

from acker_client import arguments
from acker_client.errors import Misuse

FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 5.0


WhenFull = Literal["block", "raise"]
"""What an ack does that finds the buffer full: wait until there is room, or raise `BufferFull`."""


class Options(TypedDict, total=False):
    """The terms as arguments of an acker; `Terms` says what each means."""

    retry_for_ms: int
    place_for_ms: int
    timeout_s: float
    linger_ms: float
    batch_size: int
    buffer_size: int
    when_full: "WhenFull"
    clock: Callable[[], float]
    wall: Callable[[], float]
    jitter: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms of one acker.

    A request whose fate is unknown is sent again, the same bytes with the same key, for ``retry_for_ms`` (and at most
    half the time for which the service remembers keys). A refused init is sent in new requests for ``place_for_ms``
    or its message timeout, whichever is shorter; a refused ack or fail is sent again for ``retry_for_ms``.
    ``timeout_s`` is for one try.

    Acks linger for ``linger_ms`` or until ``batch_size`` operations are gathered, and go out together, those of one
    root as one operation (not on a topology that dedupes). At most about ``buffer_size`` operations are on their way;
    ``when_full`` says what happens then. With ``linger_ms=0`` each ack goes out by itself and is answered.

    ``clock`` counts seconds and never goes back; ``wall`` is the Unix time in seconds; ``jitter`` gives a number from 0
    to 1.
    """

    retry_for_ms: int = 60_000
    place_for_ms: int = 30_000
    timeout_s: float = 10.0
    linger_ms: float = 5
    batch_size: int = 1_000
    buffer_size: int = 10_000
    when_full: WhenFull = "block"
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        for name in ("retry_for_ms", "place_for_ms", "timeout_s", "linger_ms"):
            arguments.number(name, getattr(self, name))
        for name in ("batch_size", "buffer_size"):
            arguments.whole(name, getattr(self, name))
        if min(self.retry_for_ms, self.place_for_ms) < 0 or self.timeout_s <= 0:
            raise Misuse("retry_for_ms and place_for_ms must not be negative, and timeout_s must be more than 0")
        if self.linger_ms < 0 or not 1 <= self.batch_size <= self.buffer_size:
            raise Misuse("linger_ms must not be negative, batch_size at least 1 and at most buffer_size")
        if self.when_full not in ("block", "raise"):
            raise Misuse(f"when_full must be 'block' or 'raise', not {self.when_full!r}")

    def waits(self) -> Iterator[float]:
        """Give the seconds to wait before each further try: doubling up to 5, the upper half of each by chance."""
        span = FIRST_WAIT_S
        while True:
            yield span * (1 + self.jitter()) / 2
            span = min(2 * span, LONGEST_WAIT_S)


def agree(options: Options) -> Terms:
    """Take the terms from an acker's arguments. Raises `Misuse`."""
    arguments.known(options, Options.__annotations__)
    return Terms(**options)
