"""Resets the message timeouts of roots while a function works on them."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

log = logging.getLogger("acker_spark")


class Heartbeat:
    """Calls ``beat`` while a block runs, every ``every`` seconds and for ``lasting`` seconds at most.

    After that a function that hangs loses its roots: they time out. An exception of ``beat`` is logged, and the next
    call comes in its turn. ``wait`` waits some seconds for the end of the block, and returns whether it has come.
    """

    def __init__(
        self,
        beat: Callable[[], object],
        *,
        every: float,
        lasting: float,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        self._beat, self._every, self._lasting, self._wait = beat, every, lasting, wait
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="acker-heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _type: type[BaseException] | None, _it: BaseException | None, _at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def beat(self) -> None:
        """Beat now, unless ``lasting`` is 0."""
        if self._lasting > 0:
            self._try()

    def _run(self) -> None:
        for _ in range(int(self._lasting / self._every)):
            if self._wait(self._over, self._every):
                return
            self._try()
        if not self._wait(self._over, self._every):
            log.warning(
                "a batch has run for so long that the timeouts of its roots are no longer reset (heartbeat_for)"
            )

    def _try(self) -> None:
        try:
            self._beat()
        except Exception:
            log.exception("the message timeouts of a batch's roots could not be reset; the next heartbeat tries again")
