"""Resets the message timeouts of roots while a function works on them."""

import logging
import threading
from collections.abc import Callable

from acker_spark._batch.periodic import PeriodicCall, Wait

log = logging.getLogger("acker_spark")


class Heartbeat(PeriodicCall):
    """Calls ``beat`` while a block runs, every ``every`` seconds and for ``lasting`` seconds at most.

    After that a function that hangs loses its roots: they time out. An exception of ``beat`` is logged, and the next
    call comes in its turn.
    """

    def __init__(
        self,
        beat: Callable[[], object],
        *,
        every: float,
        lasting: float,
        wait: Wait = threading.Event.wait,
    ) -> None:
        super().__init__(self._beat_in_turn, name="acker-heartbeat", every=every, wait=wait)
        self._beat = beat
        self._left = int(lasting / every)
        self._is_wanted = lasting > 0

    def beat(self) -> None:
        """Beat now, unless ``lasting`` is 0."""
        if self._is_wanted:
            self._try()

    def _beat_in_turn(self) -> bool:
        if not self._left:
            log.warning(
                "a batch has run for so long that the timeouts of its roots are no longer reset (heartbeat_for)"
            )
            return False
        self._left -= 1
        self._try()
        return True

    def _try(self) -> None:
        try:
            self._beat()
        except Exception:
            log.exception("the message timeouts of a batch's roots could not be reset; the next heartbeat tries again")
