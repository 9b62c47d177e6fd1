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
class TopologyAges:
    """The times of the oldest in a topology, in Unix milliseconds (None: there is none), by Redis's clock ``now_ms``.

    ``pending_ms`` is the start of the oldest pending root, ``unread_ms`` when the oldest unread completion was written,
    ``unread_pull_ms`` that of spout tasks without a callback. ``delays`` are histograms: late, of timeouts after
    their deadline, and release, of completions from their end to their release. ``backlogs`` are by spout task with a
    callback.
    """

    now_ms: int
    pending_ms: int | None = None
    unread_ms: int | None = None
    unread_pull_ms: int | None = None
    delays: Mapping[str, LatencyHistogram] = field(default_factory=dict)
    backlogs: Mapping[str, CallbackBacklog] = field(default_factory=dict)

    def age_s(self, moment_ms: int | None) -> float:
        """Return the age of a moment in seconds; 0 if there is none."""
        return 0.0 if moment_ms is None else max(0, self.now_ms - moment_ms) / 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyStats:
    """Statistics of a topology over all replicas, since it was created.

    ``early`` are roots without their init yet, ``early_bytes`` what they take, ``remembered_bytes`` what ended edges
    and requests take that are remembered, ``totals`` by name, ``deliveries`` by what became of the completions,
    ``failures`` by outcome and component, ``latencies`` by outcome; ``fullest_mailbox``
    is the number of completions and dead letters of the spout task that has most.
    """

    pending: int
    unread: int
    dead_letters: int
    totals: Mapping[str, int]
    deliveries: Mapping[str, int]
    latencies: Mapping[str, LatencyHistogram]
    ages: TopologyAges | None = None
    early: int = 0
    early_bytes: int = 0
    remembered_bytes: int = 0
    fullest_mailbox: int = 0
    failures: Mapping[tuple[str, str], int] = field(default_factory=dict)


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
    """Yield the metrics of the store; if it does not answer (None), only that it is down."""
    up = "Whether Redis answered lately; while it is 0 the metrics that are read from it are missing."
    yield GaugeMetricFamily("acker_store_up", up, value=int(stats is not None))
    if stats is not None:
        yield from _memory(stats)
        yield from _remaining(stats)
        yield from _ages(stats)
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
    taken = (
        "Bytes that roots take whose init has not come yet: acks and fails of unknown roots are refused at the limit."
    )
    early_bytes = GaugeMetricFamily("acker_roots_early_bytes", taken, labels=["topology"])
    known = "Bytes of ended edges and requests that are remembered, if each shard had as many as the fullest."
    remembered = GaugeMetricFamily("acker_remembered_bytes", known, labels=["topology"])
    unread = GaugeMetricFamily("acker_completions_unread", "Completions not yet released.", labels=["topology"])
    dead = GaugeMetricFamily("acker_dead_letters", "Completions that could not be delivered.", labels=["topology"])
    for name, topology in stats.topologies.items():
        pending.add_metric([name], topology.pending)
        early.add_metric([name], topology.early)
        early_bytes.add_metric([name], topology.early_bytes)
        remembered.add_metric([name], topology.remembered_bytes)
        unread.add_metric([name], topology.unread)
        dead.add_metric([name], topology.dead_letters)
    yield pending
    yield early
    yield early_bytes
    yield remembered
    yield unread
    yield dead


def _ages(stats: StoreStats) -> Iterator[Metric]:
    help_ = "Age of the oldest pending root, from its first message; 0 without any."
    pending = GaugeMetricFamily("acker_oldest_pending_seconds", help_, labels=["topology"])
    help_ = "Age of the oldest unread completion, of all spout tasks; 0 without any."
    unread = GaugeMetricFamily("acker_oldest_unread_seconds", help_, labels=["topology"])
    help_ = "Age of the oldest unread completion of the spout tasks without a callback; 0 without any."
    pulled = GaugeMetricFamily("acker_oldest_unread_pull_seconds", help_, labels=["topology"])
    help_ = "Completions and dead letters of the spout task that has most: inits are refused at the limit mailbox."
    fullest = GaugeMetricFamily("acker_fullest_mailbox", help_, labels=["topology"])
    for name, topology in stats.topologies.items():
        fullest.add_metric([name], topology.fullest_mailbox)
        if ages := topology.ages:
            pending.add_metric([name], ages.age_s(ages.pending_ms))
            unread.add_metric([name], ages.age_s(ages.unread_ms))
            pulled.add_metric([name], ages.age_s(ages.unread_pull_ms))
    yield from (pending, unread, pulled, fullest)


