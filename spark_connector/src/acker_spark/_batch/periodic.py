"""Calls a function again and again while a block runs."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

Wait = Callable[[threading.Event, float], bool]
"""Waits some seconds for the end of a block, and returns whether it has come."""


class PeriodicCall:
    """Calls ``call`` every ``every`` seconds while a block runs, in a thread of its own, until it returns False."""

    def __init__(self, call: Callable[[], bool], *, name: str, every: float, wait: Wait = threading.Event.wait) -> None:
        self._call = call
        self._every = every
        self._wait = wait
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _type: type[BaseException] | None, _it: BaseException | None, _at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._wait(self._over, self._every) and self._call():
            pass
