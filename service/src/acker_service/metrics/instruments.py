"""Defines the metrics that this process counts: HTTP, files, operations, calls to Redis, periodic tasks, deliveries."""

import contextlib
import time
from collections.abc import Iterator
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.metrics import MetricWrapperBase

LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.025, 0.1, 0.5, 2.5, 30.0)
"""The bounds of the buckets of requests and posts, in seconds: few, because each bound is a series of every label."""

INTERNAL_BUCKETS = (0.001, 0.005, 0.025, 0.1, 1.0, 10.0)
"""Those of round trips, periodic tasks and the event loop: an idle process has series of them too."""

FUNCTION_PREFIX: Final = "acker_"
COMMAND: Final = "command"
"""The label of the round trips of all plain commands of Redis; those of the library's functions have their names."""

IN_FLIGHT: Final = "in_flight"
WAITING: Final = "waiting"
BODY_BYTES: Final = "body_bytes"
ANSWER_BYTES: Final = "answer_bytes"
CONNECTIONS: Final = "connections"
MAILBOX: Final = "mailbox"
SPOUTS: Final = "spouts"
EARLY: Final = "early"
EARLY_BYTES: Final = "early_bytes"
REMEMBERED_BYTES: Final = "remembered_bytes"
STORE_BYTES: Final = "store_bytes"

HANDSHAKE: Final = "tls"
"""The code of a handshake that failed, among the refused heads."""

LIMITS_OF_A_TOPOLOGY = frozenset({MAILBOX, SPOUTS, EARLY, EARLY_BYTES, REMEMBERED_BYTES})
"""Limits that all processes share; the others are of one process, and those of several processes add up."""

M = TypeVar("M", bound=MetricWrapperBase)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a creation time for each series would double their number


class LabelledMetric(dict[str | tuple[str, ...], M]):
    """Caches the children of a labelled metric: ``metric["label"]``, or ``metric["one", "two"]`` for several labels.

    Creating a child costs microseconds, a lookup a tenth of one. The children named ``preset`` exist from the start,
    at zero.
    """

    def __init__(self, metric: M, *preset: str) -> None:
        super().__init__()
        self._metric = metric
        for label in preset:
            self[label]

    def __missing__(self, labels: str | tuple[str, ...]) -> M:
        """Create the child."""
        values = labels if isinstance(labels, tuple) else (labels,)
        child = self[labels] = self._metric.labels(*values)
        return child


