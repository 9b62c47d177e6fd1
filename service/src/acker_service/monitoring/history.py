"""The history of a topology as points: what happened between two samples of its totals. Pure."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from acker_service.redis.functions.history import StoredHistory, Totals

STEP_MS = 5_000
"""The length of a step of time: so often the totals of all topologies are sampled."""

POINTS = 120
"""The most points of a window."""


class Window(StrEnum):
    """How far back a history reaches."""

    TEN_MINUTES = "10m"
    THREE_HOURS = "3h"
    DAY = "1d"
    ALL = "all"


FACTORS = {Window.TEN_MINUTES: 1, Window.THREE_HOURS: 18, Window.DAY: 144}
"""The steps between two points; lua/history.lua has the same in the order of its levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What happened in a topology up to ``at_ms`` since the point before, and what it had then.

    ``p50_ms``, ``p95_ms`` and ``p99_ms`` are percentiles of the complete latencies of the acked
    roots; None without any.
    """

    at_ms: int
    emitted: int
    acked: int
    failed: int
    timed_out: int
    pending: int
    unread: int
    p50_ms: int | None
    p95_ms: int | None
    p99_ms: int | None

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The points of a window, the oldest first; each is about ``step_ms``, that of a whole life about all of it."""

    step_ms: int
    points: list[Point]


def level_of(window: Window) -> int:
    """Return the level of samples of a window."""
    return list(FACTORS).index(window) + 1


def created_at_ms(incarnation: str) -> int:
    """Return when a topology was created: the first twelve digits of its incarnation."""
    return int(incarnation[:12], 16)


def points_of(stored: StoredHistory, *, factor: int, step_ms: int, created_ms: int) -> list[Point]:
    """Return the points of a window, the oldest first.

    A time in which nothing changed has points too. A time in which no worker ran has none: what happened then is in
    the first point after it. Of a topology that is older than the window, what happened before its first sample is not
    known.
    """
    length_ms = factor * step_ms
    first = stored.now_ms // length_ms - POINTS + 1
    before = Totals() if created_ms >= (first - 1) * length_ms else None
    behind = math.inf
    points: list[Point] = []

    def add_quiet(until: float) -> None:
        """Add points of the numbers behind the last sample up to a number, without it: nothing changed."""
        if before is not None and behind < until:
            numbers = range(max(int(behind), first), math.ceil(until))
            points.extend(_between(number * length_ms, before, before) for number in numbers)

    for sample in stored.samples:
        number, last_claimed = sample.step // factor, sample.step - sample.since
        add_quiet(min(number, last_claimed // factor + 1))
        if before is not None and number >= first:
            points.append(_between(number * length_ms, before, sample.totals))
        before, behind = sample.totals, number + 1
    add_quiet(stored.last_step / factor)
    return points


def point_of_all(totals: Totals, at_ms: int) -> Point:
    """Return the one point of a topology's whole life."""
    return _between(at_ms, Totals(), totals)


def percentile(latencies: Mapping[int, int], share: float) -> int | None:
    """Estimate a percentile of latencies that are counted by powers of two: at most 2^e ms, and above 2^(e-1).

    Within a power of two they are taken for evenly spread. None without any.
    """
    rank, below = share * sum(latencies.values()), 0
    for exponent, count in sorted(latencies.items()):
        if count and below + count >= rank:
            least, most = 1 << exponent >> 1 if exponent else 0, 1 << exponent
            return math.ceil(least + (most - least) * (rank - below) / count)
        below += count
    return None


def _between(at_ms: int, before: Totals, after: Totals) -> Point:
    latencies = {
        exponent: max(0, count - before.latencies.get(exponent, 0)) for exponent, count in after.latencies.items()
    }
    return Point(
        at_ms=at_ms,
        emitted=max(0, _emitted(after) - _emitted(before)),
        acked=sum(latencies.values()),
        failed=max(0, after.failed - before.failed),
        timed_out=max(0, after.timed_out - before.timed_out),
        pending=after.pending,
        unread=after.unread,
        p50_ms=percentile(latencies, 0.5),
        p95_ms=percentile(latencies, 0.95),
        p99_ms=percentile(latencies, 0.99),
    )


def _emitted(totals: Totals) -> int:
    """Count all roots whose init came: they have ended, or are pending."""
    return sum(totals.latencies.values()) + totals.failed + totals.timed_out + totals.pending
