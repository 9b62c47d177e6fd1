"""Tests what a delivery worker knows of the time."""

import time

from acker_service.delivery.worker import ClockReading


def test_a_clock_that_was_read_once_goes_on() -> None:
    assert ClockReading(redis_ms=1_000).now_ms() < 60_000
    assert 6_000 <= ClockReading(redis_ms=1_000, read_s=time.monotonic() - 5).now_ms() < 60_000
