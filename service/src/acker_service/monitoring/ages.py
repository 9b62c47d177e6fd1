"""Reads what is oldest in a topology, the backlogs of its callbacks, and its delays."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from acker_service.metrics.store_collector import CallbackBacklog, LatencyHistogram, TopologyAges
from acker_service.redis.functions.spouts import ShardAges, read_ages
from acker_service.topologies.callback import CallbackStatus
from acker_service.topologies.shards import Shards
from acker_service.topologies.spouts import Spout, SpoutRegistry
from acker_service.topologies.stats import SpoutCounts, read_latencies
from acker_service.topologies.topology import Topology

MAX_SPOUT_TASKS = 1_000
"""Spout tasks with a callback, and others with the most unread completions, whose mailboxes are read at most."""

DELAYS = ("late", "release")


class AgeReader:
    """Reads ages and delays, in one call on each shard."""

    def __init__(self, shards: Shards, spouts: SpoutRegistry) -> None:
        self._shards = shards
        self._spouts = spouts

    async def read(self, topology: Topology, counts: SpoutCounts) -> TopologyAges:
        """Read the ages of a topology whose counts were read before; they say which mailboxes have completions."""
        spouts = (await self._spouts.with_callback(topology))[:MAX_SPOUT_TASKS]
        called = [spout.index for spout in spouts]
        pulled = _fullest(counts.unread, without=called)
        _, shards = await self._shards.call_all(topology, read_ages([*called, *pulled]))
        now_ms = max(shard.now_ms for shard in shards)
        written = dict(zip([*called, *pulled], zip(*(shard.unread_ms for shard in shards), strict=True), strict=True))
        return TopologyAges(
            now_ms=now_ms,
            pending_ms=_least(shard.pending_ms for shard in shards),
            unread_ms=_least(written_ms for by_shard in written.values() for written_ms in by_shard),
            unread_pull_ms=_least(written_ms for index in pulled for written_ms in written[index]),
            delays=_delays(shards),
            backlogs=_backlogs(
                spouts, counts, {index: _least(by_shard) for index, by_shard in written.items()}, now_ms
            ),
        )


def _fullest(unread: Counter[int], *, without: Sequence[int]) -> list[int]:
    """Return the spout tasks with the most unread completions, but for some."""
    known = set(without)
    others = Counter({index: count for index, count in unread.items() if count > 0 and index not in known})
    return [index for index, _ in others.most_common(MAX_SPOUT_TASKS)]


def _least(moments: Iterable[int | None]) -> int | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _delays(shards: Sequence[ShardAges]) -> Mapping[str, LatencyHistogram]:
    fields = Counter[str]()
    for shard in shards:
        fields.update(shard.delays)
    return {name: read_latencies(fields, name) for name in DELAYS}


def _backlogs(
    spouts: Iterable[Spout], counts: SpoutCounts, written_ms: Mapping[int, int | None], now_ms: int
) -> Mapping[str, CallbackBacklog]:
    return {
        spout.name: CallbackBacklog(
            unread=counts.unread[spout.index],
            age_ms=max(0, now_ms - (written_ms[spout.index] or now_ms)),
            is_on=spout.callback is not None and spout.callback.state is CallbackStatus.ON,
        )
        for spout in spouts
    }
