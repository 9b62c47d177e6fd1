"""Knows those who wait: each has one future while it waits, and no task."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")


class Wakeup:
    """One who waits. A wake that comes before the wait begins ends it at once; so none is lost between two looks."""

    __slots__ = ("_future", "_woken")

    def __init__(self) -> None:
        self._woken = False
        self._future: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """End the wait, or the next one."""
        self._woken = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait to be woken, ``seconds`` at most."""
        if not self._woken:
            loop = asyncio.get_running_loop()
            self._future = loop.create_future()
            alarm = loop.call_later(seconds, self.wake)
            try:
                await self._future
            finally:
                alarm.cancel()
        self._woken = False


class Wakeups(Generic[K]):
    """Those who wait, by what they wait for."""

    def __init__(self) -> None:
        self._waiters: dict[K, set[Wakeup]] = {}

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[K]:
        """Give what is waited for, as it is now."""
        return iter(list(self._waiters))

    @contextlib.contextmanager
    def waiting(self, key: K) -> Iterator[Wakeup]:
        """Give one who waits for ``key``; begin to wait before you look, so that no news is missed."""
        waiter = Wakeup()
        self._waiters.setdefault(key, set()).add(waiter)
        try:
            yield waiter
        finally:
            waiters = self._waiters[key]
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[key]

    def wake(self, key: K) -> None:
        """Wake all who wait for ``key``."""
        for waiter in self._waiters.get(key, ()):
            waiter.wake()

    def wake_all(self) -> None:
        """Wake everybody."""
        for key in self:
            self.wake(key)
