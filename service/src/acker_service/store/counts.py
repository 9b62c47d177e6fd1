"""Knows how many roots are pending, how many completions unread, and how roots have ended so far."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from acker_protocol.messages import Outcome

from acker_service.domain.standing import Latencies, TopologyStanding
from acker_service.store.shards import Shards
from acker_service.store.topology import Topology

TOTALS = ("acked", "failed", "timed_out", "dropped", "unbalanced")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts over all shards: pending and unread by spout index, totals since the topology was made.

    ``dropped`` are early roots that no init came for, ``unbalanced`` the times an ack val was zero with edges
    outstanding. ``latencies`` are complete latencies, by outcome.
    """

    pending: Counter[int] = field(default_factory=Counter)
    unread: Counter[int] = field(default_factory=Counter)
    totals: dict[str, int] = field(default_factory=dict)
    latencies: dict[str, Latencies] = field(default_factory=dict)

    @property
    def standing(self) -> TopologyStanding:
        """The same, over all spout tasks."""
        return TopologyStanding(
            pending=sum(self.pending.values()),
            unread=sum(self.unread.values()),
            totals=self.totals,
            latencies=self.latencies,
        )


class CountsReader:
    """Reads counts."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    async def read(self, topology: Topology) -> Counts:
        """Add the counts of all shards up."""
        _, shards = await self._shards.ask_each(topology, "acker_read_counts_v1")
        pending, unread, fields = Counter[int](), Counter[int](), Counter[str]()
        for by_spout, unread_by_spout, ended in shards:
            pending.update(read_counts(by_spout))
            unread.update(read_counts(unread_by_spout))
            fields.update(_named(ended))
        latencies = {outcome.value: _latencies(fields, outcome) for outcome in Outcome}
        totals = {name: fields[name] + sum(_by_exponent(fields, name).values()) for name in TOTALS}
        return Counts(pending=pending, unread=unread, totals=totals, latencies=latencies)


def read_counts(flat: list[bytes]) -> dict[int, int]:
    """Read a hash of counts by spout index."""
    return {int(index): count for index, count in _named(flat).items()}


def _latencies(fields: Mapping[str, int], outcome: Outcome) -> Latencies:
    return Latencies(counts=_by_exponent(fields, outcome.value), sum_ms=fields.get(f"{outcome.value}_ms", 0))


def _by_exponent(fields: Mapping[str, int], name: str) -> dict[int, int]:
    head = f"{name}:"
    return {int(field.removeprefix(head)): count for field, count in fields.items() if field.startswith(head)}


def _named(flat: list[bytes]) -> dict[str, int]:
    return {name.decode(): int(count) for name, count in zip(flat[::2], flat[1::2], strict=True)}
