"""Knows the instruments that metrics are counted with: those with labels are bound to each set of labels once."""

from typing import TypeVar

from prometheus_client import disable_created_metrics
from prometheus_client.metrics import MetricWrapperBase

LATENCY_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The bounds of the buckets of a histogram of latencies, in seconds."""

M = TypeVar("M", bound=MetricWrapperBase)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, which tells when it began and nobody asks


class LabelledMetric(dict[str | tuple[str, ...], M]):
    """A metric with labels: gives its child for some labels, one label as it is, several as a tuple.

    Binding a child costs microseconds, finding it again a tenth of one. Those named ``first`` are there from the
    beginning, at zero.
    """

    def __init__(self, metric: M, *first: str) -> None:
        super().__init__()
        self._metric = metric
        for labels in first:
            self[labels]

    def __missing__(self, labels: str | tuple[str, ...]) -> M:
        """Bind a child."""
        names = labels if isinstance(labels, tuple) else (labels,)
        child = self[labels] = self._metric.labels(*names)
        return child
