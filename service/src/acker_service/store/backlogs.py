"""Knows what waits to be delivered for the spout tasks that have a callback."""

from collections.abc import Mapping, Sequence

from acker_service.domain.registration import State
from acker_service.domain.standing import Backlog
from acker_service.store.counts import Counts
from acker_service.store.shards import Shards
from acker_service.store.spouts import Spout, Spouts
from acker_service.store.topology import Topology

MOST = 1_000
"""Of so many spout tasks of a topology the backlogs are told; others are not looked at."""


class Backlogs:
    """Reads backlogs."""

    def __init__(self, shards: Shards, spouts: Spouts) -> None:
        self._shards, self._spouts = shards, spouts

    async def read(self, topology: Topology, counts: Counts) -> Mapping[str, Backlog]:
        """Give the backlogs by spout task; asks Redis only where there is a callback."""
        spouts = (await self._spouts.called_back(topology))[:MOST]
        if not spouts:
            return {}
        indexes = [spout.index for spout in spouts]
        _, shards = await self._shards.ask_each(topology, "acker_oldest_v1", *indexes)
        ages = [_ages(reply[0], reply[1:]) for reply in shards]
        return {
            spout.name: _backlog(spout, counts, max(own))
            for spout, own in zip(spouts, zip(*ages, strict=True), strict=True)
        }


def _ages(now_ms: int, oldest: Sequence[bytes | None]) -> list[int]:
    """Say how old entries are; 0 where there is none."""
    return [max(0, now_ms - int(entry.split(b"-")[0])) if entry else 0 for entry in oldest]


def _backlog(spout: Spout, counts: Counts, age_ms: int) -> Backlog:
    is_on = spout.callback is not None and spout.callback.state is State.ON
    return Backlog(unread=counts.unread[spout.index], age_ms=age_ms, is_on=is_on)
