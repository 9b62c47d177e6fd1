"""Sends failed messages again: at which attempt each message is, and when the next is due."""

import heapq
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from acker_client._core import validate
from acker_client._core.effects import Flow, RunBlocking, finish
from acker_client.errors import OperationsLost, UsageError

if TYPE_CHECKING:
    from acker_client._core.mailbox import MailboxReader
    from acker_client._core.spout_task import SpoutTask
    from acker_client._core.spouts import Spouts
    from acker_client.completions import Completion, Handler
    from acker_client.config import Clock
    from acker_client.root import EmitOptions, Root

DEDUPE_SIZE = 10_000
"""So many roots are remembered after their end, since a completion may come twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayMessage:
    """A message and the attempt it is at, from 1; ``payload`` is what ``send`` needs to send it again."""

    message_id: str
    payload: Any
    attempt: int = 1
    options: "EmitOptions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """A message that is not sent again: every attempt failed, or another process emitted it.

    ``message`` is None for the latter. ``completion`` is the last completion, ``error`` what prevented the last attempt
    from being emitted; one of them is None.
    """

    message: ReplayMessage | None
    completion: "Completion | None" = None
    error: Exception | None = None

    @property
    def message_id(self) -> str | None:
        """The spout's own id of the message."""
        if self.message is not None:
            return self.message.message_id
        return None if self.completion is None else self.completion.message_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPolicy:
    """How often and when a failed or timed-out message is sent again; times in seconds. Raises `UsageError`.

    Before the second attempt it waits ``wait_initial``, then twice as long each time up to ``wait_max``, the upper half
    of each wait random.
    """

    max_attempts: int = 5
    wait_initial: float = 1.0
    wait_max: float = 60.0

    def __post_init__(self) -> None:
        validate.integer("max_attempts", self.max_attempts)
        for name in ("wait_initial", "wait_max"):
            validate.number(name, getattr(self, name))
        if self.max_attempts < 1 or min(self.wait_initial, self.wait_max) < 0:
            raise UsageError("max_attempts must be 1 or more, and the waits must not be negative")

    def wait_s(self, attempt: int, clock: "Clock") -> float:
        """Return the seconds to wait after an attempt."""
        doubled: float = self.wait_initial * 2.0 ** min(attempt - 1, 63)
        return min(doubled, self.wait_max) * (1 + clock.jitter()) / 2


def log_exhausted(exhausted: Exhausted) -> None:
    """Log a message that is not sent again: the default of ``on_exhausted``."""
    logging.getLogger("acker_client").error("message %r is not sent again: %s", exhausted.message_id, exhausted)


class ReplayQueue:
    """The messages of one spout between their first emit and their end. Each attempt is a root of its own.

    ``send(root, payload)`` anchors a message's children to the root and sends them.
    """

    def __init__(
        self,
        spouts: "Spouts",
        *,
        task: "SpoutTask",
        send: "Callable[[Root, Any], Any]",
        policy: ReplayPolicy,
        on_exhausted: Callable[[Exhausted], Any],
    ) -> None:
        validate.function("send", send)
        validate.instance("policy", policy, ReplayPolicy, "a ReplayPolicy")
        validate.function("on_exhausted", on_exhausted)
        self._spouts = spouts
        self._task = task
        self._clock = spouts.config.clock
        self._send = send
        self._policy = policy
        self._on_exhausted = on_exhausted
        self._pending: dict[str, ReplayMessage] = {}
        self._recently_ended: dict[str, None] = {}
        self._due: list[tuple[float, int, ReplayMessage]] = []
        self._order = count()
        task.receives = True  # also before `run` reads: a root whose batch did not get through times out
        task.observe_refusals(self)

    def __len__(self) -> int:
        return len(self._pending) + len(self._due)

    def emit(self, message: ReplayMessage) -> Flow[None]:
        """Emit a message; it is pending before its init is sent, since its completion may overtake the answer."""
        root = self._spouts.make_root(self._task, message.options, attempt=message.attempt)
        yield from finish(self._spouts.admit_root(self._task, root))
        self._pending[root.root_id] = message
        try:
            with self._spouts.root_scope(self._task, root):
                yield RunBlocking(function=partial(self._send, root, message.payload))
            yield from finish(self._spouts.commit_root(self._task, root))
        except BaseException:
            self._pending.pop(root.root_id, None)
            raise

    def drop_refused(self, root_id: str) -> None:
        """Leave a message whose init was refused in a batch to the caller, who hears of it.

        A later attempt, which `run` made within a batch, is due again at once, under the same number.
        """
        message = self._pending.pop(root_id, None)
        if message is not None and message.attempt > 1:
            heapq.heappush(self._due, (self._clock.monotonic(), next(self._order), message))

    def run(self, mailbox: "MailboxReader", on_ack: "Handler | None") -> Flow[None]:
        """Read completions and send again what is due, while the mailbox is open."""
        while mailbox.is_open:
            for completion in (yield from mailbox.read(at_most_s=self._until_due_s())):
                yield from self._settle(completion, on_ack)
            yield from mailbox.release()
            yield from self._send_due()

    def _settle(self, completion: "Completion", on_ack: "Handler | None") -> Flow[None]:
        message = self._pending.get(completion.root_id)
        if completion.acked and on_ack is not None and completion.message_id is not None:
            yield RunBlocking(function=partial(on_ack, completion.message_id))
        if not completion.acked and completion.root_id not in self._recently_ended:
            yield from self._failed(message, completion=completion)
        self._end(completion.root_id)

    def _failed(
        self, message: ReplayMessage | None, *, completion: "Completion | None", error: Exception | None = None
    ) -> Flow[None]:
        if message is not None and message.attempt < self._policy.max_attempts:
            due_s = self._clock.monotonic() + self._policy.wait_s(message.attempt, self._clock)
            heapq.heappush(self._due, (due_s, next(self._order), replace(message, attempt=message.attempt + 1)))
            return
        exhausted = Exhausted(message=message, completion=completion, error=error)
        yield RunBlocking(function=partial(self._on_exhausted, exhausted))

    def _send_due(self) -> Flow[None]:
        """Emit what is due; an attempt that cannot be emitted has failed like any other."""
        while self._due and self._until_due_s() <= 0:
            due = heapq.heappop(self._due)
            try:
                yield from self._send_again(due[-1])
            except BaseException:
                heapq.heappush(self._due, due)
                raise

    def _send_again(self, message: ReplayMessage) -> Flow[None]:
        try:
            yield from self.emit(message)
        except OperationsLost:
            raise
        except Exception as error:  # noqa: BLE001 - the queue may be down, and the next attempt may reach it
            yield from self._failed(message, completion=None, error=error)

    def _until_due_s(self) -> float:
        return self._due[0][0] - self._clock.monotonic() if self._due else float("inf")

    def _end(self, root_id: str) -> None:
        self._pending.pop(root_id, None)
        self._recently_ended[root_id] = None
        if len(self._recently_ended) > DEDUPE_SIZE:
            del self._recently_ended[next(iter(self._recently_ended))]
