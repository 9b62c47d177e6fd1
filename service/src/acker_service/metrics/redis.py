"""Names the metrics of the calls to Redis."""

import contextlib
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram

from acker_service.metrics.instruments import LATENCY_BUCKETS, LabelledMetric


class RedisMetrics:
    """Counts what is asked of Redis: functions of the library by their names, plain commands by theirs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.calls = LabelledMetric(
            Counter(
                "acker_store_calls",
                "Functions and commands sent to Redis; several may share a round trip.",
                ["call"],
                registry=registry,
            )
        )
        self.round_trip_seconds = LabelledMetric(
            Histogram(
                "acker_store_round_trip_seconds",
                "Time of a round trip to Redis, with the wait for a connection.",
                ["call"],
                buckets=LATENCY_BUCKETS,
                registry=registry,
            )
        )
        self.faults = LabelledMetric(
            Counter(
                "acker_store_faults",
                "Calls that failed: no_memory, timeout, connection, unconfirmed (by replicas), error (Redis said so).",
                ["kind"],
                registry=registry,
            ),
            *("no_memory", "timeout", "connection", "unconfirmed", "error"),
        )
        self.stale = Counter(
            "acker_store_stale",
            "Calls that a shard refused because the topology was changed; they are made again.",
            registry=registry,
        )
        self.moves = Counter(
            "acker_store_moves",
            "Times a server refused what another one has by now; it was looked for, and asked.",
            registry=registry,
        )
        self.library_loads = Counter(
            "acker_store_library_loads",
            "Times Redis had forgotten the library and was given it again.",
            registry=registry,
        )

    @contextlib.contextmanager
    def round_trip(self, call: str, count: int) -> Iterator[None]:
        """Count a round trip that carries so many calls, answered or not."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.calls[call].inc(count)
            self.round_trip_seconds[call].observe(time.perf_counter() - began)
