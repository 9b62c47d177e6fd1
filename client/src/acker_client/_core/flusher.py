"""Sends buffered acks: folded for a moment, then sent together, by the flow whose turn it is."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from acker_protocol.errors import known

from acker_client._core import requests, responses
from acker_client._core.buffer import AckBuffer
from acker_client._core.delivery import rewrite_refused
from acker_client._core.effects import Flow, Remaining, Sleep, Spawn, WaitFlush, WaitTurn, WakeFlush
from acker_client._core.waiters import TurnOnly
from acker_client.errors import BufferFull, ClientClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from acker_protocol.operations import Operation

    from acker_client._core.buffer import FrozenRequest
    from acker_client._core.effects import EffectResult
    from acker_client._core.requests import OperationResult, Request
    from acker_client._core.retry import RetrySession
    from acker_client._core.waiters import Waiter

    Attempt = Callable[[Request], EffectResult | Exception]
    """Sends a request once, and returns what the driver would send into a flow."""

REFUSED_PAUSE_S = 0.05
"""Seconds between two looks at refused requests; an ack that is buffered meanwhile may linger this much longer."""

SHORTEST_LINGER = 1 / 32
"""The part of the configured linger that is left where no request comes soon after another."""


@dataclass(slots=True, kw_only=True)
class _Begun:
    """A flush that was begun without a flow: its turn, the request that it has sent once, and what came of that."""

    turn: "Waiter"
    sent: "FrozenRequest | None" = None
    answer: "EffectResult | Exception" = None

    def take_answer(self, frozen: "FrozenRequest") -> "EffectResult | Exception":
        """Return what came of this request, once; None if it was not sent."""
        if frozen is not self.sent:
            return None
        self.sent = None
        return self.answer


class Flusher:
    """The buffered acks of one client, and the flows that send them."""

    def __init__(self, session: "RetrySession") -> None:
        config = session.config
        self._session = session
        self._clock = config.clock
        self._longest_linger_s = self._linger_s = config.linger
        self._sent_at = self._clock.monotonic()
        self.buffer = AckBuffer(batch_size=config.batch_size, buffer_size=config.buffer_size)
        self.buffer.is_lingering = config.linger > 0
        self._write = partial(requests.write_operations, session.topology)
        self._is_closed = False

    def stop(self) -> None:
        """Let no ack linger any more: the program ends, or the client is closed."""
        self._longest_linger_s = self._linger_s = 0.0
        self.buffer.is_lingering = False

    def close(self) -> None:
        """Let no ack linger or wait for space any more: what is there is all that a flush has to send."""
        self._is_closed = True
        self.stop()

    def resume(self) -> Spawn | None:
        """Forget the flows of an event loop that has ended; give what sends the acks that it has left, if any."""
        self.buffer.turns.abandon()
        return self._background() if self.buffer.has_flusher() else None

    def wait_for_space(self) -> Flow[None]:
        """Wait until the buffer has space.

        Raises `BufferFull` with ``on_full="raise"``, and `ClientClosed` once the client is closed.
        """
        while self.buffer.is_full and not self._is_closed:
            if self._session.config.on_full == "raise":
                raise BufferFull(f"{len(self.buffer)} operations are in flight, and buffer_size allows no more")
            yield from self.send_due(unless=lambda: self._is_closed or not self.buffer.is_full)
            if self.buffer.is_full and not self._is_closed:
                yield from self._wait_until_due()
        self.check_open()

    def check_open(self) -> None:
        """Raise `ClientClosed` once the client is closed, or being closed."""
        if self._is_closed:
            raise ClientClosed("the client was closed before the ack was sent")

    def attend(self) -> Flow[None]:
        """Start a flusher if none runs, and wake it if a batch is full, which is not to linger."""
        if self.buffer.begin_flushing():
            yield from self._start_flushing()
        if self.buffer.is_batch_full:
            yield WakeFlush()

    def flush_conflicting(self, operations: "Sequence[Operation]") -> Flow[None]:
        """Send first what is in flight for the roots of these operations, so that the order is kept."""
        if self.buffer.holds_any(operations):
            yield from self.send_due(unless=lambda: not self.buffer.holds_any(operations))

    def flush_at_once(self, attempt: "Attempt", turn: TurnOnly) -> Remaining[None]:
        """Flush, and raise what was lost: in this call where one request does it.

        That is so where nobody else sends, and the acker takes every operation. Otherwise return the flow of what is
        left to do. The caller ends the turn afterwards, whatever happens.
        """
        buffer = self.buffer
        with buffer.held:  # between two steps of another sender it may look idle
            if buffer.is_idle:
                return None
        if not buffer.turns.take(turn):
            return self.flush(raising=True, begun=_Begun(turn=turn))
        buffer.freeze(self._write)
        frozen = buffer.only_unsent()
        if frozen is None:
            return self.flush(raising=True, begun=_Begun(turn=turn))
        frozen.since = self._clock.monotonic()
        answer = attempt(frozen.request)
        if not self._session.is_taken(frozen.request, answer):
            return self.flush(raising=True, begun=_Begun(turn=turn, sent=frozen, answer=answer))
        buffer.complete(frozen)
        self._sent_at = self._clock.monotonic()
        buffer.raise_failures()
        return None if self._session.is_info_recent else self._session.refresh_topology()

    def flush(self, *, raising: bool = False, begun: "_Begun | None" = None) -> Flow[None]:
        """Send all that is buffered now, and what is refused again until it is accepted.

        Callers that flush at the same time share requests: the one that has the turn sends for all, and while its
        request is in flight the next one gathers. ``raising`` says whether what was lost is raised here, as
        `OperationsLost`, or by the next call. ``begun`` is what `flush_at_once` has done of it.
        """
        waiter = self.buffer.wait_for_all()
        if begun is not None:
            self.buffer.turns.hand_over(begun.turn, waiter)
        try:
            while not waiter.is_settled:
                yield from self._send_or_wait(waiter, begun)
            if raising:
                self.buffer.raise_failures(waiter)
        finally:
            self.buffer.end_wait(waiter)

    def send_due(self, *, unless: "Callable[[], bool] | None" = None) -> Flow[None]:
        """Wait for a turn, and send all that is buffered then, and of the refused requests those that are due.

        Sends nothing if ``unless`` is true by then. What cannot be delivered is noted in the buffer.
        """
        waiter = TurnOnly()
        try:
            while not self.buffer.turns.take(waiter):
                yield WaitTurn(waiter=waiter)
            if unless is None or not unless():
                yield from self._send(waiter)
        finally:
            self.buffer.turns.leave(waiter)

    def _send_or_wait(self, waiter: "Waiter", begun: "_Begun | None") -> Flow[None]:
        """Send if it is this waiter's turn; else wait until it is, or until others have sent what it waits for."""
        if not self.buffer.turns.take(waiter):
            yield WaitTurn(waiter=waiter)
            return
        try:
            yield from self._send(waiter, begun)
        finally:
            self.buffer.turns.leave(waiter)
        if not waiter.is_settled:
            yield from self._wait_until_due(waiter)

    def _send(self, waiter: "Waiter", begun: "_Begun | None" = None) -> Flow[None]:
        """Send all that is buffered now, and what is due, while it is this waiter's turn."""
        self.buffer.freeze(self._write)
        if self.buffer.head(self._clock.monotonic()) is None:
            return
        while waiter.has_turn and (frozen := self.buffer.head(self._clock.monotonic())):
            since, frozen.since = frozen.since, frozen.since or self._clock.monotonic()
            first = None if begun is None else begun.take_answer(frozen)
            try:
                response = yield from self._session.send(frozen.request, since=since, answer=first)
                refused = responses.read_refused(frozen.request, response)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next call raises it
                self.buffer.give_up(frozen, error)
            else:
                self._settle(frozen, refused, asked_s=responses.retry_after_s(response))
        self._sent_at = self._clock.monotonic()
        yield from self._session.refresh_topology()

    def _settle(self, frozen: "FrozenRequest", refused: "Sequence[OperationResult]", *, asked_s: float) -> None:
        """Remove a request that was answered, and requeue what it refused: nothing of that was applied.

        What is refused for longer than a request is retried is given up.
        """
        if not refused:
            self.buffer.complete(frozen)
            return
        now = self._clock.monotonic()
        frozen.delays = frozen.delays or self._session.config.backoff_delays()
        due = now + max(next(frozen.delays), asked_s)
        if due - (frozen.since or now) > self._session.retry_limit_s():
            error = known()[refused[0].state](f"{len(refused)} operations were refused until their time was over")
            self.buffer.give_up(frozen, error, count=len(refused))
            return
        operations = [result.operation for result in refused]
        again = rewrite_refused(self._session.topology, [frozen.request], operations)
        self.buffer.requeue(frozen, again, due=due)

    def _start_flushing(self) -> Flow[None]:
        """Flush in the background; where no thread can be started, as at the program's end, flush at once."""
        try:
            yield self._background()
        except RuntimeError:
            self.buffer.flusher_stopped()
            yield from self.flush()

    def _background(self) -> Spawn:
        return Spawn(flow=self._flush_in_background(), at_end=self.flush)

    def _wait_until_due(self, waiter: "Waiter | None" = None) -> Flow[None]:
        """Wait until a refused request may be sent again, one that is waited for or any; not at all without one."""
        due = self.buffer.next_due(waiter)
        if due is not None:
            yield Sleep(seconds=max(0.0, due - self._clock.monotonic()))

    def _flush_in_background(self) -> Flow[None]:
        """Send what has lingered, until nothing is in flight."""
        try:
            while self.buffer.has_flusher():
                self._adapt_linger()
                yield WaitFlush(seconds=self._linger_s)
                yield from self.send_due()
                yield from self._pause_for_refused()
        except BaseException:
            self.buffer.flusher_stopped()
            raise

    def _adapt_linger(self) -> None:
        """Halve the linger if acks come long after the last request, and double it otherwise, up to the configured one.

        What comes within the configured linger of the last answer, or while the request is in flight, would have gone
        with it: the acker is slower than the producer, and larger requests cost both less.
        """
        longest_s = self._longest_linger_s
        if self._clock.monotonic() - self._sent_at > longest_s:
            self._linger_s = max(self._linger_s / 2, longest_s * SHORTEST_LINGER)
        else:
            self._linger_s = min(self._linger_s * 2, longest_s)

    def _pause_for_refused(self) -> Flow[None]:
        """Pause while only refused requests are left: a client that is closed lingers no time, and would spin."""
        due = self.buffer.next_due()
        if due is None or self.buffer.has_unfrozen:
            return
        seconds = min(due - self._clock.monotonic(), REFUSED_PAUSE_S)
        if seconds > 0:
            yield Sleep(seconds=seconds)
