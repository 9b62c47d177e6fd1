"""A spout of a program of threads: emits roots, and reads their completions."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from acker_client._core.mailbox import log_unreleased, read_options
from acker_client._core.replay import Exhausted, ReplayMessage, ReplayPolicy, ReplayQueue, log_exhausted
from acker_client.completions import Completion, Handler, dispatch
from acker_client.errors import UsageError
from acker_client.root import Root, emit_options

if TYPE_CHECKING:
    from types import TracebackType

    from acker_client._core.spout_task import SpoutTask
    from acker_client._core.spouts import Spouts
    from acker_client.root import EmitOptions, EndOnName
    from acker_client.sync.driver import Driver


class Spout:
    """Emits roots under the name of one spout task, and reads their completions."""

    def __init__(self, *, task: "SpoutTask", spouts: "Spouts", driver: "Driver") -> None:
        self._task = task
        self._spouts = spouts
        self._driver = driver

    @property
    def name(self) -> str:
        """The name of the spout task."""
        return self._task.name

    def emit(
        self,
        message_id: str | None = None,
        *,
        message_timeout: float | None = None,
        progress_timeout: float | None = None,
        trace: bool = False,
        traceparent: str | None = None,
        end_on: "EndOnName | None" = None,
    ) -> "EmitBlock":
        """Emit a root, current in the block: anchor one child per consumer there; its init is sent when it ends.

        ``message_id`` is the spout's own id of the message; without one nothing is tracked. Timeouts are in seconds,
        None for the topology's; a progress timeout of 0 is none. With ``trace`` the acker keeps
        the root's tree (docs/explain.md); ``traceparent`` comes back with the completion. ``end_on`` is what ends the
        root: its first fail, or that all of its edges have ended; then the completion says how many failed. None is
        what the topology says.

        Where the topology has a cap it waits for a free slot before the block (`MaxSpoutPending`). A refused init is
        sent again for ``emit_timeout``, then the refusal is raised (`MaxSpoutPending`, `MailboxFull`, `StoreFull`);
        `RetriesExhausted` if its result stays unknown. If the block raises, no init is sent.
        """
        options = emit_options(
            message_id,
            message_timeout=message_timeout,
            progress_timeout=progress_timeout,
            trace=trace,
            traceparent=traceparent,
            end_on=end_on,
        )
        return EmitBlock(task=self._task, spouts=self._spouts, driver=self._driver, options=options)

    def completions(
        self,
        *,
        until: float | None = None,
        stop: Callable[[], bool] | None = None,
        page_size: int = 100,
        poll_timeout: float = 30.0,
    ) -> Iterator[Completion]:
        """Read completions; one is released only after the loop body for it ended without an exception.

        Reading ends before a poll when ``stop()`` is true or ``until`` seconds are over; the first poll is always made,
        so ``until=0`` reads what is there. Each poll asks for ``page_size`` completions and waits up to
        ``poll_timeout`` seconds for the first.

        A page is released as a whole, when its last loop body has ended. Leave the loop by ``stop``: after a ``break``
        or an exception all completions of the page come again, which is logged. If no completion of a root emitted
        here comes by its deadline and a grace, the service is asked; a root that it has lost is given as timed out.
        """
        options = read_options(until=until, stop=stop, page_size=page_size, poll_timeout=poll_timeout)
        reader = self._spouts.mailbox(self._task, options)
        while reader.is_open:
            page = self._driver.run(reader.read())
            try:
                yield from page
            except GeneratorExit:
                log_unreleased(self.name, page)
                raise
            self._driver.run(reader.release())

    def subscribe(
        self,
        redis_url: str,
        *,
        until: float | None = None,
        stop: Callable[[], bool] | None = None,
        page_size: int = 1_000,
    ) -> Iterator[Completion]:
        """Read completions as Redis publishes them, and miss none; released as by `completions`.

        ``redis_url`` is the acker's Redis, with a login that may subscribe. What pub/sub loses, as while it is
        disconnected, is read from the mailbox: at the beginning, after every loss, and every 30 seconds. The spout
        task is made one whose completions are published. Raises `UsageError` for an address or a login that is
        refused, and where the spout task has a webhook. Needs ``acker-client[redis]``.
        """
        from acker_client.sync._redis import RedisConnection  # noqa: PLC0415 - only this method needs redis

        options = read_options(until=until, stop=stop, page_size=page_size, poll_timeout=0)
        reader = self._spouts.pubsub_reader(self._task, redis_url, RedisConnection, options)
        try:
            while reader.is_open:
                yield from self._driver.run(reader.read())
                self._driver.run(reader.release())
        finally:
            self._driver.run(reader.close())

    def listen(
        self,
        *,
        on_ack: Handler | None = None,
        on_fail: Handler | None = None,
        until: float | None = None,
        stop: Callable[[], bool] | None = None,
        page_size: int = 100,
        poll_timeout: float = 30.0,
    ) -> None:
        """Call a handler with the message id of every completion; a timeout counts as a failure, as in Storm.

        The other arguments are those of `completions`.
        """
        for completion in self.completions(until=until, stop=stop, page_size=page_size, poll_timeout=poll_timeout):
            dispatch(completion, on_ack=on_ack, on_fail=on_fail)

    def replay(
        self,
        send: Callable[[Root, Any], Any],
        policy: ReplayPolicy = ReplayPolicy(),  # noqa: B008 - frozen
        *,
        on_exhausted: Callable[[Exhausted], Any] = log_exhausted,
    ) -> "Replay":
        """Emit messages and send again those that fail, as the policy says.

        ``send(root, payload)`` anchors a message's children to the root and sends them; ``root.attempt`` is the
        attempt, from 1. A message that has failed ``max_attempts`` times goes to ``on_exhausted``, as to a dead letter
        queue; by default it is logged.
        """
        queue = ReplayQueue(self._spouts, task=self._task, send=send, policy=policy, on_exhausted=on_exhausted)
        return Replay(queue=queue, task=self._task, spouts=self._spouts, driver=self._driver)

    def max_pending(self) -> int | None:
        """Read how many pending roots the topology allows this spout task, None without a cap."""
        return self._driver.run(self._task.max_pending())


class EmitBlock:
    """The block in which a root is emitted; see `Spout.emit`. It is no generator, since those cost more."""

    __slots__ = ("_driver", "_options", "_root", "_spouts", "_task", "_was_entered")

    def __init__(self, *, task: "SpoutTask", spouts: "Spouts", driver: "Driver", options: "EmitOptions") -> None:
        self._task = task
        self._spouts = spouts
        self._driver = driver
        self._options = options
        self._was_entered = False

    def __enter__(self) -> Root:
        if self._was_entered:
            raise UsageError("the block of a root is entered once; call emit again for another root")
        root = self._spouts.make_root(self._task, self._options)
        remaining = self._spouts.admit_root(self._task, root)
        if remaining is not None:
            self._driver.run(remaining)
        self._was_entered = True
        self._root = root
        root.begin_block()
        return root

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: "TracebackType | None") -> None:
        self._root.end_block()
        if error is not None:
            self._task.release()
            return
        remaining = self._spouts.commit_root(self._task, self._root)
        if remaining is not None:
            self._driver.run(remaining)


class Replay:
    """Emits messages, and sends them again until they are acked or exhausted. It keeps them in memory meanwhile."""

    def __init__(self, *, queue: ReplayQueue, task: "SpoutTask", spouts: "Spouts", driver: "Driver") -> None:
        self._queue = queue
        self._task = task
        self._spouts = spouts
        self._driver = driver

    @property
    def pending(self) -> int:
        """How many messages are neither acked nor exhausted."""
        return len(self._queue)

    def emit(
        self,
        message_id: str,
        payload: Any = None,
        *,
        message_timeout: float | None = None,
        progress_timeout: float | None = None,
    ) -> None:
        """Send a message for the first time; as `Spout.emit`, with ``send`` for the block."""
        options = emit_options(message_id, message_timeout=message_timeout, progress_timeout=progress_timeout)
        self._driver.run(self._queue.emit(ReplayMessage(message_id=message_id, payload=payload, options=options)))

    def run(
        self,
        *,
        on_ack: Handler | None = None,
        until: float | None = None,
        stop: Callable[[], bool] | None = None,
        page_size: int = 100,
        poll_timeout: float = 30.0,
    ) -> None:
        """Read completions, call ``on_ack`` with the message ids of those acked, and send again what is due.

        The other arguments are those of `Spout.completions`.
        """
        options = read_options(until=until, stop=stop, page_size=page_size, poll_timeout=poll_timeout)
        self._driver.run(self._queue.run(self._spouts.mailbox(self._task, options), on_ack))
