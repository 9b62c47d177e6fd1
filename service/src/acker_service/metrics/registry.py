"""Knows all metrics of one process, and writes them.

Whoever counts is given its meters when it is made, and calls them: the only arrow goes from a room to the telemetry,
which knows none of the rooms. The store makes the meters, for everybody who counts holds the store; two stores in a
process have two registries. What Redis itself remembers is not counted again: it is read and handed over to be written.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Info, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from acker_service.metrics.delivery import DeliveryMetrics
from acker_service.metrics.http import HttpMetrics
from acker_service.metrics.operations import OperationMetrics
from acker_service.metrics.periodic import PeriodicMetrics
from acker_service.metrics.redis import RedisMetrics
from acker_service.metrics.stats import StoreStats
from acker_service.metrics.store_collector import families


class Metrics:
    """The metrics of a process, by the room that counts: ``door``, ``work`` and ``calls`` of the store, ``rounds``."""

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

    def built(self, version: str) -> None:
        """Tell which version this is."""
        self._build.info({"version": version})

    def write(self, accept: str, standing: StoreStats | None) -> tuple[bytes, str]:
        """Write all metrics in the format that is accepted, Prometheus's text or OpenMetrics; gives its type too."""
        told = _Scrape(self._registry, standing)
        try:
            encode, content_type = choose_encoder(accept)
            return encode(told), content_type
        except (TypeError, ValueError):  # a version that is no version, which the library does not expect
            encode, content_type = choose_encoder("")
            return encode(told), content_type


class _Scrape(Collector):
    """All that is told in one scrape."""

    def __init__(self, registry: CollectorRegistry, standing: StoreStats | None) -> None:
        self._registry, self._standing = registry, standing

    def collect(self) -> Iterator[Metric]:
        """Give what this process counted, then how the store stands."""
        yield from self._registry.collect()
        yield from families(self._standing)
