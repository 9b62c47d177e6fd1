"""A measurement: the values of several rounds, and the ratio of two of them."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Series:
    """The values of the rounds of one measurement, in their order."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> "Series":
        """Make one of any values."""
        return cls(tuple(values))

    @property
    def median(self) -> float:
        """The value in the middle."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The smallest value."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The largest value."""
        return max(self.values)

    def minus(self, base: "Series") -> "Series":
        """Take the same round of another series off each round."""
        return Series.of(own - other for own, other in zip(self.values, base.values, strict=True))

    def over(self, base: "Series") -> "Series":
        """Divide each round by the same round of another series: what slowed both down falls out."""
        return Series.of(own / other for own, other in zip(self.values, base.values, strict=True))


def percentile(values: list[float], share: float) -> float:
    """Return the value that this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
