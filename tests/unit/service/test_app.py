"""Tests how the application is put together out of the settings."""

from acker_service.app import load_limits
from acker_service.settings import read_settings


def test_the_largest_body_always_fits_the_memory_for_bodies():
    assert load_limits(read_settings(max_body_bytes=5_000, max_in_flight_bytes=4_999)).max_in_flight_bytes == 5_000
    assert load_limits(read_settings(max_body_bytes=5_000, max_in_flight_bytes=9_000)).max_in_flight_bytes == 9_000
