"""Names the metrics of what this process delivers."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from acker_service.telemetry.instruments import LATENCIES, Bound


class DeliveryMeters:
    """Counts posts to webhooks, and messages that were published."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.posts = Bound(
            Counter(
                "acker_webhook_posts",
                "Posts to webhooks, by what became of them: done, part (some are asked for again), retry, wait (the "
                "receiver said for how long), off (it said 410).",
                ["topology", "fate"],
                registry=registry,
            )
        )
        self.messages = Bound(
            Counter("acker_messages_published", "Messages published in Redis.", ["topology"], registry=registry)
        )
        self.post_seconds = Bound(
            Histogram(
                "acker_webhook_post_seconds",
                "Time of a post to a webhook.",
                ["topology"],
                buckets=LATENCIES,
                registry=registry,
            )
        )
