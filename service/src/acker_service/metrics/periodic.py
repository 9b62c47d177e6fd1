"""Names the metrics of what goes on by itself: the tick, and the looking after spout tasks."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from acker_service.metrics.instruments import LATENCY_BUCKETS, LabelledMetric


class PeriodicMetrics:
    """Counts the visits of topologies."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.runs = LabelledMetric(
            Counter(
                "acker_visits",
                "Visits of a topology by the tick, by idling (which looks after spout tasks) or by couriers (after "
                "callbacks): done, waiting for something that is away, or failed.",
                ["rounds", "result"],
                registry=registry,
            )
        )
        self.run_seconds = LabelledMetric(
            Histogram("acker_visit_seconds", "Time of a visit.", ["rounds"], buckets=LATENCY_BUCKETS, registry=registry)
        )
        self.loop_lag = Histogram(
            "acker_event_loop_lag_seconds",
            "How much later than asked for the event loop woke the tick or idling.",
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
