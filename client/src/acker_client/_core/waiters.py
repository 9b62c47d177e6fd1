"""The callers that wait for buffered operations, and whose turn it is to send: group commit.

Callers that flush at the same time share requests: one of them has the turn and sends what is buffered, its own
operations and those of the others. What is buffered meanwhile goes with the next turn.
"""

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Failure = tuple[int, Exception]
    """How many operations could not be delivered, and why."""


class Waiter:
    """One call that waits until ``pending`` requests are settled, or until it has the turn to send.

    Its driver may wait in any thread or event loop: `call_when_ready` takes what ends the wait. ``failures`` are those
    of the requests that it has waited for.
    """

    __slots__ = ("_callbacks", "failures", "has_turn", "pending")

    def __init__(self) -> None:
        self.pending = 0
        self.has_turn = False
        self.failures: list[Failure] = []
        self._callbacks: list[Callable[[], object]] = []

    @property
    def is_settled(self) -> bool:
        """Whether every request that it waits for was answered or given up."""
        return self.pending == 0

    def call_when_ready(self, callback: "Callable[[], object]") -> None:
        """Call a function once, from any thread, when the waiter is settled or has the turn; at once if it is so."""
        self._callbacks.append(callback)
        if self.has_turn or self.is_settled:
            self.wake()

    def wake(self) -> None:
        """Call the function that was given; a second call does nothing."""
        try:
            callback = self._callbacks.pop()
        except IndexError:
            return
        callback()


class TurnOnly(Waiter):
    """A call that waits for its turn alone, whatever becomes of the requests."""

    __slots__ = ()

    @property
    def is_settled(self) -> bool:
        """Whether every request was settled: it waits for none, so that only its turn ends the wait."""
        return False


class SendTurns:
    """Gives the turn to send to one waiter at a time, in the order in which they asked; for threads and loops alike."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sender: Waiter | None = None
        self._queue: deque[Waiter] = deque()

    def take(self, waiter: Waiter) -> bool:
        """Give a waiter the turn if no other has it, and queue it otherwise; True if it has the turn."""
        with self._lock:
            if self._sender is None:
                self._give(waiter)
            elif not waiter.has_turn and waiter not in self._queue:
                self._queue.append(waiter)
            return waiter.has_turn

    def hand_over(self, waiter: Waiter, to: Waiter) -> None:
        """Give the turn of a waiter, or its place in the queue, to another."""
        with self._lock:
            if waiter.has_turn:
                waiter.has_turn = False
                self._give(to)
            elif waiter in self._queue:
                self._queue[self._queue.index(waiter)] = to

    def leave(self, waiter: Waiter) -> None:
        """End the turn of a waiter, or its wait for one; the next waiter that is not settled has the turn then."""
        with self._lock:
            if not waiter.has_turn:
                if waiter in self._queue:
                    self._queue.remove(waiter)
                return
            waiter.has_turn = False
            self._sender = None
            waiting = next((queued for queued in self._queue if not queued.is_settled), None)
            if waiting is not None:
                self._queue.remove(waiting)
                self._give(waiting)
        if waiting is not None:
            waiting.wake()

    def revoke(self) -> None:
        """Take the turn from who has it: its event loop has ended, or may never run again.

        If it runs after all, it sends no further request. The one in flight may be sent twice, with the same key.
        """
        with self._lock:
            if self._sender is not None:
                self._sender.has_turn = False
                self._sender = None

    def abandon(self) -> None:
        """Take the turn from who has it and from all who wait: their event loop has ended."""
        self.revoke()
        with self._lock:
            self._queue.clear()

    def _give(self, waiter: Waiter) -> None:
        self._sender = waiter
        waiter.has_turn = True
