"""The acks in flight: folded, then frozen into requests with their keys, then answered or lost."""

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acker_client._core.hot_path import FoldedOperations, OpenBuffer
from acker_client._core.waiters import SendTurns, Waiter
from acker_client.errors import OperationsLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from acker_protocol.operations import Operation

    from acker_client._core.requests import Request


@dataclass(slots=True, kw_only=True)
class FrozenRequest:
    """A request that does not change any more.

    ``gathered`` knows the roots of its operations, among others. ``since`` is when it, or the one that was refused
    before it, was first sent; ``due`` is when a refused one may be sent again, and ``delays`` are the seconds to wait
    after each further refusal. ``waiters`` wait until it is settled.
    """

    request: "Request"
    gathered: FoldedOperations
    waiters: tuple[Waiter, ...] = ()
    since: float | None = None
    due: float = -math.inf
    delays: "Iterator[float] | None" = None


class AckBuffer(OpenBuffer):
    """The operations of one client that are not answered yet; for any number of threads.

    One flow at a time sends, the one that has the turn, and a request stays here until it is answered or given up. So
    an interrupted sender loses nothing: the next one sends the same bytes with the same key. If two send one request,
    as at the end of the interpreter, the first answer settles it. What the service refuses waits behind all else.
    """

    def __init__(self, *, batch_size: int, buffer_size: int) -> None:
        self.lost_operations = 0
        super().__init__(batch_size=batch_size, buffer_size=buffer_size)

    def clear(self) -> None:
        """Drop everything, as in the child of a fork: the parent sends what it has buffered."""
        super().clear()
        self._frozen: deque[FrozenRequest] = deque()
        self._waiters: list[Waiter] = []  # of what is not frozen yet
        self.turns = SendTurns()

    def __len__(self) -> int:
        return len(self.folded) + self.frozen_operations

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight and no failure is unreported."""
        return not len(self) and not self.failures

    @property
    def is_full(self) -> bool:
        """Whether it has no space for one more operation."""
        return len(self.folded.records) + self.frozen_operations >= self.buffer_size

    @property
    def is_batch_full(self) -> bool:
        """Whether a whole batch is buffered, which is not to linger."""
        return len(self.folded) >= self.batch_size

    @property
    def has_unfrozen(self) -> bool:
        """Whether some operations are not frozen into a request yet."""
        return bool(self.folded)

    def holds_any(self, operations: "Sequence[Operation]") -> bool:
        """Whether operations of the same roots are in flight."""
        roots = {operation.root_id for operation in operations}
        with self.held:
            if self.folded.holds_any(roots):
                return True
            return any(frozen.gathered.holds_any(roots) for frozen in self._frozen)

    def begin_flushing(self) -> bool:
        """Note that a flusher runs from now on; False if one runs already, or nothing is in flight."""
        with self.held:
            begins = bool(self.folded or self._frozen) and not self.is_flushing
            self.is_flushing = self.is_flushing or begins
            return begins

    def has_flusher(self) -> bool:
        """Whether the flusher goes on; with nothing in flight it ends, by the same look."""
        with self.held:
            self.is_flushing = bool(self.folded or self._frozen)
            return self.is_flushing

    def flusher_stopped(self) -> None:
        """Note that the flusher was stopped: the next caller who adds starts another."""
        self.is_flushing = False

    def freeze(self, write: "Callable[[Sequence[Operation]], list[Request]]") -> None:
        """Freeze what is buffered into requests."""
        with self.held:
            if self.folded:
                folded, waiters = self.folded, tuple(self._waiters)
                written = write(self._operations())
                self._frozen += [
                    FrozenRequest(request=request, gathered=folded, waiters=waiters) for request in written
                ]
                self.frozen_operations += len(folded)
                self.folded = FoldedOperations()
                self._waiters = []
                _count(waiters, len(written) - 1)

    def head(self, now: float) -> FrozenRequest | None:
        """Return the request that is to be sent now."""
        return next((frozen for frozen in tuple(self._frozen) if frozen.due <= now), None)

    def only_unsent(self) -> FrozenRequest | None:
        """Return the request that is in flight, where there is one alone and it was not sent yet."""
        [*frozen] = self._frozen
        return frozen[0] if len(frozen) == 1 and frozen[0].since is None else None

    def next_due(self, waiter: Waiter | None = None) -> float | None:
        """Return the time when the next request is to be sent, of those that a waiter waits for or of all; or None."""
        frozen = (frozen for frozen in tuple(self._frozen) if waiter is None or waiter in frozen.waiters)
        return min((request.due for request in frozen), default=None)

    def wait_for_all(self) -> Waiter:
        """Begin to wait for all that is buffered now, until `end_wait`."""
        waiter = Waiter()
        with self.held:
            for frozen in self._frozen:
                frozen.waiters += (waiter,)
            waiter.pending = len(self._frozen)
            if self.folded:
                self._waiters.append(waiter)
                waiter.pending += 1
        return waiter

    def end_wait(self, waiter: Waiter) -> None:
        """Wait no more, settled or interrupted. Failures that the caller has not taken are raised by the next call."""
        self.turns.leave(waiter)
        with self.held:
            self.failures += waiter.failures
            if not waiter.is_settled:
                self._waiters = [other for other in self._waiters if other is not waiter]
                for frozen in self._frozen:
                    frozen.waiters = tuple(other for other in frozen.waiters if other is not waiter)

    def requeue(self, frozen: FrozenRequest, again: "Sequence[Request]", *, due: float) -> None:
        """Replace a request by those with what it refused, behind all others."""
        with self.held:
            if self._take_out(frozen):
                _count(frozen.waiters, len(again) - 1)
                self.frozen_operations += sum(len(request.operations) for request in again)
                self._frozen += [
                    FrozenRequest(
                        request=request,
                        gathered=FoldedOperations(request.operations),
                        waiters=frozen.waiters,
                        since=frozen.since,
                        due=due,
                        delays=frozen.delays,
                    )
                    for request in again
                ]

    def complete(self, frozen: FrozenRequest) -> None:
        """Remove a request that was answered."""
        with self.held:
            settled = _count(frozen.waiters, -1) if self._take_out(frozen) else []
        for waiter in settled:
            waiter.wake()

    def give_up(self, frozen: FrozenRequest, error: Exception, *, count: int | None = None) -> None:
        """Remove a request that cannot be delivered; ``count`` of its operations are lost, or all of them.

        Those who wait for it raise the error; if nobody does, the next call raises it.
        """
        lost = len(frozen.request.operations) if count is None else count
        with self.held:
            if not self._take_out(frozen):
                return
            for failures in [waiter.failures for waiter in frozen.waiters] or [self.failures]:
                failures.append((lost, error))
            self.lost_operations += lost
            settled = _count(frozen.waiters, -1)
        for waiter in settled:
            waiter.wake()

    def raise_failures(self, waiter: Waiter | None = None) -> None:
        """Raise `OperationsLost` for what was given up since the last call, and for what this waiter has waited for."""
        if not self.failures and (waiter is None or not waiter.failures):
            return
        with self.held:
            failures, self.failures = self.failures, []
            if waiter is not None:
                failures += waiter.failures
                waiter.failures = []
        if failures:
            raise OperationsLost(sum(count for count, _ in failures)) from failures[-1][1]

    def _operations(self) -> "Sequence[Operation]":
        return self.folded.operations()

    def _take_out(self, frozen: FrozenRequest) -> bool:
        """Remove a request; False if another sender has settled it."""
        for index, held in enumerate(self._frozen):
            if held is frozen:
                del self._frozen[index]
                self.frozen_operations -= len(frozen.request.operations)
                return True
        return False


def _count(waiters: "Sequence[Waiter]", requests: int) -> list[Waiter]:
    """Let waiters wait for so many requests more or fewer, and return those that are settled now."""
    for waiter in waiters:
        waiter.pending += requests
    return [waiter for waiter in waiters if waiter.is_settled]
