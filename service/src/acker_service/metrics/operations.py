"""Names the metrics of the work done in the store: operations, completions, removals, news."""

from prometheus_client import CollectorRegistry, Counter

from acker_service.metrics.instruments import LabelledMetric


class OperationMetrics:
    """Counts what this process had the store do, by what the store answered. What other replicas do is not in it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.operations = LabelledMetric(
            Counter(
                "acker_operations",
                "Operations that the store applied or refused for this process, by the word that answered them. "
                "Repeats of a request applied before are not in it.",
                ["topology", "operation", "state"],
                registry=registry,
            )
        )
        self.repeated = LabelledMetric(
            Counter(
                "acker_operations_repeated",
                "Operations of requests that the store knew by their Idempotency-Key and did not apply again.",
                ["topology", "operation"],
                registry=registry,
            )
        )
        self.tick_ended = LabelledMetric(
            Counter(
                "acker_tick_roots_ended",
                "Roots that ticks of this process ended: timed out, or dropped because they were early for too long.",
                ["topology"],
                registry=registry,
            )
        )
        self.completions_read = LabelledMetric(
            Counter(
                "acker_completions_read",
                "Completions given to readers; one that is read again before it is released counts again.",
                ["topology"],
                registry=registry,
            )
        )
        self.completions_released = LabelledMetric(
            Counter(
                "acker_completions_released", "Completions released by their readers.", ["topology"], registry=registry
            )
        )
        self.completions_discarded = LabelledMetric(
            Counter(
                "acker_completions_discarded",
                "Unread completions thrown away: by a discard, with a spout task, or with a topology.",
                ["topology", "by"],
                registry=registry,
            )
        )
        self.spouts_removed = LabelledMetric(
            Counter(
                "acker_spout_tasks_removed",
                "Spout tasks removed: idle or discard by a call, unused an ephemeral one, taken_over a removal that "
                "somebody else began.",
                ["topology", "why"],
                registry=registry,
            )
        )
        self.topologies_removed = Counter("acker_topologies_removed", "Topologies removed.", registry=registry)
        self.hints = Counter("acker_hints", "Hints of news in a mailbox that came in.", registry=registry)
        self.hints_missed = Counter(
            "acker_hints_missed", "Mailboxes in which a sweep found news before a hint told of it.", registry=registry
        )
        self.sweeps = Counter("acker_hint_sweeps", "Looks at all mailboxes that are waited for.", registry=registry)
