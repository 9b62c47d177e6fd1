"""Names the metrics of what this process delivers."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from acker_service.metrics.instruments import LATENCY_BUCKETS, LabelledMetric


class DeliveryMetrics:
    """Counts posts to webhooks, and messages that were published."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.posts = LabelledMetric(
            Counter(
                "acker_webhook_posts",
                "Posts to webhooks, by what became of them: done, part (some are asked for again), retry, wait (the "
                "receiver said for how long), off (it said 410).",
                ["topology", "fate"],
                registry=registry,
            )
        )
        self.messages = LabelledMetric(
            Counter("acker_messages_published", "Messages published in Redis.", ["topology"], registry=registry)
        )
        self.post_seconds = LabelledMetric(
            Histogram(
                "acker_webhook_post_seconds",
                "Time of a post to a webhook.",
                ["topology"],
                buckets=LATENCY_BUCKETS,
                registry=registry,
            )
        )
