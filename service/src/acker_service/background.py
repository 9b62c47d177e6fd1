"""Background tasks: the supervised loop, cancellation, and wakeups."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from acker_protocol.errors import ServiceError

from acker_service.metrics.logs import ProblemLog

CANCEL_INTERVAL_S = 0.1

K = TypeVar("K")
R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)


class Waiter(Protocol[R_contra]):
    """Who waits for a result, and goes on with it in the callback that has it; one of the methods is called, once."""

    def set_result(self, result: R_contra, /) -> None:
        """Go on with the result."""

    def set_exception(self, error: BaseException, /) -> None:
        """Go on with the error."""


class Awaited(asyncio.Future[R]):
    """A future as a `Waiter`: once its caller was cancelled, what comes is dropped."""

    def set_result(self, result: R, /) -> None:
        """Give the result to the caller."""
        if not self.done():
            super().set_result(result)

    def set_exception(self, error: BaseException, /) -> None:  # type: ignore[override]
        """Raise the error in the caller."""
        if not self.done():
            super().set_exception(error)


async def called_back(begin: Callable[[Callable[[R], None]], None]) -> R:
    """Begin something that is given a callback, and return what it calls it with."""
    waiting: Awaited[R] = Awaited()
    begin(waiting.set_result)
    return await waiting


async def periodically(
    step: Callable[[], Awaitable[None]],
    *,
    interval: float,
    name: str,
    log: logging.Logger,
    level: int = logging.DEBUG,
    delay: float = 0.0,
    retry_interval: float | None = None,
) -> None:
    """Run ``step`` every ``interval`` seconds after it ended, the first time after ``delay``, until cancelled.

    An error never ends the loop: a `ServiceError` is logged at ``level``, any other exception with its traceback, each
    once until a step succeeds. After one the loop waits ``retry_interval`` seconds, if that is given.
    """
    problems = ProblemLog(log)
    await asyncio.sleep(delay)
    while True:
        rest = interval
        try:
            await step()
        except ServiceError as error:
            problems.begin(type(error).__name__, "%s waits: %s", name, error.detail, level=level)
            rest = interval if retry_interval is None else retry_interval
        except Exception as error:  # noqa: BLE001 - no error ends the loop
            problems.begin(type(error).__name__, "%s failed", name, level=logging.ERROR, error=error)
            rest = interval if retry_interval is None else retry_interval
        else:
            problems.succeeded("%s works again", name)
        await asyncio.sleep(rest)


async def cancel_and_wait(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks and wait until they have ended.

    One cancellation may not suffice: Python 3.11's `asyncio.wait_for`, which redis-py uses to write, swallows a
    cancellation that coincides with its result (3.12 does not). The task would run forever, and we would wait for it.
    """
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=CANCEL_INTERVAL_S)


class Wakeup:
    """Wakes one waiter. A wake before the wait ends that wait at once, so no wake between two waits is lost."""

    __slots__ = ("_future", "_woken")

    def __init__(self) -> None:
        self._woken: float | None = None  # when the first wake came
        self._future: asyncio.Future[None] | None = None

    @property
    def is_woken(self) -> bool:
        """Whether a wake came since the last wait or `clear`."""
        return self._woken is not None

    def wake(self) -> None:
        """End the current wait, or the next one."""
        if self._woken is None:
            self._woken = time.monotonic()
        self._end_wait()

    def clear(self) -> float | None:
        """Forget all wakes, and return when the first of them came (`time.monotonic`), None without one."""
        woken, self._woken = self._woken, None
        return woken

    async def wait(self, seconds: float) -> float | None:
        """Wait for a wake, ``seconds`` at most, and return when the first one came, None without one. It is cleared."""
        if self._woken is None:
            loop = asyncio.get_running_loop()
            self._future = loop.create_future()
            alarm = loop.call_later(seconds, self._end_wait)
            try:
                await self._future
            finally:
                alarm.cancel()
        return self.clear()

    def _end_wait(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class Wakeups(Generic[K]):
    """Wakes waiters by key: each holds one future while it waits, and no task."""

    def __init__(self) -> None:
        self._waiters: dict[K, set[Wakeup]] = {}

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[K]:
        """Return a copy of the keys that have waiters."""
        return iter(list(self._waiters))

    @contextlib.contextmanager
    def waiting(self, key: K) -> Iterator[Wakeup]:
        """Register a waiter for ``key``. Enter this before checking the state, so that no wake is missed."""
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
        """Wake all waiters for ``key``."""
        for waiter in self._waiters.get(key, ()):
            waiter.wake()

    def wake_all(self) -> None:
        """Wake all waiters."""
        for key in self:
            self.wake(key)
