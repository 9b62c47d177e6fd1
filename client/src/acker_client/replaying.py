"""Knows how a spout sends again what failed: at which attempt a message is, and when the next is due."""

import heapq
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from acker_client import arguments
from acker_client.errors import Misuse, Undelivered
from acker_client.steps import Flow, Work

if TYPE_CHECKING:
    from acker_client.completions import Done, Handler
    from acker_client.emitting import Emitting
    from acker_client.mailbox import Mailbox
    from acker_client.roots import Emission, Root, Timeouts
    from acker_client.spout_tasks import SpoutTask
    from acker_client.terms import Terms

REMEMBERED = 10_000
"""So many roots are remembered after their end, since a completion may be told twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message and the attempt it is at, from 1; ``payload`` is what `send` needs to send it again."""

    message_id: str
    payload: Any
    attempt: int = 1
    timeouts: "Timeouts"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """A message that is not sent again: every attempt failed, or it was emitted elsewhere and nobody here has it.

    ``message`` is None for the latter. ``done`` is the last completion, ``error`` what prevented the last attempt from
    being emitted; one of them is None.
    """

    message: Message | None
    done: "Done | None" = None
    error: Exception | None = None

    @property
    def message_id(self) -> str | None:
        """The spout's own name for the message."""
        if self.message is not None:
            return self.message.message_id
        return None if self.done is None else self.done.message_id


def warn(given_up: GivenUp) -> None:
    """Log a message that is given up: what ``give_up`` does unless told otherwise."""
    logging.getLogger("acker_client").error("message %r is given up: %s", given_up.message_id, given_up)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPolicy:
    """How failed and timed-out messages are sent again.

    ``send(root, payload)`` anchors a message's children to the root and sends them; ``root.attempt`` says which attempt
    it is. Between attempts there are ``first_wait_s`` seconds, doubling up to ``longest_wait_s``, the upper half of
    each by chance. After ``attempts`` the message goes to ``give_up``, a dead-letter function. With an async acker
    both may be coroutine functions.
    """

    send: Callable[["Root", Any], Any]
    attempts: int = 5
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    give_up: Callable[[GivenUp], Any] = warn

    def __post_init__(self) -> None:
        arguments.whole("attempts", self.attempts)
        for name in ("first_wait_s", "longest_wait_s"):
            arguments.number(name, getattr(self, name))
        for name in ("send", "give_up"):
            arguments.function(name, getattr(self, name))
        if self.attempts < 1 or min(self.first_wait_s, self.longest_wait_s) < 0:
            raise Misuse("attempts must be 1 or more, and the waits must not be negative")

    def wait_s(self, attempt: int, terms: "Terms") -> float:
        """Say how long to wait after an attempt."""
        doubled: float = self.first_wait_s * 2.0 ** min(attempt - 1, 63)
        return min(doubled, self.longest_wait_s) * (1 + terms.jitter()) / 2


class Replaying:
    """The messages of one spout between their first emit and their end. Each attempt is a root of its own."""

    def __init__(self, emitting: "Emitting", *, task: "SpoutTask", policy: ReplayPolicy) -> None:
        arguments.kind("policy", policy, ReplayPolicy, "a ReplayPolicy")
        self._emitting, self._task, self._policy, self._terms = emitting, task, policy, emitting.terms
        self._pending: dict[str, Message] = {}
        self._ended: dict[str, None] = {}
        self._due: list[tuple[float, int, Message]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._pending) + len(self._due)

    def emit(self, message: Message) -> Flow[None]:
        """Emit a message; it is pending before its init is sent, since its completion may overtake the answer."""
        emission: Emission = {**message.timeouts, "message_id": message.message_id}
        root = yield from self._emitting.begin(self._task, emission, attempt=message.attempt)
        self._pending[root.root_id] = message
        try:
            with self._emitting.open(self._task, root):
                yield Work(do=partial(self._policy.send, root, message.payload))
            yield from self._emitting.end(self._task, root)
        except BaseException:
            self._pending.pop(root.root_id, None)
            raise

    def run(self, box: "Mailbox", on_ack: "Handler | None") -> Flow[None]:
        """Read completions and send again what is due, while the mailbox is open."""
        while box.open:
            for done in (yield from box.read(at_most_s=self._until_due_s())):
                yield from self._settle(done, on_ack)
            yield from box.release()
            yield from self._send_due()

    def _settle(self, done: "Done", on_ack: "Handler | None") -> Flow[None]:
        message = self._pending.get(done.root_id)
        if done.acked and on_ack is not None and done.message_id is not None:
            yield Work(do=partial(on_ack, done.message_id))
        if not done.acked and done.root_id not in self._ended:
            yield from self._failed(message, done=done)
        self._end(done.root_id)

    def _failed(self, message: Message | None, *, done: "Done | None", error: Exception | None = None) -> Flow[None]:
        if message is not None and message.attempt < self._policy.attempts:
            due_s = self._terms.clock() + self._policy.wait_s(message.attempt, self._terms)
            heapq.heappush(self._due, (due_s, next(self._order), replace(message, attempt=message.attempt + 1)))
            return
        given_up = GivenUp(message=message, done=done, error=error)
        yield Work(do=partial(self._policy.give_up, given_up))

    def _send_due(self) -> Flow[None]:
        """Emit what is due; an attempt that cannot be emitted has failed like any other."""
        while self._due and self._until_due_s() <= 0:
            due = heapq.heappop(self._due)
            try:
                yield from self._send_again(due[-1])
            except BaseException:
                heapq.heappush(self._due, due)
                raise

    def _send_again(self, message: Message) -> Flow[None]:
        try:
            yield from self.emit(message)
        except Undelivered:
            raise
        except Exception as error:  # noqa: BLE001 - the queue may be down, and the next attempt may reach it
            yield from self._failed(message, done=None, error=error)

    def _until_due_s(self) -> float:
        return self._due[0][0] - self._terms.clock() if self._due else float("inf")

    def _end(self, root_id: str) -> None:
        self._pending.pop(root_id, None)
        self._ended[root_id] = None
        if len(self._ended) > REMEMBERED:
            del self._ended[next(iter(self._ended))]
