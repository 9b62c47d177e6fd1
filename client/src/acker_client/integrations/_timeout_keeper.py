"""Resets the timeouts of messages that wait in a process for long."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from acker_client.errors import AckerError

if TYPE_CHECKING:
    from acker_client.topologies import Topology
    from acker_client.tuple import Tuple

_log = logging.getLogger("acker_client")


class TimeoutKeeper:
    """Resets the timeouts of messages that wait in this process for longer than a part of the message timeout."""

    def __init__(self, topology: "Callable[[], Topology]") -> None:
        self._read_topology = topology
        self._lock = threading.Lock()
        self._waiting: dict[Tuple, float] = {}  # until when, in Unix seconds
        self._thread: threading.Thread | None = None

    def interval_s(self) -> float:
        """Return the seconds between two resets: a third of the message timeout."""
        return self._read_topology().message_timeout / 3

    def keep(self, tup: "Tuple", *, until: float) -> None:
        """Reset the timeout of a tuple's roots from now until a Unix time."""
        with self._lock:
            self._waiting[tup] = until
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="acker-timeouts", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while waiting := self._due():
            for tup in waiting:
                try:
                    tup.reset_timeout()
                except AckerError as error:
                    _log.warning("the timeout of %s was not reset: %s", tup, error)
            time.sleep(self.interval_s())

    def _due(self) -> "list[Tuple]":
        with self._lock:
            now = time.time()
            self._waiting = {tup: until for tup, until in self._waiting.items() if until > now}
            if not self._waiting:
                self._thread = None
            return list(self._waiting)
