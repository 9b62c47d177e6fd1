"""Snapshots of the metrics of one process, and their sums over the processes that serve one address.

prometheus_client's own multiprocess mode has no custom collectors and no gauges with a function, writes each increment
to a file, and keeps a file for each process that ever ran. Here a process counts in memory, and is asked at a scrape.
"""

from collections.abc import Callable, Iterable
from functools import cache

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric

from acker_service.metrics.instruments import LIMITS_OF_A_TOPOLOGY

Labels = dict[str, str]
Series = tuple[str, tuple[tuple[str, str], ...]]
Merge = Callable[[float, float], float]

COUNTED = frozenset({"counter", "histogram"})
"""The types whose values outlive the process that counted them."""

LEAST = frozenset(
    {
        "process_start_time_seconds",
        "acker_keys_file_valid",
        "acker_certificate_valid",
        "acker_certificate_expiration_timestamp_seconds",
    }
)
"""The metrics that show the least value of all processes."""


class Family(msgspec.Struct, frozen=True, array_like=True):
    """A metric of one process: its samples by name and labels."""

    name: str
    documentation: str
    kind: str
    samples: list[tuple[str, Labels, float]]


_decoder = msgspec.msgpack.Decoder(list[Family])


def encode_snapshot(metrics: Iterable[Metric]) -> bytes:
    """Encode metrics with their values as of now."""
    return msgspec.msgpack.encode(
        [
            Family(
                metric.name,
                metric.documentation,
                metric.type,
                [(sample.name, sample.labels, sample.value) for sample in metric.samples],
            )
            for metric in metrics
        ]
    )


def merge_snapshots(snapshots: Iterable[bytes]) -> list[Metric]:
    """Add the snapshots of several processes up; each family and each series stays where it is seen first.

    What is a property of the program and no amount, such as its version, is not added.
    """
    metrics: dict[str, Metric] = {}
    values: dict[str, dict[Series, float]] = {}
    for snapshot in snapshots:
        for family in _decoder.decode(snapshot):
            metrics.setdefault(family.name, Metric(family.name, family.documentation, family.kind))
            merged = values.setdefault(family.name, {})
            for name, labels, value in family.samples:
                series, merge = (name, tuple(labels.items())), _merge_of(family, labels)
                merged[series] = merge(merged[series], value) if series in merged else value
    for family_name, metric in metrics.items():
        for (name, items), value in values[family_name].items():
            metric.add_sample(name, dict(items), value)
    return list(metrics.values())


def retain_counts(*snapshots: bytes) -> bytes:
    """Add up what ended processes counted, so that no sum falls when their successors begin at zero."""
    return encode_snapshot(metric for metric in merge_snapshots(snapshots) if metric.type in COUNTED)


@cache
def _own_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry


def process_snapshot() -> bytes:
    """Encode the resources that this process uses, for one that counts nothing else."""
    return encode_snapshot(_own_registry().collect())


def _add(one: float, other: float) -> float:
    return one + other


def _merge_of(family: Family, labels: Labels) -> Merge:
    if family.kind == "info" or family.name == "python_info":
        return max
    if family.name == "acker_limit" and labels["limit"] in LIMITS_OF_A_TOPOLOGY:
        return max
    return min if family.name in LEAST else _add
