"""Knows the verbs of an acker for a program of tasks; what they mean stands in ``sync.py``."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self, Unpack

from acker_client import anchoring, batching, connection, flows, hand, loop_driver, terms
from acker_client.loop_spouts import AsyncSpout
from acker_client.thread_driver import Driver

if TYPE_CHECKING:
    import httpx

    from acker_client.tuples import Tuple


class AsyncOptions(terms.Options, total=False):
    """As `Options`, awaited; ``on_reject`` may be a coroutine function."""

    transport: "httpx.AsyncBaseTransport | None"
    sleep: Callable[[float], Awaitable[object]]
    on_reject: "flows.OnReject | None"


class AsyncAcker(hand.Hand):
    """As `Acker`, awaited; for any number of tasks of one asyncio event loop. ::

    async with AsyncAcker("http://127.0.0.1:8700", topology="orders") as acker:
        async with acker.execute(headers, component="split") as tuple_:
            await queue.send(word, headers=tuple_.anchor("0").headers())
    """

    def __init__(
        self, url: str, topology: str = "default", api_key: str | None = None, **options: Unpack[AsyncOptions]
    ) -> None:
        self._reach = connection.Reach(url=url, api_key=api_key, transport=options.pop("transport", None))
        sleep, told = options.pop("sleep", asyncio.sleep), options.pop("on_reject", None)
        self._terms = terms.agree(options)
        self._driver = loop_driver.AsyncDriver(self._reach.async_connector(self._terms), sleep=sleep)
        super().__init__(topology, self._terms, told)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def flush(self) -> None:
        """As `Acker.flush`."""
        await self._driver.run(self._flows.flush())

    async def close(self) -> None:
        """As `Acker.close`."""
        self._flows.lingering.end()
        try:
            await self.flush()
        finally:
            await self._driver.close()

    def spout(self, name: str, *, shared: bool = False) -> AsyncSpout:
        """As `Acker.spout`."""
        return AsyncSpout(task=self._spout_task(name, shared=shared), emitting=self._emitting, driver=self._driver)

    @asynccontextmanager
    async def execute(
        self, headers: anchoring.Headers, *, component: str, on_error: flows.OnError = "fail"
    ) -> AsyncIterator["Tuple"]:
        """As `Acker.execute`; a cancelled task sends nothing."""
        tuple_ = self._tuple_for(headers, component, on_error)
        try:
            yield tuple_
        except BaseException as error:
            if not await self._driver.run(self._flows.interrupted(tuple_, error, on_error)):
                raise
        else:
            await self._driver.run(self._flows.executed(tuple_))

    async def ack(self, tuple_: "Tuple") -> flows.Words:
        """As `Acker.ack`."""
        return await self._driver.run(self._flows.ack(tuple_))

    async def fail(self, tuple_: "Tuple", *, reason: str | None = None) -> flows.Words:
        """As `Acker.fail`."""
        return await self._driver.run(self._flows.fail(tuple_, reason=reason))

    async def reset_timeout(self, tuple_: "Tuple") -> flows.Words:
        """As `Acker.reset_timeout`."""
        return await self._driver.run(self._flows.reset_timeout(tuple_))

    @asynccontextmanager
    async def batch(self) -> AsyncIterator[batching.Batch]:
        """As `Acker.batch`, in this task and those it starts."""
        try:
            with batching.gathering(self._flows) as batch:
                yield batch
        except Exception:
            await self._driver.run(self._emitting.deliver(batch))
            raise
        await self._driver.run(self._emitting.deliver(batch))

    def _forget_parent(self) -> None:
        self._driver.start_anew()

    def _last_driver(self) -> Driver:
        """There is no loop any more when the interpreter ends, so a thread's driver sends what is left."""
        return Driver(self._reach.connector(self._terms), sleep=time.sleep)
