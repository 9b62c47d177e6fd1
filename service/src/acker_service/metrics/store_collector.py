"""Statistics of the whole store, and the metrics that show them.

Every replica shows the same values, so they must not be summed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from acker_protocol.operations import Outcome
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

EXPONENTS = range(23)
"""Latencies are counted by powers of two: bucket e holds those of at most 2^e ms; the rest exceed all buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyHistogram:
    """Complete latencies of one outcome: counts by the exponent of their bucket, and their sum."""

    counts: Mapping[int, int]
    sum_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackBacklog:
    """Completions that wait for a spout task's callback: count, age of the oldest, and whether the callback is on."""

    unread: int
    age_ms: int
    is_on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyStats:
    """Statistics of a topology over all replicas, since it was created.

    ``early`` are roots without their init yet, ``totals`` by name, ``deliveries`` by what became of the
    completions, ``latencies`` by outcome, ``backlogs`` by spout task with a callback.
    """

    pending: int
    unread: int
    dead_letters: int
    totals: Mapping[str, int]
    deliveries: Mapping[str, int]
    latencies: Mapping[str, LatencyHistogram]
    backlogs: Mapping[str, CallbackBacklog] = field(default_factory=dict)
    early: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """Statistics of the store: memory in bytes (``max_bytes`` 0: no limit), whether it is full, its topologies.

    ``worker_seen`` is whether a worker ticked in the last ten seconds.
    """

    used_bytes: int
    max_bytes: int
    is_full: bool
    worker_seen: bool
    topologies: Mapping[str, TopologyStats] = field(default_factory=dict)


def families(stats: StoreStats | None) -> Iterator[Metric]:
    """Give the metrics of the store; if it does not answer (None), only that it is down."""
    up = "Whether Redis answered lately; while it is 0 the metrics that are read from it are missing."
    yield GaugeMetricFamily("acker_store_up", up, value=int(stats is not None))
    if stats is not None:
        yield from _memory(stats)
        yield from _remaining(stats)
        yield from _ended(stats)
        yield from _backlogs(stats)


def _memory(stats: StoreStats) -> Iterator[Metric]:
    full = "Whether this process refuses new roots: the store has no memory left, or violates a requirement."
    yield GaugeMetricFamily("acker_store_full", full, value=int(stats.is_full))
    yield GaugeMetricFamily(
        "acker_store_used_bytes", "Memory that Redis uses; of several servers the fullest.", value=stats.used_bytes
    )
    ticked = "Whether a worker ticked in the last ten seconds: without one nothing times out or is delivered."
    yield GaugeMetricFamily("acker_store_ticked", ticked, value=int(stats.worker_seen))
    limit = "Memory that this server may use (maxmemory); 0: no limit."
    yield GaugeMetricFamily("acker_store_max_bytes", limit, value=stats.max_bytes)


def _remaining(stats: StoreStats) -> Iterator[Metric]:
    pending = GaugeMetricFamily("acker_roots_pending", "Roots pending.", labels=["topology"])
    early = GaugeMetricFamily("acker_roots_early", "Roots whose init has not come yet.", labels=["topology"])
    unread = GaugeMetricFamily("acker_completions_unread", "Completions not yet released.", labels=["topology"])
    dead = GaugeMetricFamily("acker_dead_letters", "Completions that could not be delivered.", labels=["topology"])
    for name, topology in stats.topologies.items():
        pending.add_metric([name], topology.pending)
        early.add_metric([name], topology.early)
        unread.add_metric([name], topology.unread)
        dead.add_metric([name], topology.dead_letters)
    yield pending
    yield early
    yield unread
    yield dead


def _ended(stats: StoreStats) -> Iterator[Metric]:
    help_ = "Completions since the topology was created, by outcome; counted when the root ends, over all replicas."
    ended = CounterMetricFamily("acker_completions", help_, labels=["topology", "outcome"])
    for name, topology in stats.topologies.items():
        for outcome in Outcome:
            ended.add_metric([name, outcome.value], topology.totals[outcome.value])
    yield ended
    yield _deliveries(stats)
    yield _latencies(stats)
    yield _total(stats, "acker_early_roots_dropped", "dropped", "Early roots dropped because no init came.")
    unbalanced = "Times an ack val was zero with edges outstanding: a client uses ids that are not random."
    yield _total(stats, "acker_unbalanced", "unbalanced", unbalanced)


def _backlogs(stats: StoreStats) -> Iterator[Metric]:
    """Give the backlog of each spout task with a callback; one that is paused or off scales no worker."""
    labels = ["topology", "spout_task"]
    waiting = GaugeMetricFamily("acker_callback_unread", "Completions that wait to be delivered.", labels=labels)
    age = GaugeMetricFamily("acker_callback_age_seconds", "How long the oldest of them has waited.", labels=labels)
    on = GaugeMetricFamily("acker_callback_on", "Whether the callback is on: neither paused nor off.", labels=labels)
    for name, topology in stats.topologies.items():
        for spout_task, backlog in topology.backlogs.items():
            waiting.add_metric([name, spout_task], backlog.unread)
            age.add_metric([name, spout_task], backlog.age_ms / 1_000)
            on.add_metric([name, spout_task], int(backlog.is_on))
    yield from (waiting, age, on)


def _deliveries(stats: StoreStats) -> Metric:
    help_ = (
        "Completions by what became of them: delivered to a webhook, retried (each time), published, dead (moved to "
        "the dead letters), discarded; counted in the step in which it happens, over all replicas."
    )
    family = CounterMetricFamily("acker_deliveries", help_, labels=["topology", "result"])
    for name, topology in stats.topologies.items():
        for result, total in topology.deliveries.items():
            family.add_metric([name, result], total)
    return family


def _latencies(stats: StoreStats) -> Metric:
    help_ = (
        "Complete latency, from a root's first message to its end: of the completions that acker_completions counts."
    )
    family = HistogramMetricFamily("acker_complete_latency_seconds", help_, labels=["topology", "outcome"])
    for name, topology in stats.topologies.items():
        for outcome, latencies in topology.latencies.items():
            family.add_metric([name, outcome], _buckets(latencies), latencies.sum_ms / 1_000)
    return family


def _buckets(latencies: LatencyHistogram) -> list[tuple[str, float]]:
    """Accumulate the counts, as Prometheus expects: each bucket includes those below it."""
    counts = list(accumulate(latencies.counts.get(exponent, 0) for exponent in EXPONENTS))
    bounds = [str(2**exponent / 1_000) for exponent in EXPONENTS]
    return [*zip(bounds, counts, strict=True), ("+Inf", sum(latencies.counts.values()))]


def _total(stats: StoreStats, name: str, total: str, help_: str) -> Metric:
    family = CounterMetricFamily(name, help_, labels=["topology"])
    for topology, values in stats.topologies.items():
        family.add_metric([topology], values.totals[total])
    return family
