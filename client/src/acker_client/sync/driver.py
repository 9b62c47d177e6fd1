"""Runs flows in the calling thread."""

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

from acker_client._core import effects
from acker_client._core.requests import Request
from acker_client._core.waiters import TurnOnly

if TYPE_CHECKING:
    from acker_client._core.flusher import Flusher
    from acker_client._transport import Endpoint, Route
    from acker_client.config import ClientConfig
    from acker_client.sync._connections import Connections
    from acker_client.sync._httpx import HttpxSender

    Sender = Connections | HttpxSender

EXIT_CHECK_S = 0.05
"""How soon a flusher that waits notices that the main thread has ended."""


class Driver:
    """Runs the effects of flows; for any number of threads."""

    def __init__(self, endpoint: "Endpoint", config: "ClientConfig") -> None:
        """Raises `UsageError` for an invalid URL or proxy."""
        self._route = endpoint.route(config)
        self._sleep = config.clock.sleep
        self._inherited: list[Sender] = []
        self._sender: Sender | None = None
        self._new_locks()

    def reset(self) -> None:
        """Drop the connections of the parent of a fork, which stay open for it, its locks and its threads."""
        self._inherited += [self._sender] if self._sender else []
        self._sender = None
        self._new_locks()

    def run(self, flow: effects.Flow[effects.T]) -> effects.T:
        """Run a flow to its end and give its result; what it raises is raised here."""
        with closing(flow):
            try:
                effect = next(flow)
                while True:
                    effect = effects.advance(flow, self.attempt(effect))
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # StopIteration is not generic

    def flush(self, flusher: "Flusher") -> None:
        """Flush, and raise `OperationsLost`. What an interrupt leaves in flight is sent in the background."""
        turn = TurnOnly()
        try:
            try:
                remaining = flusher.flush_at_once(self.attempt, turn)
                if remaining is not None:
                    self.run(remaining)
            finally:
                flusher.buffer.turns.leave(turn)
        except BaseException:
            self.run(flusher.attend())
            raise

    def close(self) -> None:
        """Close the connections."""
        self._connected().close()

    def attempt(self, effect: effects.Effect) -> effects.EffectResult | Exception:
        """Perform an effect, and return its result, or what it raised."""
        try:
            return self._perform(effect)
        except Exception as error:  # noqa: BLE001 - the flow decides what to do about it
            return error

    def _perform(self, effect: effects.Effect) -> effects.EffectResult:
        match effect:
            case Request():
                return self._connected().send(effect)
            case effects.Sleep():
                self._sleep(effect.seconds)
            case effects.WaitFlush():
                self._wait_flush(effect.seconds)
            case effects.WakeFlush():
                self._wake.set()
            case effects.WaitTurn():
                _wait_turn(effect)
            case effects.Spawn():
                threading.Thread(target=self.run, args=(effect.flow,), name="acker-flusher").start()
            case effects.RunBlocking():
                return effect.function()
        return None

    def _wait_flush(self, seconds: float) -> None:
        """Wait, but not beyond the end of the main thread: the interpreter then waits for this one."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and threading.main_thread().is_alive():
            if self._wake.wait(min(left, EXIT_CHECK_S)):
                break
        self._wake.clear()

    def _connected(self) -> "Sender":
        with self._connecting:
            if self._sender is None:
                self._sender = _sender(self._route)
            return self._sender

    def _new_locks(self) -> None:
        self._connecting = threading.Lock()
        self._wake = threading.Event()


def _sender(route: "Route") -> "Sender":
    """Make what sends requests: connections of the client's own, or httpx where something stands in between."""
    if route.is_direct:
        from acker_client.sync._connections import Connections  # noqa: PLC0415 - a program needs one of the two

        return Connections(route)
    from acker_client.sync._httpx import HttpxSender  # noqa: PLC0415

    return HttpxSender(route)


def _wait_turn(effect: effects.WaitTurn) -> None:
    """Wait by a lock that the waiter releases: an Event costs several times as much."""
    ready = threading.Lock()
    ready.acquire()
    effect.waiter.call_when_ready(ready.release)
    ready.acquire()
