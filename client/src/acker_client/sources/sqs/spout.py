"""Reads a queue of SQS as a spout."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from acker_client.errors import UsageError
from acker_client.sources._runner import RETRY_WAIT_S, Handlers, Runner
from acker_client.sources.sqs.queue import (
    CHECK_INTERVAL_S,
    MAX_BATCH,
    MAX_VISIBILITY_S,
    Message,
    Queue,
    check_timeouts,
)

if TYPE_CHECKING:
    from acker_client.completions import Completion
    from acker_client.root import Root
    from acker_client.sync.client import Acker

Send = Callable[["Root", Message], Any]
"""Anchors the children of a root and sends them, to SQS with `message_attributes`, or any way."""

Settlement = Literal["retry", "delete"]


class SkipMessage(Exception):
    """Raised by ``send`` to skip a message at once: nothing is emitted for it, and it is deleted."""


class SqsSpout:
    """Emits a root for every message of a queue, and deletes the message when its tree is processed.

    ``spout`` is the name of the spout, ``client`` an SQS client of boto3. At most ``max_pending`` messages have open
    trees, and never more than the topology's ``max_spout_pending``. Such a message is invisible for
    ``visibility_timeout`` seconds, and again before these are over, as long as its tree is open, for twelve hours at
    most; a spout that dies leaves it to the next one after that time. A root that failed or timed out is settled as
    ``on_failed`` says: "retry" (SQS delivers the message again after ``retry_delay`` seconds, or moves it to the
    queue's dead letters), "delete", or a function of its completion and the message that gives one of the two.
    `SkipMessage` raised by ``send`` deletes a message at once; any other exception ends ``run``. ``message_id`` gives
    the message id of a root. ``on_completed`` is called with each completion and its message, in the thread that reads
    completions, as is ``on_failed``.

    Messages that the acker does not accept stay invisible and are emitted again. Raises `UsageError` for settings out
    of their range, and for a client whose requests may take half of ``visibility_timeout``.
    """

    def __init__(
        self,
        acker: "Acker",
        *,
        spout: str,
        client: Any,
        queue_url: str,
        send: Send,
        max_pending: int = 100,
        visibility_timeout: int = 60,
        on_failed: "Settlement | Callable[[Completion, Message], Settlement]" = "retry",
        retry_delay: int = 1,
        message_id: Callable[[Message], str] = lambda message: message.id,
        on_completed: "Callable[[Completion, Message], Any] | None" = None,
    ) -> None:
        seconds = range(MAX_VISIBILITY_S + 1)
        if max_pending < 1 or visibility_timeout not in seconds[2:] or retry_delay not in seconds:
            raise UsageError(
                f"max_pending must be at least 1, visibility_timeout from 2 to {MAX_VISIBILITY_S} seconds, retry_delay "
                f"from 0 to {MAX_VISIBILITY_S}; not {max_pending}, {visibility_timeout}, {retry_delay}"
            )
        check_timeouts(client, visibility_s=visibility_timeout)
        self._queue = Queue(client, queue_url, visibility_s=visibility_timeout)
        handlers = Handlers(
            message_id=self._id_of,
            send=send,
            rejection=SkipMessage,
            on_rejected=self._queue.delete,
            on_untracked=lambda _: None,
            on_completion=self._settle,
        )
        self._runner: Runner[Message] = Runner(acker, spout=spout, handlers=handlers)
        self._max_pending = max_pending
        self._retry_delay_s = retry_delay
        self._message_id = message_id
        self._on_failed = on_failed
        self._on_completed = on_completed
        self._waiting: list[Message] = []  # those that the acker did not accept
        self._has_run = False

    def run(self, *, stop: Callable[[], bool], drain_timeout: float = 30.0) -> None:
        """Read the queue until ``stop()`` is true; then take no more, and wait for what is pending, at most so long.

        Runs once; an asyncio program runs it by ``asyncio.to_thread``. SQS delivers again what is not settled by then,
        after its visibility timeout. Raises what boto3 raises for a request that SQS refuses (there is no such queue,
        say), `UnknownTopology`, `UsageError` the second time, and what the functions raise. While SQS does not answer
        it is asked again.
        """
        if self._has_run:
            raise UsageError("run() runs once: make another SqsSpout")
        self._has_run = True
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
            self._waiting = self._queue.receive(min(free, MAX_BATCH))
        self._waiting = self._runner.emit(self._waiting)

    def _drain(self, *, until_s: float) -> None:
        """Wait for what is pending."""
        while not self._is_broken() and time.monotonic() < until_s:
            if self._runner.pending.wait_until_empty(within=CHECK_INTERVAL_S):
                return

    def _release(self) -> None:
        """Let SQS deliver again at once what was not emitted; after an exception of ``send``, too."""
        pending = self._runner.pending.messages()
        for message in self._waiting:
            if message not in pending:
                self._queue.retry(message, after_s=0)

    def _id_of(self, message: Message) -> str:
        """Return the message id of a root. Without one, nobody could tell which message the root is of."""
        found = self._message_id(message)
        if not isinstance(found, str):
            raise UsageError(f"message_id must give a text, not {found!r} as for message {message.id}")
        return found

    def _settle(self, completion: "Completion") -> None:
        message = self._runner.pending.pop(completion.root_id)
        if message is None:
            return
        if completion.acked or self._settlement(completion, message) == "delete":
            self._queue.delete(message)
        else:
            self._queue.retry(message, after_s=self._retry_delay_s)
        if self._on_completed is not None:
            self._on_completed(completion, message)

    def _settlement(self, completion: "Completion", message: Message) -> Settlement:
        return self._on_failed(completion, message) if callable(self._on_failed) else self._on_failed
