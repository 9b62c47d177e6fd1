"""A history is what happened between two samples of totals."""

from dataclasses import replace
from typing import Any

import pytest
from acker_service.monitoring.history import (
    FACTORS,
    POINTS,
    Window,
    created_at_ms,
    level_of,
    percentile,
    point_of_all,
    points_of,
)
from acker_service.redis.functions.history import Sample, StoredHistory, Totals

STEP = 1_000_000
STEP_MS = 10
YOUNG, OLD = STEP * STEP_MS, 0


def sample(step: int, *, since: int = 1, acked: int = 0, **totals: int) -> Sample:
    """The totals ``step`` steps behind the first."""
    return Sample(step=STEP + step, since=since, totals=Totals(latencies={3: acked} if acked else {}, **totals))


def points(*samples: Sample, last: int, now: int | None = None, factor: int = 1, created_ms: int = YOUNG) -> list[Any]:
    """The points, by their steps behind the first."""
    now_ms = (STEP + (last if now is None else now)) * STEP_MS
    stored = StoredHistory(now_ms=now_ms, last_step=STEP + last, samples=list(samples))
    found = points_of(stored, factor=factor, step_ms=STEP_MS, created_ms=created_ms)
    return [(point.at_ms // STEP_MS - STEP, point) for point in found]


def acked(found: list[Any]) -> list[tuple[int, int]]:
    return [(step, point.acked) for step, point in found]


def test_a_point_counts_what_happened_since_the_sample_before() -> None:
    first = sample(1, failed=1, timed_out=2, pending=10, unread=3, acked=4)
    second = sample(2, failed=4, timed_out=2, pending=7, unread=9, acked=9)
    (_, one), (_, other) = points(first, second, last=2)
    assert (one.emitted, one.acked, one.failed, one.timed_out, one.pending, one.unread) == (17, 4, 1, 2, 10, 3)
    assert (other.emitted, other.acked, other.failed, other.timed_out) == (5, 5, 3, 0)
    assert (other.pending, other.unread) == (7, 9)


def test_a_time_without_a_change_has_points_with_what_was_there() -> None:
    found = points(sample(1, acked=4, pending=2), sample(4, acked=5, pending=1), last=6)
    assert acked(found) == [(1, 4), (2, 0), (3, 0), (4, 1), (5, 0)]
    assert [point.pending for _, point in found] == [2, 2, 2, 1, 1]
    assert [(point.p50_ms, point.p99_ms) for _, point in found][1:3] == [(None, None)] * 2


def test_the_step_that_is_being_recorded_has_no_point_yet() -> None:
    assert acked(points(sample(1, acked=1), last=2)) == [(1, 1)]
    assert acked(points(sample(1, acked=1), sample(2, acked=3), last=2)) == [(1, 1), (2, 2)]


def test_a_time_without_a_worker_has_no_points_and_the_next_point_all_that_happened() -> None:
    found = points(sample(1, acked=4), sample(9, since=6, acked=20), last=10)
    assert acked(found) == [(1, 4), (2, 0), (3, 0), (9, 16)]


def test_a_worker_that_is_away_at_the_end_leaves_no_points_there() -> None:
    assert acked(points(sample(1, acked=4), last=3, now=90)) == [(1, 4), (2, 0)]
    assert acked(points(sample(1, acked=4), last=3, now=POINTS + 3)) == []


def test_a_window_ends_and_what_was_before_it_is_taken_off() -> None:
    samples = [sample(step, acked=step) for step in range(1, POINTS + 2)]
    found = acked(points(*samples, last=POINTS + 1, created_ms=OLD))
    assert found == [(step, 1) for step in range(2, POINTS + 2)]


def test_a_sample_from_long_ago_is_what_the_next_is_compared_with() -> None:
    found = acked(points(sample(-5_000_000 + STEP, acked=7), sample(POINTS, acked=9), last=POINTS, created_ms=OLD))
    assert found == [(step, 0) for step in range(1, POINTS)] + [(POINTS, 2)]


def test_what_a_topology_counted_before_its_first_sample_counts_if_it_was_created_in_the_window() -> None:
    assert acked(points(sample(7, acked=9), last=7)) == [(7, 9)]
    assert acked(points(sample(7, acked=9), sample(8, acked=12), last=8, created_ms=OLD)) == [(8, 3)]


def test_totals_that_a_failover_has_put_back_count_nothing() -> None:
    (_, point) = points(sample(1, acked=9, failed=3, timed_out=2), sample(2, acked=5, failed=1), last=2)[1]
    assert (point.emitted, point.acked, point.failed, point.timed_out) == (0, 0, 0, 0)


@pytest.mark.parametrize("factor", [18, 144])
def test_points_of_longer_windows_are_further_apart(factor: int) -> None:
    begins = -STEP % factor
    samples = [sample(begins + n * factor + n % 3, acked=n) for n in range(4)]
    found = acked(points(*samples, last=begins + 5 * factor + 1, factor=factor))
    assert found == [(begins + n * factor, acked) for n, acked in enumerate([0, 1, 1, 1, 0, 0])]


def test_a_short_absence_of_the_worker_leaves_no_gap_in_a_longer_window() -> None:
    begins = -STEP % 18
    found = acked(points(sample(begins, acked=1), sample(begins + 18 * 3, since=20, acked=2), last=0, factor=18))
    assert found == [(begins, 1), (begins + 18, 0), (begins + 54, 1)]


def test_no_samples_are_no_points() -> None:
    assert points(last=9) == []


def test_a_whole_life_is_one_point() -> None:
    totals = Totals(failed=1, timed_out=2, pending=3, unread=4, latencies={0: 5, 3: 5})
    point = point_of_all(totals, 17)
    assert point.document() == {
        "at_ms": 17,
        "emitted": 16,
        "acked": 10,
        "failed": 1,
        "timed_out": 2,
        "pending": 3,
        "unread": 4,
        "p50_ms": 1,
        "p95_ms": 8,
        "p99_ms": 8,
    }


@pytest.mark.parametrize(
    ("latencies", "share", "expected"),
    [
        ({}, 0.5, None),
        ({4: 0}, 0.5, None),
        ({0: 1}, 0.99, 1),
        ({3: 100}, 0.5, 6),
        ({3: 100}, 0.99, 8),
        ({3: 50, 5: 50}, 0.5, 8),
        ({3: 50, 5: 50}, 0.75, 24),
        ({5: 1, 3: 98, 10: 1}, 0.99, 32),
        ({23: 1}, 0.99, 8_346_665),
    ],
)
def test_a_percentile_lies_within_its_power_of_two(
    latencies: dict[int, int], share: float, expected: int | None
) -> None:
    assert percentile(latencies, share) == expected


def test_levels_are_those_of_the_library() -> None:
    assert [level_of(window) for window in FACTORS] == [1, 2, 3]
    assert set(FACTORS) == set(Window) - {Window.ALL}


def test_an_incarnation_begins_with_the_time_of_the_creation() -> None:
    assert created_at_ms(f"{1_790_000_000_123:012x}beef") == 1_790_000_000_123


def test_only_differences_of_latencies_count_for_percentiles() -> None:
    slow = replace(sample(2), totals=Totals(latencies={3: 90, 10: 10}))
    _, (_, point) = points(sample(1, acked=90), slow, last=2)
    assert (point.acked, point.p50_ms) == (10, 768)
