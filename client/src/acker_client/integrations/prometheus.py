"""Shows what a client counts as metrics of a Prometheus registry. ::

    REGISTRY.register(StatsCollector(acker))

Each scrape reads `Acker.stats`, which costs no request. A process with several clients gives all of them to one
collector. Needs ``acker-client[prometheus]``.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from acker_client.asyncio.client import AsyncAcker
    from acker_client.sync.client import Acker

__all__ = ["StatsCollector"]

IN_FLIGHT = "Operations that are buffered or being sent now."
LOST = "Operations that could not be delivered."
DROPPED = "Tuples that were acked by a DropTuple."
UNTRACKED = "Tuples that came without an anchors header."
SKIPPED = "Tuples that were not processed, since all their roots had ended."


class StatsCollector(Collector):
    """Collects the statistics of clients, an `Acker` or `AsyncAcker` each, by the label ``client``.

    Without ``names`` a client is called by its topology. Raises ``ValueError`` for names that repeat, or are too few.
    """

    def __init__(self, *clients: "Acker | AsyncAcker", names: Sequence[str] | None = None) -> None:
        labels = [client.topology for client in clients] if names is None else list(names)
        if len(labels) != len(clients) or len({*labels}) != len(labels):
            raise ValueError(f"give each of {len(clients)} clients a name of its own by names=; they are {labels}")
        self._clients = dict(zip(labels, clients, strict=True))

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, as a registry asks for them."""
        in_flight = GaugeMetricFamily("acker_client_in_flight", IN_FLIGHT, labels=["client"])
        lost = CounterMetricFamily("acker_client_lost", LOST, labels=["client"])
        dropped = CounterMetricFamily("acker_client_dropped_tuples", DROPPED, labels=["client"])
        untracked = CounterMetricFamily("acker_client_untracked_tuples", UNTRACKED, labels=["client"])
        skipped = CounterMetricFamily("acker_client_skipped_tuples", SKIPPED, labels=["client"])
        for name, client in self._clients.items():
            stats = client.stats()
            in_flight.add_metric([name], stats.in_flight)
            lost.add_metric([name], stats.lost)
            dropped.add_metric([name], stats.dropped_tuples)
            untracked.add_metric([name], stats.untracked_tuples)
            skipped.add_metric([name], stats.skipped)
        yield from (in_flight, lost, dropped, skipped, untracked)
