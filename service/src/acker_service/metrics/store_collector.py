"""Names the metrics of what the store holds: the same whichever replica tells them, so not to be added up."""

from collections.abc import Iterator
from itertools import accumulate

from acker_protocol.operations import Outcome
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from acker_service.metrics.stats import EXPONENTS, LatencyHistogram, StoreStats, TopologyStats


def families(standing: StoreStats | None) -> Iterator[Metric]:
    """Give the metrics of how the store stands; of one that is away (None) only that it is."""
    up = "Whether Redis answered lately; while it is 0 the metrics that are read from it are missing."
    yield GaugeMetricFamily("acker_store_up", up, value=int(standing is not None))
    if standing is not None:
        yield from _memory(standing)
        yield from _left(standing)
        yield from _ended(standing)
        yield from _backlogs(standing)


def _memory(standing: StoreStats) -> Iterator[Metric]:
    full = "Whether this process takes no inits, for want of memory in the store or because that is unfit."
    yield GaugeMetricFamily("acker_store_full", full, value=int(standing.is_full))
    yield GaugeMetricFamily(
        "acker_store_used_bytes", "Memory that Redis uses; of several servers the fullest.", value=standing.used_bytes
    )
    ticked = "Whether a worker let time pass in the last ten seconds: without one nothing times out or is delivered."
    yield GaugeMetricFamily("acker_store_ticked", ticked, value=int(standing.worker_seen))
    most = "Memory that this server may use (maxmemory); 0: no bound."
    yield GaugeMetricFamily("acker_store_max_bytes", most, value=standing.max_bytes)


def _left(standing: StoreStats) -> Iterator[Metric]:
    pending = GaugeMetricFamily("acker_roots_pending", "Roots pending.", labels=["topology"])
    unread = GaugeMetricFamily("acker_completions_unread", "Completions not yet released.", labels=["topology"])
    dead = GaugeMetricFamily("acker_dead_letters", "Completions that could not be delivered.", labels=["topology"])
    for name, topology in standing.topologies.items():
        pending.add_metric([name], topology.pending)
        unread.add_metric([name], topology.unread)
        dead.add_metric([name], topology.dead_letters)
    yield pending
    yield unread
    yield dead


def _ended(standing: StoreStats) -> Iterator[Metric]:
    told = "Completions since the topology was made, by outcome; counted where the root ends, over all replicas."
    ended = CounterMetricFamily("acker_completions", told, labels=["topology", "outcome"])
    for name, topology in standing.topologies.items():
        for outcome in Outcome:
            ended.add_metric([name, outcome.value], topology.totals[outcome.value])
    yield ended
    yield _deliveries(standing)
    yield _latencies(standing)
    yield _total(standing, "acker_early_roots_dropped", "dropped", "Early roots dropped because no init came.")
    unbalanced = "Times an ack val was zero with edges outstanding: somebody uses ids that are not random."
    yield _total(standing, "acker_unbalanced", "unbalanced", unbalanced)


def _backlogs(standing: StoreStats) -> Iterator[Metric]:
    """Tell of each spout task with a callback; what is paused or off is not on, so that nobody scales for it."""
    labels = ["topology", "spout_task"]
    waiting = GaugeMetricFamily("acker_callback_unread", "Completions that wait to be delivered.", labels=labels)
    age = GaugeMetricFamily("acker_callback_age_seconds", "How long the oldest of them has waited.", labels=labels)
    on = GaugeMetricFamily("acker_callback_on", "Whether the callback is on: neither paused nor off.", labels=labels)
    for name, topology in standing.topologies.items():
        for spout_task, backlog in topology.backlogs.items():
            waiting.add_metric([name, spout_task], backlog.unread)
            age.add_metric([name, spout_task], backlog.age_ms / 1_000)
            on.add_metric([name, spout_task], int(backlog.is_on))
    yield from (waiting, age, on)


def _deliveries(standing: StoreStats) -> Metric:
    told = (
        "Completions by what became of them: delivered to a webhook, retried (each time), published, dead (moved to "
        "the dead letters), discarded; counted in the step in which it happens, over all replicas."
    )
    family = CounterMetricFamily("acker_deliveries", told, labels=["topology", "result"])
    for name, topology in standing.topologies.items():
        for result, total in topology.deliveries.items():
            family.add_metric([name, result], total)
    return family


def _latencies(standing: StoreStats) -> Metric:
    told = "Complete latency, from a root's first message to its end: of the completions that acker_completions counts."
    family = HistogramMetricFamily("acker_complete_latency_seconds", told, labels=["topology", "outcome"])
    for name, topology in standing.topologies.items():
        for outcome, latencies in topology.latencies.items():
            family.add_metric([name, outcome], _buckets(latencies), latencies.sum_ms / 1_000)
    return family


def _buckets(latencies: LatencyHistogram) -> list[tuple[str, float]]:
    """Write the counts as Prometheus does: each bucket holds those before it."""
    counts = list(accumulate(latencies.counts.get(exponent, 0) for exponent in EXPONENTS))
    bounds = [str(2**exponent / 1_000) for exponent in EXPONENTS]
    return [*zip(bounds, counts, strict=True), ("+Inf", sum(latencies.counts.values()))]


def _total(standing: StoreStats, name: str, total: str, told: str) -> Metric:
    family = CounterMetricFamily(name, told, labels=["topology"])
    for topology, values in standing.topologies.items():
        family.add_metric([topology], _value(values, total))
    return family


def _value(topology: TopologyStats, total: str) -> int:
    return topology.totals[total]
