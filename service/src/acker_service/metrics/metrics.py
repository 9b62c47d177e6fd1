"""Holds all metrics of one process, and writes a scrape.

Each part of the service is handed the metrics that it counts; this package imports no other. Every `Metrics` has a
registry of its own, so that two ackers in one process count apart. What Redis itself counts is read at each scrape.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Info, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from acker_service.metrics.instruments import (
    STORE_BYTES,
    AuditMetrics,
    DeliveryMetrics,
    FileMetrics,
    HttpMetrics,
    OperationMetrics,
    PeriodicMetrics,
    RedisMetrics,
)
from acker_service.metrics.snapshots import encode_snapshot, merge_snapshots
from acker_service.metrics.store_collector import StoreStats, families

LIMIT: Final = "acker_limit"


class Form(StrEnum):
    """A form of a scrape, by its media type without parameters."""

    TEXT = "text/plain"
    OPENMETRICS = "application/openmetrics-text"

    @property
    def content_type(self) -> str:
        """What an answer in this form says of it."""
        return _ENCODERS[self][1]


_ENCODERS = {form: choose_encoder(form.value) for form in Form}


def choose_form(accept: str) -> Form:
    """Return the form that the value of an Accept header prefers.

    Each has one version and one escaping, whatever is asked for: no name here needs one, and whoever asks could have
    the text written anew for each of them.
    """
    try:
        content_type = choose_encoder(accept)[1]
    except (TypeError, ValueError):  # the library does not expect a malformed version in `Accept`
        return Form.TEXT
    return Form.OPENMETRICS if content_type.startswith(Form.OPENMETRICS) else Form.TEXT


class Metrics:
    """All metrics of a process, one attribute for each part that counts."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.http = HttpMetrics(self._registry)
        self.files = FileMetrics(self._registry)
        self.operations = OperationMetrics(self._registry)
        self.audit = AuditMetrics(self._registry)
        self.redis = RedisMetrics(self._registry)
        self.periodic = PeriodicMetrics(self._registry)
        self.delivery = DeliveryMetrics(self._registry)
        self._build = Info("acker_build", "The version of the service.", registry=self._registry)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def set_version(self, version: str) -> None:
        """Set the version that the build metric shows."""
        self._build.info({"version": version})

    def snapshot(self) -> bytes:
        """Encode what this process has counted, for `merge_snapshots` in another process."""
        return encode_snapshot(self._registry.collect())

    def write(self, form: Form, stats: StoreStats | None, snapshots: Iterable[bytes] | None = None) -> bytes:
        """Write a scrape.

        ``stats`` None: the store does not answer. ``snapshots`` are those of all processes that serve one address, this
        one included; without any, this process serves alone.
        """
        counted = list(self._registry.collect()) if snapshots is None else merge_snapshots(snapshots)
        encode, _ = _ENCODERS[form]
        return encode(_Scrape(counted, stats))


class _Scrape(Collector):
    """Collects what processes counted and the stats of the store."""

    def __init__(self, counted: Iterable[Metric], stats: StoreStats | None) -> None:
        self._counted = counted
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        """Yield what the processes counted, then the metrics of the store."""
        for metric in self._counted:
            if metric.name == LIMIT and self._stats is not None:
                metric.add_sample(LIMIT, {"limit": STORE_BYTES}, self._stats.max_bytes)
            yield metric
        yield from families(self._stats)
