"""A spout of a program of tasks: emits roots, and reads their completions."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from acker_client._core import mailbox, replay
from acker_client.completions import Completion, Handler, dispatch
from acker_client.root import Root, emit_options

if TYPE_CHECKING:
    from acker_client._core.spout_task import SpoutTask
    from acker_client._core.spouts import Spouts
    from acker_client.asyncio.driver import AsyncDriver
    from acker_client.root import EndOnName


class AsyncSpout:
    """Emits roots under the name of one spout task, and reads their completions; for tasks."""

    def __init__(self, *, task: "SpoutTask", spouts: "Spouts", driver: "AsyncDriver") -> None:
        self._task = task
        self._spouts = spouts
        self._driver = driver

    @property
    def name(self) -> str:
        """The spout task's name."""
        return self._task.name

    @asynccontextmanager
    async def emit(
        self,
        message_id: str | None = None,
        *,
        message_timeout: float | None = None,
        progress_timeout: float | None = None,
        trace: bool = False,
        traceparent: str | None = None,
        end_on: "EndOnName | None" = None,
    ) -> AsyncIterator[Root]:
        """Emit a root: anchor one child per consumer in the block; its init is sent when the block ends.

        ``message_id`` is the spout's own id of the message; without one nothing is tracked. Timeouts are in seconds,
        None for the topology's. With ``trace`` the acker keeps the root's tree; ``traceparent`` comes back with the
        completion. ``end_on`` is what ends the root: its first fail, or that all of its edges have ended, None for what
        the topology says. It waits for a free slot before the
        block, and raises `MaxSpoutPending`, `MailboxFull` or `StoreFull` for an init that stays refused. If the block
        raises, or is cancelled, no init is sent.
        """
        options = emit_options(
            message_id,
            message_timeout=message_timeout,
            progress_timeout=progress_timeout,
            trace=trace,
            traceparent=traceparent,
            end_on=end_on,
        )
        root = self._spouts.make_root(self._task, options)
        remaining = self._spouts.admit_root(self._task, root)
        if remaining is not None:
            await self._driver.run(remaining)
        with self._spouts.root_scope(self._task, root):
            yield root
        sending = self._spouts.commit_root(self._task, root)
        if sending is not None:
            await self._driver.run(sending)

    async def completions(
        self,
        *,
        until: float | None = None,
        stop: Callable[[], bool] | None = None,
        page_size: int = 100,
        poll_timeout: float = 30.0,
    ) -> AsyncIterator[Completion]:
        """Read completions; one is released only after the loop body for it ended without an exception.

        Reading ends before a poll when ``stop()`` is true or ``until`` seconds are over, after the first poll at the
        earliest. Each poll asks for ``page_size`` completions and waits up to ``poll_timeout`` seconds for the first.
        After a ``break`` or an exception all completions of the page come again, which is logged.
        """
        options = mailbox.read_options(until=until, stop=stop, page_size=page_size, poll_timeout=poll_timeout)
        reader = self._spouts.mailbox(self._task, options)
        while reader.is_open:
            page = await self._driver.run(reader.read())
            try:
                for completion in page:
                    yield completion
            except GeneratorExit:
                mailbox.log_unreleased(self.name, page)
                raise
            await self._driver.run(reader.release())

    async def subscribe(
        self,
        redis_url: str,
        *,
        until: float | None = None,
        stop: Callable[[], bool] | None = None,
        page_size: int = 1_000,
    ) -> AsyncIterator[Completion]:
        """Read completions as Redis publishes them, and from the mailbox those that pub/sub loses.

        ``redis_url`` is the acker's Redis, with a login that may subscribe. Raises `UsageError` where that is refused,
        or the spout task has a webhook. Needs ``acker-client[redis]``.
        """
        from acker_client.asyncio._redis import connect  # noqa: PLC0415 - only this method needs redis

        options = mailbox.read_options(until=until, stop=stop, page_size=page_size, poll_timeout=0)
        reader = self._spouts.pubsub_reader(self._task, redis_url, connect, options)
        try:
            while reader.is_open:
                for completion in await self._driver.run(reader.read()):
                    yield completion
                await self._driver.run(reader.release())
        finally:
            await self._driver.run(reader.close())

    async def listen(
        self,
        *,
        on_ack: Handler | None = None,
        on_fail: Handler | None = None,
        until: float | None = None,
        stop: Callable[[], bool] | None = None,
        page_size: int = 100,
        poll_timeout: float = 30.0,
    ) -> None:
        """Call a handler, a function or a coroutine function, with the message id of every completion.

        A timeout counts as a failure. The other arguments are those of `completions`.
        """
        reading = self.completions(until=until, stop=stop, page_size=page_size, poll_timeout=poll_timeout)
        async for completion in reading:
            handled = dispatch(completion, on_ack=on_ack, on_fail=on_fail)
            if isawaitable(handled):
                await handled

    def replay(
        self,
        send: Callable[[Root, Any], Any],
        policy: replay.ReplayPolicy = replay.ReplayPolicy(),  # noqa: B008 - frozen
        *,
        on_exhausted: Callable[[replay.Exhausted], Any] = replay.log_exhausted,
    ) -> "AsyncReplay":
        """Emit messages and send again those that fail, as the policy says.

        ``send(root, payload)`` and ``on_exhausted`` are functions or coroutine functions: the first anchors a message's
        children to the root and sends them, the second gets a message that has failed ``max_attempts`` times.
        """
        queue = replay.ReplayQueue(self._spouts, task=self._task, send=send, policy=policy, on_exhausted=on_exhausted)
        return AsyncReplay(queue=queue, task=self._task, spouts=self._spouts, driver=self._driver)

    async def max_pending(self) -> int | None:
        """Read the topology's cap on the pending roots of this spout task, None without one."""
        return await self._driver.run(self._task.max_pending())


class AsyncReplay:
    """Emits messages, and sends them again until they are acked or exhausted; for tasks."""

    def __init__(
        self, *, queue: replay.ReplayQueue, task: "SpoutTask", spouts: "Spouts", driver: "AsyncDriver"
    ) -> None:
        self._queue = queue
        self._task = task
        self._spouts = spouts
        self._driver = driver

    @property
    def pending(self) -> int:
        """The number of messages that are neither acked nor exhausted."""
        return len(self._queue)

    async def emit(
        self,
        message_id: str,
        payload: Any = None,
        *,
        message_timeout: float | None = None,
        progress_timeout: float | None = None,
    ) -> None:
        """Send a message for the first time; as `AsyncSpout.emit`, with ``send`` for the block."""
        options = emit_options(message_id, message_timeout=message_timeout, progress_timeout=progress_timeout)
        message = replay.ReplayMessage(message_id=message_id, payload=payload, options=options)
        await self._driver.run(self._queue.emit(message))

    async def run(
        self,
        *,
        on_ack: Handler | None = None,
        until: float | None = None,
        stop: Callable[[], bool] | None = None,
        page_size: int = 100,
        poll_timeout: float = 30.0,
    ) -> None:
        """Read completions, call ``on_ack`` with the message ids of those acked, and send again what is due.

        ``on_ack`` may be a coroutine function. The other arguments are those of `AsyncSpout.completions`.
        """
        options = mailbox.read_options(until=until, stop=stop, page_size=page_size, poll_timeout=poll_timeout)
        reader = self._spouts.mailbox(self._task, options)
        await self._driver.run(self._queue.run(reader, on_ack))