class _Definitions:
    """Creates metrics in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def gauge(self, name: str, help_: str) -> Gauge:
        return Gauge(name, help_, registry=self._registry)

    def gauges(self, name: str, help_: str, *labels: str) -> LabelledMetric[Gauge]:
        return LabelledMetric(Gauge(name, help_, labels, registry=self._registry))

    def counter(self, name: str, help_: str) -> Counter:
        return Counter(name, help_, registry=self._registry)

    def counters(self, name: str, help_: str, *labels: str, preset: tuple[str, ...] = ()) -> LabelledMetric[Counter]:
        return LabelledMetric(Counter(name, help_, labels, registry=self._registry), *preset)

    def latency(self, name: str, help_: str) -> Histogram:
        return Histogram(name, help_, buckets=INTERNAL_BUCKETS, registry=self._registry)

    def latencies(
        self, name: str, help_: str, *labels: str, buckets: tuple[float, ...] = LATENCY_BUCKETS
    ) -> LabelledMetric[Histogram]:
        return LabelledMetric(Histogram(name, help_, labels, buckets=buckets, registry=self._registry))


class HttpMetrics:
    """Counts requests, connections and refusals. A route is a template, a method one of HTTP's or ``other``.

    ``overloaded_at_ms`` is when a request or connection was refused over a limit last, in Unix milliseconds; None for
    never.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        define = _Definitions(registry)
        self.overloaded_at_ms: int | None = None
        self.requests = define.counters(
            "acker_requests",
            "Requests whose answer began. Route is the template of the address, other where there is none.",
            *("route", "method", "status"),
        )
        self.request_seconds = define.latencies(
            "acker_request_seconds",
            "Time from the head of a request to the beginning of its answer; long polls wait on purpose.",
            *("route", "method"),
        )
        self.in_flight = define.gauge("acker_requests_in_flight", "Requests in flight now.")
        self.waiting = define.gauge("acker_requests_waiting", "Requests that wait now: long polls and event streams.")
        self.body_bytes = define.gauge("acker_body_bytes", "Bytes of bodies of requests in flight.")
        self.event_streams = define.gauge("acker_event_streams", "Streams of events open now.")
        self.connections = define.gauge("acker_connections", "Connections open now.")
        self.limits = define.gauges(
            "acker_limit",
            "Limits: of this process, of a topology (mailbox: of each spout task), and of the store's memory.",
            "limit",
        )
        self.overloaded = define.counters(
            "acker_overloaded",
            "Requests and connections refused over a limit, by the limit.",
            "reason",
            preset=(IN_FLIGHT, WAITING, BODY_BYTES, ANSWER_BYTES, CONNECTIONS),
        )
        self.rate_limited = define.counters(
            "acker_rate_limited", "Requests refused because their key sends more than its rate, by its name.", "key"
        )
        self.problems = define.counters(
            "acker_problems",
            "Problem documents answered, by their code.",
            "code",
            preset=("unauthorized", "forbidden", "overloaded", "store_unavailable"),
        )
        self.heads_refused = define.counters(
            "acker_heads_refused",
            "Requests refused before there was a route: too_large, invalid (no HTTP), or tls (no handshake).",
            "code",
            preset=("too_large", "invalid"),
        )

    def count_overloaded(self, reason: str) -> None:
        """Count what was refused over a limit, and note when."""
        self.overloaded[reason].inc()
        self.overloaded_at_ms = int(time.time() * 1_000)

    def load(self) -> dict[str, int]:
        """Return what is used now of each limit on the load, and the limits (``NAME_limit``)."""
        used = {
            IN_FLIGHT: self.in_flight,
            BODY_BYTES: self.body_bytes,
            WAITING: self.waiting,
            CONNECTIONS: self.connections,
        }
        limits = {f"{name}_limit": _value(self.limits[name]) for name in used}
        return {name: _value(gauge) for name, gauge in used.items()} | limits


def _value(gauge: Gauge) -> int:
    [metric] = gauge.collect()
    [sample] = metric.samples
    return int(sample.value)


class FileMetrics:
    """Shows whether the files that are read again whenever they change can be used."""

    def __init__(self, registry: CollectorRegistry) -> None:
        define = _Definitions(registry)
        self.keys_file_valid = define.gauge(
            "acker_keys_file_valid", "1, or 0 while the keys file cannot be read and the keys read before stay valid."
        )
        self.keys_file_valid.set(1)
        self.certificate_valid = define.gauge(
            "acker_certificate_valid",
            "1, or 0 while the TLS certificate or key cannot be used and the certificate read before is shown.",
        )
        self.certificate_valid.set(1)
        self.certificate_expires = define.gauge(
            "acker_certificate_expiration_timestamp_seconds",
            "When the TLS certificate expires that new connections are shown, in Unix time; 0 without TLS.",
        )


class OperationMetrics:
    """Counts the operations that the store applied for this process; other replicas count their own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        define = _Definitions(registry)
        self.operations = define.counters(
            "acker_operations",
            "Operations that the store applied or refused for this process, by the resulting state. "
            "Repeats of a request applied before are not in it.",
            *("topology", "operation", "state"),
        )
        self.repeated = define.counters(
            "acker_operations_repeated",
            "Operations of requests repeated with the same Idempotency-Key, which the store did not apply again.",
            *("topology", "operation"),
        )
        self.tick_ended = define.counters(
            "acker_tick_roots_ended",
            "Roots that ticks of this process ended: timed out, or dropped because they were early for too long.",
            "topology",
        )
        self.completions_read = define.counters(
            "acker_completions_read",
            "Completions given to readers; one that is read again before it is released counts again.",
            "topology",
        )
        self.completions_released = define.counters(
            "acker_completions_released", "Completions released by their readers.", "topology"
        )
        self.completions_discarded = define.counters(
            "acker_completions_discarded",
            "Unread completions thrown away: by a discard, with a spout task, or with a topology.",
            *("topology", "by"),
        )
        self.spouts_removed = define.counters(
            "acker_spout_tasks_removed",
            "Spout tasks removed: idle or discard by a call, unused an ephemeral one, taken_over a removal that "
            "another process began.",
            *("topology", "why"),
        )
        self.topologies_removed = define.counter("acker_topologies_removed", "Topologies removed.")
        self.hints = define.counter(
            "acker_hints", "Notifications of new completions in a mailbox, received from Redis."
        )
        self.hints_missed = define.counter(
            "acker_hints_missed", "Mailboxes in which a poll found completions before a notification came."
        )
        self.sweeps = define.counter("acker_hint_sweeps", "Polls of all mailboxes that a reader waits for.")


class AuditMetrics:
    """Counts what operators force or discard."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.acts = _Definitions(registry).counters(
            "acker_audit", "Requests that forced or discarded something, by what they did.", "act"
        )


