"""What the spouts over queues share that keep a message to themselves while its tree is open."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from acker_client.errors import UsageError
from acker_client.sources._runner import MAX_EMIT, RETRY_WAIT_S, Handlers, Runner, Settlements

if TYPE_CHECKING:
    from acker_client.completions import Completion
    from acker_client.root import Root
    from acker_client.sync.client import Acker

CHECK_INTERVAL_S = 0.5
"""How long to wait for a tree to end before it is checked whether the spout is to end."""


class QueueMessage(Protocol):
    """A message of a queue; ``id`` is the same at each of its deliveries."""

    @property
    def id(self) -> str: ...


M = TypeVar("M", bound=QueueMessage)


class MessageQueue(Protocol[M]):
    """A queue: while it is running, nobody else gets the messages that were received and are not settled."""

    error: BaseException | None
    """What the server has refused for good."""

    def running(self) -> AbstractContextManager[None]:
        """Keep messages and settle them until the block is left."""
        ...

    def receive(self, max_messages: int) -> list[M]:
        """Receive messages; none if there are none, or the server does not answer."""
        ...

    def ack(self, message: M) -> None:
        """Let the server forget a message, soon: its tree is processed."""
        ...

    def drop(self, message: M) -> None:
        """Let the server forget a message, soon, though its tree is not processed."""
        ...

    def retry(self, message: M, *, after_s: float) -> None:
        """Let the server deliver a message again."""
        ...


class QueueSpout(Generic[M]):
    """Emits a root for every message of a queue, and settles the message when its tree has ended."""

    def __init__(
        self,
        acker: "Acker",
        *,
        spout: str,
        queue: MessageQueue[M],
        send: "Callable[[Root, M], Any]",
        skip: type[Exception],
        max_pending: int,
        settlements: Settlements[M],
        retry_delay: float,
        message_id: Callable[[M], str],
        on_completed: "Callable[[Completion, M], Any] | None",
    ) -> None:
        handlers = Handlers(
            message_id=self._id_of,
            send=send,
            rejection=skip,
            on_rejected=queue.drop,
            on_untracked=lambda _: None,
            on_completion=self._settle,
        )
        self._queue = queue
        self._runner: Runner[M] = Runner(acker, spout=spout, handlers=handlers)
        self._max_pending = max_pending
        self._settlements = settlements
        self._retry_delay_s = retry_delay
        self._message_id = message_id
        self._on_completed = on_completed
        self._waiting: list[M] = []  # those that the acker did not accept

    def run(self, *, stop: Callable[[], bool], drain_timeout: float = 30.0) -> None:
        """Read until ``stop()`` is true; then take no more, and wait for what is pending, at most so many seconds.

        Runs once; an asyncio program runs it by ``asyncio.to_thread``. What is not settled by then is delivered again.
        Raises what the server refuses for good, `UnknownTopology`, `UsageError` the second time, and what the functions
        raise. While the server does not answer it is asked again.
        """
        self._runner.begin(self)
        cap = self._runner.spout.max_pending()
        max_pending = self._max_pending if cap is None else min(cap, self._max_pending)
        with self._queue.running(), self._runner.reading():
            try:
                while not stop() and not self._is_broken():
                    self._turn(max_pending)
                self._drain(until_s=time.monotonic() + drain_timeout)
            finally:
                self._release()
        if error := self._runner.error or self._queue.error:
            raise error

    def __len__(self) -> int:
        """How many messages wait for their trees."""
        return len(self._runner.pending)

    def _is_broken(self) -> bool:
        return (self._runner.error or self._queue.error) is not None

    def _turn(self, max_pending: int) -> None:
        """Receive what there is space for, and emit it. While the acker does not accept messages, none is received."""
        if self._waiting:
            time.sleep(RETRY_WAIT_S)
        elif self._runner.pending.wait_until_below(max_pending, within=CHECK_INTERVAL_S):
            free = max_pending - len(self._runner.pending)
            self._waiting = self._queue.receive(min(free, MAX_EMIT))
        self._waiting = self._runner.emit(self._waiting)

    def _drain(self, *, until_s: float) -> None:
        """Wait for what is pending."""
        while not self._is_broken() and time.monotonic() < until_s:
            if self._runner.pending.wait_until_empty(within=CHECK_INTERVAL_S):
                return

    def _release(self) -> None:
        """Let the server deliver again at once what was not emitted; after an exception of ``send``, too."""
        pending = self._runner.pending.messages()
        for message in self._waiting:
            if message not in pending:
                self._queue.retry(message, after_s=0)

    def _id_of(self, message: M) -> str:
        """Return the message id of a root. Without one, nobody could tell which message the root is of."""
        found = self._message_id(message)
        if not isinstance(found, str):
            raise UsageError(f"message_id must give a text, not {found!r} as for message {message.id}")
        return found

    def _settle(self, completion: "Completion") -> None:
        message = self._runner.pending.pop(completion.root_id)
        if message is None:
            return
        if completion.acked:
            self._queue.ack(message)
        elif self._settlements.find(completion, message) == "retry":
            self._queue.retry(message, after_s=self._retry_delay_s)
        else:
            self._queue.drop(message)
        if self._on_completed is not None:
            self._on_completed(completion, message)
