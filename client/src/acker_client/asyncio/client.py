"""The client for programs of tasks."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Self

from acker_client import _transport
from acker_client._client_base import BaseClient
from acker_client._core import batch as batches
from acker_client._core.collection import DEFAULT_SPOUT, Collection
from acker_client.asyncio.driver import AsyncDriver
from acker_client.asyncio.spout import AsyncSpout
from acker_client.config import DEFAULT_TOPOLOGY, SYSTEM_CLOCK, ClientConfig
from acker_client.propagate import use
from acker_client.sync.driver import Driver
from acker_client.tuple import AsyncTuple

if TYPE_CHECKING:
    from acker_protocol.anchors import Headers
    from acker_protocol.operations import OperationState

    from acker_client._core.effects import Flow
    from acker_client._core.submitter import OnDrop
    from acker_client._http_library import AsyncTransport
    from acker_client.config import Clock, OnError, OnFull
    from acker_client.failures import AsyncFailures
    from acker_client.root import EndOnName
    from acker_client.roots import AsyncRoots
    from acker_client.spout_tasks import AsyncSpoutTasks
    from acker_client.topologies import AsyncTopologies


class AsyncAcker(BaseClient):
    """The acker at ``url``, for one topology and any number of tasks of one asyncio event loop at a time. ::

        async with AsyncAcker("http://127.0.0.1:8700", topology="orders") as acker:
            async with acker.receive(headers, component="split") as tup:
                await queue.send(word, headers=tup.headers(key="0"))

    ``api_key`` is sent as a bearer token. `ClientConfig` says what the further keywords mean; times are in seconds.
    ``on_drop``, a function or a coroutine function, is called with the tuple and the `DropTuple`.

    Acks wait for ``linger`` and are sent together by a task in the background. Await ``close()`` before the loop ends;
    else `asyncio.run` ends when they are sent. What a loop has left that was closed otherwise goes with the next loop
    that uses the client, or at the end of the interpreter. Use in a second loop, while the first one runs, raises
    `UsageError`.
    """

    def __init__(
        self,
        url: str,
        topology: str = DEFAULT_TOPOLOGY,
        api_key: str | None = None,
        *,
        retry_timeout: float = 60.0,
        emit_timeout: float = 30.0,
        request_timeout: float = 10.0,
        startup_timeout: float | None = 5.0,
        linger: float = 0.005,
        batch_size: int = 1_000,
        buffer_size: int = 10_000,
        on_full: "OnFull" = "block",
        on_drop: "OnDrop | None" = None,
        transport: "AsyncTransport | None" = None,
        clock: "Clock" = SYSTEM_CLOCK,
    ) -> None:
        config = ClientConfig(
            retry_timeout=retry_timeout,
            emit_timeout=emit_timeout,
            request_timeout=request_timeout,
            startup_timeout=startup_timeout,
            linger=linger,
            batch_size=batch_size,
            buffer_size=buffer_size,
            on_full=on_full,
            clock=clock,
        )
        endpoint = _transport.Endpoint(url=url, api_key=api_key, transport=transport)
        self._driver = AsyncDriver(endpoint, config)
        super().__init__(
            topology, endpoint=endpoint, config=config, on_drop=on_drop, driver=self._driver, tuple_class=AsyncTuple
        )
        self._driver.resume_with(self._submitter.resume)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def flush(self) -> None:
        """Send what is buffered, and return when all of it is answered. Raises `OperationsLost`."""
        await self._driver.flush(self._submitter.flusher)

    async def close(self) -> None:
        """Flush, and close the connections. Raises `OperationsLost`.

        An ack that waits for space, or comes later, raises `ClientClosed`, and its tuple stays open.
        """
        self._submitter.flusher.close()
        try:
            await self.flush()
        finally:
            await self._driver.close()

    @cached_property
    def topologies(self) -> "AsyncTopologies":
        """The topologies of the service: create, get, update, delete."""
        from acker_client.topologies import AsyncTopologies  # noqa: PLC0415 - few programs need it

        return AsyncTopologies(self._session, self._driver.run)

    @cached_property
    def roots(self) -> "AsyncRoots":
        """The roots of the topology: get, fail."""
        from acker_client.roots import AsyncRoots  # noqa: PLC0415 - few programs need it

        return AsyncRoots(self._session, self._driver.run)

    @cached_property
    def spouts(self) -> "AsyncSpoutTasks":
        """The spout tasks of the topology: list, get, delete; their callbacks and dead letters."""
        from acker_client.spout_tasks import AsyncSpoutTasks  # noqa: PLC0415 - few programs need it

        return AsyncSpoutTasks(self._session, self._driver.run)

    @cached_property
    def failures(self) -> "AsyncFailures":
        """The roots of the topology that failed or timed out: list."""
        from acker_client.failures import AsyncFailures  # noqa: PLC0415 - few programs need it

        return AsyncFailures(self._session, self._driver.run)

    def spout(self, name: str) -> AsyncSpout:
        """Return a spout task of this process alone; the service removes it some time after the process has ended."""
        return AsyncSpout(task=self._own_spout_task(name), spouts=self._spouts, driver=self._driver)

    def shared_spout(self, name: str) -> AsyncSpout:
        """Return the spout task of exactly this name, which many processes may use while one of them reads."""
        return AsyncSpout(task=self._shared_spout_task(name), spouts=self._spouts, driver=self._driver)

    def receive(
        self, headers: "Headers", *, component: str, on_error: "OnError" = "fail", repeatable: bool = False
    ) -> AsyncTuple:
        """Return the tuple of a received message; without the anchors header it is not tracked.

        With ``async with`` it is current in the block and acked when the block ends. If the block raises,
        ``on_error="fail"`` fails the tuple, and ``"leave_open"`` sends nothing: the message has to be redelivered. A
        cancelled task sends nothing. Without ``async with``, await its ``ack()`` or ``fail()``.

        ``repeatable=True`` promises that a re-run makes the same children in the same order: then children without a
        key have the same edges again. Raises `InvalidHeader` and `UsageError`.
        """
        self._driver.enter_if_running()
        received: AsyncTuple = self._context.receive(headers, component, on_error, repeatable)
        return received

    async def ack(self, tup: AsyncTuple, *, flush: bool = False) -> "list[OperationState]":
        """Ack a tuple: with ``linger=0`` one state per anchor, else an empty list, since the acks are sent later.

        ``flush=True`` sends what is buffered now, as `flush` does. Waits where the buffer is full, or raises
        `BufferFull`. Raises `OperationsLost` for earlier acks, and then does nothing; with ``flush`` also for what it
        has flushed, and then the tuple is closed.
        """
        remaining = self._context.ack(tup, flush)
        states = [] if remaining is None else await self._driver.run(remaining)
        if flush:
            await self._driver.flush(self._submitter.flusher)
        return states

    async def fail(self, tup: AsyncTuple, *, reason: str | None = None) -> "list[OperationState]":
        """Fail every root of a tuple, now: one state per root, an empty list where a batch collects them."""
        return await self._driver.run(self._submitter.fail(tup, reason=reason))

    async def reset_timeout(self, tup: AsyncTuple) -> "list[OperationState]":
        """Return every root of a tuple its message timeout again, one state per root; at once, also within a batch."""
        return await self._driver.run(self._submitter.reset_timeout(tup))

    @asynccontextmanager
    async def batch(self) -> AsyncIterator[batches.Batch]:
        """Collect all acks, fails and inits of the block, in this task and those it starts, and send them together.

        After an exception too, but not after a cancellation. Raises `BatchError` for those not accepted.
        """
        try:
            with batches.collecting(self._submitter) as batch:
                yield batch
        except Exception:
            await self._driver.run(self._spouts.send_batch(batch))
            raise
        await self._driver.run(self._spouts.send_batch(batch))

    @asynccontextmanager
    async def collect(
        self,
        message_id: str,
        *,
        spout: str = DEFAULT_SPOUT,
        message_timeout: float | None = None,
        end_on: "EndOnName | None" = None,
    ) -> AsyncIterator[Collection]:
        """Collect a batch under one root, as `Acker.collect`."""
        from acker_client.asyncio.keep_alive import kept_alive  # noqa: PLC0415 - few programs need it

        async with self.shared_spout(spout).emit(message_id, message_timeout=message_timeout, end_on=end_on) as root:
            anchors = root.headers()
        tup = self.receive(anchors, component=spout)
        collection = Collection(tup, message_id=message_id, root_id=root.root_id)
        async with tup, kept_alive(tup, topologies=self.topologies, roots=self.roots):
            try:
                with use(collection):
                    yield collection
            finally:
                collection.seal()
        await self.flush()

    def _reset_driver(self) -> None:
        self._driver.reset()

    def _run_at_exit(self, flow: "Flow[None]") -> None:
        """The loop has ended when the interpreter does: a thread's driver sends what is left, whoever has the turn."""
        self._submitter.flusher.buffer.turns.revoke()
        Driver(self._endpoint, self.config).run(flow)
