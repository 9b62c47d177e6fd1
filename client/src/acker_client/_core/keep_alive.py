"""How often a worker resets the timeout of the roots that it works on."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from acker_client.roots import RootInfo
    from acker_client.topologies import Topology

RESETS_PER_TIMEOUT = 3
MIN_INTERVAL_S = 1.0


def reset_interval(topology: "Topology", roots: "Iterable[RootInfo]", *, now_s: float) -> float:
    """Return a third of the shortest timeout: that of the topology, or what a root has left just after a reset.

    ``now_s`` is the Unix time of this machine; where it is ahead of the service's, resets are more frequent. In
    seconds, one at least where the topology's timeouts allow that.
    """
    timeouts = [topology.message_timeout, topology.progress_timeout or topology.message_timeout]
    least_s = min(MIN_INTERVAL_S, min(timeouts) / RESETS_PER_TIMEOUT)
    timeouts += [root.deadline_at - now_s for root in roots if root.deadline_at is not None]
    return max(min(timeouts) / RESETS_PER_TIMEOUT, least_s)
