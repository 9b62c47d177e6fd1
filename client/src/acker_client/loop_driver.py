"""Knows how to perform flows in an event loop."""

import asyncio
from contextlib import closing, suppress
from contextvars import Context
from inspect import isawaitable
from typing import TYPE_CHECKING

import httpx

from acker_client import connection, steps

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from acker_client.calls import Call


class AsyncDriver:
    """As `Driver`, awaited; for the tasks of one loop."""

    def __init__(
        self, connect: "Callable[[], httpx.AsyncClient]", *, sleep: "Callable[[float], Awaitable[object]]"
    ) -> None:
        self._connect, self._sleep = connect, sleep
        self.start_anew()

    def start_anew(self) -> None:
        """Begin without connections and tasks; a loop does not outlive a fork."""
        self._http = self._connect()
        self._turn, self._bell = asyncio.Lock(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, flow: steps.Flow[steps.T]) -> steps.T:
        """As `Driver.run`, awaited."""
        with closing(flow):
            try:
                wanted = next(flow)
                while True:
                    wanted = steps.resume(flow, await self._attempt(wanted))
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # StopIteration is not generic

    async def close(self) -> None:
        """Close the connections; whoever still lingers has nothing left to send, and ends."""
        self._bell.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.aclose()

    async def _attempt(self, wanted: steps.Step) -> steps.Performed | Exception:
        try:
            return await self._perform(wanted)
        except Exception as fault:  # noqa: BLE001 - as in `Driver`
            return fault

    async def _perform(self, wanted: steps.Step) -> steps.Performed:
        match wanted:
            case steps.Alone(flow=flow):
                async with self._turn:
                    await self.run(flow)
            case steps.Aside(flow=flow):
                self._begin(flow)
            case steps.Linger(seconds=seconds):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._bell.wait(), seconds)
                self._bell.clear()
            case steps.Hurry():
                self._bell.set()
            case steps.Pause(seconds=seconds):
                await self._sleep(seconds)
            case steps.Work(do=do):
                result = do()
                return await result if isawaitable(result) else result
            case call:
                return await self._exchange(call)
        return None

    async def _exchange(self, call: "Call") -> steps.Performed:
        try:
            return connection.reply(await self._http.send(connection.request(self._http, call)))
        except httpx.RequestError as error:
            return connection.lost(error)
        except AttributeError as error:
            return connection.reset(error)
        except RuntimeError as error:
            raise connection.closed(self._http, error) from None

    def _begin(self, flow: steps.Flow[None]) -> None:
        """Begin a task that is not within the batch of the one that has called."""
        task = asyncio.get_running_loop().create_task(self.run(flow), context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
