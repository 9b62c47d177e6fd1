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

from acker_service.domain.standing import Standing
from acker_service.telemetry.calls import CallMeters
from acker_service.telemetry.delivery import DeliveryMeters
from acker_service.telemetry.door import DoorMeters
from acker_service.telemetry.rounds import RoundsMeters
from acker_service.telemetry.standing import families
from acker_service.telemetry.work import WorkMeters


class Meters:
    """The metrics of a process, by the room that counts: ``door``, ``work`` and ``calls`` of the store, ``rounds``."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.door = DoorMeters(self._registry)
        self.work = WorkMeters(self._registry)
        self.calls = CallMeters(self._registry)
        self.rounds = RoundsMeters(self._registry)
        self.delivery = DeliveryMeters(self._registry)
        self._build = Info("acker_build", "The version of the service.", registry=self._registry)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def built(self, version: str) -> None:
        """Tell which version this is."""
        self._build.info({"version": version})

    def write(self, accept: str, standing: Standing | None) -> tuple[bytes, str]:
        """Write all metrics in the format that is accepted, Prometheus's text or OpenMetrics; gives its type too."""
        told = _Told(self._registry, standing)
        try:
            encode, content_type = choose_encoder(accept)
            return encode(told), content_type
        except (TypeError, ValueError):  # a version that is no version, which the library does not expect
            encode, content_type = choose_encoder("")
            return encode(told), content_type


class _Told(Collector):
    """All that is told in one scrape."""

    def __init__(self, registry: CollectorRegistry, standing: Standing | None) -> None:
        self._registry, self._standing = registry, standing

    def collect(self) -> Iterator[Metric]:
        """Give what this process counted, then how the store stands."""
        yield from self._registry.collect()
        yield from families(self._standing)
