"""Knows what waits to be delivered for the spout tasks that have a callback."""

from collections.abc import Mapping, Sequence

from acker_service.metrics.stats import CallbackBacklog
from acker_service.topologies.registration import CallbackStatus
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout, SpoutRegistry
from acker_service.topologies.stamp import Topology
from acker_service.topologies.stats import SpoutCounts

MAX_SPOUT_TASKS = 1_000
"""Of so many spout tasks of a topology the backlogs are told; others are not looked at."""


class BacklogReader:
    """Reads backlogs."""

    def __init__(self, shards: Shards, spouts: SpoutRegistry) -> None:
        self._shards, self._spouts = shards, spouts

    async def read(self, topology: Topology, counts: SpoutCounts) -> Mapping[str, CallbackBacklog]:
        """Give the backlogs by spout task; asks Redis only where there is a callback."""
        spouts = (await self._spouts.with_callback(topology))[:MAX_SPOUT_TASKS]
        if not spouts:
            return {}
        indexes = [spout.index for spout in spouts]
        _, shards = await self._shards.call_all(topology, "acker_oldest_v1", *indexes)
        ages = [_ages(reply[0], reply[1:]) for reply in shards]
        return {
            spout.name: _backlog(spout, counts, max(own))
            for spout, own in zip(spouts, zip(*ages, strict=True), strict=True)
        }


def _ages(now_ms: int, oldest: Sequence[bytes | None]) -> list[int]:
    """Say how old entries are; 0 where there is none."""
    return [max(0, now_ms - int(entry.split(b"-")[0])) if entry else 0 for entry in oldest]


def _backlog(spout: Spout, counts: SpoutCounts, age_ms: int) -> CallbackBacklog:
    is_on = spout.callback is not None and spout.callback.state is CallbackStatus.ON
    return CallbackBacklog(unread=counts.unread[spout.index], age_ms=age_ms, is_on=is_on)
