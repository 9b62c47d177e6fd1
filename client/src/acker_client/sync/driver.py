"""Runs flows in the calling thread."""

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import httpx

from acker_client import _transport
from acker_client._core import effects

if TYPE_CHECKING:
    from collections.abc import Callable

    from acker_client._core.requests import Request
    from acker_client._proxy import Proxy
    from acker_client.sync._connections import Connections

EXIT_CHECK_S = 0.05
"""How soon a flusher that waits notices that the main thread has ended."""


class Driver:
    """Runs the effects of flows; for any number of threads."""

    def __init__(
        self,
        connect: "Callable[[], httpx.Client]",
        *,
        sleep: "Callable[[float], object]",
        direct: bool = False,
        proxy: "Proxy | None" = None,
    ) -> None:
        """``direct`` says that nothing stands between the clients and the acker, so that requests may go without httpx.

        ``proxy`` is the one on the way, for messages.
        """
        self._connect, self._sleep, self._direct = connect, sleep, direct
        self._proxy = proxy
        self._inherited: list[tuple[httpx.Client, Connections | None]] = []
        self._http: httpx.Client | None = None
        self._connections: Connections | None = None
        self._new_locks()

    def reset(self) -> None:
        """Drop the connections of the parent of a fork, which stay open for it, its locks and its threads."""
        self._inherited += [(self._http, self._connections)] if self._http else []
        self._http = self._connections = None
        self._new_locks()

    def run(self, flow: effects.Flow[effects.T]) -> effects.T:
        """Run a flow to its end and give its result; what it raises is raised here."""
        with closing(flow):
            try:
                effect = next(flow)
                while True:
                    effect = effects.advance(flow, self._attempt(effect))
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # StopIteration is not generic

    def close(self) -> None:
        """Close the connections."""
        self._client().close()
        if self._connections is not None:
            self._connections.close()

    def _attempt(self, effect: effects.Effect) -> effects.EffectResult | Exception:
        try:
            return self._perform(effect)
        except Exception as error:  # noqa: BLE001 - the flow decides what to do about it
            return error

    def _perform(self, effect: effects.Effect) -> effects.EffectResult:
        match effect:
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
            case _:
                return self._exchange(effect)
        return None

    def _exchange(self, request: "Request") -> effects.EffectResult:
        http, connections = self._client(), self._connections
        if connections is not None and connections.may_send():
            return connections.send(request)
        try:
            return _transport.to_response(http.send(_transport.build_request(http, request)), self._proxy)
        except httpx.RequestError as error:
            return _transport.no_response(error, self._proxy)
        except RuntimeError as error:
            raise _transport.closed_error(http, error) from None

    def _wait_flush(self, seconds: float) -> None:
        """Wait, but not beyond the end of the main thread: the interpreter then waits for this one."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and threading.main_thread().is_alive():
            if self._wake.wait(min(left, EXIT_CHECK_S)):
                break
        self._wake.clear()

    def _client(self) -> httpx.Client:
        with self._connecting:
            if self._http is None:
                http = self._connect()
                self._connections = _connections(http) if self._direct else None
                self._http = http
            return self._http

    def _new_locks(self) -> None:
        self._connecting, self._wake = threading.Lock(), threading.Event()


def _connections(http: httpx.Client) -> "Connections | None":
    """Give the connections that replace a client's; httpx itself imports its sockets with the first client."""
    from acker_client.sync._connections import Connections  # noqa: PLC0415

    return Connections.replacing(http)


def _wait_turn(effect: effects.WaitTurn) -> None:
    """Wait by a lock that the waiter releases: an Event costs several times as much."""
    ready = threading.Lock()
    ready.acquire()
    effect.waiter.call_when_ready(ready.release)
    ready.acquire()
