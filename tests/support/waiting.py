"""Waits for what has to become true, instead of sleeping."""

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")


async def eventually(look: Callable[[], Awaitable[T]], *, within: float = 40.0) -> T:
    """Look again and again until what is seen is true; give it. Fails after ``within`` seconds."""
    until = time.monotonic() + within
    while not (seen := await look()):
        assert time.monotonic() < until, f"not within {within} s; last seen: {seen!r}"
        await anyio.sleep(0.02)
    return seen


def eventually_true(look: Callable[[], object], *, within: float = 40.0, every: float = 0.02) -> None:
    """Likewise, for tests that have no event loop; ``every`` so many seconds, where a look takes processor time."""
    until = time.monotonic() + within
    while not look():
        assert time.monotonic() < until, f"not within {within} s"
        time.sleep(every)


def never(look: Callable[[], object], *, for_s: float) -> None:
    """See that something does not become true for a while."""
    until = time.monotonic() + for_s
    while time.monotonic() < until:
        assert not look(), "it became true"
        time.sleep(0.05)
