"""Runs flows in an event loop."""

import asyncio
from collections import deque
from contextlib import suppress
from contextvars import Context
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from acker_client._core import effects
from acker_client.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from acker_client._core.flusher import Flusher
    from acker_client._core.waiters import Waiter
    from acker_client._transport import Endpoint, Route
    from acker_client.asyncio._connections import AsyncConnections
    from acker_client.asyncio._httpx import AsyncHttpxSender
    from acker_client.config import ClientConfig

    AsyncSender = AsyncConnections | AsyncHttpxSender


class AsyncDriver:
    """Runs the effects of flows, awaited; for the tasks of one event loop at a time."""

    def __init__(self, endpoint: "Endpoint", config: "ClientConfig") -> None:
        """Raises `UsageError` for an invalid URL or proxy."""
        self._route = endpoint.route(config)
        self._sleep = config.clock.sleep_async
        self._resume: Callable[[], effects.Spawn | None] = lambda: None
        self._closed = False
        self._running: set[effects.Flow[Any]] = set()
        self._abandoned: deque[effects.Flow[Any]] = deque()
        self.reset()

    def reset(self) -> None:
        """Begin without connections and tasks; an event loop does not outlive a fork."""
        self._sender = _sender(self._route)
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def resume_with(self, resume: "Callable[[], effects.Spawn | None]") -> None:
        """Run in each event loop what this function gives: it goes on with what the loop before has left."""
        self._resume = resume

    def enter(self) -> None:
        """Belong to the running event loop from now on. Raises `UsageError` while the one before it runs, too."""
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._loop is not None and self._loop.is_running():
            raise UsageError("this client is used in another event loop that runs: make a client for each loop")
        if self._loop is not None and not self._closed:
            self.reset()
        self._loop = loop
        self._at_end = self._end_of(loop)
        with suppress(StopIteration):
            self._at_end.__anext__().send(None)  # the loop knows of it now
        if (left := self._resume()) is not None:
            self._spawn(left)

    def enter_if_running(self) -> None:
        """Enter the running event loop, if there is one."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if loop is not self._loop:
            self.enter()

    async def run(self, flow: effects.Flow[effects.T]) -> effects.T:
        """Run a flow to its end and give its result; what it raises is raised here.

        The flow of a task that is destroyed with its loop is closed by a later call: garbage is collected at any place,
        also where a thread holds the lock that the flow needs for its end. So it is kept from being garbage itself.
        """
        while self._abandoned:
            self._abandoned.popleft().close()
        self._running.add(flow)
        try:
            self.enter()
            wanted = next(flow)
            while True:
                self.enter()  # its loop may have paused, and another one run meanwhile
                wanted = effects.advance(flow, await self._attempt(wanted))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # StopIteration is not generic
        except GeneratorExit:
            self._abandoned.append(flow)
            raise
        except BaseException:
            flow.close()
            raise
        finally:
            self._running.discard(flow)

    async def flush(self, flusher: "Flusher") -> None:
        """Flush, and raise `OperationsLost`. What an interrupt leaves in flight is sent in the background."""
        try:
            await self.run(flusher.flush(raising=True))
        except (Exception, asyncio.CancelledError):
            await self.run(flusher.attend())
            raise

    async def close(self) -> None:
        """Close the connections; a flusher that still waits has nothing left to send, and ends."""
        self._closed = True
        self._wake.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._sender.close()

    async def _attempt(self, wanted: effects.Effect) -> effects.EffectResult | Exception:
        try:
            return await self._perform(wanted)
        except Exception as error:  # noqa: BLE001 - as in `Driver`
            return error

    async def _perform(self, wanted: effects.Effect) -> effects.EffectResult:
        match wanted:
            case effects.WaitTurn(waiter=waiter):
                await _wait_turn(waiter)
            case effects.Spawn() as spawn:
                self._spawn(spawn)
            case effects.WaitFlush(seconds=seconds):
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await self._wake.wait()
                self._wake.clear()
            case effects.WakeFlush():
                self._wake.set()
            case effects.Sleep(seconds=seconds):
                await self._sleep(seconds)
            case effects.RunBlocking(function=function):
                result = function()
                return await result if isawaitable(result) else result
            case request if request.limit_s is None:
                return await self._sender.send(request)
            case request:
                async with asyncio.timeout(request.timeout_s(self._route.timeout_s)):
                    return await self._sender.send(request)
        return None

    def _spawn(self, spawn: effects.Spawn) -> None:
        """Start a task that is not within the batch of the task that has called."""
        task = asyncio.get_running_loop().create_task(self._run_in_background(spawn), context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _end_of(self, loop: asyncio.AbstractEventLoop) -> "AsyncGenerator[None, None]":
        """Close the connections at the end of an event loop: then `asyncio.run` ends generators that were begun."""
        sender = self._sender
        try:
            yield
        finally:
            await sender.leave_loop()
            if self._loop is loop and not self._closed:
                self.reset()

    async def _run_in_background(self, spawn: effects.Spawn) -> None:
        """Run a flow; nobody but the end of an event loop cancels it, and `asyncio.run` waits until this has ended."""
        try:
            await self.run(spawn.flow)
        except asyncio.CancelledError:
            await self.run(spawn.at_end())
            raise


def _sender(route: "Route") -> "AsyncSender":
    """Make what sends requests, as for threads; a client of tasks makes one in each event loop."""
    if route.is_direct:
        from acker_client.asyncio._connections import AsyncConnections  # noqa: PLC0415 - as in `sync.driver`

        return AsyncConnections(route)
    from acker_client.asyncio._httpx import AsyncHttpxSender  # noqa: PLC0415

    return AsyncHttpxSender(route)


async def _wait_turn(waiter: "Waiter") -> None:
    """Wait until any thread wakes the waiter; a loop that is closed meanwhile waits no more."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(ready.set)

    waiter.call_when_ready(wake)
    await ready.wait()
