"""Resets the timeout of a tuple in a thread."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from acker_client._core.keep_alive import MIN_INTERVAL_S, reset_interval
from acker_client.errors import AckerError, NotFound, TupleClosed

if TYPE_CHECKING:
    from acker_client.roots import Roots
    from acker_client.topologies import Topologies
    from acker_client.tuple import Tuple

JOIN_S = 5.0
"""How long the end of the block waits for a reset that is being sent; one that finds no acker is sent for longer."""

_log = logging.getLogger("acker_client")


@contextmanager
def kept_alive(
    tup: "Tuple", *, topologies: "Topologies", roots: "Roots", interval: float | None = None
) -> Iterator[None]:
    """Reset the timeout of the tuple's roots while the block runs: at once, then every ``interval`` seconds.

    None: a third of the shortest timeout. A reset that fails is logged; the roots then time out, unless a later one
    succeeds.
    """
    stopping = threading.Event()
    find_interval = partial(_find_interval, tup, topologies, roots)
    arguments = (tup, stopping, interval, find_interval)
    thread = threading.Thread(target=_keep_alive, args=arguments, name="acker-keep-alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(JOIN_S)


def _keep_alive(
    tup: "Tuple", stopping: threading.Event, interval: float | None, find_interval: Callable[[], float]
) -> None:
    while not stopping.is_set():
        try:
            tup.reset_timeout()
            interval = interval or find_interval()
        except TupleClosed:
            return
        except NotFound:
            pass  # the init has not come yet, or the root has ended and is forgotten
        except AckerError as error:
            if not stopping.is_set():
                _log.warning("the timeout of %s was not reset: %s", tup, error)
        stopping.wait(interval or MIN_INTERVAL_S)


def _find_interval(tup: "Tuple", topologies: "Topologies", roots: "Roots") -> float:
    ids = dict.fromkeys(f"{anchor.root_id:016x}" for anchor in tup.anchors.anchors)
    return reset_interval(topologies.get(tup.topology), map(roots.get, ids), now_s=time.time())