def _ended(stats: StoreStats) -> Iterator[Metric]:
    help_ = "Completions since the topology was created, by outcome; counted when the root ends, over all replicas."
    ended = CounterMetricFamily("acker_completions", help_, labels=["topology", "outcome"])
    for name, topology in stats.topologies.items():
        for outcome in Outcome:
            ended.add_metric([name, outcome.value], topology.totals[outcome.value])
    yield ended
    yield _failures(stats)
    yield _deliveries(stats)
    yield _latencies(stats)
    late = "How long after its deadline a root timed out, as a worker's tick found it."
    yield _delays(stats, "acker_timeout_lateness_seconds", "late", late)
    release = "Time from a root's end to the release or delivery of its completion."
    yield _delays(stats, "acker_release_delay_seconds", "release", release)
    yield _total(stats, "acker_early_roots_dropped", "dropped", "Early roots dropped because no init came.")
    unbalanced = "Times an ack val was zero with edges outstanding: acked more often than sent, or ids are not random."
    yield _total(stats, "acker_unbalanced", "unbalanced", unbalanced)


def _backlogs(stats: StoreStats) -> Iterator[Metric]:
    """Yield the backlog of each spout task with a callback; one that is paused or off scales no worker."""
    labels = ["topology", "spout_task"]
    waiting = GaugeMetricFamily("acker_callback_unread", "Completions that wait to be delivered.", labels=labels)
    age = GaugeMetricFamily("acker_callback_age_seconds", "How long the oldest of them has waited.", labels=labels)
    on = GaugeMetricFamily("acker_callback_on", "Whether the callback is on: neither paused nor off.", labels=labels)
    for name, topology in stats.topologies.items():
        for spout_task, backlog in topology.ages.backlogs.items() if topology.ages else ():
            waiting.add_metric([name, spout_task], backlog.unread)
            age.add_metric([name, spout_task], backlog.age_ms / 1_000)
            on.add_metric([name, spout_task], int(backlog.is_on))
    yield from (waiting, age, on)


def _failures(stats: StoreStats) -> Metric:
    help_ = (
        "Roots that failed or timed out, by the component that failed or, of a timeout, that acked last (empty: none "
        "is known); the first 50 components of a topology by name, others as other."
    )
    family = CounterMetricFamily("acker_failures", help_, labels=["topology", "outcome", "component"])
    for name, topology in stats.topologies.items():
        for (outcome, component), total in sorted(topology.failures.items()):
            family.add_metric([name, outcome, component], total)
    return family


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
            if latencies.counts:
                family.add_metric([name, outcome], _buckets(latencies), latencies.sum_ms / 1_000)
    return family


def _delays(stats: StoreStats, name: str, delay: str, help_: str) -> Metric:
    """Show a delay with every second bound that Redis counts."""
    family = HistogramMetricFamily(name, help_, labels=["topology"])
    for topology, values in stats.topologies.items():
        found = values.ages.delays.get(delay) if values.ages else None
        if found is not None and found.counts:
            family.add_metric([topology], _buckets(found, step=2), found.sum_ms / 1_000)
    return family


def _buckets(latencies: LatencyHistogram, *, step: int = 1) -> list[tuple[str, float]]:
    """Accumulate the counts, as Prometheus expects: each bucket includes those below it."""
    counts = list(accumulate(latencies.counts.get(exponent, 0) for exponent in EXPONENTS))
    bounds = [str(2**exponent / 1_000) for exponent in EXPONENTS]
    return [*zip(bounds[::step], counts[::step], strict=True), ("+Inf", sum(latencies.counts.values()))]


def _total(stats: StoreStats, name: str, total: str, help_: str) -> Metric:
    family = CounterMetricFamily(name, help_, labels=["topology"])
    for topology, values in stats.topologies.items():
        family.add_metric([topology], values.totals[total])
    return family
