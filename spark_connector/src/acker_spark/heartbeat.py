"""Knows how roots are kept from timing out while a function works on them."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

log = logging.getLogger("acker_spark")


class Heartbeat:
    """Beats while a block runs, every ``every`` seconds and for ``lasting`` at most.

    A function that hangs is let go then: its roots time out. What a beat raises is logged, and the next one comes.
    ``wait`` waits that long for the end of the block, and says whether it has come.
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
        """Beat now; one that beats for no time at all does not."""
        if self._lasting > 0:
            self._try()

    def _run(self) -> None:
        for _ in range(int(self._lasting / self._every)):
            if self._wait(self._over, self._every):
                return
            self._try()
        if not self._wait(self._over, self._every):
            log.warning("a batch has run for so long that its roots are no longer kept from timing out")

    def _try(self) -> None:
        try:
            self._beat()
        except Exception:
            log.exception("the message timeout of a batch's roots could not be reset; it is tried again")
