"""Knows how to perform the flows of an acker in an event loop; what its verbs mean stands in ``sync.py``."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from inspect import isawaitable
from typing import Self, Unpack

import httpx

from acker_client import anchoring, batching, connection, exchange, flows, hand, mailbox, roots, terms, tuples
from acker_client.completions import Done, Handler, tell


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncDriver:
    """Performs flows, awaiting their replies and pauses."""

    http: httpx.AsyncClient
    sleep: Callable[[float], Awaitable[object]]

    async def run(self, flow: exchange.Flow[exchange.T]) -> exchange.T:
        """As `Driver.run`, awaited."""
        try:
            step = next(flow)
            while True:
                step = flow.send(await self._perform(step))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # StopIteration is not generic

    async def _perform(self, step: exchange.Step) -> exchange.Performed:
        if isinstance(step, exchange.Pause):
            await self.sleep(step.seconds)
            return None
        try:
            return connection.reply(await self.http.send(connection.request(self.http, step)))
        except httpx.TransportError as error:
            return connection.lost(error)


class AsyncOptions(terms.Options, total=False):
    """As `Options`, awaited."""

    transport: httpx.AsyncBaseTransport | None
    sleep: Callable[[float], Awaitable[object]]


class AsyncAcker(hand.Hand):
    """As `Acker`, awaited; for any number of tasks of one asyncio event loop. ::

    async with AsyncAcker("http://127.0.0.1:8700", topology="orders") as acker:
        async with acker.execute(headers, component="split") as tuple_:
            await queue.send(word, headers=tuple_.anchor("0").headers())
    """

    def __init__(
        self, url: str, topology: str = "default", api_key: str | None = None, **options: Unpack[AsyncOptions]
    ) -> None:
        transport, sleep = options.pop("transport", None), options.pop("sleep", asyncio.sleep)
        agreed = terms.agree(options)
        super().__init__(topology, agreed)
        http = httpx.AsyncClient(transport=transport, **connection.options(url, api_key=api_key, terms=agreed))
        self._driver = AsyncDriver(http=http, sleep=sleep)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """As `Acker.close`."""
        await self._driver.http.aclose()

    def spout(self, name: str, *, shared: bool = False) -> "AsyncSpout":
        """As `Acker.spout`."""
        return AsyncSpout(name=self._spout_task(name, shared=shared), flows=self._flows, driver=self._driver)

    @asynccontextmanager
    async def execute(
        self, headers: anchoring.Headers, *, component: str, on_error: flows.OnError = "fail"
    ) -> AsyncIterator[tuples.Tuple]:
        """As `Acker.execute`; a cancelled task sends nothing."""
        tuple_ = self._tuple_for(headers, component, on_error)
        try:
            yield tuple_
        except BaseException as error:
            await self._driver.run(self._flows.interrupted(tuple_, error, on_error))
            raise
        await self._driver.run(self._flows.executed(tuple_))

    async def ack(self, tuple_: tuples.Tuple) -> flows.Words:
        """As `Acker.ack`."""
        return await self._driver.run(self._flows.ack(tuple_))

    async def fail(self, tuple_: tuples.Tuple, *, reason: str | None = None) -> flows.Words:
        """As `Acker.fail`."""
        return await self._driver.run(self._flows.fail(tuple_, reason=reason))

    async def reset_timeout(self, tuple_: tuples.Tuple) -> flows.Words:
        """As `Acker.reset_timeout`."""
        return await self._driver.run(self._flows.reset_timeout(tuple_))

    @asynccontextmanager
    async def batch(self) -> AsyncIterator[batching.Batch]:
        """As `Acker.batch`, in this task and those it starts."""
        try:
            with batching.gathering(self._flows) as batch:
                yield batch
        except Exception:
            await self._driver.run(self._flows.flush(batch))
            raise
        await self._driver.run(self._flows.flush(batch))


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncSpout:
    """As `Spout`, awaited."""

    name: str
    flows: flows.Flows
    driver: AsyncDriver

    @asynccontextmanager
    async def emit(self, **emission: Unpack[roots.Emission]) -> AsyncIterator[roots.Root]:
        """As `Spout.emit`."""
        with closing(self.flows.begin(self.name, emission)) as root:
            yield root
        await self.driver.run(self.flows.emitted(root))

    async def completions(self, **reading: Unpack[mailbox.Reading]) -> AsyncIterator[Done]:
        """As `Spout.completions`."""
        box = self.flows.mailbox(self.name, reading)
        while box.open:
            for done in await self.driver.run(box.read()):
                yield done
            await self.driver.run(box.release())

    async def run(
        self, *, on_ack: Handler | None = None, on_fail: Handler | None = None, **reading: Unpack[mailbox.Reading]
    ) -> None:
        """As `Spout.run`; a handler may be a coroutine function."""
        async for done in self.completions(**reading):
            told = tell(done, on_ack=on_ack, on_fail=on_fail)
            if isawaitable(told):
                await told
