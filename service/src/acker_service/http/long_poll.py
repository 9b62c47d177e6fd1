"""Long polling: a request waits for its result, its deadline, the stop of the acker or the client's disconnect."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request

from acker_service.background import Wakeup
from acker_service.http.auth import check_again

T = TypeVar("T")

HEARTBEAT_S = 15.0
"""How long a request waits at most until its key is looked up again."""

LATE_S = 1.0
"""How long a request waits that comes once the acker stops: at once answered, it would come again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongPoll:
    """A request that waits ``seconds`` at most, and no longer than until ``stopping`` is set.

    One that comes after that waits `LATE_S` at most.
    """

    request: Request
    stopping: asyncio.Event
    seconds: float

    async def until(self, done: Callable[[T], bool], read: Callable[[], Awaitable[T]], waiter: Wakeup) -> T:
        """Read again at every wake of ``waiter``, until the result is done or the wait over; give the last result.

        Raises `Unauthorized`, `Forbidden` once the request's key is not valid any more.
        """
        loop = asyncio.get_running_loop()
        late = self.stopping.is_set()
        deadline = loop.time() + (min(self.seconds, LATE_S) if late else self.seconds)
        result = await read()
        if done(result) or not self.seconds:
            return result
        gone = asyncio.create_task(_wait_for_disconnect(self.request))
        gone.add_done_callback(lambda _: waiter.wake())
        try:
            while not (done(result) or gone.done()) and (left := deadline - loop.time()) > 0:
                if self.stopping.is_set() and not late:
                    break
                woken_at = await waiter.wait(min(left, HEARTBEAT_S))
                # rule: a long poll whose key was removed reads nothing more
                check_again(self.request)
                if woken_at is not None or loop.time() >= deadline:
                    result = await read()
        finally:
            gone.cancel()
        return result


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
