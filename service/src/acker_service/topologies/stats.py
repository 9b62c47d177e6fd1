"""Counts pending roots, unread completions and dead letters, and how roots have ended so far."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from acker_protocol.operations import Outcome

from acker_service.metrics.store_collector import LatencyHistogram, TopologyAges, TopologyStats
from acker_service.redis import functions
from acker_service.redis.client import RedisClient
from acker_service.redis.functions.failures import FailureCounts
from acker_service.redis.functions.roots import StoredCounts
from acker_service.topologies.shards import MAX_SHARDS, Shards
from acker_service.topologies.topology import Topology

DELIVERY = ("delivered", "retried", "published", "dead", "discarded")
TOTALS = ("acked", "failed", "timed_out", "dropped", "unbalanced")
MAX_COMPONENTS = 50
"""Components of a topology whose failures are counted by name, as many as a shard counts; the others count as one."""

OTHER_COMPONENTS = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoutCounts:
    """Counts over all shards: pending, unread and dead letters by spout index, totals since the topology was created.

    ``early`` are roots whose init has not come yet, ``early_bytes`` what they take, ``remembered_bytes`` what the ended
    edges and requests would take that are remembered, if each shard had as many as the fullest, ``dropped`` early roots
    whose init did not come in time, ``unbalanced`` the times an ack val was zero with edges outstanding; ``deliveries``
    count completions by result, ``failures`` by outcome and component, ``latencies`` are complete latencies by outcome,
    ``ages`` is what is oldest, where that was read.
    """

    pending: Counter[int] = field(default_factory=Counter)
    unread: Counter[int] = field(default_factory=Counter)
    dead: Counter[int] = field(default_factory=Counter)
    totals: dict[str, int] = field(default_factory=dict)
    deliveries: dict[str, int] = field(default_factory=dict)
    latencies: dict[str, LatencyHistogram] = field(default_factory=dict)
    ages: TopologyAges | None = None
    early: int = 0
    early_bytes: int = 0
    remembered_bytes: int = 0
    failures: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def stored_total(self) -> int:
        """The number of completions kept for all spout tasks."""
        return sum(self.unread.values()) + sum(self.dead.values())

    def remaining(self, index: int) -> str:
        """Describe what is left of a spout task; empty if nothing is."""
        return _describe_remaining(self.pending[index], self.unread[index], self.dead[index])

    @property
    def remaining_total(self) -> str:
        """Describe what is left of all spout tasks; empty if nothing is."""
        return _describe_remaining(*(sum(counts.values()) for counts in (self.pending, self.unread, self.dead)))

    @property
    def topology_stats(self) -> TopologyStats:
        """The same, over all spout tasks."""
        return TopologyStats(
            pending=sum(self.pending.values()),
            unread=sum(self.unread.values()),
            dead_letters=sum(self.dead.values()),
            totals=self.totals,
            deliveries=self.deliveries,
            latencies=self.latencies,
            ages=self.ages,
            fullest_mailbox=max((self.unread + self.dead).values(), default=0),
            early=self.early,
            early_bytes=self.early_bytes,
            remembered_bytes=self.remembered_bytes,
            failures=self.failures,
        )


class StatsReader:
    """Reads counts."""

    def __init__(self, redis: RedisClient, shards: Shards) -> None:
        self._redis = redis
        self._shards = shards

    async def read_all_stored(self, topologies: Sequence[Topology]) -> dict[str, Counter[int]]:
        """Do what `read_stored` does for many topologies, by their names, in one call on each `MAX_SHARDS` shards.

        Leaves out topologies whose stamp is stale, and in a cluster all: one call reads from one server.
        """
        # rule: one call counts the shards of all topologies
        if self._redis.is_cluster or not topologies:
            return {}
        shards = [(topology, key) for topology in topologies for key in topology.shards]
        calls = [
            functions.roots.read_all_stored([(key, topology.stamp) for topology, key in shards[i : i + MAX_SHARDS]])
            for i in range(0, len(shards), MAX_SHARDS)
        ]
        replies = await self._redis.execute_each(calls)
        stored, stale = dict[str, Counter[int]](), set[str]()
        for (topology, _), counts in zip(shards, chain.from_iterable(replies), strict=True):
            if counts is None:
                # rule: what a stale stamp hides is counted again
                stale.add(topology.name)
            else:
                _add(stored.setdefault(topology.name, Counter()), counts)
        return {name: counts for name, counts in stored.items() if name not in stale}

    async def read_stored(self, topology: Topology) -> Counter[int]:
        """Add up the unread completions and dead letters of each spout task over all shards, by its index."""
        _, shards = await self._shards.call_all(topology, functions.roots.read_stored())
        stored = Counter[int]()
        for shard in shards:
            _add(stored, shard)
        return stored

    async def read(self, topology: Topology) -> SpoutCounts:
        """Add up the counts of all shards."""
        _, shards = await self._shards.call_all(topology, functions.roots.read_counts())
        pending, unread, dead, fields = Counter[int](), Counter[int](), Counter[int](), Counter[str]()
        for shard in shards:
            pending.update(shard.pending)
            unread.update(shard.unread)
            dead.update(shard.dead)
            fields.update(shard.totals)
        latencies = {outcome.value: read_latencies(fields, outcome.value) for outcome in Outcome}
        totals = {name: fields[name] + sum(_by_exponent(fields, name).values()) for name in TOTALS}
        deliveries = {name: fields[name] for name in DELIVERY}
        return SpoutCounts(
            pending=pending,
            unread=unread,
            dead=dead,
            totals=totals,
            deliveries=deliveries,
            latencies=latencies,
            early=fields["early"],
            early_bytes=fields["early_bytes"],
            # Each shard may remember an equal part, and all edges of a root lie in one.
            remembered_bytes=len(shards) * max((shard.totals["remembered_bytes"] for shard in shards), default=0),
            failures=failures_by_component([shard.failures for shard in shards]),
        )


def failures_by_component(
    shards: Iterable[FailureCounts], *, max_components: int = MAX_COMPONENTS
) -> dict[tuple[str, str], int]:
    """Add up the failures of all shards by outcome and component ("": none).

    The components that failed first keep their names: so none loses its name later, and no count ever falls.
    """
    counts, first_ms = Counter[tuple[Outcome, str]](), dict[str, int]()
    for shard in shards:
        counts.update(shard.counts)
        for component, at_ms in shard.first_ms.items():
            first_ms[component] = min(at_ms, first_ms.get(component, at_ms))
    named = {"", *sorted(first_ms, key=lambda component: (first_ms[component], component))[:max_components]}
    shown = Counter[tuple[str, str]]()
    for (outcome, component), count in counts.items():
        shown[outcome.value, component if component in named else OTHER_COMPONENTS] += count
    return dict(shown)


def _add(stored: Counter[int], shard: StoredCounts) -> None:
    stored.update(shard.unread)
    stored.update(shard.dead)


def _describe_remaining(pending: int, unread: int, dead: int) -> str:
    letters = f" and {dead} dead letters" if dead else ""
    return f"{pending} pending roots and {unread} unread completions{letters}" if pending or unread or dead else ""


def read_latencies(fields: Mapping[str, int], name: str) -> LatencyHistogram:
    """Read a histogram out of the fields that Redis stores for it."""
    return LatencyHistogram(counts=_by_exponent(fields, name), sum_ms=fields.get(f"{name}_ms", 0))


def _by_exponent(fields: Mapping[str, int], name: str) -> dict[int, int]:
    head = f"{name}:"
    return {int(field.removeprefix(head)): count for field, count in fields.items() if field.startswith(head)}
