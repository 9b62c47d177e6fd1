"""Knows how to perform flows in the calling thread."""

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import httpx

from acker_client import connection, steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from acker_client.calls import Call

LOOK_S = 0.05
"""How soon one who lingers sees that the program has come to its end."""


class Driver:
    """Sends the calls of flows and makes their pauses; for any number of threads."""

    def __init__(self, connect: "Callable[[], httpx.Client]", *, sleep: "Callable[[float], object]") -> None:
        self._connect, self._sleep = connect, sleep
        self._inherited: list[httpx.Client] = []
        self._http: httpx.Client | None = None
        self._renew()

    def start_anew(self) -> None:
        """Forget the parent of a fork: its connections, which stay open for it, its locks and its threads."""
        self._inherited += [self._http] if self._http else []
        self._http = None
        self._renew()

    def run(self, flow: steps.Flow[steps.T]) -> steps.T:
        """Perform a flow to its end and give its result; what it raises comes through."""
        with closing(flow):
            try:
                step = next(flow)
                while True:
                    step = steps.resume(flow, self._attempt(step))
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # StopIteration is not generic

    def close(self) -> None:
        """Close the connections."""
        self._client().close()

    def _attempt(self, step: steps.Step) -> steps.Performed | Exception:
        try:
            return self._perform(step)
        except Exception as error:  # noqa: BLE001 - the flow says what becomes of it
            return error

    def _perform(self, step: steps.Step) -> steps.Performed:
        match step:
            case steps.Pause():
                self._sleep(step.seconds)
            case steps.Linger():
                self._linger(step.seconds)
            case steps.Hurry():
                self._bell.set()
            case steps.Alone():
                with self._turn:
                    self.run(step.flow)
            case steps.Aside():
                threading.Thread(target=self.run, args=(step.flow,), name="acker-linger").start()
            case steps.Work():
                return step.do()
            case _:
                return self._exchange(step)
        return None

    def _exchange(self, call: "Call") -> steps.Performed:
        http = self._client()
        try:
            return connection.reply(http.send(connection.request(http, call)))
        except httpx.RequestError as error:
            return connection.lost(error)
        except RuntimeError as error:
            raise connection.closed(http, error) from None

    def _linger(self, seconds: float) -> None:
        """Wait, but not beyond the end of the main thread: the interpreter waits for this one then."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and threading.main_thread().is_alive():
            if self._bell.wait(min(left, LOOK_S)):
                break
        self._bell.clear()

    def _client(self) -> httpx.Client:
        with self._connecting:
            self._http = self._http or self._connect()
            return self._http

    def _renew(self) -> None:
        self._turn, self._connecting, self._bell = threading.Lock(), threading.Lock(), threading.Event()
