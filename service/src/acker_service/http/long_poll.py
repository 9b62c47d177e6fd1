"""Knows how a request waits: until what it asked for is there, its time is over, the acker stops or the caller goes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request

from acker_service.wakeup import Wakeup

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LongPoll:
    """How long a request may wait."""

    request: Request
    stopping: asyncio.Event
    seconds: float

    async def until(self, done: Callable[[T], bool], look: Callable[[], Awaitable[T]], waiter: Wakeup) -> T:
        """Look again whenever the waiter is woken, until what is seen is done or the wait over; give what was seen."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self.seconds
        seen = await look()
        if done(seen) or not self.seconds:
            return seen
        gone = asyncio.create_task(_go_away(self.request))
        gone.add_done_callback(lambda _: waiter.wake())
        try:
            while not (done(seen) or gone.done() or self.stopping.is_set()) and (left := until - loop.time()) > 0:
                await waiter.wait(left)
                seen = await look()
        finally:
            gone.cancel()
        return seen


async def _go_away(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
