"""Names the metrics of the door in: requests, connections, and what is refused."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from acker_service.metrics.instruments import LATENCY_BUCKETS, LabelledMetric

IN_FLIGHT: Final = "in_flight"
WAITING: Final = "waiting"
BODY_BYTES: Final = "body_bytes"
CONNECTIONS: Final = "connections"


class HttpMetrics:
    """Counts what comes in. No caller spells a label: a route is a template, a method one of HTTP's or `other`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = LabelledMetric(
            Counter(
                "acker_requests",
                "Requests whose answer began. Route is the template of the address, other where there is none.",
                ["route", "method", "status"],
                registry=registry,
            )
        )
        self.request_seconds = LabelledMetric(
            Histogram(
                "acker_request_seconds",
                "Time from the head of a request to the beginning of its answer; long polls wait on purpose.",
                ["route", "method"],
                buckets=LATENCY_BUCKETS,
                registry=registry,
            )
        )
        self.in_flight = Gauge("acker_requests_in_flight", "Requests worked on now.", registry=registry)
        self.waiting = Gauge(
            "acker_requests_waiting",
            "Requests that wait for news now: long polls and event streams.",
            registry=registry,
        )
        self.body_bytes = Gauge("acker_body_bytes", "Bytes of bodies of requests in flight.", registry=registry)
        self.event_streams = Gauge("acker_event_streams", "Streams of events open now.", registry=registry)
        self.connections = Gauge("acker_connections", "Connections open now.", registry=registry)
        self.overloaded = LabelledMetric(
            Counter(
                "acker_overloaded",
                "Refusals for want of a place, by what there was too much of.",
                ["reason"],
                registry=registry,
            ),
            *(IN_FLIGHT, WAITING, BODY_BYTES, CONNECTIONS),
        )
        self.problems = LabelledMetric(
            Counter("acker_problems", "Problem documents answered, by their code.", ["code"], registry=registry),
            *("unauthorized", "forbidden", "overloaded", "store_unavailable"),
        )
        self.heads_refused = LabelledMetric(
            Counter(
                "acker_heads_refused",
                "Requests refused for their head, before there was a route: too_large, or invalid where it is no HTTP.",
                ["code"],
                registry=registry,
            ),
            *("too_large", "invalid"),
        )
