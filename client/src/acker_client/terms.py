"""Knows the terms a program sets for its requests: how long each may take, and for how long it is tried."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypedDict

from acker_client.errors import Misuse

FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 5.0


class Options(TypedDict, total=False):
    """The terms as arguments of an acker; `Terms` says what each means."""

    retry_for_ms: int
    place_for_ms: int
    timeout_s: float
    clock: Callable[[], float]
    jitter: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms of one acker.

    A request whose fate is unknown is sent again, the same bytes with the same key, for ``retry_for_ms`` (and at most
    half the time for which the service remembers keys). A refused init is sent in new requests for ``place_for_ms``
    or its message timeout, whichever is shorter. ``timeout_s`` is for one try. ``clock`` counts seconds and never
    goes back; ``jitter`` gives a number from 0 to 1.
    """

    retry_for_ms: int = 60_000
    place_for_ms: int = 30_000
    timeout_s: float = 10.0
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if min(self.retry_for_ms, self.place_for_ms) < 0 or self.timeout_s <= 0:
            raise Misuse("retry_for_ms and place_for_ms must not be negative, and timeout_s must be more than 0")

    def waits(self) -> Iterator[float]:
        """Give the seconds to wait before each further try: doubling up to 5, the upper half of each by chance."""
        span = FIRST_WAIT_S
        while True:
            yield span * (1 + self.jitter()) / 2
            span = min(2 * span, LONGEST_WAIT_S)


def agree(options: Options) -> Terms:
    """Take the terms from an acker's arguments. Raises `Misuse`."""
    return Terms(**options)
