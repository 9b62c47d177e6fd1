"""Holds the dedupe window of a topology against the time after which a queue delivers again."""

import warnings
from typing import TYPE_CHECKING

from acker_client.errors import UsageError

if TYPE_CHECKING:
    from acker_client.topologies import Topology


def check_dedupe_window(topology: "Topology", *, redelivery_s: float, flush_before_ack: bool) -> None:
    """Raise `UsageError` if a redelivery may come when the acked edge is forgotten; warn of an automatic window."""
    name, window_s = topology.name, topology.dedupe_window
    if window_s > redelivery_s:
        return
    if window_s == 0 and not flush_before_ack:
        words = f"topology {name!r} has no dedupe window: a tree whose task is delivered again times out"
        warnings.warn(words, stacklevel=2)
        return
    words = (
        f"topology {name!r} has a dedupe window of {window_s:g} s, and the queue delivers messages again after up to "
        f"{redelivery_s:g} s: make the window longer, topologies.create({name!r}, dedupe_window=…)"
    )
    if not topology.dedupe_automatic:
        raise UsageError(words)
    warnings.warn(f"{words}; a tree whose task is delivered again later than the window times out", stacklevel=2)
