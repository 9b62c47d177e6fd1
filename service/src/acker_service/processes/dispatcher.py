"""Accepts connections, and passes each to the process that has the fewest.

Processes that accept from one socket take what they are quick enough to take (32 connections: 0 and 32, 11 and 21), and
those that listen by SO_REUSEPORT what a hash gives them (11 and 21, 17 and 15). Passed on, they are 16 and 16; requests
go straight to the process, and a limit of connections that is divided is met by all processes at once.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Protocol

ACCEPTS_AT_ONCE = 64
"""Connections accepted in one turn of the event loop."""
RETRY_S = 0.05

_log = logging.getLogger(__name__)


class Receiver(Protocol):
    """A process that takes connections. ``passed`` is the number of the connection it was passed last."""

    open_connections: int
    passed: int

    def pass_on(self, connection: socket.socket) -> bool:
        """Pass a connection on, and return whether the process could take it."""


class Dispatcher:
    """Listens on bound sockets. ``receivers`` gives the processes that serve now; without any, connections wait."""

    def __init__(self, sockets: Sequence[socket.socket], receivers: Callable[[], Sequence[Receiver]]) -> None:
        self._sockets = sockets
        self._receivers = receivers
        self._passed = 0
        self._paused: asyncio.TimerHandle | None = None

    def start(self, backlog: int) -> None:
        """Listen and accept. Raises ``OSError`` if another program listens on the address by now."""
        for listening in self._sockets:
            listening.settimeout(0)
            listening.listen(backlog)
        self._resume()

    def close(self) -> None:
        """Stop listening: from now on connections are refused."""
        self._pause(None)
        for listening in self._sockets:
            listening.close()

    def _resume(self) -> None:
        self._paused = None
        for listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _pause(self, seconds: float | None) -> None:
        """Accept nothing for some seconds; None: never again."""
        loop = asyncio.get_running_loop()
        if self._paused is not None:
            self._paused.cancel()
        for listening in self._sockets:
            if listening.fileno() >= 0:
                loop.remove_reader(listening)
        self._paused = None if seconds is None else loop.call_later(seconds, self._resume)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            if not self._receivers():
                self._pause(RETRY_S)
                return
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:  # no file or memory is left: what waits in the backlog is accepted later
                _log.warning("cannot accept connections: %s; tries again", error.strerror)
                self._pause(RETRY_S)
                return
            with connection:
                if not self._pass_on(connection):
                    self._pause(RETRY_S)
                    return

    def _pass_on(self, connection: socket.socket) -> bool:
        """Pass a connection to the process with the fewest, among equals to the one that waits longest for one."""
        self._passed += 1
        for receiver in sorted(self._receivers(), key=lambda each: (each.open_connections, each.passed)):
            if receiver.pass_on(connection):
                receiver.passed = self._passed
                receiver.open_connections += 1
                return True
        _log.warning("closed a connection: no process could take it")
        return False
