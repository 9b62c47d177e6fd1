"""Holds all metrics of one process, and writes a scrape.

Each part of the service is handed the metrics that it counts; this package imports no other. Every `Metrics` has a
registry of its own, so that two ackers in one process count apart. What Redis itself counts is read at each scrape.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Info, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from acker_service.metrics.instruments import (
    DeliveryMetrics,
    HttpMetrics,
    OperationMetrics,
    PeriodicMetrics,
    RedisMetrics,
)
from acker_service.metrics.store_collector import StoreStats, families


class Metrics:
    """All metrics of a process, one attribute for each part that counts."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.http = HttpMetrics(self._registry)
        self.operations = OperationMetrics(self._registry)
        self.redis = RedisMetrics(self._registry)
        self.periodic = PeriodicMetrics(self._registry)
        self.delivery = DeliveryMetrics(self._registry)
        self._build = Info("acker_build", "The version of the service.", registry=self._registry)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def set_version(self, version: str) -> None:
        """Set the version that the build metric shows."""
        self._build.info({"version": version})

    def write(self, accept: str, stats: StoreStats | None) -> tuple[bytes, str]:
        """Write a scrape as Prometheus's text or as OpenMetrics, whichever ``accept`` prefers; gives body and type.

        ``stats`` None: the store does not answer.
        """
        scrape = _Scrape(self._registry, stats)
        try:
            encode, content_type = choose_encoder(accept)
            return encode(scrape), content_type
        except (TypeError, ValueError):  # the library does not expect a malformed version in `Accept`
            encode, content_type = choose_encoder("")
            return encode(scrape), content_type


class _Scrape(Collector):
    """Collects the counts of this process and the stats of the store."""

    def __init__(self, registry: CollectorRegistry, stats: StoreStats | None) -> None:
        self._registry, self._stats = registry, stats

    def collect(self) -> Iterator[Metric]:
        """Give the metrics of this process, then those of the store."""
        yield from self._registry.collect()
        yield from families(self._stats)