class RedisMetrics:
    """Counts calls to Redis: library functions by their names but for those of monitoring, plain commands by theirs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        define = _Definitions(registry)
        self.calls = define.counters(
            "acker_store_calls", "Functions and commands sent to Redis; several may share a round trip.", "call"
        )
        self.round_trip_seconds = define.latencies(
            "acker_store_round_trip_seconds",
            "Time of a round trip to Redis, with the wait for a connection; those of plain commands and of monitoring "
            "are one.",
            "call",
            buckets=INTERNAL_BUCKETS,
        )
        self.faults = define.counters(
            "acker_store_faults",
            "Calls that failed: no_memory, timeout, connection, unconfirmed (by replicas), moving (a cluster's slot), "
            "error (Redis said so).",
            "kind",
            preset=("no_memory", "timeout", "connection", "unconfirmed", "moving", "error"),
        )
        self.stale = define.counter(
            "acker_store_stale", "Calls that a shard refused because the topology was changed; they are made again."
        )
        self.moves = define.counter(
            "acker_store_moves", "Times a server refused a call that another server now serves; it is sent there."
        )
        self.library_loads = define.counter(
            "acker_store_library_loads", "Times the library was missing in Redis and was loaded again."
        )

    @contextlib.contextmanager
    def round_trip(self, call: str, count: int) -> Iterator[None]:
        """Count a round trip that carries ``count`` calls, whether it succeeds or fails."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.count_round_trip(call, count, started)

    def count_round_trip(self, call: str, count: int, started: float) -> None:
        """Count a round trip that has ended; ``started`` is the time of `time.perf_counter` at which it was sent."""
        self.calls[call].inc(count)
        is_function = call.startswith(FUNCTION_PREFIX)
        self.round_trip_seconds[call if is_function else COMMAND].observe(time.perf_counter() - started)


class PeriodicMetrics:
    """Counts the runs of periodic tasks, one run per topology. Label ``rounds``: tick, delivery, spout_expiry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        define = _Definitions(registry)
        self.runs = define.counters(
            "acker_visits",
            "Visits of a topology by the tick, by spout_expiry (unused spout tasks) or by delivery (callbacks): done, "
            "waiting for something that is away, or failed.",
            *("rounds", "result"),
        )
        self.run_seconds = define.latencies(
            "acker_visit_seconds", "Time of a visit.", "rounds", buckets=INTERNAL_BUCKETS
        )
        self.loop_lag = define.latency(
            "acker_event_loop_lag_seconds",
            "How much later than scheduled the event loop woke a periodic task.",
        )


class DeliveryMetrics:
    """Counts posts to webhooks, and published messages."""

    def __init__(self, registry: CollectorRegistry) -> None:
        define = _Definitions(registry)
        self.posts = define.counters(
            "acker_webhook_posts",
            "Posts to webhooks, by result: done, part (some are asked for again), retry, wait (the receiver said for "
            "how long), off (it said 410).",
            *("topology", "fate"),
        )
        self.messages = define.counters("acker_messages_published", "Messages published in Redis.", "topology")
        self.post_seconds = define.latencies("acker_webhook_post_seconds", "Time of a post to a webhook.", "topology")
