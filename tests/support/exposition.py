"""Reads what /metrics tells."""

from dataclasses import dataclass

import httpx
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Exposition:
    """One scrape."""

    families: dict[str, Metric]

    def value(self, sample: str, **labels: str) -> float | None:
        """Return the value of a sample by its name and all of its labels; None if it is not told."""
        return self.values(sample).get(frozenset(labels.items()))

    def values(self, sample: str) -> dict[frozenset[tuple[str, str]], float]:
        """Return all values of a sample, by their labels."""
        found = (told for family in self.families.values() for told in family.samples if told.name == sample)
        return {frozenset(told.labels.items()): told.value for told in found}

    def rows(self, sample: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Return all values of a sample that are not zero, by the values of these labels."""
        named = ((dict(key), value) for key, value in self.values(sample).items())
        return {tuple(key[label] for label in labels): value for key, value in named if value}


def read(text: str) -> Exposition:
    """Read the text format."""
    return Exposition({family.name: family for family in text_string_to_metric_families(text)})


async def scrape(http: httpx.AsyncClient) -> Exposition:
    """Ask for the metrics."""
    answer = await http.get("/metrics")
    assert answer.status_code == 200, answer.text
    return read(answer.text)
